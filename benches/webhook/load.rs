//! Sends signed deliveries over kept-alive connections: many at once to load a receiver, or one at a time to time it.
//!
//! Each delivery has its own id and its own signature. Loopback only; every run is bounded in time or in number.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream as StdStream};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

/// The webhook secret of every receiver here.
pub const SECRET: &str = "a6c1f0-bench-0b7de2-webhook-94f3e8-secret";

/// Connections of a closed loop: each sends its next delivery when it has its answer.
pub const CONNECTIONS: usize = 16;

/// Longest wait for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// One delivery.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// `X-GitHub-Event`.
    pub event: &'static str,
    /// `X-GitHub-Delivery`.
    pub id: String,
    /// The body.
    pub body: Vec<u8>,
    /// Whether it is signed with the secret; else the signature is wrong in one bit.
    pub authentic: bool,
}

/// Where deliveries go.
#[derive(Clone, Debug)]
pub struct Target {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// Path of the receiver.
    pub path: &'static str,
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Answers by status code.
    pub statuses: BTreeMap<u16, u64>,
    /// How long it took.
    pub took: Duration,
}

impl Loaded {
    /// All answers.
    pub fn answers(&self) -> u64 {
        self.statuses.values().sum()
    }

    /// Fails unless every answer was a 2xx, or a 4xx when that is wanted.
    pub fn expect(&self, hundreds: u16) -> anyhow::Result<()> {
        if self.statuses.is_empty() || self.statuses.keys().any(|status| status / 100 != hundreds) {
            bail!("expected answers of {hundreds}xx only, got {:?}", self.statuses);
        }
        Ok(())
    }
}

/// The bytes of a request.
fn request(target: &Target, delivery: &Delivery, out: &mut Vec<u8>) {
    let mut signature = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes())
        .map(|mut mac| {
            mac.update(&delivery.body);
            mac.finalize().into_bytes()
        })
        .unwrap_or_default();
    if !delivery.authentic {
        signature[0] ^= 1;
    }
    out.clear();
    out.extend_from_slice(
        format!(
            "POST {} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\naccept: */*\r\nuser-agent: GitHub-Hookshot/bench\r\n\
             content-type: application/json\r\nx-github-event: {}\r\nx-github-delivery: {}\r\nx-github-hook-id: 401\r\n\
             x-hub-signature-256: sha256={}\r\ncontent-length: {}\r\n\r\n",
            target.path,
            target.port,
            delivery.event,
            delivery.id,
            hex::encode(signature),
            delivery.body.len()
        )
        .as_bytes(),
    );
    out.extend_from_slice(&delivery.body);
}

/// Status and whole length of the answer at the start of `bytes`, once it is there.
fn answer_in(bytes: &[u8]) -> Option<(u16, usize)> {
    let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..head_end]).ok()?;
    let status = head.get(9..12)?.parse().ok()?;
    let mut length = 0;
    for line in head.lines().skip(1) {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            // Answers in pieces are small here: the last piece is empty.
            return bytes.ends_with(b"0\r\n\r\n").then_some((status, bytes.len()));
        }
    }
    (bytes.len() >= head_end + length).then_some((status, head_end + length))
}

/// One connection for deliveries that are timed one by one.
#[derive(Debug)]
pub struct Line {
    target: Target,
    stream: StdStream,
    used: Instant,
    buffer: Vec<u8>,
}

/// A receiver closes a connection that is silent for its header timeout, 10 s; one that may be is made anew.
const SILENT_MAX: Duration = Duration::from_secs(5);

impl Line {
    /// Connects.
    pub fn open(target: Target) -> std::io::Result<Self> {
        let stream = connect(&target)?;
        Ok(Self { target, stream, used: Instant::now(), buffer: Vec::new() })
    }

    /// Sends one delivery, and gives back when its first byte left and the status of the answer.
    pub fn send(&mut self, delivery: &Delivery) -> anyhow::Result<(Instant, u16)> {
        if self.used.elapsed() > SILENT_MAX {
            self.stream = connect(&self.target)?;
        }
        request(&self.target, delivery, &mut self.buffer);
        let sent = Instant::now();
        self.used = sent;
        self.stream.write_all(&self.buffer)?;
        self.buffer.clear();
        let mut piece = [0_u8; 4_096];
        loop {
            let read = self.stream.read(&mut piece).context("no answer")?;
            if read == 0 {
                bail!("the receiver closed the connection");
            }
            self.buffer.extend_from_slice(&piece[..read]);
            if let Some((status, _)) = answer_in(&self.buffer) {
                return Ok((sent, status));
            }
        }
    }
}

fn connect(target: &Target) -> std::io::Result<StdStream> {
    let stream = StdStream::connect((Ipv4Addr::LOCALHOST, target.port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    Ok(stream)
}

/// A closed loop over some connections.
struct Loop<S> {
    target: Target,
    source: S,
    until: Option<Instant>,
    next: Cell<u64>,
    statuses: RefCell<BTreeMap<u16, u64>>,
}

/// Sends what `source` makes for 0, 1, 2 … until it makes nothing, or for `time`.
pub fn drive(
    target: &Target,
    time: Option<Duration>,
    source: impl Fn(u64) -> Option<Delivery> + 'static,
) -> anyhow::Result<Loaded> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let started = Instant::now();
    let all = Rc::new(Loop {
        target: target.clone(),
        source,
        until: time.map(|time| started + time),
        next: Cell::new(0),
        statuses: RefCell::default(),
    });
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let tasks: Vec<_> = (0..CONNECTIONS).map(|_| tokio::task::spawn_local(worker(Rc::clone(&all)))).collect();
        for task in tasks {
            task.await??;
        }
        anyhow::Ok(())
    })?;
    let statuses = all.statuses.take();
    Ok(Loaded { statuses, took: started.elapsed() })
}

async fn worker<S: Fn(u64) -> Option<Delivery>>(all: Rc<Loop<S>>) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, all.target.port)).await?;
    stream.set_nodelay(true)?;
    let (mut out, mut got) = (Vec::new(), Vec::with_capacity(4_096));
    while all.until.is_none_or(|until| Instant::now() < until) {
        let number = all.next.replace(all.next.get() + 1);
        let Some(delivery) = (all.source)(number) else { break };
        request(&all.target, &delivery, &mut out);
        let status = tokio::time::timeout(ANSWER_MAX, exchange(&mut stream, &out, &mut got)).await??;
        *all.statuses.borrow_mut().entry(status).or_default() += 1;
    }
    Ok(())
}

async fn exchange(stream: &mut TcpStream, out: &[u8], got: &mut Vec<u8>) -> anyhow::Result<u16> {
    stream.write_all(out).await?;
    loop {
        if let Some((status, length)) = answer_in(got) {
            got.drain(..length);
            return Ok(status);
        }
        if stream.read_buf(got).await? == 0 {
            bail!("the receiver closed the connection");
        }
    }
}
