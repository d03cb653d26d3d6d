/* Members of a group that wait in different ways, in one program. The last one never reads: the others have
 * to get what comes to it.
 *
 * Usage: helping FRAMES POLLED BLOCKED UNREAD
 *
 * Ends once the other two have FRAMES; prints on standard error how many they have. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "capture.h"

#define MEMBERS 3

static pcap_t *handles[MEMBERS];
static atomic_long got[MEMBERS];
static long all;

static long total(void) {
    long sum = 0;
    for (int i = 0; i < MEMBERS; i++)
        sum += atomic_load(&got[i]);
    return sum;
}

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)header;
    (void)data;
    atomic_fetch_add((atomic_long *)user, 1);
}

static void *wait_by_poll(void *unused) {
    (void)unused;
    struct pollfd polled = {pcap_get_selectable_fd(handles[0]), POLLIN, 0};
    while (total() < all) {
        poll(&polled, 1, 20000);
        if (pcap_dispatch(handles[0], -1, count, (u_char *)&got[0]) < 0)
            fail("pcap_dispatch", pcap_geterr(handles[0]));
    }
    return NULL;
}

static void *wait_by_blocking(void *unused) {
    (void)unused;
    while (total() < all)
        if (pcap_dispatch(handles[1], -1, count, (u_char *)&got[1]) == PCAP_ERROR)
            fail("pcap_dispatch", pcap_geterr(handles[1]));
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[2];
    if (argc != 5)
        return 2;
    all = atol(argv[1]);
    handles[0] = open_device(argv[2]);
    pthread_create(&threads[0], NULL, wait_by_poll, NULL);
    /* It waits in poll by now, and must meet those that come later all the same. */
    usleep(100000);
    handles[1] = open_device(argv[3]);
    pthread_create(&threads[1], NULL, wait_by_blocking, NULL);
    usleep(100000);
    handles[2] = open_device(argv[4]);
    usleep(100000);
    say_ready();
    for (long before = 0; total() < all; usleep(1000))
        if (total() != before)
            fprintf(stderr, "got %ld\n", before = total());
    /* A device that is closed is left. */
    pcap_close(handles[2]);
    pcap_breakloop(handles[0]);
    pcap_breakloop(handles[1]);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    printf("%ld frames\n", total());
    pcap_close(handles[0]);
    pcap_close(handles[1]);
    return 0;
}
