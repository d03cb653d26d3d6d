/* pcap_count: a plain libpcap application.
 *
 *   kernel ─► TPACKET_V3 ring inside libpcap (--buffer-mib) ─► pcap_dispatch ─► callback: one cache line, count */
#include "peer.h"

#include <pcap/pcap.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

struct settings {
    uint64_t buffer_mib, snaplen, timeout_ms, queues;
};

struct reader {
    pcap_t *handle;
    struct run run;
};

struct batch {
    struct run *run;
    uint64_t packets, bytes;
};

static _Noreturn void fail(pcap_t *handle, const char *what)
{
    fprintf(stderr, "pcap_count: %s: %s\n", what, pcap_geterr(handle));
    exit(1);
}

static void on_packet(u_char *user, const struct pcap_pkthdr *header, const u_char *packet)
{
    struct batch *batch = (struct batch *)user;
    run_handle(batch->run, packet, header->caplen);
    batch->packets++;
    batch->bytes += header->len;
}

/* A kernel filter that returns the snap length, as tcpdump installs it: without it the kernel copies whole
 * packets, and libpcap only hides the rest. */
static void cut_in_kernel(pcap_t *handle)
{
    struct bpf_program program;
    if (pcap_compile(handle, &program, "", 1, PCAP_NETMASK_UNKNOWN) || pcap_setfilter(handle, &program))
        fail(handle, "--snaplen");
    pcap_freecode(&program);
}

static pcap_t *open_live(const char *iface, const struct settings *settings)
{
    char error[PCAP_ERRBUF_SIZE] = "";
    pcap_t *handle = pcap_create(iface, error);
    if (!handle) {
        fprintf(stderr, "pcap_count: %s: %s\n", iface, error);
        exit(1);
    }
    pcap_set_snaplen(handle, (int)settings->snaplen);
    pcap_set_promisc(handle, 1);
    /* Not immediate mode: libpcap would fall back to TPACKET_V2. */
    pcap_set_timeout(handle, (int)settings->timeout_ms);
    pcap_set_buffer_size(handle, (int)(settings->buffer_mib << 20));
    int status = pcap_activate(handle);
    if (status < 0)
        fail(handle, "activating the interface");
    if (status > 0)
        fprintf(stderr, "pcap_count: %s: %s\n", pcap_statustostr(status), pcap_geterr(handle));
    if (settings->snaplen < 262144)
        cut_in_kernel(handle);
    if (pcap_setdirection(handle, PCAP_D_IN))
        fail(handle, "incoming packets only");
    /* libpcap's own wait has no timeout with TPACKET_V3, so the peer waits itself, to notice the end of
     * traffic. */
    if (pcap_setnonblock(handle, 1, error) < 0)
        fail(handle, "non-blocking mode");
    return handle;
}

static void count(void *item)
{
    struct reader *reader = item;
    pcap_t *handle = reader->handle;
    struct run *run = &reader->run;
    struct pollfd readable = {.fd = pcap_get_selectable_fd(handle), .events = POLLIN};
    while (run_goes_on(run)) {
        struct batch batch = {.run = run};
        int status =
            pcap_dispatch(handle, (int)run_room(run, run->options->batch), on_packet, (u_char *)&batch);
        if (status < 0)
            fail(handle, "pcap_dispatch");
        if (batch.packets) {
            run_batch(run, batch.packets, batch.bytes);
        } else {
            run_nothing(run);
            poll(&readable, 1, PEER_WAIT_MS);
        }
    }
    run_stop(run);
}

/* The API's counters are 32 bits wide; the difference is correct while the result fits. ps_recv includes
 * dropped packets. */
static struct peer_account account(const struct reader *reader, uint64_t buffer_bytes, struct peer_counter dropped[2])
{
    struct pcap_stat stat;
    if (pcap_stats(reader->handle, &stat))
        fail(reader->handle, "pcap_stats");
    dropped[0] = (struct peer_counter){"ps_drop", stat.ps_drop};
    dropped[1] = (struct peer_counter){"ps_ifdrop", stat.ps_ifdrop};
    return (struct peer_account){.peer = "pcap_count",
                                 .mode = pcap_lib_version(),
                                 .buffer_bytes = buffer_bytes,
                                 .left_in_ring = stat.ps_recv - stat.ps_drop - (uint32_t)reader->run.packets,
                                 .dropped = dropped,
                                 .dropped_count = 2};
}

int main(int argc, char **argv)
{
    struct settings settings = {.buffer_mib = 2, .snaplen = 262144, .timeout_ms = 100, .queues = 1};
    struct peer_options options;
    const struct peer_flag flags[] = {
        {"buffer-mib", peer_parse_number, &settings.buffer_mib, 1, 2047, "N  ring in MiB (2, libpcap's default)"},
        {"snaplen", peer_parse_number, &settings.snaplen, 1, 262144, "N  bytes kept of each packet (262144)"},
        {"timeout-ms", peer_parse_number, &settings.timeout_ms, 1, 10000, "MS  hand over unfilled blocks after (100)"},
        {"queues", peer_parse_number, &settings.queues, 1, PEER_QUEUES_MAX, "N  a handle and a thread for each of N queues (1)"},
        PEER_FORWARD_FLAG(&options),
    };
    peer_parse(argc, argv, &options, flags, sizeof flags / sizeof *flags);

    static struct reader readers[PEER_QUEUES_MAX];
    const struct run *runs[PEER_QUEUES_MAX];
    struct peer_account accounts[PEER_QUEUES_MAX];
    struct peer_counter dropped[PEER_QUEUES_MAX][2];
    size_t queues = settings.queues;
    for (size_t i = 0; i < queues; i++) {
        run_start(&readers[i].run, &options);
        readers[i].handle = open_live(options.iface, &settings);
        /* libpcap has no handles of single queues, but its socket can join a fan-out group. */
        if (queues > 1)
            peer_join_queues(pcap_fileno(readers[i].handle));
        runs[i] = &readers[i].run;
    }
    run_ready();
    run_each(readers, sizeof *readers, queues, count);

    for (size_t i = 0; i < queues; i++)
        accounts[i] = account(&readers[i], settings.buffer_mib << 20, dropped[i]);
    run_report_queues(runs, accounts, queues);
    for (size_t i = 0; i < queues; i++)
        pcap_close(readers[i].handle);
    return 0;
}
