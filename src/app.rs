//! The composition root: turns settings into forges, runners, rules and a world. The only place that names adapters.

mod flakes;
mod policy;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use retest_commands::{Grammar, GrammarSettings};
use secrecy::{ExposeSecret, SecretString};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::api::github::{self as github_api, GitHubApi, GitHubConfig};
use crate::api::gitlab::{GitLabAccess, GitLabClient};
use crate::decide::{Declared, Declares, Posts};
use crate::domain::{ForgeName, JobName, RunnerName};
use crate::flow::{
    Driver, EditedComments, JoinPattern, Parts, Phrases, Rules, RunTemplate, RunnerEntry, StopAt, World,
};
use crate::forge::github::{GitHub, GitHubForgeConfig};
use crate::forge::gitlab::{GitLabConfig, GitLabForge, SigningKey};
use crate::http::{ApiToken, Bounds, Http, Scope};
use crate::ports::{Clock, Forge, Runner, Secrets};
use crate::runner::github_actions::GitHubActions;
use crate::runner::gitlab_ci::GitLabCi;
use crate::runner::{exec, http as http_runner, kernelci, lava};
use crate::settings::{self, ForgeDetails, RunnerDetails, Settings};
use crate::store::{Lock, Store};

pub use flakes::{check_flakes, read_issue};
pub use policy::Operators;

/// How long news is collected before it is posted, so that one report tells of a plan and its start.
const REPORT_DELAY: Duration = Duration::from_millis(1_500);

/// How often missed comments are looked for.
const CATCH_UP_EVERY: Duration = Duration::from_secs(1_800);

/// What a life of the program is given besides its settings.
#[derive(Clone, Debug)]
pub struct Life {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// A name that no other life has.
    pub me: String,
    /// The executable that supervises local processes: this program's own.
    pub supervisor: PathBuf,
    /// Where a test stops it.
    pub stop_at: StopAt,
    /// Overrides the delay before posts; stories set it to zero.
    pub report_delay: Option<Duration>,
}

impl Life {
    /// An ordinary life: the system's clock, this executable, no stop.
    ///
    /// # Errors
    /// When the path of this executable cannot be told.
    pub fn ordinary(clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let supervisor = std::env::current_exe().context("the path of this program cannot be told")?;
        let me = format!("{}-{}", std::process::id(), clock.now().ms());
        Ok(Self { clock, me, supervisor, stop_at: StopAt::Never, report_delay: None })
    }
}

/// The whole program, put together and not yet running.
#[derive(Debug)]
pub struct App {
    /// What the loops work with.
    pub world: Arc<World>,
    http: Http,
    bounds: Bounds,
    metrics_beside: bool,
    lock: Lock,
}

impl App {
    /// Puts the program together: opens the store, checks every adapter's configuration. Calls nobody.
    ///
    /// # Errors
    /// What cannot be opened or used, and where it stands.
    pub async fn build(settings: &Settings, life: Life) -> anyhow::Result<Self> {
        let path = &settings.store.path;
        let lock = Lock::take(path).map_err(anyhow::Error::msg)?;
        let store = Store::open(path, settings.store.commit_batch_max)
            .await
            .with_context(|| format!("the store `{}` cannot be opened", path.display()))?;
        let grammar = grammar(settings)?;
        check_flakes(settings)?;
        let client = client()?;
        let phrases = Arc::new(Phrases::default());
        let adapters =
            Adapters { settings, client, life: &life, grammar: grammar.clone(), phrases: Arc::clone(&phrases) };
        let mut forges = Vec::new();
        let mut runners = Vec::new();
        for forge in &settings.forges {
            forges.push(adapters.forge(forge, &mut runners)?);
        }
        for runner in &settings.runners {
            if let Some(entry) = adapters.entry(runner)? {
                runners.push(entry);
            }
        }
        // The order of the configuration decides which of two runners gets a job that both declare.
        runners.sort_by_key(|e| settings.runners.iter().position(|r| r.name == e.runner.name().as_str()));
        let mut rules = rules(settings);
        rules.report_delay = life.report_delay.unwrap_or(REPORT_DELAY);
        let policy = policy::rules(settings)?;
        let parts = Parts { store, runners, grammar, rules, policy, phrases, stop_at: life.stop_at };
        let world = Arc::new(World::new(parts, forges, Arc::clone(&life.clock), life.me.clone()));
        world.recall_throttles().await?;
        world.recall_policies().await?;
        let server = &settings.server;
        let http = Http::new(Arc::clone(&world), server.body_bytes_max, server.request_timeout);
        let http = http.with_api(api_tokens(settings));
        let bounds = Bounds {
            connections_max: server.connections_max,
            header_timeout: server.header_timeout,
            drain_timeout: server.drain_timeout,
        };
        Ok(Self { world, http, bounds, metrics_beside: settings.metrics.listen.is_none(), lock })
    }

