/* Opens and closes a device many times, and prints how many more descriptors are open afterwards.
 *
 * Usage: reopening DEVICE TIMES */
#include <dirent.h>

#include "capture.h"

static int descriptors(void) {
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    if (!directory)
        fail("opendir", "/proc/self/fd");
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    pcap_close(open_device(argv[1]));
    int before = descriptors();
    for (int i = 0; i < atoi(argv[2]); i++)
        pcap_close(open_device(argv[1]));
    printf("%d more\n", descriptors() - before);
    return 0;
}
