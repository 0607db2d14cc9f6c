/* The cpu as `device`, opened and closed around a group of tests. */
#ifndef SL_TESTS_RUN_BINDING_CPU_GROUP_H
#define SL_TESTS_RUN_BINDING_CPU_GROUP_H

#include "check.h"

#include "run/device/device.h"

static sl_device *device;

static int open_device(void **state) {
    (void)state;
    return sl_device_open_cpu(1, &device) == SL_OK ? 0 : -1;
}

static int close_device(void **state) {
    (void)state;
    device->close(device);
    return 0;
}

#endif
