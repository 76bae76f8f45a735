//! `[[forge]]`, checked: where a forge is, how its deliveries are verified, and how we act on it.
//!
//! Refused: a forge without a way to verify deliveries, keys of the other kind, two ways to act at once, addresses that are
//! the web page instead of the API. Read next: `secret.rs` for the secrets, `runner.rs` for what runs the jobs.

use super::check::{Check, MINUTE, RepositoryGlobs};
use super::general;
use super::raw;
use super::secret::{Purpose, Secret, SigningKey};
use super::words::ForgeKind;
use secrecy::ExposeSecret;
use std::time::Duration;
use url::Url;

const GITHUB_API: &str = "https://api.github.com";
const GITLAB: &str = "https://gitlab.com";

/// One GitHub or GitLab instance.
#[derive(Debug, Clone)]
pub struct Forge {
    /// Our name for it; its webhooks arrive at `/webhooks/NAME`.
    pub name: String,
    /// GitHub: base of the REST API. GitLab: the instance with its path prefix, without `/api/v4`.
    /// No slash at the end of the path, save the bare host's.
    pub api_url: Url,
    /// What people open in a browser, without a slash likewise.
    pub web_url: Url,
    /// Repositories that a verified delivery may touch.
    pub repositories: RepositoryGlobs,
    /// Time for one call.
    pub request_timeout: Duration,
    /// The login we act as; `None`: ask the forge.
    pub bot_login: Option<String>,
    /// Pause between two writes; zero for none.
    pub pause_between_writes: Duration,
    /// What only one kind of forge has.
    pub kind: ForgeDetails,
}

/// What only one kind of forge has.
#[derive(Debug, Clone)]
pub enum ForgeDetails {
    /// GitHub.
    Github(Github),
    /// GitLab.
    Gitlab(Gitlab),
}

impl Forge {
    /// Which software it runs.
    pub fn kind(&self) -> ForgeKind {
        match self.kind {
            ForgeDetails::Github(_) => ForgeKind::Github,
            ForgeDetails::Gitlab(_) => ForgeKind::Gitlab,
        }
    }
}

/// What only GitHub has.
#[derive(Debug, Clone)]
pub struct Github {
    /// How we act.
    pub auth: GithubAuth,
    /// Secrets any one of which verifies a delivery; at least one.
    pub webhook_secrets: Vec<Secret>,
    /// Value of `X-GitHub-Api-Version`.
    pub api_version: String,
}

/// How we act on GitHub.
#[derive(Debug, Clone)]
pub enum GithubAuth {
    /// As an App, with installation tokens.
    App {
        /// The App's number.
        id: u64,
        /// Its private key in PEM form.
        private_key: Secret,
    },
    /// As a user, with an access token.
    Token(Secret),
}

/// What only GitLab has.
#[derive(Debug, Clone)]
pub struct Gitlab {
    /// The access token we act with.
    pub token: Secret,
    /// Plain tokens any one of which verifies a delivery.
    pub webhook_tokens: Vec<Secret>,
    /// Signing keys any one of which verifies a delivery. Of the two lists at least one is not empty.
    pub signing_keys: Vec<SigningKey>,
}

/// Checks all of `[[forge]]`.
pub(super) fn forges(check: &mut Check<'_>, raw: &[raw::Forge]) -> Vec<Forge> {
    if raw.is_empty() {
        check.fault(
            "forge",
            "there is no forge to serve",
            "add a section [[forge]] with `name`, `kind` and its secrets",
        );
    }
    let names = raw.iter().enumerate().filter_map(|(i, forge)| {
        let name = forge.name.as_deref()?;
        Some((format!("forge[{i}].name"), name))
    });
    check.distinct(names, "forge");
    let forges: Vec<Forge> =
        raw.iter().enumerate().filter_map(|(i, raw)| forge(check, &format!("forge[{i}]"), raw)).collect();
    warn_of_shared_secrets(check, &forges);
    forges
}

