/* An event loop whose device is removed: it must learn that by its descriptor.
 *
 * Usage: removed DEVICE */
#include <poll.h>

#include "capture.h"

static void ignore(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)user;
    (void)header;
    (void)data;
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    pcap_t *handle = open_device(argv[1]);
    struct pollfd polled = {pcap_get_selectable_fd(handle), POLLIN, 0};
    say_ready();
    for (;;) {
        if (poll(&polled, 1, 20000) != 1)
            fail("poll", "not woken in twenty seconds");
        int status = pcap_dispatch(handle, -1, ignore, NULL);
        if (status < 0) {
            printf("%d: %s\n", status, pcap_geterr(handle));
            return 0;
        }
    }
}
