/* slackline profile: a trace that somebody has, as a problem that can be planned. */
#include "cli/profile.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/planning.h"
#include "cli/trace_file.h"
#include "plan/pipeline/csv.h"

#include <stdlib.h>
#include <string.h>

static void print_help(void) {
    printf(
        "Usage: slackline profile TRACE... [-o PROBLEM] [--order FILE] [--format text|json] [--iteration N]\n"
        "                         [--map WHAT=PATTERN]... [--microbatches N] [--clocks auto|shared]\n"
        "                         [--average median|mean] [--time-limit S] [--seed N]\n\n"
        "Turns a trace of a pipeline into a problem file, and says what its order takes in simulation "
        "beside\n"
        "what was traced, and what a better plan would take. TRACE is a Chrome trace (JSON, also packed by\n"
        "gzip): of PyTorch's profiler, a file a rank or merged; of any program that labels its ops; or a\n"
        "run's timeline.json.\n\n"
        "  -o PROBLEM        write the problem there (YAML, for plan, simulate and compare)\n"
        "  --order FILE      write the traced order there (CSV, for simulate --order)\n"
        "  --format FORM     of the report: text (default) or json\n"
        "  --iteration N     which: the number of ProfilerStep#N or in timeline.json, else counted from 0;\n"
        "                    default the one of median time, without the first where there are others\n"
        "  --map WHAT=PAT    what names mean, where they are none of those below. WHAT: F, I, W, B (ops),\n"
        "                    SEND_F, RECV_F, SEND_B, RECV_B (messages), iteration, or action; PAT: the "
        "whole\n"
        "                    name, with * for anything and {stage}, {microbatch}, {iteration} or {action}.\n"
        "                    Without a stage in names or arguments each rank has one, without a microbatch\n"
        "                    they count in order. Patterns for ops replace those below for ops, and so on\n"
        "  --microbatches N  of an iteration, where names do not number them; default found out\n"
        "  --clocks HOW      auto (default): clocks of ranks differ where a message arrives before it left;\n"
        "                    shared: never\n"
        "  --average HOW     of op times over microbatches: median (default), or mean, for ranks that share "
        "cores\n"
        "  --time-limit S    seconds for each of two searches for a plan (default 1)\n"
        "  --seed N          of the search; default 1\n\n"
        "Known names:\n");
    sl_label_print(stdout, "  ");
    printf("\nExample: slackline profile rank*.json.gz -o problem.yaml --order order.csv\n"
           "         slackline profile trace.json --map 'F=fwd stage {stage} mb {microbatch}' --map 'B=bwd "
           "stage {stage} mb {microbatch}'\n");
}

static sl_status take_map(const sl_options *o, void *map) {
    return sl_label_map_add(map, o->value);
}

static const char *const forms[] = {"text", "json", NULL}, *const clocks[] = {"auto", "shared", NULL},
                         *const averages[] = {"median", "mean", NULL};
static const sl_option options[] = {
    SL_OPTION("output", TEXT, sl_profiling, problem_file, .letter = 'o'),
    SL_OPTION("order", TEXT, sl_profiling, order_file),
    SL_OPTION("format", CHOICE, sl_profiling, is_json, .names = forms),
    SL_OPTION("iteration", WHOLE, sl_profiling, options.iteration, .most = 1000000000),
    SL_OPTION("map", OWN, sl_profiling, map, .take = take_map),
    SL_OPTION("microbatches", INT, sl_profiling, options.microbatches, .least = 1,
              .most = SL_MAX_MICROBATCHES),
    SL_OPTION("clocks", CHOICE, sl_profiling, options.shared_clock, .names = clocks),
    SL_OPTION("average", CHOICE, sl_profiling, options.mean, .names = averages),
    SL_OPTION("time-limit", REAL, sl_profiling, search.time_limit, .most = 1e6, .words = "seconds"),
    SL_OPTION("seed", SEED, sl_profiling, search.seed),
    SL_OPTION("", TEXTS, sl_profiling, trace),
    SL_OPTIONS_END};

static int is_standard(const char *file) {
    return file && strcmp(file, "-") == 0;
}

static sl_status check(const sl_profiling *p) {
    if (p->trace.count == 0)
        return sl_error(SL_EINVAL, "profile: no trace given; see slackline profile --help");
    if (is_standard(p->problem_file) && is_standard(p->order_file))
        return sl_error(SL_EINVAL, "profile: -o and --order cannot both be standard output");
    return SL_OK;
}

