//! The indirection table: which queue a hash stands for.

use thiserror::Error;

/// Entries of a table that is not given: as many as Intel's 82599 has.
const ENTRIES: usize = 128;
/// The largest table of a NIC, rounded up.
const MAX_ENTRIES: usize = 4096;
/// More queues than NICs have.
const MAX_QUEUES: usize = 1024;

/// Queues, by the low bits of a hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndirectionTable {
    /// INVARIANT: their number is a power of two.
    entries: Vec<usize>,
    queues: usize,
}

/// Why there is no such table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TableError {
    /// The number of entries is impossible.
    #[error(
        "the number of entries is a power of two, up to 4096, and this table has {0}; write all of them, as ethtool -x prints them"
    )]
    Entries(usize),
    /// There are too many queues, or none.
    #[error("the number of queues is 1 to 1024, and not {0}")]
    Queues(usize),
    /// No weight is positive.
    #[error("all weights are 0, so no queue would get packets; write weights like 6,2,1")]
    NoWeight,
}

impl IndirectionTable {
    /// 128 entries for queues in turn, as drivers set it.
    ///
    /// # Errors
    /// [`TableError::Queues`].
    pub fn equal(queues: usize) -> Result<Self, TableError> {
        check_queues(queues)?;
        Self::new((0..ENTRIES.max(queues.next_power_of_two())).map(|entry| entry % queues).collect())
    }

    /// 128 entries in proportion to these weights, as `ethtool -X weight` sets them: one queue after the
    /// other.
    ///
    /// # Errors
    /// No queue has a weight, or there are too many.
    pub fn weighted(weights: &[u32]) -> Result<Self, TableError> {
        check_queues(weights.len())?;
        let size = ENTRIES.max(weights.len().next_power_of_two()) as u64;
        let sum: u64 = weights.iter().copied().map(u64::from).sum();
        if sum == 0 {
            return Err(TableError::NoWeight);
        }
        let (mut entries, mut partial) = (Vec::new(), 0);
        for (queue, &weight) in weights.iter().enumerate() {
            partial += u64::from(weight);
            entries.resize((size * partial / sum) as usize, queue);
        }
        Ok(Self { entries, queues: weights.len() })
    }

    /// These entries.
    ///
    /// # Errors
    /// Their number is not that of a table, or an entry names an impossible queue.
    pub fn new(entries: Vec<usize>) -> Result<Self, TableError> {
        if !entries.len().is_power_of_two() || entries.len() > MAX_ENTRIES {
            return Err(TableError::Entries(entries.len()));
        }
        let queues = entries.iter().max().map_or(0, |last| last.saturating_add(1));
        check_queues(queues)?;
        Ok(Self { entries, queues })
    }

    /// The number of queues: those of the table, and all before the last of them.
    pub fn queues(&self) -> usize {
        self.queues
    }

    /// Its number of entries.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// The queue of a hash.
    pub fn queue(&self, hash: u32) -> usize {
        self.entries[hash as usize & (self.entries.len() - 1)]
    }
}

fn check_queues(queues: usize) -> Result<(), TableError> {
    if (1..=MAX_QUEUES).contains(&queues) { Ok(()) } else { Err(TableError::Queues(queues)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_take_turns_and_the_low_bits_choose() {
        let table = IndirectionTable::equal(6).unwrap();
        assert_eq!((table.queues(), table.entries()), (6, 128));
        assert_eq!([0, 5, 6, 127, 128, 0xffff_ff80].map(|hash| table.queue(hash)), [0, 5, 0, 1, 0, 0]);
        assert_eq!(IndirectionTable::equal(200).unwrap().entries(), 256);
    }

    #[test]
    fn weights_are_those_of_ethtool() {
        // By the loop of ethtool's fill_indir_table().
        let ethtool = |weights: &[u32]| {
            let sum: u32 = weights.iter().sum();
            let (mut queue, mut partial) = (-1_isize, 0);
            let entry = |index: u32| {
                while index >= 128 * partial / sum {
                    queue += 1;
                    partial += weights[queue as usize];
                }
                queue as usize
            };
            (0..128).map(entry).collect::<Vec<_>>()
        };
        for weights in [&[6, 2][..], &[1, 1, 1], &[0, 3, 0, 1], &[7], &[1; 128], &[1000, 1]] {
            let table = IndirectionTable::weighted(weights).unwrap();
            assert_eq!((table.entries, table.queues), (ethtool(weights), weights.len()), "{weights:?}");
        }
        assert_eq!(IndirectionTable::weighted(&[0, 0]), Err(TableError::NoWeight));
        assert_eq!(IndirectionTable::weighted(&[]), Err(TableError::Queues(0)));
    }

    #[test]
    fn impossible_tables_are_refused() {
        assert_eq!(IndirectionTable::new(vec![3, 3]).unwrap().queues(), 4);
        for len in [0, 3, 8192] {
            assert_eq!(IndirectionTable::new(vec![0; len]), Err(TableError::Entries(len)));
        }
        assert_eq!(IndirectionTable::new(vec![usize::MAX, 1024]), Err(TableError::Queues(usize::MAX)));
        assert_eq!(IndirectionTable::equal(0), Err(TableError::Queues(0)));
        assert_eq!(IndirectionTable::equal(1025), Err(TableError::Queues(1025)));
    }
}
