/* Calls every function of <pcap/pcap.h> that takes a handle, in each state of a handle, and prints what it
 * returns. The test runs it on libpcap and on wirecap, and compares the lines.
 *
 * Usage: calls INTERFACE OTHER_END SAVEFILE. Frames are sent from OTHER_END. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <pcap/pcap.h>

static const char *state = "";
static pcap_t *handle;

/* A line: the state, the call, its result, and the text of the handle's error. */
#define NUMBER(call)                                                                                        \
    do {                                                                                                    \
        errno = 0;                                                                                          \
        long result_ = (long)(call);                                                                        \
        printf("%s: %s = %ld [%s]\n", state, #call, result_, handle ? pcap_geterr(handle) : "");            \
    } while (0)

/* The same for a pointer: whether it is null. */
#define POINTER(call)                                                                                       \
    do {                                                                                                    \
        errno = 0;                                                                                          \
        const void *result_ = (const void *)(call);                                                         \
        printf("%s: %s = %s [%s]\n", state, #call, result_ ? "something" : "null",                          \
               handle ? pcap_geterr(handle) : "");                                                          \
    } while (0)

static unsigned char frame[60] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0, 0, 46, 0, 0,
                                  0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x10, 0, 0x20, 0, 0, 26};
static pcap_t *sender;

/* Sends frames; each has its number in its last byte. */
static void send_frames(int first, int count) {
    for (int i = first; i < first + count; i++) {
        frame[59] = (unsigned char)i;
        if (pcap_inject(sender, frame, sizeof frame) != (int)sizeof frame) {
            printf("the sender failed: %s\n", pcap_geterr(sender));
            exit(1);
        }
    }
}

static void print_packet(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    time_t now = time(NULL);
    int seconds_ok = header->ts.tv_sec >= now - 60 && header->ts.tv_sec <= now + 1;
    printf("%s:   packet %u of %u bytes, number %d, time %s, user %s\n", state, header->caplen, header->len,
           header->caplen >= 60 ? data[59] : -1, seconds_ok ? "right" : "wrong", (char *)user);
}

static void print_and_break(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    print_packet(user, header, data);
    pcap_breakloop(handle);
}

/* Lets no packet through from now on. */
static void print_and_refuse(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    struct bpf_program none;
    print_packet(user, header, data);
    NUMBER(pcap_compile(handle, &none, "less 1", 1, PCAP_NETMASK_UNKNOWN));
    NUMBER(pcap_setfilter(handle, &none));
    pcap_freecode(&none);
}

static void on_alarm(int number) {
    (void)number;
    pcap_breakloop(handle);
}

static void *break_soon(void *unused) {
    (void)unused;
    usleep(100000);
    pcap_breakloop(handle);
    return NULL;
}

/* Whether the descriptor becomes readable within timeout_ms, asked in all three ways. They disagree if that
 * changes between two of them: then they are asked again. */
static int is_readable(int fd, int timeout_ms) {
    int by_poll = 0, by_select = 0, by_epoll = 0;
    for (int tries = 0; tries < 20; tries++) {
        struct pollfd polled = {fd, POLLIN, 0};
        by_poll = poll(&polled, 1, timeout_ms) == 1 && (polled.revents & POLLIN);
        fd_set set;
        struct timeval now = {0, 0};
        FD_ZERO(&set);
        FD_SET(fd, &set);
        by_select = select(fd + 1, &set, NULL, NULL, &now) == 1;
        int epoll = epoll_create1(0);
        struct epoll_event event = {EPOLLIN, {0}};
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
        by_epoll = epoll_wait(epoll, &event, 1, 0) == 1;
        close(epoll);
        if (by_poll == by_select && by_poll == by_epoll)
            return by_poll;
    }
    printf("%s: poll %d, select %d and epoll %d do not agree\n", state, by_poll, by_select, by_epoll);
    return by_poll;
}

/* Whether the descriptor is not readable, at the latest after calls that find no packets. Ours may be for a
 * moment after there were some, and a call returns 0 then, also of a handle that blocks. */
static int becomes_quiet(pcap_t *handle, int fd) {
    for (int tries = 0; tries < 10 && is_readable(fd, 0); tries++)
        if (pcap_dispatch(handle, -1, print_packet, (u_char *)"quiet") != 0)
            return 0;
    return !is_readable(fd, 0);
}