fn forge(check: &mut Check<'_>, path: &str, raw: &raw::Forge) -> Option<Forge> {
    let at = |key: &str| format!("{path}.{key}");
    let name = check
        .needed(&at("name"), raw.name.as_ref(), "choose one, such as `github`; webhooks arrive at /webhooks/NAME")
        .map(|name| check.slug(&at("name"), name));
    let kind = check.needed(&at("kind"), raw.kind, "write `kind = \"github\"` or `kind = \"gitlab\"`");
    let repositories = check.repositories(&at("repositories"), &raw.repositories);
    let request_timeout =
        check.duration(&at("request_timeout"), &raw.request_timeout, Duration::from_millis(100)..=5 * MINUTE);
    let pause = check.duration(&at("pause_between_writes"), &raw.pause_between_writes, Duration::ZERO..=MINUTE);
    let bot_login = raw.bot_login.as_ref().map(|login| general::login(check, &at("bot_login"), login));
    let kind = kind?;
    let api_url = api_url(check, path, kind, raw);
    let web_url = match &raw.web_url {
        Some(url) => check.address(&at("web_url"), url),
        None => api_url.as_ref().map(|api| web_url(kind, api)),
    };
    let details = match kind {
        ForgeKind::Github => github(check, path, raw).map(ForgeDetails::Github),
        ForgeKind::Gitlab => gitlab(check, path, raw).map(ForgeDetails::Gitlab),
    };
    Some(Forge {
        name: name?,
        api_url: api_url?,
        web_url: web_url?,
        repositories,
        request_timeout: request_timeout?,
        bot_login,
        pause_between_writes: pause?,
        kind: details?,
    })
}

