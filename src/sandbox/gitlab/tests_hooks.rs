//! The sandbox behaves as GitLab does.
