/* slackline import: turns a given trace into a problem for the planner. */
#include "base/memory.h"
#include "base/option.h"
#include "cli/command.h"
#include "cli/plan_request.h"
#include "cli/trace_file.h"
#include "plan/pipeline/csv.h"
#include "plan/search/plan.h"
#include "plan/trace/recover.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct import_options {
    sl_texts trace;                        /* files */
    const char *problem_file, *order_file; /* NULL: not requested */
    int is_json;
    sl_label_map map;
    sl_recover_options options;
    sl_plan_options search;
    sl_traced traced;
    sl_recovered recovered;
    sl_plan simulated; /* the traced order on the recovered problem */
    sl_plan within;    /* auto, no rank above its memory in the traced order */
    sl_plan free;      /* auto without a limit */
} import_options;

/* The report of slackline import, and the problem file's head. */

static double ms(sl_time t) {
    return sl_to_ms(t);
}

static const sl_traced_iteration *chosen(const import_options *p) {
    return &p->recovered.iteration[p->recovered.chosen];
}

static int whole_iterations(const import_options *p) {
    int count = 0;
    for (int i = 0; i < p->recovered.iterations; i++)
        count += p->recovered.iteration[i].complete;
    return count;
}

/* The excess of `time` over `base`, relative to base. */
static double longer(sl_time time, sl_time base) {
    return base > 0 ? (double)(time - base) / (double)base : 0;
}

static void put_change(FILE *out, double share) {
    fprintf(out, "%.1f%% %s", 100 * fabs(share), share > 0 ? "more" : "less");
}

/* ---- text ---- */

static void print_head(const import_options *p, FILE *out) {
    const sl_problem *problem = &p->recovered.problem;
    fprintf(
        out,
        "%d rank%s, %d stage%s (%s), %d microbatch%s; %d iteration%s traced, %d complete; shown: iteration "
        "%lld\n\n",
        problem->ranks, problem->ranks == 1 ? "" : "s", problem->stages, problem->stages == 1 ? "" : "s",
        sl_placement_name(problem->placement), problem->microbatches, problem->microbatches == 1 ? "" : "es",
        p->recovered.iterations, p->recovered.iterations == 1 ? "" : "s", whole_iterations(p),
        (long long)chosen(p)->number);
}

static void print_stages(const import_options *p, FILE *out) {
    const sl_problem *problem = &p->recovered.problem;
    fprintf(out, "stage  rank        F ms        I ms        W ms        B ms\n");
    for (int stage = 0; stage < problem->stages; stage++) {
        fprintf(out, "%5d  %4d", stage, sl_problem_rank(problem, stage));
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            fprintf(out, "  %10.4g", ms(sl_problem_own_time(problem, kind, stage)));
        fputc('\n', out);
    }
    if (problem->overhead_op || problem->overhead_message)
        fprintf(out, "overhead: %.4g ms per op, %.4g ms per message\n", ms(problem->overhead_op),
                ms(problem->overhead_message));
    fputc('\n', out);
}

static void print_link(const import_options *p, int from, int to, FILE *out) {
    int at = from * p->recovered.problem.ranks + to;
    const sl_link *link = &p->recovered.problem.link[at];
    const sl_traced_link *data = &p->recovered.link[at];
    if (data->messages == 0)
        return;
    fprintf(out, "link %d -> %d: %s%.4g ms", from, to, data->awaited ? "" : "at most ",
            ms(link->latency + link->transfer));
    if (data->queued)
        fprintf(out, ", of which a transfer takes %.4g ms", ms(link->transfer));
    if (data->bytes > 0)
        fprintf(out, "; %.6g MB per message", data->bytes / 1e6);
    fprintf(out, " (%d messages, %d waited for)\n", data->messages, data->awaited);
}

static void print_links(const import_options *p, FILE *out) {
    int ranks = p->recovered.problem.ranks;
    for (int from = 0; from < ranks; from++)
        for (int to = 0; to < ranks; to++)
            print_link(p, from, to, out);
    for (int rank = 0; rank < ranks; rank++)
        if (p->recovered.offset[rank] || p->recovered.offset_error[rank])
            fprintf(out, "clock of rank %d: %.6g ms ahead of rank 0's, to within %.4g ms\n", rank,
                    ms(p->recovered.offset[rank]), ms(p->recovered.offset_error[rank]));
}

static void print_plan(const char *what, const import_options *p, const sl_plan *plan, FILE *out) {
    fprintf(out, "%-16s %.6g ms", what, ms(plan->makespan));
    if (plan->makespan < p->simulated.makespan) {
        fprintf(out, ", ");
        put_change(out, longer(plan->makespan, p->simulated.makespan));
    } else {
        fprintf(out, ", not shorter");
    }
    fprintf(out, " than the traced order simulated (%s%s)\n", plan->schedule,
            plan->makespan == plan->bound ? ", proven optimal" : "");
}

