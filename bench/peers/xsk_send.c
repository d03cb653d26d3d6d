/* xsk_send: the barest AF_XDP transmit loop there is: one queue, one socket, one thread, the same frames for ever.
 *
 *   UMEM: frames written once ─► TX ring ─► sendto ─► the kernel copies ─► completion ring ─► as many frames may go again
 *
 * Frames go round in a fixed order, and as many are under way as there are: those that come back need no bookkeeping. */
#include "peer.h"

#include <errno.h>
#include <linux/if_xdp.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAME_BYTES 2048

struct settings {
    uint64_t queue, frames, length;
};

/* One shared ring. Indices run freely; entry i is at i & mask. */
struct ring {
    _Atomic uint32_t *producer; /* TX: written by us. Completion: written by the kernel */
    _Atomic uint32_t *consumer; /* TX: written by the kernel. Completion: written by us */
    void *entries;              /* TX: struct xdp_desc. Completion: uint64_t addresses */
    uint32_t mask;
    uint32_t ours; /* our copy of the index that we write */
};

struct xsk {
    int socket;
    uint8_t *umem;
    struct ring tx, completion;
    uint32_t free; /* frames that are not under way */
};

_Static_assert(sizeof(struct xdp_desc) == 16, "TX ring entry");

static void set_option(int socket, int option, const void *value, socklen_t size, const char *hint)
{
    if (setsockopt(socket, SOL_XDP, option, value, size))
        peer_fail("AF_XDP socket option", hint);
}

static void ring_map(struct ring *ring, int socket, const struct xdp_ring_offset *offset, off_t page_offset,
                     uint32_t size, size_t entry_bytes)
{
    uint8_t *memory = mmap(NULL, offset->desc + size * entry_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                           socket, page_offset);
    if (memory == MAP_FAILED)
        peer_fail("mmap of a ring", "fewer --frames");
    ring->producer = (_Atomic uint32_t *)(memory + offset->producer);
    ring->consumer = (_Atomic uint32_t *)(memory + offset->consumer);
    ring->entries = memory + offset->desc;
    ring->mask = size - 1;
}

/* An IPv4/UDP header to the discard port, as the other generators send it; the rest is zeros. */
static void write_frame(uint8_t *frame, uint64_t length)
{
    static const uint8_t head[] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 0, 0, 0, 0,
                                   0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1, 4, 0, 0, 9};
    memcpy(frame, head, sizeof head);
    frame[16] = (uint8_t)((length - 14) >> 8);
    frame[17] = (uint8_t)(length - 14);
    frame[38] = (uint8_t)((length - 34) >> 8);
    frame[39] = (uint8_t)(length - 34);
}

static void xsk_open(struct xsk *xsk, const struct settings *settings, unsigned ifindex)
{
    xsk->socket = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (xsk->socket < 0)
        peer_fail("AF_XDP socket", "needs CAP_NET_RAW and a kernel with CONFIG_XDP_SOCKETS");
    size_t bytes = settings->frames * FRAME_BYTES;
    xsk->umem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (xsk->umem == MAP_FAILED)
        peer_fail("memory for the frames", "fewer --frames");
    for (; xsk->free < settings->frames; xsk->free++)
        write_frame(xsk->umem + (size_t)xsk->free * FRAME_BYTES, settings->length);
    struct xdp_umem_reg umem = {.addr = (uintptr_t)xsk->umem, .len = bytes, .chunk_size = FRAME_BYTES};
    set_option(xsk->socket, XDP_UMEM_REG, &umem, sizeof umem, "needs CAP_NET_RAW, and CAP_IPC_LOCK or `ulimit -l`");
    uint32_t size = (uint32_t)settings->frames, fill_size = 64; /* never used, but bind wants one */
    set_option(xsk->socket, XDP_UMEM_FILL_RING, &fill_size, sizeof fill_size, "out of memory?");
    set_option(xsk->socket, XDP_UMEM_COMPLETION_RING, &size, sizeof size, "--frames must be a power of two");
    set_option(xsk->socket, XDP_TX_RING, &size, sizeof size, "--frames must be a power of two");
    struct xdp_mmap_offsets offsets;
    socklen_t length = sizeof offsets;
    if (getsockopt(xsk->socket, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length))
        peer_fail("XDP_MMAP_OFFSETS", "needs Linux 5.4");
    ring_map(&xsk->tx, xsk->socket, &offsets.tx, XDP_PGOFF_TX_RING, size, sizeof(struct xdp_desc));
    ring_map(&xsk->completion, xsk->socket, &offsets.cr, XDP_UMEM_PGOFF_COMPLETION_RING, size, sizeof(uint64_t));
    struct sockaddr_xdp address = {.sxdp_family = AF_XDP,
                                   .sxdp_ifindex = ifindex,
                                   .sxdp_queue_id = (uint32_t)settings->queue,
                                   .sxdp_flags = XDP_COPY};
    if (bind(xsk->socket, (struct sockaddr *)&address, sizeof address))
        peer_fail("binding to the queue", "is there such a --queue, and nobody on it?");
}

