/* The report of slackline profile, and the problem file's head. */
#include "cli/profile.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

static double ms(sl_time t) {
    return sl_to_ms(t);
}

static const sl_traced_iteration *chosen(const sl_profiling *p) {
    return &p->recovered.iteration[p->recovered.chosen];
}

static int whole_iterations(const sl_profiling *p) {
    int count = 0;
    for (int i = 0; i < p->recovered.iterations; i++)
        count += p->recovered.iteration[i].complete;
    return count;
}

/* How much longer `time` is than `base`, in parts of base. */
static double longer(sl_time time, sl_time base) {
    return base > 0 ? (double)(time - base) / (double)base : 0;
}

static void put_change(FILE *out, double share) {
    fprintf(out, "%.1f %% %s", 100 * fabs(share), share > 0 ? "more" : "less");
}

/* ---- text ---- */

static void print_head(const sl_profiling *p, FILE *out) {
    const sl_problem *problem = &p->recovered.problem;
    fprintf(out,
            "%d rank%s, %d stage%s (%s), %d microbatch%s; %d iteration%s traced, %d whole; shown: iteration "
            "%lld\n\n",
            problem->ranks, problem->ranks == 1 ? "" : "s", problem->stages, problem->stages == 1 ? "" : "s",
            sl_placement_name(problem->placement), problem->microbatches,
            problem->microbatches == 1 ? "" : "es", p->recovered.iterations,
            p->recovered.iterations == 1 ? "" : "s", whole_iterations(p), (long long)chosen(p)->number);
}

static void print_stages(const sl_profiling *p, FILE *out) {
    const sl_problem *problem = &p->recovered.problem;
    fprintf(out, "stage  rank        F ms        I ms        W ms        B ms\n");
    for (int stage = 0; stage < problem->stages; stage++) {
        fprintf(out, "%5d  %4d", stage, sl_problem_rank(problem, stage));
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            fprintf(out, "  %10.4g", ms(problem->time[kind][stage]));
        fputc('\n', out);
    }
    fputc('\n', out);
}

static void print_link(const sl_profiling *p, int from, int to, FILE *out) {
    int at = from * p->recovered.problem.ranks + to;
    const sl_link *link = &p->recovered.problem.link[at];
    const sl_traced_link *told = &p->recovered.link[at];
    if (told->messages == 0)
        return;
    fprintf(out, "link %d to %d: %s%.4g ms", from, to, told->awaited ? "" : "at most ",
            ms(link->latency + link->transfer));
    if (told->queued)
        fprintf(out, ", of which a transfer takes %.4g ms", ms(link->transfer));
    if (told->bytes > 0)
        fprintf(out, "; %.6g MB a message", told->bytes / 1e6);
    fprintf(out, " (%d messages, %d waited for)\n", told->messages, told->awaited);
}

static void print_links(const sl_profiling *p, FILE *out) {
    int ranks = p->recovered.problem.ranks;
    for (int from = 0; from < ranks; from++)
        for (int to = 0; to < ranks; to++)
            print_link(p, from, to, out);
    for (int rank = 0; rank < ranks; rank++)
        if (p->recovered.offset[rank] || p->recovered.offset_error[rank])
            fprintf(out, "clock of rank %d: %.6g ms ahead of rank 0's, to within %.4g ms\n", rank,
                    ms(p->recovered.offset[rank]), ms(p->recovered.offset_error[rank]));
}

static void print_plan(const char *what, const sl_profiling *p, const sl_plan *plan, FILE *out) {
    fprintf(out, "%-16s %.6g ms", what, ms(plan->makespan));
    if (plan->makespan < p->simulated.makespan) {
        fprintf(out, ", ");
        put_change(out, longer(plan->makespan, p->simulated.makespan));
    } else {
        fprintf(out, ", no less");
    }
    fprintf(out, " than the traced order simulated (%s%s)\n", plan->schedule,
            plan->makespan == plan->bound ? ", proven optimal" : "");
}

static void print_notes(const sl_profiling *p, FILE *out) {
    const sl_recovered *r = &p->recovered;
    if (r->halved)
        fprintf(out, "I and W of %d stages were not traced apart: each is taken as half of B\n", r->halved);
    if (r->waiting)
        fprintf(out, "%d ops began before their input had left its rank: they count from then\n", r->waiting);
    if (r->overlapping)
        fprintf(out,
                "%d ops began before the one before them had ended (the first on rank %d, %s): the problem "
                "runs one "
                "at a time\n",
                r->overlapping, r->overlapping_rank,
                sl_traced_file(&p->traced, r->process[r->overlapping_rank]));
    if (p->traced.on_gpu)
        fprintf(out, "ops take from their first kernel on the GPU to the last\n");
    if (r->left_out)
        fprintf(out, "%d ops of other replicas than 0 were left out\n", r->left_out);
}

sl_status sl_profiling_print_text(const sl_profiling *p, FILE *out) {
    sl_time traced = sl_timeline_makespan(&p->recovered.timeline);
    print_head(p, out);
    print_stages(p, out);
    print_links(p, out);
    fprintf(out, "\n%-16s %.6g ms\n%-16s %.6g ms, ", "traced", ms(traced), "simulated",
            ms(p->simulated.makespan));
    if (fabs(longer(p->simulated.makespan, traced)) >= 0.0005) {
        put_change(out, longer(p->simulated.makespan, traced));
        fprintf(out, " than traced\n");
    } else {
        fprintf(out, "as traced\n");
    }
    print_plan("better plan", p, &p->within, out);
    print_plan("without a limit", p, &p->free, out);
    fprintf(out,
            "A better plan holds no more on any rank than the traced order does; without a limit it may.\n");
    print_notes(p, out);
    if (!p->problem_file)
        fprintf(out, "\nThe problem can be written: -o problem.yaml\n");
    return SL_OK;
}

