/* Shared by all peers: flags, one measured run, the final JSON line.
 *
 *   flags ─► run_start ─► READY ─► loop { run_batch | run_nothing } ─► run_report
 *
 * A run starts with the first packet and ends with the last one; it excludes waiting before and after. With
 * --queues, each queue has a thread and a run of its own. */
#ifndef PEER_H
#define PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEER_CPU_ANY UINT64_MAX
#define PEER_QUEUES_MAX 16
/* The longest sleep of a peer without packets; bounds how late it notices --idle-ms and signals. */
#define PEER_WAIT_MS 10

/* Options of every peer. */
struct peer_options {
    const char *iface;
    uint64_t seconds; /* 0: no limit */
    uint64_t count;   /* 0: no limit */
    uint64_t idle_ms;
    uint64_t pace_pps; /* 0: as fast as possible */
    uint64_t cpu;      /* PEER_CPU_ANY: not pinned */
    uint64_t batch;    /* packets between two looks at the clock */
    uint64_t touch;    /* whether a cache line of each packet is read */
    const char *forward; /* the interface that packets are sent on through; NULL: none */
};

/* One flag. `parse` reads the words after the flag's name and returns how many it used, 0 if wrong. */
struct peer_flag {
    const char *name;
    int (*parse)(const struct peer_flag *flag, char **words);
    void *target;
    uint64_t min, max;
    const char *help; /* e.g. "N  socket buffer in MiB" */
};

int peer_parse_number(const struct peer_flag *flag, char **words); /* target: uint64_t */
int peer_parse_text(const struct peer_flag *flag, char **words);   /* target: const char * */

/* The flag of peers that call run_handle. */
#define PEER_FORWARD_FLAG(options) \
    {"forward", peer_parse_text, &(options)->forward, 0, 0, "IFACE  send each packet on through IFACE"}

/* Reads `IFACE [--flag VALUE]...`; prints the usage and exits 2 if anything is wrong. */
void peer_parse(int argc, char **argv, struct peer_options *options, const struct peer_flag *own, size_t own_count);

/* Prints "peer: what: strerror: hint" and exits 1. */
_Noreturn void peer_fail(const char *what, const char *hint);

/* Interface index of options->iface, or exits. */
unsigned peer_ifindex(const struct peer_options *options);

/* Makes a packet socket the next member of a group whose n-th member gets the packets of queue n. On veth:
 * other drivers may record the queue in a way that PACKET_FANOUT_QM sees as the next one. Until then the
 * socket gets the packets of all queues, so nothing may be sent before. */
void peer_join_queues(int packet_socket);

/* Keeps the interface promiscuous while `packet_socket` is open. */
void peer_promiscuous(int packet_socket, unsigned ifindex);

struct run {
    const struct peer_options *options;
    uint64_t packets, bytes;
    uint64_t now_ns, first_ns, last_ns;
    uint64_t pace_next_ns; /* when the paced worker has handled all its packets */
    uint64_t latest_wake_ns; /* by how much its sleep lasted too long at worst */
    bool waited;           /* the last look found no packet */
    double cpu_first, cpu_last;
    bool cpu_sampled; /* INVARIANT: cpu_last belongs to the current last_ns */
    const char *stopped_by;
    int forward_socket; /* -1: packets are not sent on */
    uint64_t unsent;    /* that the kernel did not take */
};

/* Pins, sets the signal handlers, opens the interface of --forward. Call before memory is allocated, so that
 * it is local to the CPU. */
void run_start(struct run *run, const struct peer_options *options);

/* Prints READY: from now on the peer sees every packet. */
void run_ready(void);

/* False once a limit is reached or a signal has arrived. */
bool run_goes_on(struct run *run);

/* The most packets the next batch may have: `want`, or fewer if --count ends it before. */
uint64_t run_room(const struct run *run, uint64_t want);

/* Call after reading a batch. Sleeps if the run is paced; the caller gives the buffers back afterwards, as a
 * handler would. */
void run_batch(struct run *run, uint64_t packets, uint64_t bytes);

/* Call if there was no packet. */
void run_nothing(struct run *run);

/* Sends a packet on, which copies it: a packet socket sends nothing from the buffers of another. */
void run_forward(struct run *run, const void *packet, size_t length);

/* Reads one cache line of a packet, unless --touch 0, and sends it on with --forward. */
static inline void run_handle(struct run *run, const void *packet, size_t length)
{
    if (run->options->touch)
        (void)*(const volatile uint8_t *)packet;
    if (run->forward_socket >= 0)
        run_forward(run, packet, length);
}

#define PEER_COUNTERS_MAX 8

struct peer_counter {
    const char *name;
    uint64_t value;
};

struct peer_account {
    const char *peer, *mode;
    uint64_t buffer_bytes;
    uint64_t left_in_ring; /* received by the kernel, unread when the run stopped */
    const struct peer_counter *dropped;
    size_t dropped_count;
};

/* Takes the CPU time of the run; call at the end of the loop, before anything is torn down. */
void run_stop(struct run *run);

/* Calls `serve` with each of `count` items, each in a thread; directly if there is only one. */
void run_each(void *items, size_t item_bytes, size_t count, void (*serve)(void *item));

/* Prints the line of JSON on stdout. */
void run_report(const struct run *run, const struct peer_account *account);

/* Prints the line of JSON on stdout: `count` runs and their accounts, in total and by queue. */
void run_report_queues(const struct run *const *runs, const struct peer_account *accounts, size_t count);

#endif
