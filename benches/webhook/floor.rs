//! The bare receivers: axum, a signature check, and as little else as the duty allows.
//!
//! Each mode adds one cost that nobody can avoid, so that a product's own cost shows as a ratio to the mode of the same
//! duty. They keep no record, parse no grammar, write no log and answer nobody.

use std::borrow::Cow;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde::de::IgnoredAny;
use sha2::Sha256;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

use crate::load::SECRET;

/// Rows of one commit, as many as the product allows.
const BATCH_MAX: usize = 512;

/// How much a bare receiver does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Checks the signature.
    Verify,
    /// Also reads the fields that a command bot needs and looks for a `/retest` line.
    Parse,
    /// Also inserts the delivery durably: WAL, `synchronous=FULL`, all that wait in one commit, duplicates told apart.
    Full,
    /// Also sends one re-run request to the stand-in forge: a bot that knows every job beforehand and asks nobody.
    Dispatch,
}

/// Arguments of a bare receiver.
#[derive(Debug, clap::Args)]
pub struct FloorArgs {
    /// How much it does.
    #[arg(long)]
    pub mode: Mode,
    /// Port on 127.0.0.1.
    #[arg(long)]
    pub port: u16,
    /// Database file.
    #[arg(long)]
    pub db: PathBuf,
    /// Port of the stand-in forge.
    #[arg(long, default_value_t = 0)]
    pub forge: u16,
}

struct Floor {
    key: Hmac<Sha256>,
    mode: Mode,
    rows: mpsc::Sender<Row>,
    reruns: mpsc::Sender<u64>,
}

struct Row {
    delivery: String,
    repo: String,
    change: i64,
    comment: i64,
    author: String,
    command: String,
    done: oneshot::Sender<bool>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    action: Cow<'a, str>,
    issue: Issue,
    #[serde(borrow)]
    comment: Comment<'a>,
    #[serde(borrow)]
    repository: Repository<'a>,
}

#[derive(Deserialize)]
struct Issue {
    number: i64,
    pull_request: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Comment<'a> {
    id: i64,
    #[serde(borrow)]
    body: Cow<'a, str>,
    #[serde(borrow)]
    user: User<'a>,
}

#[derive(Deserialize)]
struct User<'a> {
    #[serde(borrow)]
    login: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Repository<'a> {
    #[serde(borrow)]
    full_name: Cow<'a, str>,
}

/// Serves until it is killed.
pub fn run(args: &FloorArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(args))
}

async fn serve(args: &FloorArgs) -> anyhow::Result<()> {
    let (rows, waiting) = mpsc::channel(8_192);
    let (reruns, wanted) = mpsc::channel(8_192);
    if matches!(args.mode, Mode::Full | Mode::Dispatch) {
        let database = open(args).await.context("the database cannot be opened")?;
        tokio::spawn(write_all(database, waiting));
    }
    if args.mode == Mode::Dispatch {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, args.forge)).await?;
        stream.set_nodelay(true)?;
        tokio::spawn(rerun_all(stream, wanted));
    }
    let key = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes())?;
    let floor = Arc::new(Floor { key, mode: args.mode, rows, reruns });
    let router = Router::new().route("/webhook", post(hook)).layer(DefaultBodyLimit::max(26 << 20)).with_state(floor);
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, args.port))).await?;
    Ok(axum::serve(listener, router).await?)
}