/* What a call returns that finds something to do. The descriptor may be readable once more after a break, and
 * ours returns 0 then. */
static int dispatch_something(const char *user) {
    int status = 0;
    for (int tries = 0; status == 0 && tries < 10; tries++)
        status = pcap_dispatch(handle, -1, print_packet, (u_char *)user);
    return status;
}

/* What does not depend on packets, and may be called in any state. */
static void call_all(void) {
    struct bpf_program program = {0, NULL};
    struct pcap_stat stat;
    char error[PCAP_ERRBUF_SIZE] = "";
    int *list = NULL;
    NUMBER(pcap_datalink(handle));
    NUMBER(pcap_datalink_ext(handle));
    NUMBER(pcap_snapshot(handle));
    NUMBER(pcap_is_swapped(handle));
    NUMBER(pcap_major_version(handle));
    NUMBER(pcap_minor_version(handle));
    NUMBER(pcap_get_tstamp_precision(handle));
    NUMBER(pcap_fileno(handle) >= 0);
    NUMBER(pcap_get_selectable_fd(handle) >= 0);
    POINTER(pcap_get_required_select_timeout(handle));
    POINTER(pcap_file(handle));
    NUMBER(pcap_getnonblock(handle, error));
    NUMBER(pcap_setdirection(handle, 77));
    NUMBER(pcap_setdirection(handle, PCAP_D_INOUT));
    NUMBER(pcap_set_datalink(handle, DLT_IEEE802_11));
    NUMBER(pcap_set_datalink(handle, 12345));
    NUMBER(pcap_set_datalink(handle, DLT_EN10MB));
    int links = pcap_list_datalinks(handle, &list);
    NUMBER(links);
    for (int i = 0; i < links; i++)
        printf("%s:   link type %d\n", state, list[i]);
    if (links > 0)
        pcap_free_datalinks(list);
    list = NULL;
    int types = pcap_list_tstamp_types(handle, &list);
    NUMBER(types);
    for (int i = 0; i < types; i++)
        printf("%s:   kind of time %d\n", state, list[i]);
    if (types > 0)
        pcap_free_tstamp_types(list);
    NUMBER(pcap_compile(handle, &program, "udp port 8192", 1, PCAP_NETMASK_UNKNOWN));
    NUMBER(pcap_setfilter(handle, &program));
    pcap_freecode(&program);
    NUMBER(pcap_compile(handle, &program, "no such word", 1, PCAP_NETMASK_UNKNOWN));
    NUMBER(pcap_compile(handle, &program, "vlan 7 and inbound", 1, PCAP_NETMASK_UNKNOWN));
    pcap_freecode(&program);
    if (strcmp(state, "activated") == 0)
        NUMBER(pcap_setfilter(handle, NULL));
    memset(&stat, 0, sizeof stat);
    NUMBER(pcap_stats(handle, &stat));
    printf("%s:   received %u, dropped %u, %u\n", state, stat.ps_recv, stat.ps_drop, stat.ps_ifdrop);
    NUMBER(pcap_inject(handle, frame, 0));
    NUMBER(pcap_sendpacket(handle, frame, 0));
    NUMBER(pcap_sendpacket(handle, frame, -1));
}

static void call_setters(void) {
    NUMBER(pcap_set_snaplen(handle, 65535));
    NUMBER(pcap_set_promisc(handle, 1));
    NUMBER(pcap_set_timeout(handle, 100));
    NUMBER(pcap_set_immediate_mode(handle, 1));
    NUMBER(pcap_set_buffer_size(handle, 4 << 20));
    NUMBER(pcap_set_buffer_size(handle, -1));
    NUMBER(pcap_set_tstamp_type(handle, PCAP_TSTAMP_HOST));
    NUMBER(pcap_set_tstamp_type(handle, PCAP_TSTAMP_ADAPTER));
    NUMBER(pcap_set_tstamp_type(handle, 99));
    NUMBER(pcap_set_tstamp_precision(handle, 7));
    NUMBER(pcap_set_tstamp_precision(handle, PCAP_TSTAMP_PRECISION_NANO));
    NUMBER(pcap_set_tstamp_precision(handle, PCAP_TSTAMP_PRECISION_MICRO));
    NUMBER(pcap_set_protocol_linux(handle, 0));
    NUMBER(pcap_can_set_rfmon(handle));
    NUMBER(pcap_set_rfmon(handle, 0));
}

