/* Shared by the AF_XDP peers: the mapped rings. */
#ifndef XSK_RING_H
#define XSK_RING_H

#include <linux/if_xdp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#define FRAME_BYTES 2048

/* One shared ring. Indices wrap around freely; entry i is at i & mask. */
struct ring {
    _Atomic uint32_t *producer; /* fill, TX: written by us. RX, completion: written by the kernel */
    _Atomic uint32_t *consumer; /* fill, TX: written by the kernel. RX, completion: written by us */
    _Atomic uint32_t *flags;    /* written by the kernel */
    void *entries;              /* fill, completion: uint64_t addresses. RX, TX: struct xdp_desc */
    uint32_t mask;
    uint32_t ours; /* our copy of the index that we write */
};

_Static_assert(sizeof(_Atomic uint32_t) == sizeof(uint32_t), "ring indices are shared with the kernel");
_Static_assert(sizeof(struct xdp_desc) == 16, "RX and TX ring entry");

/* An AF_XDP socket. Exits on failure. */
int xsk_socket(void);

/* Sets an option of level SOL_XDP. Exits with the hint if the kernel refuses. */
void xsk_set_option(int socket, int option, const void *value, socklen_t size, const char *hint);

/* The offsets of a socket's rings. Exits on failure. */
struct xdp_mmap_offsets xsk_offsets(int socket);

/* Maps a ring. Exits with the hint on failure. */
void ring_map(struct ring *ring, int socket, const struct xdp_ring_offset *offset, off_t page_offset, uint32_t size,
              size_t entry_bytes, const char *hint);

/* Entries that the kernel has put into an RX or completion ring. */
static inline uint32_t ring_ready(const struct ring *ring)
{
    /* Acquire: pairs with the kernel's release of the producer index; entries and packets are complete. */
    return atomic_load_explicit(ring->producer, memory_order_acquire) - ring->ours;
}

/* Entries for which there is room in a fill or TX ring. */
static inline uint32_t ring_room(const struct ring *ring)
{
    /* Acquire: pairs with the kernel's release of the consumer index; it has read the entries we
     * overwrite. */
    uint32_t taken = atomic_load_explicit(ring->consumer, memory_order_acquire);
    return ring->mask + 1 - (ring->ours - taken);
}

/* Gives read entries of an RX or completion ring back to the kernel. */
static inline void ring_release(struct ring *ring)
{
    /* Release: our reads are done before the kernel may write the entries again. */
    atomic_store_explicit(ring->consumer, ring->ours, memory_order_release);
}

/* Makes written entries of a fill or TX ring visible to the kernel. */
static inline void ring_publish(struct ring *ring)
{
    /* Release: the entries are written before the kernel sees the index; pairs with its load of the
     * producer. */
    atomic_store_explicit(ring->producer, ring->ours, memory_order_release);
}

#endif
