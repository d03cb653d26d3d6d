//! What `wirecap size` prints.

use std::fmt;

use serde::Serialize;
use wirecap::Dispatch;
use wirecap_core::Mode;
use wirecap_sim::sizing::{Demand, max_chunks};

use crate::{
    print::{head::Head, layout::paragraph, table::Table},
    text::{
        plural::{counted, is},
        units::{rate, size},
    },
};

/// Bytes of a cell.
const CELL_BYTES: u64 = 2_048;
/// Bytes of a cell that a packet can occupy, behind the kernel's headroom.
const ROOM_BYTES: u64 = CELL_BYTES - 256;
/// The least bytes of a block.
const MIN_BLOCK_BYTES: u64 = 128 << 10;
/// R and M by default.
const DEFAULT_CHUNKS: u64 = 128;
const DEFAULT_CELLS: u32 = 256;
/// Cells of a pool by default.
const DEFAULT_POOL: u64 = DEFAULT_CHUNKS * DEFAULT_CELLS as u64;
/// Bytes of the frame check sequence, which is not captured.
const FCS_BYTES: u64 = 4;
/// Bytes that a packed packet takes beside its own, a multiple of four: on a port with one queue, and on
/// one with several, where each packet has the number of its queue.
const PACKED_BYTES: u64 = 32;
const PACKED_BYTES_OF_QUEUES: u64 = 44;

/// The pools that a mode needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pools {
    pub(super) mode: Mode,
    pub(super) cells_per_chunk: u32,
    /// The least number of chunks of a pool that lost nothing.
    pub(super) least_chunks: u32,
    /// The number that is recommended.
    pub(super) chunks: u32,
    /// How long the burst may last with these; `None` if the rate lasts, or the longest tried lost nothing.
    pub(super) longest_burst_s: Option<f64>,
    /// The same if all packets came in one queue.
    pub(super) longest_in_one_queue_s: Option<f64>,
    /// The longest burst that was tried.
    pub(super) tried_s: f64,
}

/// What is printed.
#[derive(Debug)]
pub(super) struct SizeReport {
    pub(super) head: Head,
    pub(super) demand: Demand,
    /// Length of packets, with FCS.
    pub(super) packet: u64,
    /// M.
    pub(super) cells_per_chunk: u32,
    /// How chunks get from rings to workers.
    pub(super) dispatch: Dispatch,
    /// Whether the rate lasts.
    pub(super) lasts: bool,
    /// How much of that was simulated, in seconds.
    pub(super) simulated_s: f64,
    /// By mode; empty if no pools suffice.
    pub(super) pools: Vec<Pools>,
}

/// The report as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SizeRecord<'a> {
    #[serde(flatten)]
    head: &'a Head,
    /// Packets per second of all queues together.
    total_pps: f64,
    /// Packets per second of the busiest queue.
    busiest_pps: f64,
    /// Packets per second that all workers handle together.
    capacity_pps: f64,
    /// How long the packets come, in seconds; null if always.
    burst_seconds: Option<f64>,
    /// Whether the figures are simulated: always.
    simulated: bool,
    /// How chunks get from rings to workers: `pull` or `push`.
    dispatch: String,
    /// What each mode needs; empty if no pools do it.
    pools: Vec<PoolsRecord>,
}

/// What a mode needs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PoolsRecord {
    /// `basic` or `advanced`.
    mode: &'static str,
    /// T, in percent; null in basic mode.
    threshold_percent: Option<u8>,
    /// M.
    cells_per_chunk: u32,
    /// The least R that lost nothing in simulation.
    least_chunks_per_pool: u32,
    /// The R that is recommended.
    chunks_per_pool: u32,
    /// Memory of the cells of all pools with it.
    cells_bytes: u64,
    /// R where packets are packed into blocks; null if chunks of M cells are smaller than a block may be.
    blocks_per_pool: Option<u64>,
    /// Memory of all blocks with it; null in the same case.
    blocks_bytes: Option<u64>,
    /// The longest burst at this rate without loss, in seconds; null if longer than `tried_seconds`.
    longest_burst_seconds: Option<f64>,
    /// The same if all packets come in one queue.
    longest_in_one_queue_seconds: Option<f64>,
    /// The longest burst that was simulated.
    tried_seconds: f64,
}

