//! The `retest-bot` program.
fn main() {}
