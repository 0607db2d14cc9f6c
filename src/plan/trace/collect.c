#include "plan/trace/collect.h"
#include "base/memory.h"
#include "plan/trace/collect_inside.h"
#include "plan/trace/event_time.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#define ADD(array, count, room, ...)                                                                         \
    do {                                                                                                     \
        SL_TRY(sl_grow(&(array), &(room), (count) + 1, sizeof *(array)));                                    \
        (array)[(count)++] = (__VA_ARGS__);                                                                  \
    } while (0)

#define LARGEST_NUMBER 1000000000 /* accepted number of a stage or microbatch */

/* The fields of an event with a duration. */
typedef struct slice {
    const char *name, *category;
    const json_t *args;
    int process;
    uint64_t thread;
    sl_time start, end;
} slice;

/* ---- values ---- */

static uint64_t hash_value(uint64_t hash, const json_t *value) {
    char number[32] = "";
    const char *text = json_string_value(value);
    if (!text && json_is_integer(value))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    for (text = text ? text : number; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u; /* FNV-1a */
    return (hash ^ 255) * 1099511628211u;
}

/* The integer in an event's arguments under the first of these names that has one; -1: none. */
static int64_t number_of(const json_t *args, const char *const *names) {
    for (; *names; names++) {
        const json_t *value = json_object_get(args, *names);
        if (json_is_integer(value) && json_integer_value(value) >= 0)
            return json_integer_value(value);
    }
    return -1;
}

static const char *const stage_names[] = {"stage", "stage_index", "stage_id", "pp_stage", NULL};
static const char *const microbatch_names[] = {
    "microbatch", "microbatch_index", "microbatch_id", "micro_batch", "mb", NULL};
static const char *const iteration_names[] = {"iteration", "step", NULL};

/* ---- processes ---- */

/* "rank 3"; with several replicas "replica 1, rank 3" (slackline). */
static void read_process_name(sl_traced_process *process, const char *name) {
    int rank, replica, length = 0;
    if (sscanf(name, "replica %6d, rank %6d%n", &replica, &rank, &length) == 2 && !name[length]) {
        process->rank = rank;
        process->replica = replica;
    } else if (sscanf(name, "rank %6d%n", &rank, &length) == 1 && !name[length]) {
        process->rank = rank;
    } else if (sscanf(name, "Rank %6d%n", &rank, &length) == 1 && !name[length]) {
        process->rank = rank;
    }
}

static sl_status find_process(sl_traced *t, const json_t *pid, int *index) {
    uint64_t key = hash_value(14695981039346656037u + (uint64_t)t->files, pid);
    size_t *recent = &t->file->recent[key % SL_RECENT]; /* index + 1 of the last one in this entry */
    if (*recent > t->file->first_process && t->process[*recent - 1].key == key) {
        *index = (int)*recent - 1;
        return SL_OK;
    }
    for (size_t i = t->processes; i-- > t->file->first_process;)
        if (t->process[i].key == key) {
            *index = (int)i;
            *recent = i + 1;
            return SL_OK;
        }
    if (t->processes > 100000)
        return sl_error(SL_EINVAL, "%s: more than 100000 processes", t->file->name);
    int64_t number = json_is_integer(pid) ? json_integer_value(pid) : -1;
    *index = (int)t->processes;
    *recent = t->processes + 1;
    ADD(t->process, t->processes, t->process_room,
        (sl_traced_process){.key = key,
                            .file = t->files,
                            .number = number >= 0 && number < INT32_MAX ? (int)number : -1,
                            .rank = -1});
    if (json_is_string(pid)) /* some writers put the name here */
        read_process_name(&t->process[*index], json_string_value(pid));
    return SL_OK;
}

/* ---- the meaning of a slice ---- */

static int has(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length)
        if ((at == list || at[-1] == ',') && (at[length] == 0 || at[length] == ','))
            return 1;
    return 0;
}

static int begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static int ends(const char *text, const char *with) {
    const size_t length = strlen(text), tail = strlen(with);
    return length >= tail && strcmp(text + length - tail, with) == 0;
}

/* Launches: cuda_runtime, cuda_driver, hip_runtime, xpu_runtime. */
static int is_runtime(const char *category) {
    return ends(category, "_runtime") || ends(category, "_driver");
}

