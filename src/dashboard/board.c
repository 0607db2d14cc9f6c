#include "dashboard/board.h"
#include "base/memory.h"
#include "base/numbers.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 1 << 16,
    EVENTS = 1000,
    LINES = 1000,
    RANKS = 1 << 17,
    LINKS = 1 << 18,
    NAMES = 4096,
    CALM = 8
};

const char *sl_board_state_name(sl_board_state state) {
    static const char *const names[SL_BOARD_STATES] = {"waiting", "starting", "running", "restarting",
                                                       "ended",   "failed",   "silent"};
    return names[state];
}

const char *sl_board_health_name(sl_board_health health) {
    static const char *const names[SL_BOARD_HEALTHS] = {"unknown", "ok", "", "suspect", "slow", "gone"};
    return names[health];
}

static void blank_iteration(sl_board *b) {
    b->iteration = b->onset = b->schedule_since = -1;
    b->time = b->predicted = b->healthy = b->level = b->loss = b->validation = b->tokens = NAN;
    b->schedule = b->phase = -1;
    b->delegates = b->late = b->slow = b->healthy_firsts = b->quick = 0;
}

sl_status sl_board_open(const char *source, int is_cluster, sl_board *b) {
    *b = (sl_board){.is_cluster = is_cluster, .adapt = -1, .caught = 1, .connected = 1, .renewed = 1};
    blank_iteration(b);
    return sl_copy_text(&b->source, source);
}

static void free_texts(char **text, size_t count) {
    for (size_t i = 0; i < count; i++)
        sl_free(text[i]);
}

void sl_board_close(sl_board *b) {
    free_texts(b->host, b->hosts);
    free_texts(b->name, b->names);
    free_texts(b->event, b->events);
    free_texts(b->line, b->lines);
    void *const arrays[] = {b->source, b->rank,  b->link, b->host, b->name,
                            b->row,    b->event, b->line, b->blame};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        sl_free(arrays[i]);
    free(b->excerpt);
    *b = (sl_board){0};
}

void sl_board_set_state(sl_board *b, sl_board_state state, const char *format, ...) {
    char why[sizeof b->why];
    va_list list;
    va_start(list, format);
    vsnprintf(why, sizeof why, format, list);
    va_end(list);
    if (state == b->state && strcmp(why, b->why) == 0)
        return;
    b->state = state;
    memcpy(b->why, why, sizeof why);
    b->version++;
}

/* ---- forgetting ---- */

void sl_board_forget_iterations(sl_board *b) {
    b->rows = b->rows_sent = b->ranks = b->links = 0;
    free(b->excerpt);
    b->excerpt = NULL;
    blank_iteration(b);
    b->renewed = 1;
}

void sl_board_forget_events(sl_board *b) {
    free_texts(b->event, b->events);
    b->events = b->events_sent = b->blames = 0;
    b->event_number = b->onsets = b->reliefs = b->swaps = b->restarts = 0;
    for (size_t i = 0; i < b->ranks; i++)
        b->rank[i].blamed = 0;
    for (size_t i = 0; i < b->links; i++)
        b->link[i].blamed = 0;
    b->renewed = 1;
}

void sl_board_forget_lines(sl_board *b) {
    free_texts(b->line, b->lines);
    b->lines = b->lines_sent = 0;
    b->renewed = 1;
}

/* ---- names, ranks, links ---- */

sl_status sl_board_name(char ***list, size_t *count, size_t *room, const char *text, int *index) {
    *index = -1;
    for (size_t i = 0; i < *count && *text; i++)
        if (strcmp((*list)[i], text) == 0)
            *index = (int)i;
    if (!*text || *index >= 0 || *count >= NAMES)
        return SL_OK;
    SL_TRY(sl_grow(list, room, *count + 1, sizeof(char *)));
    SL_TRY(sl_copy_text(&(*list)[*count], text));
    *index = (int)(*count)++;
    return SL_OK;
}

