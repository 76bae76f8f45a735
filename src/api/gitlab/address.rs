//! Names of pipelines and jobs that say in which project they live.
//!
//! Most live in the project of the change, and their plain number is their name: webhooks and listings then agree.
//! Downstream pipelines of other projects and pipelines of forks carry their project: `41/1002`, `fork:77/1002`.

/// A pipeline and where it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PipelineAddress {
    /// The project's id.
    pub project: u64,
    /// The pipeline's instance-wide id.
    pub pipeline: u64,
    /// Whether it runs in the fork that the change comes from: out of reach.
    pub in_fork: bool,
}

impl PipelineAddress {
    /// The group name of its jobs, as seen from the project `home` of the change.
    pub fn group(&self, home: u64) -> String {
        let Self { project, pipeline, in_fork } = *self;
        if in_fork {
            format!("fork:{project}/{pipeline}")
        } else if project == home {
            pipeline.to_string()
        } else {
            format!("{project}/{pipeline}")
        }
    }

    /// Reads a group name again.
    pub fn parse(group: &str, home: u64) -> Option<Self> {
        let (in_fork, rest) = group.strip_prefix("fork:").map_or((false, group), |rest| (true, rest));
        let (project, pipeline) = located(rest, home)?;
        Some(Self { project, pipeline, in_fork })
    }
}

/// A job (or bridge) and where it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct JobAddress {
    /// The project's id.
    pub project: u64,
    /// The job's instance-wide id.
    pub job: u64,
}

impl JobAddress {
    /// The run's name, as seen from the project `home` of the change.
    pub fn run_ref(&self, home: u64) -> String {
        let Self { project, job } = *self;
        if project == home { job.to_string() } else { format!("{project}/{job}") }
    }

    /// Reads a run's name again.
    pub fn parse(run: &str, home: u64) -> Option<Self> {
        let (project, job) = located(run, home)?;
        Some(Self { project, job })
    }
}

fn located(text: &str, home: u64) -> Option<(u64, u64)> {
    match text.split_once('/') {
        Some((project, id)) => Some((project.parse().ok()?, id.parse().ok()?)),
        None => Some((home, text.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_back_as_it_was_written() {
        let table = [
            (PipelineAddress { project: 7, pipeline: 31, in_fork: false }, "31"),
            (PipelineAddress { project: 41, pipeline: 31, in_fork: false }, "41/31"),
            (PipelineAddress { project: 77, pipeline: 31, in_fork: true }, "fork:77/31"),
        ];
        for (address, text) in table {
            assert_eq!(address.group(7), text);
            assert_eq!(PipelineAddress::parse(text, 7), Some(address));
        }
        let foreign = JobAddress { project: 41, job: 9 };
        assert_eq!(JobAddress::parse(&foreign.run_ref(7), 7), Some(foreign));
        assert_eq!(JobAddress::parse("lava-12", 7), None, "a run of another runner is none of ours");
    }
}
