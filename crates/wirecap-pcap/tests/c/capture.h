/* Shared by the test programs: opens a device, and reads the numbers of frames. */
#pragma once
#include <pcap/pcap.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Enough for what a test sends in one burst. */
#define BUFFER_BYTES (32 << 20)
/* In immediate mode libpcap reserves this much for each packet. */
#define SNAPLEN 256

static inline void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* A device that is being captured. */
static inline pcap_t *open_device(const char *device) {
    char error[PCAP_ERRBUF_SIZE] = "";
    pcap_t *handle = pcap_create(device, error);
    if (!handle)
        fail("pcap_create", error);
    pcap_set_snaplen(handle, SNAPLEN);
    pcap_set_promisc(handle, 1);
    pcap_set_timeout(handle, 100);
    pcap_set_immediate_mode(handle, 1);
    pcap_set_buffer_size(handle, BUFFER_BYTES);
    if (pcap_activate(handle) < 0)
        fail("pcap_activate", pcap_geterr(handle));
    return handle;
}

/* The sequence number of a frame of the tests: UDP over IPv4 without a tag. */
static inline uint64_t number_of(const u_char *data) {
    uint64_t number = 0;
    for (int i = 46; i < 52; i++)
        number = number << 8 | data[i];
    return number;
}

/* The test sends once it reads this. */
static inline void say_ready(void) {
    fputs("ready\n", stderr);
}

/* Sets a filter. */
static inline void set_filter(pcap_t *handle, const char *expression) {
    struct bpf_program program;
    if (pcap_compile(handle, &program, expression, 1, PCAP_NETMASK_UNKNOWN) < 0)
        fail("pcap_compile", pcap_geterr(handle));
    if (pcap_setfilter(handle, &program) < 0)
        fail("pcap_setfilter", pcap_geterr(handle));
    pcap_freecode(&program);
}
