/* Closes all descriptors but the first three, as daemons do, then captures; with "used", after the library
 * was called.
 *
 * Usage: closing DEVICE FRAMES FILE used|unused. The frames' numbers go to FILE. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "capture.h"

static int file;

static void write_number(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    char line[64];
    (void)user;
    (void)header;
    int len = snprintf(line, sizeof line, "%llu\n", (unsigned long long)number_of(data));
    if (write(file, line, (size_t)len) != len)
        fail("write", "the file is full");
}

int main(int argc, char **argv) {
    char error[PCAP_ERRBUF_SIZE] = "";
    if (argc != 5)
        return 2;
    if (strcmp(argv[4], "used") == 0) {
        pcap_if_t *list = NULL;
        if (pcap_findalldevs(&list, error) < 0)
            fail("pcap_findalldevs", error);
        pcap_freealldevs(list);
    }
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    file = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file != 3)
        fail("open", "not the lowest descriptor");
    pcap_t *handle = open_device(argv[1]);
    say_ready();
    printf("pcap_loop = %d\n", pcap_loop(handle, atoi(argv[2]), write_number, NULL));
    pcap_close(handle);
    if (fcntl(file, F_GETFD) < 0)
        fail("file", "pcap_close has closed it");
    return 0;
}
