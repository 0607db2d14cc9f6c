#include "report/recorded.h"
#include "base/memory.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PROCESSES 65536
#define LATEST_US 1e14
#define LONGEST_US (2e3 * SL_MAX_OP_MS) /* like a problem's longest op, so that no sum overflows */

/* The state of reading; a message's `to` is still its thread. */
typedef struct record_reader {
    sl_recorded *r;
    size_t room;
    int named; /* processes have names, which give ranks and replicas */
} record_reader;

/* "rank R" or "replica D, rank R". */
static void take_name(record_reader *rd, const json_t *event) {
    const char *name = sl_json_text(json_object_get(event, "args"), "name", NULL);
    int replica = 0, rank = -1;
    if (!name || (sscanf(name, "replica %5d, rank %5d", &replica, &rank) != 2 &&
                  (replica = 0, sscanf(name, "rank %5d", &rank) != 1)))
        return;
    if (rank < 0 || rank >= SL_MAX_RANKS || replica < 0 || replica >= MAX_PROCESSES)
        return;
    rd->named = 1;
    rd->r->ranks = rank >= rd->r->ranks ? rank + 1 : rd->r->ranks;
    rd->r->replicas = replica >= rd->r->replicas ? replica + 1 : rd->r->replicas;
}

static int within(const json_t *object, const char *key, int64_t least, int64_t most, int32_t *value) {
    *value = (int32_t)sl_json_int(object, key, 0);
    return sl_json_within(object, key, least, most);
}

static int kind_of(const char *category, const char *name) {
    if (strcmp(category, "update") == 0)
        return SL_GATHER;
    if (strcmp(category, "reduce") == 0)
        return SL_REDUCE;
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        if (name[0] == sl_op_name(kind)[0] && (category[0] == name[0] || strcmp(category, "transfer") == 0))
            return kind;
    return -1;
}

/* Chrome's microseconds; 0: invalid. */
static int time_of(const json_t *event, const char *key, double least, double most, sl_time *time) {
    const double us = sl_json_number(event, key, most);
    if (isnan(us) || us < least)
        return 0;
    *time = (sl_time)llround(us * 1e3);
    return 1;
}

static sl_status take_slice(record_reader *rd, const json_t *event) {
    const json_t *about = json_object_get(event, "args");
    const char *name = sl_json_text(event, "name", NULL), *category = sl_json_text(event, "cat", NULL);
    sl_recorded_event e = {0};
    sl_time length;
    if (!name || !category || !within(about, "iteration", 0, INT_MAX - 1, &e.iteration) ||
        !within(about, "stage", 0, SL_MAX_STAGES - 1, &e.op.stage) ||
        !within(about, "microbatch", -1, SL_MAX_MICROBATCHES - 1, &e.op.microbatch) ||
        !within(event, "pid", 0, MAX_PROCESSES - 1, &e.rank) ||
        !within(event, "tid", 0, INT_MAX - 1, &e.to) ||
        !time_of(event, "ts", -LATEST_US, LATEST_US, &e.start) ||
        !time_of(event, "dur", 0, LONGEST_US, &length))
        return SL_EINVAL;
    e.end = e.start + length;
    e.op.kind = kind_of(category, name);
    e.track = strcmp(category, "transfer") == 0 ? 2 : e.op.kind >= SL_OP_KINDS ? 1 : 0;
    if (e.op.kind < 0 || (e.track != 1 && e.op.microbatch < 0) || (e.track == 2 && e.to < 1))
        return SL_EINVAL;
    SL_TRY(sl_grow(&rd->r->event, &rd->room, rd->r->events + 1, sizeof *rd->r->event));
    rd->r->event[rd->r->events++] = e;
    return SL_OK;
}

static sl_status take_trace_event(record_reader *rd, const json_t *event) {
    const char *phase = sl_json_text(event, "ph", NULL), *name = sl_json_text(event, "name", NULL);
    if (!phase || !name)
        return SL_EINVAL;
    if (phase[0] == 'M' && strcmp(name, "process_name") == 0)
        take_name(rd, event);
    return phase[0] == 'X' ? take_slice(rd, event) : SL_OK;
}

/* A whole file on one line, as some tools rewrite it. */
static sl_status take_list(record_reader *rd, const json_t *events) {
    sl_status worst = SL_OK;
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) {
        sl_status status = take_trace_event(rd, event);
        if (status == SL_ENOMEM)
            return status;
        worst = status == SL_OK ? worst : status;
    }
    return worst;
}

