//! The placement of packets on transmit queues.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use crate::{Error, flow_hash};

/// The longest line allowed in a side file, in bytes.
const LINE_MAX: u64 = 4096;
/// How much of a bad line an error quotes, in characters.
const QUOTED: usize = 40;

/// How to spread packets over transmit queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// All from one queue, which keeps the order of the file on any NIC.
    One(u16),
    /// From each of these queues in turn, at least one; `None` means all queues of the interface.
    RoundRobin(Option<Vec<u16>>),
    /// Both directions of a flow from one of these queues, at least one; `None` means all queues of the
    /// interface. See [`flow_hash`].
    Flow(Option<Vec<u16>>),
    /// From a text file: its n-th number is the queue of the n-th packet, over all files in the order of
    /// sending. Empty lines, and text after a `#`, are ignored.
    Side(PathBuf),
}

impl Placement {
    /// The queues that are used, in order, of an interface with `available` transmit queues.
    ///
    /// # Errors
    /// [`Error::Side`], [`Error::SideLine`] and [`Error::SideEmpty`], since it reads the side file.
    pub fn queues(&self, available: u32) -> Result<Vec<u16>, Error> {
        match self {
            Placement::One(queue) => Ok(vec![*queue]),
            Placement::RoundRobin(Some(queues)) | Placement::Flow(Some(queues)) => Ok(queues.clone()),
            Placement::RoundRobin(None) | Placement::Flow(None) => {
                Ok((0..u16::try_from(available).unwrap_or(u16::MAX)).collect())
            }
            Placement::Side(path) => {
                let mut side = SideFile::open(path)?;
                let mut queues = BTreeSet::new();
                while let Some(queue) = side.next()? {
                    queues.insert(queue);
                }
                if queues.is_empty() {
                    return Err(Error::SideEmpty(path.clone()));
                }
                Ok(queues.into_iter().collect())
            }
        }
    }
}

/// Places the packets of one pass.
#[derive(Debug)]
pub(crate) enum Placer {
    First,
    RoundRobin { lanes: u16, next: u16 },
    Flow { lanes: u16 },
    Side { file: SideFile, queues: Vec<u16> },
}

impl Placer {
    /// For the queues that [`Placement::queues`] returned.
    pub(crate) fn new(placement: &Placement, queues: &[u16]) -> Result<Self, Error> {
        let lanes = queues.len() as u16;
        Ok(match placement {
            Placement::One(_) => Self::First,
            Placement::RoundRobin(_) => Self::RoundRobin { lanes, next: 0 },
            Placement::Flow(_) => Self::Flow { lanes },
            Placement::Side(path) => Self::Side { file: SideFile::open(path)?, queues: queues.into() },
        })
    }

    /// The queue of the next packet, by position.
    pub(crate) fn place(&mut self, frame: &[u8]) -> Result<u16, Error> {
        match self {
            Self::First => Ok(0),
            Self::RoundRobin { lanes, next } => {
                let lane = *next;
                *next = (lane + 1) % *lanes;
                Ok(lane)
            }
            Self::Flow { lanes } => Ok((flow_hash(frame) % u64::from(*lanes)) as u16),
            Self::Side { file, queues } => {
                let queue = file.next()?.ok_or_else(|| file.short())?;
                let lane = queues.binary_search(&queue).map_err(|_| file.bad_line(queue.to_string()))?;
                Ok(lane as u16)
            }
        }
    }
}

/// A side file, read number by number.
#[derive(Debug)]
pub(crate) struct SideFile {
    path: PathBuf,
    file: BufReader<File>,
    text: String,
    line: u64,
    numbers: u64,
}