sl_status sl_board_need_ranks(sl_board *b, size_t ranks) {
    if (ranks > RANKS)
        ranks = RANKS;
    if (ranks <= b->ranks)
        return SL_OK;
    SL_TRY(sl_grow(&b->rank, &b->rank_room, ranks, sizeof *b->rank));
    for (size_t i = b->ranks; i < ranks; i++)
        b->rank[i] =
            (sl_board_rank){.time = {.now = NAN, .usual = NAN, .data = NAN, .firsts = -1}, .host = -1};
    b->ranks = ranks;
    b->renewed = 1;
    return SL_OK;
}

/* The link's index, added if absent; `guess` is tried first. SL_ENOMEM. */
static sl_status find_link(sl_board *b, int from, int to, int replica, size_t guess, size_t *index) {
    for (size_t k = 0; k < b->links; k++) {
        size_t i = (guess + k) % b->links;
        const sl_board_link *link = &b->link[i];
        if (link->from == from && link->to == to && link->replica == replica) {
            *index = i;
            return SL_OK;
        }
    }
    if (b->links >= LINKS)
        return SL_EINVAL;
    SL_TRY(sl_grow(&b->link, &b->link_room, b->links + 1, sizeof *b->link));
    b->link[b->links] = (sl_board_link){.from = from,
                                        .to = to,
                                        .replica = replica,
                                        .latency = NAN,
                                        .transfer = NAN,
                                        .messages = -1,
                                        .time = {.now = NAN, .usual = NAN, .data = NAN, .firsts = -1}};
    *index = b->links++;
    b->renewed = 1;
    return SL_OK;
}

/* ---- values ---- */

static float median(const float *value, int count) {
    double copy[32];
    for (int i = 0; i < count; i++)
        copy[i] = (double)value[i];
    return (float)sl_median_of_numbers(copy, count);
}

/* The usual value is learned only while nothing is slow. Returns whether the change is over a hundredth. */
static int take_value(sl_board_value *v, double ms, int learn) {
    v->now = (float)ms;
    if (learn && v->firsts < SL_BOARD_FIRST && isfinite(ms)) {
        if (v->firsts >= 0)
            v->first[v->firsts] = (float)ms;
        else
            v->first[0] = (float)ms; /* until there is another */
        v->firsts++;
        v->usual = median(v->first, v->firsts > 0 ? v->firsts : 1);
    }
    return !(fabsf(v->now - v->data) <= 0.01f * fabsf(v->data));
}

/* Whether no component was named at that iteration. Events may be read before their iterations. */
static int is_calm(const sl_board *b) {
    for (size_t i = 0; i < b->blames; i++)
        if (b->iteration >= b->blame[i].iteration)
            return 0;
    return !b->slow;
}

void sl_board_rank_time(sl_board *b, size_t rank, double ms) {
    if (rank >= b->ranks)
        return;
    sl_board_rank *r = &b->rank[rank];
    r->changed |= take_value(&r->time, ms, is_calm(b));
    r->changed |= (int)sl_board_rank_health(r) != r->sent_health;
}

static void take_link_time(sl_board *b, sl_board_link *link, double ms) {
    link->changed |= take_value(&link->time, ms, is_calm(b));
    link->changed |= (int)sl_board_link_health(link) != link->sent_health;
}

sl_status sl_board_traffic(sl_board *b, int from, int to, size_t guess, int64_t messages, int64_t bytes,
                           double ms, double usual) {
    size_t at;
    sl_status status = find_link(b, from, to, -1, guess, &at);
    if (status != SL_OK)
        return status == SL_EINVAL ? SL_OK : status;
    sl_board_link *link = &b->link[at];
    link->changed |= link->messages != messages || link->bytes != bytes;
    link->messages = messages;
    link->bytes = bytes;
    if (isfinite(ms))
        take_link_time(b, link, ms);
    if (isfinite(usual))
        link->time.usual = (float)usual;
    link->changed |= (int)sl_board_link_health(link) != link->sent_health;
    return SL_OK;
}

sl_board_health sl_board_rank_health(const sl_board_rank *r) {
    if (r->gone)
        return SL_BOARD_GONE;
    if (r->blamed)
        return (sl_board_health)r->blamed;
    return isfinite(r->time.now) || r->host >= 0 ? SL_BOARD_OK : SL_BOARD_UNKNOWN;
}

