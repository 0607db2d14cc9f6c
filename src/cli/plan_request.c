#include "cli/plan_request.h"

#include "base/memory.h"
#include "cli/command.h"
#include "cli/picture.h"
#include "pack/pack.h"
#include "plan/draw/gantt_text.h"
#include "plan/draw/html.h"
#include "plan/draw/svg.h"
#include "plan/draw/trace.h"
#include "plan/exact/solver.h"
#include "plan/family/family.h"
#include "plan/lower/comms_csv.h"
#include "plan/pipeline/csv.h"
#include "plan/pipeline/layers.h"
#include "plan/timing/jitter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int sl_schedules_list(int index, sl_value *value, char room[SL_VALUE_ROOM]) {
    static const sl_value searches[] = {
        {"auto", "the shortest of all within the memory limit, with a search if none is proven optimal"},
        {"optimal", "the result of a longer search (CrossUD, CrossLoop, CrossWave)"}};
    enum { SEARCHES = sizeof searches / sizeof searches[0] };
    (void)room;
    if (index < SEARCHES) {
        *value = searches[index];
        return 1;
    }
    const sl_family *family = &sl_families[index - SEARCHES];
    *value = (sl_value){family->name, family->help};
    return family->name != NULL;
}

static const sl_value forms[] = {{"text", "a chart for the terminal"},
                                 {"json", "the full plan"},
                                 {"csv", "the order, in the format of PyTorch's pipelining"},
                                 {"csv-comms", "the same with its messages"},
                                 {"trace", "for Perfetto or chrome://tracing"},
                                 {"svg", "a picture"},
                                 {"html", "a page with a zoomable chart that shows what each op waits for"},
                                 {"torchtitan", "keys of torchtitan (TOML), and the order in a CSV file"},
                                 {"megatron", "flags of Megatron-LM, with the layout of layers"},
                                 {"deepspeed", "instructions and partition for DeepSpeed (JSON)"},
                                 {"primus", "the schedule table of Primus (JSON)"},
                                 {"pytorch", "the same as csv"},
                                 {NULL, NULL}};
const sl_value sl_compare_forms[] = {{"text", "a table"},
                                     {"json", "all results"},
                                     {"csv", "a line per plan"},
                                     {"svg", "a chart"},
                                     {NULL, NULL}};

#define PROBLEM                                                                                              \
    SL_OPTION("", ONCE, sl_plan_request, problem_file, "PROBLEM", NULL,                                      \
              .words = "one problem file at a time", .completes = SL_COMPLETES_FILE, .required = 1)
#define FORMAT(forms_of)                                                                                     \
    SL_OPTION("format", TEXT, sl_plan_request, format, "FORM",                                               \
              "what is printed (default: as the name of FILE ends, .png and .pdf made of svg by another "    \
              "program, .json.gz and the like packed; else text)",                                           \
              .values = forms_of)
#define WIDTH                                                                                                \
    SL_OPTION("width", INT, sl_plan_request, width, "N",                                                     \
              "columns of text (default: COLUMNS, else the terminal's, else 100)", .least = 40, .most = 500)
#define SET SL_OPTION_SET(sl_plan_request, set, sl_problem_visit_keys, "PROBLEM")
#define JITTER                                                                                               \
    SL_OPTION("jitter", INT, sl_plan_request, draws, "DRAWS",                                                \
              "the makespan's distribution with jittering delays (jitter_ms)", .least = 1,                   \
              .most = SL_MAX_DRAWS)
#define EXPLAIN                                                                                              \
    SL_OPTION("explain", FLAG, sl_plan_request, explain, NULL,                                               \
              "breakdown of time, and the cost of an extra millisecond per link and op")
#define SHAPE                                                                                                \
    SL_OPTION("shape", TEXT, sl_plan_request, shape, "KEY=N,...",                                            \
              "the job around the pipeline, for torchtitan, megatron, deepspeed and primus: tensor, data, "  \
              "context, expert, zero, microbatch_size, sequence, global_batch, recompute, offload; default " \
              "1 rank "                                                                                      \
              "each and microbatches of 1 sequence")