static sl_status take_line(void *context, const char *line, size_t length) {
    record_reader *rd = context;
    while (length > 0 && strchr(" \t\r\n,", line[length - 1]) && line[length - 1])
        length--;
    size_t skipped = strspn(line, " ,");
    line += skipped < length ? skipped : 0;
    length -= skipped < length ? skipped : 0;
    if ((length > 1 && memcmp(line, "]}", 2) == 0) ||
        (length > 1 && line[0] == '{' && line[length - 1] == '[')) /* around the list */
        return SL_OK;
    json_t *event = json_loadb(line, length, 0, NULL);
    const json_t *list = json_object_get(event, "traceEvents");
    sl_status status = json_is_array(list) ? take_list(rd, list) : take_trace_event(rd, event);
    json_decref(event);
    return status;
}

/* ---- in order ---- */

static int compare_events(const void *a, const void *b) {
    const sl_recorded_event *x = a, *y = b;
    const long long one[] = {x->iteration, x->replica, x->track, x->rank, x->start, x->end, x->op.microbatch},
                    two[] = {y->iteration, y->replica, y->track, y->rank, y->start, y->end, y->op.microbatch};
    for (size_t i = 0; i < sizeof one / sizeof one[0]; i++)
        if (one[i] != two[i])
            return one[i] < two[i] ? -1 : 1;
    return 0;
}

/* Processes are replica * ranks + rank, threads of links 1 + to + ranks * lane (plan/draw/trace.h). */
static void sort_events(sl_recorded *r, int named) {
    size_t kept = 0;
    for (size_t i = 0; i < r->events && !named; i++)
        r->ranks =
            r->event[i].rank >= r->ranks && r->event[i].rank < SL_MAX_RANKS ? r->event[i].rank + 1 : r->ranks;
    for (size_t i = 0; i < r->events && r->ranks > 0; i++) {
        sl_recorded_event e = r->event[i];
        e.replica = e.rank / r->ranks;
        e.rank %= r->ranks;
        e.to = e.track == 2 ? (e.to - 1) % r->ranks : 0;
        if (e.replica < (r->replicas > 0 ? r->replicas : 1) && !(e.track == 2 && e.to == e.rank))
            r->event[kept++] = e;
    }
    r->events = kept;
    if (kept > 0)
        qsort(r->event, kept, sizeof *r->event, compare_events);
}

static sl_status divide(sl_recorded *r) {
    size_t room = 0;
    for (size_t i = 0; i < r->events; i++) {
        const sl_recorded_event *e = &r->event[i];
        sl_recorded_iteration *last = r->iterations ? &r->iteration[r->iterations - 1] : NULL;
        if (last && last->iteration == e->iteration && last->replica == e->replica) {
            last->count++;
            continue;
        }
        SL_TRY(sl_grow(&r->iteration, &room, r->iterations + 1, sizeof *r->iteration));
        r->iteration[r->iterations++] = (sl_recorded_iteration){e->iteration, e->replica, i, 1};
    }
    return SL_OK;
}

sl_status sl_recorded_read_file(sl_run_data *data, const char *name, sl_recorded *r) {
    record_reader rd = {.r = r};
    char path[4200], text[1024];
    sl_lines lines;
    *r = (sl_recorded){0};
    snprintf(path, sizeof path, "%s/%s", data->path, name);
    SL_TRY(sl_lines_open(path, &lines));
    sl_status status = sl_lines_step(&lines, SIZE_MAX, take_line, NULL, &rd);
    SL_THEN(status, sl_lines_end(&lines, take_line, &rd));
    sl_lines_trouble(&lines, text, sizeof text);
    sl_lines_close(&lines);
    SL_TRY(status);
    if (text[0])
        SL_TRY(sl_run_data_note(data, "%s", text));
    sort_events(r, rd.named);
    return divide(r);
}

sl_status sl_recorded_read_text(char *text, size_t size, sl_recorded *r) {
    record_reader rd = {.r = r};
    *r = (sl_recorded){0};
    for (char *line = text, *end; line < text + size; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + size - line));
        if (!end) /* incomplete last line */
            break;
        *end = 0;
        if (take_line(&rd, line, (size_t)(end - line)) == SL_ENOMEM)
            return SL_ENOMEM;
    }
    sort_events(r, rd.named);
    return divide(r);
}

sl_status sl_recorded_read(sl_run_data *data, sl_recorded *r) {
    const size_t notes = data->notes;
    SL_TRY(sl_recorded_read_file(data, "timeline.json", r));
    if (r->events > 0 || data->notes > notes) /* the notes have the reason */
        return SL_OK;
    return sl_run_data_note(data, "No iteration was recorded op by op (timeline.json).");
}

void sl_recorded_free(sl_recorded *r) {
    SL_FREE(r->event, r->iteration);
    *r = (sl_recorded){0};
}

long sl_recorded_find(const sl_recorded *r, int iteration, int replica) {
    for (size_t i = 0; i < r->iterations; i++)
        if (r->iteration[i].iteration == iteration && r->iteration[i].replica == replica)
            return (long)i;
    return -1;
}

