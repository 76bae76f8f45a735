use proptest::prelude::*;
use serde_json::json;

use super::*;

fn set(path: &[&str], value: Value) -> Edit {
    let step = |word: &&str| word.parse().map_or_else(|_| Step::Key((*word).to_owned()), Step::At);
    Edit { path: path.iter().map(step).collect(), value }
}

fn edited(text: &str, edits: &[Edit]) -> Result<String, String> {
    Document::parse(text).expect("YAML").edited(edits)
}

#[test]
fn a_change_leaves_every_other_byte_alone() {
    let table = [
        ("a: 1 # one\nb: no\n", set(&["a"], json!("é")), "a: \"é\" # one\nb: no\n", "a plain value, the comment stays"),
        ("a: 'x'\n", set(&["a"], json!(7)), "a: 7\n", "a quoted one"),
        ("{a: 1, b: 2}", set(&["a"], json!("x")), "{a: \"x\", b: 2}", "flow style"),
        ("{\"a\":1}", set(&["b"], json!("x")), "{\"b\": \"x\", \"a\":1}", "JSON is YAML"),
        ("a: {}\n", set(&["a", "k"], json!("v")), "a: {\"k\": \"v\"}\n", "into an empty map"),
        (
            "a:\n  é: 1\n",
            set(&["a", "k"], json!("v")),
            "a:\n  \"k\": \"v\"\n  é: 1\n",
            "before the first key, indented",
        ),
        ("- a: 1\n  b: 2\n", set(&["0", "k"], json!("v")), "- \"k\": \"v\"\n  a: 1\n  b: 2\n", "in a list"),
        ("---\n# c\na: 1\n", set(&["k"], json!({"x": "y"})), "---\n# c\n\"k\": {\"x\":\"y\"}\na: 1\n", "at the top"),
        ("tags:\n- a\n- b\nz: 1\n", set(&["tags"], json!(["c"])), "tags: [\"c\"]\nz: 1\n", "a block list"),
        ("t:\n  - a # x\nz: 1\n", set(&["t"], json!([])), "t: [] # x\nz: 1\n", "its last comment stays"),
        ("a:\nb: 1\n", set(&["a"], json!("x")), "a: \"x\"\nb: 1\n", "nothing becomes something"),
        ("a: b\n  c\nz: 1\n", set(&["a"], json!("x")), "a: \"x\"\nz: 1\n", "a plain value of two lines"),
        ("x: &n {a: 1}\ny: *n\n", set(&["y"], json!("x")), "x: &n {a: 1}\ny: \"x\"\n", "one use of an anchor"),
        ("a: |\n  kept  \n\nb: 1\n", set(&["b"], json!(2)), "a: |\n  kept  \n\nb: 2\n", "a block text is kept"),
    ];
    for (text, edit, wanted, why) in table {
        assert_eq!(edited(text, &[edit]).as_deref(), Ok(wanted), "{why}");
    }
}

#[test]
fn what_would_touch_more_than_it_should_is_refused() {
    let table = [
        ("x: &n 1\ny: *n\n", set(&["x"], json!("2")), "others refer to it"),
        ("x: &n {a: 1}\ny: *n\n", set(&["x", "b"], json!("2")), "an alias repeats the map"),
        ("a: |\n  text\n", set(&["a"], json!("2")), "a block text"),
        ("a: 1\n", set(&["b", "c"], json!("2")), "the way is not there"),
        ("- 1\n", set(&["a"], json!("2")), "no map"),
    ];
    for (text, edit, why) in table {
        assert!(edited(text, &[edit]).is_err(), "{why}");
    }
    for (text, why) in [("a: [", "broken"), ("a: 1\n---\nb: 2\n", "two documents"), ("", "nothing")] {
        assert!(Document::parse(text).is_err(), "{why}");
    }
    assert!(Document::parse(&"[".repeat(1_000)).is_err(), "too deep");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_and_what_it_gives_says_the_wish(text in "[a-z:{}\\[\\], \n'\"&*|>#?-]{0,60}", value in ".*") {
        if let Ok(document) = Document::parse(&text) {
            let wish = set(&["a"], json!(value));
            if let Ok(new) = document.edited(std::slice::from_ref(&wish)) {
                let after = Document::parse(&new).expect("still YAML");
                prop_assert!(after.root.get("a").is_some_and(|node| node.says(&wish.value)));
            }
        }
    }
}
