/* An event loop whose device is removed: it must learn that by its descriptor, behind all packets. Each
 * packet takes it so many microseconds.
 *
 * Usage: removed DEVICE MICROSECONDS */
#include <poll.h>
#include <unistd.h>

#include "capture.h"

static unsigned frames;

static void handle_slowly(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)header;
    (void)data;
    usleep(*(useconds_t *)user);
    frames++;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    useconds_t pause = strtoul(argv[2], NULL, 10);
    pcap_t *handle = open_device(argv[1]);
    struct pollfd polled = {pcap_get_selectable_fd(handle), POLLIN, 0};
    say_ready();
    for (;;) {
        if (poll(&polled, 1, 20000) != 1)
            fail("poll", "not woken in twenty seconds");
        int status = pcap_dispatch(handle, -1, handle_slowly, (u_char *)&pause);
        if (status < 0) {
            printf("%u frames, %d: %s\n", frames, status, pcap_geterr(handle));
            return 0;
        }
    }
}
