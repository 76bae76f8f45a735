//! Aliases: other bots' habits, in ready packs (`config/aliases/`) and one by one, and the lint over them.
//!
//! An alias of the operator's own wins over one of a pack. Two packs that contradict each other are refused: a phrase
//! must mean one thing. What cannot work or may surprise is warned of. The grammar itself checks that a meaning parses.

use serde::Deserialize;

use super::check::Check;
use super::general::{Alias, COMMANDS};
use super::raw;

/// The packs that come with the program, by the name that `commands.alias_packs` takes.
pub const PACKS: [(&str, &str); 8] = [
    ("ariane", include_str!("../../config/aliases/ariane.toml")),
    ("azure-pipelines", include_str!("../../config/aliases/azure-pipelines.toml")),
    ("bors", include_str!("../../config/aliases/bors.toml")),
    ("jenkins", include_str!("../../config/aliases/jenkins.toml")),
    ("pipelines-as-code", include_str!("../../config/aliases/pipelines-as-code.toml")),
    ("prow", include_str!("../../config/aliases/prow.toml")),
    ("pytorch", include_str!("../../config/aliases/pytorch.toml")),
    ("zuul", include_str!("../../config/aliases/zuul.toml")),
];

/// GitLab's quick actions on issues and merge requests (GitLab documentation, "GitLab quick actions"): GitLab obeys a
/// line that begins with one and takes it out of the note, so that no webhook ever tells of it.
const QUICK_ACTIONS: &str = "\
    add_child add_contacts add_email approve assign assign_reviewer award blocked_by blocks checkin_reminder \
    clear_health_status clear_weight clone close confidential convert_to_ticket copy_metadata create_merge_request \
    done draft due duplicate epic estimate estimate_time health_status invite_email iteration label labels link \
    lock merge milestone move page promote promote_to promote_to_incident publish react ready reassign \
    reassign_reviewer rebase relabel relate remove_child remove_due_date remove_estimate remove_milestone \
    remove_parent reopen request_review severity shrug spend subscribe tableflip target_branch timeline todo";

/// Words of everyday talk: a line of one of them alone is rarely meant as a command.
const EVERYDAY: [&str; 8] = ["test", "again", "retry", "rerun", "run", "ok", "go", "done"];

/// A pack as its file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pack {
    #[expect(dead_code, reason = "the file says whose habits these are; only people read it")]
    about: String,
    alias: Vec<PackAlias>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackAlias {
    phrase: String,
    means: String,
}

/// The operator's own aliases, then those of the packs.
pub(super) fn aliases(check: &mut Check<'_>, raw: &raw::Commands, on_gitlab: bool) -> Vec<Alias> {
    let mut out = own(check, &raw.aliases);
    let mine = out.len();
    let mut whose: Vec<String> = Vec::new();
    for (i, name) in raw.alias_packs.iter().enumerate() {
        let path = format!("commands.alias_packs[{i}]");
        check.one_of(&path, name, &PACKS.map(|(name, _)| name));
        for alias in pack(name) {
            let known = out.iter().position(|a| a.phrase.eq_ignore_ascii_case(&alias.phrase));
            match known {
                Some(at) if at < mine || out.get(at).is_some_and(|a| a.means == alias.means) => {}
                Some(at) => {
                    let other = whose.get(at - mine).map_or("another", String::as_str);
                    check.fault(
                        &path,
                        format!("`{}` means one thing in `{other}` and another in `{name}`", alias.phrase),
                        "leave one of the packs out, or settle it with an entry in commands.aliases",
                    );
                }
                None => {
                    out.push(alias);
                    whose.push(name.clone());
                }
            }
        }
    }
    for (place, says) in lint(&out, on_gitlab) {
        check.warn("commands.aliases", format!("`{place}` {says}"));
    }
    out
}

/// The aliases of a pack; none when there is no such pack.
fn pack(name: &str) -> Vec<Alias> {
    let text = PACKS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).unwrap_or_default();
    let pack: Option<Pack> = toml::from_str(text).ok();
    let aliases = pack.map(|pack| pack.alias).unwrap_or_default();
    aliases.into_iter().map(|a| Alias { phrase: a.phrase, means: a.means }).collect()
}

/// What an alias does to one of our own commands; none when it leaves them as they are. A phrase that is a command already
/// may add arguments to it (`/test` for `/test all`) and may not make another one of it.
pub(super) fn usurps(phrase: &str, means: &str) -> Option<String> {
    let mut words = phrase.split_whitespace();
    let name = words.next()?.strip_prefix('/')?.to_lowercase();
    let bare = words.next().is_none_or(|word| word == "*");
    let meant = means.split_whitespace().next().unwrap_or_default();
    let other = !meant.trim_start_matches('/').eq_ignore_ascii_case(&name);
    let takes = bare && other && COMMANDS.contains(&name.as_str());
    takes.then(|| format!("`/{name}` is a command already, and people would get `{means}` for it"))
}

