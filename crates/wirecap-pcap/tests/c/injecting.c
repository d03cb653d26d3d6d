/* Sends frames by both functions, in turn.
 *
 * Usage: injecting DEVICE FRAMES. Frame n has 60 + n bytes of value n. */
#include <errno.h>
#include <string.h>

#include "capture.h"

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    int frames = atoi(argv[2]);
    pcap_t *handle = open_device(argv[1]);
    for (int n = 0; n < frames; n++) {
        u_char frame[2000] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 9, 0x88, 0xb5};
        int len = 60 + n;
        memset(frame + 14, n, sizeof frame - 14);
        int status = n % 2 ? pcap_sendpacket(handle, frame, len) : pcap_inject(handle, frame, (size_t)len);
        if (status != (n % 2 ? 0 : len))
            fail("sending", pcap_geterr(handle));
    }
    /* Shorter than a header, and longer than the MTU. */
    static u_char wrong[9000];
    static const size_t lengths[] = {1, 13, 1515, 1519, sizeof wrong};
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        errno = 0;
        int status = pcap_inject(handle, wrong, lengths[n]);
        printf("%zu: %d, %s, %s\n", lengths[n], status, strerror(errno), pcap_geterr(handle));
    }
    errno = 0;
    int status = pcap_sendpacket(handle, wrong, sizeof wrong);
    printf("%d, %s\n", status, strerror(errno));
    pcap_close(handle);
    return 0;
}
