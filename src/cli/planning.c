#include "cli/planning.h"

#include "base/file.h"
#include "base/memory.h"
#include "plan/draw/svg.h"
#include "plan/draw/text.h"
#include "plan/pipeline/csv.h"
#include "plan/search/slack.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static sl_status parse_seconds(const char *text, double *seconds) {
    char *end;
    *seconds = strtod(text, &end);
    if (end == text || *end || !(*seconds >= 0 && *seconds <= 1e6))
        return sl_error(SL_EINVAL, "--time-limit must be seconds, got '%s'", text);
    return SL_OK;
}

static sl_status take_option(const char *command, sl_planning *p, int option, char **argv, const char **set, int *sets,
                             int *help) {
    switch (option) {
    case 's':
        p->schedule = optarg;
        return SL_OK;
    case 'r':
        p->order_file = optarg;
        return SL_OK;
    case 't':
        return parse_seconds(optarg, &p->time_limit);
    case 'f':
        p->format = optarg;
        return SL_OK;
    case 'o':
        p->output = optarg;
        return SL_OK;
    case 'k':
        set[(*sets)++] = optarg;
        return SL_OK;
    case 'h':
        *help = 1;
        return SL_OK;
    default:
        return sl_error(SL_EINVAL, "%s: %s '%s'; see slackline %s --help", command,
                        option == ':' ? "a value is missing after" : "unknown option", argv[optind - 1], command);
    }
}

