//! Stories of a LAVA lab whose results reach the forge only as statuses: claims about joining, restarting, following.

mod doubts;
mod flakes;
mod log;
mod retests;

use retest_bot::sandbox::lava::LavaSandbox;

use crate::story::{HEAD, LAVA_TOKEN, Script, Side, Stage, on_both_forges};

/// A definition as a CI submits it.
const JOB: &str = "# boots the kernel of a revision\n\
job_name: lava-x86\n\
device_type: qemu\n\
visibility: {group: [lab]}\n\
priority: medium\n\
timeouts: {job: {minutes: 5}}\n\
actions:\n\
- deploy: {to: tmpfs, images: {kernel: {url: 'https://storage.example/old'}}}\n";

/// A stage with a LAVA beside it.
struct Lab {
    stage: Stage,
    lava: LavaSandbox,
}

impl Lab {
    async fn set(side: Side, more: &str) -> Self {
        let lava = LavaSandbox::start(LAVA_TOKEN).await.expect("a LAVA");
        let extra = format!(
            "[[runner]]\nname = \"boards\"\nkind = \"lava\"\npoll_min = \"10s\"\npoll_max = \"40s\"\ndeadline = \"6h\"\n\
             [runner.lava]\nurl = \"{}\"\ntoken = {{ env = \"LAVA_TOKEN\" }}\ntimeout = \"1s\"\n{more}\n",
            lava.base_url()
        );
        let stage = Stage::set_with(side, Script { extra, ..Script::default() }).await;
        Self { stage, lava }
    }

    fn page(&self, id: u64) -> String {
        format!("{}/scheduler/job/{id}", self.lava.base_url())
    }

    /// The CI of the project has run a job in LAVA, and its status is red.
    async fn red(&self, name: &str, definition: &str) -> u64 {
        let id = self.lava.submit(definition);
        self.stage.post_lab_status(name, false, &self.page(id));
        self.stage.settle().await;
        id
    }

    /// The newest job of the lab.
    fn newest(&self) -> retest_bot::sandbox::lava::SandboxJob {
        self.lava.jobs().pop().expect("a job")
    }
}
