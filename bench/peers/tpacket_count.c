/* tpacket_count: the ring that libpcap uses, without libpcap.
 *
 *   kernel ─► block 0 │ block 1 │ … │ block B-1  (PACKET_RX_RING, TPACKET_V3) ─► walk the block, give it back */
#include "peer.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

struct settings {
    uint64_t block_kib, blocks, retire_ms, queues;
    uint64_t protocol, snaplen; /* with a protocol, a filter in the kernel */
};

struct ring {
    int socket;
    uint8_t *memory; /* blocks * block_bytes */
    uint64_t block_bytes, blocks;
    uint64_t next; /* block that the kernel fills, or has just filled */
    struct run run;
};

_Static_assert(sizeof(_Atomic uint32_t) == sizeof(uint32_t), "block_status is shared with the kernel");

static void ring_map(struct ring *ring, const struct settings *settings)
{
    ring->block_bytes = settings->block_kib << 10;
    ring->blocks = settings->blocks;
    int version = TPACKET_V3;
    if (setsockopt(ring->socket, SOL_PACKET, PACKET_VERSION, &version, sizeof version))
        peer_fail("TPACKET_V3", "needs Linux 3.2");
    /* Frame size and number only have to fit the blocks: V3 packs packets densely. */
    struct tpacket_req3 request = {
        .tp_block_size = (unsigned)ring->block_bytes,
        .tp_block_nr = (unsigned)ring->blocks,
        .tp_frame_size = 2048,
        .tp_frame_nr = (unsigned)(ring->block_bytes / 2048 * ring->blocks),
        .tp_retire_blk_tov = (unsigned)settings->retire_ms,
    };
    if (setsockopt(ring->socket, SOL_PACKET, PACKET_RX_RING, &request, sizeof request))
        peer_fail("PACKET_RX_RING", "--block-kib must be a multiple of the page size; or use fewer --blocks");
    ring->memory = mmap(NULL, ring->block_bytes * ring->blocks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                        ring->socket, 0);
    if (ring->memory == MAP_FAILED)
        peer_fail("mmap of the ring", "fewer --blocks");
}

/* Keeps the first bytes of IPv4 packets of one protocol. */
static void ring_filter(const struct ring *ring, const struct settings *settings)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 3),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ETH_HLEN + 9),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)settings->protocol, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, settings->snaplen ? (uint32_t)settings->snaplen : 262144),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog filter = {.len = sizeof code / sizeof *code, .filter = code};
    if (setsockopt(ring->socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter))
        peer_fail("SO_ATTACH_FILTER", "a kernel without filters?");
}

static void ring_open(struct ring *ring, const struct settings *settings, unsigned ifindex)
{
    /* Protocol 0: nothing arrives before the bind below. */
    ring->socket = socket(AF_PACKET, SOCK_RAW, 0);
    if (ring->socket < 0)
        peer_fail("AF_PACKET socket", "needs CAP_NET_RAW");
    ring_map(ring, settings);
    if (settings->protocol)
        ring_filter(ring, settings);
    int on = 1;
    if (setsockopt(ring->socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on))
        peer_fail("PACKET_IGNORE_OUTGOING", "needs Linux 4.20");
    peer_promiscuous(ring->socket, ifindex);
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)ifindex};
    if (bind(ring->socket, (struct sockaddr *)&address, sizeof address))
        peer_fail("bind", "is the interface up?");
}

static struct tpacket_block_desc *ring_block(const struct ring *ring)
{
    return (struct tpacket_block_desc *)(ring->memory + ring->next * ring->block_bytes);
}

/* Written by the kernel (TP_STATUS_USER, release) and by us (TP_STATUS_KERNEL, release). */
static _Atomic uint32_t *block_status(struct tpacket_block_desc *block)
{
    return (_Atomic uint32_t *)&block->hdr.bh1.block_status;
}

/* Counts the packets of one block. */
static void read_block(const struct tpacket_block_desc *block, struct run *run)
{
    uint64_t packets = run_room(run, block->hdr.bh1.num_pkts);
    uint64_t bytes = 0;
    const uint8_t *at = (const uint8_t *)block + block->hdr.bh1.offset_to_first_pkt;
    for (uint64_t i = 0; i < packets; i++) {
        const struct tpacket3_hdr *header = (const struct tpacket3_hdr *)at;
        run_handle(run, at + header->tp_mac, header->tp_snaplen);
        bytes += header->tp_len;
        at += header->tp_next_offset;
    }
    if (packets)
        run_batch(run, packets, bytes);
}

