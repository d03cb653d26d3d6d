/* The XDP side of the AF_XDP peers: a program that redirects the packets of one receive queue to one AF_XDP
 * socket. */
#ifndef XSK_REDIRECT_H
#define XSK_REDIRECT_H

#include <stdbool.h>
#include <stdint.h>

struct redirect {
    int map, program;
    int link; /* closing it, even by exiting, detaches the program */
    bool native;
};

enum redirect_mode { REDIRECT_AUTO, REDIRECT_NATIVE, REDIRECT_GENERIC };

/* Loads and attaches; packets pass to the host until a socket is set. Exits on failure; REDIRECT_AUTO reports
 * on stderr if it falls back to generic. */
void redirect_attach(struct redirect *redirect, unsigned ifindex, uint32_t queue, enum redirect_mode mode);

/* From now on the packets of `queue` go to `socket`. */
void redirect_set_socket(const struct redirect *redirect, uint32_t queue, int socket);

/* Gives the interface back to the host. */
void redirect_detach(struct redirect *redirect);

#endif
