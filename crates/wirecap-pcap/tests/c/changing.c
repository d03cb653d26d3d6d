/* A thread reads, while another one changes the filter, asks for the descriptor and the statistics, and ends
 * the loop. One filter lets even numbers through, the other odd ones.
 *
 * Usage: changing DEVICE CHANGES */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "capture.h"

static const char *const expressions[2] = {"ether[51] & 1 = 0", "ether[51] & 1 = 1"};
static pcap_t *handle;
/* The filter that was set last, and how many packets have come that it refuses. */
static atomic_int filter, refused;
static atomic_long packets;

static void check(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)user, (void)header;
    atomic_fetch_add(&packets, 1);
    if ((int)(number_of(data) & 1) != atomic_load(&filter))
        atomic_fetch_add(&refused, 1);
}

static void *read_all(void *unused) {
    (void)unused;
    int status = pcap_loop(handle, -1, check, NULL);
    if (status != PCAP_ERROR_BREAK)
        fail("pcap_loop", pcap_geterr(handle));
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    int changes = atoi(argv[2]), late = 0, descriptors = 0;
    struct bpf_program programs[2];
    handle = open_device(argv[1]);
    for (int i = 0; i < 2; i++)
        if (pcap_compile(handle, &programs[i], expressions[i], 1, PCAP_NETMASK_UNKNOWN) < 0)
            fail("pcap_compile", pcap_geterr(handle));
    if (pcap_setfilter(handle, &programs[0]) < 0)
        fail("pcap_setfilter", pcap_geterr(handle));
    pthread_t reader;
    pthread_create(&reader, NULL, read_all, NULL);
    say_ready();
    for (int n = 1; n <= changes; n++) {
        if (pcap_setfilter(handle, &programs[n % 2]) < 0)
            fail("pcap_setfilter", pcap_geterr(handle));
        /* One packet may be on its way into the callback. */
        atomic_store(&filter, n % 2);
        atomic_store(&refused, 0);
        usleep(2000);
        late += atomic_load(&refused) > 1;
        struct pcap_stat stat;
        if (pcap_setdirection(handle, PCAP_D_INOUT) < 0 || pcap_stats(handle, &stat) < 0)
            fail("pcap_stats", pcap_geterr(handle));
        descriptors += pcap_get_selectable_fd(handle) >= 0;
    }
    pcap_breakloop(handle);
    pthread_join(reader, NULL);
    printf("%d changes late, %d descriptors, %s\n", late, descriptors,
           atomic_load(&packets) > changes ? "packets came" : "few packets");
    pcap_close(handle);
    return 0;
}
