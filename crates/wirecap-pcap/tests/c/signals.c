/* Statistics in a signal handler while packets come, as tcpdump's SIGUSR1; and a program that a handler ends,
 * as ngrep's SIGINT: it closes the device and exits in the handler.
 *
 * Usage: signals DEVICE FRAMES. SIGINT ends it. */
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "capture.h"

static pcap_t *handle;
static long frames, disorder, all;
static volatile sig_atomic_t asked, fell, failed;

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)user;
    (void)header;
    if (number_of(data) != (uint64_t)frames)
        disorder++;
    if (++frames == all) {
        struct pcap_stat stat;
        int status = pcap_stats(handle, &stat);
        printf("pcap_stats = %d in the callback, %u received, %u dropped\n", status, stat.ps_recv, stat.ps_drop);
        printf("%ld frames, %ld in disorder\n", frames, disorder);
        printf("asked %s, %d failed, %d fell\n", asked > 20 ? "often" : "seldom", (int)failed, (int)fell);
        fflush(stdout);
    }
}

static void on_alarm(int number) {
    static u_int received;
    struct pcap_stat stat;
    (void)number;
    failed += pcap_stats(handle, &stat) != 0;
    fell += stat.ps_recv < received;
    received = stat.ps_recv;
    asked++;
}

static void on_interrupt(int number) {
    struct pcap_stat stat;
    (void)number;
    pcap_stats(handle, &stat);
    pcap_close(handle);
    exit(stat.ps_recv >= all ? 0 : 3);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    all = atol(argv[2]);
    handle = open_device(argv[1]);
    struct sigaction alarm = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct sigaction interrupt = {.sa_handler = on_interrupt};
    sigaction(SIGALRM, &alarm, NULL);
    sigaction(SIGINT, &interrupt, NULL);
    struct itimerval often = {{0, 300}, {0, 300}};
    setitimer(ITIMER_REAL, &often, NULL);
    say_ready();
    fail("pcap_loop", pcap_loop(handle, -1, count, NULL) ? pcap_geterr(handle) : "it ended");
}
