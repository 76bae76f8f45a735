//! Stand-in for the grammar crate's types until it lands.
#![expect(missing_docs, reason = "replaced by the grammar crate")]
use std::collections::BTreeMap;
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    pub whole: Option<String>,
    pub words: Vec<Selector>,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    Name(String),
    Glob(String),
    Failed,
    Required,
    Optional,
    All,
    Runner(String),
    Platform(String),
    Url(String),
}
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    pub force: bool,
    pub dry_run: bool,
    pub with_needs: bool,
}
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retest {
    pub selection: Selection,
    pub flags: Flags,
    pub overrides: BTreeMap<String, String>,
    pub sha: Option<String>,
    pub times: Option<u32>,
    pub issue: Option<u64>,
    pub reason: Option<String>,
}
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Test(pub Retest);
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cancel {
    pub selection: Selection,
}
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jobs;
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Help;
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OkToTest {
    pub sha: Option<String>,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Retest(Retest),
    Test(Test),
    Cancel(Cancel),
    Jobs(Jobs),
    Help(Help),
    OkToTest(OkToTest),
    Flake(Help),
    Autoretry(Help),
    Override(Help),
    Why(Help),
}
impl Command {
    pub fn name(&self) -> &'static str {
        "retest"
    }
    pub fn title(&self) -> String {
        "/retest".into()
    }
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedCommand {
    pub command: Command,
    pub line: u32,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MistakeKind {
    NearMiss,
}
impl MistakeKind {
    pub fn as_str(self) -> &'static str {
        "near_miss"
    }
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub kind: MistakeKind,
    pub text: String,
    pub hint: String,
    pub line: u32,
}
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    pub commands: Vec<ParsedCommand>,
    pub mistakes: Vec<Mistake>,
}
impl Parsed {
    pub fn one(command: Command) -> Self {
        Self { commands: vec![ParsedCommand { command, line: 1 }], mistakes: vec![] }
    }
}
impl Selection {
    pub fn names(&self, job: &str) -> bool {
        self.words.iter().any(|w| *w == Selector::Name(job.into()))
    }
}
pub struct CommandDoc {
    pub name: &'static str,
    pub usage: &'static str,
    pub summary: &'static str,
}
pub const COMMANDS: &[CommandDoc] = &[];
#[derive(Clone, Debug)]
pub struct Grammar;
pub fn parse(text: &str, _: &Grammar) -> Parsed {
    let mut out = Parsed::default();
    for (n, l) in text.lines().enumerate() {
        if let Some(rest) = l.strip_prefix("/retest") {
            let words = rest.split_whitespace().map(|w| Selector::Name(w.into())).collect();
            out.commands.push(ParsedCommand {
                command: Command::Retest(Retest { selection: Selection { whole: None, words }, ..Retest::default() }),
                line: n as u32 + 1,
            });
        }
    }
    out
}
pub fn new_commands(_: &str, after: &str, g: &Grammar) -> Parsed {
    parse(after, g)
}
