/* slackline balance: the number of microbatches of each replica. */
#include "adapt/balance/balance.h"
#include "adapt/balance/pipelines.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/plan_request.h"
#include "plan/pipeline/problem.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef struct balance_options {
    int microbatches, replicas;
    double *time;        /* [replicas] ms; NULL: from the problems */
    double *fill;        /* [replicas] microbatches; NULL: none */
    int *limit;          /* [replicas] 0: none; NULL: none */
    sl_problem *problem; /* [problems] 0: none; 1: of all replicas; else one per replica */
    int problems;
    const char *schedule;
    int is_text;
} balance_options;

#define MAX_BYTES ((size_t)1 << 30) /* of a list in a file */

/* The options as given. */
typedef struct given {
    int microbatches, is_text;
    const char *times, *fill, *limits, *schedule;
    sl_texts problem, set;
} given;

static const sl_value forms[] = {
    {"json", "{\"microbatches\", \"makespan_ms\", \"times_ms\", \"slowest\", \"even_ms\"}"},
    {"text", "a table"},
    {NULL, NULL}};
static const sl_option options[] = {
    SL_OPTION("microbatches", INT, given, microbatches, "M", "of one iteration, over all replicas",
              .least = 1, .most = INT_MAX, .required = 3),
    SL_OPTION("times", TEXT, given, times, "LIST",
              "ms per microbatch on each replica's slowest rank, one number per replica", .required = 1),
    SL_OPTION("fill", TEXT, given, fill, "LIST",
              "cost of filling and draining a pipeline, in microbatches, without --problem: m microbatches "
              "take T * (m + P); ranks - 1 for an even pipeline; default 0"),
    SL_OPTION("limits", TEXT, given, limits, "LIST",
              "maximum number of microbatches that fit into each replica's memory, or none"),
    SL_OPTION(
        "problem", TEXTS, given, problem, "FILE",
        "the replicas' pipeline: iteration times are planned and replayed for every number tried, "
        "including links, collectives and the memory limit; its op times are scaled so that F, I and W of "
        "a microbatch take T on the busiest rank. If repeated: one file per replica, not scaled, without "
        "--times",
        .completes = SL_COMPLETES_FILE, .required = 2),
    SL_OPTION("schedule", TEXT, given, schedule, "NAME",
              "of --problem: a family, or auto (default), the best family"),
    SL_OPTION_SET(given, set, sl_problem_visit_keys, "--problem"),
    SL_OPTION("format", CHOICE, given, is_text, "FORM", "form of the output", .values = forms,
              .standard = "json"),
    SL_OPTIONS_END};

/* ---- lists ---- */

/* The list of an option, read word by word. */
typedef struct number_list {
    const char *option; /* its name */
    double least, most;
    int is_limit; /* whole numbers, or none */
    double *value;
    size_t count, room;
} number_list;

static sl_status add(number_list *l, const char *word) {
    const sl_option row = {.name = l->option};
    const sl_options o = {.command = "balance", .row = &row, .value = word};
    double value = 0;
    int count;
    if (!l->is_limit) {
        SL_TRY(sl_option_real(&o, "numbers", l->least, l->most, &value));
    } else if (strcmp(word, "none") != 0) {
        SL_TRY(sl_option_int(&o, 1, INT_MAX, &count));
        value = count;
    }
    if (l->count == SL_MAX_REPLICAS)
        return sl_error(SL_EINVAL, "balance: --%s has more than %d numbers", l->option, SL_MAX_REPLICAS);
    SL_TRY(sl_grow(&l->value, &l->room, l->count + 1, sizeof *l->value));
    l->value[l->count++] = value;
    return SL_OK;
}

static int is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Words separated by commas, blanks or ends of lines. Changes `text`. */
static sl_status add_all(number_list *l, char *text) {
    int is_open = 0; /* after a comma, or at the beginning: a number must follow */
    while (is_blank(*text))
        text++;
    while (*text || is_open) {
        char *word = text;
        while (*text && *text != ',' && !is_blank(*text))
            text++;
        char *end = text;
        while (is_blank(*text))
            text++;
        is_open = *text == ',';
        text += is_open;
        *end = 0;
        while (is_blank(*text))
            text++;
        if (!*word)
            return sl_error(SL_EINVAL, "balance: --%s lacks a number after %zu of them", l->option, l->count);
        SL_TRY(add(l, word));
    }
    return l->count > 0 ? SL_OK : sl_error(SL_EINVAL, "balance: --%s has no numbers", l->option);
}

