//! The single signature check of the program.
//!
//! SHA-256 only, several secrets at once, constant time: every secret is tried whatever the earlier ones said.

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The secrets that a sender may use at present; more than one while they are being changed.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Vec<SecretString>);

impl Secrets {
    /// These secrets; `settings` has refused empty, short and default ones.
    pub fn new(secrets: Vec<SecretString>) -> Self {
        Self(secrets)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The secrets as bytes.
    pub fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|s| s.expose_secret().as_bytes())
    }
}

/// Whether `signature` is the HMAC-SHA256 of the concatenated `parts` under one of `keys`.
///
/// Both forges sign this way: GitHub the body (`X-Hub-Signature-256`), GitLab `id.timestamp.body` (Standard Webhooks).
pub fn hmac_sha256_matches<'a>(keys: impl Iterator<Item = &'a [u8]>, parts: &[&[u8]], signature: &[u8]) -> bool {
    keys.fold(false, |found, key| {
        let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(key) else { return found };
        for part in parts {
            mac.update(part);
        }
        // `verify_slice` compares in constant time; `|` so that no key is skipped.
        found | mac.verify_slice(signature).is_ok()
    })
}

/// Whether a plain token is one of the secrets. The hashes are compared, so that not even the length shows.
pub fn token_matches(secrets: &Secrets, token: &[u8]) -> bool {
    let given = Sha256::digest(token);
    let hit = secrets.bytes().fold(subtle::Choice::from(0), |found, s| found | Sha256::digest(s).ct_eq(&given));
    bool::from(hit) && !secrets.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector that GitHub publishes in "Validating webhook deliveries".
    const SECRET: &str = "It's a Secret to Everybody";
    const SIGNATURE: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    fn published() -> Vec<u8> {
        hex::decode(SIGNATURE).expect("hex")
    }

    #[test]
    fn the_published_vector_passes_under_any_of_several_secrets() {
        let keys: [&[u8]; 2] = [b"the next secret, already set up", SECRET.as_bytes()];
        assert!(hmac_sha256_matches(keys.into_iter(), &[b"Hello, ", b"World!"], &published()));
    }

    #[test]
    fn every_flipped_bit_and_every_wrong_length_is_refused() {
        let keys = || std::iter::once(SECRET.as_bytes());
        for bit in 0..256 {
            let mut wrong = published();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(!hmac_sha256_matches(keys(), &[b"Hello, World!"], &wrong), "bit {bit}");
        }
        for length in [0, 1, 20, 31] {
            assert!(!hmac_sha256_matches(keys(), &[b"Hello, World!"], &published()[..length]));
        }
        assert!(!hmac_sha256_matches(std::iter::empty(), &[b"Hello, World!"], &published()), "no key, no match");
    }

    #[test]
    fn a_token_must_be_one_of_the_secrets_whole() {
        let secrets = Secrets::new(vec!["first-token-of-enough-length".into(), "second-token-of-enough-length".into()]);
        assert!(token_matches(&secrets, b"second-token-of-enough-length"));
        for wrong in [&b""[..], b"second-token-of-enough-lengt", b"second-token-of-enough-length "] {
            assert!(!token_matches(&secrets, wrong));
        }
        assert!(!token_matches(&Secrets::default(), b""), "no secret, no entry");
    }
}
