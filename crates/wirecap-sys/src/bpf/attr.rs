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

/// Declares parts as the kernel has them: the size in bytes, the fields in order, and where some of them lie.
macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident, $size:literal bytes {
        $($(#[$field_doc:meta])* $field:ident: $kind:ty,)*
    } $($at:ident at $offset:literal),*;)*) => {$(
        $(#[$doc])*
        #[repr(C, align(8))]
        #[derive(Default)]
        pub(super) struct $name {
            $($(#[$field_doc])* pub $field: $kind,)*
        }
        impl Attr for $name {}
        const _: () = assert!(size_of::<$name>() == $size && align_of::<$name>() == 8);
        $(const _: () = assert!(offset_of!($name, $at) == $offset);)*
    )*};
}

/// Length of an object's name, its closing zero included (`BPF_OBJ_NAME_LEN`).
pub(super) const NAME_LEN: usize = 16;

parts! {
    MapCreate, 48 bytes {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        map_flags: u32,
        inner_map_fd: u32,
        numa_node: u32,
        map_name: [u8; NAME_LEN],
        map_ifindex: u32,
    } map_name at 28, map_ifindex at 44;

    MapElem, 32 bytes {
        map_fd: u32,
        pad: u32,
        key: u64,
        value: u64,
        flags: u64,
    } key at 8, value at 16, flags at 24;

    ProgLoad, 72 bytes {
        prog_type: u32,
        insn_cnt: u32,
        insns: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log_buf: u64,
        kern_version: u32,
        prog_flags: u32,
        prog_name: [u8; NAME_LEN],
        prog_ifindex: u32,
        expected_attach_type: u32,
    } insns at 8, log_buf at 32, prog_flags at 44, prog_name at 48, expected_attach_type at 68;

    ProgTestRun, 80 bytes {
        prog_fd: u32,
        retval: u32,
        data_size_in: u32,
        data_size_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        ctx_size_in: u32,
        ctx_size_out: u32,
        ctx_in: u64,
        ctx_out: u64,
        flags: u32,
        cpu: u32,
        batch_size: u32,
        pad: u32,
    } data_in at 16, repeat at 32, ctx_in at 48, flags at 64, batch_size at 72;

    /// `bpf_attr` of the commands that go from one id to the next, or from an id to a file descriptor.
    GetId, 16 bytes {
        /// The id to start after, or the id to open.
        id: u32,
        next_id: u32,
        open_flags: u32,
        pad: u32,
    } next_id at 4, open_flags at 8;

    GetInfo, 16 bytes {
        bpf_fd: u32,
        info_len: u32,
        info: u64,
    } info_len at 4, info at 8;

    ProgQuery, 64 bytes {
        target_ifindex: u32,
        attach_type: u32,
        query_flags: u32,
        attach_flags: u32,
        prog_ids: u64,
        /// Room for ids, then how many there are.
        count: u32,
        pad: u32,
        prog_attach_flags: u64,
        link_ids: u64,
        link_attach_flags: u64,
        /// The kernel writes it, however short the part is that it was given.
        revision: u64,
    } prog_ids at 16, count at 24, revision at 56;

    LinkCreate, 16 bytes {
        prog_fd: u32,
        target_ifindex: u32,
        attach_type: u32,
        flags: u32,
    } target_ifindex at 4, attach_type at 8, flags at 12;

    LinkUpdate, 16 bytes {
        link_fd: u32,
        new_prog_fd: u32,
        flags: u32,
        old_prog_fd: u32,
    } new_prog_fd at 4, flags at 8;

    LinkDetach, 8 bytes {
        link_fd: u32,
        pad: u32,
    };

    /// The head of `struct bpf_prog_info`; the kernel fills as much as it is given room for.
    ProgInfo, 80 bytes {
        prog_type: u32,
        id: u32,
        tag: [u8; 8],
        jited_prog_len: u32,
        xlated_prog_len: u32,
        jited_prog_insns: u64,
        xlated_prog_insns: u64,
        load_time: u64,
        created_by_uid: u32,
        nr_map_ids: u32,
        map_ids: u64,
        name: [u8; NAME_LEN],
    } load_time at 40, map_ids at 56, name at 64;

    /// The head of `struct bpf_map_info`.
    MapInfo, 40 bytes {
        map_type: u32,
        id: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        map_flags: u32,
        name: [u8; NAME_LEN],
    } max_entries at 16, name at 24;

    /// The head of `struct bpf_link_info`, with the XDP variant of its union; that of TCX begins in the same
    /// way.
    LinkInfo, 48 bytes {
        link_type: u32,
        id: u32,
        prog_id: u32,
        pad: u32,
        xdp_ifindex: u32,
        /// Room for the larger variants, which kernels write for other types of link.
        rest: [u32; 7],
    } prog_id at 8, xdp_ifindex at 16;
}

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