/* Frames that the kernel has sent may go again. */
static void reclaim(struct xsk *xsk)
{
    /* Acquire: pairs with the kernel's release of the producer index; it is through with the frames. */
    uint32_t sent = atomic_load_explicit(xsk->completion.producer, memory_order_acquire) - xsk->completion.ours;
    xsk->completion.ours += sent;
    xsk->free += sent;
    atomic_store_explicit(xsk->completion.consumer, xsk->completion.ours, memory_order_release);
}

static uint32_t stage(struct xsk *xsk, const struct settings *settings, uint32_t packets)
{
    struct ring *tx = &xsk->tx;
    if (packets > xsk->free)
        packets = xsk->free;
    for (uint32_t i = 0; i < packets; i++, tx->ours++) {
        struct xdp_desc *desc = (struct xdp_desc *)tx->entries + (tx->ours & tx->mask);
        *desc = (struct xdp_desc){.addr = (uint64_t)(tx->ours & tx->mask) * FRAME_BYTES, .len = (uint32_t)settings->length};
    }
    xsk->free -= packets;
    /* Release: the entries are written before the kernel sees the index; pairs with its load of the producer. */
    atomic_store_explicit(tx->producer, tx->ours, memory_order_release);
    return packets;
}

/* In copy mode the kernel sends only when it is told to, and a few dozen frames each time. */
static void kick(const struct xsk *xsk)
{
    if (sendto(xsk->socket, NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0)
        return;
    if (errno != EAGAIN && errno != EBUSY && errno != ENOBUFS)
        peer_fail("sending", "is the interface up?");
}

static void send_frames(struct xsk *xsk, struct run *run, const struct settings *settings)
{
    while (run_goes_on(run)) {
        reclaim(xsk);
        uint32_t packets = stage(xsk, settings, (uint32_t)run_room(run, run->options->batch));
        kick(xsk);
        if (packets)
            run_batch(run, packets, packets * settings->length);
        else
            run_nothing(run);
    }
    run_stop(run);
}

int main(int argc, char **argv)
{
    struct settings settings = {.frames = 512, .length = 60};
    const struct peer_flag flags[] = {
        {"queue", peer_parse_number, &settings.queue, 0, 65535, "Q  transmit queue (0)"},
        {"frames", peer_parse_number, &settings.frames, 2, 1 << 20, "N  frames of 2 KiB, and entries of the rings (512)"},
        {"length", peer_parse_number, &settings.length, 60, FRAME_BYTES, "N  bytes of a frame, without FCS (60)"},
    };
    struct peer_options options;
    peer_parse(argc, argv, &options, flags, sizeof flags / sizeof *flags);
    struct run run;
    run_start(&run, &options);
    struct xsk xsk = {0};
    xsk_open(&xsk, &settings, peer_ifindex(&options));
    run_ready();
    send_frames(&xsk, &run, &settings);
    run_report(&run, &(struct peer_account){.peer = "xsk_send",
                                            .mode = "copy",
                                            .buffer_bytes = settings.frames * FRAME_BYTES,
                                            .left_in_ring = settings.frames - xsk.free});
    close(xsk.socket);
    munmap(xsk.umem, settings.frames * FRAME_BYTES);
    return 0;
}