/* Events that PyTorch writes by the thousand per op; never labels. */
static int is_inner(const char *category) {
    static const char *const inner[] = {"cpu_op",
                                        "kernel",
                                        "gpu_memcpy",
                                        "gpu_memset",
                                        "ac2g",
                                        "fwdbwd",
                                        "gpu_user_annotation",
                                        "overhead",
                                        "cpu_instant_event",
                                        "Memcpy",
                                        "Memset",
                                        "async",
                                        NULL};
    for (int i = 0; inner[i]; i++)
        if (strcmp(category, inner[i]) == 0)
            return 1;
    return is_runtime(category);
}

/* Maps the category names of 2021 to the present ones. */
static const char *category_of(const char *category) {
    return strcmp(category, "Operator") == 0  ? "cpu_op"
           : strcmp(category, "Kernel") == 0  ? "kernel"
           : strcmp(category, "Runtime") == 0 ? "cuda_runtime"
                                              : category;
}

/* Functions of the stacks, and the profiler's own span: not names that a user may have given. */
static int is_background(const slice *s) {
    return strcmp(s->category, "python_function") == 0 || strcmp(s->category, "Trace") == 0 ||
           begins(s->name, "PyTorch Profiler (");
}

static int is_communication(const char *name) {
    static const char *const beginnings[] = {
        "c10d::", "gloo:", "nccl", "mpi:", "ucc:", "record_param_comms", "_c10d_functional::", NULL};
    for (int i = 0; beginnings[i]; i++)
        if (begins(name, beginnings[i]))
            return 1;
    return 0;
}

static double bytes_of_type(const char *type) {
    static const struct {
        const char *name;
        double bytes;
    } types[] = {{"float", 4},  {"double", 8},        {"c10::Half", 2}, {"c10::BFloat16", 2}, {"Float", 4},
                 {"Double", 8}, {"Half", 2},          {"BFloat16", 2},  {"long int", 8},      {"int", 4},
                 {"Long", 8},   {"Int", 4},           {"bool", 1},      {"unsigned char", 1}, {"Byte", 1},
                 {"char", 1},   {"Float8_e4m3fn", 1}, {NULL, 0}};
    for (int i = 0; type && types[i].name; i++)
        if (strcmp(types[i].name, type) == 0)
            return types[i].bytes;
    return 0;
}

/* Bytes of a send's record_param_comms, from elements and their type; 0: it is something else, or unknown. */
static double payload_of(const slice *s) {
    const char *what = json_string_value(json_object_get(s->args, "Collective name"));
    const json_t *elements = json_object_get(s->args, "In msg nelems");
    if (!what || strcmp(what, "send") != 0 || !json_is_number(elements))
        return 0;
    return json_number_value(elements) * bytes_of_type(json_string_value(json_object_get(s->args, "dtype")));
}

/* Product of the numbers in a list of lists; 0 if there are none. */
static double elements_of(const json_t *shape) {
    double product = json_array_size(shape) > 0;
    for (size_t i = 0; i < json_array_size(shape); i++) {
        const json_t *item = json_array_get(shape, i);
        if (!json_is_integer(item))
            return 0;
        product *= (double)json_integer_value(item);
    }
    return product;
}

/* gloo:send with record_shapes: its inputs are the tensors. */
static double sent_by(const slice *s) {
    const json_t *shapes = json_object_get(s->args, "Input Dims"),
                 *types = json_object_get(s->args, "Input type");
    double bytes = 0;
    for (size_t i = 0; i < json_array_size(shapes); i++)
        bytes += elements_of(json_array_get(shapes, i)) *
                 bytes_of_type(json_string_value(json_array_get(types, i)));
    return bytes;
}

/* Whether it is one of Gloo's messages, which last from their issue to their completion. */
static sl_status take_gloo(sl_file *f, const slice *s, int *taken) {
    double bytes = strcmp(s->name, "gloo:send") == 0 ? sent_by(s) : 0;
    *taken = begins(s->name, "gloo:");
    if (strcmp(s->name, "gloo:send") == 0)
        ADD(f->payload, f->payloads, f->payload_room, (sl_payload){s->thread, s->start, bytes});
    if (strcmp(s->name, "gloo:recv") == 0)
        ADD(f->receipt, f->receipts, f->receipt_room, (sl_receipt){s->thread, s->start, s->end});
    return SL_OK;
}

