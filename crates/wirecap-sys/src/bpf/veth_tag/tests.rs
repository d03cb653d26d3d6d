use wirecap_lab::{Namespace, VethOptions, VethPair, require_root, skip};
use wirecap_testing::kernel_is_at_least;

use super::{
    super::{btf::tests::file_of, insn::Insn},
    *,
};

#[test]
fn kernels_that_keep_the_socket_buffer_need_not_be_asked() {
    if !require_root("veth_tag::kernels_that_keep_the_socket_buffer_need_not_be_asked") {
        return;
    }
    // The driver may be a module, which is loaded with the first device.
    let (a, b) = (Namespace::new("vethtag_a").unwrap(), Namespace::new("vethtag_b").unwrap());
    let _veth = VethPair::new(&a, "a0", &b, "b0", VethOptions::default()).unwrap();
    let has_it = cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) && kernel_is_at_least(6, 3);
    assert_eq!(VethTag::of_kernel().is_some(), has_it);
}

#[test]
fn a_way_that_the_kernel_refuses_is_not_taken() {
    const TEST: &str = "veth_tag::a_way_that_the_kernel_refuses_is_not_taken";
    if !require_root(TEST) {
        return;
    }
    let function = |name| KernelFunction::find(name).unwrap();
    let (Some(cast), Some(read_only_cast)) = (function(CAST), function("xdp_do_redirect")) else {
        return skip(TEST, "this kernel has no bpf_cast_to_kern_ctx (Linux 6.2)");
    };
    let refused =
        VethTag { cast, read_only_cast, sk_buff: KernelStructure { id: 1 }, skb_at: 56, tag_at: 100 };
    assert_eq!(refused.if_accepted(), None);
}

#[test]
fn what_has_no_socket_buffer_or_no_tag_in_it_is_untagged() {
    let mut asm = Assembler::new();
    let untagged = asm.label();
    let function = |id| KernelFunction { id };
    let tag = VethTag {
        cast: function(1),
        read_only_cast: function(2),
        sk_buff: KernelStructure { id: 3 },
        skb_at: 56,
        tag_at: 100,
    };
    tag.emit(&mut asm, untagged);
    asm.bind(untagged).exit();
    let insns = asm.finish().unwrap().insns;
    let jumps: Vec<usize> = (0..insns.len()).filter(|&at| insns[at].code() == 0x15).collect();
    let [no_buffer, no_tag] = jumps[..] else { panic!("{jumps:?}") };
    for at in [no_buffer, no_tag] {
        assert_eq!(at + 1 + insns[at].off() as usize, insns.len() - 1, "to the end");
    }
    let loads = |insn: &Insn| (insn.code(), insn.off());
    assert_eq!(loads(&insns[no_buffer - 1]), (0x79, 0), "eight bytes: the pointer");
    assert_eq!(loads(&insns[no_tag - 1]), (0x61, 100), "four bytes: the tag");
}

/// A kernel with these names for the members of `struct sk_buff`, and the contents' place in bytes; its
/// functions; and the driver's structure, in the same file or in that of its module.
struct Kernel {
    halves: [&'static str; 2],
    contents_at: u32,
    functions: [&'static str; 2],
    member: &'static str,
    /// The type of that member, and the place of `xdp` in bytes.
    member_type: u32,
    xdp_at: u32,
    is_module: bool,
}

const POINTER_TO_SK_BUFF: u32 = 3;
const POINTER_TO_XDP_BUFF: u32 = 7;
const COMPLETE: Kernel = Kernel {
    halves: ["vlan_proto", "vlan_tci"],
    contents_at: 6,
    functions: [CAST, READ_ONLY_CAST],
    member: "skb",
    member_type: POINTER_TO_SK_BUFF,
    xdp_at: 0,
    is_module: false,
};

impl Kernel {
    fn find(&self) -> Option<VethTag> {
        let [proto, tci] = self.halves;
        let [cast, read_only] = self.functions;
        let of_kernel = ["", "sk_buff", "vlan_all", proto, tci, "xdp_buff", cast, read_only];
        let of_driver = ["veth_xdp_buff", "xdp", self.member];
        let (mut strings, mut at) = (Vec::new(), Vec::new());
        for name in of_kernel.iter().chain(&of_driver) {
            at.push(strings.len() as u32);
            strings.extend_from_slice(name.as_bytes());
            strings.push(0);
        }
        let [_, sk_buff, all, proto, tci, xdp_buff, cast, read_only, driver, xdp, member] = at[..] else {
            panic!("{at:?}")
        };
        let (int, pointer, function) = (1 << 24, 2 << 24, 12 << 24);
        let (structure, union) = (4 << 24, 5 << 24);
        let kernel: [&[u32]; 9] = [
            // 1 and 2: integers of four and two bytes, 3: a pointer to 5, 4: the tag as one and as halves
            &[0, int, 4, 32],
            &[0, int, 2, 16],
            &[0, pointer, 5],
            &[0, union | 3, 4, all, 1, 0, proto, 2, 0, tci, 2, (self.contents_at - 4) * 8],
            &[sk_buff, structure | 1, 8, 0, 4, 32],
            // 6: the driver's begin, 7: a pointer to it
            &[xdp_buff, structure, 56],
            &[0, pointer, 6],
            &[cast, function, 0],
            &[read_only, function, 0],
        ];
        // 10, in either file
        let types = [driver, structure | 2, 64, xdp, 6, self.xdp_at * 8, member, self.member_type, 448];
        let (kernel, split) = (kernel.concat(), driver as usize);
        if self.is_module {
            let module = file_of(types, &strings[split..]);
            VethTag::find(&file_of(kernel, &strings[..split]), Some(&module))
        } else {
            VethTag::find(&file_of(kernel.into_iter().chain(types), &strings), None)
        }
    }
}

#[test]
fn the_places_are_found_only_if_all_of_them_are_known() {
    let expected = VethTag {
        cast: KernelFunction { id: 8 },
        read_only_cast: KernelFunction { id: 9 },
        sk_buff: KernelStructure { id: 5 },
        skb_at: 56,
        tag_at: 4,
    };
    for is_module in [false, true] {
        assert_eq!(Kernel { is_module, ..COMPLETE }.find(), Some(expected), "{is_module}");
        for other in [
            Kernel { halves: ["vlan_proto", "vlan"], ..COMPLETE },
            Kernel { halves: ["proto", "vlan_tci"], ..COMPLETE },
            // Halves the other way round.
            Kernel { halves: ["vlan_tci", "vlan_proto"], ..COMPLETE },
            Kernel { contents_at: 8, ..COMPLETE },
            Kernel { functions: [CAST, "bpf_cast"], ..COMPLETE },
            Kernel { functions: ["bpf_cast", READ_ONLY_CAST], ..COMPLETE },
            Kernel { member: "frame", ..COMPLETE },
            Kernel { member_type: POINTER_TO_XDP_BUFF, ..COMPLETE },
            Kernel { xdp_at: 8, ..COMPLETE },
        ] {
            assert_eq!(Kernel { is_module, ..other }.find(), None);
        }
    }
    for types in [&b""[..], b"nothing of the kind"] {
        assert_eq!(VethTag::find(types, None), None);
    }
}
