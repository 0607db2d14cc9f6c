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
    sl_balance_request *request;
    const char *times, *fill, *limits;
    const char **problem, **set; /* [argc] */
    int problems, sets;
} given;

static const struct option options[] = {{"microbatches", required_argument, NULL, 'm'},
                                        {"times", required_argument, NULL, 't'},
                                        {"fill", required_argument, NULL, 'i'},
                                        {"limits", required_argument, NULL, 'l'},
                                        {"problem", required_argument, NULL, 'p'},
                                        {"schedule", required_argument, NULL, 's'},
                                        {"set", required_argument, NULL, 'k'},
                                        {"format", required_argument, NULL, 'f'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

/* ---- lists ---- */

/* What an option's list becomes, word by word. */
typedef struct list {
    char letter; /* of the option */
    const char *option;
    double least, most;
    int is_limit; /* whole numbers, or none */
    double *value;
    size_t count, room;
} list;

static sl_status add(list *l, const char *word) {
    const sl_options o = {.command = "balance", .table = options, .option = l->letter, .value = word};
    double value = 0;
    int count;
    if (!l->is_limit) {
        SL_TRY(sl_option_real(&o, "numbers", l->least, l->most, &value));
    } else if (strcmp(word, "none") != 0) {
        SL_TRY(sl_option_int(&o, 1, INT_MAX, &count));
        value = count;
    }
    if (l->count == SL_MAX_REPLICAS)
        return sl_error(SL_EINVAL, "balance: %s has more than %d numbers", l->option, SL_MAX_REPLICAS);
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
            return sl_error(SL_EINVAL, "balance: %s lacks a number behind %zu of them", l->option, l->count);
        SL_TRY(add(l, word));
    }
    return l->count > 0 ? SL_OK : sl_error(SL_EINVAL, "balance: %s has no numbers", l->option);
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
                           ? sl_error(SL_EINVAL, "balance: %s has a zero byte", text + 1)
                           : add_all(l, copy);
    sl_free(copy);
    return status;
}

/* ---- the request ---- */

static sl_status take(const sl_options *o, void *argument) {
    static const char *const forms[] = {"json", "text", NULL};
    given *g = argument;
    switch (o->option) {
    case 'm':
        return sl_option_int(o, 1, INT_MAX, &g->request->microbatches);
    case 't':
        g->times = o->value;
        return SL_OK;
    case 'i':
        g->fill = o->value;
        return SL_OK;
    case 'l':
        g->limits = o->value;
        return SL_OK;
    case 'p':
        g->problem[g->problems++] = o->value;
        return SL_OK;
    case 's':
        g->request->schedule = o->value;
        return SL_OK;
    case 'k':
        g->set[g->sets++] = o->value;
        return SL_OK;
    case 'f':
        return sl_option_choice(o, forms, &g->request->is_text);
    default:
        return sl_option_too_much(o);
    }
}

static sl_status parse(int argc, char **argv, sl_balance_request *r, given *g) {
    sl_options o = {.command = "balance", .table = options, .argc = argc, .argv = argv};
    SL_TRY(sl_options_take(&o, take, g));
    r->help = o.help;
    if (r->help)
        return SL_OK;
    if (r->microbatches == 0)
        return sl_error(SL_EINVAL, "balance: no --microbatches; see slackline balance --help");
    if (!g->times && g->problems == 0)
        return sl_error(SL_EINVAL, "balance: no --times and no --problem; see slackline balance --help");
    if (g->times && g->problems > 1)
        return sl_error(SL_EINVAL,
                        "balance: several --problem are a replica each as they are: no --times then");
    if (g->fill && g->problems > 0)
        return sl_error(SL_EINVAL, "balance: --problem says how a pipeline fills: no --fill then");
    if ((r->schedule || g->sets > 0) && g->problems == 0)
        return sl_error(SL_EINVAL, "balance: %s needs --problem", r->schedule ? "--schedule" : "--set");
    return SL_OK;
}

/* One number for all, or one a replica. */
static sl_status spread(const sl_balance_request *r, list *l) {
    if (l->count != 1 && l->count != (size_t)r->replicas)
        return sl_error(SL_EINVAL, "balance: %s has %zu numbers for %d replicas", l->option, l->count,
                        r->replicas);
    SL_TRY(sl_grow(&l->value, &l->room, (size_t)r->replicas, sizeof *l->value));
    while (l->count < (size_t)r->replicas)
        l->value[l->count++] = l->value[0];
    return SL_OK;
}

static sl_status read_times(sl_balance_request *r, const given *g) {
    list l = {.letter = 't', .option = "--times", .least = SL_BALANCE_LEAST, .most = SL_BALANCE_MOST};
    r->replicas = g->problems;
    if (!g->times)
        return SL_OK;
    sl_status status = read_list(g->times, &l);
    r->time = l.value;
    r->replicas = (int)l.count;
    return status;
}

static sl_status read_fill(sl_balance_request *r, const given *g) {
    list l = {.letter = 'i', .option = "--fill", .most = SL_BALANCE_FILL};
    if (!g->fill)
        return SL_OK;
    sl_status status = read_list(g->fill, &l);
    if (status == SL_OK)
        status = spread(r, &l);
    r->fill = l.value;
    return status;
}

static sl_status read_limits(sl_balance_request *r, const given *g) {
    list l = {.letter = 'l', .option = "--limits", .is_limit = 1};
    if (!g->limits)
        return SL_OK;
    sl_status status = read_list(g->limits, &l);
    if (status == SL_OK)
        status = spread(r, &l);
    if (status == SL_OK)
        status = sl_alloc(&r->limit, l.count, sizeof *r->limit);
    for (size_t i = 0; i < l.count && status == SL_OK; i++)
        r->limit[i] = (int)l.value[i];
    sl_free(l.value);
    return status;
}

static sl_status read_problem(const char *file, const given *g, sl_problem *problem) {
    sl_document document = {0};
    sl_status status = sl_document_read(file, &document);
    for (int i = 0; i < g->sets && status == SL_OK; i++)
        status = sl_document_set(&document, g->set[i]);
    if (status == SL_OK)
        status = sl_problem_read(&document, problem);
    sl_document_close(&document);
    return status;
}

static sl_status read_all(int argc, char **argv, sl_balance_request *r, given *g) {
    SL_TRY(parse(argc, argv, r, g));
    if (r->help)
        return SL_OK;
    SL_TRY(read_times(r, g));
    SL_TRY(read_fill(r, g));
    SL_TRY(read_limits(r, g));
    SL_TRY(sl_alloc(&r->problem, (size_t)g->problems, sizeof *r->problem));
    for (; r->problems < g->problems; r->problems++)
        SL_TRY(read_problem(g->problem[r->problems], g, &r->problem[r->problems]));
    r->schedule = r->schedule ? r->schedule : "auto";
    return SL_OK;
}

sl_status sl_balance_request_read(int argc, char **argv, sl_balance_request *request) {
    given g = {.request = request};
    *request = (sl_balance_request){0};
    sl_status status = sl_alloc(&g.problem, (size_t)argc, sizeof *g.problem);
    if (status == SL_OK)
        status = sl_alloc(&g.set, (size_t)argc, sizeof *g.set);
    if (status == SL_OK)
        status = read_all(argc, argv, request, &g);
    sl_free(g.problem);
    sl_free(g.set);
    return status;
}

void sl_balance_request_close(sl_balance_request *r) {
    for (int i = 0; i < r->problems; i++)
        sl_problem_free(&r->problem[i]);
    sl_free(r->problem);
    sl_free(r->time);
    sl_free(r->fill);
    sl_free(r->limit);
}
