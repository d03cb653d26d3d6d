//! Where the sending thread gets its frames from.

use wirecap_send::Lane;

use crate::{preloaded::PreloadedTrace, source_item::SourceItem, streamed::StreamedTrace};

/// A trace in cells, or one that is read while it is sent.
#[derive(Debug)]
pub(crate) enum Source {
    Preloaded(Box<PreloadedTrace>),
    Streamed(Box<StreamedTrace>),
}

impl Source {
    /// The next frame.
    #[inline]
    pub(crate) fn peek(&mut self, lanes: &mut [Lane]) -> SourceItem {
        match self {
            Source::Preloaded(trace) => trace.peek().map_or(SourceItem::End, SourceItem::Frame),
            Source::Streamed(trace) => trace.peek(lanes),
        }
    }

    /// Advances to the frame after it.
    #[inline]
    pub(crate) fn advance(&mut self) {
        match self {
            Source::Preloaded(trace) => trace.advance(),
            Source::Streamed(trace) => trace.advance(),
        }
    }

    /// Prepares frames while none is due. Returns whether there was anything to do.
    pub(crate) fn work_ahead(&mut self, lanes: &mut [Lane]) -> bool {
        match self {
            Source::Preloaded(_) => false,
            Source::Streamed(trace) => trace.prepare(lanes, 1),
        }
    }

    pub(crate) fn passes_begun(&self) -> u64 {
        match self {
            Source::Preloaded(trace) => trace.passes_begun(),
            Source::Streamed(trace) => trace.passes_begun(),
        }
    }
}