impl Pools {
    fn mode(&self) -> &'static str {
        match self.mode {
            Mode::Basic => "basic",
            Mode::Advanced { .. } => "advanced",
        }
    }

    /// Packets that a pool holds.
    fn packets(&self) -> u64 {
        u64::from(self.cells_per_chunk) * u64::from(self.chunks)
    }

    fn threshold_percent(&self) -> Option<u8> {
        match self.mode {
            Mode::Basic => None,
            Mode::Advanced { threshold_percent } => Some(threshold_percent),
        }
    }

    /// R where packets of this length lie in cells.
    fn chunks_of_cells(&self, packet: u64) -> u64 {
        (u64::from(self.chunks) * cells_of(packet)).max(default_chunks(self.cells_per_chunk))
    }

    /// Whether R would be smaller if the default pool did not set a limit.
    fn is_raised(&self, packet: u64) -> bool {
        let wanted = u64::from(Demand::with_margin(self.least_chunks)) * cells_of(packet);
        wanted < default_chunks(self.cells_per_chunk)
    }

    /// R where they are packed: blocks for as many packets, and one that is being filled; `None` if a
    /// chunk is smaller than a block may be.
    fn blocks(&self, queues: u32, packet: u64) -> Option<u64> {
        let block_bytes = u64::from(self.cells_per_chunk) * CELL_BYTES;
        let beside = if queues > 1 { PACKED_BYTES_OF_QUEUES } else { PACKED_BYTES };
        let taken = (packet - FCS_BYTES).next_multiple_of(4) + beside;
        let in_block = (block_bytes / taken).max(1);
        (block_bytes >= MIN_BLOCK_BYTES).then_some(self.packets().div_ceil(in_block) + 1)
    }

    /// Memory of this many chunks in each pool.
    fn bytes(&self, queues: u32, chunks: u64) -> u64 {
        u64::from(queues) * chunks * u64::from(self.cells_per_chunk) * CELL_BYTES
    }
}

/// R of a pool with as many cells as the default one has. Fewer are not recommended, however few the
/// simulation needs: its workers never pause.
pub(super) fn default_chunks(cells_per_chunk: u32) -> u64 {
    DEFAULT_POOL.div_ceil(cells_per_chunk.into())
}

/// Cells that a packet of this length takes.
pub(super) fn cells_of(packet: u64) -> u64 {
    (packet - FCS_BYTES).div_ceil(ROOM_BYTES)
}

impl SizeReport {
    pub(super) fn record(&self) -> SizeRecord<'_> {
        let queues = self.demand.queues;
        let pools = self.pools.iter().map(|pools| {
            let (cells, blocks) = (pools.chunks_of_cells(self.packet), pools.blocks(queues, self.packet));
            PoolsRecord {
                mode: pools.mode(),
                threshold_percent: pools.threshold_percent(),
                cells_per_chunk: pools.cells_per_chunk,
                least_chunks_per_pool: pools.least_chunks,
                chunks_per_pool: cells as u32,
                cells_bytes: pools.bytes(queues, cells),
                blocks_per_pool: blocks,
                blocks_bytes: blocks.map(|blocks| pools.bytes(queues, blocks)),
                longest_burst_seconds: pools.longest_burst_s,
                longest_in_one_queue_seconds: pools.longest_in_one_queue_s,
                tried_seconds: pools.tried_s,
            }
        });
        SizeRecord {
            head: &self.head,
            total_pps: self.demand.total_pps,
            busiest_pps: self.demand.busiest_pps(),
            capacity_pps: self.demand.capacity_pps(),
            burst_seconds: (!self.lasts).then_some(self.demand.burst_s),
            simulated: true,
            dispatch: self.dispatch.to_string(),
            pools: pools.collect(),
        }
    }

    /// The traffic in words.
    fn traffic(&self) -> String {
        let Demand { queues, total_pps, pace_pps, burst_s, .. } = self.demand;
        let lasts = if self.lasts { String::from(", always") } else { format!(" for {}", time(burst_s)) };
        let busiest = match queues {
            1 => String::new(),
            _ => format!(", {} of them in the busiest of {queues} queues", rate(self.demand.busiest_pps())),
        };
        let workers = match queues {
            1 => format!("A worker handles {}", rate(pace_pps)),
            _ => format!(
                "{queues} workers handle {} each, {} together",
                rate(pace_pps),
                rate(self.demand.capacity_pps())
            ),
        };
        format!("{}{lasts}{busiest}. {workers}.", rate(total_pps))
    }

    fn table(&self) -> Table {
        let mut table =
            Table::new(&["mode", "T", "R", "memory", "R_packed", "memory", "longest", "one_queue"]);
        let queues = self.demand.queues;
        for pools in &self.pools {
            let (cells, blocks) = (pools.chunks_of_cells(self.packet), pools.blocks(queues, self.packet));
            let memory = |chunks| size(pools.bytes(queues, chunks));
            let tried = format!("> {}", time(pools.tried_s));
            let longest = |seconds: Option<f64>| seconds.map_or_else(|| tried.clone(), time);
            table.row(vec![
                pools.mode().to_owned(),
                pools.threshold_percent().map_or_else(|| "-".into(), |percent| format!("{percent} %")),
                cells.to_string(),
                memory(cells),
                blocks.map_or_else(|| "-".into(), |blocks| blocks.to_string()),
                blocks.map_or_else(|| "-".into(), memory),
                longest(pools.longest_burst_s),
                longest(pools.longest_in_one_queue_s),
            ]);
        }
        table
    }

    /// Why no pools suffice.
    fn impossible(&self) -> String {
        let demand = &self.demand;
        if self.lasts && !demand.workers_keep_up() {
            let workers = counted(demand.queues, "worker");
            let load = demand.total_pps / demand.capacity_pps();
            let why = if load > 1.0 {
                let handle = if demand.queues == 1 { "handles" } else { "handle" };
                format!("packets come faster than {workers} {handle} them, without an end")
            } else {
                format!(
                    "{workers} {} busy for {:.0} % of the time, so a pool only delays the loss",
                    is(demand.queues),
                    100.0 * load
                )
            };
            let needed = demand.least_workers();
            let keep = if needed == 1 { "keeps" } else { "keep" };
            return format!(
                "No pool is large enough: {why}. {} of this pace {keep} up, with a reserve; otherwise use faster ones, \
                 or give the length of a burst (--burst 100ms).",
                counted(needed, "worker")
            );
        }
        let most = u64::from(max_chunks(self.cells_per_chunk)) * u64::from(self.cells_per_chunk);
        let shorter = if self.lasts { "Faster" } else { "A shorter burst, faster" };
        format!(
            "No pool is large enough: a pool has at most {most} cells. {shorter} workers or more queues may help."
        )
    }
}

