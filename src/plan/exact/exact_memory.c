#include "plan/exact/exact_memory.h"
#include "base/memory.h"

#include <math.h>

#define ALLOWANCE 1e-9      /* a peak over the limit by this much is accepted (plan.c) */
#define LARGEST 0x1p42      /* a sum of 2^20 of these is far from int64's end */
#define ROUNDED_LARGEST 1e6 /* when rounding: finer numbers would only slow the solver */

/* Every change of the problem, one after the other; kinds that are not in the model are left out. */
static double change_of(const sl_problem *p, int stage, int which) {
    switch (which) {
    case 0:
        return p->delta[SL_F][stage];
    case 1:
        return p->early[stage];
    case 2:
        return p->delta[SL_I][stage];
    default:
        return p->delta[SL_W][stage];
    }
}

static int64_t *field_of(sl_exact_change *change, int which) {
    int64_t *const fields[] = {&change->forward, &change->early, &change->input, &change->weight};
    return fields[which];
}

static int fits(const sl_problem *p, double scale) {
    for (int stage = 0; stage < p->stages; stage++)
        for (int which = 0; which < 4; which++) {
            double value = change_of(p, stage, which) * scale;
            if (fabs(value) > LARGEST || fabs(value - nearbyint(value)) > 1e-10 * fmax(1, fabs(value)))
                return 0;
        }
    for (int rank = 0; rank < p->ranks; rank++)
        if (p->limit[rank] * scale > LARGEST)
            return 0;
    return 1;
}

/* Whole numbers, binary and decimal fractions have a scale; 0 if there is none. */
static double find_scale(const sl_problem *p) {
    double ten = 1;
    for (int digits = 0; digits <= 6; digits++, ten *= 10)
        if (fits(p, ten))
            return ten;
    for (double two = 2; two <= 1 << 20; two *= 2)
        if (fits(p, two))
            return two;
    return 0;
}

static double rounding_scale(const sl_problem *p) {
    double largest = 0;
    for (int stage = 0; stage < p->stages; stage++)
        for (int which = 0; which < 4; which++)
            largest = fmax(largest, fabs(change_of(p, stage, which)));
    return largest > 0 ? ROUNDED_LARGEST / largest : 1;
}

static int64_t divisor(int64_t a, int64_t b) {
    a = a < 0 ? -a : a;
    b = b < 0 ? -b : b;
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Changes in their common unit: limits are rounded down to sums that changes can reach. */
static void reduce(const sl_problem *p, sl_exact_memory *memory) {
    int64_t unit = 0;
    for (int stage = 0; stage < p->stages; stage++)
        for (int which = 0; which < 4; which++)
            unit = divisor(unit, *field_of(&memory->change[stage], which));
    if (unit < 2)
        return;
    for (int stage = 0; stage < p->stages; stage++)
        for (int which = 0; which < 4; which++)
            *field_of(&memory->change[stage], which) /= unit;
    for (int rank = 0; rank < p->ranks; rank++)
        memory->limit[rank] /= unit;
}

sl_status sl_exact_memory_make(const sl_problem *p, sl_exact_memory *memory) {
    *memory = (sl_exact_memory){0};
    SL_TRY(sl_alloc(&memory->change, (size_t)p->stages, sizeof *memory->change));
    SL_TRY(sl_alloc(&memory->limit, (size_t)p->ranks, sizeof *memory->limit));
    double scale = find_scale(p);
    memory->exact = scale > 0;
    if (!memory->exact)
        scale = rounding_scale(p);
    for (int stage = 0; stage < p->stages; stage++)
        for (int which = 0; which < 4; which++) {
            double value = change_of(p, stage, which) * scale;
            *field_of(&memory->change[stage], which) =
                (int64_t)(memory->exact ? nearbyint(value) : ceil(value - 1e-6));
        }
    for (int rank = 0; rank < p->ranks; rank++) /* a limit above all sums has no effect */
        memory->limit[rank] =
            (int64_t)floor(fmin(p->limit[rank] * scale * (memory->exact ? 1 + ALLOWANCE : 1), 0x1p60));
    if (memory->exact)
        reduce(p, memory);
    return SL_OK;
}

void sl_exact_memory_free(sl_exact_memory *memory) {
    SL_FREE(memory->change, memory->limit);
    *memory = (sl_exact_memory){0};
}
