/* Forks once a device is open. One process closes the handle, then the other reads, and closes it, too. Then
 * the device is opened anew: nothing of the first capture may be left.
 *
 * Usage: forking DEVICE FRAMES parent|child [last|helper]. The third argument says which of the two reads.
 * With `last`, the child reads before its parent closes; with `helper`, it does nothing with the handle. */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture.h"

static void note(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)header;
    uint64_t *next = (uint64_t *)user;
    if (number_of(data) == *next)
        ++*next;
}

/* Reads all frames. Those that are not in order are not counted. */
static void read_frames(pcap_t *handle, int frames) {
    uint64_t in_order = 0;
    say_ready();
    int status = pcap_loop(handle, frames, note, (u_char *)&in_order);
    printf("pcap_loop = %d, %d frames in order\n", status, (int)in_order);
    fflush(stdout);
    pcap_close(handle);
}

int main(int argc, char **argv) {
    if (argc != 4 && argc != 5)
        return 2;
    int child_reads = !strcmp(argv[3], "child");
    int closed[2];
    char byte = 0;
    pcap_t *handle = open_device(argv[1]);
    if (pipe(closed))
        fail("pipe", "no descriptor");
    pid_t child = fork();
    if (child < 0)
        fail("fork", "no process");
    /* It ends with its parent, also if that fails. */
    if (child == 0)
        prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (argc == 5 && !strcmp(argv[4], "helper")) {
        if (child == 0)
            pause();
        read_frames(handle, atoi(argv[2]));
    } else if (argc == 5) {
        if (child == 0) {
            read_frames(handle, atoi(argv[2]));
        } else {
            waitpid(child, NULL, 0);
            pcap_close(handle);
        }
    } else if ((child == 0) == child_reads) {
        if (read(closed[0], &byte, 1) != 1)
            fail("read", "the other process is gone");
        read_frames(handle, atoi(argv[2]));
    } else {
        pcap_close(handle);
        if (write(closed[1], &byte, 1) != 1)
            fail("write", "the other process is gone");
        if (child == 0)
            pause();
    }
    if (child == 0)
        _exit(0);
    /* The one that closed first lives: if that is the child, it waits for a signal. */
    if (child_reads && argc == 4)
        waitpid(child, NULL, 0);
    handle = open_device(argv[1]);
    printf("opened anew\n");
    pcap_close(handle);
    if (!child_reads) {
        kill(child, SIGTERM);
        waitpid(child, NULL, 0);
    }
    return 0;
}
