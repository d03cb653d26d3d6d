//! What a program counts, for each queue.

use std::sync::Mutex;

use wirecap_sys::bpf::{self, Alu, Assembler, Cond, Helper, Label, Map, MapKind, PerCpuValues, Reg, Size};

use super::array::array;
use crate::report::QueueCounts;

// Offsets in a value of the map.
pub(super) const SEEN: i16 = 0;
pub(super) const FILTERED: i16 = 8;
pub(super) const PASSED: i16 = 16;
pub(super) const TOO_LONG: i16 = 24;
pub(super) const UNSTAMPED: i16 = 32;
pub(super) const UNTAGGED: i16 = 40;
pub(super) const UNHASHED: i16 = 48;
pub(super) const NO_BLOCK: i16 = 56;
const VALUE_BYTES: u32 = 64;
/// Name of the map.
pub(super) const NAME: &str = "wirecap_counts";

/// The counters of a program.
#[derive(Debug)]
pub(crate) struct Counters {
    map: Map,
    room: ValuesRoom,
}

/// Room for the values of all CPUs, so that reading them allocates nothing but the first time: signal
/// handlers read counters, and may have interrupted the allocator.
#[derive(Debug, Default)]
pub(super) struct ValuesRoom(Mutex<PerCpuValues>);

impl ValuesRoom {
    /// What `sum` makes of the values for a key.
    pub(super) fn read<T>(
        &self,
        map: &Map,
        key: u32,
        sum: impl FnOnce(&PerCpuValues) -> T,
    ) -> Result<T, bpf::Error> {
        let key = key.to_ne_bytes();
        // Another thread has the room, or a function that a signal handler has interrupted: not the
        // allocator.
        let Ok(mut values) = self.0.try_lock() else {
            return Ok(sum(&map.lookup_per_cpu(&key)?));
        };
        map.lookup_per_cpu_into(&key, &mut values)?;
        Ok(sum(&values))
    }
}

impl Counters {
    /// For this number of queues, in a map of the kernel.
    pub(crate) fn new(queues: u32) -> Result<Self, bpf::Error> {
        array(MapKind::PerCpuArray, VALUE_BYTES, queues, NAME)
            .map(|map| Self { map, room: ValuesRoom::default() })
    }

    /// The counters of a queue, summed over the CPUs; those of its socket are 0. What a tap has seen is
    /// counted in its streams: here are only packets of CPUs that were added later.
    pub(crate) fn of(&self, queue: u32) -> Result<QueueCounts, bpf::Error> {
        self.room.read(&self.map, queue, Self::counts)
    }

    fn counts(values: &PerCpuValues) -> QueueCounts {
        let sum = |offset: i16| values.sum_u64(offset as usize);
        QueueCounts {
            seen: sum(SEEN),
            filtered: sum(FILTERED),
            passed: sum(PASSED),
            too_long: sum(TOO_LONG),
            unstamped: sum(UNSTAMPED),
            untagged: sum(UNTAGGED),
            unhashed: sum(UNHASHED),
            no_free_block: sum(NO_BLOCK),
            ..QueueCounts::default()
        }
    }

    /// Looks up the counters of `queue`: in R0, or jumps to `none`. The number is at `key` on the stack
    /// afterwards.
    pub(super) fn emit_look_up(&self, asm: &mut Assembler, queue: Reg, key: i16, none: Label) {
        asm.store(Size::Word, Reg::R10, key, queue);
        self.emit_look_up_at(asm, key, none);
    }

    /// Looks up the counters of the queue whose number is at `key` on the stack: in R0, or jumps to `none`.
    fn emit_look_up_at(&self, asm: &mut Assembler, key: i16, none: Label) {
        use Reg::{R0, R1, R2, R10};
        asm.load_map_fd(R1, &self.map).mov(R2, R10).alu64(Alu::Add, R2, i32::from(key));
        asm.call(Helper::MapLookupElem).jump_if(Cond::Eq, R0, 0, none);
    }

    /// Looks up the counters of the queue whose number is at `key` on the stack, and adds one to one of them:
    /// packets for which nothing is counted pay for no look-up.
    pub(super) fn emit_count(&self, asm: &mut Assembler, key: i16, offset: i16) {
        let none = asm.label();
        self.emit_look_up_at(asm, key, none);
        count(asm, Reg::R0, offset);
        asm.bind(none);
    }
}

/// Adds one to a counter. The value is this CPU's own, so no atomic is needed.
pub(super) fn count(asm: &mut Assembler, counters: Reg, offset: i16) {
    asm.load(Size::Double, Reg::R1, counters, offset);
    asm.alu64(Alu::Add, Reg::R1, 1);
    asm.store(Size::Double, counters, offset, Reg::R1);
}
