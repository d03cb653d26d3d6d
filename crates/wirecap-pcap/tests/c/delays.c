/* Whether packets are delivered soon after they came: the shortest delay counts, which no load makes longer.
 *
 * Usage: delays DEVICE FRAMES */
#include <time.h>

#include "capture.h"

#define SOON_US 1000

static long shortest_us = 1000000;

static void look(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)user;
    (void)data;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    long us = (now.tv_sec - header->ts.tv_sec) * 1000000 + now.tv_nsec / 1000 - header->ts.tv_usec;
    if (us < shortest_us)
        shortest_us = us;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    pcap_t *handle = open_device(argv[1]);
    say_ready();
    if (pcap_loop(handle, atoi(argv[2]), look, NULL) < 0)
        fail("pcap_loop", pcap_geterr(handle));
    fprintf(stderr, "after %ld us\n", shortest_us);
    puts(shortest_us < SOON_US ? "soon" : "late");
    pcap_close(handle);
    return 0;
}
