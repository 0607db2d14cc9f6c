#include "cli/plan_request.h"

#include "base/file.h"
#include "base/memory.h"
#include "cli/command.h"
#include "plan/draw/gantt_text.h"
#include "plan/draw/html.h"
#include "plan/draw/svg.h"
#include "plan/draw/trace.h"
#include "plan/exact/solver.h"
#include "plan/lower/comms_csv.h"
#include "plan/pipeline/csv.h"
#include "plan/pipeline/layers.h"
#include "plan/timing/jitter.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* A form in which a plan is printed; the table `forms` is below, after the functions. */
typedef struct form {
    const char *name;
    sl_status (*print)(const sl_plan_request *planning, const sl_plan *plan, FILE *out);
} form;

static const form *find_form(const char *name);
static sl_status refuse_form(const char *name);

/* clang-format off */
#define PROBLEM SL_OPTION("", ONCE, sl_plan_request, problem_file, .words = "one problem file at a time")
#define SEED SL_OPTION("seed", SEED, sl_plan_request, seed)
#define TIME_LIMIT SL_OPTION("time-limit", REAL, sl_plan_request, time_limit, .most = 1e6, .words = "seconds")
#define FORMAT SL_OPTION("format", TEXT, sl_plan_request, format)
#define OUTPUT SL_OPTION("output", TEXT, sl_plan_request, output, .letter = 'o')
#define SET SL_OPTION("set", TEXTS, sl_plan_request, set)
#define JITTER SL_OPTION("jitter", INT, sl_plan_request, draws, .least = 1, .most = SL_MAX_DRAWS)
#define EXPLAIN SL_OPTION("explain", FLAG, sl_plan_request, explain)

static const sl_option plan_options[] = {
    SL_OPTION("schedule", TEXT, sl_plan_request, schedule),
    TIME_LIMIT, SEED, JITTER, EXPLAIN, FORMAT, OUTPUT, SET, PROBLEM, SL_OPTIONS_END};
static const sl_option simulate_options[] = {
    SL_OPTION("order", TEXT, sl_plan_request, order_file),
    SEED, JITTER, EXPLAIN, TIME_LIMIT, FORMAT, OUTPUT, SET, PROBLEM, SL_OPTIONS_END};
static const sl_option compare_options[] = {
    SL_OPTION("schedules", TEXT, sl_plan_request, schedules),
    SL_OPTION("sweep", ONCE, sl_plan_request, sweep, .words = "one --sweep at a time"),
    TIME_LIMIT, SEED, FORMAT, OUTPUT, SET, PROBLEM, SL_OPTIONS_END};
/* clang-format on */

static const sl_option *options_of(const char *command) {
    return strcmp(command, "simulate") == 0  ? simulate_options
           : strcmp(command, "compare") == 0 ? compare_options
                                             : plan_options;
}

static sl_status check(const char *command, const sl_plan_request *p) {
    int simulates = strcmp(command, "simulate") == 0;
    if (!p->problem_file)
        return sl_error(SL_EINVAL, "%s: no problem file; see slackline %s --help", command, command);
    if (simulates && !p->order_file)
        return sl_error(SL_EINVAL, "simulate: no --order FILE; see slackline simulate --help");
    if (simulates && strcmp(p->problem_file, "-") == 0 && strcmp(p->order_file, "-") == 0)
        return sl_error(SL_EINVAL, "simulate: problem and order cannot both come from standard input");
    if (strcmp(command, "compare") == 0)
        return SL_OK; /* it has its own forms */
    int examines = p->draws > 0 || p->explain;
    if (examines && strcmp(p->format, "text") != 0 && strcmp(p->format, "json") != 0)
        return sl_error(SL_EINVAL, "--jitter and --explain go with --format text or json, not %s", p->format);
    return find_form(p->format) ? SL_OK : refuse_form(p->format);
}

sl_status sl_plan_request_open(int argc, char **argv, sl_plan_request *p) {
    const char *command = argv[0];
    *p = (sl_plan_request){.schedule = "auto", .format = "text", .time_limit = -1, .seed = 1};
    SL_TRY(sl_subcommand_options(argc, argv, options_of(command), p));
    SL_TRY(check(command, p));
    SL_TRY(sl_document_read(p->problem_file, &p->document));
    SL_TRY(sl_document_set_all(&p->document, p->set.text, p->set.count));
    return strcmp(command, "compare") == 0 ? SL_OK : sl_problem_read(&p->document, &p->problem);
}

void sl_plan_request_close(sl_plan_request *p) {
    sl_problem_free(&p->problem);
    sl_document_close(&p->document);
    sl_free(p->set.text);
}

