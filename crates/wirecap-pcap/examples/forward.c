/* Captures one device, applies a filter a number of times to each packet, changes its destination address in
 * place, and forwards it out of another device without a copy: the paper's pkt_handler with -f.
 *
 * Usage: forward FROM TO FILTERS PACKETS: ends after PACKETS packets, or 10 s without one. Build it, once the
 * library is installed (see the book, "Existing programs"), by
 *   cc -O2 -o forward forward.c $(pkg-config --cflags --libs wirecap) -lpcap */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pcap/pcap.h>
#include <wirecap.h>

static struct bpf_program program;

/* How often the packet matches. */
static long matches(const struct wirecap_view *packet, int filters) {
    struct pcap_pkthdr header = {.caplen = packet->len, .len = packet->original_len};
    long found = 0;
    for (int i = 0; i < filters; i++)
        found += pcap_offline_filter(&program, &header, packet->data) != 0;
    return found;
}

int main(int argc, char **argv) {
    static const unsigned char next_hop[6] = {2, 0, 0, 0, 0, 9};
    char error[256], devices[256];
    if (argc != 5)
        return 2;
    int filters = atoi(argv[3]);
    long wanted = atol(argv[4]), received = 0, sent = 0, found = 0;
    pcap_t *dead = pcap_open_dead(DLT_EN10MB, 65535);
    if (pcap_compile(dead, &program, "udp and net 131.225.2.0/24", 1, PCAP_NETMASK_UNKNOWN) != 0)
        return 2;
    snprintf(devices, sizeof devices, "%s %s", argv[1], argv[2]);
    wirecap_t *capture = wirecap_open(devices, "R=64&transmit=2048&workers=1", error, sizeof error);
    if (!capture) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    wirecap_worker_t *worker = wirecap_take_worker(capture, 0);
    wirecap_batch_t *batch;
    fprintf(stderr, "ready\n");
    while (received < wanted && wirecap_next_batch(worker, 10000, &batch) == 1) {
        const struct wirecap_view *packet;
        while (wirecap_batch_device(batch) == 0 && (packet = wirecap_batch_next(batch))) {
            found += matches(packet, filters);
            memcpy(packet->data, next_hop, sizeof next_hop);
            received++;
            int status;
            while ((status = wirecap_forward(worker, batch, 1)) != 0 && errno == ENOBUFS)
                wirecap_flush(worker); /* the ring is full */
            sent += status == 0;
        }
        wirecap_flush(worker);
        wirecap_batch_free(batch);
    }
    wirecap_worker_free(worker);
    struct wirecap_account account;
    wirecap_close(capture, &account);
    printf("%ld received, %ld sent, %ld matches, %llu lost, %lld unexplained\n", received, sent, found,
           (unsigned long long)account.lost, (long long)account.unexplained);
    pcap_close(dead);
    return 0;
}
