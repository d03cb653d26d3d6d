//! The parts of `union bpf_attr` we use, and the kernel's answers, in the layout of `<linux/bpf.h>`.
//!
//! Every command reads only its own part; the kernel takes a shorter or longer union as long as what it does
//! not know is zero. So each part is a struct of its own, made with `Default` (all zero, padding included by
//! explicit fields) and passed with its own size.

use core::mem::offset_of;

/// Commands of bpf(2) (`enum bpf_cmd`).
#[repr(i64)]
#[derive(Debug, Clone, Copy)]
pub(super) enum Command {
    MapCreate = 0,
    MapLookupElem = 1,
    MapUpdateElem = 2,
    MapDeleteElem = 3,
    ProgLoad = 5,
    ProgTestRun = 10,
    ProgGetFdById = 13,
    MapGetFdById = 14,
    ObjGetInfoByFd = 15,
    ProgQuery = 16,
    LinkCreate = 28,
    LinkUpdate = 29,
    LinkGetFdById = 30,
    LinkGetNextId = 31,
    LinkDetach = 34,
}

/// Marks a `#[repr(C)]` struct of integers that is a part of `union bpf_attr`, or an answer, without any
/// implicit padding.
pub(super) trait Attr {}

macro_rules! part {
    ($name:ident, $size:expr $(, $field:ident at $offset:expr)*) => {
        impl Attr for $name {}
        const _: () = assert!(size_of::<$name>() == $size && align_of::<$name>() == 8);
        $(const _: () = assert!(offset_of!($name, $field) == $offset);)*
    };
}

/// Length of an object's name, its closing zero included (`BPF_OBJ_NAME_LEN`).
pub(super) const NAME_LEN: usize = 16;

#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct MapCreate {
    pub map_type: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub map_flags: u32,
    pub inner_map_fd: u32,
    pub numa_node: u32,
    pub map_name: [u8; NAME_LEN],
    pub map_ifindex: u32,
}
part!(MapCreate, 48, map_name at 28, map_ifindex at 44);

#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct MapElem {
    pub map_fd: u32,
    pub pad: u32,
    pub key: u64,
    pub value: u64,
    pub flags: u64,
}
part!(MapElem, 32, key at 8, value at 16, flags at 24);

#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct ProgLoad {
    pub prog_type: u32,
    pub insn_cnt: u32,
    pub insns: u64,
    pub license: u64,
    pub log_level: u32,
    pub log_size: u32,
    pub log_buf: u64,
    pub kern_version: u32,
    pub prog_flags: u32,
    pub prog_name: [u8; NAME_LEN],
    pub prog_ifindex: u32,
    pub expected_attach_type: u32,
}
part!(ProgLoad, 72, insns at 8, log_buf at 32, prog_flags at 44, prog_name at 48, expected_attach_type at 68);

#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct ProgTestRun {
    pub prog_fd: u32,
    pub retval: u32,
    pub data_size_in: u32,
    pub data_size_out: u32,
    pub data_in: u64,
    pub data_out: u64,
    pub repeat: u32,
    pub duration: u32,
    pub ctx_size_in: u32,
    pub ctx_size_out: u32,
    pub ctx_in: u64,
    pub ctx_out: u64,
    pub flags: u32,
    pub cpu: u32,
    pub batch_size: u32,
    pub pad: u32,
}
part!(ProgTestRun, 80, data_in at 16, repeat at 32, ctx_in at 48, flags at 64, batch_size at 72);

/// `bpf_attr` of the commands that go from one id to the next, or from an id to a file descriptor.
#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct GetId {
    /// The id to start after, or the id to open.
    pub id: u32,
    pub next_id: u32,
    pub open_flags: u32,
    pub pad: u32,
}
part!(GetId, 16, next_id at 4, open_flags at 8);

#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct GetInfo {
    pub bpf_fd: u32,
    pub info_len: u32,
    pub info: u64,
}
part!(GetInfo, 16, info_len at 4, info at 8);

#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct ProgQuery {
    pub target_ifindex: u32,
    pub attach_type: u32,
    pub query_flags: u32,
    pub attach_flags: u32,
    pub prog_ids: u64,
    /// Room for ids, then how many there are.
    pub count: u32,
    pub pad: u32,
    pub prog_attach_flags: u64,
    pub link_ids: u64,
    pub link_attach_flags: u64,
    /// The kernel writes it, however short the part is that it was given.
    pub revision: u64,
}
part!(ProgQuery, 64, prog_ids at 16, count at 24, revision at 56);

#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct LinkCreate {
    pub prog_fd: u32,
    pub target_ifindex: u32,
    pub attach_type: u32,
    pub flags: u32,
}
part!(LinkCreate, 16, target_ifindex at 4, attach_type at 8, flags at 12);

#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct LinkUpdate {
    pub link_fd: u32,
    pub new_prog_fd: u32,
    pub flags: u32,
    pub old_prog_fd: u32,
}
part!(LinkUpdate, 16, new_prog_fd at 4, flags at 8);

#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct LinkDetach {
    pub link_fd: u32,
    pub pad: u32,
}
part!(LinkDetach, 8);

/// The head of `struct bpf_prog_info`; the kernel fills as much as it is given room for.
#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct ProgInfo {
    pub prog_type: u32,
    pub id: u32,
    pub tag: [u8; 8],
    pub jited_prog_len: u32,
    pub xlated_prog_len: u32,
    pub jited_prog_insns: u64,
    pub xlated_prog_insns: u64,
    pub load_time: u64,
    pub created_by_uid: u32,
    pub nr_map_ids: u32,
    pub map_ids: u64,
    pub name: [u8; NAME_LEN],
}
part!(ProgInfo, 80, load_time at 40, map_ids at 56, name at 64);

/// The head of `struct bpf_map_info`.
#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct MapInfo {
    pub map_type: u32,
    pub id: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub map_flags: u32,
    pub name: [u8; NAME_LEN],
}
part!(MapInfo, 40, max_entries at 16, name at 24);

/// The head of `struct bpf_link_info`, with the XDP variant of its union.
#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct LinkInfo {
    pub link_type: u32,
    pub id: u32,
    pub prog_id: u32,
    pub pad: u32,
    pub xdp_ifindex: u32,
    /// Room for the larger variants, which kernels write for other types of link.
    pub rest: [u32; 7],
}
part!(LinkInfo, 48, prog_id at 8, xdp_ifindex at 16);

/// Context of a test run (`struct xdp_md`); all in bytes or indices.
#[repr(C)]
#[derive(Default)]
pub(super) struct XdpMd {
    pub data: u32,
    pub data_end: u32,
    pub data_meta: u32,
    pub ingress_ifindex: u32,
    pub rx_queue_index: u32,
    pub egress_ifindex: u32,
}
const _: () = assert!(size_of::<XdpMd>() == 24 && offset_of!(XdpMd, data_end) == 4);
