//! How others' statuses about a runner's jobs look, checked: addresses that name a run, globs over names.
//!
//! Refused: a pattern that says nothing, an address without exactly one `{id}` behind a written-out host, patterns of runners
//! that know their jobs by themselves. Read next: `runner.rs`.

use super::check::Check;
use super::raw;
use super::words::RunnerModule;
use globset::{Glob, GlobMatcher};
use regex::Regex;

/// How a status or check about a job of a runner looks; at least one of the two is given, and all that is given must fit.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// The address of the run's page; its first group is the run's name.
    pub url: Option<Regex>,
    /// The status's name.
    pub context: Option<GlobMatcher>,
}

/// Checks the patterns of a runner. `own` is the address of its runs' pages where its module knows it.
pub(super) fn patterns(
    check: &mut Check<'_>,
    path: &str,
    module: RunnerModule,
    raw: Option<&[raw::Pattern]>,
    own: Option<&str>,
) -> Vec<Pattern> {
    let path = format!("{path}.patterns");
    let Some(raw) = raw else {
        let url = own.and_then(|own| Regex::new(&expression(own)?).ok());
        return url.map(|url| Pattern { url: Some(url), context: None }).into_iter().collect();
    };
    if matches!(module, RunnerModule::GithubActions | RunnerModule::GitlabCi | RunnerModule::Exec) {
        let text = format!("is not for {module} runners, whose runs no status of others points to");
        check.fault(&path, text, "take it out");
        return Vec::new();
    }
    raw.iter().enumerate().filter_map(|(i, raw)| pattern(check, &format!("{path}[{i}]"), raw)).collect()
}

fn pattern(check: &mut Check<'_>, path: &str, raw: &raw::Pattern) -> Option<Pattern> {
    if raw.url.is_none() && raw.context.is_none() && !check.is_gone(path) {
        check.fault(path, "says nothing", "write `url`, `context`, or both");
        return None;
    }
    let url_path = format!("{path}.url");
    let url = match &raw.url {
        None => None,
        Some(text) => Some(expression(text).and_then(|text| Regex::new(&text).ok()).or_else(|| {
            let hint = "write it like `https://lava.example/scheduler/job/{id}`, with one `{id}` behind the host";
            check.fault(&url_path, format!("`{text}` does not say where a run's name stands"), hint);
            None
        })?),
    };
    let context = match raw.context.as_ref().map(|glob| Glob::new(glob)) {
        None => None,
        Some(Ok(glob)) => Some(glob.compile_matcher()),
        Some(Err(error)) => {
            check.bad_glob(&format!("{path}.context"), &error);
            return None;
        }
    };
    Some(Pattern { url, context })
}

/// The address as a regular expression; none when it is not one, or names no run.
fn expression(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"))?;
    let (host, way) = rest.split_once('/')?;
    let (before, after) = way.split_once("{id}")?;
    if host.is_empty() || host.contains(['{', '}']) || before.contains(['{', '}']) || after.contains(['{', '}']) {
        return None;
    }
    let literal = |text: &str| text.split('*').map(regex::escape).collect::<Vec<_>>().join("[^/?#]*");
    // People link to a line of a log or to a part of a page.
    let rest = if after.is_empty() { "(?:[/?#].*)?" } else { "(?:[?#].*)?" };
    let (host, before, after) = (literal(host), literal(before), literal(after));
    Some(format!("^{scheme}://{host}/{before}([0-9A-Za-z_](?:[0-9A-Za-z_.-]{{0,98}}[0-9A-Za-z_])?){after}{rest}$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_run_wherever_people_point_in_it() {
        let lava = "https://lava.example/scheduler/job/{id}";
        let table = [
            (lava, "https://lava.example/scheduler/job/1234", Some("1234")),
            (lava, "https://lava.example/scheduler/job/1234#L17", Some("1234")),
            (lava, "https://lava.example/scheduler/job/1234/definition", Some("1234")),
            (lava, "https://lava.example/scheduler/job/12.1/", Some("12.1")),
            (lava, "https://lava.example/scheduler/job/", None),
            (lava, "https://lava.example.evil/scheduler/job/1", None),
            (lava, "http://lava.example/scheduler/job/1", None),
            (lava, "https://evil/?https://lava.example/scheduler/job/1", None),
            ("https://*.lab.example/j/{id}/show", "https://eu.lab.example/j/ab-1/show?x=1", Some("ab-1")),
            ("https://*.lab.example/j/{id}/show", "https://evil/x.lab.example/j/1/show", None),
        ];
        for (pattern, url, wanted) in table {
            let pattern = Regex::new(&expression(pattern).expect("an address")).expect("an expression");
            assert_eq!(pattern.captures(url).and_then(|c| c.get(1)).map(|m| m.as_str()), wanted, "{url}");
        }
    }

    #[test]
    fn an_address_that_names_no_run_behind_a_host_is_none() {
        for text in
            ["{id}", "https://{id}/x", "https://lava/x", "https://lava/{id}/{id}", "ftp://lava/{id}", "lava/{id}"]
        {
            assert_eq!(expression(text), None, "{text}");
        }
    }
}
