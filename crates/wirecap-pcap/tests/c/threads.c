/* Captures with a handle and a thread for each device, and a slow callback, as the paper's pkt_handler: it
 * applies a filter a number of times to each packet. Prints how many packets each thread got.
 *
 * Usage: threads FILTERS PACKETS LEFT DEVICE...
 *
 * If LEFT is not 0, the first thread stalls with its first packet, until all threads together have all
 * packets but LEFT, or 3 s have passed without one. While packets come, it prints their number on standard
 * error. It ends once all threads together have PACKETS, or after 3 s without one. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pcap/pcap.h>

static int filters;
static long wanted, left;
static atomic_long total, last_second;
static struct bpf_program program;

struct reader {
    pcap_t *handle;
    const char *device;
    long packets, matches;
    int stalls;
};

static int is_idle(void) {
    return time(NULL) - atomic_load(&last_second) > 3;
}

static void handle_packet(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    struct reader *reader = (struct reader *)user;
    atomic_store(&last_second, time(NULL));
    while (reader->stalls && atomic_load(&total) < wanted - left && !is_idle())
        usleep(1000);
    reader->stalls = 0;
    for (int i = 0; i < filters; i++)
        reader->matches += pcap_offline_filter(&program, header, data) != 0;
    reader->packets++;
    atomic_fetch_add(&total, 1);
    atomic_store(&last_second, time(NULL));
}

static void *read_packets(void *argument) {
    struct reader *reader = argument;
    while (atomic_load(&total) < wanted && !is_idle()) {
        if (pcap_dispatch(reader->handle, -1, handle_packet, (u_char *)reader) == -1) {
            printf("%s: %s\n", reader->device, pcap_geterr(reader->handle));
            break;
        }
        usleep(100);
    }
    return NULL;
}

int main(int argc, char **argv) {
    char error[PCAP_ERRBUF_SIZE];
    struct reader readers[16];
    pthread_t threads[16];
    int count = argc - 4;
    if (count < 1 || count > 16)
        return 2;
    filters = atoi(argv[1]);
    wanted = atol(argv[2]);
    left = atol(argv[3]);
    pcap_t *dead = pcap_open_dead(DLT_EN10MB, 65535);
    if (pcap_compile(dead, &program, "udp and net 131.225.2.0/24", 1, PCAP_NETMASK_UNKNOWN) != 0)
        return 2;
    memset(readers, 0, sizeof readers);
    for (int i = 0; i < count; i++) {
        readers[i].device = argv[4 + i];
        readers[i].stalls = i == 0 && left > 0;
        readers[i].handle = pcap_open_live(readers[i].device, 65535, 1, 100, error);
        if (!readers[i].handle) {
            printf("%s\n", error);
            return 1;
        }
        pcap_setnonblock(readers[i].handle, 1, error);
    }
    atomic_store(&last_second, time(NULL) + 60);
    fprintf(stderr, "ready\n");
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, read_packets, &readers[i]);
    for (long before = 0; atomic_load(&total) < wanted && !is_idle(); usleep(2000)) {
        long now = atomic_load(&total);
        if (now != before)
            fprintf(stderr, "got %ld\n", now);
        before = now;
    }
    long dropped = 0;
    for (int i = 0; i < count; i++) {
        struct pcap_stat stat = {0};
        pthread_join(threads[i], NULL);
        pcap_stats(readers[i].handle, &stat);
        dropped += stat.ps_drop;
        fprintf(stderr, "%s: %ld packets, %u dropped\n", readers[i].device, readers[i].packets, stat.ps_drop);
    }
    printf("%ld packets, %ld dropped, %s\n", atomic_load(&total), dropped,
           readers[0].packets < atomic_load(&total) ? "several threads" : "one thread");
    for (int i = 0; i < count; i++)
        pcap_close(readers[i].handle);
    pcap_freecode(&program);
    pcap_close(dead);
    return 0;
}