sl_board_health sl_board_link_health(const sl_board_link *l) {
    if (l->blamed)
        return (sl_board_health)l->blamed;
    return isfinite(l->time.now) || l->messages > 0 ? SL_BOARD_OK : SL_BOARD_UNKNOWN;
}

/* ---- iterations ---- */

sl_status sl_board_add_row(sl_board *b, const sl_board_row *row) {
    if (b->rows == ROWS) { /* drops the older half */
        memmove(b->row, b->row + ROWS / 2, ROWS / 2 * sizeof *b->row);
        b->rows -= ROWS / 2;
        b->rows_sent = b->rows_sent > ROWS / 2 ? b->rows_sent - ROWS / 2 : 0;
    }
    SL_TRY(sl_grow(&b->row, &b->row_room, b->rows + 1, sizeof *b->row));
    b->row[b->rows++] = *row;
    b->version++;
    return SL_OK;
}

static void take_level(sl_board *b) {
    float last[9];
    int count = 0;
    for (size_t i = b->rows; i > 0 && count < 9; i--)
        if (isfinite(b->row[i - 1].time))
            last[count++] = b->row[i - 1].time;
    b->level = count ? (double)median(last, count) : NAN;
}

static int named(const sl_board *b, int index, const char *text) {
    return index >= 0 && strcmp(b->name[index], text) == 0;
}

/* The healthy time is that of the iterations before any incident, except the first, which is cold. A streak
 * of equally fast iterations clears the named components: a run that does not adapt reports no relief. */
static sl_status update_healthy(sl_board *b) {
    int healthy = b->phase < 0 || named(b, b->phase, "healthy");
    int room = (int)(sizeof b->healthy_first / sizeof *b->healthy_first);
    b->slow = named(b, b->phase, "slow") || named(b, b->phase, "delegated") || named(b, b->phase, "adapted");
    if (healthy && is_calm(b) && b->rows > 1 && b->healthy_firsts < room && isfinite(b->time)) {
        b->healthy_first[b->healthy_firsts++] = (float)b->time;
        b->healthy = (double)median(b->healthy_first, b->healthy_firsts);
    }
    int64_t since = -1;
    for (size_t i = 0; i < b->blames; i++)
        since = b->blame[i].iteration > since ? b->blame[i].iteration : since;
    int quick = isfinite(b->healthy) && b->time <= 1.1 * b->healthy && b->iteration > since;
    b->quick = quick ? b->quick + 1 : 0;
    return b->quick >= CALM && b->blames > 0 && !b->slow ? sl_board_set_blames(b, NULL, 0) : SL_OK;
}

/* Without a run file the links give the number of ranks. */
static sl_status guess_ranks(sl_board *b) {
    int ranks = 0, replicas = 1;
    for (size_t i = 0; i < b->links; i++) {
        const sl_board_link *l = &b->link[i];
        ranks = l->from >= ranks ? l->from + 1 : ranks;
        ranks = l->to >= ranks ? l->to + 1 : ranks;
        replicas = l->replica >= replicas ? l->replica + 1 : replicas;
    }
    if (ranks <= b->pipeline && replicas <= b->data)
        return SL_OK;
    b->pipeline = ranks > b->pipeline ? ranks : b->pipeline;
    b->data = replicas > b->data ? replicas : b->data;
    b->renewed = 1;
    return sl_board_need_ranks(b, (size_t)b->pipeline * (size_t)b->data);
}

static sl_status take_links(sl_board *b, const json_t *links) {
    size_t i, at;
    const size_t before = b->links;
    json_t *one;
    sl_row_link row;
    json_array_foreach(links, i, one) {
        if (!sl_row_link_read(one, &row) || row.from > RANKS || row.to > RANKS)
            continue;
        SL_TRY(find_link(b, row.from, row.to, row.replica > RANKS ? -1 : row.replica, i, &at));
        b->link[at].latency = (float)row.latency;
        b->link[at].transfer = (float)row.transfer;
        take_link_time(b, &b->link[at], row.latency + row.transfer);
    }
    return b->links != before ? guess_ranks(b) : SL_OK;
}

