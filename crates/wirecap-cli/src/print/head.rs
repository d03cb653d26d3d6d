//! What every record that `--json` prints begins with.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// Version of the records: it grows when a field goes, or gets another meaning. New fields do not change it.
const SCHEMA: u32 = 1;
const SECONDS_PER_DAY: u64 = 86_400;

/// What a record is of.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Head {
    /// Version of these fields, 1. A new field does not change it; a field that goes, or gets another meaning, does.
    schema: u32,
    /// Version of wirecap.
    version: &'static str,
    /// The command.
    command: &'static str,
    /// When it began, by the system clock: UTC, as RFC 3339 writes it.
    started: String,
}

impl Head {
    pub(crate) fn new(command: &'static str, started: SystemTime) -> Self {
        Self { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), command, started: rfc3339(started) }
    }
}

/// A time in UTC, with milliseconds: `2026-11-25T14:04:27.123Z`.
fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, second) = (since.as_secs() / SECONDS_PER_DAY, since.as_secs() % SECONDS_PER_DAY);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// Year, month and day of a number of days since 1970, in the Gregorian calendar.
///
/// Years are counted from March, so that a leap day is the last of its year, and 400 of them have 146,097
/// days.
fn date(days: u64) -> (u64, u64, u64) {
    let since_march_of_0 = days + 719_468;
    let (era, day_of_era) = (since_march_of_0 / 146_097, since_march_of_0 % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339_has_them() {
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