static void print_notes(const import_options *p, FILE *out) {
    const sl_recovered *r = &p->recovered;
    if (r->halved)
        fprintf(out, "I and W of %d stages were not traced separately: each is half of B\n", r->halved);
    if (r->waiting)
        fprintf(out, "%d ops began before their input was sent: their times start at the send\n", r->waiting);
    if (r->overlapping)
        fprintf(
            out,
            "%d ops overlap the previous op (the first on rank %d, %s): the problem runs one op at a time\n",
            r->overlapping, r->overlapping_rank, sl_traced_file(&p->traced, r->process[r->overlapping_rank]));
    if (p->traced.on_gpu)
        fprintf(out, "the time of an op is from its first GPU kernel to its last\n");
    if (r->left_out)
        fprintf(out, "%d ops of replicas other than 0 were left out\n", r->left_out);
}

/* The report. SL_ENOMEM. */
static sl_status print_text(const import_options *p, FILE *out) {
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
    fprintf(
        out,
        "The better plan holds no more memory on any rank than the traced order; without a limit, it may.\n");
    print_notes(p, out);
    if (!p->problem_file)
        fprintf(out, "\nTo write the problem file: -o problem.yaml\n");
    return SL_OK;
}

/* ---- JSON ---- */

static json_t *plan_json(const import_options *p, const sl_plan *plan) {
    return json_pack("{s:s, s:f, s:f, s:f}", "schedule", plan->schedule, "makespan_ms", ms(plan->makespan),
                     "lower_bound_ms", ms(plan->bound), "gain",
                     -longer(plan->makespan, p->simulated.makespan));
}

static json_t *times_json(const sl_problem *problem) {
    json_t *times = json_object();
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        json_t *list = json_array();
        for (int stage = 0; stage < problem->stages; stage++)
            json_array_append_new(list, json_real(ms(sl_problem_own_time(problem, kind, stage))));
        json_object_set_new(times, sl_op_name(kind), list);
    }
    return times;
}

static json_t *overhead_json(const sl_problem *problem) {
    return json_pack("{s:f, s:f}", "op", ms(problem->overhead_op), "message", ms(problem->overhead_message));
}

static json_t *links_json(const import_options *p) {
    json_t *links = json_array();
    int ranks = p->recovered.problem.ranks;
    for (int at = 0; at < ranks * ranks; at++) {
        const sl_link *link = &p->recovered.problem.link[at];
        const sl_traced_link *data = &p->recovered.link[at];
        if (data->messages)
            json_array_append_new(
                links,
                json_pack("{s:i, s:i, s:f, s:f, s:o, s:i, s:i, s:i}", "from", at / ranks, "to", at % ranks,
                          "latency_ms", ms(link->latency), "transfer_ms", ms(link->transfer), "message_mb",
                          data->bytes > 0 ? json_real(data->bytes / 1e6) : json_null(), "messages",
                          data->messages, "awaited", data->awaited, "queued", data->queued));
    }
    return links;
}

static json_t *clocks_json(const import_options *p) {
    json_t *clocks = json_array();
    for (int rank = 0; rank < p->recovered.problem.ranks; rank++)
        json_array_append_new(clocks, json_pack("{s:f, s:f}", "offset_ms", ms(p->recovered.offset[rank]),
                                                "error_ms", ms(p->recovered.offset_error[rank])));
    return clocks;
}

