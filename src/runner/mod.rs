//! The runners: one file or folder per module, each implements [`crate::ports::Runner`].
//!
//! A runner never imports a forge or another runner; what two of them share lives in `api/` or `ports/`.

pub mod github_actions;
