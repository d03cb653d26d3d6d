/* Sends 10 frames by one handle and 5 by another one of the same device, and counts what each captures.
 *
 * Usage: own_packets DEVICE */
#include <string.h>
#include <unistd.h>

#include "capture.h"

static void inject(pcap_t *handle, int frames) {
    u_char frame[60] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 9, 0x88, 0xb5};
    for (int n = 0; n < frames; n++)
        if (pcap_inject(handle, frame, sizeof frame) != sizeof frame)
            fail("pcap_inject", pcap_geterr(handle));
}

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)header, (void)data;
    ++*(int *)user;
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    pcap_t *handles[2];
    int got[2] = {0, 0};
    char error[PCAP_ERRBUF_SIZE];
    for (int i = 0; i < 2; i++) {
        handles[i] = open_device(argv[1]);
        set_filter(handles[i], "ether proto 0x88b5");
        pcap_setnonblock(handles[i], 1, error);
    }
    inject(handles[0], 10);
    inject(handles[1], 5);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 2; i++)
            if (pcap_dispatch(handles[i], -1, count, (u_char *)&got[i]) < 0)
                fail("pcap_dispatch", pcap_geterr(handles[i]));
        usleep(5000);
    }
    printf("the first got %d, the second %d\n", got[0], got[1]);
    pcap_close(handles[0]);
    pcap_close(handles[1]);
    return 0;
}
