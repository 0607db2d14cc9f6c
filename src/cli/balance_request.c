#include "cli/balance.h"
#include "cli/suggest.h"

#include "adapt/balance/balance.h"
#include "base/file.h"
#include "base/memory.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)1 << 30) /* of a list in a file */

/* The options as they were given. */
typedef struct given {
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

static sl_status refuse_option(const char *word, int missing) {
    static const char *const names[] = {"microbatches", "times", "fill",   "limits", "problem",
                                        "schedule",     "set",   "format", "help",   NULL};
    return sl_refuse_option("balance", names, word, missing);
}

/* ---- numbers ---- */

static sl_status parse_count(const char *option, const char *text, int least, int *count) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno || value < least || value > INT_MAX)
        return sl_error(SL_EINVAL, "balance: %s must be a whole number from %d to %d, got '%s'", option,
                        least, INT_MAX, text);
    *count = (int)value;
    return SL_OK;
}

/* A decimal number: none of strtod's other forms. */
static int is_decimal(const char *text) {
    return text[strspn(text, "0123456789.eE+-")] == 0 && strpbrk(text, "0123456789") != NULL;
}

static sl_status parse_real(const char *option, const char *text, double least, double most, double *value) {
    char *end;
    *value = strtod(text, &end);
    if (!is_decimal(text) || *end || !(*value >= least && *value <= most))
        return sl_error(SL_EINVAL, "balance: %s must be numbers from %g to %g, got '%s'", option, least, most,
                        text);
    return SL_OK;
}

/* What an option's list becomes, word by word. */
typedef struct list {
    const char *option;
    double least, most;
    int is_limit; /* whole numbers, or none */
    double *value;
    size_t count, room;
} list;

static sl_status add(list *l, const char *word) {
    double value = 0;
    int count;
    if (!l->is_limit) {
        SL_TRY(parse_real(l->option, word, l->least, l->most, &value));
    } else if (strcmp(word, "none") != 0) {
        SL_TRY(parse_count(l->option, word, 1, &count));
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

static sl_status take(sl_balance_request *r, given *g, int option) {
    switch (option) {
    case 'm':
        return parse_count("--microbatches", optarg, 1, &r->microbatches);
    case 't':
        g->times = optarg;
        return SL_OK;
    case 'i':
        g->fill = optarg;
        return SL_OK;
    case 'l':
        g->limits = optarg;
        return SL_OK;
    case 'p':
        g->problem[g->problems++] = optarg;
        return SL_OK;
    case 's':
        r->schedule = optarg;
        return SL_OK;
    case 'k':
        g->set[g->sets++] = optarg;
        return SL_OK;
    case 'f':
        r->is_text = strcmp(optarg, "text") == 0;
        return r->is_text || strcmp(optarg, "json") == 0
                   ? SL_OK
                   : sl_error(SL_EINVAL, "balance: --format must be json or text, got '%s'", optarg);
    default:
        r->help = 1;
        return SL_OK;
    }
}

static sl_status parse(int argc, char **argv, sl_balance_request *r, given *g) {
    int option;
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1 && !r->help) {
        if (option == '?' || option == ':')
            return refuse_option(argv[optind - 1], option == ':');
        SL_TRY(take(r, g, option));
    }
    if (r->help)
        return SL_OK;
    if (optind < argc)
        return sl_error(SL_EINVAL, "balance: '%s' is too much; see slackline balance --help", argv[optind]);
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
    list l = {.option = "--times", .least = SL_BALANCE_LEAST, .most = SL_BALANCE_MOST};
    r->replicas = g->problems;
    if (!g->times)
        return SL_OK;
    sl_status status = read_list(g->times, &l);
    r->time = l.value;
    r->replicas = (int)l.count;
    return status;
}

static sl_status read_fill(sl_balance_request *r, const given *g) {
    list l = {.option = "--fill", .most = SL_BALANCE_FILL};
    if (!g->fill)
        return SL_OK;
    sl_status status = read_list(g->fill, &l);
    if (status == SL_OK)
        status = spread(r, &l);
    r->fill = l.value;
    return status;
}

static sl_status read_limits(sl_balance_request *r, const given *g) {
    list l = {.option = "--limits", .is_limit = 1};
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
    given g = {0};
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
