//! Secrets: only from outside the file, never weak, never shown.

use super::super::{ForgeDetails, Settings, SettingsErrors, SystemSecrets};
use super::{EXEC, HOOK, HTTP, HUB, LAB, OTHER_HOOK, PEM, given, only_fault, right};
use secrecy::ExposeSecret;

fn with(name: &str, value: &str, text: &str) -> Result<Settings, SettingsErrors> {
    let mut secrets = given();
    secrets.insert(name.to_owned(), value.to_owned());
    Settings::parse(text, &secrets)
}

/// The text of the one fault that this value of `name` gives.
fn refusal(name: &str, value: &str, text: &str) -> String {
    let faults = with(name, value, text).expect_err(value).0;
    assert_eq!(faults.len(), 1, "{value}: {faults:?}");
    let shown = format!("{:#}", faults[0]);
    assert!(value.len() < 12 || !shown.contains(value), "the fault shows the secret: {shown}");
    shown
}

#[test]
fn a_weak_webhook_secret_refuses_the_start() {
    let table = [
        ("", "empty"),
        ("\n", "empty"),
        ("short", "shorter than 24 bytes"),
        ("abcdefghijklmnopqrstuvw", "shorter than 24 bytes"),
        ("abcdefghijkl mnopqrstuvwxyz", "blank"),
        ("abcdefghijklmnopqrstuvwxyz\n\n", "blank"),
        (" abcdefghijklmnopqrstuvwxyz", "blank"),
        ("abcdefghijkl\u{a0}mnopqrstuvwxyz", "blank"),
        ("development", "well-known"),
        ("secret", "well-known"),
        ("Secret\n", "well-known"),
        ("It's a Secret to Everybody", "well-known"),
        ("please-changeme-please-changeme", "well-known"),
        ("CHANGE_ME_CHANGE_ME_CHANGE_ME", "well-known"),
        ("abababababababababababababab", "repeats"),
    ];
    for (value, words) in table {
        assert!(refusal("HOOK", value, HUB).contains(words), "{value:?}");
        let tokens = LAB.replace("signing_keys = [{ env = \"SIGNING\" }]", "webhook_tokens = [{ env = \"HOOK\" }]");
        assert!(refusal("HOOK", value, &tokens).contains(words), "{value:?} as GitLab token");
    }
    assert!(with("HOOK", "abcdefghijklmnopqrstuvwx", HUB).is_ok(), "24 bytes are enough");
}

