//! What the house must look like: layers, sizes, and documents that say what the code says.
//!
//! Reads the repository as text, so that a rule holds for code that no test runs. It judges no style that `rustfmt` or
//! `clippy` judges. The layer table is the one in `ARCHITECTURE.md`: change it there, with the reason beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use retest_bot::decide::{Left, Reason, RefusalKind};
use retest_commands::{COMMANDS, MistakeKind};

/// Most lines of code in a file; blank lines and lines that are only a comment do not count.
const LINES_MAX: usize = 500;

/// Files that are longer, with their own limit and the reason.
const LONGER: [(&str, usize, &str); 1] =
    [("tests/all/gitlab.rs", 620, "the claims about one adapter against one stage, each short")];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files below a folder with that ending, sorted; build output and hidden folders are left out.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" && name != "node_modules" {
                found.extend(files(&path, ending));
            }
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The path from the top of the repository, with `/`.
fn short(path: &Path) -> String {
    let path = path.strip_prefix(root()).expect("below the top");
    path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// One row of the layer table: a folder or file of `src/`, and what it may import.
struct Layer {
    place: String,
    may: BTreeSet<String>,
}

/// The layer table, top row first. A word in the last column is a place of an earlier row, or `everything above`.
fn layers() -> Vec<Layer> {
    let text = read(&root().join("ARCHITECTURE.md"));
    let rows = text.lines().skip_while(|line| !line.starts_with("| Layer |")).skip(2);
    let code = Regex::new("`([^`]+)`").expect("a valid pattern");
    let mut layers: Vec<Layer> = Vec::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [_, place, may] = cells.as_slice() else { panic!("a row of the layer table has three cells: {row}") };
        let place = code.captures(place).unwrap_or_else(|| panic!("no place in {row}"))[1].to_owned();
        let may = if may.contains("everything above") {
            layers.iter().map(|layer| layer.place.clone()).collect()
        } else {
            code.captures_iter(may).map(|found| found[1].to_owned()).collect()
        };
        layers.push(Layer { place, may });
    }
    assert!(layers.len() > 10, "the layer table was found");
    layers
}

/// The place of the table that a module path lies in: the longest that fits.
fn place_of<'a>(layers: &'a [Layer], path: &[String]) -> Option<&'a str> {
    let fits = |place: &str| {
        let parts: Vec<&str> = place.split('/').collect();
        path.len() >= parts.len() && parts.iter().zip(path).all(|(part, own)| part == own)
    };
    let places = layers.iter().map(|layer| layer.place.as_str()).filter(|place| fits(place));
    places.max_by_key(|place| place.len())
}

/// The module path of a file below `src/`.
fn module_of(file: &str) -> Vec<String> {
    let inner = file.trim_start_matches("src/").trim_end_matches(".rs");
    let mut parts: Vec<String> = inner.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// The code of a file without its comments. An address in a text loses its end, which holds no import.
fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Reads a path such as `a::{b, c::d}` into its branches, each with `prefix` before it.
fn branches(text: &[char], at: &mut usize, prefix: &[String], found: &mut Vec<Vec<String>>) {
    let mut path = prefix.to_vec();
    loop {
        while text.get(*at).is_some_and(|c| c.is_whitespace()) {
            *at += 1;
        }
        if text.get(*at) == Some(&'{') {
            *at += 1;
            branches_in_braces(text, at, &path, found);
            return;
        }
        let mut word = String::new();
        while let Some(c) = text.get(*at).filter(|c| c.is_alphanumeric() || **c == '_') {
            word.push(*c);
            *at += 1;
        }
        if word.is_empty() {
            found.push(path);
            return;
        }
        path.push(word);
        if text.get(*at) != Some(&':') || text.get(*at + 1) != Some(&':') {
            found.push(path);
            return;
        }
        *at += 2;
    }
}

fn branches_in_braces(text: &[char], at: &mut usize, prefix: &[String], found: &mut Vec<Vec<String>>) {
    while let Some(c) = text.get(*at) {
        if *c == '}' {
            *at += 1;
            return;
        }
        if c.is_whitespace() || *c == ',' {
            *at += 1;
            continue;
        }
        branches(text, at, prefix, found);
        // ` as name`, `*`: nothing that an import rule is about.
        while text.get(*at).is_some_and(|c| *c != ',' && *c != '}') {
            *at += 1;
        }
    }
}

/// Every module path that a file names from the top of the crate, by `crate::` or by climbing with `super::`.
fn named_paths(file: &str, code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let start = Regex::new(r"(^|[^A-Za-z0-9_$:])(crate::|(?:super::)+)").expect("a valid pattern");
    let own = module_of(file);
    let mut inside = 0;
    for (number, line) in code.lines().enumerate() {
        // A module written inside a file is one level deeper; it is the last thing of its file here.
        if line.starts_with("mod ") || line.starts_with("pub mod ") || line.starts_with("pub(super) mod ") {
            inside = usize::from(line.trim_end().ends_with('{'));
        }
        for hit in start.captures_iter(line) {
            let (whole, word) = (hit.get(0).expect("a match"), &hit[2]);
            let prefix: Vec<String> = if word == "crate::" {
                Vec::new()
            } else {
                let climbed =
                    (word.len() / "super::".len()).saturating_sub(if line.starts_with(' ') { inside } else { 0 });
                own.iter().take(own.len().saturating_sub(climbed)).cloned().collect()
            };
            let rest: String = code.lines().skip(number).collect::<Vec<_>>().join("\n");
            let rest: Vec<char> = rest.chars().skip(line[..whole.end()].chars().count()).collect();
            branches(&rest, &mut 0, &prefix, &mut found);
        }
    }
    found
}

/// Every import of the program between two places of the table: (file, from, to).
fn imports(layers: &[Layer]) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for path in files(&root().join("src"), ".rs") {
        let file = short(&path);
        if file == "src/lib.rs" || file == "src/main.rs" {
            continue;
        }
        let own = module_of(&file);
        let from = place_of(layers, &own).map_or_else(|| own.join("/"), str::to_owned);
        for target in named_paths(&file, &without_comments(&read(&path))) {
            // What lies above every place (a folder's own `mod.rs`, an item of the crate's top) is no import of a layer.
            let Some(to) = place_of(layers, &target) else { continue };
            if to != from {
                found.push((file.clone(), from.clone(), to.to_owned()));
            }
        }
    }
    assert!(found.len() > 100, "imports were found: {}", found.len());
    found
}

