#include "run/binding/binding_inside.h"

/* `auto` is a number by now, unless this process is alone and its cores were not queried. */
static int threads_of(const sl_run *run) {
    return run->device.threads > 0 ? run->device.threads : 1;
}

sl_status sl_binding_open_device(const sl_run *run, sl_device **device) {
    int cards = 1;
    if (run->device.kind == SL_RUN_CPU)
        return sl_device_open_cpu(threads_of(run), device);
    if (run->device.card >= 0)
        return sl_device_open_cuda(run->device.card, device);
    SL_TRY(sl_device_cuda_cards(&cards));
    return sl_device_open_cuda(run->device.local % cards, device);
}
