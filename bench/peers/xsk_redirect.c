#include "xsk_redirect.h"

#include "peer.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int bpf(enum bpf_cmd command, union bpf_attr *attr)
{
    return (int)syscall(SYS_bpf, command, attr, sizeof *attr);
}

static int create_map(uint32_t entries)
{
    union bpf_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.map_type = BPF_MAP_TYPE_XSKMAP;
    attr.key_size = sizeof(uint32_t);
    attr.value_size = sizeof(uint32_t);
    attr.max_entries = entries;
    return bpf(BPF_MAP_CREATE, &attr);
}

/* return bpf_redirect_map(map, ctx->rx_queue_index, XDP_PASS): queues without a socket pass to the host. */
static int load_program(int map)
{
    const struct bpf_insn code[] = {
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = BPF_REG_2, .src_reg = BPF_REG_1,
         .off = offsetof(struct xdp_md, rx_queue_index)},
        {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = BPF_REG_1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map},
        {.code = 0}, /* second half of the 64-bit load */
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.prog_type = BPF_PROG_TYPE_XDP;
    attr.insns = (uintptr_t)code;
    attr.insn_cnt = sizeof code / sizeof *code;
    attr.license = (uintptr_t) "GPL";
    memcpy(attr.prog_name, "xsk_redirect", sizeof "xsk_redirect");
    return bpf(BPF_PROG_LOAD, &attr);
}

static int create_link(int program, unsigned ifindex, uint32_t flags)
{
    union bpf_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.link_create.prog_fd = (uint32_t)program;
    attr.link_create.target_ifindex = ifindex;
    attr.link_create.attach_type = BPF_XDP;
    attr.link_create.flags = flags;
    return bpf(BPF_LINK_CREATE, &attr);
}

static void attach(struct redirect *redirect, unsigned ifindex, enum redirect_mode mode)
{
    redirect->native = mode != REDIRECT_GENERIC;
    redirect->link =
        create_link(redirect->program, ifindex, redirect->native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE);
    if (redirect->link >= 0 || mode != REDIRECT_AUTO)
        return;
    int native_error = errno;
    redirect->native = false;
    redirect->link = create_link(redirect->program, ifindex, XDP_FLAGS_SKB_MODE);
    if (redirect->link >= 0)
        fprintf(stderr, "%s: native XDP refused (%s), running in generic mode\n", program_invocation_short_name,
                strerror(native_error));
}

void redirect_attach(struct redirect *redirect, unsigned ifindex, uint32_t queue, enum redirect_mode mode)
{
    redirect->map = create_map(queue + 1);
    if (redirect->map < 0)
        peer_fail("XSKMAP", "needs CAP_BPF and CAP_NET_ADMIN");
    redirect->program = load_program(redirect->map);
    if (redirect->program < 0)
        peer_fail("XDP program", "needs CAP_BPF and CAP_NET_ADMIN");
    attach(redirect, ifindex, mode);
    if (redirect->link < 0)
        peer_fail("attaching the XDP program", "another program attached (`ip link`)? driver without XDP? MTU too large?");
}

void redirect_set_socket(const struct redirect *redirect, uint32_t queue, int socket)
{
    uint32_t value = (uint32_t)socket;
    union bpf_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.map_fd = (uint32_t)redirect->map;
    attr.key = (uintptr_t)&queue;
    attr.value = (uintptr_t)&value;
    if (bpf(BPF_MAP_UPDATE_ELEM, &attr))
        peer_fail("XSKMAP entry", "the socket is not bound");
}

void redirect_detach(struct redirect *redirect)
{
    close(redirect->link);
    close(redirect->program);
    close(redirect->map);
}
