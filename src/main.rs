//! The `retest-bot` program.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["exec-supervise", dir] => retest_bot::runner::exec::supervise(Path::new(dir)),
        _ => ExitCode::FAILURE,
    }
}
