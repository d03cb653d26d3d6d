/* Two handles in two threads.
 *
 * Usage: two_devices DEVICE OTHER FRAMES */
#include <pthread.h>

#include "capture.h"

static long all;

struct reader {
    pcap_t *handle;
    long frames, disorder;
};

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    struct reader *reader = (struct reader *)user;
    (void)header;
    if (number_of(data) != (uint64_t)reader->frames)
        reader->disorder++;
    reader->frames++;
}

static void *read_all(void *user) {
    struct reader *reader = user;
    if (pcap_loop(reader->handle, (int)all, count, user) != 0)
        fail("pcap_loop", pcap_geterr(reader->handle));
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[2];
    struct reader readers[2] = {0};
    if (argc != 4)
        return 2;
    all = atol(argv[3]);
    for (int i = 0; i < 2; i++)
        readers[i].handle = open_device(argv[1 + i]);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, read_all, &readers[i]);
    say_ready();
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        struct pcap_stat stat;
        if (pcap_stats(readers[i].handle, &stat) < 0)
            fail("pcap_stats", pcap_geterr(readers[i].handle));
        printf("%s: %ld frames, %ld in disorder, %u received, %u dropped\n", argv[1 + i], readers[i].frames,
               readers[i].disorder, stat.ps_recv, stat.ps_drop);
        pcap_close(readers[i].handle);
    }
    return 0;
}
