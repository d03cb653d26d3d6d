/* xsk_forward: a minimal AF_XDP forwarding loop: two interfaces, one queue of each, one thread, one UMEM.
 *
 *   A: fill ring ─► (kernel copies a packet into the frame) ─► RX ring ─┐ descriptor, unchanged
 *         ▲                                                             ▼
 *         └──────────────── completion ring of B ◄─ (sent) ◄─ TX ring of B          and the same from B to A
 *
 * Each frame belongs to one side and is in exactly one place: that side's fill or RX ring, or the other
 * side's TX or completion ring. The loop reads no packet and copies no frame. */
#include "peer.h"
#include "xsk_redirect.h"
#include "xsk_ring.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIDES 2

#ifndef XDP_MAX_TX_SKB_BUDGET
#define XDP_MAX_TX_SKB_BUDGET 9
#endif

enum wait_kind { WAIT_BUSY, WAIT_POLL };

struct settings {
    const char *to;
    uint64_t queue, frames, tx_ring, tx_budget, sndbuf;
    enum wait_kind wait;
};

struct side {
    int socket, promiscuous;
    struct ring fill, completion, rx, tx;
    struct redirect redirect;
};

struct forwarder {
    uint8_t *umem;
    struct side sides[SIDES];
};

static void umem_register(struct forwarder *forwarder, const struct settings *settings)
{
    size_t bytes = SIDES * settings->frames * FRAME_BYTES;
    forwarder->umem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (forwarder->umem == MAP_FAILED)
        peer_fail("memory for the frames", "fewer --frames");
    struct xdp_umem_reg umem = {.addr = (uintptr_t)forwarder->umem, .len = bytes, .chunk_size = FRAME_BYTES};
    xsk_set_option(forwarder->sides[0].socket, XDP_UMEM_REG, &umem, sizeof umem,
                   "needs CAP_NET_RAW, and CAP_IPC_LOCK or `ulimit -l`");
}

static void side_rings(struct side *side, const struct settings *settings)
{
    uint32_t size = (uint32_t)settings->frames, tx_size = (uint32_t)settings->tx_ring;
    xsk_set_option(side->socket, XDP_UMEM_FILL_RING, &size, sizeof size, "--frames must be a power of two");
    xsk_set_option(side->socket, XDP_RX_RING, &size, sizeof size, "--frames must be a power of two");
    xsk_set_option(side->socket, XDP_UMEM_COMPLETION_RING, &tx_size, sizeof tx_size, "--tx-ring must be a power of two");
    xsk_set_option(side->socket, XDP_TX_RING, &tx_size, sizeof tx_size, "--tx-ring must be a power of two");
    const struct xdp_mmap_offsets offsets = xsk_offsets(side->socket);
    const char *fewer = "fewer --frames", *smaller = "smaller --tx-ring";
    ring_map(&side->fill, side->socket, &offsets.fr, XDP_UMEM_PGOFF_FILL_RING, size, sizeof(uint64_t), fewer);
    ring_map(&side->rx, side->socket, &offsets.rx, XDP_PGOFF_RX_RING, size, sizeof(struct xdp_desc), fewer);
    ring_map(&side->completion, side->socket, &offsets.cr, XDP_UMEM_PGOFF_COMPLETION_RING, tx_size, sizeof(uint64_t),
             smaller);
    ring_map(&side->tx, side->socket, &offsets.tx, XDP_PGOFF_TX_RING, tx_size, sizeof(struct xdp_desc), smaller);
}

/* More packets per call, and more bytes in flight, than the kernel's defaults of 32 and
 * net.core.wmem_default. */
static void side_limits(const struct side *side, const struct settings *settings)
{
    uint32_t budget = (uint32_t)settings->tx_budget;
    if (budget && setsockopt(side->socket, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &budget, sizeof budget))
        fprintf(stderr, "xsk_forward: --tx-budget refused (%s), 32 packets per call: needs Linux 6.17; at most --tx-ring\n",
                strerror(errno));
    int sndbuf = (int)settings->sndbuf;
    if (sndbuf && setsockopt(side->socket, SOL_SOCKET, SO_SNDBUFFORCE, &sndbuf, sizeof sndbuf))
        peer_fail("SO_SNDBUFFORCE", "needs CAP_NET_ADMIN");
}

