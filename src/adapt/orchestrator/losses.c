/* Divides an iteration's loss among the slow components in proportion to what each would cost alone. The
 * total is at most what slow components explain, since an iteration may be long for other reasons. Also the
 * model that is asked for this. */
#include "adapt/orchestrator/orchestrator_inside.h"
#include "base/memory.h"

#include <math.h>

#define ERRORS 3.0     /* standard errors by which an iteration may exceed its measured time */
#define MAX_BLAMED 2.0 /* times a component's cost alone */

/* ---- input of the model ---- */

static sl_status remember(sl_orchestrator *o, const sl_slow_part *part) {
    for (size_t i = 0; i < o->losses.memories; i++)
        if (o->losses.memory[i].part.kind == part->kind && o->losses.memory[i].part.a == part->a &&
            o->losses.memory[i].part.b == part->b) {
            o->losses.memory[i].part = *part;
            o->losses.memory[i].left = SL_REMEMBERED;
            return SL_OK;
        }
    if (o->losses.memories == SL_CASES_MAX)
        return SL_OK;
    SL_TRY(
        sl_grow(&o->losses.memory, &o->losses.memory_room, o->losses.memories + 1, sizeof *o->losses.memory));
    o->losses.memory[o->losses.memories].part = *part;
    o->losses.memory[o->losses.memories++].left = SL_REMEMBERED;
    return SL_OK;
}

/* A connection that is no longer used ends its incident, but it is remembered for a while so that the next
 * layout avoids it. */
static sl_status remember_unused(sl_orchestrator *o) {
    const sl_problem *p = sl_healthy_of(o, 0);
    for (int i = 0; i < o->case_count; i++) {
        const sl_slow_part *part = &o->cases[i].view.part;
        if (o->cases[i].seen && part->kind == SL_PART_LINK && part->a >= 0)
            SL_TRY(remember(o, part));
    }
    size_t kept = 0;
    for (size_t i = 0; i < o->losses.memories; i++) {
        const sl_slow_part *part = &o->losses.memory[i].part;
        int used = sl_job_layout_talk(&o->config.job, &o->layout, p, part->a, part->b), seen = 0;
        for (int k = 0; k < o->case_count; k++)
            seen |= o->cases[k].seen && o->cases[k].view.part.kind == SL_PART_LINK &&
                    o->cases[k].view.part.a == part->a && o->cases[k].view.part.b == part->b;
        if (seen || (!used && --o->losses.memory[i].left > 0))
            o->losses.memory[kept++] = o->losses.memory[i];
    }
    o->losses.memories = kept;
    return SL_OK;
}

static sl_status show_model(sl_orchestrator *o) {
    int parts = 0;
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].seen && o->cases[i].view.part.a >= 0)
            o->losses.part[parts++] = o->cases[i].view.part;
    for (size_t i = 0; i < o->losses.memories; i++) {
        int seen = 0;
        for (int k = 0; k < parts; k++)
            seen |= o->losses.part[k].kind == SL_PART_LINK &&
                    o->losses.part[k].a == o->losses.memory[i].part.a &&
                    o->losses.part[k].b == o->losses.memory[i].part.b;
        if (!seen)
            o->losses.part[parts++] = o->losses.memory[i].part;
    }
    return sl_model_see(o->losses.model, o->losses.part, parts);
}

/* ---- losses ---- */

/* Sums of all stages of a rank share a connection. */
static void spoil_sums(const sl_orchestrator *o, const sl_case *c, sl_problem *p) {
    int found = 0;
    for (size_t i = 0; i < o->lately.count && !c->reported; i++) {
        const sl_slow *s = &o->lately.slow[i];
        if (s->kind != SL_SLOW_SUM || sl_problem_rank(p, s->stage) != c->rank)
            continue;
        p->reduce[s->stage] += (sl_time)(s->now - s->healthy);
        found = 1;
    }
    if (!found && c->cause == SL_CAUSE_REPLICA_LINK) /* as last measured */
        p->reduce[c->view.stage] += (sl_time)c->view.growth;
}

