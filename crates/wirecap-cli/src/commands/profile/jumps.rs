//! Words for times of packets that jump.

use wirecap_profile::{Jump, Jumps};

use crate::text::{
    plural::{counted, is},
    units::length,
};

/// A jump, as a line while the profile grows.
pub(super) fn noticed(jump: &Jump) -> String {
    format!("{}; the profile goes on as if no time had passed", what(jump))
}

/// A line if there are more jumps than the profile describes.
pub(super) fn unnamed(jumps: &Jumps) -> String {
    format!(
        "the packets' times have jumped more than {} times; further jumps are only counted",
        jumps.first.len()
    )
}

/// The jumps of a profile that has ended.
pub(super) fn describe(jumps: &Jumps) -> Vec<String> {
    let mut lines: Vec<_> =
        jumps.first.iter().map(|jump| format!("{}; the profile counts no time for it", what(jump))).collect();
    let more = jumps.number.saturating_sub(jumps.first.len() as u64);
    if more > 0 {
        lines.push(format!(
            "{} of the packets' times; the profile counts no time for them either",
            counted(more, "more jump")
        ));
    }
    lines
}

fn what(jump: &Jump) -> String {
    let (direction, ns) = match jump.to_ns.checked_sub(jump.from_ns) {
        Some(ahead) => ("forward", ahead),
        None => ("back", jump.from_ns - jump.to_ns),
    };
    // A jump is known to the width of a bin: an hour is not 59 min 59 s.
    let by = std::time::Duration::from_nanos(ns);
    let by = length(if by.as_secs() < 10 { by } else { by + std::time::Duration::from_millis(500) });
    format!("at {:.3} s of the profile, the packets' times jump {direction} by {by}", jump.seconds)
}

/// Packets whose times are far from those of the others, or that came after their bin was closed, if bins
/// `may_close_early`.
pub(super) fn outliers(late: u64, ahead: u64, may_close_early: bool) -> Option<String> {
    let sides = match (late, ahead) {
        (0, 0) => return None,
        (late, 0) => format!("{late} earlier"),
        (0, ahead) => format!("{ahead} later"),
        (late, ahead) => format!("{late} earlier, {ahead} later"),
    };
    let packets = late + ahead;
    Some(format!(
        "{} {} in no bin, only in the shares, because {} more than a second from those of the packets around {}{} ({sides})",
        counted(packets, "packet"),
        is(packets),
        if packets == 1 { "its time is" } else { "their times are" },
        if packets == 1 { "it" } else { "them" },
        if late > 0 && may_close_early {
            ", or earlier than bins that were still open (a wider --bin keeps more open)"
        } else {
            ""
        },
    ))
}

#[cfg(test)]
mod tests {
    use wirecap_profile::SILENCE_NS;

    use super::*;

    #[test]
    fn jumps_and_outliers_have_sizes_and_directions() {
        let second = 1_000_000_000;
        let back = Jump { seconds: 12.3, from_ns: 9_000 * second, to_ns: 5_400 * second };
        let ahead = Jump { from_ns: back.to_ns, to_ns: back.to_ns + SILENCE_NS + second, ..back };
        let lines = describe(&Jumps { number: 5, first: vec![back, ahead] });
        assert_eq!(
            lines,
            [
                "at 12.300 s of the profile, the packets' times jump back by 1 h 0 min; the profile counts no time for it",
                "at 12.300 s of the profile, the packets' times jump forward by 10 min 1 s; the profile counts no time for it",
                "3 more jumps of the packets' times; the profile counts no time for them either",
            ]
        );
        assert!(outliers(1, 0, false).unwrap().ends_with("from those of the packets around it (1 earlier)"));
        assert!(outliers(2, 3, false).unwrap().ends_with("around them (2 earlier, 3 later)"));
        assert!(outliers(0, 3, true).unwrap().ends_with("around them (3 later)"));
        let early = "around them, or earlier than bins that were still open (a wider --bin keeps more open) (2 earlier, 3 later)";
        assert!(outliers(2, 3, true).unwrap().ends_with(early));
        assert_eq!(outliers(0, 0, true), None);
    }
}