void sl_plan_request_say_refused(void) {
    sl_solver solver;
    if (sl_solver_find(&solver) == SL_ESYS)
        fprintf(stderr, "slackline: %s; the search goes on without the exact solver\n", sl_error_text());
    sl_solver_free(&solver);
}

sl_status sl_plan_request_make(sl_plan_request *planning, sl_plan *plan) {
    double standard = strcmp(planning->schedule, "optimal") == 0 ? 10 : 1;
    sl_plan_options options = {.schedule = planning->schedule,
                               .time_limit = planning->time_limit < 0 ? standard : planning->time_limit,
                               .seed = planning->seed,
                               .exact = 1};
    sl_plan_request_say_refused();
    return sl_plan_problem(&planning->problem, &options, plan);
}

/* ---- printing ---- */

static int goes_to_terminal(const sl_plan_request *p) {
    return (!p->output || strcmp(p->output, "-") == 0) && isatty(STDOUT_FILENO);
}

/* COLUMNS, as shells and scripts set it, else the terminal's width, else 100. */
int sl_plan_request_width(const sl_plan_request *p) {
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    long width = columns ? strtol(columns, NULL, 10) : 0;
    if (width > 0)
        return width < 500 ? (int)width : 500;
    return goes_to_terminal(p) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0
               ? size.ws_col
               : 100;
}

static int wants_colour(const sl_plan_request *p) {
    const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return goes_to_terminal(p) && !(no_colour && *no_colour) && !(terminal && strcmp(terminal, "dumb") == 0);
}

/* ms to the microsecond, without the zeros that "%.3f" would add. */
static double ms(sl_time t) {
    return round((double)t / 1e3) / 1e3;
}

static void print_headline(const sl_plan *plan, FILE *out) {
    fprintf(out, "%s: makespan %.12g ms, bubble %.1f%%, lower bound %.12g ms", plan->schedule,
            ms(plan->makespan), 100 * sl_timeline_bubble(&plan->timeline), ms(plan->bound));
    if (plan->makespan == plan->bound)
        fprintf(out, ": proven optimal");
    else
        fprintf(out, ", gap %.1f%%", 100 * sl_plan_gap(plan));
    if (!plan->memory_ok)
        fprintf(out, "; over the memory limit");
}

static void print_ranks(const sl_problem *p, const sl_plan *plan, FILE *out) {
    fprintf(out, "warm-up     ");
    for (int rank = 0; rank < p->ranks; rank++)
        fprintf(out, "%s %d", rank ? "," : "", plan->warmup[rank]);
    fprintf(out, "\npeak memory ");
    for (int rank = 0; rank < p->ranks; rank++)
        fprintf(out, "%s %.6g", rank ? "," : "", plan->peak_memory[rank]);
    fputc('\n', out);
}

/* The layers of each stage, if stages were cut from layers. */
static void print_cut(const sl_problem *p, FILE *out) {
    int stages = p->placement == SL_BIDIRECTIONAL ? p->ranks : p->stages;
    if (!p->layers)
        return;
    fprintf(out, "layers      ");
    for (int stage = 0; stage < stages; stage++)
        fprintf(out, "%s %d-%d", stage ? "," : "", p->layers->first[stage], p->layers->first[stage + 1] - 1);
    fputc('\n', out);
}

static void print_links(const sl_problem *p, const sl_plan *plan, FILE *out) {
    for (int r = 0; r + 1 < p->ranks; r++) {
        const sl_link *link = &p->link[r * p->ranks + r + 1];
        fprintf(out, "link %d-%-6d latency %.12g ms, transfer %.12g ms; slack %d tolerates %.12g ms\n", r,
                r + 1, ms(link->latency), ms(link->transfer), plan->warmup[r] - plan->warmup[r + 1],
                ms(sl_plan_tolerance(p, plan, r)));
    }
}

static sl_status print_text(const sl_plan_request *planning, const sl_plan *plan, FILE *out) {
    const sl_problem *p = &planning->problem;
    sl_text_options options = {.width = sl_plan_request_width(planning), .colour = wants_colour(planning)};
    print_headline(plan, out);
    fputs("\n\n", out);
    SL_TRY(sl_draw_text(&plan->timeline, &options, out));
    fputs("F forward, I backward for the input, W for the weights, B both; then the microbatch\n\n", out);
    print_cut(p, out);
    print_ranks(p, plan, out);
    print_links(p, plan, out);
    if (plan->dependency_loss || plan->blocking_loss)
        fprintf(out, "lost to links: %.12g ms by dependencies, %.12g ms by blocking\n",
                ms(plan->dependency_loss), ms(plan->blocking_loss));
    if (plan->why[0])
        fprintf(out, "%s: %s\n", plan->schedule, plan->why);
    fprintf(out, "planned in %.3g ms\n", sl_to_ms(plan->solve));
    sl_plan_request_print_examined(plan, out);
    return SL_OK;
}

