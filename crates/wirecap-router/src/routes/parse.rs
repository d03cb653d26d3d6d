//! Lines of a table of routes.

use std::{
    net::{IpAddr, Ipv4Addr},
    str::SplitWhitespace,
};

use ipnet::{IpNet, Ipv4Net};

use super::{NextHop, never_forwarded::never_around};
use crate::{Error, RouteProblem};

/// A line that says something.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// From 1 on.
    pub number: usize,
    pub prefix: IpNet,
    pub target: Target<'a>,
}

/// Where to.
#[derive(Debug)]
pub(super) enum Target<'a> {
    Drop,
    /// By the device of this name.
    Device(&'a str, NextHop),
}

/// All lines that are neither blank nor a comment.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Result<Line<'_>, Error>> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let number = index + 1;
        let content = line.split_once('#').map_or(line, |(content, _)| content);
        let mut words = content.split_whitespace();
        let first = words.next()?;
        Some(match read(first, words) {
            Ok((prefix, target)) => Ok(Line { number, prefix, target }),
            Err(problem) => Err(Error::Line { line: number, problem }),
        })
    })
}

fn read<'a>(first: &'a str, words: SplitWhitespace<'a>) -> Result<(IpNet, Target<'a>), RouteProblem> {
    let prefix = prefix(first)?;
    let target = target(prefix, words)?;
    match (never_around(&prefix), &target) {
        (Some(&never), Target::Device(..)) => Err(RouteProblem::Never { prefix, never }),
        _ => Ok((prefix, target)),
    }
}

fn prefix(word: &str) -> Result<IpNet, RouteProblem> {
    if word == "default" {
        return Ok(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0).into());
    }
    let alone = || word.parse::<IpAddr>().map(IpNet::from);
    let given: IpNet =
        word.parse().or_else(|_| alone()).map_err(|_| RouteProblem::Prefix(word.to_owned()))?;
    let network = given.trunc();
    if given == network { Ok(given) } else { Err(RouteProblem::HostBits { given, network }) }
}

fn target(prefix: IpNet, mut words: SplitWhitespace<'_>) -> Result<Target<'_>, RouteProblem> {
    let (mut device, mut next_hop, mut drop) = (None, None, false);
    while let Some(word) = words.next() {
        let before = match word {
            "drop" => std::mem::replace(&mut drop, true),
            "dev" => device.replace(value(&mut words, "dev", "NAME")?).is_some(),
            "via" => next_hop.replace(via(prefix, value(&mut words, "via", "ADDRESS")?)?).is_some(),
            "lladdr" => next_hop.replace(lladdr(value(&mut words, "lladdr", "MAC")?)?).is_some(),
            other => return Err(RouteProblem::Word(other.to_owned())),
        };
        if before || drop && (device.is_some() || next_hop.is_some()) {
            return Err(RouteProblem::TooMuch(word.to_owned()));
        }
    }
    match (drop, device) {
        (true, _) => Ok(Target::Drop),
        (false, Some(name)) => Ok(Target::Device(name, next_hop.unwrap_or(NextHop::Direct))),
        (false, None) => Err(RouteProblem::Nowhere(prefix)),
    }
}

fn value<'a>(
    words: &mut SplitWhitespace<'a>,
    word: &'static str,
    value: &'static str,
) -> Result<&'a str, RouteProblem> {
    words.next().ok_or(RouteProblem::NoValue { word, value })
}

fn via(prefix: IpNet, word: &str) -> Result<NextHop, RouteProblem> {
    let given: IpAddr = word.parse().map_err(|_| RouteProblem::Address(word.to_owned()))?;
    let is_of_no_router = given.is_unspecified()
        || given.is_multicast()
        || given.is_loopback()
        || given == IpAddr::V4(Ipv4Addr::BROADCAST);
    if is_of_no_router || given.is_ipv4() != prefix.addr().is_ipv4() {
        return Err(RouteProblem::NextHop { given, prefix });
    }
    Ok(NextHop::Address(given))
}

fn lladdr(word: &str) -> Result<NextHop, RouteProblem> {
    let wrong = |_| RouteProblem::MacAddress(word.to_owned());
    word.parse().map(NextHop::Mac).map_err(wrong)
}
