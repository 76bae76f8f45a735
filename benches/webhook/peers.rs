//! A peer in the same run: a minimal app on Probot, installed by npm below the target folder when it is asked for.
//!
//! It verifies, reads the whole payload and matches the command, as its framework does; it stores nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::load::SECRET;
use crate::process::Server;

const APP: &str = include_str!("probot.mjs");

const PACKAGE: &str =
    r#"{ "name": "bench-probot", "private": true, "type": "module", "dependencies": { "probot": "14.3.2" } }"#;

/// Writes a key that Probot wants to start; nothing is ever signed with it.
const MAKE_KEY: &str = "const { generateKeyPairSync } = require('node:crypto');\
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });\
    require('node:fs').writeFileSync('key.pem', privateKey.export({ type: 'pkcs1', format: 'pem' }));";

/// An installed Probot.
#[derive(Debug)]
pub struct Probot {
    folder: PathBuf,
}

impl Probot {
    /// Installs it, unless it is there from an earlier run.
    pub fn install() -> anyhow::Result<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-peers").join("probot");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("main.mjs"), APP)?;
        let package = folder.join("package.json");
        let current = fs::read_to_string(&package).is_ok_and(|text| text == PACKAGE);
        if !current || !folder.join("key.pem").exists() {
            eprintln!("installing Probot below {}", folder.display());
            fs::write(&package, PACKAGE)?;
            run(&folder, "npm", &["install", "--omit=dev", "--no-audit", "--no-fund", "--silent"])?;
            run(&folder, "node", &["--eval", MAKE_KEY])?;
        }
        Ok(Self { folder })
    }

    /// Starts the app.
    pub fn start(&self) -> anyhow::Result<Server> {
        Server::peer("node", &self.folder, |command| {
            command.arg("main.mjs").env("NODE_ENV", "production").env("WEBHOOK_SECRET", SECRET);
            command.env("APP_ID", "1").env("PRIVATE_KEY_PATH", "key.pem").env("HOST", "127.0.0.1");
            command.env("WEBHOOK_PATH", "/webhook").env("LOG_LEVEL", "warn").env("LOG_FORMAT", "json");
        })
    }
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new(program).args(arguments).current_dir(folder).status();
    let status = status.with_context(|| format!("{program} cannot be started; --peers needs Node.js with npm"))?;
    if !status.success() {
        bail!("{program} failed: {status}");
    }
    Ok(())
}
