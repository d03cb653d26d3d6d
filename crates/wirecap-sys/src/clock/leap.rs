//! Leap seconds: how far UTC is behind TAI, and when.
//!
//! ```text
//!   TAI   …│ 00:00:35 │ 00:00:36 │ 00:00:37 │…        of 2017-01-01
//!   UTC   …│ 23:59:59 │ 23:59:60 │ 00:00:00 │…
//!   ns since 1970  ─────► stands still ─────►          at 23:59:59.999999999
//! ```
//!
//! Rule: nanoseconds since 1970 have no room for 23:59:60. What happened in it bears the last nanosecond
//! before it: so time never goes back, and everything outside of that second is right.

use std::fs;

use super::NS_PER_S;

/// The list of the IERS as the package tzdata brings it.
const LIST: &str = "/usr/share/zoneinfo/leap-seconds.list";
/// From the epoch of the list, 1900, to 1970, in seconds.
const NTP_TO_UNIX_S: u64 = 2_208_988_800;
const S_PER_DAY: u64 = 86_400;
/// When the built-in table ends to be known good: 2026-06-28.
const BUILT_IN_EXPIRES: u64 = 3_991_593_600 - NTP_TO_UNIX_S;
/// How many seconds UTC was behind TAI from the first of these days on.
const FIRST_BEHIND_S: u64 = 10;
/// Days since 1900 on which it began to be one second more.
const BUILT_IN_DAYS: [u64; 28] = [
    26_297, 26_479, 26_663, 27_028, 27_393, 27_758, 28_124, 28_489, 28_854, 29_219, 29_766, 30_131, 30_496,
    31_227, 32_141, 32_872, 33_237, 33_784, 34_149, 34_514, 35_063, 35_610, 36_159, 38_716, 39_812, 41_089,
    42_184, 42_734,
];

/// The offset of UTC from TAI from a moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    /// In seconds since 1970, UTC.
    utc_s: u64,
    behind_s: u64,
    /// In nanoseconds of TAI since 1970: the beginning of the leap second, where there is one.
    begins_tai_ns: u64,
}

impl Step {
    /// When the new offset holds, in nanoseconds of TAI.
    fn holds_tai_ns(&self) -> u64 {
        (self.utc_s + self.behind_s) * NS_PER_S
    }
}

/// A stretch of TAI, in nanoseconds since 1970, in which UTC is always equally far behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from_tai_ns: u64,
    pub(super) until_tai_ns: u64,
    pub(super) behind_ns: u64,
}

/// The table of leap seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeapSeconds {
    /// INVARIANT: not empty, in order of time.
    steps: Vec<Step>,
    /// In seconds since 1970.
    expires_s: u64,
}

impl LeapSeconds {
    /// The newer of the built-in table and that of the package tzdata.
    pub fn load() -> Self {
        let built_in = Self::built_in();
        let listed = fs::read_to_string(LIST).ok().and_then(|text| Self::parse(&text));
        listed.filter(|listed| listed.expires_s >= built_in.expires_s).unwrap_or(built_in)
    }

    /// The table this program was made with: leap seconds up to 2017-01-01, known good until 2026-06-28.
    pub fn built_in() -> Self {
        Self::new(&built_in_entries(), BUILT_IN_EXPIRES).expect("the built-in table is in order")
    }