async fn hook(State(floor): State<Arc<Floor>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    if !is_authentic(&floor, &headers, &body) {
        return StatusCode::FORBIDDEN;
    }
    if floor.mode == Mode::Verify {
        return StatusCode::ACCEPTED;
    }
    let Ok(event) = serde_json::from_slice::<Event<'_>>(&body) else { return StatusCode::BAD_REQUEST };
    let wanted = event.action == "created" && event.issue.pull_request.is_some();
    let Some(command) = command(&event.comment.body).filter(|_| wanted) else { return StatusCode::ACCEPTED };
    if floor.mode == Mode::Parse {
        return StatusCode::ACCEPTED;
    }
    let job = command.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
    let (done, wait) = oneshot::channel();
    let row = Row {
        delivery: headers.get("x-github-delivery").and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned(),
        repo: event.repository.full_name.into_owned(),
        change: event.issue.number,
        comment: event.comment.id,
        author: event.comment.user.login.into_owned(),
        command: command.to_owned(),
        done,
    };
    if floor.rows.send(row).await.is_err() {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    match wait.await {
        Ok(true) => {
            if floor.mode == Mode::Dispatch {
                floor.reruns.try_send(job).ok();
            }
            StatusCode::ACCEPTED
        }
        Ok(false) => StatusCode::OK,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn is_authentic(floor: &Floor, headers: &HeaderMap, body: &[u8]) -> bool {
    let given = headers.get("x-hub-signature-256").and_then(|v| v.as_bytes().strip_prefix(b"sha256="));
    let mut signature = [0_u8; 32];
    if given.is_none_or(|digits| hex::decode_to_slice(digits, &mut signature).is_err()) {
        return false;
    }
    let mut mac = floor.key.clone();
    mac.update(body);
    mac.verify_slice(&signature).is_ok()
}

fn command(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find(|line| line.split_ascii_whitespace().next() == Some("/retest"))
}

async fn open(args: &FloorArgs) -> sqlx::Result<SqliteConnection> {
    let options = SqliteConnectOptions::new()
        .filename(&args.db)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let mut database = options.connect().await?;
    let table = "CREATE TABLE IF NOT EXISTS deliveries (delivery TEXT PRIMARY KEY, repo TEXT NOT NULL, change INTEGER NOT NULL, \
        comment INTEGER NOT NULL, author TEXT NOT NULL, command TEXT NOT NULL, batch INTEGER NOT NULL) WITHOUT ROWID";
    sqlx::query(table).execute(&mut database).await?;
    Ok(database)
}

/// The one writer: whatever waits goes into one statement, which is its own transaction.
async fn write_all(mut database: SqliteConnection, mut waiting: mpsc::Receiver<Row>) {
    let mut batch = Vec::new();
    let mut number = 0_i64;
    while waiting.recv_many(&mut batch, BATCH_MAX).await > 0 {
        number += 1;
        match write(&mut database, &batch, number).await {
            Ok(new) => {
                for (row, new) in batch.drain(..).zip(new) {
                    row.done.send(new).ok();
                }
            }
            // The senders of the answers go away with the batch, and the requests are told 503.
            Err(_) => batch.clear(),
        }
    }
    database.close().await.ok();
}

async fn write(database: &mut SqliteConnection, batch: &[Row], number: i64) -> sqlx::Result<Vec<bool>> {
    let places = vec!["(?,?,?,?,?,?,?)"; batch.len()].join(",");
    let text = format!("INSERT INTO deliveries VALUES {places} ON CONFLICT DO NOTHING");
    let mut insert = sqlx::query(AssertSqlSafe(text));
    for row in batch {
        insert = insert.bind(&row.delivery).bind(&row.repo).bind(row.change).bind(row.comment);
        insert = insert.bind(&row.author).bind(&row.command).bind(number);
    }
    let inserted = insert.execute(&mut *database).await?.rows_affected();
    if usize::try_from(inserted).is_ok_and(|count| count == batch.len()) {
        return Ok(vec![true; batch.len()]);
    }
    let new: Vec<String> = sqlx::query_scalar("SELECT delivery FROM deliveries WHERE batch = ?")
        .bind(number)
        .fetch_all(&mut *database)
        .await?;
    Ok(batch.iter().map(|row| new.contains(&row.delivery)).collect())
}

/// Sends the re-run requests over one kept-alive connection.
async fn rerun_all(mut stream: TcpStream, mut wanted: mpsc::Receiver<u64>) {
    let mut answer = [0_u8; 4_096];
    while let Some(job) = wanted.recv().await {
        let request = format!(
            "POST /repos/bench/floor/actions/jobs/{job}/rerun HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n\r\n"
        );
        if stream.write_all(request.as_bytes()).await.is_err() || stream.read(&mut answer).await.unwrap_or(0) == 0 {
            return;
        }
    }
}
