#include "dashboard/dashboard_watch.h"
#include "base/memory.h"
#include "notice/control/job_status.h"
#include "notice/detect/suspect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 1 << 17, MAX_DRAWN_RANKS = 64, MAX_DRAWN_CALLS = 3000 };

static size_t take_blames(const json_t *list, int verdict, int64_t iteration, sl_board_blame *blame,
                          size_t most) {
    size_t i, count = 0;
    json_t *one;
    json_array_foreach((json_t *)(uintptr_t)list, i, one) {
        sl_suspect s;
        if (count == most || sl_suspect_from_json(one, &s) != SL_OK)
            continue;
        sl_board_blame *b = &blame[count++];
        *b = (sl_board_blame){.verdict = verdict,
                              .rank = s.rank,
                              .from = s.component == SL_COMPONENT_LINK ? s.from : -1,
                              .to = s.component == SL_COMPONENT_LINK ? s.to : -1,
                              .both = s.both,
                              .replica = -1,
                              .host = s.component == SL_COMPONENT_HOST,
                              .iteration = iteration};
        if (s.component != SL_COMPONENT_DEVICE && s.component != SL_COMPONENT_HOST)
            b->rank = -1;
        snprintf(b->component, sizeof b->component, "%s", sl_component_name(s.component));
        sl_suspect_text(&s, b->text, sizeof b->text);
    }
    return count;
}

static int same_blames(const sl_board *b, const sl_board_blame *blame, size_t count) {
    return count == b->blames && (count == 0 || memcmp(b->blame, blame, count * sizeof *blame) == 0);
}

sl_status sl_watched_status(sl_board *b, const json_t *o) {
    sl_board_blame blame[2 * SL_STATUS_SUSPECTS];
    memset(blame, 0, sizeof blame); /* compared as bytes */
    b->iteration = sl_json_count(o, "iterations", 0) - 1;
    b->time = sl_json_number(o, "iteration_ms", SL_ROW_TIME_MAX);
    b->level = sl_json_number(o, "level_ms", SL_ROW_TIME_MAX);
    b->healthy = sl_json_number(o, "healthy_ms", SL_ROW_TIME_MAX);
    if (isnan(b->healthy))
        b->healthy = b->level;
    b->slow = json_is_true(json_object_get(o, "slow"));
    b->onset = sl_json_count(o, "onset_iteration", -1);
    b->onsets = sl_json_count(o, "onsets", 0);
    b->reliefs = sl_json_count(o, "reliefs", 0);
    b->nodes = sl_json_count(o, "nodes", 0);
    b->period = sl_json_count(o, "period_calls", 0);
    b->calls = sl_json_within(o, "calls", 0, INT64_MAX) ? sl_json_int(o, "calls", 0) : 0;
    b->lost = sl_json_within(o, "records_lost", 0, INT64_MAX) ? sl_json_int(o, "records_lost", 0) : 0;
    b->holds = sl_json_count(o, "holds", 0);
    b->closed = sl_json_count(o, "holds_closed", 0);
    b->held = sl_json_number(o, "held_ms", SL_ROW_TIME_MAX);
    snprintf(b->program, sizeof b->program, "%s", sl_json_text(o, "program", ""));
    SL_TRY(sl_board_name(&b->name, &b->names, &b->name_room, sl_json_text(o, "state", ""), &b->phase));
    b->version++;
    size_t count = take_blames(json_object_get(o, "verdicts"), 1, b->onset, blame, SL_STATUS_SUSPECTS);
    count += take_blames(json_object_get(o, "suspects"), 0, b->onset, blame + count, SL_STATUS_SUSPECTS);
    return same_blames(b, blame, count) ? SL_OK : sl_board_set_blames(b, blame, count);
}

void sl_watched_ended(sl_board *b) {
    for (size_t i = 0; i < b->ranks; i++) {
        b->rank[i].changed |= b->rank[i].gone;
        b->rank[i].gone = 0;
    }
}

/* ---- watch.json ---- */

static double number_at(const json_t *list, size_t index) {
    return sl_json_value(json_array_get(list, index), SL_ROW_TIME_MAX);
}

/* A count; -1: none. */
static int64_t count_at(const json_t *list, size_t index) {
    const json_t *value = json_array_get(list, index);
    return json_is_integer(value) && json_integer_value(value) >= 0 ? (int64_t)json_integer_value(value) : -1;
}

/* The usual iteration time of a rank is the job's, since ranks of a job wait for each other. */
static void take_rank(sl_board *b, size_t index, const json_t *one, const int *host, size_t hosts) {
    sl_board_rank *r = &b->rank[index];
    int64_t at = count_at(one, 1), pid = count_at(one, 2);
    int where = at >= 0 && (size_t)at < hosts ? host[at] : -1, gone = count_at(one, 3) == 1;
    double ms = number_at(one, 0);
    if (isfinite(ms))
        sl_board_rank_time(b, index, ms);
    if (isfinite(ms) && isfinite(b->healthy))
        r->time.usual = (float)b->healthy;
    r->changed |= r->gone != gone;
    r->gone = gone;
    if (where < 0)
        return;
    r->changed |= r->host != where || r->pid != (int)(pid < INT32_MAX ? pid : 0);
    r->host = where;
    r->pid = pid > 0 && pid < INT32_MAX ? (int)pid : 0;
}