/* The replica's healthy problem with only that component slow. */
static void spoil(const sl_orchestrator *o, const sl_case *c, sl_problem *p) {
    const sl_slow_part *part = &c->view.part;
    double bytes = o->config.job.message;
    if (c->cause == SL_CAUSE_REPLICA_LINK || part->kind == SL_PART_CARD)
        spoil_sums(o, c, p);
    for (int stage = 0; part->kind == SL_PART_DEVICE && stage < p->stages; stage++)
        for (int kind = 0; kind < SL_OP_KINDS && sl_problem_rank(p, stage) == c->rank; kind++)
            p->time[kind][stage] = (sl_time)((double)p->time[kind][stage] * part->slowdown);
    for (int other = 0; other < p->ranks && c->cause != SL_CAUSE_REPLICA_LINK && part->kind != SL_PART_DEVICE;
         other++)
        for (int way = 0; way < 2; way++) {
            int rank = c->rank, at = part->kind == SL_PART_LINK ? -1 : way;
            if (part->kind == SL_PART_LINK) {
                int low = sl_cases_process(o, c->from, c->replica) == part->a ? c->from : c->to;
                rank = low;
                at = other == c->from + c->to - low ? way : -1;
            }
            if (at < 0 || other == rank)
                continue;
            sl_link *link = &p->link[way ? other * p->ranks + rank : rank * p->ranks + other];
            link->latency += (sl_time)part->latency[at];
            link->transfer += (sl_time)(part->pace[at] * bytes);
        }
}

static sl_status excess_of(sl_orchestrator *o, sl_case *c) {
    int replica = c->replica < 0 ? 0 : c->replica;
    const sl_problem *healthy = sl_healthy_of(o, replica);
    sl_problem spoilt;
    sl_time without, with = 0;
    SL_TRY(sl_problem_copy(healthy, &spoilt));
    spoilt.microbatches = o->layout.split[replica];
    sl_status status = sl_plans_time(o, o->side[replica].running, &spoilt, &without);
    if (status == SL_OK) {
        spoil(o, c, &spoilt);
        status = sl_plans_time(o, o->side[replica].running, &spoilt, &with);
    }
    sl_problem_free(&spoilt);
    c->excess = with > without ? (double)(with - without) : 0;
    return status;
}

double sl_losses_believed(sl_orchestrator *o) {
    return o->losses.believed > 0 ? o->losses.believed : sl_history_time(&o->series);
}

/* A loss that slow components cannot explain is not blamed on a slightly slow one. */
static sl_status believe(sl_orchestrator *o) {
    sl_time running;
    SL_TRY(sl_plans_running(o, &running));
    double now = fmax(sl_history_time(&o->series), sl_history_recent_time(&o->series));
    o->losses.believed = o->losses.healthy_time * (double)running / o->losses.healthy_model;
    if (now > 0 && !o->replayed)
        o->losses.believed = fmin(now + ERRORS * sl_history_time_error(&o->series), o->losses.believed);
    return SL_OK;
}

/* No component is blamed for more than twice its cost alone, since an iteration may also be long because of
 * mitigations that are no longer needed. */
sl_status sl_losses_divide(sl_orchestrator *o) {
    SL_TRY(remember_unused(o));
    SL_TRY(show_model(o));
    SL_TRY(believe(o));
    double now = sl_losses_believed(o), sum = 0,
           lost = now > o->losses.healthy_time ? 1 - o->losses.healthy_time / now : 0;
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        if (!c->seen)
            continue;
        SL_TRY(excess_of(o, c));
        sum += c->excess;
    }
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        double share = sum > 0 ? fmin(lost / sum, MAX_BLAMED / now) * c->excess : 0;
        c->view.loss = !c->seen ? 0 : c->claimed >= 0 ? c->claimed : share;
        c->costly = c->seen && c->view.loss >= SL_ITERATION_MIN / (1 + SL_ITERATION_MIN) ? c->costly + 1 : 0;
    }
    return SL_OK;
}

/* ---- healthy times ---- */

