/* The maximum time of an iteration in any order: everything one after the other. */
#include "plan/pipeline/layers.h"
#include "plan/pipeline/problem_read.h"

#include <math.h>

/* No exponential delay that a generator of 53 bits draws is longer than 37 times the mean. */
#define LONGEST_DRAW 40

/* The message from one stage to another, for one microbatch. */
static double message_ms(const sl_problem *p, int from_stage, int to_stage) {
    int from = sl_problem_rank(p, from_stage), to = sl_problem_rank(p, to_stage);
    const sl_link *link = &p->link[from * p->ranks + to];
    return from == to
               ? 0
               : sl_to_ms(link->latency) + sl_to_ms(link->transfer) + LONGEST_DRAW * sl_to_ms(link->jitter);
}

/* Ops of one microbatch on a stage. A pair may be slower than its ops, if `saved` is below 0. */
static double ops_ms(const sl_problem *p, int stage) {
    double f = sl_to_ms(p->time[SL_F][stage]), b = sl_to_ms(p->time[SL_B][stage]),
           split = sl_to_ms(p->time[SL_I][stage]) + sl_to_ms(p->time[SL_W][stage]);
    return f + fmax(b, split) + fmax(-sl_to_ms(p->saved[stage]), 0);
}

/* All layers for one microbatch, for any cut: on the slowest rank. */
static double layers_ms(const sl_problem *p) {
    const sl_layers *l = p->layers;
    double sum = 0, slowest = 0;
    for (int rank = 0; rank < p->ranks; rank++)
        slowest = fmax(slowest, 1 / l->speed[rank]);
    for (int layer = 0; layer < l->count; layer++)
        sum += 2 * sl_to_ms(l->time[SL_F][layer]) + /* with recomputation */
               fmax(sl_to_ms(l->time[SL_B][layer]),
                    sl_to_ms(l->time[SL_I][layer]) + sl_to_ms(l->time[SL_W][layer]));
    return sum * slowest;
}

/* Of the ops of one microbatch on a stage. */
static double overhead_ms(const sl_problem *p, int stage) {
    return sl_to_ms(sl_problem_overhead(p, SL_F, stage) + sl_problem_overhead(p, SL_I, stage) +
                    sl_problem_overhead(p, SL_W, stage));
}

double sl_problem_total_ms(const sl_problem *p) {
    double total = p->layers ? p->microbatches * layers_ms(p) : 0;
    for (int stage = 0; stage < p->stages; stage++) {
        int next = sl_problem_next(p, stage);
        double once = p->layers ? overhead_ms(p, stage) : ops_ms(p, stage);
        if (next >= 0)
            once += message_ms(p, stage, next) + message_ms(p, next, stage);
        if (sl_problem_offloads(p))
            once += 4 * sl_to_ms(p->offload[stage]); /* out and back, twice */
        total += sl_problem_microbatches(p, stage) * once + sl_to_ms(p->gather[stage]) +
                 sl_to_ms(p->reduce[stage]);
    }
    return total;
}

sl_status sl_check_total(const sl_yaml *pipeline, const sl_problem *p) {
    double total = sl_problem_total_ms(p);
    return total <= SL_MAX_TOTAL_MS
               ? SL_OK
               : sl_yaml_error(sl_yaml_find(pipeline, "microbatches"),
                               "makes ops and messages that take %g ms one after the other; at most %g",
                               total, SL_MAX_TOTAL_MS);
}
