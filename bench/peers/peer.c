#include "peer.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SECOND UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

/* Written by the signal handler, read by all threads. */
static atomic_int signalled;
/* By SIGUSR1: no more packets follow, and what is in the buffers is read at once. */
static atomic_int pace_lifted;

static void on_signal(int signal_number)
{
    if (signal_number == SIGUSR1)
        pace_lifted = 1;
    else
        signalled = signal_number;
}

/* ---- flags ---- */

int peer_parse_number(const struct peer_flag *flag, char **words)
{
    if (!words[0] || words[0][0] < '0' || words[0][0] > '9')
        return 0;
    char *end;
    errno = 0;
    uint64_t value = strtoull(words[0], &end, 10);
    if (*end || errno || value < flag->min || value > flag->max)
        return 0;
    *(uint64_t *)flag->target = value;
    return 1;
}

int peer_parse_text(const struct peer_flag *flag, char **words)
{
    if (!words[0])
        return 0;
    *(const char **)flag->target = words[0];
    return 1;
}

static void print_flags(const struct peer_flag *flags, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "  --%s %s\n", flags[i].name, flags[i].help);
}

static const struct peer_flag *find_flag(const struct peer_flag *flags, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(word, "--", 2) == 0 && strcmp(word + 2, flags[i].name) == 0)
            return &flags[i];
    return NULL;
}

void peer_parse(int argc, char **argv, struct peer_options *options, const struct peer_flag *own, size_t own_count)
{
    *options = (struct peer_options){.idle_ms = 500, .cpu = PEER_CPU_ANY, .batch = 64, .touch = 1};
    const struct peer_flag common[] = {
        {"seconds", peer_parse_number, &options->seconds, 0, 1000000, "S  stop S seconds after the first packet"},
        {"count", peer_parse_number, &options->count, 0, UINT64_MAX, "N  stop after N packets"},
        {"idle-ms", peer_parse_number, &options->idle_ms, 1, 1000000, "MS  stop MS after the last packet (500)"},
        {"pace", peer_parse_number, &options->pace_pps, 1, 1000000000, "PPS  handle at most PPS packets a second"},
        {"cpu", peer_parse_number, &options->cpu, 0, CPU_SETSIZE - 1, "C  run on CPU C only"},
        {"batch", peer_parse_number, &options->batch, 1, 65536, "N  packets taken at a time (64)"},
        {"touch", peer_parse_number, &options->touch, 0, 1, "0|1  read one cache line of each packet (1)"},
    };
    const size_t common_count = sizeof common / sizeof *common;

    for (int i = 1; i < argc;) {
        const struct peer_flag *flag = find_flag(own, own_count, argv[i]);
        if (!flag)
            flag = find_flag(common, common_count, argv[i]);
        int used = flag ? flag->parse(flag, argv + i + 1) : 0;
        if (!flag && argv[i][0] != '-' && !options->iface) {
            options->iface = argv[i];
        } else if (!used) {
            fprintf(stderr, "%s: wrong: %s %s\n", program_invocation_short_name, argv[i],
                    flag && argv[i + 1] ? argv[i + 1] : "");
            options->iface = NULL;
            break;
        }
        i += 1 + used;
    }
    if (!options->iface) {
        fprintf(stderr, "usage: %s IFACE [flags]\n", program_invocation_short_name);
        print_flags(own, own_count);
        print_flags(common, common_count);
        exit(2);
    }
}

void peer_fail(const char *what, const char *hint)
{
    fprintf(stderr, "%s: %s: %s: %s\n", program_invocation_short_name, what, strerror(errno), hint);
    exit(1);
}

unsigned peer_ifindex(const struct peer_options *options)
{
    unsigned ifindex = if_nametoindex(options->iface);
    if (!ifindex)
        peer_fail(options->iface, "see `ip link` in this network namespace");
    return ifindex;
}

void peer_join_queues(int packet_socket)
{
    int group = (getpid() & 0xffff) | PACKET_FANOUT_QM << 16;
    if (setsockopt(packet_socket, SOL_PACKET, PACKET_FANOUT, &group, sizeof group))
        peer_fail("PACKET_FANOUT", "--queues needs Linux 3.14");
}

