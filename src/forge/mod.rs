//! The forges: each folder translates one kind of forge into our words and implements [`crate::ports::Forge`].
//!
//! A forge never imports a runner or another forge; what two of them share lives in `api/` or `ports/`.

pub mod github;
pub mod gitlab;
