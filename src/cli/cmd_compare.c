/* slackline compare: compares schedules, over the values of a key. */
#include "base/clock.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/comparison.h"
#include "plan/pipeline/other_placement.h"
#include "plan/search/layer_cut.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- progress: one line on a terminal ---- */

static int shows_progress(void) {
    const char *terminal = getenv("TERM");
    return isatty(STDERR_FILENO) && !(terminal && strcmp(terminal, "dumb") == 0);
}

/* Ctrl-C: clears the line, then the signal has its former effect (SA_RESETHAND). */
static void clear_and_end(int signal) {
    ssize_t ignored = write(STDERR_FILENO, "\r\033[K", 4);
    (void)ignored;
    raise(signal);
}

static void begin_progress(void) {
    struct sigaction action = {.sa_handler = clear_and_end, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};
    static const int signals[] = {SIGINT, SIGTERM};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < 2; i++) {
        struct sigaction old;
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL);
    }
}

static void show_progress(const sl_comparison *c, int value, int schedule) {
    fprintf(stderr, "\rcompare: %s", c->schedule[schedule].text);
    if (c->sweep.key)
        fprintf(stderr, " at %.40s (%d of %d)", c->sweep.value[value], value + 1, c->sweep.values);
    fputs("\033[K", stderr);
    fflush(stderr);
}

static void end_progress(void) {
    fputs("\r\033[K", stderr);
    fflush(stderr);
}

/* ---- the problem of a cell ---- */

/* The value was set as by --set; makes the error name --sweep. */
static void say_sweep(const char *assignment) {
    char error[1024], *set;
    snprintf(error, sizeof error, "%s", sl_error_text());
    if (strncmp(error, "--set ", 6) == 0) { /* already names the assignment */
        sl_error(SL_EINVAL, "--sweep %s", error + 6);
        return;
    }
    if ((set = strstr(error, " (--set)")) != NULL)
        memmove(set, set + 8, strlen(set + 8) + 1);
    sl_error(SL_EINVAL, "--sweep %s: %s", assignment, error);
}

/* Reads the file with the sweep's value set. Later values replace earlier ones. */
static sl_status read_value(sl_plan_request *planning, const sl_comparison *c, int value,
                            sl_problem *problem) {
    *problem = (sl_problem){0};
    if (!c->sweep.key)
        return sl_problem_read(&planning->document, problem);
    char *assignment;
    size_t length = strlen(c->sweep.key) + strlen(c->sweep.value[value]) + 2;
    SL_TRY(sl_alloc(&assignment, length, 1));
    snprintf(assignment, length, "%s=%s", c->sweep.key, c->sweep.value[value]);
    sl_status status = sl_document_set(&planning->document, assignment);
    SL_THEN(status, sl_problem_read(&planning->document, problem));
    if (status == SL_EINVAL)
        say_sweep(assignment);
    sl_free(assignment);
    return status;
}

static sl_placement placement_of(const sl_problem *problem, const sl_compared *schedule) {
    return schedule->placement < 0 ? problem->placement : (sl_placement)schedule->placement;
}

static sl_status make_placed(const sl_problem *problem, const sl_compared *schedule, sl_problem *placed) {
    sl_status status = sl_problem_with_placement(problem, placement_of(problem, schedule), placed);
    return status == SL_EINVAL ? sl_error(status, "%s: %s", schedule->text, sl_error_text()) : status;
}

/* Reads every problem once before the first is planned, so that a wrong request fails at once. */
static sl_status check_values(sl_plan_request *planning, const sl_comparison *c) {
    for (int value = 0; value < c->sweep.values; value++) {
        sl_problem problem, placed = {0};
        sl_status status = read_value(planning, c, value, &problem);
        for (int k = 0; k < c->schedules && status == SL_OK; k++) {
            status = make_placed(&problem, &c->schedule[k], &placed);
            sl_problem_free(&placed);
        }
        sl_problem_free(&problem);
        SL_TRY(status);
    }
    return SL_OK;
}

/* ---- cells ---- */

static void fill_cell(const sl_problem *problem, const sl_plan *plan, sl_comparison_cell *cell) {
    memcpy(cell->planned, plan->schedule, sizeof cell->planned);
    cell->value = plan->value;
    cell->makespan = plan->makespan;
    cell->span = plan->span;
    cell->bound = plan->bound;
    cell->bubble = sl_timeline_bubble(&plan->timeline);
    for (int rank = 0; rank < problem->ranks; rank++)
        if (rank == 0 || plan->peak_memory[rank] > cell->peak_memory)
            cell->peak_memory = plan->peak_memory[rank];
}

/* A schedule that needs another placement or more memory is a result, too. */
static sl_status keep_error(sl_status status, sl_comparison_cell *cell) {
    return status == SL_EINVAL || status == SL_ENONE ? sl_copy_text(&cell->error, sl_error_text()) : status;
}

static sl_status plan_cell(const sl_plan_request *planning, const sl_problem *problem, const char *name,
                           int prove, sl_comparison_cell *cell) {
    sl_plan plan = {0};
    sl_plan_options options = {
        .schedule = name, .time_limit = planning->time_limit, .seed = planning->seed, .exact = 1};
    sl_status status = sl_plan_search(problem, &options, &plan);
    if (status == SL_OK && prove && plan.value > plan.bound)
        status = sl_plan_prove(problem, &plan);
    if (status == SL_OK)
        fill_cell(problem, &plan, cell);
    else
        status = keep_error(status, cell);
    sl_plan_free(&plan);
    return status;
}

