//! Stories: claims about the whole bot, played through HTTP against a stateful forge and a lab, with a hand-set clock
//! and a real database. Each claim is played on both forges.

mod acts;
mod answers;
mod chains;
mod crashes;
mod flake_words;
mod flakes;
mod following;
mod github_only;
mod gitlab_only;
mod issues;
mod keys;
mod lab;
mod limits;
mod policies;
mod retests;
mod stage;
mod troubles;

/// Plays each claim on GitHub and on GitLab, as a test each.
macro_rules! on_both_forges {
    ($($claim:ident),* $(,)?) => {
        mod on_github {
            $(#[tokio::test]
            async fn $claim() { Box::pin(super::$claim(super::Side::GitHub)).await; })*
        }
        mod on_gitlab {
            $(#[tokio::test]
            async fn $claim() { Box::pin(super::$claim(super::Side::GitLab)).await; })*
        }
    };
}
pub(crate) use on_both_forges;
pub(crate) use stage::{HEAD, LAVA_TOKEN, NEXT, SECRET, START_MS, Script, Side, Stage};