static sl_status add_inner(sl_file *f, const slice *s) {
    const json_t *correlation = json_object_get(s->args, "correlation");
    if (strcmp(s->category, "cpu_op") == 0) {
        double bytes = begins(s->name, "record_param_comms") ? payload_of(s) : 0;
        if (bytes > 0)
            ADD(f->payload, f->payloads, f->payload_room, (sl_payload){s->thread, s->start, bytes});
        if (strcmp(s->name, "c10d::recv_") == 0)
            ADD(f->issue, f->issues, f->issue_room, (sl_issue){s->thread, s->end});
        if (!is_communication(s->name))
            ADD(f->inner, f->inners, f->inner_room, (sl_inner){s->thread, s->start});
    } else if (!json_is_integer(correlation)) {
        return SL_OK;
    } else if (is_runtime(s->category)) {
        ADD(f->launch, f->launches, f->launch_room, (sl_launch){json_integer_value(correlation), s->start});
    } else if (strcmp(s->category, "kernel") == 0 && !begins(s->name, "nccl") && s->end != 0) {
        /* 0 or less: the GPU's tracer has lost the kernel's time */
        ADD(f->kernel, f->kernels, f->kernel_room,
            (sl_kernel){json_integer_value(correlation), s->start, s->end});
    }
    return SL_OK;
}

static sl_status add_op(sl_traced *t, const slice *s, sl_op op, int64_t mark) {
    t->process[s->process].ops += op.kind < SL_OP_KINDS;
    ADD(t->op, t->ops, t->op_room,
        (sl_traced_op){.process = s->process,
                       .thread = s->thread,
                       .op = op,
                       .start = s->start,
                       .end = s->end,
                       .label_start = s->start,
                       .label_end = s->end,
                       .sent = -1,
                       .received = -1,
                       .work = -1,
                       .mark = mark,
                       .of_stack = !t->map.ops && strcmp(s->category, "python_function") == 0});
    return SL_OK;
}

static sl_status add_message(sl_traced *t, const slice *s, const sl_label *label, int whole, int64_t mark) {
    sl_time on_link;
    if (!sl_event_time(json_object_get(s->args, "on_link_us"), &on_link) || on_link < 0)
        on_link = -1;
    ADD(t->message, t->messages, t->message_room,
        (sl_traced_message){.process = s->process,
                            .thread = s->thread,
                            .receive = label->kind == SL_LABEL_RECEIVE,
                            .whole = whole,
                            .op = label->op,
                            .start = s->start,
                            .end = s->end,
                            .on_link = on_link,
                            .bytes = json_number_value(json_object_get(s->args, "bytes")),
                            .mark = mark});
    return SL_OK;
}

/* In slackline's own traces the category gives what other traces lack: transfers from taking the link to
 * arrival, updates before a stage's first F, reductions after its last W. */
static int is_own(const slice *s, sl_label *label) {
    int stage = (int)number_of(s->args, stage_names);
    if (stage < 0)
        return 0;
    int gather = has(s->category, "update") || has(s->category, "gather"),
        reduce = has(s->category, "reduce");
    if (!gather && !reduce)
        return 0;
    *label = (sl_label){.kind = SL_LABEL_COLLECTIVE,
                        .op = {.stage = stage, .microbatch = -1, .kind = gather ? SL_GATHER : SL_REDUCE},
                        .iteration = -1};
    return 1;
}

static void complete(const slice *s, sl_label *label) {
    int64_t stage = number_of(s->args, stage_names), microbatch = number_of(s->args, microbatch_names);
    if (label->op.stage < 0 && stage >= 0 && stage < LARGEST_NUMBER)
        label->op.stage = (int32_t)stage;
    if (label->op.microbatch < 0 && microbatch >= 0 && microbatch < LARGEST_NUMBER)
        label->op.microbatch = (int32_t)microbatch;
}

