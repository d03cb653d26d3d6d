//! The texts of symmetric RSS: what is set, how it is undone, and why it is not set.

use serde_json::{Value, json};
use wirecap::{
    diagnostic::{RssFailure, RssLoss, RssRecovery, RssRefusal, RssUndo, RssUndoFailure},
    report::{RssReport, RssState},
};

/// Symmetric RSS, and how it is undone.
pub fn report(RssReport { hash, state, undo }: &RssReport) -> String {
    let undo = undo.as_ref().map(command);
    let symmetric = format!("symmetric ({hash})");
    match (state, undo) {
        (RssState::Shared, _) => format!("{symmetric}; it stays for another capture of this process"),
        (RssState::LeftAlone, _) => {
            format!("{symmetric} until another program changed it, and left as it is")
        }
        (RssState::Active, None) => {
            format!(
                "{symmetric} already; if the program that set it undoes that, wirecap sets it again and warns"
            )
        }
        (_, None) => format!("{symmetric}, as it was before"),
        (RssState::Failed(cause), Some(undo)) => {
            format!("{symmetric}; it could not be put back ({cause}), do it by: {undo}")
        }
        (RssState::Restored, _) => format!("{symmetric}; put back as it was"),
        (_, Some(undo)) => format!("{symmetric} until the end; after kill -9 put it back by: {undo}"),
    }
}

/// The command that restores the hash from before.
fn command(RssUndo { interface, key, function, transform }: &RssUndo) -> String {
    let mut command = format!("ethtool -X {interface}");
    if let Some(key) = key {
        let bytes: Vec<_> = key.iter().map(|byte| format!("{byte:02x}")).collect();
        command += &format!(" hkey {}", bytes.join(":"));
    }
    if let Some(function) = function {
        command += &format!(" hfunc {function}");
    }
    if let Some(transform) = transform {
        command += &format!(" xfrm {transform}");
    }
    command
}

/// Why the hash cannot be made symmetric.
pub fn refusal(reason: &RssRefusal) -> String {
    match reason {
        RssRefusal::OneEnd { interface, flows } => {
            let first = flows.first().copied().unwrap_or_default();
            format!(
                "it hashes one end only of {} (ethtool -n {interface} rx-flow-hash {first}); ethtool -N {interface} rx-flow-hash \
                 {first} sdfn changes that",
                flows.join(", ")
            )
        }
        RssRefusal::NotReadable(cause) => cause.to_string(),
        RssRefusal::NotSet { attempts, undo_failure } => {
            let attempts =
                attempts.iter().map(|attempt| format!("{}: {}", attempt.hash, failure(&attempt.failure)));
            let undone = undo_failure.as_deref().map(|RssUndoFailure { cause, undo }| {
                format!("the hash from before cannot be restored ({cause}); do it by: {}", command(undo))
            });
            attempts.chain(undone).collect::<Vec<_>>().join("; ")
        }
        _ => "the reason is unknown".into(),
    }
}

fn failure(failure: &RssFailure) -> String {
    match failure {
        RssFailure::Refused(cause) => cause.to_string(),
        RssFailure::NotKept => "the driver does not keep it".into(),
        RssFailure::NotReadBack(cause) => format!("it cannot be read back: {cause}"),
        _ => "the reason is unknown".into(),
    }
}

/// Why symmetric RSS is lost.
pub fn loss(loss: &RssLoss) -> String {
    match loss {
        RssLoss::SetByOthers => "what was set is neither what was before nor ours".into(),
        RssLoss::NotSetAgain(reason) => format!("it cannot be set again: {}", refusal(reason)),
        _ => "the reason is unknown".into(),
    }
}

/// The report in a JSON record: with the command as text.
pub fn report_in_json(RssReport { undo, .. }: &RssReport, record: &mut Value) {
    record["undo"] = undo.as_ref().map(command).into();
}

/// What became of it, in the JSON record of a diagnostic: a loss as a cause.
pub fn recovery_in_json(recovery: &RssRecovery, record: &mut Value) {
    if let RssRecovery::Failed(reason) = recovery {
        let errno = match reason {
            RssLoss::NotSetAgain(RssRefusal::NotReadable(cause)) => cause.errno,
            _ => None,
        };
        record["recovery"] = json!({ "failed": { "errno": errno, "text": loss(reason) } });
    }
}

#[cfg(test)]
mod tests {
    use wirecap::diagnostic::{Cause, RssAttempt, SymmetricHash};
    use wirecap_sys::netdev::{HashFunction, HashTransform};

    use super::*;

    const XOR: SymmetricHash = SymmetricHash::Transform(HashTransform::SYMMETRIC_XOR);

    fn cause(text: &str) -> Cause {
        Cause { errno: None, text: text.into() }
    }

    fn no_transform() -> RssUndo {
        let interface = "eth1".into();
        RssUndo { interface, transform: Some(HashTransform::NONE), ..RssUndo::default() }
    }

    #[test]
    fn symmetric_rss_is_shown_with_the_command_that_undoes_it() {
        let text = |state, undo: Option<RssUndo>| report(&RssReport { hash: XOR, state, undo });
        let undo = "ethtool -X eth1 xfrm none";
        let set = text(RssState::Active, Some(no_transform()));
        assert_eq!(
            set,
            format!("symmetric (symmetric-xor) until the end; after kill -9 put it back by: {undo}")
        );
        assert!(text(RssState::Active, None).starts_with("symmetric (symmetric-xor) already; "));
        for state in [RssState::Restored, RssState::LeftAlone, RssState::Shared] {
            assert!(!text(state, Some(no_transform())).contains("ethtool"));
        }
    }

    #[test]
    fn the_command_restores_what_was_changed() {
        let undo = RssUndo {
            interface: "eth1".into(),
            key: Some([3, 0x0a, 0xff].into()),
            function: Some(HashFunction::XOR),
            transform: None,
        };
        assert_eq!(command(&undo), "ethtool -X eth1 hkey 03:0a:ff hfunc xor");
    }

    #[test]
    fn each_attempt_is_listed_with_its_failure() {
        let attempts = vec![
            RssAttempt { hash: XOR, failure: RssFailure::NotKept },
            RssAttempt { hash: SymmetricHash::ToeplitzKey, failure: RssFailure::NotReadBack(cause("gone")) },
        ];
        let failure = RssUndoFailure { cause: cause("gone"), undo: no_transform() };
        let reason = RssRefusal::NotSet { attempts, undo_failure: Some(Box::new(failure)) };
        let text = "symmetric-xor: the driver does not keep it; Toeplitz with a symmetric key: it cannot be read back: \
            gone; the hash from before cannot be restored (gone); do it by: ethtool -X eth1 xfrm none";
        assert_eq!(refusal(&reason), text);
        let mut record = json!({});
        recovery_in_json(&RssRecovery::Failed(RssLoss::NotSetAgain(reason)), &mut record);
        let failed = &record["recovery"]["failed"];
        assert_eq!(
            (&failed["errno"], &failed["text"]),
            (&Value::Null, &format!("it cannot be set again: {text}").into())
        );

        let (interface, flows) = ("eth1".into(), vec!["tcp4", "udp4"]);
        let one_end = refusal(&RssRefusal::OneEnd { interface, flows });
        assert!(
            one_end.starts_with("it hashes one end only of tcp4, udp4 (ethtool -n eth1 rx-flow-hash tcp4); "),
            "{one_end}"
        );
    }
}