/* The list itself, or @FILE (@- is standard input). */
static sl_status read_list(const char *text, number_list *l) {
    char *copy;
    size_t size = 0;
    if (*text == '@')
        SL_TRY(sl_file_read_max(text + 1, MAX_BYTES, &copy, &size));
    else
        SL_TRY(sl_copy_text(&copy, text));
    sl_status status = size > 0 && strlen(copy) != size
                           ? sl_error(SL_EINVAL, "balance: --%s has a zero byte", text + 1)
                           : add_all(l, copy);
    sl_free(copy);
    return status;
}

/* ---- the request ---- */

static sl_status check(const given *g) {
    if (g->microbatches == 0)
        return sl_error(SL_EINVAL, "balance: no --microbatches; see slackline balance --help");
    if (!g->times && g->problem.count == 0)
        return sl_error(SL_EINVAL, "balance: give --times or --problem; see slackline balance --help");
    if (g->times && g->problem.count > 1)
        return sl_error(SL_EINVAL,
                        "balance: --times does not go with several --problem, which have their own times");
    if (g->fill && g->problem.count > 0)
        return sl_error(SL_EINVAL,
                        "balance: --fill does not go with --problem, whose pipeline has its own fill");
    if ((g->schedule || g->set.count > 0) && g->problem.count == 0)
        return sl_error(SL_EINVAL, "balance: %s needs --problem", g->schedule ? "--schedule" : "--set");
    return SL_OK;
}

/* One number for all, or one per replica. */
static sl_status spread(const balance_options *r, number_list *l) {
    if (l->count != 1 && l->count != (size_t)r->replicas)
        return sl_error(SL_EINVAL, "balance: --%s has %zu numbers for %d replicas", l->option, l->count,
                        r->replicas);
    SL_TRY(sl_grow(&l->value, &l->room, (size_t)r->replicas, sizeof *l->value));
    while (l->count < (size_t)r->replicas)
        l->value[l->count++] = l->value[0];
    return SL_OK;
}

static sl_status read_times(balance_options *r, const given *g) {
    number_list l = {.option = "times", .least = SL_BALANCE_MIN, .most = SL_BALANCE_MAX};
    r->replicas = g->problem.count;
    if (!g->times)
        return SL_OK;
    sl_status status = read_list(g->times, &l);
    r->time = l.value;
    r->replicas = (int)l.count;
    return status;
}

static sl_status read_fill(balance_options *r, const given *g) {
    number_list l = {.option = "fill", .most = SL_BALANCE_FILL};
    if (!g->fill)
        return SL_OK;
    sl_status status = read_list(g->fill, &l);
    SL_THEN(status, spread(r, &l));
    r->fill = l.value;
    return status;
}

static sl_status read_limits(balance_options *r, const given *g) {
    number_list l = {.option = "limits", .is_limit = 1};
    if (!g->limits)
        return SL_OK;
    sl_status status;
    SL_TRY_GOTO(out, status, read_list(g->limits, &l));
    SL_TRY_GOTO(out, status, spread(r, &l));
    SL_TRY_GOTO(out, status, sl_alloc(&r->limit, l.count, sizeof *r->limit));
    for (size_t i = 0; i < l.count; i++)
        r->limit[i] = (int)l.value[i];
out:
    sl_free(l.value);
    return status;
}

static sl_status read_problem(const char *file, const given *g, sl_problem *problem) {
    sl_document document = {0};
    sl_status status = sl_document_read(file, &document);
    SL_THEN(status, sl_document_set_all(&document, g->set.text, g->set.count));
    SL_THEN(status, sl_problem_read(&document, problem));
    sl_document_close(&document);
    return status;
}

