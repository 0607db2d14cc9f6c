#include "dashboard/page_updates.h"
#include "base/memory.h"
#include "report/downsample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- values ---- */

/* A number with six digits; null: not known. */
static json_t *number(double value) {
    char text[32];
    snprintf(text, sizeof text, "%.6g", value);
    return isfinite(value) ? json_real(strtod(text, NULL)) : json_null();
}

/* Bytes that are not UTF-8 become question marks: the text may come from any file. */
static json_t *words(const char *text) {
    json_t *string = json_string(text);
    char *copy = string ? NULL : strdup(text);
    for (char *c = copy; c && *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    if (copy)
        string = json_string(copy);
    free(copy);
    return string;
}

static json_t *list_of_words(char *const *text, size_t first, size_t count) {
    json_t *list = json_array();
    for (size_t i = first; i < count; i++)
        json_array_append_new(list, words(text[i]));
    return list;
}

static const char *name_of(const sl_board *b, int index) {
    return index >= 0 ? b->name[index] : "";
}

/* ---- scalars ---- */

static json_t *setup_of(const sl_board *b) {
    return json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:o,s:o,s:o}", "pipeline", b->pipeline, "data", b->data,
                     "tensor", b->tensor, "microbatches", b->microbatches, "iterations", b->iterations,
                     "adapt", b->adapt, "placement", words(b->placement), "model", words(b->model), "program",
                     words(b->program));
}

static json_t *head_of(const sl_board *b) {
    json_t *head = json_pack("{s:I,s:i,s:i,s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "iteration",
                             (json_int_t)b->iteration, "delegates", b->delegates, "late", b->late, "slow",
                             b->slow, "time", number(b->time), "predicted", number(b->predicted), "healthy",
                             number(b->healthy), "level", number(b->level), "loss", number(b->loss),
                             "validation", number(b->validation), "tokens", number(b->tokens), "caught",
                             number(b->caught), "schedule", words(name_of(b, b->schedule)), "phase",
                             words(name_of(b, b->phase)), "unread", words(b->unread));
    json_object_update_new(head, json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:i,s:i,s:i,s:I,s:I,s:i,s:I}", "since",
                                           (json_int_t)b->schedule_since, "onset", (json_int_t)b->onset,
                                           "onsets", (json_int_t)b->onsets, "reliefs", (json_int_t)b->reliefs,
                                           "swaps", (json_int_t)b->swaps, "restarts", (json_int_t)b->restarts,
                                           "nodes", b->nodes, "period", b->period, "connected", b->connected,
                                           "calls", (json_int_t)b->calls, "lost", (json_int_t)b->lost,
                                           "holds", b->holds, "damaged", (json_int_t)b->damaged));
    return head;
}

static json_t *suspects_of(const sl_board *b) {
    json_t *list = json_array();
    for (size_t i = 0; i < b->blames; i++) {
        const sl_board_blame *w = &b->blame[i];
        json_array_append_new(list, json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:I,s:o,s:o}", "verdict", w->verdict,
                                              "rank", w->rank, "from", w->from, "to", w->to, "both", w->both,
                                              "replica", w->replica, "iteration", (json_int_t)w->iteration,
                                              "component", words(w->component), "text", words(w->text)));
    }
    return list;
}

static json_t *scalars_of(const sl_board *b) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return json_pack("{s:I,s:s,s:o,s:o,s:o}", "at", (json_int_t)now.tv_sec * 1000 + now.tv_nsec / 1000000,
                     "state", sl_board_state_name(b->state), "why", words(b->why), "head", head_of(b),
                     "suspects", suspects_of(b));
}

/* ---- lists ---- */

static json_t *rows_of(const sl_board *b, size_t first, const size_t *index, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const sl_board_row *r = &b->row[index ? index[i] : first + i];
        json_array_append_new(list, json_pack("[I,o,o,o,i,i,i]", (json_int_t)r->iteration,
                                              number((double)r->time), number((double)r->predicted),
                                              number(r->loss), r->schedule, r->phase, r->late));
    }
    return list;
}

/* Of many, those that show all peaks; if memory for that is lacking, the last ones. */
static json_t *drawn_rows(const sl_board *b) {
    double *time = NULL;
    size_t *index = NULL;
    json_t *list;
    if (b->rows > SL_PAGE_ROWS && sl_alloc(&time, b->rows, sizeof *time) == SL_OK &&
        sl_alloc(&index, b->rows, sizeof *index) == SL_OK) {
        for (size_t i = 0; i < b->rows; i++)
            time[i] = (double)b->row[i].time;
        list = rows_of(b, 0, index, sl_downsample(time, b->rows, SL_PAGE_ROWS, index));
    } else {
        size_t first = b->rows > SL_PAGE_ROWS ? b->rows - SL_PAGE_ROWS : 0;
        list = rows_of(b, first, NULL, b->rows - first);
    }
    SL_FREE(time, index);
    return list;
}