/// Checks aliases that are given one by one.
pub(super) fn own(check: &mut Check<'_>, raw: &[raw::Alias]) -> Vec<Alias> {
    const EXAMPLE: &str = "write { phrase = \"recheck\", means = \"/retest\" }";
    let mut aliases: Vec<Alias> = Vec::new();
    for (i, alias) in raw.iter().enumerate() {
        let (phrase_path, means_path) =
            (format!("commands.aliases[{i}].phrase"), format!("commands.aliases[{i}].means"));
        let phrase = check.needed(&phrase_path, alias.phrase.as_ref(), EXAMPLE);
        let means = check.needed(&means_path, alias.means.as_ref(), EXAMPLE);
        let (Some(phrase), Some(means)) = (phrase, means) else { continue };
        check.words(&phrase_path, phrase, 200);
        check.words(&means_path, means, 200);
        let command = means.strip_prefix('/').unwrap_or(means);
        check.one_of(&means_path, command.split_whitespace().next().unwrap_or_default(), &COMMANDS);
        if aliases.iter().any(|a| a.phrase.to_lowercase() == phrase.to_lowercase()) {
            check.fault(&phrase_path, format!("`{phrase}` has a meaning already"), "keep one of the two aliases");
        }
        aliases.push(Alias { phrase: phrase.clone(), means: format!("/{command}") });
    }
    aliases
}

/// What cannot work, or may surprise: the phrase, and what is to be said of it.
pub(super) fn lint(aliases: &[Alias], on_gitlab: bool) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let words = |alias: &Alias| -> Vec<String> { alias.phrase.split_whitespace().map(str::to_lowercase).collect() };
    for (at, alias) in aliases.iter().enumerate() {
        let mine = words(alias);
        let first = mine.first().map(String::as_str).unwrap_or_default();
        let slashed = first.strip_prefix('/');
        if let Some(action) = slashed.filter(|word| on_gitlab && QUICK_ACTIONS.split(' ').any(|action| action == *word))
        {
            let says = format!("is taken out of the note by GitLab, which obeys `/{action}` itself; it never arrives");
            found.push((alias.phrase.clone(), says));
        }
        if let Some(name) = slashed.filter(|word| COMMANDS.contains(word) && mine.get(1).is_some_and(|w| w == "*")) {
            found.push((alias.phrase.clone(), format!("takes the place of `/{name}` itself, whatever follows it")));
        } else if let Some(says) = usurps(&alias.phrase, &alias.means) {
            found.push((alias.phrase.clone(), format!("takes the place of a command: {says}")));
        }
        let everyday = EVERYDAY.contains(&first) && (mine.len() == 1 || mine.get(1).is_some_and(|w| w == "*"));
        if everyday {
            found
                .push((alias.phrase.clone(), "is a word of everyday talk: people will start jobs unawares".to_owned()));
        }
        let earlier = aliases.iter().take(at).find(|earlier| covers(&words(earlier), &mine));
        if let Some(earlier) = earlier {
            let says = format!("is never reached: `{}` stands before it and takes the line", earlier.phrase);
            found.push((alias.phrase.clone(), says));
        }
    }
    found
}

/// Whether every line of the second phrase is one of the first, too.
fn covers(first: &[String], second: &[String]) -> bool {
    match first.split_last() {
        Some((last, stem)) if last == "*" => second.starts_with(stem),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alias(phrase: &str, means: &str) -> Alias {
        Alias { phrase: phrase.into(), means: means.into() }
    }

    #[test]
    fn every_pack_is_there_reads_and_means_commands_that_parse() {
        for (name, text) in PACKS {
            let read: Pack = toml::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(!read.alias.is_empty(), "{name} is empty");
            let aliases = pack(name).into_iter().map(|a| retest_commands::Alias { phrase: a.phrase, means: a.means });
            let settings = retest_commands::GrammarSettings { aliases: aliases.collect(), ..Default::default() };
            retest_commands::Grammar::new(settings).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/config/aliases")).expect("the folder");
        assert_eq!(files.count(), PACKS.len(), "a pack that is not built in helps nobody");
    }

    #[test]
    fn no_pack_has_an_alias_that_cannot_work_or_surprises() {
        for (name, _) in PACKS {
            assert_eq!(lint(&pack(name), true), [], "{name}");
        }
    }

    #[test]
    fn no_two_packs_give_one_phrase_two_meanings() {
        let mut all: Vec<(Alias, &str)> = Vec::new();
        for (name, _) in PACKS {
            for alias in pack(name) {
                if let Some((other, whose)) = all.iter().find(|(a, _)| a.phrase.eq_ignore_ascii_case(&alias.phrase)) {
                    assert_eq!(other.means, alias.means, "`{}` in {whose} and {name}", alias.phrase);
                }
                all.push((alias, name));
            }
        }
    }

    #[test]
    fn the_lint_finds_what_never_arrives_what_is_never_reached_and_what_people_say_anyway() {
        let table = [
            (vec![alias("/rebase *", "/retest")], true, "is taken out of the note by GitLab"),
            (vec![alias("/retest *", "/test {tail}")], false, "takes the place of `/retest` itself"),
            (vec![alias("/Retest", "/cancel")], false, "people would get `/cancel` for it"),
            (vec![alias("retry", "/retest")], false, "everyday talk"),
            (vec![alias("recheck *", "/retest"), alias("recheck now", "/test all")], false, "is never reached"),
        ];
        for (aliases, gitlab, says) in table {
            let found = lint(&aliases, gitlab);
            assert!(found.iter().any(|(_, text)| text.contains(says)), "{says}: {found:?}");
        }
        assert_eq!(lint(&[alias("/rebase *", "/retest")], false), [], "GitHub has no such thing");
        assert_eq!(lint(&[alias("/test", "/test all")], false), [], "what it is told is still that command");
    }
}
