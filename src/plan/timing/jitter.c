#include "plan/timing/jitter.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "base/random.h"
#include "plan/timing/replay.h"

#include <math.h>
#include <stdlib.h>

typedef struct drawing {
    const sl_problem *problem;
    const sl_program *program;
    sl_replayer *replayer;
    sl_time *latency;  /* [messages] */
    sl_time *makespan; /* [draws] */
} drawing;

/* A number for the activation or gradient of a stage and microbatch, whichever op makes the gradient. */
static uint64_t number_of(const sl_problem *p, const sl_op *op) {
    uint64_t index = (uint64_t)op->stage * (uint64_t)p->microbatches + (uint64_t)op->microbatch;
    return 2 * index + (op->kind == SL_F ? 0 : 1);
}

/* No delay exceeds the limits of a problem, so sums stay inside int64. */
static sl_time delayed(const sl_problem *p, const sl_message *message, uint64_t key) {
    const sl_link *link = &p->link[(size_t)message->from * (size_t)p->ranks + (size_t)message->to];
    double unit = sl_random_unit(sl_random_mix(key + number_of(p, &message->op) * SL_RANDOM_STEP));
    double delay = -(double)link->jitter * log(unit), most = SL_MAX_OP_MS * (double)SL_MS;
    double latency = (double)sl_link_least_latency(link, p->percentile) + delay;
    return latency < most ? (sl_time)(latency + 0.5) : (sl_time)most;
}

static sl_status run(drawing *d, int draws, uint64_t seed) {
    sl_replayer_delay(d->replayer, d->latency);
    for (int i = 0; i < draws; i++) {
        uint64_t key = sl_random_mix(sl_random_mix(seed + SL_RANDOM_STEP) + (uint64_t)i * SL_RANDOM_STEP);
        for (int m = 0; m < d->program->messages; m++)
            d->latency[m] = delayed(d->problem, &d->program->message[m], key);
        d->makespan[i] = sl_replayer_run(d->replayer, NULL);
        if (d->makespan[i] == SL_TIME_NEVER)
            return sl_error(SL_EINVAL, "deadlock: the ranks wait for each other's messages");
    }
    return SL_OK;
}

static sl_time nearest_rank(const sl_time *sorted, int draws, int percent) {
    int64_t rank = ((int64_t)draws * percent + 99) / 100;
    return sorted[rank > 1 ? rank - 1 : 0];
}

static void sum_up(sl_time *makespan, sl_jitter *jitter) {
    int draws = jitter->draws;
    qsort(makespan, (size_t)draws, sizeof *makespan, sl_ascending_times);
    double beyond = 0; /* relative to the smallest, so that the sum keeps its digits */
    for (int i = 0; i < draws; i++)
        beyond += (double)(makespan[i] - makespan[0]);
    jitter->mean = (double)makespan[0] + beyond / draws;
    jitter->least = makespan[0];
    jitter->most = makespan[draws - 1];
    jitter->p10 = nearest_rank(makespan, draws, 10);
    jitter->p50 = nearest_rank(makespan, draws, 50);
    jitter->p90 = nearest_rank(makespan, draws, 90);
    jitter->p99 = nearest_rank(makespan, draws, 99);
}

sl_status sl_jitter_replay(const sl_problem *problem, const sl_program *program, int draws, uint64_t seed,
                           sl_jitter *jitter) {
    drawing d = {.problem = problem, .program = program};
    sl_status status;
    if (draws < 1 || draws > SL_MAX_DRAWS)
        return sl_error(SL_EINVAL, "jitter needs 1 to %d draws, got %d", SL_MAX_DRAWS, draws);
    *jitter = (sl_jitter){.draws = draws, .seed = seed};
    SL_TRY_GOTO(done, status, sl_alloc(&d.latency, (size_t)program->messages, sizeof *d.latency));
    SL_TRY_GOTO(done, status, sl_alloc(&d.makespan, (size_t)draws, sizeof *d.makespan));
    SL_TRY_GOTO(done, status, sl_replayer_open(problem, program, &d.replayer));
    SL_TRY_GOTO(done, status, run(&d, draws, seed));
    sum_up(d.makespan, jitter);
done:
    sl_replayer_close(d.replayer);
    SL_FREE(d.latency, d.makespan);
    return status;
}