static json_t *iterations_json(const import_options *p) {
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

static sl_status print_json(const import_options *p, FILE *out) {
    const sl_problem *problem = &p->recovered.problem;
    sl_time traced = sl_timeline_makespan(&p->recovered.timeline);
    json_t *report = json_pack(
        "{s:s, s:i, s:i, s:i, s:s, s:o, s:I, s:o, s:o, s:o, s:o, s:f, s:f, s:f, s:o, s:o, s:i, s:i, s:i, "
        "s:i, "
        "s:i}",
        "format", "slackline-profile-1", "ranks", problem->ranks, "stages", problem->stages, "microbatches",
        problem->microbatches, "placement", sl_placement_name(problem->placement), "iterations",
        iterations_json(p), "iteration", (json_int_t)chosen(p)->number, "times_ms", times_json(problem),
        "overhead_ms", overhead_json(problem), "links", links_json(p), "clocks", clocks_json(p), "traced_ms",
        ms(traced), "simulated_ms", ms(p->simulated.makespan), "simulated_over_traced",
        1 + longer(p->simulated.makespan, traced), "plan", plan_json(p, &p->within), "plan_without_limit",
        plan_json(p, &p->free), "halved_stages", p->recovered.halved, "waiting_ops", p->recovered.waiting,
        "gpu_ops", p->traced.on_gpu, "left_out_ops", p->recovered.left_out, "overlapping_ops",
        p->recovered.overlapping);
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

/* The problem file, after a comment with its origin. */
static sl_status write_problem(const import_options *p, FILE *out) {
    const sl_recovered *r = &p->recovered;
    fprintf(out, "# slackline import of ");
    put_name(p->trace.text[0], out);
    if (p->trace.count > 1)
        fprintf(out, " and %d more", p->trace.count - 1);
    fprintf(out, ", iteration %lld\n", (long long)chosen(p)->number);
    if (r->halved)
        fprintf(out, "# I and W of %d stages were not traced separately: each is half of B\n", r->halved);
    for (int at = 0; at < r->problem.ranks * r->problem.ranks; at++)
        if (r->link[at].bytes > 0)
            fprintf(out, "# link %d -> %d: %.6g MB per message\n", at / r->problem.ranks,
                    at % r->problem.ranks, r->link[at].bytes / 1e6);
    return sl_problem_write(&r->problem, out);
}

static sl_status take_map(const sl_options *o, void *map) {
    return sl_label_map_add(map, o->value);
}

static int list_known(int index, sl_value *value, char room[SL_VALUE_ROOM]) {
    *value = (sl_value){sl_label_known(index, room, SL_VALUE_ROOM), room};
    return value->name != NULL;
}

static const sl_value clocks[] = {
    {"auto", "if a message arrives before it left"}, {"shared", "never"}, {NULL, NULL}};
static const sl_value averages[] = {
    {"median", "the usual choice"}, {"mean", "for ranks that share cores"}, {NULL, NULL}};
static const sl_option options[] = {
    SL_OPTION("output", TEXT, import_options, problem_file, "PROBLEM",
              "write the problem there (YAML, for plan, simulate and compare)", .letter = 'o',
              .completes = SL_COMPLETES_FILE),
    SL_OPTION("order", TEXT, import_options, order_file, "FILE",
              "write the traced order there (CSV, for simulate --order)", .completes = SL_COMPLETES_FILE),
    SL_OPTION_TEXT_OR_JSON(import_options, is_json),
    SL_OPTION(
        "iteration", WHOLE, import_options, options.iteration, "N",
        "number in ProfilerStep#N or timeline.json, else counted from 0; default: the one of median time, "
        "without the first if there are others",
        .most = 1000000000),
    SL_OPTION(
        "map", OWN, import_options, map, "WHAT=PATTERN",
        "meaning of names other than those below (repeatable). WHAT: F, I, W, B (ops), SEND_F, RECV_F, "
        "SEND_B, RECV_B (messages), iteration, or action; PATTERN: the whole name, with * for anything and "
        "{stage}, {microbatch}, {iteration} or {action}. If names and arguments lack a stage, each "
        "rank has one; if they lack a microbatch, ops are counted in order. Patterns for ops replace those "
        "below for ops, and so on",
        .take = take_map),
    SL_OPTION("microbatches", INT, import_options, options.microbatches, "N",
              "per iteration, if names do not number them; default: detected", .least = 1,
              .most = SL_MAX_MICROBATCHES),
    SL_OPTION("clocks", CHOICE, import_options, options.shared_clock, "HOW", "whether clocks of ranks differ",
              .values = clocks, .standard = "auto"),
    SL_OPTION("average", CHOICE, import_options, options.mean, "HOW", "of op times over microbatches",
              .values = averages, .standard = "median"),
    SL_OPTION_TIME_LIMIT(import_options, search.time_limit, "seconds for each of two searches for a plan",
                         .standard = "1"),
    SL_OPTION_SEED(import_options, search.seed, "the search"),
    SL_OPTION("", TEXTS, import_options, trace, "TRACE...", NULL, .completes = SL_COMPLETES_FILE,
              .required = 1),
    SL_OPTIONS_END};

static int is_standard(const char *file) {
    return file && strcmp(file, "-") == 0;
}

static sl_status check(const import_options *p) {
    if (p->trace.count == 0)
        return sl_error(SL_EINVAL, "import: no trace given; see slackline import --help");
    if (is_standard(p->problem_file) && is_standard(p->order_file))
        return sl_error(SL_EINVAL, "import: -o and --order cannot both be standard output");
    return SL_OK;
}

/* ---- the work ---- */

static sl_status read_traces(import_options *p) {
    p->traced.map = p->map;
    for (int i = 0; i < p->trace.count; i++)
        SL_TRY(sl_trace_file_read(p->trace.text[i], &p->traced));
    return sl_recover(&p->traced, &p->options, &p->recovered);
}

/* No rank may hold more than in the traced order, which is known to fit into its memory. */
static sl_status plan_within(import_options *p) {
    sl_problem limited;
    const sl_problem *problem = &p->recovered.problem;
    SL_TRY(sl_problem_copy(problem, &limited));
    sl_status status;
    SL_TRY_GOTO(out, status, sl_alloc(&limited.limit, (size_t)problem->ranks, sizeof *limited.limit));
    for (int rank = 0; rank < problem->ranks; rank++)
        limited.limit[rank] = p->simulated.peak_memory[rank];
    status = sl_plan_search(&limited, &p->search, &p->within);
    if (status == SL_ENONE) /* no family fits, the traced order does */
        status = sl_plan_of_order(problem, &p->recovered.order, "traced", &p->within);
out:
    sl_problem_free(&limited);
    return status;
}

/* Keeps the better plan: a short search may find nothing as good as the present one. */
static sl_status keep_better(const import_options *p, const sl_plan *there, sl_plan *plan) {
    if (plan->makespan <= there->makespan)
        return SL_OK;
    sl_plan_free(plan);
    return sl_plan_of_order(&p->recovered.problem, &there->order, there->schedule, plan);
}

static sl_status examine(import_options *p) {
    sl_plan_request_say_refused();
    SL_TRY(read_traces(p));
    SL_TRY(sl_plan_of_order(&p->recovered.problem, &p->recovered.order, "traced", &p->simulated));
    SL_TRY(plan_within(p));
    SL_TRY(keep_better(p, &p->simulated, &p->within));
    SL_TRY(sl_plan_search(&p->recovered.problem, &p->search, &p->free));
    return keep_better(p, &p->within, &p->free);
}

/* ---- output ---- */

static sl_status write_order(const import_options *p, FILE *out) {
    return sl_order_write_csv(&p->recovered.problem, &p->recovered.order, out);
}

static sl_status make_text(const import_options *p, sl_status (*print)(const import_options *, FILE *),
                           char **text, size_t *size) {
    FILE *out = open_memstream(text, size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for the output");
    sl_status status = print(p, out);
    if (fclose(out) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for the output");
    return status;
}

/* Makes everything before anything is written. */
static sl_status write_all(const import_options *p) {
    char *problem = NULL, *order = NULL, *report = NULL;
    size_t problem_size = 0, order_size = 0, report_size = 0;
    sl_status status;
    SL_TRY_GOTO(out, status, make_text(p, write_problem, &problem, &problem_size));
    if (p->order_file)
        SL_TRY_GOTO(out, status, make_text(p, write_order, &order, &order_size));
    SL_TRY_GOTO(out, status, make_text(p, p->is_json ? print_json : print_text, &report, &report_size));
    if (p->problem_file)
        SL_TRY_GOTO(out, status, sl_leaving_write(p->problem_file, problem, problem_size));
    if (p->order_file)
        SL_TRY_GOTO(out, status, sl_leaving_write(p->order_file, order, order_size));
    if (is_standard(p->problem_file) || is_standard(p->order_file))
        fwrite(report, 1, report_size, stderr); /* standard output is taken */
    else
        status = sl_leaving_write(NULL, report, report_size);
out:
    free(problem);
    free(order);
    free(report);
    return status;
}

static int run(int argc, char **argv) {
    import_options p = {.options.iteration = -1, .search = {.schedule = "auto", .exact = 1}};
    sl_status status = sl_command_options(argc, argv, &p);
    SL_THEN(status, check(&p));
    SL_THEN(status, examine(&p));
    SL_THEN(status, write_all(&p));
    sl_plan_free(&p.simulated);
    sl_plan_free(&p.within);
    sl_plan_free(&p.free);
    sl_recovered_free(&p.recovered);
    sl_traced_free(&p.traced);
    sl_free(p.trace.text);
    return sl_plan_request_end(status);
}

const sl_command sl_command_import = {
    .name = "import",
    .summary = "turn a trace of a pipeline into a problem file",
    .about =
        "Turns a trace of a pipeline into a problem file, and compares the traced iteration time with those "
        "of its order in simulation and of a better plan. TRACE is a Chrome trace (JSON, also gzipped): of "
        "PyTorch's profiler, one file per rank or merged; of any program that labels its ops; or a run's "
        "timeline.json.",
    .options = options,
    .list_title = "Known names",
    .list = list_known,
    .example = "slackline import rank*.json.gz -o problem.yaml --order order.csv\n"
               "slackline import trace.json --map 'F=fwd stage {stage} mb {microbatch}' --map "
               "'B=bwd stage {stage} mb {microbatch}'",
    .run = run};