impl SideFile {
    fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Side { path: path.into(), source };
        let file = File::open(path).map_err(failed)?;
        // The file is read twice, first to find the queues.
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("it is not a regular file")));
        }
        Ok(Self { path: path.into(), file: BufReader::new(file), text: String::new(), line: 0, numbers: 0 })
    }

    fn next(&mut self) -> Result<Option<u16>, Error> {
        loop {
            self.text.clear();
            let read = (&mut self.file).take(LINE_MAX).read_line(&mut self.text);
            let read = read.map_err(|source| Error::Side { path: self.path.clone(), source })?;
            if read == 0 {
                return Ok(None);
            }
            self.line += 1;
            if read as u64 == LINE_MAX {
                return Err(self.bad_line(self.text.clone()));
            }
            let number = self.text.split('#').next().unwrap_or_default().trim();
            if !number.is_empty() {
                let queue = number.parse().map_err(|_| self.bad_line(number.to_owned()))?;
                self.numbers += 1;
                return Ok(Some(queue));
            }
        }
    }

    fn bad_line(&self, text: String) -> Error {
        let text = match text.char_indices().nth(QUOTED) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        };
        Error::SideLine { path: self.path.clone(), line: self.line, text }
    }

    fn short(&self) -> Error {
        Error::SideShort { path: self.path.clone(), lines: self.numbers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(text: &str) -> (tempfile::TempDir, Placement) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("side");
        std::fs::write(&path, text).unwrap();
        (directory, Placement::Side(path))
    }

    fn places(placement: &Placement, packets: usize) -> Vec<u16> {
        let queues = placement.queues(8).unwrap();
        let mut placer = Placer::new(placement, &queues).unwrap();
        (0..packets).map(|_| queues[usize::from(placer.place(&[0; 14]).unwrap())]).collect()
    }

    #[test]
    fn packets_go_to_one_queue_or_to_each_in_turn() {
        assert_eq!(places(&Placement::One(3), 4), [3; 4]);
        assert_eq!(places(&Placement::RoundRobin(Some(vec![1, 5, 6])), 5), [1, 5, 6, 1, 5]);
        assert_eq!(places(&Placement::RoundRobin(None), 9), [0, 1, 2, 3, 4, 5, 6, 7, 0]);
    }

    #[test]
    fn a_flow_stays_on_its_queue() {
        let flow = Placement::Flow(Some(vec![0, 2]));
        let of_one = places(&flow, 3);
        assert!(of_one.iter().all(|queue| *queue == of_one[0]) && [0, 2].contains(&of_one[0]));
        let mut placer = Placer::new(&flow, &[0, 2]).unwrap();
        let used: BTreeSet<_> = (0..32).map(|last| placer.place(&[0, 0, 0, 0, 0, last]).unwrap()).collect();
        assert_eq!(used, BTreeSet::from([0, 1]));
    }

    #[test]
    fn a_side_file_gives_the_queue_of_each_packet() {
        let (_directory, placement) = side("2\n0\n\n# the third\n 2 # same as the first\n7\n");
        assert_eq!(placement.queues(8).unwrap(), [0, 2, 7]);
        assert_eq!(places(&placement, 4), [2, 0, 2, 7]);
        let mut placer = Placer::new(&placement, &[0, 2, 7]).unwrap();
        (0..4).for_each(|_| _ = placer.place(&[]).unwrap());
        let error = placer.place(&[]).unwrap_err().to_string();
        assert!(error.contains("for 4 packets"), "{error}");
    }

    #[test]
    fn errors_in_a_side_file_name_the_line() {
        let (_directory, placement) = side("1\n\ntwo\n");
        let error = placement.queues(8).unwrap_err().to_string();
        assert!(error.contains("line 3") && error.contains("\"two\""), "{error}");
        let (_directory, placement) = side(&"0".repeat(1 << 20));
        let error = placement.queues(8).unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("00…") && error.len() < 300, "{error}");
        let (_directory, placement) = side("# nothing\n");
        assert!(matches!(placement.queues(8), Err(Error::SideEmpty { .. })));
        let (_directory, placement) = side("65536\n");
        assert!(matches!(placement.queues(8), Err(Error::SideLine { line: 1, .. })));
        let missing = Placement::Side("/no/such/side".into());
        assert!(missing.queues(8).unwrap_err().to_string().contains("/no/such/side"));
        assert!(matches!(Placement::Side("/dev/null".into()).queues(8), Err(Error::Side { .. })));
    }
}
