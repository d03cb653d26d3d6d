/* Changes the filter while packets come. One filter lets numbers 0 and 1 of each four through, the other 0
 * and 2.
 *
 * Usage: filters DEVICE FRAMES. The last frame, number FRAMES - 1, is one that both let through. */
#include <signal.h>

#include "capture.h"

static const char *const expressions[2] = {"ether[51] & 3 < 2", "ether[51] & 1 = 0"};
static int filter;
static uint64_t all, next_zero;
static long refused, missing;
static int is_over;

static int lets_through(uint64_t number) {
    return filter == 0 ? number % 4 < 2 : number % 2 == 0;
}

static void check(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    uint64_t number = number_of(data);
    (void)user;
    (void)header;
    refused += !lets_through(number);
    if (number % 4 == 0) {
        missing += (long)(number - next_zero) / 4;
        next_zero = number + 4;
    }
    is_over = number >= all - 1;
}

int main(int argc, char **argv) {
    long changes = 0;
    if (argc != 3)
        return 2;
    all = strtoull(argv[2], NULL, 10);
    pcap_t *handle = open_device(argv[1]);
    set_filter(handle, expressions[filter]);
    say_ready();
    while (!is_over) {
        if (pcap_dispatch(handle, 50, check, NULL) < 0)
            fail("pcap_dispatch", pcap_geterr(handle));
        set_filter(handle, expressions[!filter]);
        filter = !filter;
        changes++;
    }
    printf("%ld refused\n", refused);
    printf("%ld missing\n", missing);
    printf("changed %s\n", changes > 10 ? "often" : "seldom");
    pcap_close(handle);
    return 0;
}
