//! The `retest-bot` program: arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    retest_bot::cli::run()
}