#[test]
fn a_signing_key_must_be_32_random_bytes_behind_whsec() {
    let table = [
        ("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "does not start with `whsec_`"),
        ("whsec_!!!", "not base64"),
        ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "does not hold 32 bytes"),
        ("whsec_", "does not hold 32 bytes"),
        ("whsec_dGVzdHRlc3R0ZXN0dGVzdHRlc3R0ZXN0dGVzdHRlc3Q=", "well-known"),
        ("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "repeats"),
        ("", "empty"),
    ];
    for (value, words) in table {
        assert!(refusal("SIGNING", value, LAB).contains(words), "{value}");
    }
    let settings = right(LAB);
    let ForgeDetails::Gitlab(gitlab) = &settings.forges[0].kind else { panic!("not GitLab") };
    let bytes: Vec<u8> = (0..32).collect();
    assert_eq!(gitlab.signing_keys[0].key().expose_secret(), bytes.as_slice());
}

#[test]
fn tokens_and_private_keys_must_look_like_what_they_are() {
    let app = HUB.replace("token = { env = \"TOKEN\" }", "app = { id = 7, private_key = { env = \"PEM\" } }");
    let table = [
        ("TOKEN", "", HUB, "empty"),
        ("TOKEN", "ghp_abc def", HUB, "blank"),
        ("TOKEN", "changeme", HUB, "stand-in"),
        ("TOKEN", "ghp_ä", HUB, "no HTTP header can carry"),
        ("PEM", "ghp_abc", &app, "not a private key in PEM form"),
        ("PEM", "-----BEGIN PUBLIC KEY-----\nAA\n-----END PUBLIC KEY-----", &app, "not a private key in PEM form"),
        ("PEM", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA\n-----END", &app, "behind a passphrase"),
        ("PEM", "-----BEGIN PRIVATE KEY-----\nAA", &app, "not a private key in PEM form"),
    ];
    for (name, value, text, words) in table {
        assert!(refusal(name, value, text).contains(words), "{value}");
    }
    assert!(with("PEM", PEM, &app).is_ok());
    assert!(with("PEM", "-----BEGIN PRIVATE KEY-----\nAA\n-----END PRIVATE KEY-----", &app).is_ok());
}

#[test]
fn a_secret_is_pointed_to_in_exactly_one_way_that_leads_somewhere() {
    let table = [
        ("{ env = \"UNSET\" }", "`UNSET` is not set"),
        ("{ file = \"/nowhere/x\" }", "cannot read `/nowhere/x`"),
        ("{}", "exactly one of `env` and `file`"),
        ("{ env = \"HOOK\", file = \"x\" }", "exactly one of `env` and `file`"),
        ("{ env = \"HOOK\", id = \"Old One\" }", "cannot be a name"),
    ];
    for (secret, words) in table {
        let fault = only_fault(&HUB.replace("{ env = \"HOOK\" }", secret));
        assert!(fault.path.starts_with("forge[0].webhook_secrets[0]"), "{}", fault.path);
        assert!(fault.text.contains(words), "{}", fault.text);
    }
}

#[test]
fn several_secrets_stand_side_by_side_for_rotation() {
    let two = "[{ env = \"HOOK\", id = \"old\" }, { env = \"OTHER_HOOK\", id = \"new\" }]";
    let settings = right(&HUB.replace("[{ env = \"HOOK\" }]", two));
    let ForgeDetails::Github(github) = &settings.forges[0].kind else { panic!("not GitHub") };
    let found: Vec<_> = github.webhook_secrets.iter().map(|s| (s.id(), s.value().expose_secret())).collect();
    assert_eq!(found, [(Some("old"), HOOK), (Some("new"), OTHER_HOOK)]);

    let same = two.replace("OTHER_HOOK", "HOOK");
    assert!(only_fault(&HUB.replace("[{ env = \"HOOK\" }]", &same)).text.contains("same secret as an earlier one"));
    let same_id = two.replace("new", "old");
    assert!(only_fault(&HUB.replace("[{ env = \"HOOK\" }]", &same_id)).text.contains("name of an earlier secret"));
    let both = LAB.replace("token =", "webhook_tokens = [{ env = \"HOOK\" }]\ntoken =");
    let settings = right(&both);
    let ForgeDetails::Gitlab(gitlab) = &settings.forges[0].kind else { panic!("not GitLab") };
    assert_eq!((gitlab.webhook_tokens.len(), gitlab.signing_keys.len()), (1, 1));
}

#[test]
fn one_newline_at_the_end_does_not_count() {
    for end in ["\n", "\r\n"] {
        let settings = with("HOOK", &format!("{HOOK}{end}"), HUB).expect("it is right");
        let ForgeDetails::Github(github) = &settings.forges[0].kind else { panic!("not GitHub") };
        assert_eq!(github.webhook_secrets[0].value().expose_secret(), HOOK);
    }
}

#[test]
fn secrets_are_read_from_real_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("hook");
    std::fs::write(&path, format!("{HOOK}\n")).expect("written");
    let token = folder.path().join("token");
    std::fs::write(&token, "ghp_abc\n").expect("written");
    let config = folder.path().join("retest-bot.toml");
    let text = HUB
        .replace("{ env = \"HOOK\" }", &format!("{{ file = {path:?} }}"))
        .replace("{ env = \"TOKEN\" }", &format!("{{ file = {token:?} }}"));
    std::fs::write(&config, &text).expect("written");
    assert_eq!(Settings::load(&config).expect("it is right").forges.len(), 1);

    std::fs::write(&path, "x".repeat(70_000)).expect("written");
    let faults = Settings::parse(&text, &SystemSecrets).expect_err("too large");
    assert!(faults.to_string().contains("larger than 64 KiB"), "{faults}");
    let missing = Settings::load(&folder.path().join("other.toml")).expect_err("missing");
    assert!(missing.to_string().contains("cannot read the configuration file"), "{missing}");
}

#[test]
fn no_secret_is_shown_by_debug_or_summary() {
    let app = HUB.replace("token = { env = \"TOKEN\" }", "app = { id = 7, private_key = { env = \"PEM\" } }");
    let http = format!("{HTTP}token = {{ env = \"BUILDER_TOKEN\" }}\n");
    let settings = with("PEM", PEM, &format!("{app}{LAB}{EXEC}{http}")).expect("it is right");
    let shown = format!("{settings:?}\n{settings:#?}\n{}\n{:?}", settings.summary(), settings.warnings());
    for secret in given().values().map(String::as_str).chain(["MIIEpAIBAAKC", "AAECAwQF"]) {
        assert!(!shown.contains(secret), "shows {secret}");
    }
    assert!(settings.summary().contains("as App 7, 1 webhook secrets (without id)"), "{}", settings.summary());
}

#[test]
fn a_secret_written_into_the_file_is_refused_and_not_repeated() {
    let table = [
        (HUB.replace("{ env = \"HOOK\" }", &format!("{HOOK:?}")), "forge[0].webhook_secrets"),
        (HUB.replace("[{ env = \"HOOK\" }]", &format!("{HOOK:?}")), "forge[0].webhook_secrets"),
        (HUB.replace("[{ env = \"HOOK\" }]", &format!("[\n  {HOOK:?},\n]")), "forge[0].webhook_secrets"),
        (HUB.replace("{ env = \"TOKEN\" }", &format!("{HOOK:?}")), "forge[0].token"),
        (HUB.replace("env = \"TOKEN\"", &format!("value = {HOOK:?}")), "forge[0].token.value"),
        (format!("{HUB}webhook = {HOOK:?}"), "forge[0].webhook"),
        (format!("{HUB}web_url = \"https://me:{HOOK}@host\""), "forge[0].web_url"),
        (format!("{HUB}webhook_token = {HOOK:?} x"), ""),
        (format!("{HUB}note = \"\"\"\n{HOOK}\"\" x"), ""),
        (
            format!("{HUB}{HTTP}").replace("id_pointer", &format!("headers = {{ Cookie = {HOOK:?} }}, id_pointer")),
            "runner[0].start.headers.Cookie",
        ),
    ];
    for (text, path) in table {
        let fault = super::wrong(&text).remove(0);
        assert_eq!(fault.path, path);
        let shown = format!("{fault:#} {fault:?}");
        assert!(!shown.contains(HOOK), "{shown}");
    }
}