static sl_status take_row(sl_board *b, const sl_row_iteration *r) {
    sl_board_row row = {.iteration = r->iteration,
                        .time = (float)r->time,
                        .predicted = (float)r->predicted,
                        .loss = r->loss,
                        .late = (unsigned char)r->late,
                        .delegates = (unsigned char)(r->delegates < 255 ? r->delegates : 255)};
    if (row.iteration <= b->iteration) /* an attempt that resumed earlier, in the same file */
        sl_board_forget_iterations(b);
    const int before = b->schedule;
    SL_TRY(sl_board_name(&b->name, &b->names, &b->name_room, r->schedule, &b->schedule));
    SL_TRY(sl_board_name(&b->name, &b->names, &b->name_room, r->phase, &b->phase));
    row.schedule = (short)b->schedule;
    row.phase = (short)b->phase;
    b->iteration = row.iteration;
    b->time = r->time;
    b->predicted = r->predicted;
    b->loss = row.loss;
    if (isfinite(r->validation))
        b->validation = r->validation;
    b->tokens = r->tokens;
    b->delegates = row.delegates;
    b->late = row.late;
    if (b->schedule != before || b->schedule_since < 0)
        b->schedule_since = b->iteration;
    SL_TRY(sl_board_add_row(b, &row));
    take_level(b);
    return update_healthy(b);
}

static sl_status apply_blames(sl_board *b);

sl_status sl_board_iteration(sl_board *b, const sl_row_iteration *row) {
    size_t i;
    json_t *one;
    SL_TRY(take_row(b, row));
    const size_t ranks = b->ranks, links = b->links;
    SL_TRY(sl_board_need_ranks(b, json_array_size(row->works)));
    json_array_foreach(row->works, i, one) sl_board_rank_time(b, i, sl_json_value(one, SL_ROW_TIME_MAX));
    SL_TRY(take_links(b, row->links));
    return b->blames > 0 && (b->ranks != ranks || b->links != links) ? apply_blames(b) : SL_OK;
}

/* ---- named components ---- */

static void blame_link(sl_board *b, int from, int to, int replica, int how) {
    for (size_t i = 0; i < b->links; i++) {
        sl_board_link *l = &b->link[i];
        if (l->from == from && l->to == to && (replica < 0 || l->replica < 0 || l->replica == replica) &&
            l->blamed < how)
            l->blamed = how;
    }
}

static void blame_rank(sl_board *b, const sl_board_blame *who, int how) {
    size_t at = (size_t)who->rank;
    if (!b->is_cluster && who->replica > 0)
        at += (size_t)who->replica * (size_t)b->pipeline;
    if (at >= b->ranks)
        return;
    int host = b->rank[at].host;
    for (size_t i = 0; i < b->ranks; i++)
        if ((i == at || (who->host && host >= 0 && b->rank[i].host == host)) && b->rank[i].blamed < how)
            b->rank[i].blamed = how;
}

static sl_status apply_blames(sl_board *b) {
    size_t at;
    for (size_t i = 0; i < b->ranks; i++)
        b->rank[i].blamed = 0;
    for (size_t i = 0; i < b->links; i++)
        b->link[i].blamed = 0;
    for (size_t i = 0; i < b->blames; i++) {
        const sl_board_blame *who = &b->blame[i];
        int how = who->verdict ? SL_BOARD_SLOW : SL_BOARD_SUSPECT;
        if (who->rank >= 0)
            blame_rank(b, who, how);
        if (who->from < 0 || who->to < 0)
            continue;
        if (b->is_cluster) { /* links that are not otherwise known */
            SL_TRY(find_link(b, who->from, who->to, -1, 0, &at));
            if (who->both)
                SL_TRY(find_link(b, who->to, who->from, -1, 0, &at));
        }
        blame_link(b, who->from, who->to, who->replica, how);
        if (who->both)
            blame_link(b, who->to, who->from, who->replica, how);
    }
    for (size_t i = 0; i < b->ranks; i++)
        b->rank[i].changed |= (int)sl_board_rank_health(&b->rank[i]) != b->rank[i].sent_health;
    for (size_t i = 0; i < b->links; i++)
        b->link[i].changed |= (int)sl_board_link_health(&b->link[i]) != b->link[i].sent_health;
    return SL_OK;
}

