/* pcap_threads: the paper's multi_pkt_handler as a plain libpcap application: a handle and a thread for each
 * device, and a slow callback, which applies a filter many times to each packet.
 *
 *   IFACE@0?OPTIONS ─► handle ─► pcap_loop in a thread ─► callback: the filter, --filters times
 *   IFACE@1?OPTIONS ─► …
 *
 * With one thread it opens IFACE itself. libpcap has no devices of single queues; wirecap does. */
#include "peer.h"

#include <inttypes.h>
#include <pcap/pcap.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 16
#define NS_PER_SECOND UINT64_C(1000000000)
#define CALIBRATION_PACKETS 20000

static uint64_t filters = 300;
static struct bpf_program program;

/* On a cache line of its own, so that threads do not disturb each other. */
struct reader {
    _Alignas(64) pcap_t *handle;
    pthread_t thread;
    _Atomic uint64_t packets;
    uint64_t matches;
};

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static void on_packet(u_char *user, const struct pcap_pkthdr *header, const u_char *packet)
{
    struct reader *reader = (struct reader *)user;
    for (uint64_t i = 0; i < filters; i++)
        reader->matches += pcap_offline_filter(&program, header, packet) != 0;
    atomic_store_explicit(&reader->packets, reader->packets + 1, memory_order_relaxed);
}

static void *read_packets(void *argument)
{
    struct reader *reader = argument;
    if (pcap_loop(reader->handle, -1, on_packet, (u_char *)reader) == PCAP_ERROR)
        fprintf(stderr, "pcap_threads: pcap_loop: %s\n", pcap_geterr(reader->handle));
    return NULL;
}

/* The paper's filter, in the words of today's libpcap. */
static void compile_filter(void)
{
    pcap_t *dead = pcap_open_dead(DLT_EN10MB, 65535);
    if (!dead || pcap_compile(dead, &program, "net 131.225.2 and udp", 1, PCAP_NETMASK_UNKNOWN)) {
        fprintf(stderr, "pcap_threads: the filter: %s\n", dead ? pcap_geterr(dead) : "no memory");
        exit(1);
    }
    pcap_close(dead);
}

/* Prints how long a thread takes for a UDP packet that the filter refuses. */
static void calibrate(void)
{
    u_char packet[60] = {[12] = 0x08, [14] = 0x45, [23] = 17, [26] = 10, [30] = 10};
    const struct pcap_pkthdr header = {.caplen = sizeof packet, .len = sizeof packet};
    struct reader reader = {0};
    uint64_t start = clock_ns();
    for (int i = 0; i < CALIBRATION_PACKETS; i++)
        on_packet((u_char *)&reader, &header, packet);
    printf("{\"ns_per_packet\":%.1f}\n", (double)(clock_ns() - start) / CALIBRATION_PACKETS);
}

static pcap_t *open_live(const char *device, uint64_t buffer_mib)
{
    char error[PCAP_ERRBUF_SIZE] = "";
    pcap_t *handle = pcap_create(device, error);
    if (!handle) {
        fprintf(stderr, "pcap_threads: %s: %s\n", device, error);
        exit(1);
    }
    pcap_set_snaplen(handle, 262144);
    pcap_set_promisc(handle, 1);
    pcap_set_timeout(handle, 100);
    pcap_set_buffer_size(handle, (int)(buffer_mib << 20));
    int status = pcap_activate(handle);
    if (status < 0 || pcap_setdirection(handle, PCAP_D_IN)) {
        fprintf(stderr, "pcap_threads: %s: %s: %s\n", device, pcap_statustostr(status), pcap_geterr(handle));
        exit(1);
    }
    return handle;
}

static uint64_t total(const struct reader *readers, size_t count)
{
    uint64_t packets = 0;
    for (size_t i = 0; i < count; i++)
        packets += atomic_load_explicit(&readers[i].packets, memory_order_relaxed);
    return packets;
}

/* Waits until no thread has got a packet for --idle-ms, after the first. */
static void wait_for_the_end(const struct reader *readers, size_t count, uint64_t idle_ms)
{
    uint64_t before = 0, since = clock_ns();
    for (;;) {
        usleep(PEER_WAIT_MS * 1000);
        uint64_t now = total(readers, count);
        if (now != before || now == 0)
            since = clock_ns();
        else if (clock_ns() - since > idle_ms * 1000000)
            return;
        before = now;
    }
}

int main(int argc, char **argv)
{
    uint64_t threads = 1, buffer_mib = 64, only_calibrates = 0;
    const char *options_text = "";
    const struct peer_flag flags[] = {
        {"threads", peer_parse_number, &threads, 1, MAX_THREADS, "N  threads, each for a queue (1: all queues)"},
        {"filters", peer_parse_number, &filters, 0, 1000000, "N  times the filter is applied to each packet (300)"},
        {"buffer-mib", peer_parse_number, &buffer_mib, 1, 2047, "N  buffer of each handle in MiB (64)"},
        {"options", peer_parse_text, &options_text, 0, 0, "TEXT  options of the devices: IFACE@0?TEXT"},
        {"calibrate", peer_parse_number, &only_calibrates, 0, 1, "0|1  only measure the callback"},
    };
    struct peer_options options;
    peer_parse(argc, argv, &options, flags, sizeof flags / sizeof *flags);
    compile_filter();
    if (only_calibrates) {
        calibrate();
        return 0;
    }

    static struct reader readers[MAX_THREADS];
    for (size_t i = 0; i < threads; i++) {
        char device[256];
        int length = threads > 1 ? snprintf(device, sizeof device, "%s@%zu%s%s", options.iface, i,
                                            *options_text ? "?" : "", options_text)
                                 : snprintf(device, sizeof device, "%s", options.iface);
        if (length < 0 || (size_t)length >= sizeof device) {
            fprintf(stderr, "pcap_threads: --options is too long\n");
            return 2;
        }
        readers[i].handle = open_live(device, buffer_mib);
    }
    for (size_t i = 0; i < threads; i++) {
        if (pthread_create(&readers[i].thread, NULL, read_packets, &readers[i])) {
            fprintf(stderr, "pcap_threads: cannot start a thread\n");
            return 1;
        }
    }
    fputs("READY\n", stderr);
    wait_for_the_end(readers, threads, options.idle_ms);

    uint64_t dropped = 0;
    printf("{\"peer\":\"pcap_threads\",\"by_thread\":[");
    for (size_t i = 0; i < threads; i++) {
        struct pcap_stat stat = {0};
        pcap_breakloop(readers[i].handle);
        pthread_join(readers[i].thread, NULL);
        if (pcap_stats(readers[i].handle, &stat))
            fprintf(stderr, "pcap_threads: pcap_stats: %s\n", pcap_geterr(readers[i].handle));
        dropped += stat.ps_drop;
        printf("%s%" PRIu64, i ? "," : "", readers[i].packets);
    }
    printf("],\"packets\":%" PRIu64 ",\"dropped\":%" PRIu64 "}\n", total(readers, threads), dropped);
    for (size_t i = 0; i < threads; i++)
        pcap_close(readers[i].handle);
    pcap_freecode(&program);
    return 0;
}
