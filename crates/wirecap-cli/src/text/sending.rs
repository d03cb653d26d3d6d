//! The fallbacks of the commands that send, and their texts.

use serde::Serialize;
use wirecap::PassiveReason;
use wirecap_send::{CopyReason, SendDiagnostic};

use super::host_use;

/// A request about sending that was not met as asked.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "snake_case")]
pub(crate) enum Fallback {
    /// Zero-copy was not tried, because it could disturb the host.
    ZeroCopySpared {
        /// How the host uses the interface.
        reason: PassiveReason,
    },
    #[serde(untagged)]
    Sending(SendDiagnostic),
}

/// The text of a fallback, without the name of the interface.
pub(crate) fn describe(fallback: &Fallback) -> String {
    match fallback {
        Fallback::ZeroCopySpared { reason } => {
            format!(
                "copy: the kernel copies each packet; zero-copy was not tried, because {}",
                host_use::reason(reason)
            )
        }
        Fallback::Sending(SendDiagnostic::ZeroCopyUnavailable { reason }) => {
            let reason = match reason {
                CopyReason::NotOffered => "the driver does not offer it",
                CopyReason::NeedsProgram => "the driver offers it only with an XDP program attached",
                CopyReason::Refused { cause } => cause,
            };
            format!("copy: the kernel copies each packet; zero-copy is not available: {reason}")
        }
        Fallback::Sending(SendDiagnostic::NoMultiBuffer { longest }) => {
            format!(
                "packets longer than {longest} bytes are skipped: the driver cannot send packets of several buffers"
            )
        }
        Fallback::Sending(SendDiagnostic::LinkNotWatched { cause }) => {
            format!("the link is not watched: {cause}")
        }
        Fallback::Sending(SendDiagnostic::NotPinned { core, cause }) => {
            format!("the sending thread is not pinned to core {core}: {cause}")
        }
        Fallback::Sending(_) => "a request was not met".into(),
    }
}

#[cfg(test)]
mod tests {
    use wirecap::HostUse;

    use super::*;
    use crate::text::DiagnosticWithText;

    #[test]
    fn each_fallback_has_a_code_its_data_and_a_text() {
        let bridge = HostUse::XdpProgram { program_id: 7, program: None };
        let spared = Fallback::ZeroCopySpared { reason: PassiveReason::InUse(vec![bridge]) };
        let cause = || "no".to_owned();
        let sending = [
            SendDiagnostic::ZeroCopyUnavailable { reason: CopyReason::NotOffered },
            SendDiagnostic::NoMultiBuffer { longest: 4096 },
            SendDiagnostic::LinkNotWatched { cause: cause() },
            SendDiagnostic::NotPinned { core: 3, cause: cause() },
        ];
        let codes = ["zero_copy_unavailable", "no_multi_buffer", "link_not_watched", "not_pinned"];
        let fallbacks = [spared].into_iter().chain(sending.map(Fallback::Sending));
        for (fallback, code) in fallbacks.zip(["zero_copy_spared"].into_iter().chain(codes)) {
            let record = serde_json::to_value(DiagnosticWithText::new(fallback, describe)).unwrap();
            assert_eq!(record["code"], code);
            assert!(record["text"].as_str().is_some_and(|text| !text.is_empty()), "{record}");
            assert!(record.as_object().unwrap().len() > 2, "{record}");
        }
    }
}