static sl_status take_ranks(sl_board *b, const json_t *hosts, const json_t *ranks) {
    size_t i, count = json_array_size(hosts), known = b->hosts;
    const json_t *one;
    int *host;
    if (json_array_size(ranks) > MAX_RANKS)
        return SL_OK;
    SL_TRY(sl_alloc(&host, count, sizeof *host));
    sl_status status = sl_board_need_ranks(b, json_array_size(ranks));
    for (i = 0; i < count && status == SL_OK; i++) {
        const char *name = json_string_value(json_array_get(hosts, i));
        host[i] = -1;
        if (name)
            status = sl_board_name(&b->host, &b->hosts, &b->host_room, name, &host[i]);
    }
    if (b->hosts != known)
        b->renewed = 1;
    if (status == SL_OK)
        json_array_foreach((json_t *)(uintptr_t)ranks, i, one) take_rank(b, i, one, host, count);
    sl_free(host);
    return status;
}

static sl_status take_links(sl_board *b, const json_t *links) {
    size_t i;
    const json_t *one;
    json_array_foreach((json_t *)(uintptr_t)links, i, one) {
        const int64_t from = count_at(one, 0), to = count_at(one, 1);
        if (from < 0 || to < 0 || from >= MAX_RANKS || to >= MAX_RANKS)
            continue;
        SL_TRY(sl_board_traffic(b, (int)from, (int)to, i, count_at(one, 2), count_at(one, 3),
                                number_at(one, 4), number_at(one, 5)));
    }
    return SL_OK;
}

/* [rank, name, start, duration]; NULL: it is invalid. */
static json_t *call_of(const json_t *one) {
    const int64_t rank = count_at(one, 0), start = count_at(one, 2), length = count_at(one, 3);
    const char *name = json_string_value(json_array_get(one, 1));
    if (rank < 0 || rank >= MAX_DRAWN_RANKS || start < 0 || length < 0 || !name)
        return NULL;
    return json_pack("[I,s,I,I]", (json_int_t)rank, name, (json_int_t)start, (json_int_t)length);
}

/* The calls of an iteration: what is valid of them, and not more than a page can draw. */
static void take_calls(sl_board *b, const json_t *calls) {
    json_t *list = json_array(), *one;
    size_t i;
    json_array_foreach(json_object_get(calls, "list"), i, one) {
        json_t *call = i < MAX_DRAWN_CALLS ? call_of(one) : NULL;
        if (call)
            json_array_append_new(list, call);
    }
    json_t *taken = json_pack("{s:I,s:b,s:I,s:I,s:o}", "iteration",
                              (json_int_t)sl_json_count(calls, "iteration", -1), "slow",
                              json_is_true(json_object_get(calls, "slow")), "length_us",
                              (json_int_t)sl_json_count(calls, "length_us", 0), "left_out",
                              (json_int_t)sl_json_count(calls, "left_out", 0), "list", list);
    char *text = json_is_object(calls) && taken ? json_dumps(taken, JSON_COMPACT) : NULL;
    json_decref(taken);
    if (text == b->excerpt || (text && b->excerpt && strcmp(text, b->excerpt) == 0)) {
        free(text);
        return;
    }
    free(b->excerpt);
    b->excerpt = text;
    b->excerpt_changed = 1;
    b->version++;
}

sl_status sl_watched_take(sl_board *b, const json_t *o) {
    const json_t *status = json_object_get(o, "status");
    if (!json_is_object(status))
        return sl_error(SL_EINVAL, "watch.json has no status");
    SL_TRY(sl_watched_status(b, status));
    b->connected = !json_is_false(json_object_get(status, "store_connected"));
    snprintf(b->program, sizeof b->program, "%s", sl_json_text(o, "program", ""));
    SL_TRY(take_ranks(b, json_object_get(o, "hosts"), json_object_get(o, "ranks")));
    SL_TRY(take_links(b, json_object_get(o, "links")));
    take_calls(b, json_object_get(o, "calls"));
    return b->blames > 0 ? sl_board_set_blames(b, b->blame, b->blames)
                         : SL_OK; /* marks those that have been added */
}

void sl_watched_outcome(sl_board *b, const json_t *o) {
    const json_t *program = json_object_get(o, "program"), *word;
    size_t i, used = 0;
    b->nodes = sl_json_count(o, "nodes", 0);
    b->program[0] = 0;
    json_array_foreach((json_t *)(uintptr_t)program, i, word) {
        if (used + 2 < sizeof b->program)
            used += (size_t)snprintf(b->program + used, sizeof b->program - used, "%s%s", i ? " " : "",
                                     json_string_value(word) ? json_string_value(word) : "");
    }
    b->version++;
}
