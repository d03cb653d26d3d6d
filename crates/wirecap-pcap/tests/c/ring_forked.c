/* Sends frames that are numbered from 0 on, while a child process closes its copy of the handle.
 *
 * Usage: ring_forked DEVICE */
#include <sys/wait.h>
#include <unistd.h>

#include "capture.h"

static unsigned number;

static void send_frames(pcap_t *handle, int frames) {
    u_char frame[60] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 9, 0x88, 0xb5};
    for (int n = 0; n < frames; n++, number++) {
        frame[14] = (u_char)number;
        if (pcap_inject(handle, frame, sizeof frame) != sizeof frame)
            fail("pcap_inject", pcap_geterr(handle));
    }
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    pcap_t *handle = open_device(argv[1]);
    send_frames(handle, 100);
    int sent[2];
    if (pipe(sent) != 0)
        fail("pipe", "failed");
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(sent[1]);
        if (read(sent[0], &byte, 1) < 0)
            fail("read", "failed");
        pcap_close(handle);
        _exit(0);
    }
    send_frames(handle, 10);
    close(sent[1]);
    waitpid(child, NULL, 0);
    /* If the child has moved the ring, old frames are sent again. */
    usleep(200000);
    send_frames(handle, 10);
    pcap_close(handle);
    return 0;
}