    /// Everything that is answered over HTTP; the metrics are among it unless they have an address of their own.
    pub fn router(&self) -> Router {
        let router = self.http.router();
        if self.metrics_beside { router.merge(self.http.metrics_router()) } else { router }
    }

    /// Runs until `stop` is cancelled; then drains: no new connection, running requests end, running passes end, the
    /// store is closed.
    pub async fn serve(self, listener: TcpListener, metrics: Option<TcpListener>, stop: CancellationToken) {
        let driver = Driver::start(&self.world);
        let beside = metrics.map(|listener| {
            tokio::spawn(crate::http::serve(listener, self.http.metrics_router(), self.bounds, stop.clone()))
        });
        let (world, drain) = (Arc::clone(&self.world), self.bounds.drain_timeout);
        let http = self.http.clone();
        let asked = stop.clone();
        tokio::spawn(async move {
            asked.cancelled().await;
            http.start_draining();
        });
        crate::http::serve(listener, self.router(), self.bounds, stop).await;
        driver.stop(&world, drain).await;
        if let Some(beside) = beside {
            beside.await.ok();
        }
        world.store.close().await;
        drop(self.lock);
    }
}

/// One HTTP client for every outside call.
fn client() -> anyhow::Result<reqwest::Client> {
    reqwest::Client::builder()
        .user_agent(concat!("retest-bot/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(10))
        .pool_idle_timeout(Duration::from_secs(60))
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .context("the HTTP client cannot be built")
}

/// One forge by itself, for `explain`: it receives, and calls nobody.
///
/// # Errors
/// When the forge cannot be set up.
pub fn forge_alone(settings: &Settings, name: &str, clock: Arc<dyn Clock>) -> anyhow::Result<Arc<dyn Forge>> {
    let life = Life::ordinary(clock)?;
    let phrases = Arc::default();
    let adapters = Adapters { settings, client: client()?, life: &life, grammar: grammar(settings)?, phrases };
    let forge = settings.forge(name).with_context(|| format!("no forge is called `{name}`"))?;
    adapters.forge(forge, &mut Vec::new())
}

fn api_tokens(settings: &Settings) -> Vec<ApiToken> {
    let scope = |scope: &settings::ApiScope| match scope {
        settings::ApiScope::JobsRead => Scope::JobsRead,
        settings::ApiScope::JobsWrite => Scope::JobsWrite,
        settings::ApiScope::RetriesRead => Scope::RetriesRead,
        settings::ApiScope::RetriesCreate => Scope::RetriesCreate,
        settings::ApiScope::RetriesForce => Scope::RetriesForce,
        settings::ApiScope::RunsCreate => Scope::RunsCreate,
    };
    let token = |token: &settings::ApiToken| ApiToken {
        name: token.name.clone(),
        sha256: token.sha256,
        scopes: token.scopes.iter().map(scope).collect(),
        repositories: token.repositories.glob_set().clone(),
    };
    settings.api.tokens.iter().map(token).collect()
}

fn template(template: &settings::JobTemplate) -> RunTemplate {
    RunTemplate {
        name: template.name.clone(),
        runner: RunnerName::new(&template.runner),
        job: JobName::new(&template.job),
        parameters: template.parameters.clone(),
        definition: template.definition.clone(),
        overrides: template.overrides.clone(),
    }
}

/// The chat grammar as configured.
///
/// # Errors
/// Aliases or names that contradict each other.
pub fn grammar(settings: &Settings) -> anyhow::Result<Grammar> {
    Grammar::new(grammar_settings(settings)).map_err(|error| anyhow::anyhow!("[commands]: {error}"))
}

fn grammar_settings(settings: &Settings) -> GrammarSettings {
    let commands = &settings.commands;
    let aliases =
        commands.aliases.iter().map(|a| retest_commands::Alias { phrase: a.phrase.clone(), means: a.means.clone() });
    let mut logins = commands.mention.clone();
    logins.extend(settings.forges.iter().filter_map(|f| f.bot_login.clone()));
    GrammarSettings {
        prefix: commands.prefix.clone(),
        bot_logins: logins,
        aliases: aliases.collect(),
        commands_max: commands.commands_max,
        disabled: commands.disabled.clone(),
        ..GrammarSettings::default()
    }
}

/// The operator's decisions in the words of the loops.
pub fn rules(settings: &Settings) -> Rules {
    Rules {
        rights: policy::rights(&settings.rights),
        limits: policy::limits(&settings.limits),
        posts: Posts {
            always: settings.status.always,
            aggregate: settings.status.aggregate_context.clone(),
            target_url: settings.status.target_url.as_ref().map(ToString::to_string),
        },
        reports: settings.report.enabled,
        reactions: settings.report.reaction,
        report_delay: REPORT_DELAY,
        comment_age_max: settings.commands.comment_age_max,
        edited: match settings.commands.edited {
            settings::Edited::Ignore => EditedComments::Ignored,
            settings::Edited::NewCommands => EditedComments::NewCommands,
        },
        role_cache: settings.rights.role_cache,
        retention: settings.store.retention,
        catch_up_every: CATCH_UP_EVERY,
        templates: settings.templates.iter().map(template).collect(),
        flakes: flakes::rules_of(settings),
    }
}

struct Adapters<'a> {
    settings: &'a Settings,
    client: reqwest::Client,
    life: &'a Life,
    grammar: Grammar,
    phrases: Arc<Phrases>,
}

impl Adapters<'_> {
    /// A forge, and the runners that are its own CI: they share its client, its tokens and its limits.
    fn forge(&self, forge: &settings::Forge, runners: &mut Vec<RunnerEntry>) -> anyhow::Result<Arc<dyn Forge>> {
        match &forge.kind {
            ForgeDetails::Github(details) => {
                let api = self.github_api(forge, details)?;
                for runner in self.own_ci(forge, &RunnerDetails::GithubActions) {
                    let module = GitHubActions::new(RunnerName::new(&runner.name), Arc::clone(&api));
                    runners.push(entry(runner, Arc::new(module)));
                }
                let config = GitHubForgeConfig {
                    webhook_secrets: secrets(&details.webhook_secrets),
                    repositories: Some(forge.repositories.glob_set().clone()),
                    bot_login: forge.bot_login.clone(),
                    may_hold_command: self.may_hold_command(),
                };
                Ok(Arc::new(GitHub::new(api, config, Arc::clone(&self.life.clock))))
            }
            ForgeDetails::Gitlab(details) => {
                let access = GitLabAccess {
                    url: forge.api_url.clone(),
                    token: details.token.value().clone(),
                    request_timeout: forge.request_timeout,
                    pause_between_writes: forge.pause_between_writes,
                };
                let client = Arc::new(GitLabClient::new(self.client.clone(), access, Arc::clone(&self.life.clock)));
                for runner in self.own_ci(forge, &RunnerDetails::GitlabCi) {
                    let module = GitLabCi::new(RunnerName::new(&runner.name), Arc::clone(&client));
                    runners.push(entry(runner, Arc::new(module)));
                }
                let keys = details.signing_keys.iter();
                let config = GitLabConfig {
                    name: ForgeName::new(&forge.name),
                    webhook_tokens: secrets(&details.webhook_tokens),
                    signing_keys: keys.filter_map(|k| SigningKey::from_decoded(k.key().expose_secret())).collect(),
                    bot_login: forge.bot_login.clone(),
                    repositories: Some(forge.repositories.glob_set().clone()),
                    may_hold_command: self.may_hold_command(),
                };
                Ok(Arc::new(GitLabForge::new(client, config)))
            }
        }
    }

    /// The runners of one module that serve this forge.
    fn own_ci(&self, forge: &settings::Forge, module: &RunnerDetails) -> Vec<&settings::Runner> {
        let of =
            |r: &&settings::Runner| r.forge.as_deref() == Some(forge.name.as_str()) && same_module(&r.kind, module);
        self.settings.runners.iter().filter(of).collect()
    }

    fn github_api(&self, forge: &settings::Forge, details: &settings::Github) -> anyhow::Result<Arc<GitHubApi>> {
        let auth = match &details.auth {
            settings::GithubAuth::App { id, private_key } => {
                github_api::Auth::App { id: *id, private_key_pem: private_key.value().clone() }
            }
            settings::GithubAuth::Token(token) => github_api::Auth::Token(token.value().clone()),
        };
        let config = GitHubConfig {
            name: ForgeName::new(&forge.name),
            api_url: forge.api_url.clone(),
            api_version: details.api_version.clone(),
            auth,
            request_timeout: forge.request_timeout,
            pause_between_writes: forge.pause_between_writes,
        };
        let api = GitHubApi::new(config, self.client.clone(), Arc::clone(&self.life.clock));
        Ok(Arc::new(api.with_context(|| format!("forge `{}`", forge.name))?))
    }

    /// A wrong yes costs a stored row, a wrong no would lose a command: so it asks only for what every command has.
    fn may_hold_command(&self) -> Arc<dyn Fn(&str) -> bool + Send + Sync> {
        let (grammar, phrases) = (self.grammar.clone(), Arc::clone(&self.phrases));
        Arc::new(move |text| grammar.may_hold_command(text) || phrases.may_hold_command(text))
    }

    /// A runner that needs no forge's client; none for those that do.
    fn entry(&self, runner: &settings::Runner) -> anyhow::Result<Option<RunnerEntry>> {
        let module: Arc<dyn Runner> = match &runner.kind {
            RunnerDetails::GithubActions | RunnerDetails::GitlabCi => return Ok(None),
            RunnerDetails::Exec(exec) => Arc::new(self.exec(runner, exec)?),
            RunnerDetails::Http(http) => Arc::new(self.http(runner, http)?),
            RunnerDetails::Lava(lava) => Arc::new(self.lava(runner, lava)?),
            RunnerDetails::Kernelci(details) => Arc::new(self.kernelci(runner, details)?),
        };
        Ok(Some(entry(runner, module)))
    }

    fn exec(&self, runner: &settings::Runner, exec: &settings::Exec) -> anyhow::Result<exec::ExecRunner> {
        let overrides = |name: &str| runner.job(name).map(|j| j.overrides.clone()).unwrap_or_default();
        let jobs = exec.commands.iter().map(|c| exec::ExecJob {
            name: JobName::new(&c.job),
            command: c.command.clone(),
            working_directory: c.working_directory.clone(),
            time_limit: c.time_limit,
            environment: c.environment.clone(),
            overrides: overrides(&c.job),
            log_bytes_max: c.log_bytes_max,
            infrastructure_codes: c.infrastructure_codes.clone(),
        });
        let config = exec::ExecConfig {
            name: RunnerName::new(&runner.name),
            state_directory: exec.directory.clone(),
            supervisor: self.life.supervisor.clone(),
            jobs: jobs.collect(),
            processes_max: exec.processes_max,
            grace: exec.grace,
        };
        exec::ExecRunner::open(config, Arc::clone(&self.life.clock))
            .with_context(|| format!("runner `{}`", runner.name))
    }

    /// Where the other side of a runner reaches us.
    fn callback_url(&self, runner: &settings::Runner) -> String {
        let base = self.settings.server.public_url.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{}/callbacks/{}", base.trim_end_matches('/'), runner.name)
    }

    fn lava(&self, runner: &settings::Runner, lava: &settings::Lava) -> anyhow::Result<lava::LavaRunner> {
        let overrides = |job: &settings::Job| {
            let glob = globset::Glob::new(&pattern(&job.name))?.compile_matcher();
            Ok::<_, globset::Error>((glob, job.overrides.clone()))
        };
        let config = lava::LavaConfig {
            name: RunnerName::new(&runner.name),
            url: lava.url.as_str().trim_end_matches('/').to_owned(),
            token: lava.token.value().clone(),
            timeout: lava.timeout,
            suites: lava.suites.clone(),
            source: lava::Source { metadata: lava.metadata.clone(), tags: lava.tags.clone() },
            url_prefixes: lava.url_prefixes.clone(),
            callback: lava
                .callback
                .as_ref()
                .map(|secret| lava::Callback { url: self.callback_url(runner), secret: secret.value().clone() }),
            jobs: runner.jobs.iter().map(overrides).collect::<Result<_, _>>()?,
        };
        lava::LavaRunner::new(config, Arc::clone(&self.life.clock))
            .map_err(|why| anyhow::anyhow!("runner `{}`: {why}", runner.name))
    }

    fn kernelci(&self, runner: &settings::Runner, own: &settings::Kernelci) -> anyhow::Result<kernelci::KernelCi> {
        let overrides = runner.jobs.iter().map(|job| {
            let glob = globset::Glob::new(&pattern(&job.name))?.compile_matcher();
            Ok((glob, job.overrides.clone()))
        });
        let access = kernelci::KernelCiAccess {
            api_url: own.api_url.clone(),
            token: own.token.as_ref().map(|token| token.value().clone()),
            pipeline: own
                .pipeline
                .as_ref()
                .map(|(url, token)| kernelci::Pipeline { url: url.clone(), token: token.value().clone() }),
            timeout: own.timeout,
        };
        let config = kernelci::KernelCiConfig {
            name: RunnerName::new(&runner.name),
            access,
            only: kernelci::Only {
                trees: own.trees.clone(),
                branches: own.branches.clone(),
                platforms: own.platforms.clone(),
                runtimes: own.runtimes.clone(),
            },
            appears_within: own.appears_within,
            counter_min: own.counter_min,
            retry_builds: own.retry_builds,
            page: own.page.clone(),
            overrides: overrides.collect::<anyhow::Result<_>>()?,
        };
        kernelci::KernelCi::new(config, Arc::clone(&self.life.clock))
            .map_err(|why| anyhow::anyhow!("runner `{}`: {why}", runner.name))
    }

    fn http(&self, runner: &settings::Runner, http: &settings::Http) -> anyhow::Result<http_runner::HttpRunner> {
        let callback = http
            .callback
            .as_ref()
            .map(|secret| http_runner::Callback { url: self.callback_url(runner), secret: secret.value().clone() });
        let start = &http.start;
        let headers = start.headers.iter().map(|(n, v)| (n.clone(), SecretString::from(v.source()))).collect();
        let body = start.body.as_ref().map(|body| match body {
            settings::Body::Json(t) => http_runner::HttpBody::Json(t.source().to_owned()),
            settings::Body::Form(t) => http_runner::HttpBody::Form(t.source().to_owned()),
        });
        let config = http_runner::HttpConfig {
            name: RunnerName::new(&runner.name),
            jobs: runner
                .jobs
                .iter()
                .map(|j| http_runner::HttpJob { pattern: pattern(&j.name), overrides: j.overrides.clone() })
                .collect(),
            start: http_runner::StartRequest {
                method: start.method.to_string(),
                url: start.url.template.source().to_owned(),
                headers,
                body,
                id_pointer: start.id_pointer.clone(),
                url_pointer: start.url_pointer.clone(),
                success: start.success.clone(),
                timeout: start.timeout,
            },
            poll: http.poll.as_ref().map(|p| http_runner::PollRequest {
                url: p.url.template.source().to_owned(),
                state_pointer: p.state_pointer.clone(),
                url_pointer: p.url_pointer.clone(),
                cause_pointer: p.cause_pointer.clone(),
                log_url: p.log_url.as_ref().map(|u| u.template.source().to_owned()),
            }),
            states: http.poll.iter().flat_map(|p| p.states.iter()).map(|(w, s)| (w.clone(), state(*s))).collect(),
            find: http.find.as_ref().map(|f| http_runner::FindRequest {
                url: f.url.template.source().to_owned(),
                id_pointer: f.id_pointer.clone(),
            }),
            cancel: http.cancel.as_ref().map(|c| http_runner::CancelRequest {
                method: c.method.to_string(),
                url: c.url.template.source().to_owned(),
            }),
            callback,
            token: http.token.as_ref().map(|t| http_runner::HttpToken {
                header: t.header.clone(),
                scheme: t.scheme.clone(),
                secret: t.secret.value().clone(),
            }),
            allowed_hosts: http.allowed_hosts.clone(),
        };
        http_runner::HttpRunner::new(config, Arc::clone(&self.life.clock))
            .with_context(|| format!("runner `{}`", runner.name))
    }
}

