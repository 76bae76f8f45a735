//! Secrets: where they are read from, and which are refused.
//!
//! A secret is pointed to (`{ env = "NAME" }` or `{ file = "PATH" }`), read once, and kept where `Debug` cannot show it. Refused:
//! empty ones, ones with blanks, short ones, ones from manuals and tutorials. **Invariant:** no fault text quotes a value.
//! Read next: `forge.rs`, which says which secrets a forge needs.

use super::check::Check;
use super::raw;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Fewest bytes of a webhook secret: 24 random letters and digits are past guessing.
pub const WEBHOOK_SECRET_BYTES_MIN: usize = 24;
/// Bytes of a decoded signing key (Standard Webhooks as GitLab uses it).
pub const SIGNING_KEY_BYTES: usize = 32;
/// Fewest different bytes a webhook secret may consist of; random text of 24 has far more.
const DIFFERENT_BYTES_MIN: usize = 6;
/// Largest secret file read, in bytes. A private key of 8,192 bits needs 7 KiB.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Secrets that are printed in manuals, defaults and test vectors, in lower case.
const WELL_KNOWN: [&str; 17] = [
    "it's a secret to everybody",
    "development",
    "secret",
    "secrets",
    "supersecret",
    "super-secret",
    "mysecret",
    "my-secret",
    "my_secret",
    "webhook-secret",
    "webhook_secret",
    "webhooksecret",
    "password",
    "token",
    "test",
    "default",
    "whsec_dgvzdhrlc3r0zxn0dgvzdhrlc3r0zxn0dgvzdhrlc3q=",
];
/// Parts that mark a value as one to be replaced, in lower case.
const TO_BE_REPLACED: [&str; 5] = ["changeme", "change-me", "change_me", "replace-me", "replaceme"];

/// Where secrets are read from.
pub trait Secrets {
    /// The environment variable `name`, if it is set to text.
    fn env(&self, name: &str) -> Option<String>;

    /// The text of the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read, is not UTF-8 or is larger than a secret can be.
    fn file(&self, path: &Path) -> io::Result<String>;
}

/// The process's own environment and file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemSecrets;

impl Secrets for SystemSecrets {
    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &Path) -> io::Result<String> {
        use io::Read;
        let mut text = String::new();
        let file = std::fs::File::open(path)?;
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(io::Error::other("larger than 64 KiB"));
        }
        Ok(text)
    }
}

/// Given secrets, by variable name or file path: for the demo and for tests.
impl Secrets for BTreeMap<String, String> {
    fn env(&self, name: &str) -> Option<String> {
        self.get(name).cloned()
    }

    fn file(&self, path: &Path) -> io::Result<String> {
        self.get(&path.to_string_lossy().into_owned()).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// A secret that was read and accepted.
#[derive(Debug, Clone)]
pub struct Secret {
    id: Option<String>,
    value: SecretString,
}

impl Secret {
    /// The operator's name for it, for logs and metrics.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The secret itself; expose it only where it is used.
    pub fn value(&self) -> &SecretString {
        &self.value
    }
}

/// The key of signed GitLab webhooks: the 32 bytes behind `whsec_`.
#[derive(Debug, Clone)]
pub struct SigningKey {
    id: Option<String>,
    token: SecretString,
    key: SecretSlice<u8>,
}

impl SigningKey {
    /// The operator's name for it, for logs and metrics.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The whole token, `whsec_` included.
    pub fn token(&self) -> &SecretString {
        &self.token
    }

    /// The decoded key, 32 bytes; expose it only where it is used.
    pub fn key(&self) -> &SecretSlice<u8> {
        &self.key
    }
}

/// What a secret is for, which decides what it must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Shared with the webhooks of a forge.
    Webhook,
    /// An access token that somebody else issued.
    Token,
    /// A private key in PEM form.
    PrivateKey,
}

impl Check<'_> {
    /// Reads and checks the secret that `raw` points to.
    pub fn secret(&mut self, path: &str, raw: &raw::Secret, purpose: Purpose) -> Option<Secret> {
        let value = self.read_secret(path, raw)?;
        let problem = match purpose {
            Purpose::Webhook => webhook_problem(&value),
            Purpose::Token => token_problem(&value),
            Purpose::PrivateKey => private_key_problem(&value),
        };
        if let Some((text, hint)) = problem {
            self.fault(path, text, hint);
            return None;
        }
        Some(Secret { id: self.secret_id(path, raw), value: SecretString::from(value) })
    }

    /// Reads and checks several secrets that serve the same purpose side by side.
    pub fn secrets(&mut self, path: &str, raws: &[raw::Secret], purpose: Purpose) -> Vec<Secret> {
        let mut secrets: Vec<Secret> = Vec::new();
        for (i, raw) in raws.iter().enumerate() {
            let path = format!("{path}[{i}]");
            let Some(secret) = self.secret(&path, raw, purpose) else {
                continue;
            };
            let value = secret.value.expose_secret();
            if secrets.iter().any(|s| s.value.expose_secret() == value) {
                self.fault(&path, "is the same secret as an earlier one", "remove it, or point it to the new secret");
            }
            secrets.push(secret);
        }
        self.distinct_ids(path, raws);
        secrets
    }