void peer_promiscuous(int packet_socket, unsigned ifindex)
{
    struct packet_mreq request = {.mr_ifindex = (int)ifindex, .mr_type = PACKET_MR_PROMISC};
    if (setsockopt(packet_socket, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof request))
        peer_fail("promiscuous mode", "needs CAP_NET_RAW");
}

/* ---- the run ---- */

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void pin(uint64_t cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        peer_fail("--cpu", "no such CPU, or not allowed here");
}

/* A socket that only sends, past the queueing discipline. */
static int open_forward(const char *iface)
{
    unsigned ifindex = peer_ifindex(&(struct peer_options){.iface = iface});
    int packet_socket = socket(AF_PACKET, SOCK_RAW, 0);
    if (packet_socket < 0)
        peer_fail("AF_PACKET socket", "needs CAP_NET_RAW");
    int on = 1;
    if (setsockopt(packet_socket, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on))
        peer_fail("PACKET_QDISC_BYPASS", "needs Linux 3.14");
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = (int)ifindex};
    if (bind(packet_socket, (struct sockaddr *)&address, sizeof address))
        peer_fail(iface, "see `ip link` in this network namespace");
    return packet_socket;
}

void run_forward(struct run *run, const void *packet, size_t length)
{
    if (send(run->forward_socket, packet, length, MSG_DONTWAIT) < 0)
        run->unsent++;
}

void run_start(struct run *run, const struct peer_options *options)
{
    *run = (struct run){.options = options, .waited = true, .forward_socket = -1};
    if (options->forward)
        run->forward_socket = open_forward(options->forward);
    if (options->cpu != PEER_CPU_ANY)
        pin(options->cpu);
    /* Without this, each sleep is up to 50 µs too long. */
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    /* No SA_RESTART: poll and the paced sleep must return. */
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

void run_ready(void)
{
    fputs("READY\n", stderr);
}

bool run_goes_on(struct run *run)
{
    const struct peer_options *options = run->options;
    if (signalled)
        run->stopped_by = "signal";
    else if (options->count && run->packets >= options->count)
        run->stopped_by = "count";
    else if (run->packets && options->seconds && run->now_ns - run->first_ns >= options->seconds * NS_PER_SECOND)
        run->stopped_by = "seconds";
    else if (run->packets && run->waited && run->now_ns - run->last_ns >= options->idle_ms * NS_PER_MS)
        run->stopped_by = "idle";
    return !run->stopped_by;
}

uint64_t run_room(const struct run *run, uint64_t want)
{
    uint64_t count = run->options->count;
    return count && count - run->packets < want ? count - run->packets : want;
}

/* Sleeps until a worker that needs 1/pace_pps per packet has handled these. The schedule restarts only after
 * the worker had nothing to do: it makes up for a sleep that ended late, not for idle time. */
static void pace(struct run *run, uint64_t packets)
{
    if (run->waited)
        run->pace_next_ns = run->now_ns;
    run->pace_next_ns += packets * NS_PER_SECOND / run->options->pace_pps;
    struct timespec until = {.tv_sec = (time_t)(run->pace_next_ns / NS_PER_SECOND),
                             .tv_nsec = (long)(run->pace_next_ns % NS_PER_SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR && !signalled && !pace_lifted)
        ;
    run->now_ns = clock_ns();
    if (run->now_ns > run->pace_next_ns + run->latest_wake_ns)
        run->latest_wake_ns = run->now_ns - run->pace_next_ns;
}

void run_batch(struct run *run, uint64_t packets, uint64_t bytes)
{
    run->now_ns = clock_ns();
    if (run->packets == 0) {
        run->first_ns = run->now_ns;
        run->cpu_first = cpu_seconds();
    }
    run->packets += packets;
    run->bytes += bytes;
    if (run->options->pace_pps && !pace_lifted)
        pace(run, packets);
    run->last_ns = run->now_ns;
    run->waited = false;
    run->cpu_sampled = false;
}

void run_nothing(struct run *run)
{
    run->now_ns = clock_ns();
    run->waited = true;
    /* Reading the CPU time is a system call, so it happens once per pause, not per batch. */
    if (run->packets && !run->cpu_sampled && run->now_ns - run->last_ns >= NS_PER_MS) {
        run->cpu_last = cpu_seconds();
        run->cpu_sampled = true;
    }
}

void run_stop(struct run *run)
{
    if (run->packets && !run->cpu_sampled)
        run->cpu_last = cpu_seconds();
    run->cpu_sampled = true;
}

struct thread {
    pthread_t id;
    void (*serve)(void *item);
    void *item;
};

static void *run_thread(void *argument)
{
    struct thread *thread = argument;
    thread->serve(thread->item);
    return NULL;
}

void run_each(void *items, size_t item_bytes, size_t count, void (*serve)(void *item))
{
    if (count == 1) {
        serve(items);
        return;
    }
    struct thread threads[PEER_QUEUES_MAX];
    for (size_t i = 0; i < count; i++) {
        threads[i] = (struct thread){.serve = serve, .item = (char *)items + i * item_bytes};
        errno = pthread_create(&threads[i].id, NULL, run_thread, &threads[i]);
        if (errno)
            peer_fail("a thread", "fewer --queues");
    }
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i].id, NULL);
}

