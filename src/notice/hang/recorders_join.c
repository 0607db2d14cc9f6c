/* A recorder's verdict and the one by slackline's own records. Pure. */
#include "base/text.h"
#include "notice/hang/recorders.h"
#include "notice/hang/torch_dump.h"

#include <stdio.h>

/* All ranks of the job wait, and the recorder has all that still live: a rank that it lacks would seem not
 * to have come. */
static int is_whole(const sl_hang_job *job, const sl_hang_job *from, double least_s) {
    if (job->ranks == 0 || (int)job->ranks < job->size || from->size != job->size)
        return 0;
    for (size_t i = 0; i < job->ranks; i++) {
        const sl_hang_rank *r = &job->rank[i];
        if (r->moving || (!r->ended && (r->still_s < least_s || !sl_hang_find(from, r->rank))))
            return 0;
    }
    return 1;
}

static double shortest_stand(const sl_hang_job *job) {
    double least = job->rank[0].still_s;
    for (size_t i = 1; i < job->ranks; i++)
        least = job->rank[i].still_s < least ? job->rank[i].still_s : least;
    return least;
}

static int says_less(const sl_hang_verdict *own, const sl_hang_verdict *other) {
    return own->cause == SL_HANG_NOTHING || own->cause == SL_HANG_INSIDE ||
           (own->rank < 0 && other->rank >= 0);
}

sl_status sl_hang_recorders_join(const sl_hang_job *job, double least_s, sl_hang_job *from, const char *name,
                                 sl_hang_verdict *own, sl_hang_verdict *recorded) {
    *recorded = (sl_hang_verdict){.rank = -1};
    if (from->ranks == 0 || !is_whole(job, from, least_s))
        return SL_OK;
    SL_TRY(sl_torch_dump_finish(from));
    SL_TRY(sl_hang_diagnose(from, 0, recorded));
    if (recorded->cause == SL_HANG_NOTHING || recorded->cause == SL_HANG_INSIDE)
        return SL_OK;
    recorded->for_s = shortest_stand(job);
    char evidence[320];
    if (says_less(own, recorded)) {
        *own = *recorded;
        snprintf(evidence, sizeof evidence, "by %s", name);
    } else {
        snprintf(evidence, sizeof evidence, "%s: %s", name, recorded->seen);
    }
    sl_text_add(own->why, sizeof own->why, "; ", evidence);
    return SL_OK;
}
