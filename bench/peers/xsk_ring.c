#include "xsk_ring.h"

#include "peer.h"

#include <sys/mman.h>

int xsk_socket(void)
{
    int xsk = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (xsk < 0)
        peer_fail("AF_XDP socket", "needs CAP_NET_RAW and a kernel with CONFIG_XDP_SOCKETS");
    return xsk;
}

void xsk_set_option(int socket, int option, const void *value, socklen_t size, const char *hint)
{
    if (setsockopt(socket, SOL_XDP, option, value, size))
        peer_fail("AF_XDP socket option", hint);
}

struct xdp_mmap_offsets xsk_offsets(int socket)
{
    struct xdp_mmap_offsets offsets;
    socklen_t length = sizeof offsets;
    if (getsockopt(socket, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length) || length != sizeof offsets)
        peer_fail("XDP_MMAP_OFFSETS", "needs Linux 5.4");
    return offsets;
}

void ring_map(struct ring *ring, int socket, const struct xdp_ring_offset *offset, off_t page_offset, uint32_t size,
              size_t entry_bytes, const char *hint)
{
    uint8_t *memory = mmap(NULL, offset->desc + size * entry_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                           socket, page_offset);
    if (memory == MAP_FAILED)
        peer_fail("mmap of a ring", hint);
    ring->producer = (_Atomic uint32_t *)(memory + offset->producer);
    ring->consumer = (_Atomic uint32_t *)(memory + offset->consumer);
    ring->flags = (_Atomic uint32_t *)(memory + offset->flags);
    ring->entries = memory + offset->desc;
    ring->mask = size - 1;
}