/* The runs as one, from the first packet of any to the last. */
static struct run sum_of_runs(const struct run *const *runs, size_t count)
{
    struct run sum = {0};
    for (size_t i = 0; i < count; i++) {
        const struct run *run = runs[i];
        if (!sum.stopped_by)
            sum.stopped_by = run->stopped_by;
        if (!run->packets)
            continue;
        /* CPU times are those of the whole process. */
        if (!sum.packets || run->first_ns < sum.first_ns) {
            sum.first_ns = run->first_ns;
            sum.cpu_first = run->cpu_first;
        }
        if (!sum.packets || run->last_ns > sum.last_ns) {
            sum.last_ns = run->last_ns;
            sum.cpu_last = run->cpu_last;
        }
        if (run->latest_wake_ns > sum.latest_wake_ns)
            sum.latest_wake_ns = run->latest_wake_ns;
        sum.packets += run->packets;
        sum.bytes += run->bytes;
        sum.unsent += run->unsent;
    }
    return sum;
}

static void print_account(const struct peer_account *account)
{
    printf("\"left_in_ring\":%" PRIu64 ",\"dropped\":{", account->left_in_ring);
    for (size_t i = 0; i < account->dropped_count; i++)
        printf("%s\"%s\":%" PRIu64, i ? "," : "", account->dropped[i].name, account->dropped[i].value);
    printf("}");
}

/* All accounts together; every queue has the same counters. */
static void print_sum(const struct peer_account *accounts, size_t count)
{
    struct peer_counter counters[PEER_COUNTERS_MAX];
    struct peer_account sum = accounts[0];
    memcpy(counters, accounts[0].dropped, sum.dropped_count * sizeof *counters);
    for (size_t i = 1; i < count; i++) {
        sum.left_in_ring += accounts[i].left_in_ring;
        for (size_t j = 0; j < sum.dropped_count; j++)
            counters[j].value += accounts[i].dropped[j].value;
    }
    sum.dropped = counters;
    print_account(&sum);
}

void run_report(const struct run *run, const struct peer_account *account)
{
    run_report_queues(&run, account, 1);
}

void run_report_queues(const struct run *const *runs, const struct peer_account *accounts, size_t count)
{
    const struct run sum = sum_of_runs(runs, count);
    printf("{\"peer\":\"%s\",\"mode\":\"%s\",\"buffer_bytes\":%" PRIu64, accounts->peer, accounts->mode,
           accounts->buffer_bytes * count);
    printf(",\"packets\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"unsent\":%" PRIu64, sum.packets, sum.bytes, sum.unsent);
    printf(",\"seconds\":%.6f,\"cpu_seconds\":%.6f,\"cpu_seconds_process\":%.6f",
           (double)(sum.last_ns - sum.first_ns) / 1e9, sum.cpu_last - sum.cpu_first, cpu_seconds());
    printf(",\"latest_wake_ms\":%.3f,\"stopped_by\":\"%s\",", (double)sum.latest_wake_ns / 1e6, sum.stopped_by);
    print_sum(accounts, count);
    printf(",\"by_queue\":[");
    for (size_t i = 0; i < count; i++) {
        printf("%s{\"packets\":%" PRIu64 ",", i ? "," : "", runs[i]->packets);
        print_account(&accounts[i]);
        printf("}");
    }
    puts("]}");
    if (fflush(stdout))
        peer_fail("stdout", "the result could not be written");
}
