/* Ends, or loses what it captures by, as programs do.
 *
 * Usage: ending DEVICE return|exit|closed|refused
 *   return   gets 5 packets, and returns from main without pcap_close
 *   exit     the same by exit in the callback of the fifth
 *   closed   closes all descriptors, and reads
 *   refused  opens the device ten times in vain; prints how many descriptors that has left */
#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "capture.h"

static int received, exits;

static void receive(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)user;
    (void)header;
    (void)data;
    if (++received == 5 && exits)
        exit(0);
}

static int descriptors(void) {
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void be_refused(const char *device) {
    char error[PCAP_ERRBUF_SIZE] = "";
    int before = 0;
    /* The first one may leave what the library needs for good. */
    for (int i = 0; i < 11; i++) {
        if (pcap_open_live(device, 65535, 1, 100, error))
            fail(device, "it was opened");
        if (i == 0)
            before = descriptors();
    }
    printf("%s: %d more\n", error, descriptors() - before);
}

int main(int argc, char **argv) {
    struct pcap_pkthdr *header;
    const u_char *data;
    if (argc != 3)
        return 2;
    if (strcmp(argv[2], "refused") == 0) {
        be_refused(argv[1]);
        return 0;
    }
    pcap_t *handle = open_device(argv[1]);
    say_ready();
    if (strcmp(argv[2], "closed") == 0) {
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
        printf("pcap_next_ex = %d", pcap_next_ex(handle, &header, &data));
        printf(", pcap_next_ex = %d: %s\n", pcap_next_ex(handle, &header, &data), pcap_geterr(handle));
        return 0;
    }
    exits = strcmp(argv[2], "exit") == 0;
    pcap_loop(handle, 5, receive, NULL);
    return 0;
}