static json_t *events_of(const sl_board *b, size_t first) {
    json_t *list = json_array();
    for (size_t i = first; i < b->events; i++)
        json_array_append_new(list, json_loads(b->event[i], 0, NULL));
    return list;
}

static json_t *ranks_of(const sl_board *b, int all) {
    json_t *list = json_array();
    for (size_t i = 0; i < b->ranks; i++) {
        const sl_board_rank *r = &b->rank[i];
        if (all || r->changed)
            json_array_append_new(list, json_pack("[I,o,o,i,i,i]", (json_int_t)i, number((double)r->time.now),
                                                  number((double)r->time.usual), (int)sl_board_rank_health(r),
                                                  r->host, r->pid));
    }
    return list;
}

static json_t *links_of(const sl_board *b, int all) {
    json_t *list = json_array();
    for (size_t i = 0; i < b->links; i++) {
        const sl_board_link *l = &b->link[i];
        if (all || l->changed)
            json_array_append_new(list, json_pack("[I,i,i,i,o,o,o,o,i,I,I]", (json_int_t)i, l->from, l->to,
                                                  l->replica, number((double)l->latency),
                                                  number((double)l->transfer), number((double)l->time.now),
                                                  number((double)l->time.usual), (int)sl_board_link_health(l),
                                                  (json_int_t)l->messages, (json_int_t)l->bytes));
    }
    return list;
}

static json_t *calls_of(const sl_board *b) {
    json_t *calls = b->excerpt ? json_loads(b->excerpt, 0, NULL) : NULL;
    return calls ? calls : json_null();
}

/* ---- full state and changes ---- */

/* The scalars and `more`, which is released, as text. */
static char *finish(const sl_board *b, json_t *more) {
    json_t *all = scalars_of(b);
    const int failed = json_object_update_new(all, more) != 0;
    char *text = failed ? NULL : json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(all);
    return text;
}

/* The index of the first of the last `most`. */
static size_t last(size_t count, size_t most) {
    return count > most ? count - most : 0;
}

char *sl_page_whole(const sl_board *b) {
    return finish(b,
                  json_pack("{s:s,s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "version", SL_VERSION, "cluster",
                            b->is_cluster, "source", words(b->source), "setup", setup_of(b), "names",
                            list_of_words(b->name, 0, b->names), "hosts", list_of_words(b->host, 0, b->hosts),
                            "rows", drawn_rows(b), "events", events_of(b, last(b->events, SL_PAGE_EVENTS)),
                            "lines", list_of_words(b->line, last(b->lines, SL_PAGE_LINES), b->lines), "ranks",
                            ranks_of(b, 1), "links", links_of(b, 1), "calls", calls_of(b)));
}

static void mark_sent(sl_board *b) {
    for (size_t i = 0; i < b->ranks; i++) {
        sl_board_rank *r = &b->rank[i];
        if (r->changed) {
            r->time.data = r->time.now;
            r->sent_health = (int)sl_board_rank_health(r);
        }
        r->changed = 0;
    }
    for (size_t i = 0; i < b->links; i++) {
        sl_board_link *l = &b->link[i];
        if (l->changed) {
            l->time.data = l->time.now;
            l->sent_health = (int)sl_board_link_health(l);
        }
        l->changed = 0;
    }
    b->rows_sent = b->rows;
    b->events_sent = b->events;
    b->lines_sent = b->lines;
    b->excerpt_changed = 0;
}

static int anything(const sl_board *b, int64_t version) {
    if (b->version != version)
        return 1;
    for (size_t i = 0; i < b->ranks; i++)
        if (b->rank[i].changed)
            return 1;
    for (size_t i = 0; i < b->links; i++)
        if (b->link[i].changed)
            return 1;
    return 0;
}

char *sl_page_change(sl_board *b, int64_t *version, int *renewed) {
    *renewed = b->renewed || b->rows - b->rows_sent > SL_PAGE_ROWS;
    if (!*renewed && !anything(b, *version))
        return NULL;
    *version = b->version;
    char *text = NULL;
    json_t *more = NULL;
    if (*renewed)
        b->renewed = 0;
    else
        more = json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "names", list_of_words(b->name, 0, b->names), "rows",
                         rows_of(b, b->rows_sent, NULL, b->rows - b->rows_sent), "events",
                         events_of(b, b->events_sent), "lines",
                         list_of_words(b->line, b->lines_sent, b->lines), "ranks", ranks_of(b, 0), "links",
                         links_of(b, 0));
    if (more && b->excerpt_changed)
        json_object_set_new(more, "calls", calls_of(b));
    if (!*renewed)
        text = finish(b, more);
    mark_sent(b);
    return text;
}
