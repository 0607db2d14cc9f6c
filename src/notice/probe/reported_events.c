#include "notice/probe/reported_events.h"

#include <stdlib.h>

#include "notice/probe/probe.h"

#define EXPORTED __attribute__((visibility("default")))

_Atomic int sl_probe_plugged __attribute__((visibility("hidden")));

void sl_probe_rank_by_environment(void) {
    static const char *const words[][2] = {{"RANK", "WORLD_SIZE"},
                                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"},
                                           {"SLURM_PROCID", "SLURM_NTASKS"}};
    if (atomic_load_explicit(&sl_probe_self.file->rank, memory_order_relaxed) >= 0)
        return;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *rank = getenv(words[i][0]), *size = getenv(words[i][1]);
        if (rank && size) {
            sl_probe_world(atoi(rank), atoi(size), SL_FAMILY_NONE);
            return;
        }
    }
}

/* Also inside a wrapper: NCCL makes its events in the calls of the program and in threads of its own. */
static int has_ring(void) {
    return sl_probe_self.ring != NULL || sl_probe_attach();
}

EXPORTED int sl_reported_plugged(void) {
    if (!has_ring())
        return 0;
    sl_probe_rank_by_environment();
    atomic_store_explicit(&sl_probe_plugged, 1, memory_order_relaxed);
    return 1;
}

EXPORTED sl_timing sl_reported_timing(void) {
    return sl_probe_control ? (sl_timing)atomic_load_explicit(&sl_probe_control->timing, memory_order_relaxed)
                            : SL_TIMING_OFF;
}

EXPORTED int64_t sl_reported_now(void) {
    return has_ring() ? sl_probe_now() : 0;
}

EXPORTED void sl_reported_write(sl_call *call) {
    if (has_ring())
        sl_probe_write(call);
}

EXPORTED void sl_reported_lost(uint32_t events) {
    if (events > 0 && has_ring())
        atomic_fetch_add_explicit(&sl_probe_self.file->untracked, events, memory_order_relaxed);
}