    /// Reads and checks GitLab signing tokens.
    pub fn signing_keys(&mut self, path: &str, raws: &[raw::Secret]) -> Vec<SigningKey> {
        let mut keys = Vec::new();
        for (i, raw) in raws.iter().enumerate() {
            let path = format!("{path}[{i}]");
            let Some(value) = self.read_secret(&path, raw) else {
                continue;
            };
            match decode_signing_key(&value) {
                Ok(key) => {
                    let id = self.secret_id(&path, raw);
                    keys.push(SigningKey { id, token: SecretString::from(value), key });
                }
                Err((text, hint)) => self.fault(&path, text, hint),
            }
        }
        self.distinct_ids(path, raws);
        keys
    }

    /// The value that `raw` points to, without one newline at its end.
    fn read_secret(&mut self, path: &str, raw: &raw::Secret) -> Option<String> {
        let mut value = match (&raw.env, &raw.file) {
            (Some(name), None) => {
                let value = self.secrets.env(name);
                if value.is_none() {
                    self.fault(
                        path,
                        format!("the environment variable `{name}` is not set"),
                        "set it for this process, or use { file = \"PATH\" }",
                    );
                }
                value?
            }
            (None, Some(file)) => match self.secrets.file(Path::new(file)) {
                Ok(value) => value,
                Err(error) => {
                    self.fault(
                        path,
                        format!("cannot read `{file}`: {error}"),
                        "create the file, readable for this process only",
                    );
                    return None;
                }
            },
            _ => {
                self.fault(
                    path,
                    "needs exactly one of `env` and `file`",
                    "write { env = \"NAME\" } or { file = \"/run/secrets/NAME\" }",
                );
                return None;
            }
        };
        if value.ends_with('\n') {
            value.pop();
            if value.ends_with('\r') {
                value.pop();
            }
        }
        if value.is_empty() {
            self.fault(path, "the secret is empty", "put the secret where this points to");
            return None;
        }
        Some(value)
    }

    fn secret_id(&mut self, path: &str, raw: &raw::Secret) -> Option<String> {
        let id = raw.id.as_ref()?;
        Some(self.slug(&format!("{path}.id"), id))
    }

    fn distinct_ids(&mut self, path: &str, raws: &[raw::Secret]) {
        let ids = raws.iter().enumerate().filter_map(|(i, raw)| {
            let id = raw.id.as_deref()?;
            Some((format!("{path}[{i}].id"), id))
        });
        self.distinct(ids, "secret");
    }
}

/// What is wrong with a secret and what to do, never with its value.
type Problem = (&'static str, &'static str);

const MAKE_ONE: &str = "make a random one: `openssl rand -hex 32`";

fn webhook_problem(value: &str) -> Option<Problem> {
    if is_well_known(value) {
        Some(("is a well-known secret that anybody can guess", MAKE_ONE))
    } else if has_blank(value) {
        Some(("the secret has a blank or control character in it", MAKE_ONE))
    } else if value.len() < WEBHOOK_SECRET_BYTES_MIN {
        Some(("the secret is shorter than 24 bytes", MAKE_ONE))
    } else if different_bytes(value.as_bytes()) < DIFFERENT_BYTES_MIN {
        Some(("the secret repeats a few characters and can be guessed", MAKE_ONE))
    } else {
        None
    }
}

fn token_problem(value: &str) -> Option<Problem> {
    let hint = "copy the token again from where it was issued";
    if is_well_known(value) {
        Some(("is a stand-in, not a token", hint))
    } else if has_blank(value) {
        Some(("the token has a blank or control character in it", hint))
    } else if !value.is_ascii() {
        Some(("the token has a character that no HTTP header can carry", hint))
    } else {
        None
    }
}

fn private_key_problem(value: &str) -> Option<Problem> {
    let value = value.trim();
    let header = value.lines().next().unwrap_or_default();
    let is_key = header.starts_with("-----BEGIN ") && header.ends_with(" PRIVATE KEY-----");
    if is_key && header.contains("ENCRYPTED") {
        return Some(("is a private key behind a passphrase", "use the .pem file as GitHub gave it out"));
    }
    if !is_key || !value.contains("-----END ") {
        return Some((
            "is not a private key in PEM form",
            "use the .pem file that GitHub gave out for the App, whole and unchanged",
        ));
    }
    None
}

/// The key behind `whsec_`.
fn decode_signing_key(value: &str) -> Result<SecretSlice<u8>, Problem> {
    let hint = "copy the signing token again: `whsec_` and base64 of 32 random bytes";
    if is_well_known(value) {
        return Err(("is a well-known signing token that anybody can use", hint));
    }
    let Some(encoded) = value.strip_prefix("whsec_") else {
        return Err(("the signing token does not start with `whsec_`", hint));
    };
    let Ok(key) = STANDARD.decode(encoded) else {
        return Err(("the signing token is not base64 after `whsec_`", hint));
    };
    if key.len() != SIGNING_KEY_BYTES {
        return Err(("the signing token does not hold 32 bytes", hint));
    }
    if different_bytes(&key) < DIFFERENT_BYTES_MIN {
        return Err(("the signing token repeats a few bytes and can be guessed", hint));
    }
    Ok(SecretSlice::from(key))
}

fn is_well_known(value: &str) -> bool {
    let value = value.trim().to_lowercase();
    WELL_KNOWN.contains(&value.as_str()) || TO_BE_REPLACED.iter().any(|part| value.contains(part))
}

fn has_blank(value: &str) -> bool {
    value.chars().any(|c| c.is_whitespace() || c.is_control())
}

fn different_bytes(value: &[u8]) -> usize {
    let mut seen = [false; 256];
    value.iter().for_each(|b| seen[usize::from(*b)] = true);
    seen.iter().filter(|s| **s).count()
}
