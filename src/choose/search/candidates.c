#include "choose/search/candidates.h"
#include "base/signals.h"
#include "choose/search/shape_split.h"
#include "plan/pipeline/layers.h"

#include <math.h>
#include <stdlib.h>

#define BLOCK 32 /* shapes that a thread takes at once */

/* Each field is written before the threads start, but `next`, with the lock, and `failed`. A candidate is
 * written by the thread that took its block. */
typedef struct bound_work {
    const sl_shape_planning *planning;
    sl_candidate *candidate;
    size_t count;
    pthread_mutex_t lock;
    size_t next;
    atomic_int failed;
} bound_work;

/* What a plan may take, to begin with the most promising: 1F1B fills and drains through all ranks, and with
 * less memory than one microbatch per rank, ranks wait. Never below the bound. */
static void guess(const sl_problem *p, int is_plain, sl_candidate *c) {
    const sl_layers *l = p->layers;
    double work = 0, kept = 0, weights = 0, hosted = 0, device = 0, host = 0;
    for (int layer = 0; layer < l->count; layer++) {
        work += (double)(l->time[SL_F][layer] + l->time[SL_B][layer]);
        kept += c->shape.again ? l->input[layer] : l->delta[SL_F][layer];
        weights += l->weights[layer];
        hosted += l->hosted ? l->hosted[layer] : 0;
    }
    for (int rank = 0; rank < p->ranks && l->memory; rank++) {
        device += l->memory[rank];
        host += p->host_limit ? l->host_memory : 0;
    }
    double rank_work = work / p->ranks, fill = (p->ranks - 1) * rank_work / c->shape.chunks,
           needed = fmin(p->microbatches, p->ranks),
           has = l->memory ? (device + host - weights) / kept : INFINITY, again = c->shape.again ? 1.3 : 1;
    c->guess =
        fmax((double)c->bound.time, (p->microbatches * rank_work * again * fmax(1, needed / has)) + fill);
    if (is_plain)
        c->turn = SL_TURN_PLAIN;
    else
        c->turn =
            l->memory && (device - weights - hosted) / kept >= 2 * needed ? SL_TURN_ROOMY : SL_TURN_HOSTED;
}

static sl_status bound_one(const sl_shape_planning *planning, sl_candidate *c) {
    const int allowed = planning->options->fixed.offload;
    const int is_plain = c->shape.offload == SL_HOST_NOTHING || (allowed >= 0 && !(allowed & 1));
    sl_problem p;
    sl_shape_parts parts;
    c->estimate = INFINITY;
    c->turn = is_plain ? SL_TURN_PLAIN : SL_TURN_HOSTED;
    sl_status status;
    if (c->shape.uneven)
        status = sl_split_bound(planning, &c->shape, &c->bound, &c->guess);
    else {
        status = sl_shape_problem_of(planning, &c->shape, c->shape.microbatches, &p, &parts);
        SL_THEN(status, sl_shape_bound_of(&p, &parts, &c->bound));
        if (status == SL_OK)
            guess(&p, is_plain, c);
        sl_problem_free(&p);
    }
    if (status == SL_EINVAL) { /* beyond the planner's limits */
        c->bound.time = SL_TIME_NEVER;
        return SL_OK;
    }
    return status;
}

static int is_stopped(const bound_work *w) {
    const atomic_int *stop = w->planning->options->stop;
    return stop && atomic_load(stop);
}

static sl_status bound_some(void *object) {
    bound_work *w = object;
    sl_status status = SL_OK;
    while (status == SL_OK) {
        pthread_mutex_lock(&w->lock);
        size_t first = w->next;
        int ends = first >= w->count || atomic_load(&w->failed) || (first > 0 && is_stopped(w));
        w->next += ends ? 0 : BLOCK;
        pthread_mutex_unlock(&w->lock);
        if (ends)
            break;
        for (size_t i = first; i < first + BLOCK && i < w->count && status == SL_OK; i++)
            status = bound_one(w->planning, &w->candidate[i]);
    }
    return status;
}

/* The threads only read positions. */
static sl_status make_positions(const sl_shape_planning *planning, const sl_candidate *c, size_t count) {
    const sl_positions *positions;
    for (size_t i = 0; i < count; i++)
        SL_TRY(sl_positions_of(planning->positions, &c[i].shape, &positions));
    return SL_OK;
}

static int by_turn(const void *a, const void *b) {
    const sl_candidate *x = a, *y = b;
    if (x->turn != y->turn)
        return x->turn < y->turn ? -1 : 1;
    return x->guess < y->guess ? -1 : x->guess > y->guess;
}

sl_status sl_candidates_bound(const sl_shape_planning *planning, int threads, sl_candidate *c, size_t *count,
                              int *cut_short) {
    bound_work w = {.planning = planning, .candidate = c, .count = *count, .lock = PTHREAD_MUTEX_INITIALIZER};
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++)
        c[i].guess = -1;
    SL_TRY(make_positions(planning, c, *count));
    sl_status status = sl_threads_join_in(threads, bound_some, &w, &w.failed);
    pthread_mutex_destroy(&w.lock);
    SL_TRY(status);
    *cut_short = w.next < *count;
    for (size_t i = 0; i < *count && i < w.next; i++)
        if (c[i].bound.time < SL_TIME_NEVER)
            c[kept++] = c[i];
    *count = kept;
    qsort(c, kept, sizeof *c, by_turn);
    return kept ? SL_OK : sl_error(SL_ENONE, "no shape of the model fits into the memory of the devices");
}
