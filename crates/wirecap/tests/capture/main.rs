//! Captures on real veth pairs, from the frame that is sent to the closed account. Needs root; without, each
//! test says so and returns.
//!
//! | what | where |
//! |---|---|
//! | every frame once, in order, intact, accounted for | `account` |
//! | pools that are too small, and the warning before that | `overload`, `gauge` |
//! | buddies help, chunks go home | `offload` |
//! | batches held for long; workers that go away | `hold`, `worker_end` |
//! | the end of a capture | `stop` |
//! | memory: sizes, the kernel's share, and giving up an opening | `memory` |
//! | promises about future packets | `horizon` |
//! | programs detached by force | `detached` |
//! | links that fail, killed processes, ports in trouble | `link_faults`, `killed`, `fault_port` |
//! | refusals and their messages | `opening`, `refusals`, `unprivileged` |
//! | packets larger than a cell | `large_frames` |
//! | packets that the XDP program packs into blocks | `packed` |
//! | several ports, and packets left to the host | `several_ports`, `host` |
//! | passive capture; what counts as use by the host | `passive`, `tap`, `host_use` |
//! | filters; those that loop, and those that ask where packets come from | `filters`, `filters_loops`, `filters_origin` |
//! | queues of one interface with different holders | `queues`, `queues_conflicts`, `queues_killed`, `queues_upkeep`, `many_queues` |
//! | times of packets | `timestamps` |
//! | the NIC's hash of packets | `rx_hash` |
//! | VLAN tags that the NIC takes off | `vlan_tags` |
//! | forwarding; sending that fails | `forward`, `transmit` |
//! | traces, sent and captured again | `traces` |

mod account;
mod detached;
mod fault_port;
mod filters;
mod filters_loops;
mod filters_origin;
mod forward;
mod gauge;
mod hold;
mod horizon;
mod host;
mod host_use;
mod killed;
mod large_frames;
mod link_faults;
mod many_queues;
mod memory;
mod offload;
mod opening;
mod overload;
mod packed;
mod passive;
mod queues;
mod queues_conflicts;
mod queues_killed;
mod queues_upkeep;
mod refusals;
mod rx_hash;
mod several_ports;
mod stop;
mod tap;
mod tap_refusals;
mod timestamps;
mod traces;
mod transmit;
mod unprivileged;
mod victim;
mod vlan_tags;
mod worker_end;