static void read_packets(void) {
    struct pcap_pkthdr *header, own;
    const u_char *data;
    char error[PCAP_ERRBUF_SIZE] = "";
    struct bpf_program program;
    int fd = pcap_get_selectable_fd(handle);

    state = "reading";
    NUMBER(becomes_quiet(handle, fd));
    NUMBER(pcap_setnonblock(handle, 1, error));
    NUMBER(pcap_getnonblock(handle, error));
    NUMBER(pcap_dispatch(handle, -1, print_packet, (u_char *)"a"));
    NUMBER(pcap_next_ex(handle, &header, &data));
    POINTER(pcap_next(handle, &own));
    send_frames(1, 3);
    NUMBER(is_readable(fd, 3000));
    NUMBER(pcap_next_ex(handle, &header, &data));
    print_packet((u_char *)"next_ex", header, data);
    NUMBER(is_readable(fd, 0));
    POINTER(data = pcap_next(handle, &own));
    print_packet((u_char *)"next", &own, data);
    NUMBER(pcap_setnonblock(handle, 0, error));
    NUMBER(pcap_dispatch(handle, 1, print_packet, (u_char *)"b"));
    NUMBER(becomes_quiet(handle, fd));
    send_frames(4, 4);
    NUMBER(pcap_loop(handle, 3, print_packet, (u_char *)"c"));
    NUMBER(pcap_loop(handle, -1, print_and_break, (u_char *)"d"));

    state = "breaking";
    pcap_breakloop(handle);
    NUMBER(pcap_loop(handle, -1, print_packet, (u_char *)"e"));
    pcap_breakloop(handle);
    NUMBER(pcap_next_ex(handle, &header, &data));
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    alarm(1);
    NUMBER(pcap_loop(handle, -1, print_packet, (u_char *)"f"));
    pthread_t thread;
    pthread_create(&thread, NULL, break_soon, NULL);
    NUMBER(pcap_loop(handle, -1, print_packet, (u_char *)"g"));
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, break_soon, NULL);
    NUMBER(dispatch_something("h"));
    pthread_join(thread, NULL);

    state = "filtering";
    NUMBER(pcap_compile(handle, &program, "ether[59] & 1 = 0", 1, PCAP_NETMASK_UNKNOWN));
    NUMBER(pcap_setfilter(handle, &program));
    pcap_freecode(&program);
    send_frames(10, 6);
    NUMBER(pcap_loop(handle, 3, print_packet, (u_char *)"even"));
    NUMBER(pcap_compile(handle, &program, "", 1, PCAP_NETMASK_UNKNOWN));
    NUMBER(pcap_setfilter(handle, &program));
    pcap_freecode(&program);
    send_frames(20, 1);
    NUMBER(pcap_loop(handle, 1, print_packet, (u_char *)"all"));
    struct bpf_insn cut = {BPF_RET | BPF_K, 0, 0, 20};
    struct bpf_program by_hand = {1, &cut};
    NUMBER(pcap_setfilter(handle, &by_hand));
    send_frames(21, 1);
    NUMBER(pcap_loop(handle, 1, print_packet, (u_char *)"cut"));
    struct bpf_insn wrong = {0xffff, 0, 0, 20};
    struct bpf_program invalid = {1, &wrong};
    NUMBER(pcap_setfilter(handle, &invalid) < 0);
    NUMBER(pcap_compile(handle, &program, "", 1, PCAP_NETMASK_UNKNOWN));
    NUMBER(pcap_setfilter(handle, &program));
    pcap_freecode(&program);
    NUMBER(pcap_setdirection(handle, PCAP_D_IN));
    send_frames(22, 1);
    NUMBER(pcap_loop(handle, 1, print_packet, (u_char *)"in"));

    state = "refusing";
    send_frames(30, 5);
    NUMBER(pcap_loop(handle, 1, print_and_refuse, (u_char *)"last"));
    NUMBER(pcap_setnonblock(handle, 1, error));
    usleep(200000);
    NUMBER(pcap_dispatch(handle, -1, print_packet, (u_char *)"none"));
}

