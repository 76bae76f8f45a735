//! Finds and ends the processes of a run, those that left its group or session too.
//!
//! The supervisor is a subreaper (`prctl(2)`): whatever a run starts stays below it in the tree of processes, however
//! often it forks. It refuses to touch a process that it did not just see there: a number that was given to somebody
//! else in between is not signalled.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};

/// How long processes that were killed may take to go; one that hangs in the kernel goes when it can.
const KILLED_WAIT_MAX: Duration = Duration::from_secs(10);

/// Pause between two looks at dying processes.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// A process as `/proc/PID/stat` shows it (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    /// When it started, in clock ticks since boot: pid and start together never name two processes.
    start: u64,
    /// Dead, and only waiting to be collected.
    dead: bool,
}

/// Collects every dead child, and says how `main` ended when it was among them.
pub(super) fn reap(main: Pid) -> Option<WaitStatus> {
    let mut found = None;
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid == main {
            found = Some(status);
        }
    }
    found
}

/// Ends everything below this process: TERM, `grace` to end by itself, then KILL until nothing is left.
/// Says how `main` ended when it did so only now.
pub(super) fn end_all(main: Pid, grace: Duration) -> Option<WaitStatus> {
    let me = rustix::process::getpid();
    let mut status = reap(main);
    signal(&below(me), Signal::TERM);
    let patience = Instant::now() + grace;
    let end = patience + KILLED_WAIT_MAX;
    loop {
        status = reap(main).or(status);
        let left = below(me);
        if left.is_empty() || Instant::now() >= end {
            return status;
        }
        if Instant::now() >= patience {
            signal(&left, Signal::KILL);
        }
        std::thread::sleep(LOOK_PAUSE);
    }
}

/// Kills what a run left whose supervisor is gone: the processes that carry its key in their environment, and
/// everything below them.
pub(super) fn kill_leftovers(key: &str) {
    let all = table();
    let variable = format!("RETEST_KEY={key}");
    let me = rustix::process::getpid().as_raw_pid();
    let carriers = all.iter().filter(|p| p.pid != me && carries(p.pid, &variable)).map(|p| p.pid).collect();
    let mut left = closure(&all, carriers);
    left.retain(|p| p.pid != me);
    signal(&left, Signal::KILL);
}

fn carries(pid: i32, variable: &str) -> bool {
    std::fs::read(Path::new("/proc").join(pid.to_string()).join("environ"))
        .is_ok_and(|bytes| bytes.split(|b| *b == 0).any(|entry| entry == variable.as_bytes()))
}

/// The living processes below `root`, `root` itself left out.
fn below(root: Pid) -> Vec<Process> {
    let root = root.as_raw_pid();
    let mut all = closure(&table(), BTreeSet::from([root]));
    all.retain(|p| p.pid != root && !p.dead);
    all
}

/// The processes of `roots` and all below them.
fn closure(all: &[Process], roots: BTreeSet<i32>) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut inside = roots.clone();
    let mut open: Vec<i32> = roots.into_iter().collect();
    while let Some(pid) = open.pop() {
        open.extend(children.get(&pid).into_iter().flatten().filter(|child| inside.insert(**child)));
    }
    all.iter().filter(|p| inside.contains(&p.pid)).copied().collect()
}

fn signal(processes: &[Process], signal: Signal) {
    for process in processes {
        let Some(pid) = Pid::from_raw(process.pid) else { continue };
        // The descriptor pins the process; then a second look makes sure that it is the one that was seen.
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) if read(process.pid).is_some_and(|now| now.start == process.start) => {
                rustix::process::pidfd_send_signal(fd, signal).ok();
            }
            // A kernel before 5.3 or a sandbox without the call: the plain way, a moment less safe.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
                rustix::process::kill_process(pid, signal).ok();
            }
            Ok(_) | Err(_) => {}
        }
    }
}

fn table() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| read(entry.file_name().to_str()?.parse().ok()?)).collect()
}

fn read(pid: i32) -> Option<Process> {
    let stat = std::fs::read(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    parse(pid, &String::from_utf8_lossy(&stat))
}

/// Fields are counted after the last `)`: the program's name before it may hold anything.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split_ascii_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X" | "x");
    let parent = fields.next()?.parse().ok()?;
    // Field 4 was the parent; the start is field 22.
    let start = fields.nth(17)?.parse().ok()?;
    Some(Process { pid, parent, start, dead })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_cannot_forge_its_line_in_the_process_table() {
        let rest = "S 7 9 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 1";
        let expected = Process { pid: 42, parent: 7, start: 12_345, dead: false };
        for name in ["sh", "a) Z 1 2 (b", "x y"] {
            assert_eq!(parse(42, &format!("42 ({name}) {rest}")), Some(expected), "{name}");
        }
        assert_eq!(parse(42, "42 (sh"), None);
    }

    #[test]
    fn everything_below_a_process_is_found_and_nothing_beside_it() {
        let process = |pid, parent| Process { pid, parent, start: 0, dead: false };
        let all = [process(2, 1), process(3, 2), process(4, 3), process(5, 1), process(6, 5), process(1, 0)];
        let pids: Vec<i32> = closure(&all, BTreeSet::from([2])).iter().map(|p| p.pid).collect();
        assert_eq!(pids, [2, 3, 4]);
    }

    #[test]
    fn this_very_process_stands_in_the_table() {
        let me = rustix::process::getpid().as_raw_pid();
        assert!(table().iter().any(|p| p.pid == me && !p.dead));
    }
}
