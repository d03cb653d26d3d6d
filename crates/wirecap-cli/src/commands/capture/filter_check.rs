//! Checks a filter without the interface that it is for.

use anyhow::Result;
use wirecap::Error;
use wirecap_filter::{DEFAULT_SNAPLEN, Filter, LINK_TYPE_ETHERNET};

use crate::process::{signals::Signals, step::Step};

/// Link types that interfaces have, by their numbers in the registry of pcap: Ethernet, plain IP, IEEE 802.11
/// with and without radiotap, Linux "cooked".
const LINK_TYPES: [u16; 5] = [LINK_TYPE_ETHERNET, 101, 127, 105, 113];

/// Checks that some interface could have this filter: `wlan type mgt` is a mistake on Ethernet only.
///
/// # Errors
/// What is wrong with it on Ethernet.
pub(super) fn check(filter: Option<String>, quiet: bool, signals: &Signals) -> Result<()> {
    let Some(filter) = filter else { return Ok(()) };
    let compile = move || {
        let mut results =
            LINK_TYPES.iter().map(|link_type| Filter::compile(&filter, *link_type, DEFAULT_SNAPLEN));
        let on_ethernet = results.next().expect("Ethernet is the first");
        on_ethernet.or_else(|error| results.find_map(Result::ok).ok_or(error))
    };
    Step::compiling().run(signals, quiet, compile)?.map_err(Error::Filter)?;
    Ok(())
}
