/* wirecap.h: the engine of wirecap from C.
 *
 *   wirecap_open ──► capture ── wirecap_take_worker ──► worker, one for each thread
 *                       │                                  └── wirecap_next_batch ──► batch ── wirecap_batch_next ──► packet
 *                       └── wirecap_close: the account                                   └── wirecap_forward, wirecap_keep
 *
 * A batch has packets of one receive queue, in order, where the kernel put them. A worker and what it
 * returns belong to one thread at a time; other threads may call wirecap_stop, and free batches and
 * packets. No function returns memory that free(3) takes. Link with -lwirecap (pkg-config --libs wirecap). */
#ifndef WIRECAP_H
#define WIRECAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wirecap wirecap_t;
typedef struct wirecap_worker wirecap_worker_t;
typedef struct wirecap_batch wirecap_batch_t;
typedef struct wirecap_packet wirecap_packet_t;

/* A packet of a batch: valid until the next call of wirecap_batch_next, wirecap_forward, wirecap_keep or
 * wirecap_batch_free for that batch. */
struct wirecap_view {
    uint8_t *data;         /* its bytes; the first part if it lies in several cells. May be changed if it could be kept */
    uint32_t len;          /* bytes there */
    uint32_t captured_len; /* bytes of all parts */
    uint32_t original_len; /* bytes on the wire */
    uint32_t outgoing;     /* 1 if the host sent it (passive devices) */
    uint64_t timestamp_ns; /* nanoseconds since 1970, UTC */
    uint64_t number;       /* packets of its receive queue that came before it */
};

/* What became of the packets: seen = filtered + passed + delivered + lost. */
struct wirecap_account {
    uint64_t seen, filtered, passed, delivered, lost;
    uint64_t no_free_cell, no_free_block, rx_ring_full, too_long, left_at_stop; /* causes of loss */
    uint64_t dropped_before_xdp;                                                /* by the NIC or its driver */
    int64_t unexplained; /* at the end 0; while the capture runs, packets on their way */
};

#define WIRECAP_ENDED (-2) /* the capture was stopped, and everything was delivered */

/* Captures devices (names separated by spaces: "eth1", "xdp:eth1@0-3 eth2"). Settings are separated by &:
 * M, R, T, memory, mode, cores, dispatch, wait, xdp_mode, ring, cell_bytes, rss, tap_hook, fanout,
 * timestamp as in wirecap-libpcap(7), workers=N, keep=1 for wirecap_keep, filter=EXPRESSION (last),
 * transmit=ENTRIES for transmit rings; NULL for none. The file and the environment of that page apply, too.
 * Returns NULL with a text in error, which has error_bytes bytes. */
wirecap_t *wirecap_open(const char *devices, const char *settings, char *error, size_t error_bytes);

/* Number of workers: one for each receive queue unless workers=N says otherwise. */
unsigned wirecap_workers(const wirecap_t *capture);

/* A worker, for the thread that calls wirecap_next_batch with it. Each can be taken once; else NULL. */
wirecap_worker_t *wirecap_take_worker(const wirecap_t *capture, unsigned index);
void wirecap_worker_free(wirecap_worker_t *worker);

/* Waits for packets, at most timeout_ms (negative: until they come). Returns 1 and a batch, 0 if none came,
 * WIRECAP_ENDED. */
int wirecap_next_batch(wirecap_worker_t *worker, int timeout_ms, wirecap_batch_t **batch);

/* The device of a batch, by its position in the list, and the receive queue. */
unsigned wirecap_batch_device(const wirecap_batch_t *batch);
unsigned wirecap_batch_queue(const wirecap_batch_t *batch);

/* The next packet; NULL behind the last. */
const struct wirecap_view *wirecap_batch_next(wirecap_batch_t *batch);

/* Gives the cells back, except those of packets that were forwarded or kept. A batch may be held for as
 * long as needed: its pool lacks the cells until then. */
void wirecap_batch_free(wirecap_batch_t *batch);

/* Puts the packet that wirecap_batch_next returned last into the transmit ring of a device, with the bytes
 * that are there now; wirecap_flush sends. Returns 0, or -1 if it was not taken, and is still the current
 * packet; errno: ENOBUFS, the ring is full: flush and try again; EMSGSIZE, longer than the device sends;
 * ENETDOWN, ENODEV, the device is down, or gone (wirecap_look_after); ENXIO, it has no transmit ring for
 * this worker; EOPNOTSUPP, packets lie in blocks, or cannot be sent from there; EINVAL, no packet. */
int wirecap_forward(wirecap_worker_t *worker, wirecap_batch_t *batch, unsigned device);

/* Forwards all packets that are left in the batch, and frees it. Returns how many were taken; the others
 * are dropped. */
unsigned wirecap_forward_batch(wirecap_worker_t *worker, wirecap_batch_t *batch, unsigned device);

/* Has the kernel send what was forwarded by this worker. Returns 0, or -1 with errno. Call it once for
 * each batch. */
int wirecap_flush(wirecap_worker_t *worker);

/* Keeps the current packet beyond its batch, with its cells. That needs keep=1 or transmit=ENTRIES, whatever
 * the driver: NULL without, NULL on passive devices, whose packets lie in blocks, and NULL if no packet is
 * current: none yet, or it was forwarded or kept. */
wirecap_packet_t *wirecap_keep(wirecap_batch_t *batch);
const uint8_t *wirecap_packet_data(const wirecap_packet_t *packet, uint32_t *len);
void wirecap_packet_free(wirecap_packet_t *packet);

/* The account so far, of all devices; and everything there is to report, as JSON, to be freed by
 * wirecap_text_free. */
void wirecap_get_account(const wirecap_t *capture, struct wirecap_account *account);
char *wirecap_report_json(const wirecap_t *capture);
void wirecap_text_free(char *text);

/* Looks after the devices: finds links that went down, and devices that were removed. Call it once a
 * second, from any thread. Returns how many devices are gone. */
unsigned wirecap_look_after(const wirecap_t *capture);

/* Ends the capture: workers get what is left, then WIRECAP_ENDED. From any thread, not from signal
 * handlers. */
void wirecap_stop(wirecap_t *capture);

/* Frees the capture; its workers are freed, or end. The account is closed; NULL if it is not wanted. */
void wirecap_close(wirecap_t *capture, struct wirecap_account *account);

/* The version of the library, such as "0.1.0". */
const char *wirecap_version(void);

#ifdef __cplusplus
}
#endif
#endif
