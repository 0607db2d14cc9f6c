/* Clocks: ranks of several hosts (or files) may count from different instants. A message cannot arrive before
 * it left; if one seems to, the minimum delays of the two directions between neighboring ranks make a round
 * trip, and Cristian's method gives the offset and its error bound. If nothing contradicts the clocks, they
 * are not changed, because an offset of half a millisecond cannot be distinguished from a link that is slower
 * in one direction. */
#include "base/memory.h"
#include "notice/record/offset.h"
#include "plan/trace/recover_inside.h"

#include <stdlib.h>

#define LARGEST 2000000000000000000 /* ns between two clocks */

/* Minimum apparent delays of both directions between a rank and the one before; SL_TIME_NEVER: no message. */
typedef struct trip {
    sl_time there, back;
} trip;

static void find_trips(const sl_carried *carried, size_t count, trip *trips, int ranks) {
    for (int rank = 0; rank < ranks; rank++)
        trips[rank] = (trip){SL_TIME_NEVER, SL_TIME_NEVER};
    for (size_t i = 0; i < count; i++) {
        const sl_carried *c = &carried[i];
        sl_time *least = c->to == c->from + 1   ? &trips[c->to].there
                         : c->from == c->to + 1 ? &trips[c->from].back
                                                : NULL;
        if (least && c->arrive - c->ready < *least)
            *least = c->arrive - c->ready;
    }
}

/* By how much a rank's clock is ahead of the previous rank's. */
static sl_time offset_of(trip of, sl_time *error) {
    const sl_time there = of.there, back = of.back;
    *error = 0;
    if (there == SL_TIME_NEVER || back == SL_TIME_NEVER) {
        sl_time one = there != SL_TIME_NEVER ? there : back != SL_TIME_NEVER ? back : 0;
        if (one >= 0)
            return 0;
        *error = -one;
        return there != SL_TIME_NEVER ? one : -one;
    }
    if ((there >= 0 && back >= 0) || there + back < 0) /* below 0: labels begin with a wait, see align */
        return 0;
    sl_offset estimate = {0};
    sl_offset_add(&estimate, 0, there, there + back, 0);
    *error = estimate.error;
    return estimate.offset;
}

int sl_recover_share_a_clock(const sl_recovery *r) {
    const sl_traced_process *first = &r->traced->process[r->result->process[0]];
    for (int rank = 1; rank < r->ranks; rank++) {
        const sl_traced_process *process = &r->traced->process[r->result->process[rank]];
        if (process->file != first->file && (process->host == 0 || process->host != first->host))
            return 0;
    }
    return 1;
}

static sl_status add_offsets(sl_recovered *result, const trip *trips, int ranks) {
    for (int rank = 1; rank < ranks; rank++) {
        sl_time error, offset = offset_of(trips[rank], &error);
        if (llabs(offset) > LARGEST || llabs(result->offset[rank - 1]) > LARGEST || error > LARGEST)
            return sl_error(SL_EINVAL, "the clocks of the traces are %.3g s apart",
                            1e-9 * (double)llabs(offset));
        result->offset[rank] = result->offset[rank - 1] + offset;
        result->offset_error[rank] = result->offset_error[rank - 1] + error;
    }
    return SL_OK;
}

/* On one clock, no message of an iteration is under way for longer than the iteration lasts, forward or back
 * in time: else these are several hosts of one name, or several files merged into one. */
static int can_share(const sl_recovery *r, const trip *trips) {
    sl_time longest = 0;
    for (size_t i = 0, first = 0; i < r->chosens; i++) {
        first = r->chosen[first].rank == r->chosen[i].rank ? first : i;
        const sl_time lasted = r->chosen[i].of.end - r->chosen[first].of.start;
        longest = lasted > longest ? lasted : longest;
    }
    for (int rank = 1; rank < r->ranks; rank++) {
        const sl_time both[2] = {trips[rank].there, trips[rank].back};
        for (int i = 0; i < 2; i++)
            if (both[i] != SL_TIME_NEVER && llabs(both[i]) > longest)
                return 0;
    }
    return 1;
}

sl_status sl_recover_clocks(sl_recovery *r, const sl_carried *carried, size_t count) {
    sl_recovered *result = r->result;
    trip *trips;
    SL_TRY(sl_alloc(&result->offset, (size_t)r->ranks, sizeof(sl_time)));
    SL_TRY(sl_alloc(&result->offset_error, (size_t)r->ranks, sizeof(sl_time)));
    if (r->options->shared_clock)
        return SL_OK;
    SL_TRY(sl_alloc(&trips, (size_t)r->ranks, sizeof *trips));
    find_trips(carried, count, trips, r->ranks);
    sl_status status = SL_OK;
    if (!sl_recover_share_a_clock(r) || !can_share(r, trips))
        status = add_offsets(result, trips, r->ranks);
    sl_free(trips);
    return status;
}

void sl_recover_align(sl_recovery *r, sl_carried *carried, size_t count) {
    const sl_time *offset = r->result->offset;
    for (size_t i = 0; i < r->chosens; i++) {
        sl_traced_op *op = &r->chosen[i].of;
        op->start -= offset[r->chosen[i].rank];
        op->end -= offset[r->chosen[i].rank];
        op->work -= op->work >= 0 ? offset[r->chosen[i].rank] : 0;
    }
    for (size_t i = 0; i < count; i++) {
        sl_carried *c = &carried[i];
        sl_traced_op *needs = &r->chosen[c->consumer].of;
        c->ready -= offset[c->from];
        c->arrive -= offset[c->to];
        if (needs->work >= 0)
            needs->start = needs->work;
        if (c->consumer > 0 && r->chosen[c->consumer - 1].of.op.paired)
            continue; /* B of a pair begins after F, somewhere inside their label */
        if (needs->start >= c->ready)
            continue;
        if (c->ready - needs->start <= (needs->end - needs->start) / 10) { /* no clock is that exact */
            c->arrive = c->arrive < c->ready ? c->ready : c->arrive;
            continue;
        }
        needs->start = c->ready < needs->end ? c->ready : needs->end;
        r->result->waiting++;
        c->arrive = SL_TIME_NEVER;
        c->awaited = 0;
    }
}
