/* xsk_count: a minimal AF_XDP loop: one queue, one socket, one thread; with --queues, several of them.
 *
 *   driver ─► XDP program ─► (copy into a frame taken from the fill ring) ─► RX ring ─► one cache line, count
 *                                      ▲                                                   │
 *                                      └── fill ring ◄── spare frames ◄────────────────────┘
 *
 * Each frame is in exactly one place: fill ring, RX ring, spare stack, or the batch being read. */
#include "peer.h"
#include "xsk_redirect.h"
#include "xsk_ring.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum wait_kind { WAIT_BUSY, WAIT_SLEEP, WAIT_POLL };

struct settings {
    uint64_t queue, queues, frames, ring, sleep_us;
    enum wait_kind wait;
    enum redirect_mode mode;
};

struct xsk {
    int socket;
    uint8_t *umem;
    struct ring fill, rx;
    uint64_t *spare; /* stack of frame addresses */
    uint32_t spares;
    const struct settings *settings;
    struct run run;
};

static void umem_register(struct xsk *xsk, uint64_t frames)
{
    xsk->umem = mmap(NULL, frames * FRAME_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1,
                     0);
    xsk->spare = malloc(frames * sizeof *xsk->spare);
    if (xsk->umem == MAP_FAILED || !xsk->spare)
        peer_fail("memory for the frames", "fewer --frames");
    while (xsk->spares < frames) {
        xsk->spare[xsk->spares] = (uint64_t)xsk->spares * FRAME_BYTES;
        xsk->spares++;
    }
    struct xdp_umem_reg umem = {
        .addr = (uintptr_t)xsk->umem, .len = frames * FRAME_BYTES, .chunk_size = FRAME_BYTES};
    xsk_set_option(xsk->socket, XDP_UMEM_REG, &umem, sizeof umem, "needs CAP_NET_RAW, and CAP_IPC_LOCK or `ulimit -l`");
}

static void xsk_open(struct xsk *xsk, const struct settings *settings)
{
    xsk->socket = xsk_socket();
    umem_register(xsk, settings->frames);
    uint32_t size = (uint32_t)settings->ring, completion_size = 64; /* never used, but bind wants one */
    xsk_set_option(xsk->socket, XDP_UMEM_FILL_RING, &size, sizeof size, "--ring must be a power of two");
    xsk_set_option(xsk->socket, XDP_UMEM_COMPLETION_RING, &completion_size, sizeof completion_size, "out of memory?");
    xsk_set_option(xsk->socket, XDP_RX_RING, &size, sizeof size, "--ring must be a power of two");
    const struct xdp_mmap_offsets offsets = xsk_offsets(xsk->socket);
    const char *hint = "smaller --ring";
    ring_map(&xsk->fill, xsk->socket, &offsets.fr, XDP_UMEM_PGOFF_FILL_RING, size, sizeof(uint64_t), hint);
    ring_map(&xsk->rx, xsk->socket, &offsets.rx, XDP_PGOFF_RX_RING, size, sizeof(struct xdp_desc), hint);
}

static void xsk_bind(const struct xsk *xsk, unsigned ifindex, uint32_t queue)
{
    struct sockaddr_xdp address = {
        .sxdp_family = AF_XDP, .sxdp_ifindex = ifindex, .sxdp_queue_id = queue, .sxdp_flags = XDP_COPY};
    if (bind(xsk->socket, (struct sockaddr *)&address, sizeof address))
        peer_fail("binding to the queue", "does the --queue exist, and is it free?");
}

/* Gives the kernel as many spare frames as the fill ring has room for. */
static void refill(struct xsk *xsk)
{
    struct ring *fill = &xsk->fill;
    uint32_t room = ring_room(fill);
    for (; room && xsk->spares; room--)
        ((uint64_t *)fill->entries)[fill->ours++ & fill->mask] = xsk->spare[--xsk->spares];
    ring_publish(fill);
}

static void read_batch(struct xsk *xsk, struct run *run, uint32_t packets)
{
    struct ring *rx = &xsk->rx;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < packets; i++) {
        struct xdp_desc desc = ((const struct xdp_desc *)rx->entries)[rx->ours++ & rx->mask];
        run_handle(run, xsk->umem + desc.addr, desc.len);
        bytes += desc.len;
        xsk->spare[xsk->spares++] = desc.addr & ~(uint64_t)(FRAME_BYTES - 1);
    }
    run_batch(run, packets, bytes);
    ring_release(rx);
    refill(xsk);
}

static void wait_for_packets(const struct xsk *xsk, const struct settings *settings)
{
    if (settings->wait == WAIT_SLEEP) {
        struct timespec pause = {.tv_sec = (time_t)(settings->sleep_us / 1000000),
                                 .tv_nsec = (long)(settings->sleep_us % 1000000 * 1000)};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    } else if (settings->wait == WAIT_POLL) {
        struct pollfd readable = {.fd = xsk->socket, .events = POLLIN};
        poll(&readable, 1, PEER_WAIT_MS);
    }
}

static void count(void *item)
{
    struct xsk *xsk = item;
    struct run *run = &xsk->run;
    while (run_goes_on(run)) {
        uint32_t ready = ring_ready(&xsk->rx);
        if (ready) {
            uint64_t room = run_room(run, run->options->batch);
            read_batch(xsk, run, ready < room ? ready : (uint32_t)room);
        } else {
            run_nothing(run);
            wait_for_packets(xsk, xsk->settings);
        }
    }
    run_stop(run);
}

