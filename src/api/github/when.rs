//! GitHub's dates. Lenient on the way in: a date that cannot be read is no reason to drop what came with it.

use chrono::{DateTime, NaiveDateTime, SecondsFormat, Utc};

use crate::domain::Timestamp;

/// Reads a date as GitHub writes it (RFC 3339; in some old payloads `2019-05-15 15:20:18 UTC`).
pub fn timestamp(text: &str) -> Option<Timestamp> {
    let ms = match DateTime::parse_from_rfc3339(text) {
        Ok(date) => date.timestamp_millis(),
        Err(_) => NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S UTC").ok()?.and_utc().timestamp_millis(),
    };
    Some(Timestamp::from_ms(ms))
}

/// Writes a date as GitHub wants it in `since`: UTC, whole seconds, rounded down.
pub fn iso(at: Timestamp) -> String {
    let date = DateTime::<Utc>::from_timestamp_millis(at.ms()).unwrap_or_default();
    date.to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_dates_are_read_and_nonsense_is_no_date() {
        let table = [
            ("1970-01-01T00:00:01Z", Some(1_000), "the usual form"),
            ("1970-01-01T01:00:00+01:00", Some(0), "with an offset"),
            ("1970-01-01T00:00:00.250Z", Some(250), "with a fraction"),
            ("1970-01-01 00:00:02 UTC", Some(2_000), "the old form"),
            ("yesterday", None, "no date"),
            ("", None, "nothing"),
        ];
        for (text, ms, why) in table {
            assert_eq!(timestamp(text).map(Timestamp::ms), ms, "{why}");
        }
        assert_eq!(iso(Timestamp::from_ms(1_999)), "1970-01-01T00:00:01Z");
    }
}
