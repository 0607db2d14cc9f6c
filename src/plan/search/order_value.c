#include "plan/search/order_value.h"
#include "base/memory.h"
#include "plan/lower/program.h"
#include "plan/timing/objective.h"

/* The maximum over ranks; returns whether all keep their limits. */
static int look_at_memory(const sl_problem *p, const double *peak, double *memory) {
    int fits = 1;
    for (int rank = 0; rank < p->ranks; rank++) {
        if (memory)
            *memory = rank == 0 || peak[rank] > *memory ? peak[rank] : *memory;
        fits &= !p->limit || peak[rank] <= p->limit[rank] * (1 + 1e-9);
    }
    return fits;
}

static sl_status replay(const sl_problem *p, const sl_program *program, sl_time *value, double *memory) {
    sl_timeline timeline;
    double *peak;
    SL_TRY(sl_replay(p, program, p->communication, p->queue, &timeline));
    sl_status status = sl_alloc(&peak, (size_t)p->ranks, sizeof *peak);
    if (status == SL_OK) {
        status = sl_peak_memory(p, &timeline, peak);
        *value = SL_TIME_NEVER;
        if (status == SL_OK && look_at_memory(p, peak, memory))
            status = sl_objective_value(p, program, &timeline, value);
        sl_free(peak);
    }
    sl_timeline_free(&timeline);
    return status;
}

sl_status sl_measure(const sl_problem *p, const sl_order *order, sl_time *value, double *memory) {
    sl_program program;
    SL_TRY(sl_lower(p, order, &program));
    sl_status status = replay(p, &program, value, memory);
    sl_program_free(&program);
    return status;
}
