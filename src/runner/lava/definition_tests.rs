use super::*;

const JOB: &str = "# booted on every board\n\
job_name: boot\n\
device_type: lava-x86\n\
visibility: {group: [lab]}\n\
priority: medium\n\
tags: [fast]\n\
metadata:\n  commit: 'abc'   # of the kernel\n\
actions:\n\
- deploy:\n    to: tftp\n    kernel: {url: 'https://old/k', type: zimage}\n    ramdisk:\n      url: https://old/r\n      compression: gz\n    dtb:\n      url: https://old/d\n      sha256sum: 00\n\
- deploy: {to: tmpfs, images: {kernel: {url: 'https://old/k2'}, initrd: {url: 'https://old/i'}}}\n\
- boot: {method: u-boot, read_only: no}\n";

fn retried(text: &str, overrides: &[(&str, &str)], callback: Option<(String, String)>) -> Result<String, String> {
    let overrides = overrides.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let prefixes = ["https://new/".to_owned()];
    let retry = Retry { key: "retest-1", source: "12", overrides: &overrides, url_prefixes: &prefixes, callback };
    Definition::parse(text)?.retried(&retry)
}

#[test]
fn a_retry_differs_from_its_source_by_the_mark_alone() {
    let marked = retried(JOB, &[], None).expect("a definition");
    let mark = "\"retest.key\": \"retest-1\"\n  \"retest.source\": \"12\"\n  \"retest.number\": \"1\"\n  ";
    assert_eq!(marked.replace(mark, ""), JOB, "comments, quotes and visibility stay");
    let again = retried(&marked, &[], None).expect("a definition");
    assert!(again.contains("\"retest.number\": \"2\""), "a retry of a retry counts on: {again}");
    let bare = retried("job_name: x\nactions: []\n", &[], None).expect("a definition");
    assert_eq!(Definition::parse(&bare).expect("YAML").metadata().get(SOURCE), Some(&"12"));
}

#[test]
fn overrides_go_to_every_place_that_has_the_field_and_nowhere_else() {
    let table = [
        ("kernel", "https://new/k", 2, "https://old/k"),
        ("ramdisk", "https://new/r", 2, "https://old/r"),
        ("device_type", "lava-arm", 1, "device_type: lava-x86"),
        ("priority", "high", 1, "priority: medium"),
    ];
    for (name, value, times, gone) in table {
        let text = retried(JOB, &[(name, value)], None).expect(name);
        assert_eq!(text.matches(&format!("\"{value}\"")).count(), times, "{name}: {text}");
        assert!(!text.contains(gone), "{name}: {text}");
    }
    assert!(retried(JOB, &[("tags", "a, b")], None).expect("tags").contains("tags: [\"a\",\"b\"]"));
    assert!(retried(JOB, &[("priority", "70")], None).expect("priority").contains("priority: 70\n"));
}

#[test]
fn overrides_that_do_not_fit_are_refused_with_the_reason() {
    let table = [
        ("dtb", "https://new/d", "pins its `sha256sum`"),
        ("modules", "https://new/m", "deploys no `modules`"),
        ("kernel", "https://evil/k", "may not come from there"),
        ("kernel", "file:///etc/passwd", "http or https"),
        ("priority", "101", "0 to 100"),
        ("timeout", "1", "nothing that can be changed"),
        ("device_type", "a\nb", "cannot have this value"),
    ];
    for (name, value, why) in table {
        let refusal = retried(JOB, &[(name, value)], None).expect_err(name);
        assert!(refusal.contains(why), "{name}={value}: {refusal}");
    }
    let group = "job_name: m\nprotocols: {lava-multinode: {roles: {a: {device_type: x, count: 2}}}}\nactions: []\n";
    let refusal = retried(group, &[("device_type", "y")], None).expect_err("a group");
    assert!(refusal.contains("several devices"), "{refusal}");
}

#[test]
fn our_callback_stands_beside_others_and_takes_the_place_of_an_older_one() {
    let callback = || Some(("https://bot/callbacks/lab/retest-2".to_owned(), "Bearer t".to_owned()));
    let read = |text: &str| Definition::parse(text).expect("YAML").0.root.get("notify").and_then(Node::to_texts);
    let plain = read(&retried(JOB, &[], callback()).expect("a definition")).expect("notify");
    assert_eq!(plain["criteria"]["status"], "finished");
    assert_eq!(plain["callbacks"][0]["url"], "https://bot/callbacks/lab/retest-2");
    let theirs = "notify:\n  criteria: {status: complete}\n  callback: {url: 'https://ci/x', dataset: all}\n";
    let both = retried(&format!("{JOB}{theirs}"), &[], callback()).expect("a definition");
    let both = retried(&both, &[], callback()).expect("a definition");
    let notify = read(&both).expect("notify");
    let urls: Vec<&str> =
        notify["callbacks"].as_array().expect("a list").iter().filter_map(|c| c["url"].as_str()).collect();
    assert_eq!(urls, ["https://ci/x", "https://bot/callbacks/lab/retest-2"]);
    assert_eq!(notify["criteria"]["status"], "complete", "their criteria stay");
}
