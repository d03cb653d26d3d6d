/* Opens libpcap again, by name and by path, and captures through each.
 *
 * Usage: two_libraries FRAMES NAME DEVICE NAME DEVICE … */
#include <dlfcn.h>
#include <string.h>

#include "capture.h"

/* One of the libraries. */
struct library {
    const char *name;
    pcap_t *handle;
    int (*next_ex)(pcap_t *, struct pcap_pkthdr **, const u_char **);
    void (*close)(pcap_t *);
    char *(*geterr)(pcap_t *);
};

static void *symbol(void *object, const char *name) {
    void *found = dlsym(object, name);
    if (!found)
        fail(name, dlerror());
    return found;
}

static void open_library(struct library *library, const char *name, const char *device) {
    char error[PCAP_ERRBUF_SIZE] = "";
    void *object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!object)
        fail(name, dlerror());
    library->name = name;
    *(void **)&library->next_ex = symbol(object, "pcap_next_ex");
    *(void **)&library->close = symbol(object, "pcap_close");
    *(void **)&library->geterr = symbol(object, "pcap_geterr");
    pcap_t *(*open_live)(const char *, int, int, int, char *);
    *(void **)&open_live = symbol(object, "pcap_open_live");
    int (*nonblock)(pcap_t *, int, char *);
    *(void **)&nonblock = symbol(object, "pcap_setnonblock");
    library->handle = open_live(device, 65535, 1, 10, error);
    if (!library->handle)
        fail(name, error);
    if (nonblock(library->handle, 1, error) != 0)
        fail(name, error);
}

int main(int argc, char **argv) {
    struct library libraries[4];
    int count = (argc - 2) / 2, frames = argc > 1 ? atoi(argv[1]) : 0;
    if (count < 1 || count > 4)
        return 2;
    for (int i = 0; i < count; i++)
        open_library(&libraries[i], argv[2 + 2 * i], argv[3 + 2 * i]);
    say_ready();
    for (int i = 0; i < count; i++) {
        struct library *library = &libraries[i];
        int found = 0, disorder = 0;
        while (found < frames) {
            struct pcap_pkthdr *header;
            const u_char *data;
            int status = library->next_ex(library->handle, &header, &data);
            if (status < 0)
                fail("pcap_next_ex", library->geterr(library->handle));
            if (status == 1)
                disorder += number_of(data) != (uint64_t)found++;
        }
        library->close(library->handle);
        printf("%s: %d frames, %d in disorder\n", library->name, found, disorder);
    }
    return 0;
}
