/* What a callback does with its own handle.
 *
 * Usage: callbacks DEVICE FRAMES. The first callbacks read from the handle; the last one closes it. */
#include <string.h>

#include "capture.h"

static pcap_t *handle;
static long frames, disorder, all, refused;

static void nothing(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)user;
    (void)header;
    (void)data;
}

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    struct pcap_pkthdr *next;
    (void)user;
    (void)header;
    if (frames < 3) {
        const u_char *bytes;
        refused += pcap_dispatch(handle, -1, nothing, NULL) == PCAP_ERROR;
        refused += pcap_next_ex(handle, &next, &bytes) == PCAP_ERROR;
    }
    if (number_of(data) != (uint64_t)frames)
        disorder++;
    if (frames == 2)
        printf("%s\n", pcap_geterr(handle));
    if (++frames == all)
        pcap_close(handle);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    all = atol(argv[2]);
    handle = open_device(argv[1]);
    say_ready();
    int status = pcap_loop(handle, -1, count, NULL);
    printf("pcap_loop = %d, %ld frames, %ld in disorder, %ld refused\n", status, frames, disorder, refused);
    /* The device is free again. */
    pcap_close(open_device(argv[1]));
    return 0;
}
