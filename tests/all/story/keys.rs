//! The secrets of a story, by the names under which its configuration asks for them.

use std::collections::BTreeMap;

use super::stage::{LAVA_TOKEN, SECRET, SIGNING, TOKEN};

pub(super) fn secrets() -> BTreeMap<String, String> {
    let key = include_str!("../../fixtures/github/app-key.pem");
    [
        ("SECRET", SECRET),
        ("TOKEN", TOKEN),
        ("SIGNING", SIGNING),
        ("KEY", key),
        ("LAVA_TOKEN", LAVA_TOKEN),
        ("MAESTRO", "maestro-token-6f1d3c5a9b8e"),
        ("PIPELINE", "eyJhbGciOiJIUzI1NiJ9.e30.c2ln"),
    ]
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .into()
}