    /// Reads a list in the form of the IERS (`leap-seconds.list`). `None` if it makes no sense.
    ///
    /// ```
    /// use wirecap_sys::clock::LeapSeconds;
    ///
    /// let list = "#@ 3991593600\n3644697600 36 # 1 Jul 2015\n3692217600 37 # 1 Jan 2017\n";
    /// assert_eq!(LeapSeconds::parse(list).unwrap().behind_s(1_800_000_000), 37);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (mut entries, mut expires_s) = (Vec::new(), None);
        for line in text.lines() {
            if let Some(expires) = line.strip_prefix("#@") {
                expires_s = Some(expires.trim().parse::<u64>().ok()?.checked_sub(NTP_TO_UNIX_S)?);
            }
            let mut words = line.split('#').next()?.split_whitespace();
            if let (Some(from), Some(behind)) = (words.next(), words.next()) {
                entries.push((from.parse().ok()?, behind.parse().ok()?));
            }
        }
        Self::new(&entries, expires_s?)
    }

    /// Of seconds since 1900 with the offset from then on. They go up, and each offset is a second from the
    /// one before.
    fn new(entries: &[(u64, u64)], expires_s: u64) -> Option<Self> {
        let mut steps: Vec<Step> = Vec::with_capacity(entries.len());
        for &(from_ntp_s, behind_s) in entries {
            // Nothing that a person could mean is longer after 1970; the sums below stay in 64 bits.
            let utc_s =
                from_ntp_s.checked_sub(NTP_TO_UNIX_S).filter(|&from| from < u64::from(u32::MAX) * 2)?;
            let before = steps.last().map_or(behind_s, |step| step.behind_s);
            let in_order = steps.last().is_none_or(|step| step.utc_s < utc_s);
            if !in_order || before.abs_diff(behind_s) > 1 || behind_s > 1000 {
                return None;
            }
            let begins_tai_ns = (utc_s + before.min(behind_s)) * NS_PER_S;
            steps.push(Step { utc_s, behind_s, begins_tai_ns });
        }
        (!steps.is_empty()).then_some(Self { steps, expires_s })
    }

    /// How far UTC is behind TAI at a time in seconds since 1970 (UTC), in seconds.
    pub fn behind_s(&self, utc_s: u64) -> u64 {
        let step = self.steps.iter().rev().find(|step| step.utc_s <= utc_s);
        step.unwrap_or(&self.steps[0]).behind_s
    }

    /// UTC of a time in nanoseconds of TAI since 1970. In a leap second it stands still.
    ///
    /// ```
    /// let leaps = wirecap_sys::clock::LeapSeconds::built_in();
    /// assert_eq!(leaps.utc_of_tai_ns(1_700_000_037_000_000_001), 1_700_000_000_000_000_001);
    /// ```
    pub fn utc_of_tai_ns(&self, tai_ns: u64) -> u64 {
        let step =
            self.steps.iter().rev().find(|step| step.begins_tai_ns <= tai_ns).unwrap_or(&self.steps[0]);
        if tai_ns < step.holds_tai_ns() && tai_ns >= step.begins_tai_ns {
            return step.utc_s * NS_PER_S - 1;
        }
        tai_ns.saturating_sub(step.behind_s * NS_PER_S)
    }

    /// The stretch around a time, in nanoseconds of TAI, in which [`Self::utc_of_tai_ns`] only subtracts.
    /// Empty in a leap second.
    pub(super) fn stretch(&self, tai_ns: u64) -> Stretch {
        let next = self.steps.iter().position(|step| step.begins_tai_ns > tai_ns).unwrap_or(self.steps.len());
        let step = &self.steps[next.saturating_sub(1)];
        let from_tai_ns = if next == 0 { 0 } else { step.holds_tai_ns() };
        let until_tai_ns = self.steps.get(next).map_or(u64::MAX, |step| step.begins_tai_ns);
        Stretch { from_tai_ns, until_tai_ns, behind_ns: step.behind_s * NS_PER_S }
    }

    /// The stretch that follows the one which ends at this time: behind the leap second that begins there.
    pub(super) fn stretch_behind(&self, until_tai_ns: u64) -> Option<Stretch> {
        let step = self.steps.iter().find(|step| step.begins_tai_ns == until_tai_ns)?;
        Some(self.stretch(step.holds_tai_ns()))
    }

    /// Whether a leap second is less than two seconds away: the system clock is not to be trusted then, since
    /// it shows one second twice.
    pub(super) fn is_near(&self, utc_s: u64) -> bool {
        self.steps.iter().any(|step| step.utc_s.abs_diff(utc_s) <= 2)
    }

    /// Until when it is known whether there are more, in seconds since 1970.
    pub fn expires_s(&self) -> u64 {
        self.expires_s
    }

    /// The same as a date, like 2026-06-28.
    pub fn expires_on(&self) -> String {
        date(self.expires_s / S_PER_DAY)
    }
}

/// The built-in table as a list has it: seconds since 1900, and how many seconds UTC is behind TAI from then
/// on.
fn built_in_entries() -> [(u64, u64); BUILT_IN_DAYS.len()] {
    std::array::from_fn(|index| (BUILT_IN_DAYS[index] * S_PER_DAY, FIRST_BEHIND_S + index as u64))
}

