//! A set of receive queues: the text behind the `@` of `eth1@0-3,6`.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use thiserror::Error;

/// Maximum number of queues that a text can name: more than any NIC has.
const MAX: usize = 4096;

/// Receive queues of an interface, by number: at least one, each once.
///
/// ```
/// use wirecap::QueueSet;
///
/// let queues: QueueSet = "4,0-2".parse()?;
/// assert_eq!(queues.iter().collect::<Vec<_>>(), [0, 1, 2, 4]);
/// assert_eq!(queues.to_string(), "0-2,4");
/// # Ok::<(), wirecap::QueueSetError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueueSet {
    /// INVARIANT: increasing, not empty.
    queues: Vec<u16>,
}

/// Why a text names no set of receive queues.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is no set of receive queues; write numbers and ranges: 2, 0-3 or 0,2-5")]
pub struct QueueSetError {
    text: String,
}

impl QueueSet {
    /// The set of these queues; `None` if there are none.
    pub fn new(queues: impl IntoIterator<Item = u16>) -> Option<Self> {
        let mut queues: Vec<u16> = queues.into_iter().collect();
        queues.sort_unstable();
        queues.dedup();
        (!queues.is_empty()).then_some(Self { queues })
    }

    /// The numbers, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u16> {
        self.queues.iter().copied()
    }

    /// The highest of them.
    pub fn highest(&self) -> u16 {
        self.queues[self.queues.len() - 1]
    }

    /// Whether both have a queue in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.iter().any(|queue| other.queues.binary_search(&queue).is_ok())
    }

    /// Whether these queues of an interface, or all with `None`, have one in common.
    pub(crate) fn overlap(queues: Option<&Self>, others: Option<&Self>) -> bool {
        queues.zip(others).is_none_or(|(queues, others)| queues.overlaps(others))
    }
}

impl From<u16> for QueueSet {
    fn from(queue: u16) -> Self {
        Self { queues: vec![queue] }
    }
}

impl FromStr for QueueSet {
    type Err = QueueSetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        let ranges = ranges.filter(|ranges| ranges.iter().map(|range| range.len()).sum::<usize>() <= MAX);
        let set = ranges.and_then(|ranges| Self::new(ranges.into_iter().flatten()));
        set.ok_or_else(|| QueueSetError { text: text.into() })
    }
}

/// `2` or `0-3`.
fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some(first..=last)
}

/// Digits only: `parse` takes a sign as well.
fn number(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The short form: `0-3,6`.
impl fmt::Display for QueueSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.queues.chunk_by(|before, next| before + 1 == *next);
        for (index, run) in runs.enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match run {
                [one] => write!(formatter, "{comma}{one}")?,
                run => write!(formatter, "{comma}{}-{}", run[0], run[run.len() - 1])?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_and_written_in_their_short_form() {
        for (text, short) in
            [("2", "2"), ("0-3", "0-3"), ("3,1,2", "1-3"), ("0,2-5,4", "0,2-5"), ("7-7", "7")]
        {
            assert_eq!(text.parse::<QueueSet>().unwrap().to_string(), short);
        }
        assert_eq!(QueueSet::from(9).to_string(), "9");
        assert_eq!(QueueSet::new([]), None);
    }

    #[test]
    fn text_that_is_no_set_is_refused_with_examples() {
        for text in ["", "a", "1,", ",1", "3-1", "-1", "+1", "1-", "1--2", "65536", "if7", "0-65535", "1 2"] {
            let error = text.parse::<QueueSet>().expect_err(text).to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains("0,2-5"), "{error}");
        }
    }

    #[test]
    fn sets_overlap_where_they_share_a_queue() {
        let set = |text: &str| text.parse::<QueueSet>().unwrap();
        assert!(set("0-3").overlaps(&set("3,9")) && set("3,9").overlaps(&set("0-3")));
        assert!(!set("0,2").overlaps(&set("1,3")));
    }
}