#define OUTPUT SL_OPTION_OUTPUT(sl_plan_request, output)

const sl_option sl_plan_options_table[] = {
    SL_OPTION("schedule", TEXT, sl_plan_request, schedule, "NAME", "one of the following",
              .list = sl_schedules_list, .standard = "auto"),
    SL_OPTION_TIME_LIMIT(sl_plan_request, time_limit,
                         "seconds for auto (default 1) and optimal (default 10); it ends earlier if proven "
                         "optimal"),
    SL_OPTION_SEED(sl_plan_request, seed, "the search and of jitter"),
    JITTER,
    EXPLAIN,
    FORMAT(forms),
    WIDTH,
    SHAPE,
    OUTPUT,
    SET,
    PROBLEM,
    SL_OPTIONS_END};
const sl_option sl_simulate_options[] = {
    SL_OPTION("order", TEXT, sl_plan_request, order_file, "FILE",
              "the order: CSV (compute_only or compute_comms), a plan's JSON, or the JSON of --format "
              "deepspeed or primus; also packed with gzip",
              .completes = SL_COMPLETES_FILE, .required = 1),
    SL_OPTION_SEED(sl_plan_request, seed, "jitter"),
    JITTER,
    EXPLAIN,
    SL_OPTION_TIME_LIMIT(sl_plan_request, time_limit,
                         "accepted as in plan, but unused: simulate does not search"),
    FORMAT(forms),
    WIDTH,
    SHAPE,
    OUTPUT,
    SET,
    PROBLEM,
    SL_OPTIONS_END};
const sl_option sl_compare_options[] = {
    SL_OPTION(
        "schedules", TEXT, sl_plan_request, schedules, "LIST",
        "names as in plan --schedule, separated by commas, each with @linear, @loop, @wave or "
        "@bidirectional for the same work under that placement; default: all families of the file's, and "
        "auto"),
    SL_OPTION("sweep", ONCE, sl_plan_request, sweep, "KEY=FROM:TO:STEP",
              "compare for each value of a key of PROBLEM; also KEY=A,B,..", .words = "one --sweep at a time",
              .keys = sl_problem_visit_keys),
    SL_OPTION_TIME_LIMIT(sl_plan_request, time_limit,
                         "seconds for each search of auto and optimal; default 1"),
    SL_OPTION_SEED(sl_plan_request, seed, "the searches"),
    FORMAT(sl_compare_forms),
    WIDTH,
    OUTPUT,
    SET,
    PROBLEM,
    SL_OPTIONS_END};

static int find_form(const char *name) {
    int form = 0;
    while (forms[form].name && strcmp(forms[form].name, name) != 0)
        form++;
    return forms[form].name ? form : -1;
}

static sl_status refuse_form(const char *name) {
    char known[256];
    sl_values_join(forms, known, sizeof known);
    return sl_error(SL_EINVAL, "--format must be %s, got '%s'", known, name);
}

/* "plan.json" and "plan.json.gz" end in "json". */
static int ends_in(const char *output, const char *form) {
    size_t length = strlen(output) - (sl_packs(output) ? 3 : 0), tail = strlen(form);
    return length > tail && output[length - tail - 1] == '.' &&
           strncmp(output + length - tail, form, tail) == 0;
}

/* By the end of the output's name, unless --format was given. A name that ends in a form of another command is
 * refused: its file would hold something else. */