static sl_status add_label(sl_traced *t, const slice *s, sl_label *label) {
    int64_t mark = number_of(s->args, iteration_names);
    int transfer = has(s->category, "transfer");
    complete(s, label);
    switch (label->kind) {
    case SL_LABEL_PAIR:
        label->op.paired = 1;
        SL_TRY(add_op(t, s, label->op, mark));
        return add_op(t, s, label->second, mark);
    case SL_LABEL_OP:
        if (!transfer)
            return add_op(t, s, label->op, mark);
        label->op.kind = label->op.kind == SL_F ? SL_F : SL_B;
        return add_message(t, s, label, 1, mark);
    case SL_LABEL_COLLECTIVE:
        return add_op(t, s, label->op, mark);
    case SL_LABEL_SEND:
    case SL_LABEL_RECEIVE:
        return add_message(t, s, label, 0, mark);
    case SL_LABEL_ITERATION:
        ADD(t->file->mark, t->file->marks, t->file->mark_room,
            (sl_mark){s->process, label->iteration, s->start, s->end});
        return SL_OK;
    case SL_LABEL_NONE:
        break;
    }
    return sl_name_count(t, s->name);
}

static sl_status add_slice(sl_traced *t, const slice *s) {
    sl_label label;
    int taken;
    if (is_inner(s->category))
        return add_inner(t->file, s);
    SL_TRY(take_gloo(t->file, s, &taken));
    if (taken)
        return SL_OK;
    if (has(s->category, "critical-path")) /* in a plan's trace: ops a second time */
        return SL_OK;
    if (!is_own(s, &label))
        label = sl_label_read(&t->map, s->name);
    if (label.kind == SL_LABEL_NONE && is_background(s))
        return SL_OK;
    return add_label(t, s, &label);
}

/* ---- events ---- */

/* Spans that begin and end with "b" and "e" of one `id`. */
static int is_async(const json_t *event) {
    const char *phase = json_string_value(json_object_get(event, "ph"));
    return phase && (phase[0] == 'b' || phase[0] == 'e');
}

static sl_status read_slice(sl_traced *t, const json_t *event, slice *s) {
    const json_t *pid = json_object_get(event, "pid"), *tid = json_object_get(event, "tid");
    const char *category = json_string_value(json_object_get(event, "cat"));
    s->name = json_string_value(json_object_get(event, "name"));
    s->category = category ? category_of(category) : "";
    s->args = json_object_get(event, "args");
    s->thread = hash_value(hash_value(14695981039346656037u, pid), tid);
    if (is_async(event)) /* by itself, independent of the thread that reported it */
        s->thread = hash_value(hash_value(hash_value(2166136261u, pid), json_object_get(event, "id")),
                               json_object_get(event, "cat"));
    if (!s->name)
        s->name = "";
    return find_process(t, pid, &s->process);
}

static sl_status begin_slice(sl_traced *t, const json_t *event, const slice *s) {
    char *text = json_dumps(event, JSON_COMPACT);
    sl_file *f = t->file;
    if (!text)
        return sl_error(SL_ENOMEM, "out of memory for an event");
    sl_status status = sl_grow(&f->open, &f->open_room, f->opens + 1, sizeof *f->open);
    if (status == SL_OK)
        f->open[f->opens++] = (sl_open){s->thread, s->process, text, s->start};
    else
        free(text);
    return status;
}

/* The end of the last slice that its thread began. */
static sl_status end_slice(sl_traced *t, const slice *ending) {
    sl_file *f = t->file;
    size_t at = f->opens;
    while (at > 0 && f->open[at - 1].thread != ending->thread)
        at--;
    if (at == 0)
        return SL_OK; /* it began before the trace */
    sl_open open = f->open[--at];
    memmove(&f->open[at], &f->open[at + 1], (--f->opens - at) * sizeof *f->open);
    json_t *event = json_loads(open.text, 0, NULL);
    free(open.text);
    if (!event)
        return sl_error(SL_ENOMEM, "out of memory for an event");
    slice s = {.start = open.start, .end = ending->start};
    sl_status status = read_slice(t, event, &s);
    SL_THEN(status, add_slice(t, &s));
    json_decref(event);
    return status;
}