/* ---- the work ---- */

static sl_status read_traces(sl_profiling *p) {
    p->traced.map = p->map;
    for (int i = 0; i < p->trace.count; i++)
        SL_TRY(sl_trace_file_read(p->trace.text[i], &p->traced));
    return sl_recover(&p->traced, &p->options, &p->recovered);
}

/* No rank may hold more than it did in the traced order, which is what its memory is known to take. */
static sl_status plan_within(sl_profiling *p) {
    sl_problem limited;
    const sl_problem *problem = &p->recovered.problem;
    SL_TRY(sl_problem_copy(problem, &limited));
    sl_status status = sl_alloc(&limited.limit, (size_t)problem->ranks, sizeof *limited.limit);
    for (int rank = 0; status == SL_OK && rank < problem->ranks; rank++)
        limited.limit[rank] = p->simulated.peak_memory[rank];
    SL_THEN(status, sl_plan_search(&limited, &p->search, &p->within));
    if (status == SL_ENONE) /* no family fits, the traced order does */
        status = sl_plan_of_order(problem, &p->recovered.order, "traced", &p->within);
    sl_problem_free(&limited);
    return status;
}

/* A short search may find nothing as good as what is there already. */
static sl_status keep_better(const sl_profiling *p, const sl_plan *there, sl_plan *plan) {
    if (plan->makespan <= there->makespan)
        return SL_OK;
    sl_plan_free(plan);
    return sl_plan_of_order(&p->recovered.problem, &there->order, there->schedule, plan);
}

static sl_status examine(sl_profiling *p) {
    sl_planning_say_refused();
    SL_TRY(read_traces(p));
    SL_TRY(sl_plan_of_order(&p->recovered.problem, &p->recovered.order, "traced", &p->simulated));
    SL_TRY(plan_within(p));
    SL_TRY(keep_better(p, &p->simulated, &p->within));
    SL_TRY(sl_plan_search(&p->recovered.problem, &p->search, &p->free));
    return keep_better(p, &p->within, &p->free);
}

/* ---- what leaves ---- */

static sl_status write_order(const sl_profiling *p, FILE *out) {
    return sl_order_write_csv(&p->recovered.problem, &p->recovered.order, out);
}

static sl_status make_text(const sl_profiling *p, sl_status (*print)(const sl_profiling *, FILE *),
                           char **text, size_t *size) {
    FILE *out = open_memstream(text, size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for the output");
    sl_status status = print(p, out);
    if (fclose(out) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for the output");
    return status;
}

/* All is made before anything is written. */
static sl_status write_all(const sl_profiling *p) {
    char *problem = NULL, *order = NULL, *report = NULL;
    size_t problem_size = 0, order_size = 0, report_size = 0;
    sl_status status = make_text(p, sl_profiling_write_problem, &problem, &problem_size);
    if (status == SL_OK && p->order_file)
        status = make_text(p, write_order, &order, &order_size);
    SL_THEN(status, make_text(p, p->is_json ? sl_profiling_print_json : sl_profiling_print_text, &report,
                              &report_size));
    if (status == SL_OK && p->problem_file)
        status = sl_planning_write(p->problem_file, problem, problem_size);
    if (status == SL_OK && p->order_file)
        status = sl_planning_write(p->order_file, order, order_size);
    if (status == SL_OK && (is_standard(p->problem_file) || is_standard(p->order_file)))
        fwrite(report, 1, report_size, stderr); /* standard output is taken */
    else if (status == SL_OK)
        status = sl_planning_write(NULL, report, report_size);
    free(problem);
    free(order);
    free(report);
    return status;
}

int sl_command_profile(int argc, char **argv) {
    sl_profiling p = {.options.iteration = -1,
                      .search = {.schedule = "auto", .time_limit = 1, .seed = 1, .exact = 1}};
    sl_options o = {.command = "profile", .table = options, .argc = argc, .argv = argv};
    sl_status status = sl_options_take(&o, &p);
    if (status == SL_OK && o.help)
        print_help();
    if (status == SL_OK && !o.help)
        status = check(&p);
    if (status == SL_OK && !o.help)
        status = examine(&p);
    if (status == SL_OK && !o.help)
        status = write_all(&p);
    sl_plan_free(&p.simulated);
    sl_plan_free(&p.within);
    sl_plan_free(&p.free);
    sl_recovered_free(&p.recovered);
    sl_traced_free(&p.traced);
    sl_free(p.trace.text);
    return sl_planning_end(status);
}
