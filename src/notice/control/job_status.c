#include "notice/control/job_status.h"

const char *sl_watch_phase_name(sl_watch_phase phase) {
    static const char *const names[SL_PHASES] = {
        [SL_PHASE_WAITING] = "waiting",   [SL_PHASE_SEARCHING] = "searching",
        [SL_PHASE_TRACKING] = "tracking", [SL_PHASE_PROFILING] = "profiling",
        [SL_PHASE_HOLDING] = "holding",   [SL_PHASE_VALIDATING] = "validating",
        [SL_PHASE_ENDED] = "ended",
    };
    return (int)phase >= 0 && phase < SL_PHASES ? names[phase] : "?";
}
