/* Captures with a handle and a thread for each device, and a slow callback, as the paper's pkt_handler: it
 * applies a filter a number of times to each packet. Prints how many packets each thread got.
 *
 * Usage: threads FILTERS PACKETS DEVICE... : ends once all threads together have PACKETS, or after 10 s
 * without one. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pcap/pcap.h>

static int filters;
static long wanted;
static atomic_long total;
static struct bpf_program program;

struct reader {
    pcap_t *handle;
    const char *device;
    long packets;
    long matches;
};

static void handle_packet(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    struct reader *reader = (struct reader *)user;
    for (int i = 0; i < filters; i++)
        reader->matches += pcap_offline_filter(&program, header, data) != 0;
    reader->packets++;
    if (atomic_fetch_add(&total, 1) + 1 >= wanted)
        pcap_breakloop(reader->handle);
}

static void *read_packets(void *argument) {
    struct reader *reader = argument;
    time_t last = time(NULL);
    long before = 0;
    while (atomic_load(&total) < wanted) {
        if (pcap_dispatch(reader->handle, -1, handle_packet, (u_char *)reader) == -1) {
            printf("%s: %s\n", reader->device, pcap_geterr(reader->handle));
            break;
        }
        if (atomic_load(&total) != before) {
            before = atomic_load(&total);
            last = time(NULL);
        } else if (time(NULL) - last > 10) {
            break;
        }
        usleep(100);
    }
    return NULL;
}

int main(int argc, char **argv) {
    char error[PCAP_ERRBUF_SIZE];
    int count = argc - 3;
    if (count < 1 || count > 64)
        return 2;
    filters = atoi(argv[1]);
    wanted = atol(argv[2]);
    pcap_t *dead = pcap_open_dead(DLT_EN10MB, 65535);
    if (pcap_compile(dead, &program, "udp and net 131.225.2.0/24", 1, PCAP_NETMASK_UNKNOWN) != 0)
        return 2;
    struct reader readers[64];
    pthread_t threads[64];
    memset(readers, 0, sizeof readers);
    for (int i = 0; i < count; i++) {
        readers[i].device = argv[3 + i];
        readers[i].handle = pcap_open_live(argv[3 + i], 65535, 1, 100, error);
        if (!readers[i].handle) {
            printf("%s\n", error);
            return 1;
        }
        pcap_setnonblock(readers[i].handle, 1, error);
    }
    fprintf(stderr, "ready\n");
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, read_packets, &readers[i]);
    long dropped = 0;
    for (int i = 0; i < count; i++) {
        struct pcap_stat stat = {0};
        pthread_join(threads[i], NULL);
        pcap_stats(readers[i].handle, &stat);
        dropped += stat.ps_drop;
        printf("%s: %ld packets, %u dropped\n", readers[i].device, readers[i].packets, stat.ps_drop);
    }
    for (int i = 0; i < count; i++)
        pcap_close(readers[i].handle);
    printf("%ld packets, %ld dropped\n", atomic_load(&total), dropped);
    return 0;
}