static sl_status read_all(balance_options *r, const given *g) {
    SL_TRY(check(g));
    r->microbatches = g->microbatches;
    r->is_text = g->is_text;
    r->schedule = g->schedule ? g->schedule : "auto";
    SL_TRY(read_times(r, g));
    SL_TRY(read_fill(r, g));
    SL_TRY(read_limits(r, g));
    SL_TRY(sl_alloc(&r->problem, (size_t)g->problem.count, sizeof *r->problem));
    for (; r->problems < g->problem.count; r->problems++)
        SL_TRY(read_problem(g->problem.text[r->problems], g, &r->problem[r->problems]));
    return SL_OK;
}

/* Reads options (--help: printed, SL_DONE), lists and problem files. SL_EINVAL. Close with
 * close_request, also on error. */
static sl_status read_request(int argc, char **argv, balance_options *request) {
    given g = {0};
    *request = (balance_options){0};
    sl_status status = sl_command_options(argc, argv, &g);
    SL_THEN(status, read_all(request, &g));
    SL_FREE(g.problem.text, g.set.text);
    return status;
}

static void close_request(balance_options *r) {
    for (int i = 0; i < r->problems; i++)
        sl_problem_free(&r->problem[i]);
    SL_FREE(r->problem, r->time, r->fill, r->limit);
}

typedef struct balance_answer {
    int *split;      /* [replicas] */
    double *time;    /* [replicas] ms */
    double makespan; /* ms */
    double even;     /* ms, of the even split; negative: it does not fit */
    int slowest;     /* replica */
} balance_answer;

/* ---- answers ---- */

static sl_status make_room(const balance_options *r, balance_answer *a) {
    SL_TRY(sl_alloc(&a->split, (size_t)r->replicas, sizeof *a->split));
    return sl_alloc(&a->time, (size_t)r->replicas, sizeof *a->time);
}

static int even_fits(const balance_options *r, const int *even) {
    for (int i = 0; i < r->replicas && r->limit; i++)
        if (r->limit[i] > 0 && even[i] > r->limit[i])
            return 0;
    return 1;
}

static double largest(const double *time, int count, int *at) {
    *at = 0;
    for (int i = 1; i < count; i++)
        *at = time[i] > time[*at] ? i : *at;
    return time[*at];
}

/* The maximum time of `split`, by formula; *time of each. */
static double formula_times(const balance_options *r, const sl_replica_rate *replica, const int *split,
                            double *time, int *at) {
    for (int i = 0; i < r->replicas; i++)
        time[i] = sl_replica_time(&replica[i], split[i]);
    return largest(time, r->replicas, at);
}

static sl_status by_formula(const balance_options *r, int *even, balance_answer *a) {
    sl_replica_rate *replica;
    int at;
    SL_TRY(sl_alloc(&replica, (size_t)r->replicas, sizeof *replica));
    for (int i = 0; i < r->replicas; i++)
        replica[i] = (sl_replica_rate){
            .time = r->time[i], .fill = r->fill ? r->fill[i] : 0, .limit = r->limit ? r->limit[i] : 0};
    sl_status status;
    SL_TRY_GOTO(out, status, sl_balance(replica, r->replicas, r->microbatches, a->split, &a->makespan));
    sl_split_evenly(r->replicas, r->microbatches, even);
    a->even = formula_times(r, replica, even, a->time, &at);
    formula_times(r, replica, a->split, a->time, &a->slowest);
out:
    sl_free(replica);
    return status;
}

static sl_status add_replicas(const balance_options *r, sl_pipelines *pipelines) {
    for (int i = 0; i < r->replicas; i++)
        SL_TRY(sl_pipelines_add(pipelines, &r->problem[r->problems > 1 ? i : 0],
                                r->time ? 1e6 * r->time[i] : 0));
    return SL_OK;
}

static sl_status by_pipelines(const balance_options *r, sl_pipelines *pipelines, sl_time *time, int *even,
                              balance_answer *a) {
    SL_TRY(add_replicas(r, pipelines));
    SL_TRY(sl_pipelines_balance(pipelines, r->microbatches, r->limit, a->split, time));
    for (int i = 0; i < r->replicas; i++)
        a->time[i] = sl_to_ms(time[i]);
    a->makespan = largest(a->time, r->replicas, &a->slowest);
    sl_split_evenly(r->replicas, r->microbatches, even);
    if (!even_fits(r, even))
        return SL_OK;
    for (int i = 0; i < r->replicas; i++) {
        sl_status status = sl_pipelines_planned(pipelines, i, even[i], &time[i]);
        if (status == SL_ENONE) {
            a->even = -1;
            return SL_OK;
        }
        SL_TRY(status);
        a->even = sl_to_ms(time[i]) > a->even ? sl_to_ms(time[i]) : a->even;
    }
    return SL_OK;
}