sl_status sl_board_set_blames(sl_board *b, const sl_board_blame *blame, size_t count) {
    if (blame != b->blame || !blame) {
        SL_TRY(sl_grow(&b->blame, &b->blame_room, count + 1, sizeof *b->blame));
        if (count)
            memcpy(b->blame, blame, count * sizeof *blame);
    }
    b->blames = count;
    b->version++;
    return apply_blames(b);
}

/* ---- events ---- */

/* A suspect or verdict of a run. The verdict of an incident replaces its suspects. */
static sl_status take_blame(sl_board *b, const sl_row_event *row, int verdict) {
    sl_board_blame who = {.verdict = verdict,
                          .rank = row->rank,
                          .from = row->from,
                          .to = row->to,
                          .both = 1,
                          .replica = row->replica,
                          .iteration = row->iteration};
    snprintf(who.component, sizeof who.component, "%s",
             who.from >= 0   ? "link"
             : who.rank >= 0 ? "device"
                             : "unknown");
    snprintf(who.text, sizeof who.text, "%s%s%s", row->decided, *row->decided && *row->seen ? ": " : "",
             row->seen);
    size_t kept = 0;
    for (size_t i = 0; i < b->blames; i++) {
        const sl_board_blame *old = &b->blame[i];
        int same = old->rank == who.rank && old->from == who.from && old->to == who.to &&
                   old->replica == who.replica;
        if (!same && (!verdict || old->verdict))
            b->blame[kept++] = *old;
    }
    SL_TRY(sl_grow(&b->blame, &b->blame_room, kept + 1, sizeof *b->blame));
    b->blame[kept] = who;
    b->blames = kept + 1 < 64 ? kept + 1 : 64;
    return apply_blames(b);
}

/* Applies an event to the board. A job's suspects come with its status, a run's by its events. */
static sl_status act_on(sl_board *b, const sl_row_event *row) {
    static const char *const fresh[] = {"start", "resumed", "restart", "relief", "end", NULL};
    const char *kind = row->kind;
    int clears = 0;
    for (int i = 0; fresh[i]; i++)
        clears |= strcmp(kind, fresh[i]) == 0;
    b->onsets += strcmp(kind, "onset") == 0;
    b->reliefs += strcmp(kind, "relief") == 0;
    b->swaps += strcmp(kind, "swap") == 0 || strcmp(kind, "return") == 0;
    b->restarts += strcmp(kind, "restart") == 0;
    if (strcmp(kind, "onset") == 0)
        b->onset = row->iteration;
    if (b->is_cluster)
        return SL_OK;
    if (strcmp(kind, "suspect") == 0 || strcmp(kind, "verdict") == 0)
        return take_blame(b, row, kind[0] == 'v');
    return clears && b->blames > 0 ? sl_board_set_blames(b, NULL, 0) : SL_OK;
}

static sl_status append_text(char ***list, size_t *count, size_t *room, size_t *data, size_t most,
                             const char *text) {
    SL_TRY(sl_grow(list, room, *count + 1, sizeof(char *)));
    SL_TRY(sl_copy_text(&(*list)[*count], text));
    if (++*count > most) {
        sl_free((*list)[0]);
        memmove(*list, *list + 1, --*count * sizeof(char *));
        *data -= *data > 0;
    }
    return SL_OK;
}

sl_status sl_board_event(sl_board *b, const sl_row_event *row) {
    json_object_set_new(row->object, "number", json_integer((json_int_t)++b->event_number));
    char *text = json_dumps(row->object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (!text)
        return sl_error(SL_ENOMEM, "out of memory for an event");
    sl_status status = append_text(&b->event, &b->events, &b->event_room, &b->events_sent, EVENTS, text);
    free(text);
    b->version++;
    SL_THEN(status, act_on(b, row));
    return status;
}

sl_status sl_board_line(sl_board *b, const char *line, size_t length) {
    char text[1024];
    length -= length > 0 && line[length - 1] == '\r';
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text - 1), line);
    b->version++;
    return append_text(&b->line, &b->lines, &b->line_room, &b->lines_sent, LINES, text);
}
