#include "notice/hang/torch_dump.h"
#include "base/memory.h"
#include "notice/hang/nccl_ras.h"
#include "notice/hang/pickle.h"
#include "notice/record/call.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BEGINNING = 1 << 16, MAX_RANK = 1 << 20, FRAMES = 6, MAX_ENTRIES = 1 << 20 };
#define FOREVER 1e9 /* seconds: a dump does not say for how long */

int sl_torch_dump_is(const char *bytes, size_t size) {
    static const char *const signs[] = {"\"collective_seq_id\"", "\"still_s\"", "\"comm_lib_version\"",
                                        "\"nccl_version\"", "\"pg_config\""};
    if (size > 1 && (unsigned char)bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5)
        return 1;
    size = size < BEGINNING ? size : BEGINNING;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (memmem(bytes, size, signs[i], strlen(signs[i])))
            return 1;
    return 0;
}

int sl_torch_dump_rank_of(const char *name) {
    const char *last = strrchr(name, '/');
    last = last ? last + 1 : name;
    size_t end = strcspn(last, "."), start;
    while (end > 0 && !isdigit((unsigned char)last[end - 1]))
        end--;
    for (start = end; start > 0 && isdigit((unsigned char)last[start - 1]);)
        start--;
    if (start == end || end - start > 7)
        return -1;
    return atoi(last + start);
}

/* ---- one rank ---- */

/* Groups have equal names on all ranks. */
static uint64_t name_hash(const char *text) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

static const char *group_name(const json_t *entry) {
    const char *name = json_string_value(json_array_get(json_object_get(entry, "process_group"), 0));
    return name ? name : "";
}

/* "gloo:all_reduce" -> "all_reduce"; "nccl:send 0->1" -> "send". */
static void short_name(const char *full, char *name, size_t size) {
    const char *colon = strchr(full, ':');
    snprintf(name, size, "%s", colon ? colon + 1 : full);
    name[strcspn(name, " ")] = 0;
}

static int bytes_of_type(const char *type) {
    static const struct {
        const char *name;
        int bytes;
    } types[] = {{"Double", 8},   {"Long", 8},  {"Float", 4}, {"Int", 4},  {"Half", 2},
                 {"BFloat16", 2}, {"Short", 2}, {"Byte", 1},  {"Char", 1}, {"Bool", 1}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, type) == 0)
            return types[i].bytes;
    return 1;
}

/* Sizes and type of the input: "[[5, 2]] Float", and its bytes. */
static void read_shape(const json_t *entry, sl_hang_collective *c) {
    const json_t *sizes = json_object_get(entry, "input_sizes"),
                 *types = json_object_get(entry, "input_dtypes");
    char *text = json_is_array(sizes) ? json_dumps(sizes, 0) : NULL;
    const char *type = json_string_value(json_array_get(types, 0));
    size_t i, k;
    json_t *one, *extent;
    if (!text)
        return;
    snprintf(c->shape, sizeof c->shape, "%.70s %.20s", text, type ? type : "");
    free(text);
    c->sized = 1;
    json_array_foreach(sizes, i, one) {
        uint64_t bytes = (uint64_t)bytes_of_type(type ? type : "");
        json_array_foreach(one, k, extent) bytes *= (uint64_t)json_integer_value(extent);
        c->bytes += bytes;
    }
}

static void read_frames(const json_t *entry, char *text, size_t size) {
    const json_t *frames = json_object_get(entry, "frames");
    size_t i;
    json_t *frame;
    int shown = 0;
    text[0] = 0;
    json_array_foreach(frames, i, frame) {
        const char *file = sl_json_text(frame, "filename", ""), *name = sl_json_text(frame, "name", "?");
        const char *last = strrchr(file, '/');
        size_t used = strlen(text);
        if (shown >= FRAMES || strstr(file, "torch/distributed/c10d_logger.py"))
            continue;
        int length = snprintf(text + used, size - used, "%s%s (%s:%d)", used ? " < " : "", name,
                              last ? last + 1 : file, (int)sl_json_int(frame, "line", 0));
        if (length >= (int)(size - used)) {
            text[used] = 0;
            break;
        }
        shown++;
    }
}

static int is_over(const json_t *entry) {
    return json_is_true(json_object_get(entry, "retired")) ||
           strcmp(sl_json_text(entry, "state", ""), "completed") == 0;
}

static sl_hang_channel *channel_for(sl_hang_rank *r, const sl_channel_key *key, size_t room) {
    for (size_t i = 0; i < r->channels; i++)
        if (sl_channel_key_same(&r->channel[i].key, key))
            return &r->channel[i];
    if (r->channels == room)
        return NULL;
    r->channel[r->channels] = (sl_hang_channel){.key = *key};
    return &r->channel[r->channels++];
}

/* The latest call, or the first one that is not over. */
static void note_call(const json_t *entry, sl_hang_thread *t) {
    if (t->inside)
        return;
    short_name(sl_json_text(entry, "profiling_name", "?"), t->call, sizeof t->call);
    read_frames(entry, t->frames, sizeof t->frames);
}