/* The iteration time if nothing is slow, with the initial layout and plans: once healthy times are known. */
static sl_status learn_healthy(sl_orchestrator *o) {
    double now = sl_history_time(&o->series);
    sl_time running;
    if (!o->series.learnt || now <= 0)
        return SL_OK;
    SL_TRY(o->config.paced ? sl_plans_healthy(o, &running) : sl_plans_running(o, &running));
    if (running <= 0)
        return SL_OK;
    o->losses.healthy_model = (double)running;
    o->losses.healthy_time = o->config.paced ? fmin(now, (double)running) : now;
    return SL_OK;
}

/* A component that was slow from the beginning has recovered, or the load change is permanent: the healthy
 * iteration time changes. */
static sl_status follow_healthy(sl_orchestrator *o) {
    sl_time healthy;
    int lower = sl_history_lower(&o->series), renewed = o->series.renewed && o->series.learnt;
    if (!lower && !renewed)
        return SL_OK;
    SL_TRY(sl_plans_healthy(o, &healthy));
    double share = (double)healthy / o->losses.healthy_model;
    if (share > 0 && (share < 1 || renewed)) {
        o->losses.healthy_time *= share;
        o->losses.healthy_model *= share;
    }
    if (share > 0 && share < 1 && !renewed) {
        o->series.iteration.time *= share;
        o->series.iteration.usual *= share;
    }
    for (int r = 0; r < o->config.job.replicas && o->improve; r++)
        o->side[r].fits = 0; /* a better plan may exist for what is healthy now */
    o->series.renewed = 0;
    return sl_losses_renew(o);
}

/* The time of healthy iterations is predicted until they are measured. */
sl_status sl_losses_rebase(sl_orchestrator *o) {
    sl_time healthy;
    for (int r = 0; r < o->config.job.replicas; r++)
        if (o->layout.split[r] == o->even[r])
            sl_plans_replace(&o->side[r].origin, o->side[r].first);
    sl_history_untimed(&o->series);
    SL_TRY(sl_plans_healthy(o, &healthy));
    if (o->losses.healthy_model > 0)
        o->losses.healthy_time *= (double)healthy / o->losses.healthy_model;
    o->losses.healthy_model = (double)healthy;
    o->losses.rebased = 1;
    return SL_OK;
}

/* Unless that is much longer than predicted: something may be slow. */
static sl_status measure_rebased(sl_orchestrator *o) {
    double now = sl_history_time(&o->series);
    sl_time running;
    if (!o->losses.rebased || o->case_count > 0 || now <= 0)
        return SL_OK;
    o->losses.rebased = 0;
    SL_TRY(sl_plans_running(o, &running));
    if (running > 0 && now < (1 + SL_ITERATION_MIN) * o->losses.healthy_time) {
        o->losses.healthy_time = now;
        o->losses.healthy_model = (double)running;
    }
    return SL_OK;
}

/* The first iterations may have been slow: until healthy times are settled, a lower time is learned again. */
static int may_be_less(const sl_orchestrator *o) {
    return o->case_count == 0 && !o->series.settled && o->series.quiet == 0;
}

sl_status sl_losses_learn(sl_orchestrator *o) {
    SL_TRY(o->losses.healthy_time > 0 ? follow_healthy(o) : SL_OK);
    SL_TRY(measure_rebased(o));
    double time = o->losses.healthy_time, model = o->losses.healthy_model;
    if (time > 0 && !may_be_less(o))
        return SL_OK;
    SL_TRY(learn_healthy(o));
    if (time > 0 && o->losses.healthy_time >= time) {
        o->losses.healthy_time = time;
        o->losses.healthy_model = model;
    }
    return SL_OK;
}

sl_status sl_losses_renew(sl_orchestrator *o) {
    if (o->losses.model && o->losses.renewed == o->series.learns)
        return SL_OK;
    for (int r = 0; r < o->config.job.replicas; r++)
        o->losses.healthy[r] = sl_healthy_of(o, r);
    if (o->losses.model)
        SL_TRY(sl_model_renew(o->losses.model, o->losses.healthy));
    o->losses.renewed = o->series.learns;
    return SL_OK;
}

sl_status sl_losses_open_model(sl_orchestrator *o) {
    if (o->losses.model)
        return SL_OK;
    SL_TRY(sl_losses_renew(o));
    return sl_model_open(&o->config.job, o->losses.healthy, &o->losses.model);
}