sl_status sl_recorded_timeline(const sl_recorded *r, size_t index, sl_timeline *t) {
    const sl_recorded_event *e = r->event + r->iteration[index].first;
    const size_t count = r->iteration[index].count;
    int held[3] = {0}, at[3] = {0};
    sl_time begin = SL_TIME_NEVER;
    for (size_t i = 0; i < count; i++) {
        held[e[i].track]++;
        begin = e[i].start < begin ? e[i].start : begin;
    }
    SL_TRY(sl_timeline_make(r->ranks, held[0], held[2], t));
    SL_TRY(sl_alloc(&t->collective, (size_t)held[1], sizeof *t->collective));
    t->collectives = held[1];
    t->measured = 1;
    for (size_t i = 0; i < count; i++) {
        const sl_time start = e[i].start - begin, end = e[i].end - begin;
        const int k = at[e[i].track]++;
        if (e[i].track == 2)
            t->transfer[k] = (sl_transfer){e[i].rank, e[i].to, e[i].op, start, start, end};
        else
            (e[i].track ? t->collective : t->span)[k] = (sl_span){e[i].rank, e[i].op, start, end};
    }
    return SL_OK;
}

static sl_time end_of(const sl_recorded *rec, const sl_recorded_iteration *it) {
    sl_time end = 0;
    for (size_t k = it->first; k < it->first + it->count; k++)
        end = rec->event[k].end > end ? rec->event[k].end : end;
    return end;
}

static double time_of_row(const sl_run_data *data, int iteration) {
    long row = sl_run_data_find(data, iteration);
    return row < 0 ? NAN : data->iteration[row].time;
}

/* The slowest one after the first, in the replica whose last op ends last. */
static size_t slowest(const sl_run_data *data, const sl_recorded *rec, const unsigned char *kept) {
    size_t best = rec->iterations;
    double longest = -1;
    sl_time end_of_best = -1;
    for (size_t i = 0; i < rec->iterations; i++) {
        const sl_recorded_iteration *it = &rec->iteration[i];
        double time =
            i == 0 || it->iteration == rec->iteration[0].iteration ? 0 : time_of_row(data, it->iteration);
        sl_time end = end_of(rec, it);
        if ((kept && !kept[i]) || isnan(time) || time < longest || (!(time > longest) && end <= end_of_best))
            continue;
        best = i;
        longest = time;
        end_of_best = end;
    }
    for (size_t i = 0; i < rec->iterations && best == rec->iterations; i++)
        best = !kept || kept[i] ? i : best;
    return best;
}

sl_status sl_chosen_find(const sl_run_data *data, const sl_recorded *rec, int wanted,
                         const unsigned char *kept, size_t *index) {
    sl_time last = -1;
    *index = slowest(data, rec, kept);
    for (size_t i = 0; i < rec->iterations && wanted != SL_CHOSEN_SLOWEST; i++) {
        const sl_recorded_iteration *it = &rec->iteration[i];
        sl_time end = end_of(rec, it);
        if (it->iteration != wanted || (kept && !kept[i]) || end <= last)
            continue;
        *index = i;
        last = end;
    }
    if (wanted != SL_CHOSEN_SLOWEST && last < 0)
        return sl_error(SL_ENONE, "%s: iteration %d was not recorded op by op", data->path, wanted);
    return *index < rec->iterations
               ? SL_OK
               : sl_error(SL_ENONE, "%s: no iteration was recorded op by op", data->path);
}

int sl_chosen_name(const sl_recorded *recorded, size_t index, char *text, size_t size) {
    const sl_recorded_iteration *it = &recorded->iteration[index];
    return recorded->replicas > 1
               ? snprintf(text, size, "iteration %d, replica %d", it->iteration, it->replica)
               : snprintf(text, size, "iteration %d", it->iteration);
}

void sl_chosen_title(const sl_run_data *t, const sl_recorded *recorded, size_t index, char *text,
                     size_t size) {
    const sl_recorded_iteration *it = &recorded->iteration[index];
    long row = sl_run_data_find(t, it->iteration);
    const sl_run_data_iteration *data = row < 0 ? NULL : &t->iteration[row];
    size_t used = (size_t)sl_chosen_name(recorded, index, text, size);
    if (data && data->schedule >= 0)
        used += (size_t)snprintf(text + used, size - used, ": %.60s", t->name[data->schedule]);
    if (data && !isnan(data->time))
        used += (size_t)snprintf(text + used, size - used, ", %.6g ms", data->time);
    if (data && !isnan(data->predicted))
        snprintf(text + used, size - used, " (predicted %.6g ms)", data->predicted);
}
