//! What only GitLab has.
