/* xsk_send: a minimal AF_XDP transmit loop: one queue, one socket, one thread, always the same frames.
 *
 *   UMEM: frames written once ─► TX ring ─► sendto ─► the kernel copies ─► completion ring ─► as many frames may be sent again
 *
 * Frames are sent in a fixed order and complete in it, so the loop only counts completions. */
#include "peer.h"
#include "xsk_ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct settings {
    uint64_t queue, frames, length;
};

struct xsk {
    int socket;
    uint8_t *umem;
    struct ring tx, completion;
    uint32_t free; /* frames that the kernel does not own */
};

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
    xsk->socket = xsk_socket();
    size_t bytes = settings->frames * FRAME_BYTES;
    xsk->umem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (xsk->umem == MAP_FAILED)
        peer_fail("memory for the frames", "fewer --frames");
    for (; xsk->free < settings->frames; xsk->free++)
        write_frame(xsk->umem + (size_t)xsk->free * FRAME_BYTES, settings->length);
    struct xdp_umem_reg umem = {.addr = (uintptr_t)xsk->umem, .len = bytes, .chunk_size = FRAME_BYTES};
    xsk_set_option(xsk->socket, XDP_UMEM_REG, &umem, sizeof umem, "needs CAP_NET_RAW, and CAP_IPC_LOCK or `ulimit -l`");
    uint32_t size = (uint32_t)settings->frames, fill_size = 64; /* never used, but bind wants one */
    xsk_set_option(xsk->socket, XDP_UMEM_FILL_RING, &fill_size, sizeof fill_size, "out of memory?");
    xsk_set_option(xsk->socket, XDP_UMEM_COMPLETION_RING, &size, sizeof size, "--frames must be a power of two");
    xsk_set_option(xsk->socket, XDP_TX_RING, &size, sizeof size, "--frames must be a power of two");
    struct xdp_mmap_offsets offsets = xsk_offsets(xsk->socket);
    const char *hint = "fewer --frames";
    ring_map(&xsk->tx, xsk->socket, &offsets.tx, XDP_PGOFF_TX_RING, size, sizeof(struct xdp_desc), hint);
    ring_map(&xsk->completion, xsk->socket, &offsets.cr, XDP_UMEM_PGOFF_COMPLETION_RING, size, sizeof(uint64_t), hint);
    struct sockaddr_xdp address = {.sxdp_family = AF_XDP,
                                   .sxdp_ifindex = ifindex,
                                   .sxdp_queue_id = (uint32_t)settings->queue,
                                   .sxdp_flags = XDP_COPY};
    if (bind(xsk->socket, (struct sockaddr *)&address, sizeof address))
        peer_fail("binding to the queue", "does the --queue exist, and is it free?");
}

/* Frames that the kernel has sent may be sent again. */
static void reclaim(struct xsk *xsk)
{
    uint32_t sent = ring_ready(&xsk->completion);
    xsk->completion.ours += sent;
    xsk->free += sent;
    ring_release(&xsk->completion);
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
    ring_publish(tx);
    return packets;
}

/* In copy mode the kernel sends only on request, a few dozen frames each time. */
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