static struct peer_account account(const struct xsk *xsk, const char *mode, struct peer_counter dropped[4])
{
    struct xdp_statistics stats;
    socklen_t size = sizeof stats;
    if (getsockopt(xsk->socket, SOL_XDP, XDP_STATISTICS, &stats, &size) || size != sizeof stats)
        peer_fail("XDP_STATISTICS", "needs Linux 5.9");
    dropped[0] = (struct peer_counter){"rx_dropped", stats.rx_dropped};
    dropped[1] = (struct peer_counter){"rx_ring_full", stats.rx_ring_full};
    dropped[2] = (struct peer_counter){"rx_fill_ring_empty_descs", stats.rx_fill_ring_empty_descs};
    dropped[3] = (struct peer_counter){"rx_invalid_descs", stats.rx_invalid_descs};
    return (struct peer_account){.peer = "xsk_count",
                                 .mode = mode,
                                 .buffer_bytes = xsk->settings->frames * FRAME_BYTES,
                                 .left_in_ring = ring_ready(&xsk->rx),
                                 .dropped = dropped,
                                 .dropped_count = 4};
}

static int parse_wait(const struct peer_flag *flag, char **words)
{
    struct settings *settings = flag->target;
    const char *word = words[0] ? words[0] : "";
    if (strcmp(word, "sleep-us") == 0) {
        const struct peer_flag number = {.target = &settings->sleep_us, .min = flag->min, .max = flag->max};
        settings->wait = WAIT_SLEEP;
        return peer_parse_number(&number, words + 1) ? 2 : 0;
    }
    settings->wait = strcmp(word, "poll") == 0 ? WAIT_POLL : WAIT_BUSY;
    return settings->wait == WAIT_POLL || strcmp(word, "busy") == 0;
}

static int parse_mode(const struct peer_flag *flag, char **words)
{
    static const char *const names[] = {
        [REDIRECT_AUTO] = "auto", [REDIRECT_NATIVE] = "native", [REDIRECT_GENERIC] = "generic"};
    for (int mode = REDIRECT_AUTO; mode <= REDIRECT_GENERIC; mode++) {
        if (words[0] && strcmp(words[0], names[mode]) == 0) {
            *(enum redirect_mode *)flag->target = (enum redirect_mode)mode;
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct settings settings = {.queues = 1, .frames = 4096, .ring = 2048, .wait = WAIT_BUSY, .mode = REDIRECT_AUTO};
    struct peer_options options;
    const struct peer_flag flags[] = {
        {"queue", peer_parse_number, &settings.queue, 0, 65535, "Q  receive queue (0)"},
        {"queues", peer_parse_number, &settings.queues, 1, PEER_QUEUES_MAX, "N  a thread for each of N queues, from --queue on (1)"},
        {"frames", peer_parse_number, &settings.frames, 2, 1 << 22, "N  frames of 2 KiB (4096)"},
        {"ring", peer_parse_number, &settings.ring, 2, 1 << 20, "N  entries of the fill and RX rings (2048)"},
        {"mode", parse_mode, &settings.mode, 0, 0, "auto|native|generic  XDP mode (auto)"},
        {"wait", parse_wait, &settings, 1, 1000000, "busy|sleep-us N|poll  what to do without packets (busy)"},
        PEER_FORWARD_FLAG(&options),
    };
    peer_parse(argc, argv, &options, flags, sizeof flags / sizeof *flags);
    unsigned ifindex = peer_ifindex(&options);
    uint32_t first = (uint32_t)settings.queue, queues = (uint32_t)settings.queues;

    static struct xsk xsks[PEER_QUEUES_MAX];
    const struct run *runs[PEER_QUEUES_MAX];
    struct peer_account accounts[PEER_QUEUES_MAX];
    struct peer_counter dropped[PEER_QUEUES_MAX][4];
    for (uint32_t i = 0; i < queues; i++) {
        xsks[i].settings = &settings;
        run_start(&xsks[i].run, &options);
        xsk_open(&xsks[i], &settings);
        refill(&xsks[i]);
        runs[i] = &xsks[i].run;
    }
    int promiscuous = socket(AF_PACKET, SOCK_RAW, 0);
    peer_promiscuous(promiscuous, ifindex);
    struct redirect redirect;
    redirect_attach(&redirect, ifindex, first + queues - 1, settings.mode);
    for (uint32_t i = 0; i < queues; i++) {
        xsk_bind(&xsks[i], ifindex, first + i);
        redirect_set_socket(&redirect, first + i, xsks[i].socket);
    }
    run_ready();
    run_each(xsks, sizeof *xsks, queues, count);

    redirect_detach(&redirect); /* first, so that the counters stop */
    for (uint32_t i = 0; i < queues; i++)
        accounts[i] = account(&xsks[i], redirect.native ? "native-copy" : "generic-copy", dropped[i]);
    run_report_queues(runs, accounts, queues);
    close(promiscuous);
    for (uint32_t i = 0; i < queues; i++) {
        close(xsks[i].socket);
        munmap(xsks[i].umem, settings.frames * FRAME_BYTES);
        free(xsks[i].spare);
    }
    return 0;
}