impl fmt::Display for SizeReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", paragraph(&self.traffic()))?;
        let Some(best) = self.pools.last() else {
            return write!(formatter, "{}", paragraph(&self.impossible()));
        };
        writeln!(formatter, "\n{}", self.table())?;
        let (dispatch, workers) =
            (self.dispatch, if self.demand.queues > 1 { ", a worker for each queue" } else { "" });
        let note = format!(
            "Simulated, with the engine core in virtual time, the dispatch {dispatch}{workers}: the smallest R that lost nothing, and a quarter more \
             for what the simulation leaves out: its packets come evenly, and its workers never pause. The second pair of R \
             and memory is for packets that are packed into blocks. The last columns are the longest bursts without loss \
             with these pools, as given, and with all packets in one queue."
        );
        write!(formatter, "{}", paragraph(&note))?;
        if self.lasts {
            let note = format!("Of the rate that lasts, {} were simulated.", time(self.simulated_s));
            write!(formatter, "{}", paragraph(&note))?;
        }
        if self.pools.iter().any(|pools| pools.is_raised(self.packet)) {
            let note = format!(
                "No pool of cells here is smaller than the default one, of {DEFAULT_POOL} cells: on a busy machine, threads \
                 pause for tens of milliseconds."
            );
            write!(formatter, "{}", paragraph(&note))?;
        }
        if best.chunks < Demand::with_margin(best.least_chunks) {
            write!(
                formatter,
                "{}",
                paragraph("A pool can have no more chunks, so there is less than a quarter more.")
            )?;
        }
        let mode = match best.mode {
            Mode::Basic => "--mode basic".to_owned(),
            Mode::Advanced { threshold_percent } => {
                format!("-T {threshold_percent} --workers {}", self.demand.queues)
            }
        };
        let mode = match self.dispatch {
            Dispatch::Pull => mode,
            Dispatch::Push => format!("{mode} --dispatch push"),
        };
        let (m, chunks) = (best.cells_per_chunk, best.chunks_of_cells(self.packet));
        if m == DEFAULT_CELLS && chunks <= DEFAULT_CHUNKS {
            let enough = format!("The default, R = {DEFAULT_CHUNKS}, is enough.");
            return write!(formatter, "{}\nwirecap capture IFACE {mode}\n", paragraph(&enough));
        }
        writeln!(formatter, "\nwirecap capture IFACE -M {m} -R {chunks} {mode}")
    }
}