static sl_status choose_format(const char *command, sl_plan_request *p) {
    const sl_value *known = strcmp(command, "compare") == 0 ? sl_compare_forms : forms;
    char names[128];
    if (p->format)
        return SL_OK;
    p->format = sl_picture_form(p->output) ? "svg" : "text";
    for (const sl_value *v = known; p->output && v->name; v++)
        if (ends_in(p->output, v->name))
            p->format = v->name;
    for (const sl_value *v = forms; p->output && v->name && strcmp(p->format, "text") == 0; v++)
        if (ends_in(p->output, v->name) && strcmp(v->name, "text") != 0) {
            sl_values_join(known, names, sizeof names);
            return sl_error(SL_EINVAL, "%s: %s: its forms are %s, not %s", command, p->output, names, v->name);
        }
    return SL_OK;
}

/* Before anything is planned. */
static sl_status check_picture(const sl_plan_request *p) {
    return sl_picture_form(p->output) && strcmp(p->format, "svg") == 0 ? sl_picture_check(p->output) : SL_OK;
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
    if (find_form(p->format) < 0)
        return refuse_form(p->format);
    if (p->shape && !sl_export_find(p->format))
        return sl_error(SL_EINVAL, "--shape goes with the forms of frameworks, not with --format %s",
                        p->format);
    return SL_OK;
}

static sl_status take_shape(sl_plan_request *p) {
    char why[256];
    p->export_shape = sl_export_shape_standard;
    if (!p->shape || sl_export_shape_parse(p->shape, &p->export_shape) == SL_OK)
        return SL_OK;
    snprintf(why, sizeof why, "%s", sl_error_text());
    return sl_error(SL_EINVAL, "--shape: %s", why);
}

sl_status sl_plan_request_open(int argc, char **argv, sl_plan_request *p) {
    const char *command = argv[0];
    *p = (sl_plan_request){.time_limit = -1};
    SL_TRY(sl_command_options(argc, argv, p));
    SL_TRY(choose_format(command, p));
    SL_TRY(check(command, p));
    SL_TRY(check_picture(p));
    SL_TRY(take_shape(p));
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
        fprintf(stderr, "slackline: %s; the search continues without the exact solver\n", sl_error_text());
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

/* --width, else COLUMNS, as shells and scripts set it, else the terminal's width, else 100. */
int sl_plan_request_width(const sl_plan_request *p) {
    if (p->width > 0)
        return p->width;
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
    double bubble = plan->objective == SL_MAKESPAN ? sl_timeline_bubble(&plan->timeline)
                    : plan->value > 0              ? (double)(plan->value - plan->ideal) / (double)plan->value
                                                   : 0;
    fprintf(out, "%s: %s %.12g ms, ", plan->schedule, sl_objective_names[plan->objective], ms(plan->value));
    if (plan->objective != SL_MAKESPAN)
        fprintf(out, "makespan %.12g ms, ", ms(plan->makespan));
    fprintf(out, "bubble %.1f%%, lower bound %.12g ms", 100 * bubble, ms(plan->bound));
    if (plan->value == plan->bound)
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

/* By index of `forms`, whose other rows are exports. */
static sl_status (*const prints[])(const sl_plan_request *, const sl_plan *, FILE *) = {
    print_text, print_json, print_csv, print_csv_comms, print_trace, print_svg, print_html};

static sl_status print_form(const sl_plan_request *planning, const sl_plan *plan, FILE *out) {
    size_t form = (size_t)find_form(planning->format);
    return form < sizeof prints / sizeof prints[0] ? prints[form](planning, plan, out)
                                                   : sl_plan_request_export(planning, plan, out);
}

sl_status sl_plan_request_print(const sl_plan_request *planning, const sl_plan *plan) {
    sl_leaving leaving;
    SL_TRY(sl_leaving_open(planning->output, &leaving));
    leaving.is_svg = strcmp(planning->format, "svg") == 0;
    sl_status status = print_form(planning, plan, leaving.out);
    SL_THEN(status, sl_plan_request_export_order(planning, plan));
    return sl_leaving_close(&leaving, status);
}

int sl_plan_request_end(sl_status status) {
    int code = sl_exit_code(status);
    if (code != 0)
        fprintf(stderr, "slackline: %s\n", sl_error_text());
    return code;
}
