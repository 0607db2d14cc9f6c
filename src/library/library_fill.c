/* Filling in a problem: stages, ranks and links, with the same checks as for files. */
#include "base/memory.h"
#include "library/library_handles.h"

static sl_status check_index(const char *what, int index, int count) {
    return index >= 0 && index < count
               ? SL_OK
               : sl_error(SL_EINVAL, "there is no %s %d: they count from 0 to %d", what, index, count - 1);
}

static sl_status check_time(const char *what, int64_t time, int64_t max_ms) {
    return time >= 0 && time <= max_ms * SL_MS ? SL_OK
                                               : sl_error(SL_EINVAL, "%s must be from 0 to %lld ns, got %lld",
                                                          what, (long long)(max_ms * SL_MS), (long long)time);
}

/* ---- stages ---- */

static sl_status check_stage(const sl_problem *p, int stage) {
    if (p->layers)
        return sl_error(SL_EINVAL, "the stages of this problem are cut from layers");
    return check_index("stage", stage, p->stages);
}

static sl_status check_op(const sl_problem *p, int stage, slackline_kind kind) {
    if ((int)kind < SL_F || (int)kind > SL_B)
        return sl_error(SL_EINVAL, "there is no op of kind %d", (int)kind);
    return check_stage(p, stage);
}

/* Removes the additions by overhead and recomputation, so that a stage can be changed; *input is the memory
 * that its F keeps. */
static void without_additions(sl_problem *p, int stage, double *input) {
    *input = p->delta[SL_F][stage];
    sl_problem_add_overhead(p, stage, -1);
    if (!p->recompute[stage])
        return;
    p->time[SL_I][stage] -= p->time[SL_F][stage];
    p->time[SL_B][stage] -= p->time[SL_F][stage];
    p->delta[SL_F][stage] += p->early[stage] - p->start[stage];
    p->early[stage] = p->start[stage];
}

static void with_additions(sl_problem *p, int stage, double input) {
    if (p->recompute[stage]) {
        p->time[SL_I][stage] += p->time[SL_F][stage];
        p->time[SL_B][stage] += p->time[SL_F][stage];
        p->early[stage] = p->start[stage] + (p->delta[SL_F][stage] - input);
        p->delta[SL_F][stage] = input;
    }
    sl_problem_add_overhead(p, stage, 1);
}

