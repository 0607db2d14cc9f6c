#include "base/memory.h"
#include "run/device/cpu_kernels.h"

#include <string.h>

/* Memory of the cpu: the host's. */

static sl_status memory_open(sl_device *device, size_t bytes, void *memory) {
    char *made;
    (void)device;
    SL_TRY(sl_alloc(&made, bytes, 1));
    memcpy(memory, &made, sizeof made);
    return SL_OK;
}

static void memory_close(sl_device *device, void *memory) {
    (void)device;
    sl_free(memory);
}

static sl_status pin(sl_device *device, void *host, size_t bytes) {
    (void)device;
    (void)host;
    (void)bytes;
    return SL_OK;
}

static void unpin(sl_device *device, void *host) {
    (void)device;
    (void)host;
}

static void copy(sl_device *device, void *to, const void *from, size_t bytes) {
    (void)device;
    memcpy(to, from, bytes);
}

static void zero(sl_device *device, void *memory, size_t bytes) {
    (void)device;
    memset(memory, 0, bytes);
}

static sl_status finish(sl_device *device) {
    (void)device;
    return SL_OK;
}

static void mark(sl_device *device, int number) {
    (void)device;
    (void)number;
}

static sl_status wait_for(sl_device *device, int number) {
    (void)device;
    (void)number;
    return SL_OK;
}

void sl_cpu_fill_memory(sl_device *device) {
    device->host_memory = 1;
    device->memory_open = memory_open;
    device->memory_close = memory_close;
    device->pin = pin;
    device->unpin = unpin;
    device->write = copy;
    device->read = copy;
    device->copy = copy;
    device->zero = zero;
    device->mark = mark;
    device->wait = wait_for;
    device->finish = finish;
}