/* ---- JSON ---- */

static json_t *plan_json(const sl_profiling *p, const sl_plan *plan) {
    return json_pack("{s:s, s:f, s:f, s:f}", "schedule", plan->schedule, "makespan_ms", ms(plan->makespan),
                     "lower_bound_ms", ms(plan->bound), "gain",
                     -longer(plan->makespan, p->simulated.makespan));
}

static json_t *times_json(const sl_problem *problem) {
    json_t *times = json_object();
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        json_t *list = json_array();
        for (int stage = 0; stage < problem->stages; stage++)
            json_array_append_new(list, json_real(ms(problem->time[kind][stage])));
        json_object_set_new(times, sl_op_name(kind), list);
    }
    return times;
}

static json_t *links_json(const sl_profiling *p) {
    json_t *links = json_array();
    int ranks = p->recovered.problem.ranks;
    for (int at = 0; at < ranks * ranks; at++) {
        const sl_link *link = &p->recovered.problem.link[at];
        const sl_traced_link *told = &p->recovered.link[at];
        if (told->messages)
            json_array_append_new(
                links,
                json_pack("{s:i, s:i, s:f, s:f, s:o, s:i, s:i, s:i}", "from", at / ranks, "to", at % ranks,
                          "latency_ms", ms(link->latency), "transfer_ms", ms(link->transfer), "message_mb",
                          told->bytes > 0 ? json_real(told->bytes / 1e6) : json_null(), "messages",
                          told->messages, "awaited", told->awaited, "queued", told->queued));
    }
    return links;
}

static json_t *clocks_json(const sl_profiling *p) {
    json_t *clocks = json_array();
    for (int rank = 0; rank < p->recovered.problem.ranks; rank++)
        json_array_append_new(clocks, json_pack("{s:f, s:f}", "offset_ms", ms(p->recovered.offset[rank]),
                                                "error_ms", ms(p->recovered.offset_error[rank])));
    return clocks;
}

static json_t *iterations_json(const sl_profiling *p) {
    json_t *iterations = json_array();
    for (int i = 0; i < p->recovered.iterations; i++) {
        const sl_traced_iteration *it = &p->recovered.iteration[i];
        json_array_append_new(iterations,
                              json_pack("{s:I, s:i, s:b, s:o}", "iteration", (json_int_t)it->number, "ops",
                                        it->ops, "whole", it->complete, "time_ms",
                                        it->complete ? json_real(ms(it->makespan)) : json_null()));
    }
    return iterations;
}

sl_status sl_profiling_print_json(const sl_profiling *p, FILE *out) {
    const sl_problem *problem = &p->recovered.problem;
    sl_time traced = sl_timeline_makespan(&p->recovered.timeline);
    json_t *report = json_pack(
        "{s:s, s:i, s:i, s:i, s:s, s:o, s:I, s:o, s:o, s:o, s:f, s:f, s:f, s:o, s:o, s:i, s:i, s:i, s:i, "
        "s:i}",
        "format", "slackline-profile-1", "ranks", problem->ranks, "stages", problem->stages, "microbatches",
        problem->microbatches, "placement", sl_placement_name(problem->placement), "iterations",
        iterations_json(p), "iteration", (json_int_t)chosen(p)->number, "times_ms", times_json(problem),
        "links", links_json(p), "clocks", clocks_json(p), "traced_ms", ms(traced), "simulated_ms",
        ms(p->simulated.makespan), "simulated_over_traced", 1 + longer(p->simulated.makespan, traced), "plan",
        plan_json(p, &p->within), "plan_without_limit", plan_json(p, &p->free), "halved_stages",
        p->recovered.halved, "waiting_ops", p->recovered.waiting, "gpu_ops", p->traced.on_gpu, "left_out_ops",
        p->recovered.left_out, "overlapping_ops", p->recovered.overlapping);
    if (!report)
        return sl_error(SL_ENOMEM, "out of memory for the report");
    int failed = json_dumpf(report, out, JSON_COMPACT | JSON_REAL_PRECISION(15));
    fputc('\n', out);
    json_decref(report);
    return failed ? sl_error(SL_ENOMEM, "out of memory for the report") : SL_OK;
}

/* ---- the problem ---- */

/* A file's name goes into a comment, so it must stay on its line. */
static void put_name(const char *name, FILE *out) {
    for (; *name; name++)
        fputc((unsigned char)*name < 32 || *name == 127 ? '?' : *name, out);
}

sl_status sl_profiling_write_problem(const sl_profiling *p, FILE *out) {
    const sl_recovered *r = &p->recovered;
    fprintf(out, "# slackline profile of ");
    put_name(p->trace.text[0], out);
    if (p->trace.count > 1)
        fprintf(out, " and %d more", p->trace.count - 1);
    fprintf(out, ", iteration %lld\n", (long long)chosen(p)->number);
    if (r->halved)
        fprintf(out, "# I and W were not traced apart in %d stages: each is half of B there\n", r->halved);
    for (int at = 0; at < r->problem.ranks * r->problem.ranks; at++)
        if (r->link[at].bytes > 0)
            fprintf(out, "# messages from rank %d to %d: %.6g MB\n", at / r->problem.ranks,
                    at % r->problem.ranks, r->link[at].bytes / 1e6);
    return sl_problem_write(&r->problem, out);
}
