#include "run/transport/link_emulator.h"
#include "base/shared.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* Longest transfer, about 100 years: sums of times stay within 63 bits by saturation. */
#define LONGEST ((sl_time)3200000000 * SL_SECOND)

static sl_time add(sl_time a, sl_time b) {
    return b > 0 && a > SL_TIME_NEVER - 1 - b ? SL_TIME_NEVER - 1 : a + b;
}

sl_time sl_link_emulator_transfer(uint64_t bytes, double bytes_per_second) {
    if (!(bytes_per_second > 0))
        return 0;
    double ns = (double)bytes / bytes_per_second * 1e9;
    return ns < (double)LONGEST ? (sl_time)llround(ns) : LONGEST;
}

/* Several ranks may ask for a wire at the same time; the first to change the word gets it. */
static sl_time take_wire(_Atomic int64_t *wire, sl_time ready, sl_time transfer) {
    int64_t free_at = atomic_load(wire);
    sl_time start;
    do
        start = sl_later(ready, free_at);
    while (transfer > 0 && !atomic_compare_exchange_weak(wire, &free_at, add(start, transfer)));
    return start;
}

void sl_link_emulator_enter(sl_link_emulator *emulator, sl_time ready, uint64_t bytes,
                            sl_link_emulation emulation, sl_sent *times) {
    sl_time longest = sl_link_emulator_transfer(bytes, emulation.bytes_per_second);
    sl_time start =
        emulator->wire ? take_wire(emulator->wire, ready, longest) : sl_later(ready, emulator->free_at);
    times->end = emulator->free_at = add(start, longest);
    for (int i = 0; i < emulation.wires; i++) {
        sl_time transfer = sl_link_emulator_transfer(bytes, emulation.wire[i].bytes_per_second);
        start = take_wire(emulation.wire[i].free_at, start, transfer);
        times->end = sl_later(times->end, add(start, transfer));
        longest = sl_later(longest, transfer);
    }
    times->start = times->end - longest;
    times->due = sl_later(add(times->end, emulation.latency), emulator->last_due);
    emulator->last_due = times->due;
}

/* ---- shared wires ---- */

size_t sl_wires_count(int ranks) {
    return 2 * (size_t)ranks * (size_t)ranks;
}

sl_status sl_wires_open(const char *directory, const char *name, size_t count, sl_wires *wires) {
    char path[4096];
    size_t bytes = count * sizeof *wires->free_at;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return sl_error(SL_EINVAL, "the directory's name is too long");
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        return sl_error_errno(SL_ESYS, "%s: cannot be made", path);
    sl_status status = sl_shared_reserve(file, bytes, path); /* all ranks ask for the same */
    SL_THEN(status, sl_shared_map(file, bytes, path, &wires->free_at));
    close(file);
    SL_TRY(status);
    wires->bytes = bytes;
    return SL_OK;
}

void sl_wires_close(sl_wires *wires) {
    if (wires->bytes > 0)
        munmap(wires->free_at, wires->bytes);
    *wires = (sl_wires){0};
}