static void side_bind(const struct side *side, unsigned ifindex, uint32_t queue, int shared)
{
    struct sockaddr_xdp address = {.sxdp_family = AF_XDP, .sxdp_ifindex = ifindex, .sxdp_queue_id = queue};
    /* The second socket gets the mode with the UMEM. */
    address.sxdp_flags = shared < 0 ? XDP_COPY : XDP_SHARED_UMEM;
    address.sxdp_shared_umem_fd = shared < 0 ? 0 : (uint32_t)shared;
    if (bind(side->socket, (struct sockaddr *)&address, sizeof address))
        peer_fail("binding to the queue", "does the --queue exist, and is it free?");
}

static void side_fill(struct side *side, uint64_t first, uint64_t frames)
{
    for (uint64_t i = 0; i < frames; i++)
        ((uint64_t *)side->fill.entries)[side->fill.ours++ & side->fill.mask] = (first + i) * FRAME_BYTES;
    ring_publish(&side->fill);
}

static void open_sides(struct forwarder *forwarder, const struct peer_options *options, const struct settings *settings)
{
    const char *names[SIDES] = {options->iface, settings->to};
    uint32_t queue = (uint32_t)settings->queue;
    for (unsigned i = 0; i < SIDES; i++) {
        struct side *side = &forwarder->sides[i];
        unsigned ifindex = peer_ifindex(&(struct peer_options){.iface = names[i]});
        side->socket = xsk_socket();
        if (i == 0)
            umem_register(forwarder, settings);
        side_rings(side, settings);
        side_limits(side, settings);
        side_fill(side, i * settings->frames, settings->frames);
        side->promiscuous = socket(AF_PACKET, SOCK_RAW, 0);
        peer_promiscuous(side->promiscuous, ifindex);
        redirect_attach(&side->redirect, ifindex, queue, REDIRECT_AUTO);
        side_bind(side, ifindex, queue, i == 0 ? -1 : forwarder->sides[0].socket);
        redirect_set_socket(&side->redirect, queue, side->socket);
    }
}

/* Frames of `in` that `out` has sent go back to the kernel. There is room: the fill ring holds all frames of
 * its side. */
static void take_back(struct side *in, struct side *out)
{
    struct ring *completion = &out->completion, *fill = &in->fill;
    uint32_t sent = ring_ready(completion);
    if (!sent)
        return;
    for (uint32_t i = 0; i < sent; i++) {
        uint64_t address = ((const uint64_t *)completion->entries)[completion->ours++ & completion->mask];
        ((uint64_t *)fill->entries)[fill->ours++ & fill->mask] = address & ~(uint64_t)(FRAME_BYTES - 1);
    }
    ring_release(completion);
    ring_publish(fill);
}

/* Asks the kernel to send the TX ring: in copy mode it takes some packets per call, and returns EAGAIN if
 * there are more. */