#[test]
fn the_layer_table_is_an_order_and_names_every_module() {
    let layers = layers();
    for (number, layer) in layers.iter().enumerate() {
        let earlier: BTreeSet<&str> = layers.iter().take(number).map(|l| l.place.as_str()).collect();
        for other in &layer.may {
            assert!(
                earlier.contains(other.as_str()),
                "`{}` may import only what stands above it, not `{other}`",
                layer.place
            );
        }
        let (folder, file) = (format!("src/{}", layer.place), format!("src/{}.rs", layer.place));
        assert!(root().join(&folder).is_dir() || root().join(&file).is_file(), "`{}` is no part of src/", layer.place);
    }
    for path in files(&root().join("src"), ".rs") {
        let file = short(&path);
        let own = module_of(&file);
        let is_top = file == "src/lib.rs" || file == "src/main.rs" || (own.len() == 1 && file.ends_with("/mod.rs"));
        assert!(is_top || place_of(&layers, &own).is_some(), "{file} has no row in the layer table");
    }
}

#[test]
fn imports_point_down_the_layer_table() {
    let layers = layers();
    let wrong: BTreeSet<String> = imports(&layers)
        .into_iter()
        .filter(|(file, from, to)| {
            let allowed = layers.iter().find(|l| l.place == *from).is_some_and(|l| l.may.contains(to));
            let is_test = file.contains("/tests") || file.ends_with("_tests.rs");
            !(allowed || (is_test && to.starts_with("sandbox")))
        })
        .map(|(file, from, to)| format!("{file}: `{from}` must not import `{to}`"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_two_top_level_modules_import_each_other_in_a_circle() {
    let top = |place: &str| place.split('/').next().unwrap_or_default().to_owned();
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, from, to) in imports(&layers()) {
        edges.entry(top(&to)).or_default();
        if top(&from) != top(&to) {
            edges.entry(top(&from)).or_default().insert(top(&to));
        }
    }
    // A module that imports nothing that is left can be put at the bottom; in a circle none can.
    while let Some(bottom) = edges.iter().find(|(_, to)| to.is_empty()).map(|(from, _)| from.clone()) {
        edges.remove(&bottom);
        for to in edges.values_mut() {
            to.remove(&bottom);
        }
    }
    assert!(edges.is_empty(), "a circle among {edges:?}");
}

#[test]
fn no_file_has_more_than_500_lines_of_code() {
    let mut long = Vec::new();
    for folder in ["src", "commands", "tests"] {
        for path in files(&root().join(folder), ".rs") {
            let text = read(&path);
            let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("//")).count();
            let file = short(&path);
            let max = LONGER.iter().find(|(name, _, _)| *name == file).map_or(LINES_MAX, |(_, max, _)| *max);
            if lines > max {
                long.push(format!("{file}: {lines} lines of code, {max} allowed"));
            }
        }
    }
    assert!(long.is_empty(), "split by idea, or give the reason in LONGER: {long:#?}");
}

#[test]
fn every_word_of_an_answer_is_documented() {
    let text = read(&root().join("docs/reasons.md"));
    let reasons = Reason::ALL.iter().map(|r| r.as_str());
    let refusals = RefusalKind::ALL.iter().map(|r| r.as_str());
    let mistakes = MistakeKind::ALL.iter().map(|m| m.as_str());
    for word in reasons.chain(refusals).chain(mistakes) {
        assert!(text.contains(&format!("| `{word}` |")), "docs/reasons.md has no row for `{word}`");
    }
}

#[test]
fn every_reason_why_a_flake_is_left_alone_is_documented() {
    let text = read(&root().join("docs/flakes.md"));
    for left in Left::ALL {
        assert!(text.contains(&format!("`{}`", left.as_str())), "docs/flakes.md does not explain `{}`", left.as_str());
        assert_eq!(Left::parse(left.as_str()), Some(left));
    }
}

#[test]
fn every_migration_is_built_in() {
    let list = read(&root().join("src/store/mod.rs"));
    let all = files(&root().join("src/store/migrations"), ".sql");
    assert!(!all.is_empty());
    for path in all {
        let name = path.file_name().and_then(|n| n.to_str()).expect("a plain name");
        assert!(
            list.contains(&format!("include_str!(\"migrations/{name}\")")),
            "src/store/mod.rs does not list {name}"
        );
    }
}

#[test]
fn every_relative_link_in_a_document_leads_to_a_file() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("a valid pattern");
    let mut broken = Vec::new();
    let mut checked = 0;
    for path in files(root(), ".md") {
        let text = read(&path);
        let mut in_code = false;
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            }
            if in_code {
                continue;
            }
            for found in link.captures_iter(line) {
                let target = found[1].split('#').next().unwrap_or_default();
                if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                checked += 1;
                if !path.parent().expect("a file has a folder").join(target).exists() {
                    broken.push(format!("{}: {target}", short(&path)));
                }
            }
        }
    }
    assert!(broken.is_empty() && checked > 10, "{checked} links, broken: {broken:#?}");
}

