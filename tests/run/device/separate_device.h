/* A device for tests, whose memory the host cannot reach: the arithmetic of the cpu, on addresses that only
 * the device's own functions can use, with copies to the host that are made as late as the table allows.
 * It ends the process with a line on standard error if the host
 *   - uses the device's memory (SIGSEGV),
 *   - gives its own array where the device's is due, or the reverse,
 *   - changes what a `write` copies before `finish`.
 * What a `read` copies is there after `finish`; before, it is a pattern (0xff: NaN for floats). */
#ifndef SL_TESTS_RUN_DEVICE_SEPARATE_DEVICE_H
#define SL_TESTS_RUN_DEVICE_SEPARATE_DEVICE_H

#include "run/device/device.h"

/** As sl_device_open_cpu. A program linked with -Wl,--wrap=sl_device_open_cpu opens it instead of the cpu. */
sl_status separate_device_open(int threads, sl_device **device);

#endif