static sl_status parse(const char *command, int argc, char **argv, sl_planning *p, const char **set, int *sets, int *help) {
    static const struct option plan_options[] = {
        {"schedule", required_argument, NULL, 's'}, {"time-limit", required_argument, NULL, 't'},
        {"format", required_argument, NULL, 'f'},   {"output", required_argument, NULL, 'o'},
        {"set", required_argument, NULL, 'k'},      {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    static const struct option simulate_options[] = {
        {"order", required_argument, NULL, 'r'}, {"time-limit", required_argument, NULL, 't'},
        {"format", required_argument, NULL, 'f'}, {"output", required_argument, NULL, 'o'},
        {"set", required_argument, NULL, 'k'},    {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    int simulates = strcmp(command, "simulate") == 0;
    optind = 1;
    opterr = 0;
    for (;;) {
        int option = getopt_long(argc, argv, "+:ho:", simulates ? simulate_options : plan_options, NULL);
        if (option != -1) {
            SL_TRY(take_option(command, p, option, argv, set, sets, help));
        } else if (optind < argc) { /* options may follow the file */
            if (p->problem_file)
                return sl_error(SL_EINVAL, "%s: one problem file at a time, got '%s' too", command, argv[optind]);
            p->problem_file = argv[optind++];
        } else {
            break;
        }
    }
    if (*help)
        return SL_OK;
    if (!p->problem_file)
        return sl_error(SL_EINVAL, "%s: no problem file; see slackline %s --help", command, command);
    if (simulates && !p->order_file)
        return sl_error(SL_EINVAL, "simulate: no --order FILE");
    static const char *const formats[] = {"text", "json", "csv", "svg"};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(p->format, formats[i]) == 0)
            return SL_OK;
    return sl_error(SL_EINVAL, "--format must be text, json, csv or svg, got '%s'", p->format);
}

sl_status sl_planning_open(const char *command, int argc, char **argv, sl_planning *p, int *help) {
    const char **set;
    int sets = 0;
    *p = (sl_planning){.schedule = "auto", .format = "text", .time_limit = 1};
    SL_TRY(sl_alloc(&set, (size_t)argc, sizeof *set));
    sl_status status = parse(command, argc, argv, p, set, &sets, help);
    if (status == SL_OK && !*help)
        status = sl_document_read(p->problem_file, &p->document);
    for (int i = 0; i < sets && status == SL_OK && !*help; i++)
        status = sl_document_set(&p->document, set[i]);
    if (status == SL_OK && !*help)
        status = sl_problem_read(&p->document, &p->problem);
    sl_free(set);
    return status;
}

void sl_planning_close(sl_planning *p) {
    sl_problem_free(&p->problem);
    sl_document_close(&p->document);
}

/* ---- printing ---- */

static int terminal_width(void) {
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    if (columns && atoi(columns) > 0)
        return atoi(columns);
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

static void print_list(FILE *out, const char *name, const sl_problem *p, const sl_plan *plan, int memory) {
    fprintf(out, "%-13s", name);
    for (int rank = 0; rank < p->ranks; rank++)
        if (memory)
            fprintf(out, "%s%.4g", rank ? ", " : "", plan->peak_memory[rank]);
        else
            fprintf(out, "%s%d", rank ? ", " : "", plan->warmup[rank]);
    fputc('\n', out);
}

static void print_links(FILE *out, const sl_problem *p, const sl_plan *plan) {
    for (int r = 0; r + 1 < p->ranks; r++) {
        const sl_link *link = &p->link[r * p->ranks + r + 1];
        int full = 0;
        for (int i = 0; i < plan->order.count[r]; i++)
            full |= plan->order.ops[r][i].kind == SL_B;
        fprintf(out, "link %d-%-6d latency %g ms, transfer %g ms; slack %d tolerates %g ms\n", r, r + 1, sl_to_ms(link->latency),
                sl_to_ms(link->transfer), plan->warmup[r] - plan->warmup[r + 1],
                sl_to_ms(sl_slack_tolerance(p, plan->warmup, r, full)));
    }
}

static sl_status print_text(const sl_planning *planning, const sl_plan *plan, FILE *out) {
    const sl_problem *p = &planning->problem;
    int terminal = !planning->output && isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    double gap = plan->bound > 0 ? 100 * (double)(plan->makespan - plan->bound) / (double)plan->bound : 0;
    fprintf(out, "%s: makespan %.6g ms, bubble %.1f %%, %s", plan->schedule, sl_to_ms(plan->makespan),
            100 * sl_timeline_bubble(&plan->timeline), gap < 1e-9 ? "proven optimal\n" : "");
    if (gap >= 1e-9)
        fprintf(out, "lower bound %.6g ms, gap %.1f %%\n", sl_to_ms(plan->bound), gap);
    if (!plan->memory_ok)
        fprintf(out, "over the memory limit\n");
    fputc('\n', out);
    sl_text_options options = {.width = terminal_width(), .colour = terminal};
    SL_TRY(sl_draw_text(&plan->timeline, &options, out));
    fputc('\n', out);
    print_list(out, "warm-up", p, plan, 0);
    print_list(out, "peak memory", p, plan, 1);
    print_links(out, p, plan);
    if (plan->dependency_loss || plan->blocking_loss)
        fprintf(out, "lost to links: %.6g ms by dependencies, %.6g ms by blocking\n", sl_to_ms(plan->dependency_loss),
                sl_to_ms(plan->blocking_loss));
    fprintf(out, "F forward, I backward for the input, W for the weights, B both; planned in %.3g ms\n", sl_to_ms(plan->solve));
    return SL_OK;
}

static sl_status print_svg(const sl_plan *plan, FILE *out) {
    char title[128];
    snprintf(title, sizeof title, "%s: makespan %.6g ms, bubble %.1f %%", plan->schedule, sl_to_ms(plan->makespan),
             100 * sl_timeline_bubble(&plan->timeline));
    const sl_timeline *timeline = &plan->timeline;
    const char *titles = title;
    return sl_draw_svg(&timeline, &titles, 1, out);
}

static sl_status print_to(const sl_planning *planning, const sl_plan *plan, FILE *out) {
    switch (planning->format[0]) {
    case 'j':
        return sl_plan_write_json(&planning->problem, plan, out);
    case 'c':
        return sl_order_write_csv(&plan->order, out);
    case 's':
        return print_svg(plan, out);
    default:
        return print_text(planning, plan, out);
    }
}

sl_status sl_planning_print(const sl_planning *planning, const sl_plan *plan) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for the output");
    sl_status status = print_to(planning, plan, out);
    if (fclose(out) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for the output");
    if (status == SL_OK && planning->output)
        status = sl_file_write(planning->output, text, size);
    else if (status == SL_OK && (fwrite(text, 1, size, stdout) != size || fflush(stdout) != 0))
        status = sl_error_errno(SL_ESYS, "standard output cannot be written");
    free(text);
    return status;
}

int sl_planning_end(sl_status status) {
    if (status != SL_OK)
        fprintf(stderr, "slackline: %s\n", sl_error_text());
    return sl_exit_code(status);
}
