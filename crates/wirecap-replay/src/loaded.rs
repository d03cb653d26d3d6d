//! Reading before the start: all of the files, or as much as fits into memory.

use crate::{
    Control, Error, Plan,
    feed::{Block, Feed, FillMode},
    preloaded::PreloadedTrace,
    shape::{RING, Shape},
    trace::is_regular,
};

/// Frames that were read before the start.
pub(crate) struct LoadedFrames {
    pub(crate) blocks: Vec<Block>,
    /// Whether these are all frames of the files.
    pub(crate) is_whole: bool,
    /// Cells that they take, by queue.
    pub(crate) cells: Vec<u64>,
    cell_bytes: u32,
}

impl LoadedFrames {
    /// The number of copies of the trace with which the busiest queue has cells for twice its ring, limited
    /// by memory; 1 for one pass.
    pub(crate) fn copies(&self, plan: &Plan) -> u32 {
        let (busiest, all) = (self.cells.iter().copied().max().unwrap_or(0), self.cells.iter().sum::<u64>());
        if plan.passes == Some(1) || busiest == 0 {
            return 1;
        }
        let wanted = u64::from(2 * RING).div_ceil(busiest).min(plan.passes.unwrap_or(u64::MAX));
        let possible = plan.memory_bytes / (all * u64::from(self.cell_bytes));
        wanted.min(possible).max(1) as u32
    }

    /// Bytes of all frames.
    pub(crate) fn bytes(&self) -> u64 {
        let frames = self.blocks.iter().flat_map(|block| &block.frames);
        frames.map(|frame| u64::from(frame.len)).sum()
    }
}

/// Reads until the end, or until the cells would take more memory than planned.
///
/// # Errors
/// [`Error::OnePass`] if several passes over a pipe do not fit.
pub(crate) fn read_ahead(
    feed: &mut Feed,
    plan: &Plan,
    shape: Shape,
    lanes: usize,
    control: &Control,
) -> Result<LoadedFrames, Error> {
    let mut loaded = LoadedFrames {
        blocks: Vec::new(),
        is_whole: false,
        cells: vec![0; lanes],
        cell_bytes: shape.cell_bytes,
    };
    let pipe = plan.files.iter().find(|path| !is_regular(path));
    // The writer of a pipe may never end: the pipe is sent while it is read, unless several passes are
    // wanted.
    if pipe.is_some() && plan.passes == Some(1) {
        return Ok(loaded);
    }
    while !loaded.is_whole && !control.is_stopped() {
        let mut block = Block::default();
        loaded.is_whole = !feed.fill(&mut block, FillMode::Whole);
        let cells = PreloadedTrace::cells(std::slice::from_ref(&block), lanes, shape.cell_bytes);
        loaded.cells.iter_mut().zip(cells).for_each(|(all, more)| *all += more);
        match loaded.blocks.last_mut() {
            // The next block includes its tally.
            Some(last) if last.frames.is_empty() => *last = block,
            _ => loaded.blocks.push(block),
        }
        if shape.bytes(&loaded.cells) > plan.memory_bytes {
            loaded.is_whole = false;
            break;
        }
    }
    match pipe {
        // A user who stops the replay needs no error about memory.
        Some(pipe) if !loaded.is_whole && !control.is_stopped() => {
            Err(Error::OnePass { name: pipe.display().to_string(), memory_mib: plan.memory_bytes >> 20 })
        }
        _ => Ok(loaded),
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, path::PathBuf, sync::Arc, sync::mpsc, thread, time::Duration};

    use wirecap_file::{
        LINK_TYPE_ETHERNET, PacketHeader, pcap,
        pcapng::{self, SectionInfo},
    };
    use wirecap_sys::netdev::{self, Interface};

    use super::*;
    use crate::feed::FeedPlan;

    /// A trace with one frame of `len` bytes.
    fn trace(len: usize) -> Vec<u8> {
        let mut file = Vec::new();
        pcap::file_header(&mut file, LINK_TYPE_ETHERNET, 0);
        let header = PacketHeader { original_len: len as u32, ..PacketHeader::default() };
        pcap::packet(&mut file, &header, 0, [vec![0; len].as_slice()]);
        file
    }

    /// Reads a trace ahead as if it were a pipe to be sent twice.
    fn read(path: PathBuf, control: &Control) -> Result<LoadedFrames, Error> {
        let interface = Interface { mtu: 1_500, ..netdev::interface("lo").unwrap() };
        // A device replaces a pipe: neither is a regular file.
        let plan = Plan { passes: Some(2), memory_bytes: 1, ..Plan::new(["/dev/null"], "lo") };
        let shape = Shape::of(&interface, &plan, &[0]);
        let feed_plan =
            FeedPlan { plan: Plan { files: vec![path], ..plan.clone() }, queues: vec![0], room: shape.room };
        read_ahead(&mut Feed::open(&feed_plan, control)?, &plan, shape, 1, control)
    }

    #[test]
    fn a_pipe_that_does_not_fit_is_refused_unless_it_was_stopped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pcap");
        std::fs::write(&path, trace(60)).unwrap();
        let control = Control::default();
        assert!(matches!(read(path.clone(), &control), Err(Error::OnePass { .. })));
        control.stop();
        assert!(read(path, &control).is_ok_and(|loaded| !loaded.is_whole));
    }

    /// Reads a pipe into which a thread writes `first`, then `again` for ever; stops the replay after 200 ms.
    fn stopped(first: Vec<u8>, again: &[u8]) -> Result<LoadedFrames, Error> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let (to_write, many) = (path.clone(), again.repeat(1_000));
        let writing = thread::spawn(move || -> std::io::Result<()> {
            let mut writer = std::fs::OpenOptions::new().write(true).open(to_write)?;
            writer.write_all(&first)?;
            loop {
                writer.write_all(&many)?;
            }
        });
        let control = Arc::new(Control::default());
        let (done, is_done) = mpsc::channel();
        let reading = Arc::clone(&control);
        thread::spawn(move || done.send(read(path, &reading)));
        thread::sleep(Duration::from_millis(200));
        control.stop();
        let loaded = is_done.recv_timeout(Duration::from_secs(10)).expect("reading ends once stopped");
        let closed = writing.join().unwrap().unwrap_err();
        assert_eq!(closed.kind(), std::io::ErrorKind::BrokenPipe, "the writer writes until the pipe closes");
        loaded
    }

    #[test]
    fn an_endless_pipe_of_frames_that_are_left_out_can_be_stopped() {
        let too_short = trace(5);
        let loaded = stopped(too_short[..24].to_vec(), &too_short[24..]).unwrap();
        assert!(!loaded.is_whole);
        let [block] = loaded.blocks.as_slice() else { panic!("{}", loaded.blocks.len()) };
        assert!(block.tally.packets > 0 && block.tally.packets == block.tally.too_short, "{:?}", block.tally);
    }

    #[test]
    fn an_endless_pipe_without_packets_can_be_stopped() {
        let (mut first, mut names) = (Vec::new(), vec![4, 0, 0, 0]);
        pcapng::section_header(&mut first, &SectionInfo::default());
        names.extend([16_u32, 0, 16].map(u32::to_le_bytes).as_flattened());
        assert!(stopped(first, &names).is_ok_and(|loaded| loaded.bytes() == 0));
    }
}
