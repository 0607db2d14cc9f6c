/* Whether a profile of a program whose iterations have changed may still be compared with one from before. */
#include "base/memory.h"
#include "notice/detect/call_profile.h"
#include "notice/detect/call_verdict.h"

#include <math.h>

#define SEEN 0.8      /* of a rank's computing must be between calls that were seen before */
#define SMALL 0.02    /* of the window */
#define UNCHANGED 1.1 /* times as long, or less */
#define CERTAIN 2.0   /* standard errors */

/* Nonzero if the rank makes its calls as before, and has no less work; *same: and computes as long. */
static int makes_the_same_calls(const sl_call_comparison *c, int rank, int *same) {
    const sl_call_measure *m = &c->rank[rank];
    const double small = SMALL * c->span, computing = c->now->rank[rank].computing;
    *same = fabs(m->excess) < fmax(small, CERTAIN * m->error) ||
            (m->ratio < UNCHANGED && m->ratio > 1 / UNCHANGED);
    if (computing < small && c->healthy->rank[rank].computing < small)
        return 1;
    return m->known && m->now >= SEEN * computing && (*same || m->excess > 0);
}

sl_status sl_call_profile_repeats(const sl_call_profile *now, const sl_call_profile *before, int *repeats) {
    sl_call_comparison c = {.now = now, .healthy = before, .blurred = -1, .unmatched = -1};
    int unchanged = 0;
    *repeats = now->ranks == before->ranks;
    if (!*repeats)
        return SL_OK;
    sl_status status = sl_call_measure_all(&c);
    for (int r = 0; status == SL_OK && r < now->ranks; r++) {
        int same;
        *repeats &= makes_the_same_calls(&c, r, &same);
        unchanged += same;
    }
    *repeats &= status == SL_OK && 2 * unchanged >= now->ranks;
    SL_FREE(c.rank, c.group);
    return status;
}
