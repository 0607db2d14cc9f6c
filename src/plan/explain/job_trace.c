#include "plan/explain/job_trace.h"
#include "base/memory.h"
#include "base/text.h"
#include "plan/trace/event_time.h"
#include "plan/trace/trace_form.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DURATION (10000 * 1000 * SL_SECOND)

/* Names of a process, which hold for all of its streams. */
typedef struct named_process {
    int64_t pid;
    sl_hybrid_coordinates named;
} named_process;

struct sl_hybrid_file {
    const char *name;
    sl_scanner *scanner;
    size_t first_stream, first_event;
    size_t *slot; /* [slots] hash table: stream + 1 */
    size_t slots;
    named_process *process;
    size_t processes, process_room;
};

/* ---- values ---- */

static int64_t id_of(const json_t *value, int *is_text) {
    const char *text = json_string_value(value);
    char *end = NULL;
    *is_text = 0;
    if (json_is_integer(value))
        return json_integer_value(value);
    if (!text)
        return json_is_real(value) ? (int64_t)fmax(-1e15, fmin(1e15, json_real_value(value))) : -1;
    long long number = strtoll(text, &end, 10);
    if (*text && !*end)
        return number;
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (*is_text = 1; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return (int64_t)(hash >> 2);
}

/* The whole number in the arguments under the first of these names; -1: none. Tables that were exported to
 * JSON have 3.0 for 3. */
static int64_t whole_of(const json_t *args, const char *const *names, double most) {
    for (; *names; names++) {
        const json_t *value = json_object_get(args, *names);
        double number = json_is_number(value) ? json_number_value(value) : -1;
        if (number >= 0 && number <= most && number == floor(number))
            return (int64_t)number;
    }
    return -1;
}

static const char *const step_names[] = {"step", "iteration", NULL};
static const char *const chunk_names[] = {"model_chunk", "mc", "chunk", "vpp_rank", NULL};
static const char *const microbatch_names[] = {"mb_id", "microbatch", "micro_batch", "mb", NULL};
static const char *const sequence_names[] = {"seq_id", NULL};

/* The number after one of `words` in a name, as in "PP rank 3" and "DP rank [1]"; -1: none. */
static int number_after(const char *name, const char *const *words) {
    for (; *words; words++) {
        size_t length = strlen(*words);
        for (const char *at = name; *at; at++) {
            if (strncasecmp(at, *words, length) != 0 || (at > name && isalnum((unsigned char)at[-1])))
                continue;
            const char *number = at + length;
            number += strspn(number, " _:=[#");
            if (isdigit((unsigned char)*number))
                return atoi(number) < 1000000 ? atoi(number) : -1;
        }
    }
    return -1;
}

static void read_names(const char *name, sl_hybrid_coordinates *named) {
    static const char *const pipeline[] = {"pp rank", "pipeline rank", "pp_rank", "pp", "stage", NULL};
    static const char *const data[] = {"dp rank", "replica", "data rank", "dp_rank", "dp", NULL};
    static const char *const tensor[] = {"tp rank", "tensor rank", "tp_rank", "tp", NULL};
    int found = number_after(name, pipeline);
    named->pipeline = found >= 0 ? found : named->pipeline;
    found = number_after(name, data);
    named->data = found >= 0 ? found : named->data;
    found = number_after(name, tensor);
    named->tensor = found >= 0 ? found : named->tensor;
}

/* ---- streams ---- */

static size_t slot_of(const sl_hybrid_trace *t, int64_t pid, int64_t tid) {
    const struct sl_hybrid_file *f = t->file;
    size_t at = ((uint64_t)pid * 0x9e3779b97f4a7c15u ^ (uint64_t)tid * 0xc2b2ae3d27d4eb4fu) % f->slots;
    while (f->slot[at] && (t->stream[f->slot[at] - 1].pid != pid || t->stream[f->slot[at] - 1].tid != tid))
        at = (at + 1) % f->slots;
    return at;
}

static sl_status widen(sl_hybrid_trace *t) {
    struct sl_hybrid_file *f = t->file;
    sl_free(f->slot);
    f->slots = f->slots ? 2 * f->slots : 4096;
    SL_TRY(sl_alloc(&f->slot, f->slots, sizeof *f->slot));
    for (size_t i = f->first_stream; i < t->streams; i++)
        f->slot[slot_of(t, t->stream[i].pid, t->stream[i].tid)] = i + 1;
    return SL_OK;
}

static sl_status find_stream(sl_hybrid_trace *t, const json_t *event, size_t *stream) {
    struct sl_hybrid_file *f = t->file;
    int pid_is_text, tid_is_text;
    int64_t pid = id_of(json_object_get(event, "pid"), &pid_is_text),
            tid = id_of(json_object_get(event, "tid"), &tid_is_text);
    if (2 * (t->streams - f->first_stream) >= f->slots)
        SL_TRY(widen(t));
    size_t at = slot_of(t, pid, tid);
    if (!f->slot[at]) {
        SL_TRY(sl_grow(&t->stream, &t->stream_room, t->streams + 1, sizeof *t->stream));
        t->stream[t->streams++] = (sl_hybrid_stream){.file = t->files,
                                                     .pid = pid,
                                                     .tid = tid,
                                                     .pid_is_text = pid_is_text,
                                                     .named = {-1, -1, -1},
                                                     .worker = -1};
        f->slot[at] = t->streams;
    }
    *stream = f->slot[at] - 1;
    return SL_OK;
}

static sl_status take_name(sl_hybrid_trace *t, const json_t *event) {
    const char *what = json_string_value(json_object_get(event, "name"));
    const char *name = json_string_value(json_object_get(json_object_get(event, "args"), "name"));
    struct sl_hybrid_file *f = t->file;
    size_t stream;
    int is_text;
    if (!what || !name)
        return SL_OK;
    if (strcmp(what, "thread_name") == 0) {
        SL_TRY(find_stream(t, event, &stream));
        read_names(name, &t->stream[stream].named);
    } else if (strcmp(what, "process_name") == 0) {
        SL_TRY(sl_grow(&f->process, &f->process_room, f->processes + 1, sizeof *f->process));
        named_process *process = &f->process[f->processes++];
        *process = (named_process){id_of(json_object_get(event, "pid"), &is_text), {-1, -1, -1}};
        read_names(name, &process->named);
    }
    return SL_OK;
}

/* ---- events ---- */

static sl_status add_event(sl_hybrid_trace *t, size_t stream, int kind, const json_t *args, sl_time start,
                           sl_time end, int open) {
    SL_TRY(sl_grow(&t->event, &t->event_room, t->events + 1, sizeof *t->event));
    int64_t sequence = whole_of(args, sequence_names, 2e9);
    t->event[t->events++] =
        (sl_hybrid_event){.start = start,
                          .end = end,
                          .step = whole_of(args, step_names, 1e15),
                          .stream = (int32_t)stream,
                          .chunk = (int32_t)whole_of(args, chunk_names, 1e6),
                          .microbatch = (int32_t)whole_of(args, microbatch_names, 2e9),
                          .sequence = (int32_t)(sequence >= 0 ? sequence : (int64_t)(t->read & 0x3fffffff)),
                          .kind = (uint8_t)kind,
                          .open = (uint8_t)open};
    t->stream[stream].computes += sl_traced_kinds[kind].role == SL_ROLE_FORWARD;
    return t->events < INT32_MAX ? SL_OK : sl_error(SL_EINVAL, "%s: more than 2e9 events", t->file->name);
}

static void count_unknown(sl_hybrid_trace *t, const char *name) {
    char quoted[64], *seen;
    size_t length = strlen(name);
    t->unknown++;
    if (length > 40 || (seen = strstr(t->unknown_names, name)) != NULL)
        return;
    snprintf(quoted, sizeof quoted, "'%s'", name);
    if (strlen(t->unknown_names) + length + 5 < sizeof t->unknown_names)
        sl_text_add(t->unknown_names, sizeof t->unknown_names, ", ", quoted);
}

/* The kind of an event that counts; -1: none. */
static int kind_of(sl_hybrid_trace *t, const json_t *event) {
    const char *name = json_string_value(json_object_get(event, "name"));
    int kind = name ? sl_traced_kind_find(name) : -1;
    if (kind < 0)
        count_unknown(t, name ? name : "");
    return kind >= 0 && sl_traced_kinds[kind].role == SL_ROLE_INSIDE ? -1 : kind;
}

static sl_status take_slice(sl_hybrid_trace *t, const json_t *event, sl_time start) {
    size_t stream;
    sl_time length = 0;
    int kind = kind_of(t, event), open = 0;
    if (kind < 0)
        return SL_OK;
    SL_TRY(find_stream(t, event, &stream));
    if (!sl_event_time(json_object_get(event, "dur"), &length) || length > MAX_DURATION)
        open = 1;
    sl_time end = open ? start : start + length;
    if (end < start) { /* clocks that differ: both ends are seen, the end is what others waited for */
        t->negative++;
        start = end;
    }
    return add_event(t, stream, kind, json_object_get(event, "args"), start, end, open);
}

static sl_status take_begin(sl_hybrid_trace *t, const json_t *event, sl_time start) {
    size_t stream;
    int kind = kind_of(t, event);
    SL_TRY(find_stream(t, event, &stream));
    sl_hybrid_stream *s = &t->stream[stream];
    if (s->depth < (int)(sizeof s->begun / sizeof *s->begun))
        s->begun[s->depth] = kind < 0 ? -1 : (int32_t)t->events;
    s->depth++;
    return kind < 0 ? SL_OK : add_event(t, stream, kind, json_object_get(event, "args"), start, start, 1);
}

static sl_status take_end(sl_hybrid_trace *t, const json_t *event, sl_time end) {
    size_t stream;
    SL_TRY(find_stream(t, event, &stream));
    sl_hybrid_stream *s = &t->stream[stream];
    if (s->depth == 0) /* it began before the trace */
        return SL_OK;
    s->depth--;
    if (s->depth < (int)(sizeof s->begun / sizeof *s->begun) && s->begun[s->depth] >= 0) {
        sl_hybrid_event *begun = &t->event[s->begun[s->depth]];
        begun->open = 0;
        begun->end = end > begun->start ? end : begun->start;
        t->negative += end < begun->start;
    }
    return SL_OK;
}

static sl_status take(sl_hybrid_trace *t, const json_t *event, long line) {
    const char *phase = json_string_value(json_object_get(event, "ph"));
    sl_time start;
    t->read++;
    if (!phase || !phase[0] || phase[1])
        return SL_OK;
    if (phase[0] == 'M')
        return take_name(t, event);
    if (!strchr("XBE", phase[0]))
        return SL_OK;
    const char *name = json_string_value(json_object_get(event, "name"));
    if (!sl_event_time(json_object_get(event, "ts"), &start)) {
        if (phase[0] != 'E' && json_is_null(json_object_get(event, "ts"))) {
            t->dropped++;
            return SL_OK;
        }
        return sl_error(SL_EINVAL, "%s:%ld: event '%.60s' has no time ('ts', us)", t->file->name, line,
                        name ? name : "");
    }
    return phase[0] == 'X'   ? take_slice(t, event, start)
           : phase[0] == 'B' ? take_begin(t, event, start)
                             : take_end(t, event, start);
}

/* Python writes numbers that are none as NaN and Infinity, which JSON does not have: they become null. */
static sl_status without_nan(const char *text, size_t size, char **clean) {
    SL_TRY(sl_alloc(clean, 2 * size + 8, 1));
    char *to = *clean;
    int in_string = 0;
    for (const char *at = text; *at; at++) {
        const char *sign = *at == '-' ? at + 1 : at;
        size_t word = strncmp(sign, "NaN", 3) == 0 ? 3 : strncmp(sign, "Infinity", 8) == 0 ? 8 : 0;
        if (!in_string && word) {
            memcpy(to, "null", 4);
            to += 4;
            at = sign + word - 1;
            continue;
        }
        if (in_string && *at == '\\' && at[1])
            *to++ = *at++;
        else if (*at == '"')
            in_string = !in_string;
        *to++ = *at;
    }
    *to = 0;
    return SL_OK;
}

static sl_status take_event(void *object, int list, const char *text, size_t size, long line) {
    sl_hybrid_trace *t = object;
    (void)list;
    json_error_t error;
    char *clean = NULL;
    json_t *event = json_loadb(text, size, 0, &error);
    if (!event && (strstr(text, "NaN") || strstr(text, "Infinity"))) {
        SL_TRY(without_nan(text, size, &clean));
        event = json_loads(clean, 0, &error);
        sl_free(clean);
    }
    if (!event)
        return sl_error(SL_EINVAL, "%s:%ld: invalid JSON: %s", t->file->name, line + error.line - 1,
                        error.text);
    sl_status status = take(t, event, line);
    json_decref(event);
    return status;
}

static sl_status take_member(void *object, const char *key, const char *text, size_t size) {
    (void)object, (void)key, (void)text, (void)size;
    return SL_OK;
}

/* ---- files ---- */

sl_status sl_hybrid_trace_begin(sl_hybrid_trace *t, const char *name) {
    SL_TRY(sl_alloc(&t->file, 1, sizeof *t->file));
    t->file->first_stream = t->streams;
    t->file->first_event = t->events;
    SL_TRY(sl_grow(&t->file_name, &t->file_rooms, (size_t)t->files + 1, sizeof *t->file_name));
    SL_TRY(sl_copy_text(&t->file_name[t->files], name));
    t->file->name = t->file_name[t->files];
    sl_scan_sink sink = {take_event, take_member, t};
    return sl_scan_open(name, &sl_trace_form, &sink, &t->file->scanner);
}

sl_status sl_hybrid_trace_feed(sl_hybrid_trace *t, const char *bytes, size_t size) {
    return sl_scan_feed(t->file->scanner, bytes, size);
}

static void close_file(sl_hybrid_trace *t) {
    if (!t->file)
        return;
    sl_scan_close(t->file->scanner);
    SL_FREE(t->file->slot, t->file->process, t->file);
    t->file = NULL;
}

/* Names of a process hold for its streams where their own say nothing. */
static void apply_process_names(sl_hybrid_trace *t) {
    for (size_t i = t->file->first_stream; i < t->streams; i++)
        for (size_t k = 0; k < t->file->processes; k++) {
            sl_hybrid_coordinates *own = &t->stream[i].named, *whole = &t->file->process[k].named;
            if (t->file->process[k].pid != t->stream[i].pid)
                continue;
            own->pipeline = own->pipeline >= 0 ? own->pipeline : whole->pipeline;
            own->data = own->data >= 0 ? own->data : whole->data;
            own->tensor = own->tensor >= 0 ? own->tensor : whole->tensor;
        }
}

sl_status sl_hybrid_trace_end(sl_hybrid_trace *t) {
    SL_TRY(sl_scan_end(t->file->scanner));
    int computes = 0;
    for (size_t i = t->file->first_stream; i < t->streams; i++)
        computes += t->stream[i].computes > 0;
    if (!computes)
        return sl_error(SL_EINVAL,
                        "%s: no event 'forward-compute' in %zu events%s%s; a trace of a hybrid-parallel job "
                        "is required (slackline import reads other traces)",
                        t->file->name, t->events - t->file->first_event + t->unknown,
                        t->unknown_names[0] ? "; others are " : "", t->unknown_names);
    apply_process_names(t);
    close_file(t);
    t->files++;
    return SL_OK;
}

void sl_hybrid_trace_free(sl_hybrid_trace *t) {
    close_file(t);
    for (size_t i = 0; i < t->file_rooms; i++)
        sl_free(t->file_name[i]);
    SL_FREE(t->event, t->stream, t->worker, t->file_name);
    *t = (sl_hybrid_trace){0};
}