/// The date `days` days after 1970-01-01: years begin in March, so that a leap day is the last of its year,
/// and every 400 of them have as many days.
pub fn date(days: u64) -> String {
    const DAYS_TO_1970: u64 = 719_468;
    const DAYS_PER_400_YEARS: u64 = 146_097;
    let days = days + DAYS_TO_1970;
    let (era, day) = (days / DAYS_PER_400_YEARS, days % DAYS_PER_400_YEARS);
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day_of_month:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2017-01-01T00:00:00Z.
    const NEW_YEAR_S: u64 = 1_483_228_800;

    fn tai(seconds: u64, ns: u64) -> u64 {
        (NEW_YEAR_S + seconds) * NS_PER_S + ns
    }

    #[test]
    fn across_the_leap_second_of_2016() {
        let leaps = LeapSeconds::built_in();
        let utc = |seconds, ns| leaps.utc_of_tai_ns(tai(seconds, ns));
        let new_year_ns = NEW_YEAR_S * NS_PER_S;
        assert_eq!(utc(35, 0), new_year_ns - NS_PER_S, "23:59:59");
        assert_eq!(utc(35, NS_PER_S - 1), new_year_ns - 1);
        assert_eq!([utc(36, 0), utc(36, 1), utc(36, NS_PER_S - 1)], [new_year_ns - 1; 3], "23:59:60");
        assert_eq!(utc(37, 0), new_year_ns, "00:00:00");
        assert_eq!(utc(3600, 7), new_year_ns + (3600 - 37) * NS_PER_S + 7);
        assert_eq!((leaps.behind_s(NEW_YEAR_S - 1), leaps.behind_s(NEW_YEAR_S)), (36, 37));
    }

    #[test]
    fn a_negative_leap_second() {
        let list = "#@ 4000000000\n3692217600 37\n3692217700 36\n";
        let leaps = LeapSeconds::parse(list).unwrap();
        // The last of these hundred seconds is left out: the time goes from 98 to 100.
        let utc = |seconds: u64| leaps.utc_of_tai_ns(tai(37 + seconds, 5)) - NEW_YEAR_S * NS_PER_S;
        assert_eq!(utc(98), 98 * NS_PER_S + 5);
        assert_eq!(utc(99), 100 * NS_PER_S + 5);
    }

    #[test]
    fn stretches_agree_with_the_table_and_never_hold_a_leap_second() {
        let leaps = LeapSeconds::built_in();
        for tai_ns in [0, tai(0, 0), tai(35, 0), tai(36, 5), tai(37, 0), tai(1 << 30, 0)] {
            let stretch = leaps.stretch(tai_ns);
            let inside = (stretch.from_tai_ns..stretch.until_tai_ns).contains(&tai_ns);
            assert_eq!(inside, tai_ns != tai(36, 5), "{stretch:?}");
            if inside {
                assert_eq!(leaps.utc_of_tai_ns(tai_ns), tai_ns.saturating_sub(stretch.behind_ns));
            }
        }
    }

    #[test]
    fn the_list_of_tzdata_is_read_as_the_built_in_one() {
        let lines = built_in_entries().map(|(from, behind)| format!("{from}\t{behind}\t# a date\n")).concat();
        let list = format!("# ATOMIC TIME\n#$ 3960835200\n#@\t3991593600\n{lines}#h 49db2447\n");
        assert_eq!(LeapSeconds::parse(&list), Some(LeapSeconds::built_in()));
    }

    #[test]
    fn dates() {
        assert_eq!(LeapSeconds::built_in().expires_on(), "2026-06-28");
        for (utc_s, expected) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_483_228_799, "2016-12-31"),
            (NEW_YEAR_S, "2017-01-01"),
        ] {
            assert_eq!(date(utc_s / S_PER_DAY), expected);
        }
    }

    #[test]
    fn a_malformed_list_is_refused() {
        let good = "#@ 3991593600\n3644697600 36\n3692217600 37\n";
        assert!(LeapSeconds::parse(good).is_some());
        for (from, to) in [
            ("#@ 3991593600", ""),
            ("36", "25"),
            ("3644697600", "9"),
            ("3644697600", "3992217600"),
            ("37", "x"),
        ] {
            assert_eq!(LeapSeconds::parse(&good.replace(from, to)), None, "{to}");
        }
        assert_eq!(LeapSeconds::parse(""), None);
        assert_eq!(LeapSeconds::parse("#@ 3991593600\n18446744073709551615 37\n"), None);
    }
}
