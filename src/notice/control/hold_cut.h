/* The cut: the calls at which a job is held. Pure: views of the gates in, targets out, no clock and no
 * process.
 *
 * A cut is a number of calls per channel. It starts with the largest number announced on each. A rank owes a
 * call that all members must make and that it has not made. When a parked rank owes, the targets of the
 * channels at which it is parked rise to the calls at which it is parked, and so on until every rank is
 * parked and none owes. Targets only rise, so what runs is the program's own execution, only delayed. (The
 * maximum of the counters alone is not a cut if communicators overlap; the closure is the idea of the
 * topological sort in MANA's checkpoints, arXiv 1904.12595.) The rules, their purpose and why nothing can
 * deadlock: notice/gate/README.md. */
#pragma once

#include "notice/message/gate_view.h"

typedef struct sl_cut sl_cut;

typedef struct sl_cut_limits {
    int64_t time;   /* ns from the first step to closure; 0: 2 s */
    uint64_t calls; /* most calls that a rank may make meanwhile (three iterations' worth); 0: any */
} sl_cut_limits;

typedef enum sl_cut_verdict {
    SL_CUT_MOVING, /* apply the raises, look again */
    SL_CUT_CLOSED, /* every rank is parked, none owes, devices are idle */
    SL_CUT_RELEASE /* let the job go: sl_cut_reason gives the reason */
} sl_cut_verdict;

/* A target that a rank's gate should be raised to. */
typedef struct sl_cut_raise {
    int rank;
    sl_channel_key key;
    uint64_t target;
} sl_cut_raise;

/** A cut of a job of `ranks` ranks, for one hold. SL_EINVAL, SL_ENOMEM. */
sl_status sl_cut_create(sl_cut **cut, int ranks, sl_cut_limits limits);
void sl_cut_destroy(sl_cut *cut);

/** One look: `views[r]` is rank r's, all taken after every gate was held; `now` in ns of any one clock. Gives
 * the raises (owned by the cut, until the next step) and the verdict. Views may be of different times: what
 * could still be in motion counts only when two looks agree. SL_EINVAL (a view of another rank), SL_ENOMEM.
 */
sl_status sl_cut_step(sl_cut *cut, const sl_gate_view *const *views, int64_t now, sl_cut_verdict *verdict,
                      const sl_cut_raise **raises, size_t *count);

/** The reason for the last verdict: one line, "" when closed. Owned by the cut. */
const char *sl_cut_reason(const sl_cut *cut);
