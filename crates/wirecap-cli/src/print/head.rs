//! The fields that begin every record of `--json`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use wirecap_sys::clock::date;

/// Version of the records: it grows when a field goes or changes its meaning. New fields do not change it.
const SCHEMA: u32 = 1;
const SECONDS_PER_DAY: u64 = 86_400;

/// What a record is about.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Head {
    /// Version of these fields, 1. A new field does not change it; a field that goes or changes its meaning
    /// does.
    schema: u32,
    /// Version of wirecap.
    version: &'static str,
    /// The command.
    command: &'static str,
    /// When the command started, by the system clock: UTC, in the format of RFC 3339.
    started: String,
}

impl Head {
    pub(crate) fn new(command: &'static str, started: SystemTime) -> Self {
        Self { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), command, started: rfc3339(started) }
    }

    /// When the command started.
    pub(crate) fn started(&self) -> &str {
        &self.started
    }
}

/// A time in UTC, with milliseconds: `2026-11-25T14:04:27.123Z`.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, second) = (since.as_secs() / SECONDS_PER_DAY, since.as_secs() % SECONDS_PER_DAY);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{}T{hour:02}:{minute:02}:{second:02}.{:03}Z", date(days), since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_in_rfc_3339() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_709_251_200, "2024-03-01T00:00:00"),
            (1_798_761_599, "2026-12-31T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_micros(7_900);
            assert_eq!(rfc3339(time), format!("{text}.007Z"));
        }
    }
}