static sl_status print_svg(const sl_plan_request *planning, const sl_plan *plan, FILE *out) {
    char *title = NULL;
    size_t size = 0;
    sl_highlight highlight = {0};
    FILE *text = open_memstream(&title, &size);
    if (!text)
        return sl_error(SL_ENOMEM, "out of memory for the title");
    print_headline(plan, text);
    sl_status status = fclose(text) == 0 ? SL_OK : sl_error(SL_ENOMEM, "out of memory for the title");
    SL_THEN(status, sl_highlight_make(&planning->problem, &plan->program, &plan->timeline, &highlight));
    sl_svg_chart chart = {.timeline = &plan->timeline, .title = title, .highlight = &highlight};
    SL_THEN(status, sl_draw_svg_charts(&chart, 1, NULL, out));
    sl_highlight_free(&highlight);
    free(title);
    return status;
}

/* The schedule and the problem's file: they distinguish open pages. */
static sl_status print_html(const sl_plan_request *planning, const sl_plan *plan, FILE *out) {
    char *title = NULL;
    int from_input = strcmp(planning->problem_file, "-") == 0;
    if (asprintf(&title, "%s%s%s", plan->schedule, from_input ? "" : ": ",
                 from_input ? "" : planning->problem_file) < 0)
        return sl_error(SL_ENOMEM, "out of memory for the title");
    sl_status status = sl_draw_html(&planning->problem, plan, title, out);
    free(title);
    return status;
}

static sl_status print_json(const sl_plan_request *planning, const sl_plan *plan, FILE *out) {
    return sl_plan_write_json(&planning->problem, plan, out);
}

static sl_status print_csv(const sl_plan_request *planning, const sl_plan *plan, FILE *out) {
    return sl_order_write_csv(&planning->problem, &plan->order, out);
}

static sl_status print_csv_comms(const sl_plan_request *planning, const sl_plan *plan, FILE *out) {
    return sl_program_write_csv(&planning->problem, &plan->order, &plan->program, out);
}

static sl_status print_trace(const sl_plan_request *planning, const sl_plan *plan, FILE *out) {
    return sl_trace_plan(&planning->problem, &plan->program, &plan->timeline, out);
}

/* clang-format off */
static const form forms[] = {
    {"text", print_text},
    {"json", print_json},
    {"csv", print_csv},
    {"csv-comms", print_csv_comms},
    {"trace", print_trace},
    {"svg", print_svg},
    {"html", print_html},
    {NULL, NULL},
};
/* clang-format on */

static const form *find_form(const char *name) {
    for (const form *f = forms; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

static sl_status refuse_form(const char *name) {
    char known[128] = "";
    for (const form *f = forms; f->name; f++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s",
                 f == forms  ? ""
                 : f[1].name ? ", "
                             : " or ",
                 f->name);
    }
    return sl_error(SL_EINVAL, "--format must be %s, got '%s'", known, name);
}

static sl_status write_file(const char *path, const char *text, size_t size) {
    sigset_t ending, before;
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGHUP);
    sigprocmask(SIG_BLOCK, &ending, &before);
    sl_status status = sl_file_write(path, text, size);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

sl_status sl_plan_request_write(const char *output, const char *text, size_t size) {
    if (output && strcmp(output, "-") != 0)
        return write_file(output, text, size);
    if (fwrite(text, 1, size, stdout) != size || fflush(stdout) != 0)
        return sl_error_errno(SL_ESYS, "standard output cannot be written");
    return SL_OK;
}

sl_status sl_leaving_open(const char *output, sl_leaving *leaving) {
    *leaving = (sl_leaving){.output = output};
    leaving->out = open_memstream(&leaving->text, &leaving->size);
    return leaving->out ? SL_OK : sl_error(SL_ENOMEM, "out of memory for the output");
}

sl_status sl_leaving_close(sl_leaving *leaving, sl_status status) {
    if (fclose(leaving->out) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for the output");
    SL_THEN(status, sl_plan_request_write(leaving->output, leaving->text, leaving->size));
    free(leaving->text);
    return status;
}

sl_status sl_plan_request_print(const sl_plan_request *planning, const sl_plan *plan) {
    sl_leaving leaving;
    SL_TRY(sl_leaving_open(planning->output, &leaving));
    return sl_leaving_close(&leaving, find_form(planning->format)->print(planning, plan, leaving.out));
}

int sl_plan_request_end(sl_status status) {
    int code = sl_exit_code(status);
    if (code != 0)
        fprintf(stderr, "slackline: %s\n", sl_error_text());
    return code;
}