static void kick(const struct side *out)
{
    while (sendto(out->socket, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0) {
        if (errno == EAGAIN && ring_room(&out->tx) <= out->tx.mask)
            continue;
        if (errno != EAGAIN && errno != EBUSY && errno != ENOBUFS && errno != ENETDOWN)
            peer_fail("sendto", "does the interface still exist?");
        return;
    }
}

/* Moves one batch from one side to the other. Returns whether there was a packet. */
static bool forward(struct side *in, struct side *out, struct run *run)
{
    take_back(in, out);
    struct ring *rx = &in->rx, *tx = &out->tx;
    uint32_t ready = ring_ready(rx), room = ring_room(tx);
    uint64_t packets = run_room(run, run->options->batch), bytes = 0;
    packets = ready < packets ? ready : packets;
    packets = room < packets ? room : packets;
    for (uint64_t i = 0; i < packets; i++) {
        struct xdp_desc desc = ((const struct xdp_desc *)rx->entries)[rx->ours++ & rx->mask];
        ((struct xdp_desc *)tx->entries)[tx->ours++ & tx->mask] = desc;
        bytes += desc.len;
    }
    if (packets) {
        ring_release(rx);
        ring_publish(tx);
        run_batch(run, packets, bytes);
    }
    if (packets || room <= tx->mask)
        kick(out);
    return packets > 0;
}

static void forward_all(struct forwarder *forwarder, struct run *run, const struct settings *settings)
{
    struct side *a = &forwarder->sides[0], *b = &forwarder->sides[1];
    struct pollfd readable[SIDES] = {{.fd = a->socket, .events = POLLIN}, {.fd = b->socket, .events = POLLIN}};
    while (run_goes_on(run)) {
        bool moved = forward(a, b, run);
        moved |= forward(b, a, run);
        if (moved)
            continue;
        run_nothing(run);
        if (settings->wait == WAIT_POLL)
            poll(readable, SIDES, PEER_WAIT_MS);
    }
    run_stop(run);
}

static void report(const struct forwarder *forwarder, const struct run *run, const struct settings *settings)
{
    struct xdp_statistics sum = {0};
    uint64_t left = 0;
    bool native = true;
    for (const struct side *side = forwarder->sides; side < forwarder->sides + SIDES; side++) {
        struct xdp_statistics stats;
        socklen_t size = sizeof stats;
        if (getsockopt(side->socket, SOL_XDP, XDP_STATISTICS, &stats, &size) || size != sizeof stats)
            peer_fail("XDP_STATISTICS", "needs Linux 5.9");
        sum.rx_dropped += stats.rx_dropped;
        sum.rx_ring_full += stats.rx_ring_full;
        sum.rx_fill_ring_empty_descs += stats.rx_fill_ring_empty_descs;
        sum.tx_invalid_descs += stats.tx_invalid_descs;
        left += ring_ready(&side->rx);
        native &= side->redirect.native;
    }
    const struct peer_counter dropped[] = {
        {"rx_dropped", sum.rx_dropped},
        {"rx_ring_full", sum.rx_ring_full},
        {"rx_fill_ring_empty_descs", sum.rx_fill_ring_empty_descs},
        {"tx_invalid_descs", sum.tx_invalid_descs},
    };
    run_report(run, &(struct peer_account){.peer = "xsk_forward",
                                           .mode = native ? "native-copy" : "generic-copy",
                                           .buffer_bytes = SIDES * settings->frames * FRAME_BYTES,
                                           .left_in_ring = left,
                                           .dropped = dropped,
                                           .dropped_count = sizeof dropped / sizeof *dropped});
}

static int parse_wait(const struct peer_flag *flag, char **words)
{
    const char *word = words[0] ? words[0] : "";
    bool poll = strcmp(word, "poll") == 0;
    *(enum wait_kind *)flag->target = poll ? WAIT_POLL : WAIT_BUSY;
    return poll || strcmp(word, "busy") == 0;
}

int main(int argc, char **argv)
{
    struct settings settings = {.frames = 8192, .tx_ring = 2048, .wait = WAIT_BUSY};
    const struct peer_flag flags[] = {
        {"to", peer_parse_text, &settings.to, 0, 0, "IFACE  the other interface"},
        {"queue", peer_parse_number, &settings.queue, 0, 65535, "Q  queue of both (0)"},
        {"frames", peer_parse_number, &settings.frames, 2, 1 << 20, "N  frames of 2 KiB, and entries of the RX ring, per side (8192)"},
        {"tx-ring", peer_parse_number, &settings.tx_ring, 2, 1 << 20, "N  entries of the TX and completion rings (2048)"},
        {"tx-budget", peer_parse_number, &settings.tx_budget, 32, 1 << 20, "N  packets that the kernel sends per call (32)"},
        {"sndbuf", peer_parse_number, &settings.sndbuf, 1, 1 << 30, "BYTES  send buffer (net.core.wmem_default)"},
        {"wait", parse_wait, &settings.wait, 0, 0, "busy|poll  what to do without packets (busy)"},
    };
    struct peer_options options;
    peer_parse(argc, argv, &options, flags, sizeof flags / sizeof *flags);
    if (!settings.to) {
        fputs("xsk_forward: wrong: --to IFACE is missing\n", stderr);
        return 2;
    }
    struct run run;
    run_start(&run, &options);
    struct forwarder forwarder = {0};
    open_sides(&forwarder, &options, &settings);
    run_ready();
    forward_all(&forwarder, &run, &settings);

    for (struct side *side = forwarder.sides; side < forwarder.sides + SIDES; side++)
        redirect_detach(&side->redirect); /* first, so that the counters stop */
    report(&forwarder, &run, &settings);
    for (struct side *side = forwarder.sides; side < forwarder.sides + SIDES; side++) {
        close(side->promiscuous);
        close(side->socket);
    }
    munmap(forwarder.umem, SIDES * settings.frames * FRAME_BYTES);
    return 0;
}
