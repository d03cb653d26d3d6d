//! The texts of what other processes change on a running capture.

use std::time::Duration;

/// T was changed, by a process of a user.
pub(crate) fn threshold_changed(before: Option<u64>, after: u64, uid: u32, pid: u32) -> String {
    let before = before.map(|before| format!("; it was {before} %")).unwrap_or_default();
    format!("T is now {after} %{before} (set by {})", who(uid, pid))
}

/// The time at which the capture ends was changed.
pub(crate) fn duration_changed(before: Option<u64>, after: u64, uid: u32, pid: u32) -> String {
    let seconds = |ms: u64| Duration::from_millis(ms).as_secs_f64();
    let before = match before {
        Some(before) => format!("it was {} s", seconds(before)),
        None => "there was no limit".into(),
    };
    format!("the capture now ends {} s after its start; {before} (set by {})", seconds(after), who(uid, pid))
}

/// The capture is being ended, by a process of a user.
pub(crate) fn stopped(uid: u32, pid: u32) -> String {
    format!("stopped by {}", who(uid, pid))
}

fn who(uid: u32, pid: u32) -> String {
    match pid {
        0 => format!("user {uid}"),
        pid => format!("user {uid}, process {pid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_both_values_and_who_made_it() {
        assert_eq!(
            threshold_changed(Some(60), 40, 0, 12),
            "T is now 40 %; it was 60 % (set by user 0, process 12)"
        );
        let text = duration_changed(None, 1_500, 5, 0);
        assert_eq!(text, "the capture now ends 1.5 s after its start; there was no limit (set by user 5)");
        assert_eq!(stopped(1000, 936), "stopped by user 1000, process 936");
    }
}
