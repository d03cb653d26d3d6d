/* What functions of <wirecap.h> return when they cannot do what is asked.
 *
 * Usage: engine_errors TAKEN LEFT: the first device is taken from the host, the second one is not. Each gets
 * a packet at each "ready"; then the first one is removed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <wirecap.h>

static const char *name(int number) {
    switch (number) {
    case 0: return "0";
    case EINVAL: return "EINVAL";
    case ENXIO: return "ENXIO";
    case ENODEV: return "ENODEV";
    case EOPNOTSUPP: return "EOPNOTSUPP";
    default: return strerror(number);
    }
}

/* Forwards, and prints what became of it. */
static void forward(const char *what, wirecap_worker_t *worker, wirecap_batch_t *batch, unsigned device) {
    errno = 0;
    int status = wirecap_forward(worker, batch, device);
    printf("%s: %d, %s\n", what, status, name(errno));
}

/* A batch of this device, at its first packet. */
static wirecap_batch_t *batch_of(wirecap_worker_t *worker, unsigned device) {
    wirecap_batch_t *batch;
    while (wirecap_next_batch(worker, 20000, &batch) == 1) {
        if (wirecap_batch_device(batch) == device && wirecap_batch_next(batch))
            return batch;
        wirecap_batch_free(batch);
    }
    fprintf(stderr, "no packet of device %u\n", device);
    _exit(1);
}

int main(int argc, char **argv) {
    char error[256], devices[256];
    uint32_t len = 7;
    if (argc != 3)
        return 2;
    printf("opened: %d, %s\n", wirecap_open("no-such", NULL, error, sizeof error) != NULL, error);
    printf("opened: %d, %s\n", wirecap_open(argv[1], "keep=2", error, sizeof error) != NULL, error);
    wirecap_t *keeping = wirecap_open(argv[1], "R=16&keep=1", error, sizeof error);
    wirecap_worker_t *keeper = keeping ? wirecap_take_worker(keeping, 0) : NULL;
    if (!keeper) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    fprintf(stderr, "about to keep\n");
    wirecap_batch_t *kept_of = batch_of(keeper, 0);
    wirecap_packet_t *kept = wirecap_keep(kept_of);
    printf("kept of cells: %d\n", kept != NULL);
    wirecap_batch_free(kept_of);
    wirecap_packet_free(kept);
    wirecap_worker_free(keeper);
    wirecap_close(keeping, NULL);
    snprintf(devices, sizeof devices, "xdp:%s tap:%s", argv[1], argv[2]);
    wirecap_t *capture = wirecap_open(devices, "R=16&transmit=64&workers=1", error, sizeof error);
    if (!capture) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    wirecap_worker_t *worker = wirecap_take_worker(capture, 0);
    printf("taken again: %d, beyond: %d\n", wirecap_take_worker(capture, 0) != NULL,
           wirecap_take_worker(capture, 1) != NULL);
    fprintf(stderr, "ready\n");
    wirecap_batch_t *taken = batch_of(worker, 0), *left = batch_of(worker, 1);
    forward("out of a device without a ring", worker, taken, 1);
    forward("out of no device", worker, taken, 2);
    forward("out of blocks", worker, left, 0);
    printf("kept of blocks: %d\n", wirecap_keep(left) != NULL);
    forward("out of the ring", worker, taken, 0);
    forward("once more", worker, taken, 0);
    forward("nothing", worker, NULL, 0);
    printf("flushed: %d\n", wirecap_flush(worker));
    const uint8_t *data = wirecap_packet_data(NULL, &len);
    printf("data of nothing: %d, %u bytes\n", data != NULL, len);
    wirecap_batch_free(taken);
    wirecap_batch_free(left);
    printf("gone: %u\n", wirecap_look_after(capture));
    fprintf(stderr, "ready again\n");
    taken = batch_of(worker, 0);
    fprintf(stderr, "remove it\n");
    for (int tries = 0; wirecap_look_after(capture) == 0 && tries < 20000; tries++)
        usleep(1000);
    printf("gone: %u\n", wirecap_look_after(capture));
    forward("out of a device that is gone", worker, taken, 0);
    wirecap_batch_free(taken);
    wirecap_worker_free(worker);
    wirecap_close(capture, NULL);
    return 0;
}