/// A time in a fitting unit.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        ..1e-6 => format!("{:.0} ns", seconds * 1e9),
        ..1e-5 => format!("{:.2} µs", seconds * 1e6),
        ..1e-3 => format!("{:.0} µs", seconds * 1e6),
        ..0.01 => format!("{:.2} ms", seconds * 1e3),
        ..1.0 => format!("{:.0} ms", seconds * 1e3),
        ..100.0 => format!("{seconds:.1} s"),
        _ => format!("{seconds:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use wirecap_sim::engines::wirecap as engine;

    use super::*;

    fn report(pools: Vec<Pools>) -> SizeReport {
        let demand = Demand {
            queues: 8,
            total_pps: 4e6,
            skew: 3.0,
            burst_s: 0.1,
            pace_pps: 4e5,
            dispatch: engine::Dispatch::Pull,
            ring: None,
        };
        SizeReport {
            head: Head::new("size", SystemTime::UNIX_EPOCH),
            demand,
            packet: 300,
            cells_per_chunk: 256,
            dispatch: Dispatch::Pull,
            lasts: false,
            simulated_s: 0.1,
            pools,
        }
    }

    fn pools(chunks: u32) -> Pools {
        Pools {
            mode: Mode::Advanced { threshold_percent: 60 },
            cells_per_chunk: 256,
            least_chunks: chunks,
            chunks,
            longest_burst_s: Some(0.15),
            longest_in_one_queue_s: None,
            tried_s: 1.6,
        }
    }

    #[test]
    fn memory_follows_from_the_length_of_packets() {
        let pools = pools(100);
        assert_eq!(
            (pools.chunks_of_cells(64), pools.chunks_of_cells(1_518), pools.chunks_of_cells(9_022)),
            (128, 128, 600)
        );
        // 296 bytes and 32 or 44 more: 1,598 or 1,542 in a block of 512 KiB, for 25,600 packets.
        assert_eq!([1, 8].map(|queues| pools.blocks(queues, 300)), [Some(18); 2]);
        // 60 bytes and as much more: 5,698 or 5,041.
        assert_eq!([1, 8].map(|queues| pools.blocks(queues, 64)), [Some(6), Some(7)]);
        assert_eq!(pools.bytes(8, 100), 8 * 100 * (512 << 10));
        let record = serde_json::to_value(report(vec![pools]).record()).unwrap();
        assert_eq!(record["pools"][0]["cells_bytes"], 8 * 128 * (512 << 10));
        let small = report(vec![Pools { cells_per_chunk: 32, ..pools }]);
        let record_of_small = serde_json::to_value(small.record()).unwrap();
        assert_eq!(record_of_small["pools"][0]["blocks_per_pool"], serde_json::Value::Null);
        assert_eq!(record["pools"][0]["longest_in_one_queue_seconds"], serde_json::Value::Null);
    }

    #[test]
    fn the_text_has_the_traffic_the_pools_and_a_command() {
        let text = report(vec![pools(100)]).to_string();
        for words in [
            "4.00 Mpps for 100 ms, 1.50 Mpps of them in the busiest of 8 queues.",
            "8 workers handle 400.00 kpps each, 3.20 Mpps together.",
            "Simulated, with the engine core in virtual time, the dispatch pull, a worker for each queue",
            "The default, R = 128, is enough.",
            "wirecap capture IFACE -T 60 --workers 8",
        ] {
            assert!(text.replace("\n    ", " ").contains(words), "{words}: {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let small = Pools { cells_per_chunk: 64, chunks: 512, least_chunks: 4, ..pools(0) };
        let small = report(vec![small]).to_string();
        assert!(small.contains("\nwirecap capture IFACE -M 64 -R 512 -T 60 --workers 8\n"), "{small}");
        let why = "No pool of cells here is smaller than the default one, of 32768 cells";
        assert!(small.contains(why) && !report(vec![pools(129)]).to_string().contains(why), "{small}");
        let larger = report(vec![pools(129)]).to_string();
        assert!(larger.contains("\nwirecap capture IFACE -M 256 -R 129 -T 60 --workers 8\n"), "{larger}");
        let push = SizeReport { dispatch: Dispatch::Push, ..report(vec![pools(129)]) }.to_string();
        assert!(push.contains(" -T 60 --workers 8 --dispatch push\n"), "{push}");
    }

    #[test]
    fn times_have_a_unit_that_fits() {
        let times = [1e-9, 999e-9, 1e-6, 20e-6, 0.001, 0.1, 1.5, 120.0].map(time);
        assert_eq!(times, ["1 ns", "999 ns", "1.00 µs", "20 µs", "1.00 ms", "100 ms", "1.5 s", "120 s"]);
    }

    #[test]
    fn why_no_pool_does_it_follows_from_the_load() {
        let impossible = |total_pps, lasts| {
            let demand = Demand { total_pps, ..report(Vec::new()).demand };
            SizeReport { lasts, demand, ..report(Vec::new()) }.impossible()
        };
        let over = impossible(4e6, true);
        assert!(over.contains("faster than 8 workers handle them") && over.contains("11 workers"), "{over}");
        let full = impossible(3.2e6, true);
        assert!(full.contains("8 workers are busy for 100 % of the time, so a pool only delays"), "{full}");
        assert!(full.contains("9 workers of this pace keep up, with a reserve"), "{full}");
        let of_packets = [impossible(2e6, true), impossible(4e6, false)];
        assert!(of_packets.iter().all(|text| text.contains("at most 4194304 cells")), "{of_packets:?}");
    }
}
