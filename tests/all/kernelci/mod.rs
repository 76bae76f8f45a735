//! Stories with KernelCI: the bot against a stand-in with the real API's schema and quirks, on both forges.

mod retests;
mod troubles;

use std::time::Duration;

use retest_bot::sandbox::kernelci::{KernelCiSandbox, NewJob, Options};

use crate::story::{HEAD, START_MS, Script, Side, Stage};

const TOKEN: &str = "maestro-token-6f1d3c5a9b8e";
const PIPELINE_TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.e30.c2ln";

/// A stage with a KernelCI that has built the head.
struct Site {
    stage: Stage,
    kernelci: KernelCiSandbox,
    build: String,
    ms: std::cell::Cell<i64>,
}

/// What differs from the usual configuration.
#[derive(Clone, Copy, Default)]
struct Setting {
    wrong_token: bool,
    no_token: bool,
    fallback: bool,
    more: &'static str,
}

impl Site {
    async fn set(side: Side) -> Self {
        Self::set_with(side, Setting::default()).await
    }

    async fn set_with(side: Side, setting: Setting) -> Self {
        let options =
            Options { token: TOKEN.into(), pipeline_token: PIPELINE_TOKEN.into(), start_ms: START_MS - 3_600_000 };
        let kernelci = KernelCiSandbox::start(options).await.expect("a sandbox");
        let checkout = kernelci.checkout("mainline", "master", HEAD);
        let build = kernelci.build(&checkout, "kbuild-gcc-14-x86", "pass");
        let name = if setting.wrong_token { "TOKEN" } else { "MAESTRO" };
        let token = if setting.no_token { String::new() } else { format!("token = {{ env = \"{name}\" }}") };
        let fallback = if setting.fallback {
            format!("pipeline_url = \"{}\"\npipeline_token = {{ env = \"PIPELINE\" }}", kernelci.pipeline_url())
        } else {
            String::new()
        };
        let extra = format!(
            "[[runner]]\nname = \"kernelci\"\nkind = \"kernelci\"\npoll_min = \"10s\"\npoll_max = \"60s\"\ndeadline = \"2h\"\n\
             [runner.kernelci]\napi_url = \"{}\"\n{token}\n{fallback}\nappears_within = \"10m\"\ntimeout = \"1s\"\n{}\n",
            kernelci.api_url(),
            setting.more
        );
        let stage = Stage::set_with(side, Script { extra, ..Script::default() }).await;
        let ms = std::cell::Cell::new(START_MS);
        Self { stage, kernelci, build, ms }
    }

    /// A job that ended like this before the story began.
    fn ended(&self, (name, platform): (&str, &str), result: &str, error: Option<(&str, &str)>) -> String {
        let id = self.kernelci.job(&self.build, &NewJob { name, platform, runtime: "lava-one" });
        self.kernelci.end(&id, result, error);
        id
    }

    /// Moves all clocks on, then settles.
    async fn pass_s(&self, seconds: u64) {
        let ms = i64::try_from(seconds).expect("a span") * 1_000;
        self.ms.set(self.ms.get() + ms);
        self.kernelci.set_now(self.ms.get());
        self.stage.pass(Duration::from_secs(seconds)).await;
    }

    /// Ends the newest node of a name.
    fn end(&self, name: &str, result: &str, error: Option<(&str, &str)>) {
        let node = self.kernelci.newest(name).expect("a node");
        self.kernelci.end(node["id"].as_str().expect("an id"), result, error);
    }

    async fn end_story(self) {
        self.stage.end().await;
    }
}
