#include "cli/balance.h"

#include "adapt/balance/balance.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/option.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)1 << 30) /* of a list in a file */

/* The options as they were given. */
typedef struct given {
    int microbatches, is_text;
    const char *times, *fill, *limits, *schedule;
    sl_texts problem, set;
} given;

static const char *const forms[] = {"json", "text", NULL};
static const sl_option options[] = {
    SL_OPTION("microbatches", INT, given, microbatches, .least = 1, .most = INT_MAX),
    SL_OPTION("times", TEXT, given, times),
    SL_OPTION("fill", TEXT, given, fill),
    SL_OPTION("limits", TEXT, given, limits),
    SL_OPTION("problem", TEXTS, given, problem),
    SL_OPTION("schedule", TEXT, given, schedule),
    SL_OPTION("set", TEXTS, given, set),
    SL_OPTION("format", CHOICE, given, is_text, .names = forms),
    SL_OPTIONS_END};

/* ---- lists ---- */

/* What an option's list becomes, word by word. */
typedef struct list {
    const char *option; /* its name */
    double least, most;
    int is_limit; /* whole numbers, or none */
    double *value;
    size_t count, room;
} list;

static sl_status add(list *l, const char *word) {
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

/* Words between commas; blanks and ends of lines may stand about them or part them. Changes `text`. */
static sl_status add_all(list *l, char *text) {
    int is_open = 0; /* behind a comma, or at the beginning: a number must follow */
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
            return sl_error(SL_EINVAL, "balance: --%s lacks a number behind %zu of them", l->option,
                            l->count);
        SL_TRY(add(l, word));
    }
    return l->count > 0 ? SL_OK : sl_error(SL_EINVAL, "balance: --%s has no numbers", l->option);
}

/* The list itself, or @FILE (@- is standard input). */
static sl_status read_list(const char *text, list *l) {
    char *copy;
    size_t size = 0;
    if (*text == '@')
        SL_TRY(sl_file_read_most(text + 1, MOST_BYTES, &copy, &size));
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
        return sl_error(SL_EINVAL, "balance: no --times and no --problem; see slackline balance --help");
    if (g->times && g->problem.count > 1)
        return sl_error(SL_EINVAL,
                        "balance: several --problem are a replica each as they are: no --times then");
    if (g->fill && g->problem.count > 0)
        return sl_error(SL_EINVAL, "balance: --problem says how a pipeline fills: no --fill then");
    if ((g->schedule || g->set.count > 0) && g->problem.count == 0)
        return sl_error(SL_EINVAL, "balance: %s needs --problem", g->schedule ? "--schedule" : "--set");
    return SL_OK;
}

/* One number for all, or one a replica. */
static sl_status spread(const sl_balance_request *r, list *l) {
    if (l->count != 1 && l->count != (size_t)r->replicas)
        return sl_error(SL_EINVAL, "balance: --%s has %zu numbers for %d replicas", l->option, l->count,
                        r->replicas);
    SL_TRY(sl_grow(&l->value, &l->room, (size_t)r->replicas, sizeof *l->value));
    while (l->count < (size_t)r->replicas)
        l->value[l->count++] = l->value[0];
    return SL_OK;
}

static sl_status read_times(sl_balance_request *r, const given *g) {
    list l = {.option = "times", .least = SL_BALANCE_LEAST, .most = SL_BALANCE_MOST};
    r->replicas = g->problem.count;
    if (!g->times)
        return SL_OK;
    sl_status status = read_list(g->times, &l);
    r->time = l.value;
    r->replicas = (int)l.count;
    return status;
}

static sl_status read_fill(sl_balance_request *r, const given *g) {
    list l = {.option = "fill", .most = SL_BALANCE_FILL};
    if (!g->fill)
        return SL_OK;
    sl_status status = read_list(g->fill, &l);
    SL_THEN(status, spread(r, &l));
    r->fill = l.value;
    return status;
}

static sl_status read_limits(sl_balance_request *r, const given *g) {
    list l = {.option = "limits", .is_limit = 1};
    if (!g->limits)
        return SL_OK;
    sl_status status = read_list(g->limits, &l);
    SL_THEN(status, spread(r, &l));
    SL_THEN(status, sl_alloc(&r->limit, l.count, sizeof *r->limit));
    for (size_t i = 0; i < l.count && status == SL_OK; i++)
        r->limit[i] = (int)l.value[i];
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

static sl_status read_all(sl_balance_request *r, const given *g) {
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

sl_status sl_balance_request_read(int argc, char **argv, const char *usage, sl_balance_request *request) {
    given g = {0};
    sl_options o = {.command = "balance", .table = options, .argc = argc, .argv = argv, .usage = usage};
    *request = (sl_balance_request){0};
    sl_status status = sl_options_take(&o, &g);
    request->help = o.help;
    if (status == SL_OK && !o.help)
        status = read_all(request, &g);
    SL_FREE(g.problem.text, g.set.text);
    return status;
}

void sl_balance_request_close(sl_balance_request *r) {
    for (int i = 0; i < r->problems; i++)
        sl_problem_free(&r->problem[i]);
    SL_FREE(r->problem, r->time, r->fill, r->limit);
}
