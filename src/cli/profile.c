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

static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                        {"order", required_argument, NULL, 'r'},
                                        {"format", required_argument, NULL, 'f'},
                                        {"iteration", required_argument, NULL, 'i'},
                                        {"map", required_argument, NULL, 'm'},
                                        {"microbatches", required_argument, NULL, 'n'},
                                        {"clocks", required_argument, NULL, 'c'},
                                        {"average", required_argument, NULL, 'a'},
                                        {"time-limit", required_argument, NULL, 't'},
                                        {"seed", required_argument, NULL, 'e'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static sl_status take(const sl_options *o, void *argument) {
    static const char *const forms[] = {"text", "json", NULL}, *const clocks[] = {"auto", "shared", NULL},
                             *const averages[] = {"median", "mean", NULL};
    sl_profiling *p = argument;
    switch (o->option) {
    case SL_OPTION_WORD:
        p->trace[p->traces++] = o->value;
        return SL_OK;
    case 'o':
        p->problem_file = o->value;
        return SL_OK;
    case 'r':
        p->order_file = o->value;
        return SL_OK;
    case 'f':
        return sl_option_choice(o, forms, &p->is_json);
    case 'i':
        return sl_option_whole(o, 0, 1000000000, &p->options.iteration);
    case 'm':
        return sl_label_map_add(&p->map, o->value);
    case 'n':
        return sl_option_int(o, 1, SL_MAX_MICROBATCHES, &p->options.microbatches);
    case 'c':
        return sl_option_choice(o, clocks, &p->options.shared_clock);
    case 'a':
        return sl_option_choice(o, averages, &p->options.mean);
    case 't':
        return sl_planning_take_seconds(o, &p->search.time_limit);
    default: /* 'e' */
        return sl_planning_take_seed(o, &p->search.seed);
    }
}

static int is_standard(const char *file) {
    return file && strcmp(file, "-") == 0;
}

static sl_status parse(int argc, char **argv, sl_profiling *p, int *help) {
    sl_options o = {.command = "profile", .table = options, .argc = argc, .argv = argv};
    SL_TRY(sl_alloc(&p->trace, (size_t)argc, sizeof *p->trace));
    SL_TRY(sl_options_take(&o, take, p));
    *help = o.help;
    if (o.help)
        return SL_OK;
    if (p->traces == 0)
        return sl_error(SL_EINVAL, "profile: no trace given; see slackline profile --help");
    if (is_standard(p->problem_file) && is_standard(p->order_file))
        return sl_error(SL_EINVAL, "profile: -o and --order cannot both be standard output");
    return SL_OK;
}

/* ---- the work ---- */

static sl_status read_traces(sl_profiling *p) {
    p->traced.map = p->map;
    for (int i = 0; i < p->traces; i++)
        SL_TRY(sl_trace_file_read(p->trace[i], &p->traced));
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
    if (status == SL_OK)
        status = sl_plan_search(&limited, &p->search, &p->within);
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

static sl_status leave(const char *path, const char *text, size_t size) {
    sl_planning planning = {.output = path};
    return sl_planning_write(&planning, text, size);
}

/* All is made before anything is written. */
static sl_status write_all(const sl_profiling *p) {
    char *problem = NULL, *order = NULL, *report = NULL;
    size_t problem_size = 0, order_size = 0, report_size = 0;
    sl_status status = make_text(p, sl_profiling_write_problem, &problem, &problem_size);
    if (status == SL_OK && p->order_file)
        status = make_text(p, write_order, &order, &order_size);
    if (status == SL_OK)
        status = make_text(p, p->is_json ? sl_profiling_print_json : sl_profiling_print_text, &report,
                           &report_size);
    if (status == SL_OK && p->problem_file)
        status = leave(p->problem_file, problem, problem_size);
    if (status == SL_OK && p->order_file)
        status = leave(p->order_file, order, order_size);
    if (status == SL_OK && (is_standard(p->problem_file) || is_standard(p->order_file)))
        fwrite(report, 1, report_size, stderr); /* standard output is taken */
    else if (status == SL_OK)
        status = leave(NULL, report, report_size);
    free(problem);
    free(order);
    free(report);
    return status;
}

int sl_command_profile(int argc, char **argv) {
    sl_profiling p = {.options.iteration = -1,
                      .search = {.schedule = "auto", .time_limit = 1, .seed = 1, .exact = 1}};
    int help = 0;
    sl_status status = parse(argc, argv, &p, &help);
    if (status == SL_OK && help)
        print_help();
    if (status == SL_OK && !help) {
        sl_planning_say_refused();
        status = examine(&p);
    }
    if (status == SL_OK && !help)
        status = write_all(&p);
    sl_plan_free(&p.simulated);
    sl_plan_free(&p.within);
    sl_plan_free(&p.free);
    sl_recovered_free(&p.recovered);
    sl_traced_free(&p.traced);
    sl_free(p.trace);
    return sl_planning_end(status);
}