static sl_status add_event(sl_traced *t, const json_t *event, long line) {
    const char *phase = json_string_value(json_object_get(event, "ph"));
    slice s;
    if (!phase || !strchr("XBEMbe", phase[0]) || phase[1])
        return SL_OK;
    if (phase[0] == 'M') {
        const char *what = json_string_value(json_object_get(event, "name"));
        const char *name = json_string_value(json_object_get(json_object_get(event, "args"), "name"));
        int process;
        if (!what || !name || strcmp(what, "process_name") != 0)
            return SL_OK;
        SL_TRY(find_process(t, json_object_get(event, "pid"), &process));
        read_process_name(&t->process[process], name);
        return SL_OK;
    }
    sl_time length = 0;
    SL_TRY(read_slice(t, event, &s));
    if (!sl_event_time(json_object_get(event, "ts"), &s.start))
        return sl_error(SL_EINVAL, "%s:%ld: event '%.60s' has no time ('ts', us)", t->file->name, line,
                        s.name);
    if (phase[0] == 'B' || phase[0] == 'b')
        return begin_slice(t, event, &s);
    if (phase[0] == 'E' || phase[0] == 'e')
        return end_slice(t, &s);
    if (!sl_event_time(json_object_get(event, "dur"), &length) || length < 0 ||
        length > 10000 * 1000 * SL_SECOND)
        return sl_error(SL_EINVAL, "%s:%ld: event '%.60s' has no duration ('dur', us, 0 to 1e13)",
                        t->file->name, line, s.name);
    s.end = s.start + length;
    return add_slice(t, &s);
}

static sl_status take_event(void *object, int list, const char *text, size_t size, long line) {
    sl_traced *t = object;
    (void)list;
    json_error_t error;
    json_t *event = json_loadb(text, size, 0, &error);
    if (!event)
        return sl_error(SL_EINVAL, "%s:%ld: invalid JSON: %s", t->file->name, line + error.line - 1,
                        error.text);
    t->events++;
    sl_status status = add_event(t, event, line);
    json_decref(event);
    return status;
}

static sl_status take_member(void *object, const char *key, const char *text, size_t size) {
    sl_traced *t = object;
    if (strcmp(key, "distributedInfo") != 0 && strcmp(key, "baseTimeNanoseconds") != 0 &&
        strcmp(key, "host_name") != 0)
        return SL_OK;
    json_error_t error;
    json_t *value = json_loadb(text, size, JSON_DECODE_ANY, &error);
    if (!value)
        return sl_error(SL_EINVAL, "%s: invalid JSON in '%s': %s", t->file->name, key, error.text);
    const json_t *rank = json_object_get(value, "rank");
    if (json_is_integer(rank) && json_integer_value(rank) >= 0 && json_integer_value(rank) < INT32_MAX)
        t->file->rank = (int)json_integer_value(rank);
    if (json_is_integer(value) && json_integer_value(value) > 0 &&
        json_integer_value(value) < 2200000000000000000)
        t->file->base = json_integer_value(value);
    if (json_string_length(value) > 0 && strcmp(json_string_value(value), "localhost") != 0)
        t->file->host = hash_value(14695981039346656037u, value);
    json_decref(value);
    return SL_OK;
}

/* ---- files ---- */

sl_status sl_traced_begin(sl_traced *t, const char *name) {
    sl_file *f;
    SL_TRY(sl_alloc(&f, 1, sizeof *f));
    t->file = f;
    f->rank = -1;
    f->first_op = t->ops;
    f->first_message = t->messages;
    f->first_process = t->processes;
    SL_TRY(sl_copy_text(&f->name, name));
    SL_TRY(sl_grow(&t->file_name, &t->name_rooms, (size_t)t->files + 1, sizeof *t->file_name));
    SL_TRY(sl_copy_text(&t->file_name[t->files], name));
    t->names = 0;
    f->first_event = t->events;
    sl_scan_sink sink = {take_event, take_member, t};
    return sl_scan_open(name, &sl_trace_form, &sink, &f->scanner);
}

sl_status sl_traced_feed(sl_traced *t, const char *bytes, size_t size) {
    return sl_scan_feed(t->file->scanner, bytes, size);
}

sl_status sl_traced_end(sl_traced *t) {
    SL_TRY(sl_scan_end(t->file->scanner));
    SL_TRY(sl_file_check(t, t->file));
    SL_TRY(sl_file_finish(t, t->file));
    sl_file_free(t->file);
    t->file = NULL;
    t->files++;
    return SL_OK;
}