static void write_file(const char *path) {
    state = "writing";
    char error[PCAP_ERRBUF_SIZE] = "";
    pcap_dumper_t *dumper = NULL;
    POINTER(pcap_dump_open(handle, "/no/such/directory/file"));
    POINTER(dumper = pcap_dump_open(handle, path));
    if (dumper) {
        struct pcap_pkthdr header = {{1, 2}, 60, 60};
        pcap_dump((u_char *)dumper, &header, frame);
        NUMBER(pcap_dump_flush(dumper));
        NUMBER(pcap_dump_ftell(dumper));
        NUMBER(pcap_dump_ftell64(dumper));
        POINTER(pcap_dump_file(dumper));
        pcap_dump_close(dumper);
    }
    POINTER(dumper = pcap_dump_open_append(handle, path));
    if (dumper)
        pcap_dump_close(dumper);
    pcap_t *live = handle;
    state = "savefile";
    handle = pcap_open_offline(path, error);
    if (handle) {
        call_all();
        NUMBER(pcap_loop(handle, -1, print_packet, (u_char *)"file"));
        NUMBER(pcap_activate(handle));
        pcap_close(handle);
    }
    handle = live;
}

static void try_device(const char *device) {
    char error[PCAP_ERRBUF_SIZE] = "";
    handle = pcap_create(device, error);
    printf("%s: pcap_create = %s [%s]\n", state, handle ? "something" : "null", error);
    if (handle) {
        NUMBER(pcap_activate(handle));
        pcap_close(handle);
    }
    handle = NULL;
    error[0] = '\0';
    handle = pcap_open_live(device, 100, 1, 100, error);
    printf("%s: pcap_open_live = %s [%s]\n", state, handle ? "something" : "null", error);
    if (handle) {
        NUMBER(pcap_snapshot(handle));
        pcap_close(handle);
    }
    handle = NULL;
}

int main(int argc, char **argv) {
    char error[PCAP_ERRBUF_SIZE] = "";
    if (argc != 4)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    sender = pcap_open_live(argv[2], 65535, 0, 100, error);
    if (!sender) {
        printf("no sender: %s\n", error);
        return 1;
    }
    state = "no device";
    try_device("no-such-device");
    state = "a name that is too long";
    try_device("a-name-that-is-much-too-long-for-an-interface");

    state = "dead";
    handle = pcap_open_dead(DLT_EN10MB, 65535);
    call_all();
    NUMBER(pcap_activate(handle));
    pcap_close(handle);

    state = "created";
    handle = pcap_create(argv[1], error);
    call_all();
    call_setters();
    write_file(argv[3]);

    state = "activated";
    NUMBER(pcap_activate(handle));
    NUMBER(pcap_activate(handle));
    call_all();
    call_setters();
    read_packets();
    write_file(argv[3]);
    state = "at the end";
    struct pcap_stat stat;
    NUMBER(pcap_stats(handle, &stat));
    printf("%s:   dropped %u, %u\n", state, stat.ps_drop, stat.ps_ifdrop);
    pcap_close(handle);
    handle = NULL;

    state = "snapshot";
    try_device(argv[1]);
    handle = pcap_create(argv[1], error);
    NUMBER(pcap_set_snaplen(handle, 40));
    NUMBER(pcap_set_tstamp_precision(handle, PCAP_TSTAMP_PRECISION_NANO));
    NUMBER(pcap_set_immediate_mode(handle, 1));
    NUMBER(pcap_setnonblock(handle, 1, error));
    NUMBER(pcap_activate(handle));
    NUMBER(pcap_getnonblock(handle, error));
    NUMBER(pcap_setnonblock(handle, 0, error));
    NUMBER(pcap_snapshot(handle));
    NUMBER(pcap_get_tstamp_precision(handle));
    send_frames(40, 1);
    NUMBER(pcap_loop(handle, 1, print_packet, (u_char *)"short"));

    state = "down";
    struct ifreq request = {0};
    strncpy(request.ifr_name, argv[1], IFNAMSIZ - 1);
    int control = socket(AF_INET, SOCK_DGRAM, 0);
    ioctl(control, SIOCGIFFLAGS, &request);
    request.ifr_flags &= ~IFF_UP;
    ioctl(control, SIOCSIFFLAGS, &request);
    NUMBER(pcap_setnonblock(handle, 1, error));
    usleep(300000);
    NUMBER(pcap_dispatch(handle, -1, print_packet, (u_char *)"down"));
    pcap_close(handle);
    handle = NULL;
    try_device(argv[1]);
    pcap_close(sender);
    return 0;
}
