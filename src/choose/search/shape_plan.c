#include "choose/search/shape_plan.h"
#include "base/memory.h"
#include "plan/family/family.h"
#include "plan/pipeline/layers.h"
#include "plan/search/layer_cut.h"
#include "plan/search/replan.h"

#include <math.h>

void sl_choice_free(sl_choice *c) {
    sl_plan_free(&c->plan);
    sl_problem_free(&c->problem);
    SL_FREE(c->split, c->device);
    c->split = c->device = NULL;
}

int sl_choice_microbatches(const sl_choice *c, int replica) {
    return c->split ? c->split[replica] : c->shape.microbatches;
}

int sl_choice_device(const sl_choice *c, int rank) {
    const sl_shape *s = &c->shape;
    int tensor = s->division.tensor, context = s->division.context,
        at = sl_shape_device(s, rank % tensor, rank / tensor % context, rank / tensor / context % s->data,
                             rank / tensor / context / s->data);
    return c->device ? c->device[at] : at;
}

sl_status sl_shape_problem_of(const sl_shape_planning *s, const sl_shape *shape, int microbatches,
                              sl_problem *p, sl_shape_parts *parts) {
    const sl_positions *positions;
    *p = (sl_problem){0};
    SL_TRY(sl_positions_of(s->positions, shape, &positions));
    return sl_shape_problem(s->model, s->devices, positions, shape, microbatches, p, parts);
}

/* ---- plans ---- */

/* The best of the allowed families for the cut at hand. */
static sl_status plan_allowed(const sl_shape_planning *s, const sl_problem *p, sl_plan *plan) {
    sl_status status = SL_OK;
    for (const char *const *name = s->options->schedules; *name; name++) {
        const sl_family *family = sl_family_find(*name);
        sl_plan other;
        if (!family || !sl_family_fits(family, p))
            continue;
        status = sl_plan_make(p, *name, &other);
        if (status == SL_OK && (!plan->schedule[0] || other.value < plan->value)) {
            sl_plan_free(plan);
            *plan = other;
        } else
            sl_plan_free(&other);
        if (status != SL_OK && status != SL_ENONE)
            return status;
    }
    return plan->schedule[0] ? SL_OK : sl_error(SL_ENONE, "none of the schedules is possible");
}

sl_status sl_shape_plan_quickly(const sl_shape_planning *s, sl_problem *p, sl_plan *plan) {
    if (p->layers)
        SL_TRY(sl_cut_balance(p));
    if (s->options->schedules)
        return plan_allowed(s, p, plan);
    return sl_replan(p, &(sl_replan_options){.schedule = "auto"}, plan);
}

static sl_status search(const sl_shape_planning *s, sl_problem *p, double seconds, int threads,
                        sl_plan *plan) {
    const sl_plan_options options = {.schedule = "auto",
                                     .time_limit = seconds,
                                     .seed = s->options->seed,
                                     .threads = threads,
                                     .stop = s->options->stop};
    return seconds > 0 && !s->options->schedules ? sl_plan_problem(p, &options, plan)
                                                 : sl_shape_plan_quickly(s, p, plan);
}

sl_status sl_shape_plan_cut(const sl_shape_planning *s, const sl_problem *p, double seconds, int threads,
                            sl_plan *plan) {
    sl_problem stages;
    SL_TRY(sl_problem_copy(p, &stages));
    sl_layers_free(stages.layers);
    stages.layers = NULL;
    sl_status status = search(s, &stages, seconds, threads, plan);
    sl_problem_free(&stages);
    return status;
}

sl_status sl_shape_plan(const sl_shape_planning *s, const sl_shape *shape, sl_time bound, double seconds,
                        int threads, sl_choice *made) {
    *made = (sl_choice){.shape = *shape};
    SL_TRY(sl_shape_problem_of(s, shape, shape->microbatches, &made->problem, &made->parts));
    SL_TRY(search(s, &made->problem, seconds, threads, &made->plan));
    sl_shape_measure(s, made);
    made->bound = sl_later(bound, made->plan.bound + (sl_time)(made->parts.update * 1e9));
    return SL_OK;
}

/* ---- what it takes ---- */

double sl_shape_besides(const sl_problem *p, const sl_shape_parts *parts) {
    return (double)p->gather[0] + parts->update * 1e9;
}

double sl_shape_memory(const sl_problem *p, const sl_plan *plan) {
    double most = 0;
    for (int rank = 0; rank < p->ranks; rank++)
        most = fmax(most, plan->peak_memory[rank]);
    return most;
}

/* What stays in host memory, and the most activations there at once. */
static double largest_host(const sl_problem *p, const sl_plan *plan) {
    const sl_layers *l = p->layers;
    double most = 0;
    for (int rank = 0; rank < p->ranks; rank++) {
        double mine = 0, largest = 0;
        for (int stage = 0; stage < p->stages; stage++) {
            if (sl_problem_rank(p, stage) != rank)
                continue;
            largest = fmax(largest, fmax(sl_problem_kept(p, stage, 0), sl_problem_kept(p, stage, 1)));
            for (int layer = l->first[stage]; layer < l->first[stage + 1] && l->hosted; layer++)
                mine += l->hosted[layer];
        }
        most = fmax(most, mine + (p->host_limit ? plan->peak_host[rank] * largest : 0));
    }
    return most;
}

/* Messages of a microbatch on a link. */
static double busiest_link(const sl_problem *p) {
    double most = 0;
    for (int rank = 0; rank < p->ranks; rank++)
        for (int other = 0; other < rank; other++) {
            const sl_link *one = &p->link[rank * p->ranks + other], *back = &p->link[other * p->ranks + rank];
            double transfer = (double)sl_later(one->transfer, back->transfer);
            int passes = 0; /* activations on one direction, and gradients of those on the other */
            for (int stage = 0; stage + 1 < p->stages && transfer > 0; stage++) {
                int from = sl_problem_rank(p, stage), to = sl_problem_rank(p, stage + 1);
                passes += (from == rank && to == other) || (from == other && to == rank);
            }
            most = fmax(most, passes * transfer);
        }
    return most;
}

double sl_shape_busiest(const sl_problem *p) {
    double most = busiest_link(p);
    for (int rank = 0; rank < p->ranks; rank++) {
        double work = 0;
        for (int stage = 0; stage < p->stages; stage++)
            if (sl_problem_rank(p, stage) == rank)
                work +=
                    (double)(p->time[SL_F][stage] +
                             sl_sooner(p->time[SL_B][stage], p->time[SL_I][stage] + p->time[SL_W][stage]));
        most = fmax(most, work);
    }
    return most;
}

void sl_shape_measure(const sl_shape_planning *s, sl_choice *made) {
    made->time = made->plan.value + (sl_time)sl_shape_besides(&made->problem, &made->parts);
    made->memory = sl_shape_memory(&made->problem, &made->plan);
    made->host_memory = largest_host(&made->problem, &made->plan);
    made->tokens_per_s = (double)s->model->sequences * s->model->context / ((double)made->time / 1e9);
}