SL_PUBLIC slackline_status slackline_problem_set_time(slackline_problem *problem, int stage,
                                                      slackline_kind kind, int64_t time_ns) {
    sl_problem *p = &problem->problem;
    double input;
    SL_LIBRARY_TRY(check_op(p, stage, kind));
    SL_LIBRARY_TRY(
        check_time(sl_op_name((int)kind), time_ns, (int64_t)SL_MAX_OP_MS * (kind == SLACKLINE_B ? 2 : 1)));
    without_additions(p, stage, &input);
    p->time[kind][stage] = time_ns;
    if (kind == SLACKLINE_B)
        problem->full_time[stage] = time_ns != p->time[SL_I][stage] + p->time[SL_W][stage];
    if (!problem->full_time[stage])
        p->time[SL_B][stage] = p->time[SL_I][stage] + p->time[SL_W][stage];
    sl_time both = p->time[SL_F][stage] + p->time[SL_B][stage];
    p->saved[stage] = p->saved[stage] < both ? p->saved[stage] : both;
    with_additions(p, stage, input);
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_memory(slackline_problem *problem, int stage,
                                                        slackline_kind kind, double delta) {
    sl_problem *p = &problem->problem;
    double most = kind == SLACKLINE_B ? 2 * SL_MAX_MEMORY : SL_MAX_MEMORY, input;
    SL_LIBRARY_TRY(check_op(p, stage, kind));
    SL_LIBRARY_TRY(sl_library_number("a change of memory", delta, -most, most));
    without_additions(p, stage, &input);
    p->delta[kind][stage] = delta;
    if (kind == SLACKLINE_B)
        problem->full_memory[stage] = delta != p->delta[SL_I][stage] + p->delta[SL_W][stage];
    if (!problem->full_memory[stage])
        p->delta[SL_B][stage] = p->delta[SL_I][stage] + p->delta[SL_W][stage];
    with_additions(p, stage, input);
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_recompute(slackline_problem *problem, int stage, int wanted,
                                                           double input) {
    sl_problem *p = &problem->problem;
    double before;
    SL_LIBRARY_TRY(check_stage(p, stage));
    SL_LIBRARY_TRY(sl_library_number("the memory of a stage's input", input, 0, SL_MAX_MEMORY));
    without_additions(p, stage, &before);
    p->recompute[stage] = wanted != 0;
    with_additions(p, stage, input);
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_overhead(slackline_problem *problem, int64_t op_ns,
                                                          int64_t message_ns) {
    sl_problem *p = &problem->problem;
    SL_LIBRARY_TRY(check_time("the overhead of an op", op_ns, (int64_t)SL_MAX_OP_MS));
    SL_LIBRARY_TRY(check_time("the overhead of a message", message_ns, (int64_t)SL_MAX_OP_MS));
    for (int stage = 0; stage < p->stages; stage++)
        sl_problem_add_overhead(p, stage, -1);
    p->overhead_op = op_ns;
    p->overhead_message = message_ns;
    for (int stage = 0; stage < p->stages; stage++)
        sl_problem_add_overhead(p, stage, 1);
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_overlapped(slackline_problem *problem, int stage,
                                                            int64_t time_ns) {
    sl_problem *p = &problem->problem;
    double input;
    SL_LIBRARY_TRY(check_stage(p, stage));
    SL_LIBRARY_TRY(check_time("F and B together", time_ns, 3 * (int64_t)SL_MAX_OP_MS));
    without_additions(p, stage, &input);
    p->saved[stage] = p->time[SL_F][stage] + p->time[SL_B][stage] - time_ns;
    with_additions(p, stage, input);
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_collectives(slackline_problem *problem, int stage,
                                                             int64_t gather_ns, int64_t reduce_ns) {
    sl_problem *p = &problem->problem;
    SL_LIBRARY_TRY(check_index("stage", stage, p->stages));
    SL_LIBRARY_TRY(check_time("gather", gather_ns, (int64_t)SL_MAX_OP_MS));
    SL_LIBRARY_TRY(check_time("reduce", reduce_ns, (int64_t)SL_MAX_OP_MS));
    p->gather[stage] = gather_ns;
    p->reduce[stage] = reduce_ns;
    return SLACKLINE_OK;
}

/* ---- ranks, and the whole problem ---- */

/* After one rank has a limit, the others have the largest possible one, as in a file. */
SL_PUBLIC slackline_status slackline_problem_set_limit(slackline_problem *problem, int rank, double limit) {
    sl_problem *p = &problem->problem;
    SL_LIBRARY_TRY(check_index("rank", rank, p->ranks));
    SL_LIBRARY_TRY(sl_library_number("a memory limit", limit, 0, SL_MAX_MEMORY));
    if (p->layers)
        return sl_library_status(sl_error(SL_EINVAL, "the stages of this problem are cut from layers"));
    if (!p->limit) {
        SL_LIBRARY_TRY(sl_alloc(&p->limit, (size_t)p->ranks, sizeof *p->limit));
        for (int r = 0; r < p->ranks; r++)
            p->limit[r] = SL_MAX_MEMORY;
    }
    p->limit[rank] = limit;
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_host(slackline_problem *problem, int rank, int activations) {
    sl_problem *p = &problem->problem;
    SL_LIBRARY_TRY(check_index("rank", rank, p->ranks));
    SL_LIBRARY_TRY(sl_library_between("activations in host memory", activations, 0, SL_MAX_HOST));
    if (!p->host_limit && activations == 0)
        return SLACKLINE_OK;
    if (!p->host_limit)
        SL_LIBRARY_TRY(sl_alloc(&p->host_limit, (size_t)p->ranks, sizeof *p->host_limit));
    p->host_limit[rank] = activations;
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_offload(slackline_problem *problem, int stage,
                                                         int64_t time_ns) {
    sl_problem *p = &problem->problem;
    SL_LIBRARY_TRY(check_index("stage", stage, p->stages));
    SL_LIBRARY_TRY(check_time("a move to host memory", time_ns, (int64_t)SL_MAX_OP_MS));
    p->offload[stage] = time_ns;
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_parts(slackline_problem *problem, int parts) {
    sl_problem *p = &problem->problem;
    SL_LIBRARY_TRY(sl_library_between("parts", parts, 1, SL_MAX_PARTS));
    if ((int64_t)p->stages * p->microbatches * 3 * parts > SL_MAX_OPS)
        return sl_library_status(sl_error(SL_EINVAL,
                                          "%d stages and %d microbatches in %d parts make more than %d ops",
                                          p->stages, p->microbatches, parts, SL_MAX_OPS));
    p->parts = parts;
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_regime(slackline_problem *problem, slackline_regime regime,
                                                        int queue) {
    sl_problem *p = &problem->problem;
    if ((int)regime < SL_DECOUPLED || (int)regime > SL_BATCHED)
        return sl_library_status(sl_error(SL_EINVAL, "there is no communication regime %d", (int)regime));
    SL_LIBRARY_TRY(sl_library_between("queue", queue, 1, 65536));
    p->communication = (sl_regime)regime;
    p->queue = queue;
    return SLACKLINE_OK;
}

/* ---- links ---- */

static sl_status check_link(const sl_problem *p, int from, int to) {
    SL_TRY(check_index("rank", from, p->ranks));
    SL_TRY(check_index("rank", to, p->ranks));
    return from != to
               ? SL_OK
               : sl_error(SL_EINVAL, "a link joins two different ranks, not rank %d with itself", from);
}

SL_PUBLIC slackline_status slackline_problem_set_link(slackline_problem *problem, int from, int to,
                                                      int64_t latency_ns, int64_t transfer_ns) {
    sl_problem *p = &problem->problem;
    SL_LIBRARY_TRY(check_link(p, from, to));
    SL_LIBRARY_TRY(check_time("latency", latency_ns, (int64_t)SL_MAX_OP_MS));
    SL_LIBRARY_TRY(check_time("transfer", transfer_ns, (int64_t)SL_MAX_OP_MS));
    p->link[from * p->ranks + to] = (sl_link){.latency = latency_ns, .transfer = transfer_ns};
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_objective(slackline_problem *problem,
                                                           slackline_objective objective,
                                                           slackline_synchronization synchronization) {
    if ((int)objective < SL_MAKESPAN || (int)objective > SL_PERIOD)
        return sl_library_status(sl_error(SL_EINVAL, "there is no objective %d", (int)objective));
    if ((int)synchronization < SL_SYNC_NONE || (int)synchronization > SL_SYNC_NORM)
        return sl_library_status(sl_error(SL_EINVAL, "there is no synchronization %d", (int)synchronization));
    problem->problem.objective = (sl_objective)objective;
    problem->problem.synchronization = (sl_synchronization)synchronization;
    return SLACKLINE_OK;
}

/* A link's latency is the one that plans assume: the minimum plus the percentile of its jitter. */
static sl_status jittering(const sl_link *link, double before, double percentile, sl_time mean,
                           sl_link *changed) {
    double share = sl_jitter_share(sl_to_ms(mean), percentile);
    sl_time least = sl_link_least_latency(link, before);
    if (sl_to_ms(least) + share > SL_MAX_OP_MS)
        return sl_error(SL_EINVAL, "gives a latency of %g ms at percentile %g; at most %g",
                        sl_to_ms(least) + share, percentile, SL_MAX_OP_MS);
    *changed = (sl_link){.latency = least + sl_from_ms(share), .transfer = link->transfer, .jitter = mean};
    return SL_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_jitter(slackline_problem *problem, int from, int to,
                                                        int64_t mean_ns) {
    sl_problem *p = &problem->problem;
    SL_LIBRARY_TRY(check_link(p, from, to));
    SL_LIBRARY_TRY(check_time("jitter", mean_ns, (int64_t)SL_MAX_OP_MS));
    sl_link *link = &p->link[from * p->ranks + to];
    return sl_library_status(jittering(link, p->percentile, p->percentile, mean_ns, link));
}

SL_PUBLIC slackline_status slackline_problem_set_percentile(slackline_problem *problem, double percentile) {
    sl_problem *p = &problem->problem;
    sl_link changed;
    int links = p->ranks * p->ranks;
    SL_LIBRARY_TRY(sl_library_number("percentile", percentile, 0, 99.999));
    for (int i = 0; i < links; i++)
        SL_LIBRARY_TRY(jittering(&p->link[i], p->percentile, percentile, p->link[i].jitter, &changed));
    for (int i = 0; i < links; i++)
        SL_LIBRARY_TRY(jittering(&p->link[i], p->percentile, percentile, p->link[i].jitter, &p->link[i]));
    p->percentile = percentile;
    return SLACKLINE_OK;
}

/* Wires of several links are numbered in pairs, one per direction, from ranks * ranks on; the others by their
 * link. */
static sl_status take_wire(const sl_problem *p, int *wire, int from, int to, int number) {
    int *mine = &wire[from * p->ranks + to];
    if (*mine >= p->ranks * p->ranks)
        return sl_error(SL_EINVAL, "link %d-%d is already on a wire", from, to);
    *mine = number;
    return SL_OK;
}

static sl_status share_on(const sl_problem *p, int *wire, const int *from, const int *to, int links) {
    int all = p->ranks * p->ranks, most = all - 1;
    for (int i = 0; i < all; i++) {
        wire[i] = p->wire ? p->wire[i] : i;
        most = wire[i] > most ? wire[i] : most;
    }
    int pair = all + (most - all + 2) / 2 * 2;
    for (int i = 0; i < links; i++) {
        SL_TRY(check_link(p, from[i], to[i]));
        SL_TRY(take_wire(p, wire, from[i], to[i], pair));
        SL_TRY(take_wire(p, wire, to[i], from[i], pair + 1));
    }
    return SL_OK;
}

static sl_status share_links(sl_problem *p, const int *from, const int *to, int links) {
    int *wire;
    if (links < 1)
        return sl_error(SL_EINVAL, "a wire needs a link, got %d", links);
    SL_TRY(sl_alloc(&wire, (size_t)p->ranks * (size_t)p->ranks, sizeof *wire));
    sl_status status = share_on(p, wire, from, to, links);
    if (status != SL_OK) {
        sl_free(wire);
        return status;
    }
    sl_free(p->wire);
    p->wire = wire;
    return SL_OK;
}

SL_PUBLIC slackline_status slackline_problem_share_links(slackline_problem *problem, const int *from,
                                                         const int *to, int links) {
    return sl_library_status(share_links(&problem->problem, from, to, links));
}