static void note_wait(const sl_channel_key *key, uint64_t number, sl_hang_thread *t) {
    t->inside = 1;
    if (t->waits < SL_GATE_ENTRIES)
        t->wait[t->waits++] = (sl_hang_wait){*key, number, 1};
}

/* ---- messages of NCCL ---- */

/* Rank `number` of the group, in the world: pg_config has "[4, 6]". */
static int world_rank(const json_t *dump, const char *group, int number) {
    const char *at = sl_json_text(json_object_get(json_object_get(dump, "pg_config"), group), "ranks", "");
    int rank = number;
    for (int i = 0; (at = strpbrk(at, "0123456789")); i++) {
        char *end;
        const long found = strtol(at, &end, 10);
        if (i == number)
            return found <= MAX_RANK ? (int)found : -1;
        at = end;
        rank = -1;
    }
    return rank;
}

/* "nccl:send 0->1", "nccl:recv 1<-0": its ends in the world. */
static int read_ends(const json_t *dump, const json_t *entry, int *source, int *destination) {
    const char *name = sl_json_text(entry, "profiling_name", "");
    int own, other, used = 0, receives = 0;
    name = strchr(name, ':') ? strchr(name, ':') + 1 : name;
    if (sscanf(name, "send %9d->%9d%n", &own, &other, &used) != 2) {
        receives = 1;
        if (sscanf(name, "recv %9d<-%9d%n", &own, &other, &used) != 2)
            return 0;
    }
    own = world_rank(dump, group_name(entry), own);
    other = world_rank(dump, group_name(entry), other);
    *source = receives ? other : own;
    *destination = receives ? own : other;
    return name[used] == 0 && own >= 0 && other >= 0;
}

static int ends_batch(const json_t *entry) {
    const char *name = sl_json_text(entry, "profiling_name", "");
    const char *colon = strchr(name, ':');
    return colon && strcmp(colon + 1, "coalesced") == 0;
}

/* Entries of one batch have equal numbers. Only the entry that ends the batch changes its state. */
static int is_of_batch(const json_t *entry, const json_t *end) {
    return strcmp(group_name(entry), group_name(end)) == 0 &&
           sl_json_int(entry, "p2p_seq_id", -1) == sl_json_int(end, "p2p_seq_id", -1) &&
           sl_json_int(entry, "collective_seq_id", -1) == sl_json_int(end, "collective_seq_id", -1);
}

/* The entry that has the state of this one. */
static const json_t *state_of(const json_t *entries, size_t at) {
    const json_t *entry = json_array_get(entries, at), *next;
    for (size_t i = at + 1; (next = json_array_get(entries, i)) && is_of_batch(entry, next); i++)
        if (ends_batch(next))
            return next;
    return entry;
}

/* Whether the job has NCCL's calls timed: only then does a recorder know which have started on the device. */
static int knows_starts(const json_t *entries) {
    size_t i;
    json_t *entry;
    json_array_foreach(entries, i,
                       entry) if (sl_json_int(entry, "time_discovered_started_ns", 0) > 0) return 1;
    return 0;
}

/* A recorder forgets old messages, so that only those under way are counted: both ends of a link have done
 * the same number before. One that is still queued on its device after another has not come. */
static void read_message(const json_t *dump, size_t at, int starts, sl_hang_rank *r, sl_hang_thread *t,
                         size_t room) {
    const json_t *entries = json_object_get(dump, "entries"), *entry = json_array_get(entries, at);
    sl_channel_key key = {name_hash(group_name(entry)), -1, -1, -1, SL_CHANNEL_POINT};
    note_call(entry, t);
    const json_t *state = state_of(entries, at);
    const int queued = starts && strcmp(sl_json_text(state, "state", ""), "scheduled") == 0;
    if (is_over(state) || queued || !read_ends(dump, entry, &key.source, &key.destination))
        return;
    sl_hang_channel *channel = channel_for(r, &key, room);
    if (channel)
        note_wait(&key, ++channel->announced, t);
}

/* ---- collectives ---- */

static void read_entry(const json_t *dump, size_t at, int starts, sl_hang_rank *r, sl_hang_thread *t,
                       size_t room) {
    const json_t *entries = json_object_get(dump, "entries"), *entry = json_array_get(entries, at);
    sl_hang_collective *c = &r->collective[r->collectives];
    const int64_t number = sl_json_int(entry, "collective_seq_id", 0);
    sl_channel_key key = {name_hash(group_name(entry)), -1, -1, -1, SL_CHANNEL_COLLECTIVE};
    if (json_is_true(json_object_get(entry, "is_p2p"))) {
        read_message(dump, at, starts, r, t, room);
        return;
    }
    const json_t *before = at > 0 ? json_array_get(entries, at - 1) : NULL;
    const int of_messages = before && ends_batch(entry) && is_of_batch(before, entry) &&
                            json_is_true(json_object_get(before, "is_p2p"));
    if (of_messages || number <= 0 || number > INT64_C(1) << 50)
        return;
    sl_hang_channel *channel = channel_for(r, &key, room);
    if (!channel)
        return;
    if ((uint64_t)number > channel->announced)
        channel->announced = (uint64_t)number;
    *c = (sl_hang_collective){.communicator = key.communicator, .number = (uint64_t)number, .root = -1};
    short_name(sl_json_text(entry, "profiling_name", "?"), c->call, sizeof c->call);
    read_shape(entry, c);
    r->collectives++;
    note_call(entry, t);
    if (!is_over(entry))
        note_wait(&key, (uint64_t)number, t);
}

