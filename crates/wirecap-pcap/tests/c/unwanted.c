/* An event loop with a handle that blocks, as p0f's: packets that its filter refuses must not keep it from
 * its other work. Prints how often that is done while they come.
 *
 * Usage: unwanted DEVICE FILTER */
#include <poll.h>
#include <time.h>

#include "capture.h"

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)header;
    (void)data;
    ++*(long *)user;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    pcap_t *handle = open_device(argv[1]);
    set_filter(handle, argv[2]);
    struct pollfd polled = {pcap_fileno(handle), POLLIN, 0};
    long wanted = 0, other_work = 0;
    say_ready();
    for (time_t end = time(NULL) + 3; time(NULL) < end; other_work++)
        if (poll(&polled, 1, 100) == 1 && pcap_dispatch(handle, -1, count, (u_char *)&wanted) < 0)
            fail("pcap_dispatch", pcap_geterr(handle));
    printf("%ld wanted, other work %s\n", wanted, other_work > 10 ? "was done" : "was kept waiting");
    pcap_close(handle);
    return 0;
}
