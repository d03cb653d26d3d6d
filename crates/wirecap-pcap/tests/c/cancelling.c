/* Threads that read, and are cancelled: one that waits, one that gets packets, and one whose filter refuses
 * them.
 *
 * Usage: cancelling DEVICE. The test sends packets without end once it reads "ready". */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "capture.h"

static atomic_long frames, cleaned;

static void clean(void *unused) {
    (void)unused;
    atomic_fetch_add(&cleaned, 1);
}

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)user;
    (void)header;
    (void)data;
    atomic_fetch_add(&frames, 1);
    /* A cancellation point. */
    pthread_testcancel();
}

static void *read_for_ever(void *handle) {
    pthread_cleanup_push(clean, NULL);
    pcap_loop(handle, -1, count, NULL);
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancel(pthread_t thread, const char *what) {
    void *result = NULL;
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("%s: %s, cleaned up %ld times\n", what, result == PTHREAD_CANCELED ? "cancelled" : "ended",
           atomic_load(&cleaned));
    fflush(stdout);
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc != 2)
        return 2;
    pcap_t *handle = open_device(argv[1]);
    pthread_create(&thread, NULL, read_for_ever, handle);
    usleep(50000);
    cancel(thread, "while it waits");
    pthread_create(&thread, NULL, read_for_ever, handle);
    say_ready();
    while (atomic_load(&frames) < 1000)
        usleep(1000);
    cancel(thread, "while packets come");
    set_filter(handle, "tcp");
    pthread_create(&thread, NULL, read_for_ever, handle);
    usleep(500000);
    cancel(thread, "while the filter refuses them");
    pcap_close(handle);
    return 0;
}