const COMMANDS_HEAD: &str = "\
# Commands

<!-- Written by the test `commands_md_is_what_the_grammar_says` from the crate `commands`. Change it there, then run
     RETEST_BOT_WRITE_DOCS=1 tests/run commands_md -->

A command stands on a line of its own, in your own words: not in code, quotes, HTML comments or link texts. Capitals, leading
blanks and a full stop at the end are forgiven. `/retest lava-x86`, `@bot retest lava-x86` and `/retest@bot lava-x86` mean the same
where `commands.mention` or the bot's login has that name. What is nearly a command runs nothing and gets one hint;
other bots' commands are passed over. [reasons.md](reasons.md) explains the words of the answers.
";

/// The document from the grammar.
fn commands_md() -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let mut out = String::from(COMMANDS_HEAD);
    out.push_str("\n| Command | Does | Who, unless configured otherwise |\n| --- | --- | --- |\n");
    for doc in COMMANDS {
        let (summary, right) = (cell(doc.summary), cell(doc.right));
        writeln!(out, "| [`/{0}`](#{0}) | {summary} | {right} |", doc.name).expect("text grows");
    }
    for doc in COMMANDS {
        writeln!(out, "\n## /{}\n\n```text\n{}\n```\n\n{}\n", doc.name, doc.usage, doc.summary).expect("text grows");
        writeln!(out, "Right: {}.\n\n| Line | Does |\n| --- | --- |", doc.right).expect("text grows");
        for example in doc.examples {
            writeln!(out, "| `{}` | {} |", cell(example.line), cell(example.does)).expect("text grows");
        }
    }
    out
}

#[test]
fn commands_md_is_what_the_grammar_says() {
    let path = root().join("docs/commands.md");
    let wanted = commands_md();
    if std::env::var_os("RETEST_BOT_WRITE_DOCS").is_some() {
        fs::write(&path, &wanted).expect("docs/commands.md is written");
    }
    let found = read(&path);
    let differs = found.lines().zip(wanted.lines()).find(|(a, b)| a != b);
    assert!(
        found == wanted,
        "docs/commands.md is old at {differs:?}; run RETEST_BOT_WRITE_DOCS=1 tests/run commands_md"
    );
}
