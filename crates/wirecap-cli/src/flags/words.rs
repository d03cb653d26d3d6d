//! The words of `wirecap capture` that are no flags: interfaces, then perhaps a filter.
//!
//! Rule: the filter begins with the first word that is no interface, as tcpdump has it. The first word always is one, so that a
//! misspelt name is called that.

use anyhow::Result;
use wirecap::{Config, PortSpec};
use wirecap_filter::shortened;

use crate::{
    exit::Usage,
    values::{is_trace, is_trace_path},
};

/// Puts ports and filter into the settings.
///
/// # Errors
/// [`Usage`] for words that make no sense.
pub(super) fn apply(
    words: &[String],
    filter: Option<String>,
    config: &mut Config,
    is_interface: impl FnMut(&str) -> bool,
) -> Result<()> {
    let (ports, expression) = split(words, is_interface)?;
    if let (Some(filter), [word, ..]) = (&filter, expression) {
        let (word, filter) = (shortened(word), shortened(filter));
        let message =
            format!("there is no interface {word}, and the filter is {filter:?} already: write it once");
        return Err(Usage(message).into());
    }
    if !ports.is_empty() {
        config.ports = ports.iter().map(|port| port_spec(port)).collect::<Result<_>>()?;
    }
    let expression = (!expression.is_empty()).then(|| expression.join(" "));
    config.filter = filter.or(expression).or(config.filter.take());
    Ok(())
}

/// The port that a word names.
///
/// # Errors
/// [`Usage`] for one that names none, whatever there is on the machine.
pub(crate) fn port_spec(word: &str) -> Result<PortSpec> {
    word.parse().map_err(|error: wirecap::config::PortSpecError| Usage(error.to_string()).into())
}

/// The words that are ports, and those of the filter.
fn split(words: &[String], mut is_interface: impl FnMut(&str) -> bool) -> Result<(&[String], &[String])> {
    let mut is_port = |word: &String| {
        // Its queues need not be right: it is a port, and what is wrong with it is said when it is opened.
        let name = word.rsplit_once('@').map_or(word.as_str(), |(name, _)| name);
        PortSpec::PREFIXES.iter().any(|prefix| word.starts_with(prefix))
            || is_interface(name)
            || (name != word && is_interface(word))
    };
    let others = words.get(1..).unwrap_or_default();
    let count = others.iter().position(|word| !is_port(word)).map_or(words.len(), |before| 1 + before);
    let (ports, filter) = words.split_at(count);
    // The first word is looked at only where it is no port for sure: a trace file.
    let misspelt = ports.first().filter(|word| is_trace(word) && !is_port(word));
    if let Some(trace) = misspelt.or(filter.first().filter(|word| is_trace_path(word))) {
        let message = format!("{trace} is not an interface; for a trace file write trace:{trace}");
        return Err(Usage(message).into());
    }
    Ok((ports, filter))
}