/* Groups that the configuration names, with no call yet. */
static void read_groups(const json_t *dump, sl_hang_rank *r, size_t room) {
    const char *name;
    json_t *group;
    json_object_foreach((json_t *)(uintptr_t)json_object_get(dump, "pg_config"), name, group) {
        const sl_channel_key key = {name_hash(name), -1, -1, -1, SL_CHANNEL_COLLECTIVE};
        const char *ranks = sl_json_text(group, "ranks", "[]");
        if (name[0] && strpbrk(ranks, "0123456789"))
            (void)channel_for(r, &key, room);
    }
}

static sl_status read_rank(const json_t *dump, sl_hang_rank *r) {
    const json_t *entries = json_object_get(dump, "entries");
    const size_t count = json_array_size(entries),
                 groups = json_object_size(json_object_get(dump, "pg_config"));
    r->still_s = FOREVER;
    r->pid = -1;
    SL_TRY(sl_alloc(&r->thread, 1, sizeof *r->thread));
    r->threads = 1;
    sl_hang_thread *t = r->thread;
    *t = (sl_hang_thread){.for_s = FOREVER, .state = '?', .peer = SL_PEER_NONE};
    SL_TRY(sl_alloc(&t->wait, SL_GATE_ENTRIES, sizeof *t->wait));
    SL_TRY(sl_alloc(&r->collective, count + 1, sizeof *r->collective));
    SL_TRY(sl_alloc(&r->channel, count + groups + 2, sizeof *r->channel));
    const int starts = knows_starts(entries);
    for (size_t i = 0; i < count; i++)
        read_entry(dump, i, starts, r, t, count + groups + 1);
    read_groups(dump, r, count + groups + 1);
    return SL_OK;
}

static sl_status add_dump(const char *name, const json_t *dump, sl_hang_job *job) {
    sl_hang_rank r = {.rank = sl_torch_dump_rank_of(name)};
    if (!json_is_array(json_object_get(dump, "entries")))
        return sl_error(SL_EINVAL, "%s: no dump of a flight recorder: 'entries' is missing", name);
    if (json_array_size(json_object_get(dump, "entries")) > MAX_ENTRIES)
        return sl_error(SL_EINVAL, "%s: 'entries' has more than %d", name, MAX_ENTRIES);
    if (r.rank < 0 || r.rank > MAX_RANK)
        return sl_error(SL_EINVAL, "%s: its name does not end with the rank, as in nccl_trace_rank_3", name);
    if (sl_hang_find(job, r.rank))
        return sl_error(SL_EINVAL, "%s: there is another dump of rank %d", name, r.rank);
    sl_status status = read_rank(dump, &r);
    if (status != SL_OK) {
        sl_hang_rank_free(&r);
        return status;
    }
    job->from_dumps = 1;
    return sl_hang_add(job, &r);
}

sl_status sl_torch_dump_add(const char *name, const char *bytes, size_t size, sl_hang_job *job) {
    json_t *json = NULL;
    sl_status status;
    if (size > 0 && (unsigned char)bytes[0] == 0x80) {
        SL_TRY(sl_pickle_read(name, bytes, size, &json));
    } else {
        json_error_t error;
        json = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
        if (!json)
            return sl_error(SL_EINVAL, "%s:%d: %s", name, error.line, error.text);
    }
    if (json_object_get(json, "ranks")) {
        status = sl_hang_job_read(json, job);
        if (status == SL_EINVAL)
            status = sl_error(SL_EINVAL, "%s: %s", name, sl_error_text());
    } else if (sl_nccl_ras_is(json)) {
        status = job->ranks > 0 ? sl_error(SL_EINVAL, "%s: one answer of NCCL's RAS service at a time", name)
                                : sl_nccl_ras_add(name, json, job);
    } else {
        status = add_dump(name, json, job);
    }
    json_decref(json);
    return status;
}

sl_status sl_torch_dump_finish(sl_hang_job *job) {
    if (job->ranks > 0 && job->rank[0].threads > 0 && job->rank[0].thread[0].inside == SL_HANG_ON_DEVICE)
        return SL_OK; /* NCCL's communicators are complete */
    const sl_channel_key everybody = {name_hash("0"), -1, -1, -1, SL_CHANNEL_COLLECTIVE};
    for (size_t i = 0; job->from_dumps && i < job->ranks; i++) {
        sl_hang_rank *r = &job->rank[i];
        if (sl_hang_channel_of(r, &everybody))
            continue;
        size_t capacity = r->channels;
        SL_TRY(sl_grow(&r->channel, &capacity, r->channels + 1, sizeof *r->channel));
        r->channel[r->channels++] = (sl_hang_channel){.key = everybody};
    }
    return SL_OK;
}