/// The API's address, with the mistakes that are made most often told.
fn api_url(check: &mut Check<'_>, path: &str, kind: ForgeKind, raw: &raw::Forge) -> Option<Url> {
    let path = format!("{path}.api_url");
    let default = match kind {
        ForgeKind::Github => GITHUB_API,
        ForgeKind::Gitlab => GITLAB,
    };
    let url = check.address(&path, raw.api_url.as_deref().unwrap_or(default))?;
    let host = url.host_str().unwrap_or_default();
    match kind {
        ForgeKind::Github if host == "github.com" || host == "www.github.com" => {
            check.fault(&path, "is the web page, not the API", format!("write `{GITHUB_API}`, or leave the key out"))
        }
        ForgeKind::Gitlab if url.path().ends_with("/api/v4") => {
            check.fault(&path, "is the API, not the instance", "leave `/api/v4` away: it is added by itself")
        }
        ForgeKind::Github | ForgeKind::Gitlab => {}
    }
    if url.scheme() == "http" && !is_loopback(&url) {
        check.warn(&path, "is plain http: tokens travel in clear");
    }
    Some(url)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

/// The page that belongs to an API address: `https://HOST/api/v3` is Enterprise Server, `https://api.HOST` the cloud.
fn web_url(kind: ForgeKind, api: &Url) -> Url {
    let mut web = api.clone();
    match kind {
        ForgeKind::Gitlab => {}
        ForgeKind::Github => {
            if let Some(prefix) = api.path().strip_suffix("/api/v3") {
                web.set_path(prefix);
            } else if let Some(host) = api.host_str().and_then(|h| h.strip_prefix("api."))
                && web.set_host(Some(host)).is_err()
            {
                return api.clone();
            }
        }
    }
    web
}

fn github(check: &mut Check<'_>, path: &str, raw: &raw::Forge) -> Option<Github> {
    let at = |key: &str| format!("{path}.{key}");
    let foreign = [
        ("webhook_tokens", !raw.webhook_tokens.is_empty(), "`webhook_secrets`"),
        ("signing_keys", !raw.signing_keys.is_empty(), "`webhook_secrets`"),
    ];
    for (key, given, instead) in foreign {
        if given {
            check.fault(&at(key), "is a key of GitLab forges", format!("GitHub has {instead}"));
        }
    }
    if raw.webhook_secrets.is_empty() {
        check.fault(
            &at("webhook_secrets"),
            "is missing, so no delivery could be verified",
            "write [{ env = \"NAME\" }] and give the webhook on GitHub the same secret",
        );
    }
    let webhook_secrets = check.secrets(&at("webhook_secrets"), &raw.webhook_secrets, Purpose::Webhook);
    let auth = github_auth(check, path, raw);
    let api_version = raw.api_version.clone().unwrap_or_else(|| raw::API_VERSION.to_owned());
    let is_date = api_version.len() == 10
        && api_version.char_indices().all(|(i, c)| match i {
            4 | 7 => c == '-',
            _ => c.is_ascii_digit(),
        });
    if !is_date {
        check.fault(&at("api_version"), "is not a date", format!("write it like `{}`", raw::API_VERSION));
    }
    Some(Github { auth: auth?, webhook_secrets, api_version })
}

fn github_auth(check: &mut Check<'_>, path: &str, raw: &raw::Forge) -> Option<GithubAuth> {
    let (app_path, token_path) = (format!("{path}.app"), format!("{path}.token"));
    match (&raw.app, &raw.token) {
        (Some(app), None) => github_app(check, &app_path, app),
        (None, Some(token)) => check.secret(&token_path, token, Purpose::Token).map(GithubAuth::Token),
        (Some(_), Some(_)) => {
            check.fault(
                &app_path,
                "stands beside `token`, and we can act as one of them only",
                "keep `app` to act as the App, or `token` to act as a user",
            );
            None
        }
        (None, None) => {
            if !check.is_gone(&token_path) {
                check.fault(
                    &app_path,
                    "is missing, and so is `token`: we cannot act on GitHub",
                    "write app = { id = 1, private_key = { file = \"PATH\" } }, or token = { env = \"NAME\" }",
                );
            }
            None
        }
    }
}

fn github_app(check: &mut Check<'_>, path: &str, app: &raw::App) -> Option<GithubAuth> {
    let id = check.needed(&format!("{path}.id"), app.id, "it is the \"App ID\" on the App's settings page");
    if id == Some(0) {
        check.fault(&format!("{path}.id"), "is 0", "it is the \"App ID\" on the App's settings page");
    }
    let key_path = format!("{path}.private_key");
    let key = check.needed(
        &key_path,
        app.private_key.as_ref(),
        "write { file = \"PATH\" } of the .pem file that GitHub gave out for the App",
    );
    let private_key = key.and_then(|key| check.secret(&key_path, key, Purpose::PrivateKey));
    Some(GithubAuth::App { id: id?, private_key: private_key? })
}

fn gitlab(check: &mut Check<'_>, path: &str, raw: &raw::Forge) -> Option<Gitlab> {
    let at = |key: &str| format!("{path}.{key}");
    let foreign = [
        ("webhook_secrets", !raw.webhook_secrets.is_empty(), "GitLab has `webhook_tokens` and `signing_keys`"),
        ("app", raw.app.is_some(), "GitLab has `token`"),
        ("api_version", raw.api_version.is_some(), "leave it out"),
    ];
    for (key, given, hint) in foreign {
        if given {
            check.fault(&at(key), "is a key of GitHub forges", hint);
        }
    }
    let no_key = raw.webhook_tokens.is_empty() && raw.signing_keys.is_empty();
    if no_key && !check.is_gone(&at("signing_keys")) {
        check.fault(
            &at("webhook_tokens"),
            "is missing, and so is `signing_keys`: no delivery could be verified",
            "write signing_keys = [{ env = \"NAME\" }] where GitLab has signing tokens, else webhook_tokens",
        );
    }
    let webhook_tokens = check.secrets(&at("webhook_tokens"), &raw.webhook_tokens, Purpose::Webhook);
    let signing_keys = check.signing_keys(&at("signing_keys"), &raw.signing_keys);
    let token = check
        .needed(&at("token"), raw.token.as_ref(), "write { env = \"NAME\" } of an access token with the scope `api`")
        .and_then(|token| check.secret(&at("token"), token, Purpose::Token));
    Some(Gitlab { token: token?, webhook_tokens, signing_keys })
}

/// One secret for two forges lets whoever knows it for one speak for the other.
fn warn_of_shared_secrets(check: &mut Check<'_>, forges: &[Forge]) {
    for (i, forge) in forges.iter().enumerate() {
        let shared = forges[..i].iter().find(|other| {
            let theirs = shared_secrets(other);
            shared_secrets(forge)
                .iter()
                .any(|s| theirs.iter().any(|t| t.value().expose_secret() == s.value().expose_secret()))
        });
        if let Some(other) = shared {
            check.warn(
                &format!("forge[{i}]"),
                format!(
                    "`{}` shares a webhook secret with `{}`: who knows it can speak for both",
                    forge.name, other.name
                ),
            );
        }
    }
}

fn shared_secrets(forge: &Forge) -> &[Secret] {
    match &forge.kind {
        ForgeDetails::Github(github) => &github.webhook_secrets,
        ForgeDetails::Gitlab(gitlab) => &gitlab.webhook_tokens,
    }
}