/* Checks the request before anything is planned. */
static sl_status check_shares(const balance_options *r, int *room, int *most) {
    *most = 1;
    for (int i = 0; i < r->replicas; i++)
        room[i] = r->limit ? r->limit[i] : 0;
    SL_TRY(sl_balance_room(r->replicas, r->microbatches, room));
    for (int i = 0; i < r->replicas; i++)
        *most = room[i] > *most ? room[i] : *most;
    return SL_OK;
}

static sl_status plan_pipelines(const balance_options *r, int *even, balance_answer *a) {
    sl_pipelines *pipelines = NULL;
    sl_time *time = NULL;
    sl_status status;
    int most;
    SL_TRY(check_shares(r, even, &most));
    SL_TRY(sl_pipelines_open(r->schedule, most, &pipelines));
    SL_TRY_GOTO(out, status, sl_alloc(&time, (size_t)r->replicas, sizeof *time));
    status = by_pipelines(r, pipelines, time, even, a);
out:
    sl_free(time);
    sl_pipelines_close(pipelines);
    return status;
}

static sl_status balance(const balance_options *r, balance_answer *a) {
    int *even;
    SL_TRY(make_room(r, a));
    SL_TRY(sl_alloc(&even, (size_t)r->replicas, sizeof *even));
    sl_status status = r->problems > 0 ? plan_pipelines(r, even, a) : by_formula(r, even, a);
    if (status == SL_OK && !even_fits(r, even))
        a->even = -1;
    sl_free(even);
    return status;
}

/* ---- printing ---- */

/* The fewest digits that read back to the same number. */
static const char *shortest(double value, char text[32]) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return text;
}

static void print_json(const balance_options *r, const balance_answer *a) {
    char number[32];
    printf("{\"microbatches\":[");
    for (int i = 0; i < r->replicas; i++)
        printf("%s%d", i ? "," : "", a->split[i]);
    printf("],\"makespan_ms\":%s,\"times_ms\":[", shortest(a->makespan, number));
    for (int i = 0; i < r->replicas; i++)
        printf("%s%s", i ? "," : "", shortest(a->time[i], number));
    printf("],\"slowest\":%d,\"even_ms\":%s}\n", a->slowest,
           a->even < 0 ? "null" : shortest(a->even, number));
}

static void print_text(const balance_options *r, const balance_answer *a) {
    printf("replica  microbatches        time ms\n");
    for (int i = 0; i < r->replicas; i++)
        printf("%7d  %12d  %13.6g%s\n", i, a->split[i], a->time[i], i == a->slowest ? "  slowest" : "");
    printf("\n%d microbatches in %.6g ms", r->microbatches, a->makespan);
    if (a->even >= 0)
        printf("; divided evenly %.6g ms (%.2f times as long)\n", a->even, a->even / a->makespan);
    else
        printf("; divided evenly they do not fit\n");
}

static int run(int argc, char **argv) {
    balance_options request;
    balance_answer a = {0};
    sl_status status = read_request(argc, argv, &request);
    SL_THEN(status, balance(&request, &a));
    if (status == SL_OK)
        (request.is_text ? print_text : print_json)(&request, &a);
    SL_FREE(a.split, a.time);
    close_request(&request);
    return sl_plan_request_end(status);
}

const sl_command sl_command_balance = {
    .name = "balance",
    .summary = "split microbatches over replicas of different speed",
    .about = "Splits M microbatches over replicas, at least one each, so that the largest iteration time is "
             "minimal (exact). Ties are broken by the second-largest time, and so on; then the lower replica "
             "gets more.",
    .options = options,
    .notes =
        "A LIST has commas or blanks between its numbers, or is @FILE (@-: standard input); for --fill and "
        "--limits one number applies to all. `train` takes the split as batch.split and weights gradients "
        "by it.",
    .example = "slackline balance --microbatches 20 --times 30,45 --fill 1",
    .run = run};