/* All cells of one value and one placement: they share the cut of layers, and every bound holds for all. */
static sl_status plan_placed(sl_plan_request *planning, sl_comparison *c, int value, sl_problem *problem,
                             int progress) {
    sl_comparison_cell *cells = &c->cell[value * c->schedules];
    sl_time bound = 0;
    int proven = 0;
    SL_TRY(sl_cut_choose(problem, (sl_limit){.deadline = sl_now() + sl_from_ms(planning->time_limit * 500)}));
    for (int k = 0; k < c->schedules; k++) {
        if (cells[k].placement != problem->placement)
            continue;
        if (progress)
            show_progress(c, value, k);
        SL_TRY(plan_cell(planning, problem, c->schedule[k].name, !proven, &cells[k]));
        proven |= !cells[k].error;
        bound = cells[k].bound > bound ? cells[k].bound : bound;
    }
    for (int k = 0; k < c->schedules; k++)
        if (cells[k].placement == problem->placement && !cells[k].error)
            cells[k].bound = bound;
    return SL_OK;
}

static sl_status plan_value(sl_plan_request *planning, sl_comparison *c, int value, int progress) {
    sl_comparison_cell *cells = &c->cell[value * c->schedules];
    sl_problem problem, placed = {0};
    sl_status status;
    SL_TRY_GOTO(out, status, read_value(planning, c, value, &problem));
    c->objective = problem.objective;
    for (int k = 0; k < c->schedules; k++)
        cells[k].placement = placement_of(&problem, &c->schedule[k]);
    for (int k = 0; k < c->schedules; k++) {
        int first = 0;
        while (cells[first].placement != cells[k].placement)
            first++;
        if (first < k)
            continue; /* already planned with that one */
        SL_TRY_GOTO(out, status, make_placed(&problem, &c->schedule[k], &placed));
        SL_TRY_GOTO(out, status, plan_placed(planning, c, value, &placed, progress));
        sl_problem_free(&placed);
    }
out:
    sl_problem_free(&placed);
    sl_problem_free(&problem);
    return status;
}

static sl_status plan_all(sl_plan_request *planning, sl_comparison *c) {
    int progress = shows_progress();
    sl_status status = SL_OK;
    if (progress)
        begin_progress();
    for (int value = 0; value < c->sweep.values && status == SL_OK; value++)
        status = plan_value(planning, c, value, progress);
    if (progress)
        end_progress();
    SL_TRY(status);
    int cells = c->sweep.values * c->schedules;
    for (int i = 0; i < cells; i++)
        if (!c->cell[i].error)
            return SL_OK;
    return sl_error(SL_ENONE, "none of %d has a schedule; %s%s%s: %s", cells, c->schedule[0].text,
                    c->sweep.key ? " at " : "", c->sweep.key ? c->sweep.value[0] : "", c->cell[0].error);
}

/* ---- the command ---- */

static sl_status check_form(const sl_plan_request *planning) {
    char known[64];
    for (const sl_value *form = sl_compare_forms; form->name; form++)
        if (strcmp(planning->format, form->name) == 0)
            return SL_OK;
    sl_values_join(sl_compare_forms, known, sizeof known);
    return sl_error(SL_EINVAL, "--format of compare must be %s, got '%s'", known, planning->format);
}

static sl_status read_request(sl_plan_request *planning, sl_comparison *c) {
    if (planning->time_limit < 0)
        planning->time_limit = 1;
    c->file = strcmp(planning->problem_file, "-") == 0 ? "standard input" : planning->problem_file;
    SL_TRY(sl_sweep_read(planning->sweep, &c->sweep));
    sl_problem problem;
    sl_status status = read_value(planning, c, 0, &problem);
    SL_THEN(status, sl_compared_read(planning->schedules, &problem, &c->schedule, &c->schedules));
    sl_problem_free(&problem);
    SL_TRY(status);
    return sl_alloc(&c->cell, (size_t)c->sweep.values * (size_t)c->schedules, sizeof *c->cell);
}

sl_status sl_comparison_make(sl_plan_request *planning, sl_comparison *c) {
    *c = (sl_comparison){0};
    SL_TRY(read_request(planning, c));
    SL_TRY(check_values(planning, c));
    sl_plan_request_say_refused();
    return plan_all(planning, c);
}

void sl_comparison_close(sl_comparison *c) {
    for (int i = 0; c->cell && i < c->sweep.values * c->schedules; i++)
        sl_free(c->cell[i].error);
    sl_free(c->cell);
    sl_compared_free(c->schedule, c->schedules);
    sl_sweep_close(&c->sweep);
}

static sl_status print(const sl_plan_request *planning, const sl_comparison *c) {
    sl_leaving leaving;
    SL_TRY(sl_leaving_open(planning->output, &leaving));
    leaving.is_svg = strcmp(planning->format, "svg") == 0;
    return sl_leaving_close(
        &leaving, sl_comparison_print(c, planning->format, sl_plan_request_width(planning), leaving.out));
}

static int run(int argc, char **argv) {
    sl_plan_request planning;
    sl_comparison comparison = {0};
    sl_status status = sl_plan_request_open(argc, argv, &planning);
    SL_THEN(status, check_form(&planning));
    SL_THEN(status, sl_comparison_make(&planning, &comparison));
    SL_THEN(status, print(&planning, &comparison));
    sl_comparison_close(&comparison);
    sl_plan_request_close(&planning);
    return sl_plan_request_end(status);
}

const sl_command sl_command_compare = {
    .name = "compare",
    .summary = "compare schedules, also over the values of a key",
    .about = "Plans several schedules for the problem file PROBLEM and compares their makespans.",
    .options = sl_compare_options,
    .example = "slackline compare examples/four-ranks.yaml --schedules 1f1b,zb-h2,adaptra --sweep "
               "pipeline.links.list.0.latency_ms=0:60:10",
    .run = run};
