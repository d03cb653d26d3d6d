/* An event loop: waits by select, poll or epoll, dispatches without blocking, and counts how often it was
 * woken for nothing.
 *
 * Usage: waiting DEVICE select|poll|epoll FRAMES BURST. A line follows each burst. */
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>

#include "capture.h"

/* Spurious wake-ups that the beginning of a silence may have: looks for stragglers. */
#define MAX_WAKEUPS 5
#define SILENCE_MS 200

static long frames, disorder;

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)user;
    (void)header;
    if (number_of(data) != (uint64_t)frames)
        disorder++;
    frames++;
}

/* Waits until the descriptor is readable, or the time is over. Returns whether it is. */
static int wait_for(const char *way, int fd, int epoll, int timeout_ms) {
    if (strcmp(way, "select") == 0) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        struct timeval timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
        return select(fd + 1, &set, NULL, NULL, &timeout) > 0;
    }
    if (strcmp(way, "poll") == 0) {
        struct pollfd polled = {fd, POLLIN, 0};
        return poll(&polled, 1, timeout_ms) > 0;
    }
    struct epoll_event event;
    return epoll_wait(epoll, &event, 1, timeout_ms) > 0;
}

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(int argc, char **argv) {
    char error[PCAP_ERRBUF_SIZE] = "";
    if (argc != 5)
        return 2;
    const char *way = argv[2];
    long all = atol(argv[3]), burst = atol(argv[4]);
    pcap_t *handle = open_device(argv[1]);
    if (pcap_setnonblock(handle, 1, error) < 0)
        fail("pcap_setnonblock", error);
    int fd = pcap_get_selectable_fd(handle), epoll = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {0}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    say_ready();
    while (frames < all) {
        long wanted = frames + burst, wakeups = 0;
        while (frames < wanted) {
            if (!wait_for(way, fd, epoll, 20000))
                fail(way, "no packets in twenty seconds");
            if (pcap_dispatch(handle, -1, count, NULL) < 0)
                fail("pcap_dispatch", pcap_geterr(handle));
        }
        for (long end = now_ms() + SILENCE_MS; now_ms() < end;) {
            wakeups += wait_for(way, fd, epoll, 50);
            if (pcap_dispatch(handle, -1, count, NULL) != 0)
                fail("pcap_dispatch", "it delivered packets that were not sent");
        }
        printf("%ld frames, %ld in disorder, then %s\n", frames, disorder,
               wakeups <= MAX_WAKEUPS ? "silence" : "wakeups for nothing");
        fflush(stdout);
        if (wakeups > MAX_WAKEUPS)
            fprintf(stderr, "woken %ld times\n", wakeups);
    }
    pcap_close(handle);
    return 0;
}
