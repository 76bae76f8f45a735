//! Answers kept with their ETag, so that an unchanged one costs nothing of the rate limit.
//!
//! GitHub's ETags depend on the token, so the token's generation is part of the key; answers got with an old token
//! are never asked for again and leave as the oldest.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::HeaderValue;

/// Answers kept.
const ENTRIES_MAX: usize = 512;
/// Larger answers are not kept, in bytes: 512 of them stay below 64 MiB.
const ENTRY_BYTES_MAX: usize = 128 << 10;

/// A kept answer.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub etag: HeaderValue,
    pub body: Bytes,
    /// Path and query of the next page.
    pub next: Option<String>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: HashMap<(u64, String), (u64, Kept)>,
    tick: u64,
}

#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<Inner>);

impl Cache {
    pub fn get(&self, generation: u64, path: &str) -> Option<Kept> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.tick += 1;
        let tick = inner.tick;
        let (used, kept) = inner.entries.get_mut(&(generation, path.to_owned()))?;
        *used = tick;
        Some(kept.clone())
    }

    /// Keeps an answer; the one that was not used for longest makes room.
    pub fn put(&self, generation: u64, path: &str, kept: Kept) {
        if kept.body.len() > ENTRY_BYTES_MAX {
            return;
        }
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.tick += 1;
        let tick = inner.tick;
        let key = (generation, path.to_owned());
        if inner.entries.len() >= ENTRIES_MAX && !inner.entries.contains_key(&key) {
            let oldest = inner.entries.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                inner.entries.remove(&oldest);
            }
        }
        inner.entries.insert(key, (tick, kept));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(size: usize) -> Kept {
        Kept { etag: HeaderValue::from_static("\"e\""), body: Bytes::from(vec![b'x'; size]), next: None }
    }

    #[test]
    fn the_cache_is_bounded_and_drops_what_was_not_used_for_longest() {
        let cache = Cache::default();
        for n in 0..ENTRIES_MAX {
            cache.put(1, &n.to_string(), kept(1));
        }
        assert!(cache.get(1, "0").is_some(), "used just now");
        cache.put(1, "one more", kept(1));
        assert!(cache.get(1, "0").is_some() && cache.get(1, "1").is_none());
        assert_eq!(cache.0.lock().expect("lock").entries.len(), ENTRIES_MAX);
    }

    #[test]
    fn an_answer_got_with_another_token_is_not_used() {
        let cache = Cache::default();
        cache.put(1, "path", kept(1));
        assert!(cache.get(2, "path").is_none());
    }

    #[test]
    fn a_huge_answer_is_not_kept() {
        let cache = Cache::default();
        cache.put(1, "path", kept(ENTRY_BYTES_MAX + 1));
        assert!(cache.get(1, "path").is_none());
    }
}
