/* How calls pass the gate (probe.h): it moves the MPI library's messages while a thread is parked, and asks
 * whether devices are idle. */
#include "notice/probe/device_events.h"
#include "notice/probe/probe.h"

static void (*move)(int in_nccl); /* of the MPI library */

static void progress(void *unused) {
    (void)unused;
    if (move)
        move(sl_probe_self.in_nccl);
}

static int drained(void *unused) {
    (void)unused;
    return sl_events_drained();
}

void sl_probe_gate_open(sl_gate *gate, void (*progress_of_mpi)(int in_nccl)) {
    if (progress_of_mpi)
        move = progress_of_mpi;
    __atomic_store_n(&sl_probe_gate, gate, __ATOMIC_RELEASE);
}

void sl_probe_gate_finish(void) {
    if (sl_probe_gate)
        sl_gate_finish(sl_probe_gate);
    move = NULL;
}

sl_gate_caller *sl_probe_join(void) {
    static const sl_gate_shim shim = {.progress = progress, .drained = drained};
    sl_gate_join(&sl_probe_self.gate, sl_probe_gate, &shim);
    return &sl_probe_self.gate;
}
