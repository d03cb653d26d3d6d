/* A daemon: opens the device, forks, and reads in the child; the parent ends at once.
 *
 * Usage: daemon DEVICE FRAMES FILE. The child writes the packets, then prints a line. */
#include <sys/types.h>
#include <unistd.h>

#include "capture.h"

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    pcap_t *handle = open_device(argv[1]);
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0)
        fail("fork", "no process");
    if (child > 0)
        _exit(0);
    setsid();
    while (getppid() == parent)
        usleep(1000);
    pcap_dumper_t *dumper = pcap_dump_open(handle, argv[3]);
    if (!dumper)
        fail("pcap_dump_open", pcap_geterr(handle));
    say_ready();
    int status = pcap_loop(handle, atoi(argv[2]), pcap_dump, (u_char *)dumper);
    pcap_dump_close(dumper);
    struct pcap_stat stat;
    if (pcap_stats(handle, &stat) < 0)
        fail("pcap_stats", pcap_geterr(handle));
    printf("pcap_loop = %d, %u received, %u dropped\n", status, stat.ps_recv, stat.ps_drop);
    pcap_close(handle);
    return 0;
}