static void count(void *item)
{
    struct ring *ring = item;
    struct run *run = &ring->run;
    struct pollfd readable = {.fd = ring->socket, .events = POLLIN | POLLERR};
    while (run_goes_on(run)) {
        struct tpacket_block_desc *block = ring_block(ring);
        /* Acquire: pairs with the kernel's barrier before it sets TP_STATUS_USER; the packets are
         * complete. */
        if (!(atomic_load_explicit(block_status(block), memory_order_acquire) & TP_STATUS_USER)) {
            run_nothing(run);
            poll(&readable, 1, PEER_WAIT_MS);
            continue;
        }
        read_block(block, run);
        /* Release: our reads are done before the kernel may fill the block again. */
        atomic_store_explicit(block_status(block), TP_STATUS_KERNEL, memory_order_release);
        ring->next = (ring->next + 1) % ring->blocks;
    }
    run_stop(run);
}

/* The API's counters are 32 bits wide; the difference is correct while the result fits. tp_packets includes
 * dropped packets. */
static struct peer_account account(const struct ring *ring, struct peer_counter *dropped)
{
    struct tpacket_stats_v3 stats;
    socklen_t size = sizeof stats;
    if (getsockopt(ring->socket, SOL_PACKET, PACKET_STATISTICS, &stats, &size))
        peer_fail("PACKET_STATISTICS", "kernel without TPACKET_V3");
    *dropped = (struct peer_counter){"tp_drops", stats.tp_drops};
    return (struct peer_account){.peer = "tpacket_count",
                                 .mode = "TPACKET_V3",
                                 .buffer_bytes = ring->block_bytes * ring->blocks,
                                 .left_in_ring = stats.tp_packets - stats.tp_drops - (uint32_t)ring->run.packets,
                                 .dropped = dropped,
                                 .dropped_count = 1};
}

int main(int argc, char **argv)
{
    struct settings settings = {.block_kib = 256, .blocks = 8, .retire_ms = 10, .queues = 1};
    struct peer_options options;
    const struct peer_flag flags[] = {
        {"block-kib", peer_parse_number, &settings.block_kib, 4, 1 << 20, "N  one block in KiB (256)"},
        {"blocks", peer_parse_number, &settings.blocks, 1, 1 << 16, "N  blocks of the ring (8)"},
        {"retire-ms", peer_parse_number, &settings.retire_ms, 1, 10000, "MS  hand over unfilled blocks after (10)"},
        {"protocol", peer_parse_number, &settings.protocol, 0, 255, "N  only IPv4 packets of this protocol, by a filter"},
        {"snaplen", peer_parse_number, &settings.snaplen, 1, 262144, "N  with --protocol: bytes kept of each packet"},
        {"queues", peer_parse_number, &settings.queues, 1, PEER_QUEUES_MAX, "N  a ring and a thread for each of N queues (1)"},
        PEER_FORWARD_FLAG(&options),
    };
    peer_parse(argc, argv, &options, flags, sizeof flags / sizeof *flags);

    if (settings.snaplen && !settings.protocol) {
        fputs("tpacket_count: wrong: --snaplen without --protocol\n", stderr);
        return 2;
    }
    static struct ring rings[PEER_QUEUES_MAX];
    const struct run *runs[PEER_QUEUES_MAX];
    struct peer_account accounts[PEER_QUEUES_MAX];
    struct peer_counter dropped[PEER_QUEUES_MAX];
    size_t queues = settings.queues;
    for (size_t i = 0; i < queues; i++) {
        run_start(&rings[i].run, &options);
        ring_open(&rings[i], &settings, peer_ifindex(&options));
        if (queues > 1)
            peer_join_queues(rings[i].socket);
        runs[i] = &rings[i].run;
    }
    run_ready();
    run_each(rings, sizeof *rings, queues, count);

    for (size_t i = 0; i < queues; i++)
        accounts[i] = account(&rings[i], &dropped[i]);
    run_report_queues(runs, accounts, queues);
    for (size_t i = 0; i < queues; i++) {
        munmap(rings[i].memory, rings[i].block_bytes * rings[i].blocks);
        close(rings[i].socket);
    }
    return 0;
}
