//! Reads the dates of GitLab in every format that it sends.
//!
//! REST dates are ISO 8601; webhooks also send `2015-05-17 18:08:09 UTC` and the like (forge-gitlab reference, 1).
//! A date never makes a payload unreadable: what cannot be read is `None`.

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use serde::{Deserialize, Deserializer};

use crate::domain::Timestamp;

/// Reads a date and time, or a date (its first moment), in UTC where no zone is told.
pub fn read_time(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(Timestamp::from_ms(time.timestamp_millis()));
    }
    for format in ["%Y-%m-%d %H:%M:%S%.f %z", "%Y-%m-%dT%H:%M:%S%.f%z", "%Y-%m-%d %H:%M:%S%.f%z"] {
        if let Ok(time) = DateTime::parse_from_str(text, format) {
            return Some(Timestamp::from_ms(time.timestamp_millis()));
        }
    }
    let plain = text.strip_suffix("UTC").unwrap_or(text).trim_end();
    for format in ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"] {
        if let Ok(time) = NaiveDateTime::parse_from_str(plain, format) {
            return Some(Timestamp::from_ms(time.and_utc().timestamp_millis()));
        }
    }
    let day = NaiveDate::parse_from_str(plain, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0)?;
    Some(Timestamp::from_ms(day.and_utc().timestamp_millis()))
}

/// For `#[serde(deserialize_with)]`: any JSON value at all, a date where it is one.
pub(super) fn lenient<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Timestamp>, D::Error> {
    let value = serde_json::Value::deserialize(input)?;
    Ok(value.as_str().and_then(read_time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_that_gitlab_sends_is_the_same_moment() {
        let table = [
            "2015-05-17 18:08:09 UTC",
            "2015-05-17T18:08:09Z",
            "2015-05-17T18:08:09.000Z",
            "2015-05-17T20:08:09+02:00",
            "2015-05-17T20:08:09+0200",
            "2015-05-17 18:08:09 +0000",
            "2015-05-17 18:08:09 -0000",
            "2015-05-17T18:08:09",
        ];
        for text in table {
            assert_eq!(read_time(text), Some(Timestamp::from_ms(1_431_886_089_000)), "{text}");
        }
        assert_eq!(read_time("2015-05-17"), Some(Timestamp::from_ms(1_431_820_800_000)), "a day is its first moment");
    }

    #[test]
    fn what_is_no_date_is_none_and_no_error() {
        #[derive(Deserialize)]
        struct Holder {
            #[serde(default, deserialize_with = "lenient")]
            at: Option<Timestamp>,
        }
        for body in [r#"{"at":"yesterday"}"#, r#"{"at":12}"#, r#"{"at":null}"#, r#"{"at":{"x":1}}"#, "{}"] {
            let holder: Holder = serde_json::from_str(body).expect("never fails on a date");
            assert_eq!(holder.at, None, "{body}");
        }
    }
}
