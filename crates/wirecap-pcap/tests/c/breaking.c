/* Loops that are broken while packets come, by a thread or by a signal, and go on.
 *
 * Usage: breaking DEVICE thread|signal FRAMES */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "capture.h"

#define WORK 5000

static pcap_t *handle;
static long frames, disorder, all;
static atomic_int is_done;

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)user;
    (void)header;
    if (number_of(data) != (uint64_t)frames)
        disorder++;
    /* Slow enough that the loop is broken between packets. */
    for (volatile int work = 0; work < WORK; work++)
        ;
    if (++frames == all)
        pcap_breakloop(handle);
}

static void on_alarm(int number) {
    (void)number;
    pcap_breakloop(handle);
}

static void *break_often(void *unused) {
    (void)unused;
    while (!is_done) {
        pcap_breakloop(handle);
        usleep(500);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    long breaks = 0;
    if (argc != 4)
        return 2;
    all = atol(argv[3]);
    handle = open_device(argv[1]);
    int by_thread = strcmp(argv[2], "thread") == 0;
    if (by_thread) {
        pthread_create(&thread, NULL, break_often, NULL);
    } else {
        struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
        sigaction(SIGALRM, &action, NULL);
        struct itimerval often = {{0, 500}, {0, 500}};
        setitimer(ITIMER_REAL, &often, NULL);
    }
    say_ready();
    while (frames < all) {
        int status = pcap_loop(handle, -1, count, NULL);
        if (status != PCAP_ERROR_BREAK)
            fail("pcap_loop", pcap_geterr(handle));
        breaks++;
    }
    is_done = 1;
    if (by_thread) {
        pthread_join(thread, NULL);
    } else {
        struct itimerval never = {{0, 0}, {0, 0}};
        setitimer(ITIMER_REAL, &never, NULL);
    }
    printf("%ld frames, %ld in disorder, broken %s\n", frames, disorder, breaks > 5 ? "often" : "seldom");
    pcap_close(handle);
    return 0;
}
