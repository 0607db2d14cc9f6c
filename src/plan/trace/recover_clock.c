/* Clocks: ranks of several hosts (or files) may count from different instants. A message cannot arrive before
 * it left; where one seems to, the least delays of the two directions between neighbouring ranks make a round
 * trip, and Cristian's method tells the offset and how far it may be off. Where nothing contradicts the
 * clocks they are left alone, for an offset of half a millisecond cannot be told from a link that is slower
 * in one direction. */
#include "base/memory.h"
#include "notice/record/offset.h"
#include "plan/trace/recover_parts.h"

#include <stdlib.h>

#define LARGEST 2000000000000000000 /* ns between two clocks */

/* Least apparent delay from rank to rank; SL_TIME_NEVER: no message. */
static sl_time least_delay(const sl_carried *carried, size_t count, int from, int to) {
    sl_time least = SL_TIME_NEVER;
    for (size_t i = 0; i < count; i++)
        if (carried[i].from == from && carried[i].to == to && carried[i].arrive - carried[i].ready < least)
            least = carried[i].arrive - carried[i].ready;
    return least;
}

/* How far the clock of `to` is ahead of that of `from`. */
static sl_time offset_between(const sl_carried *carried, size_t count, int from, int to, sl_time *error) {
    sl_time there = least_delay(carried, count, from, to), back = least_delay(carried, count, to, from);
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

/* In one file, or on one host. */
static int share_a_clock(const sl_recovery *r) {
    const sl_traced_process *first = &r->traced->process[r->result->process[0]];
    for (int rank = 1; rank < r->ranks; rank++) {
        const sl_traced_process *process = &r->traced->process[r->result->process[rank]];
        if (process->file != first->file && (process->host == 0 || process->host != first->host))
            return 0;
    }
    return 1;
}

sl_status sl_recover_clocks(sl_recovery *r, const sl_carried *carried, size_t count) {
    sl_recovered *result = r->result;
    SL_TRY(sl_alloc(&result->offset, (size_t)r->ranks, sizeof(sl_time)));
    SL_TRY(sl_alloc(&result->offset_error, (size_t)r->ranks, sizeof(sl_time)));
    if (r->options->shared_clock || share_a_clock(r))
        return SL_OK;
    for (int rank = 1; rank < r->ranks; rank++) {
        sl_time error, offset = offset_between(carried, count, rank - 1, rank, &error);
        if (llabs(offset) > LARGEST || llabs(result->offset[rank - 1]) > LARGEST || error > LARGEST)
            return sl_error(SL_EINVAL, "the clocks of the traces are %.3g s apart",
                            1e-9 * (double)llabs(offset));
        result->offset[rank] = result->offset[rank - 1] + offset;
        result->offset_error[rank] = result->offset_error[rank - 1] + error;
    }
    return SL_OK;
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
