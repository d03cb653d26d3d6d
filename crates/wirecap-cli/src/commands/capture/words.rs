//! The words of `wirecap capture` that are not flags: interfaces, then optionally a filter.
//!
//! Rule: the filter begins with the first word that is not an interface. The first word always is one, so
//! that a misspelt name is reported as such.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use wirecap::{
    Config,
    config::prefix::{self, TRACE},
};
use wirecap_core::choices;
use wirecap_filter::shortened;

use crate::values::{SHORT_MIB, is_trace, is_trace_path, ports, text_file};

/// Stores ports and filter in the settings.
///
/// # Errors
/// [`Usage`](crate::exit::Usage) for words that cannot be ports or a filter.
pub(crate) fn apply(
    words: &[String],
    filter: Option<String>,
    config: &mut Config,
    is_interface: impl FnMut(&str) -> bool,
) -> Result<()> {
    let (words, expression) = split(words, is_interface)?;
    if let (Some(filter), [word, ..]) = (&filter, expression) {
        let (word, filter) = (shortened(word), shortened(filter));
        bail!(usage!(
            "there is no interface {word}, and --filter already gives the filter {filter:?}: write it once"
        ));
    }
    if !words.is_empty() {
        config.ports = ports(words)?;
    }
    let expression = (!expression.is_empty()).then(|| expression.join(" "));
    config.filter = filter.or(expression).or(config.filter.take());
    Ok(())
}

/// The same where flags give the ports: all words are the filter.
///
/// # Errors
/// [`Usage`](crate::exit::Usage) for words that cannot be ports or a filter, and for a single word that is an
/// interface.
pub(super) fn apply_beside(
    interfaces: &[String],
    words: &[String],
    filter: Option<String>,
    config: &mut Config,
    is_interface: impl FnOnce(&str) -> bool,
) -> Result<()> {
    if let [word] = words {
        ensure!(
            !is_interface(word),
            usage!(
                "{word} is an interface, and with -i the words are the filter: write -i {word}, or --filter {word}"
            )
        );
    }
    if let (Some(filter), [word, ..]) = (&filter, words) {
        let (word, filter) = (shortened(word), shortened(filter));
        bail!(usage!("{word} is a second filter beside {filter:?}: write one"));
    }
    // `-ip[8]=1` is a filter, not the flag `-i` with a name.
    if let Some(word) = interfaces.iter().find(|word| word.contains(['[', ' ', '('])) {
        bail!(usage!(
            "-i{word} is no interface; a filter that begins with - is given with --filter '-i{word}'"
        ));
    }
    config.ports = ports(interfaces)?;
    config.filter = filter.or((!words.is_empty()).then(|| words.join(" "))).or(config.filter.take());
    Ok(())
}

/// The filter in a file, without comments.
///
/// # Errors
/// [`Usage`](crate::exit::Usage) if it cannot be read, or is not text.
pub(super) fn read_filter(path: &Path) -> Result<String> {
    let text = text_file(path, "the filter", "write the filter as text", SHORT_MIB)?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    Ok(lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" "))
}

choices! {
    /// Which packets are captured.
    pub(crate) enum PacketDirection {
        /// Packets that come in.
        In = "in",
        /// Packets that leave.
        Out = "out",
        /// Both.
        Both = "inout",
    }
}

/// A filter for packets of one direction.
pub(super) fn directed(direction: PacketDirection, filter: Option<String>) -> Option<String> {
    let word = match direction {
        PacketDirection::In => "inbound",
        PacketDirection::Out => "outbound",
        PacketDirection::Both => return filter,
    };
    match filter.filter(|filter| !filter.trim().is_empty()) {
        Some(filter) => Some(format!("{word} and ({filter})")),
        None => Some(word.into()),
    }
}

/// The words that are ports, and those of the filter.
fn split(words: &[String], mut is_interface: impl FnMut(&str) -> bool) -> Result<(&[String], &[String])> {
    let mut is_port = |word: &String| {
        // Wrong queues do not matter here: opening the port reports them.
        let name = word.rsplit_once('@').map_or(word.as_str(), |(name, _)| name);
        prefix::ALL.iter().any(|prefix| word.starts_with(prefix))
            || is_interface(name)
            || (name != word && is_interface(word))
    };
    let others = words.get(1..).unwrap_or_default();
    let count = others.iter().position(|word| !is_port(word)).map_or(words.len(), |before| 1 + before);
    let (ports, filter) = words.split_at(count);
    // The first word is checked only if it is certainly not a port: a trace file.
    let misspelt = ports.first().filter(|word| is_trace(word) && !is_port(word));
    if let Some(trace) = misspelt.or(filter.first().filter(|word| is_trace_path(word))) {
        bail!(usage!("{trace} is not an interface; for a trace file write {TRACE}{trace}"));
    }
    Ok((ports, filter))
}
