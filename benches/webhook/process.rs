//! The receivers as processes: started on one core, measured from outside, ended by their own id.
//!
//! The figure to compare is the time on a processor that the kernel counts for each thread, in nanoseconds: unlike
//! requests per second and latencies it hardly depends on what else the machine does.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::floor::Mode;
use crate::load::{Delivery, Line, SECRET, Target};

/// The release binary that is measured.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_retest-bot");

/// The webhook path of the bot.
pub const BOT_PATH: &str = "/webhooks/github";

/// Longest wait for a receiver to accept its first delivery.
const START_MAX: Duration = Duration::from_secs(30);

/// The core of the receivers; the driver and its generator run on the next one.
const CORE: &str = "0";

fn can_pin() -> bool {
    std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
        && Command::new("taskset").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Moves this process to a core of its own, where the machine has two and util-linux is there.
pub fn pin_driver() {
    if can_pin() {
        let me = std::process::id().to_string();
        Command::new("taskset").args(["-cp", "1", &me]).stdout(Stdio::null()).status().ok();
    }
}

/// A command that runs on the receivers' core. The driver is pinned by now, so that one core is all it sees.
fn on_core(program: &Path) -> Command {
    let pinned = Command::new("taskset").args(["-c", CORE, "true"]).status().is_ok_and(|status| status.success());
    if !pinned {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["-c", CORE]).arg(program);
    command
}

/// A folder of its own, empty.
pub fn fresh_folder(name: &str) -> anyhow::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-webhook").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// A port that was free a moment ago.
pub fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A running receiver. Dropped, it is ended.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it takes deliveries.
    pub target: Target,
    started: Instant,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Not asked to drain: the stand-in forge may be one that never answers.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Server {
    /// Starts a command whose log goes into the folder.
    pub fn spawn(mut command: Command, folder: &Path, target: Target) -> anyhow::Result<Self> {
        let log = fs::File::options().create(true).append(true).open(folder.join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let started = Instant::now();
        let child = command.spawn().with_context(|| format!("{command:?} cannot be started"))?;
        Ok(Self { child, target, started })
    }

    /// A bare receiver.
    pub fn floor(mode: Mode, folder: &Path, forge: u16) -> anyhow::Result<Self> {
        let port = free_port()?;
        let word = match mode {
            Mode::Verify => "verify",
            Mode::Parse => "parse",
            Mode::Full => "full",
            Mode::Dispatch => "dispatch",
        };
        let mut command = on_core(&std::env::current_exe()?);
        command.args(["floor", "--mode", word, "--port", &port.to_string(), "--forge", &forge.to_string(), "--db"]);
        command.arg(folder.join("floor.db"));
        Self::spawn(command, folder, Target { port, path: "/webhook" })
    }

    /// The bot, as `retest-bot serve` runs with its defaults, but for the pause between writes.
    pub fn bot(folder: &Path, forge: u16) -> anyhow::Result<Self> {
        let port = free_port()?;
        let config = folder.join("retest-bot.toml");
        fs::write(&config, configuration(port, folder, forge))?;
        let mut command = on_core(Path::new(PROGRAM));
        command.arg("serve").arg("--config").arg(config);
        command.env("BENCH_WEBHOOK_SECRET", SECRET).env("BENCH_TOKEN", "ghp_bench0token0of0no0use0anywhere0000");
        Self::spawn(command, folder, Target { port, path: BOT_PATH })
    }

    /// A receiver of somebody else, given its port in `PORT`.
    pub fn peer(program: &str, folder: &Path, configure: impl FnOnce(&mut Command)) -> anyhow::Result<Self> {
        let port = free_port()?;
        let mut command = on_core(Path::new(program));
        command.current_dir(folder).env("PORT", port.to_string());
        configure(&mut command);
        Self::spawn(command, folder, Target { port, path: "/webhook" })
    }

    /// Sends a delivery again and again until it is accepted, and gives back how long after the start that was.
    pub fn first_accepted(&mut self, delivery: &Delivery) -> anyhow::Result<Duration> {
        while self.started.elapsed() < START_MAX {
            if let Some(status) = self.child.try_wait()? {
                bail!("a receiver ended by itself: {status}; see its `log` below {}", env!("CARGO_TARGET_TMPDIR"));
            }
            match Line::open(self.target.clone()).map(|mut line| line.send(delivery)) {
                Ok(Ok((_, 200..300))) => return Ok(self.started.elapsed()),
                Ok(Ok((_, status))) => bail!("the first delivery was answered with {status}"),
                Ok(Err(_)) | Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        bail!("a receiver did not accept a delivery within {START_MAX:?}")
    }

    /// Time on a processor so far, of all its threads, in microseconds.
    pub fn cpu_us(&self) -> anyhow::Result<f64> {
        let mut nanoseconds = 0_u64;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            // A thread may end in between.
            let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
            nanoseconds += text.split_ascii_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(nanoseconds as f64 / 1_000.0)
    }

    /// Resident memory now, in MiB.
    pub fn resident_mib(&self) -> anyhow::Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib / 1_024.0)
    }
}

/// Follow polls are put off, so that only what a command causes is counted; all else is the default.
fn configuration(port: u16, folder: &Path, forge: u16) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:{port}\"\n\
         [store]\npath = \"{}\"\n\
         [[forge]]\nname = \"github\"\nkind = \"github\"\napi_url = \"http://127.0.0.1:{forge}\"\n\
         webhook_secrets = [{{ env = \"BENCH_WEBHOOK_SECRET\" }}]\ntoken = {{ env = \"BENCH_TOKEN\" }}\n\
         bot_login = \"bench-bot\"\npause_between_writes = \"0s\"\nrequest_timeout = \"5m\"\n\
         [[runner]]\nname = \"actions\"\nkind = \"github_actions\"\npoll_min = \"5m\"\npoll_max = \"5m\"\n",
        folder.join("retest-bot.db").display()
    )
}

/// Bytes of the database and of its log, and when the log was last written.
pub fn database_state(folder: &Path) -> anyhow::Result<(u64, u64, std::time::SystemTime)> {
    let file = fs::metadata(folder.join("retest-bot.db"))?;
    let log = fs::metadata(folder.join("retest-bot.db-wal"))?;
    Ok((file.len(), log.len(), log.modified()?))
}

/// What the figures were measured on.
pub fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown processor");
    let cores = info.matches("processor\t").count();
    let load = read("/proc/loadavg");
    let load = load.split_ascii_whitespace().next().unwrap_or("?").to_owned();
    format!("machine: {cores} cores,{}; load average at the end {load}", model.trim_start_matches(['\t', ':']))
}
