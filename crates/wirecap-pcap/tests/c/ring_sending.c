/* Sends from a handle that a child process has, too; then from another one while its link goes down and comes
 * up again.
 *
 * Usage: ring_sending DEVICE */
#include <sys/wait.h>
#include <unistd.h>

#include "capture.h"

static int send_frame(pcap_t *handle) {
    u_char frame[60] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 9, 0x88, 0xb5};
    return pcap_inject(handle, frame, sizeof frame);
}

static void report(const char *who, pcap_t *handle, int sent) {
    printf("%s: %d%s%s\n", who, sent, sent < 0 ? ", " : "", sent < 0 ? pcap_geterr(handle) : "");
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    pcap_t *handle = open_device(argv[1]);
    report("before the fork", handle, send_frame(handle));
    pid_t child = fork();
    if (child == 0) {
        report("child", handle, send_frame(handle));
        _exit(0);
    }
    waitpid(child, NULL, 0);
    report("parent behind its child", handle, send_frame(handle));
    pcap_close(handle);

    handle = open_device(argv[1]);
    int sent = send_frame(handle);
    report("up", handle, sent);
    for (; sent >= 0; sent = send_frame(handle))
        usleep(10000);
    report("down", handle, sent);
    for (; sent < 0; sent = send_frame(handle))
        usleep(10000);
    report("up again", handle, sent);
    pcap_close(handle);
    return 0;
}