/// A selector as a glob: a name means itself, whatever characters it holds.
fn pattern(selector: &settings::JobSelector) -> String {
    match selector {
        settings::JobSelector::Name(name) => globset::escape(name),
        settings::JobSelector::Pattern(glob) => glob.glob().glob().to_owned(),
    }
}

fn same_module(a: &RunnerDetails, b: &RunnerDetails) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

const fn state(word: settings::RunState) -> crate::domain::JobState {
    use crate::domain::JobState as S;
    match word {
        settings::RunState::Pending => S::Pending,
        settings::RunState::Running => S::Running,
        settings::RunState::Passed => S::Passed,
        settings::RunState::Failed => S::Failed,
        settings::RunState::Infrastructure => S::Infrastructure,
        settings::RunState::TimedOut => S::TimedOut,
        settings::RunState::Cancelled => S::Cancelled,
        settings::RunState::Skipped => S::Skipped,
        settings::RunState::Superseded => S::Superseded,
        settings::RunState::Lost => S::Lost,
    }
}

fn entry(runner: &settings::Runner, module: Arc<dyn Runner>) -> RunnerEntry {
    let declared = |job: &settings::Job| {
        let which = match &job.name {
            settings::JobSelector::Name(name) => Declares::Job(JobName::new(name)),
            settings::JobSelector::Pattern(glob) => Declares::Pattern(glob.clone()),
        };
        let declared = Declared {
            standalone: job.standalone,
            needs: job.needs.iter().map(JobName::new).collect(),
            required: job.required == Some(true),
            platform: job.platform.clone(),
            groups: job.groups.clone(),
            auto_retry: job.auto_retry,
        };
        (which, declared)
    };
    RunnerEntry {
        runner: module,
        forge: runner.forge.as_deref().map(ForgeName::from),
        repositories: Some(runner.repositories.glob_set().clone()),
        attempts_max: runner.attempts_max,
        deadline: runner.deadline,
        poll_min: runner.poll_min,
        poll_max: runner.poll_max,
        jobs: runner.jobs.iter().map(declared).collect(),
        joins: runner.patterns.iter().map(joins).collect(),
    }
}

fn joins(pattern: &settings::Pattern) -> JoinPattern {
    JoinPattern { url: pattern.url.clone(), context: pattern.context.clone() }
}

fn secrets(list: &[settings::Secret]) -> Secrets {
    Secrets::new(list.iter().map(|s| s.value().clone()).collect())
}
