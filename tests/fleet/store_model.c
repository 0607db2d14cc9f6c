#include "store_model.h"

#include "base/random.h"
#include "base/status.h"
#include "notice/store/store_link.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4096, BLOCK = 100 /* entries that Redis trims at once */ };

typedef struct store_log_entry {
    int64_t ms, number;
    size_t size, seal_size;
    char *bytes; /* and the seal after them */
} store_log_entry;

/* A value or a log. */
typedef struct store_item {
    struct store_item *next;
    char *name;
    char *value; /* NULL: a log */
    size_t size;
    sl_time set, expires; /* 0: never */
    store_log_entry *entry;
    size_t first, end, room;
    int64_t last_ms, last_number;
} store_item;

store_model *store_model_current;

static void *need(void *memory) {
    if (!memory)
        abort();
    return memory;
}

static double chance(store_model *s) {
    return sl_random_unit(sl_random_mix(*s->random += SL_RANDOM_STEP));
}

void store_model_open(store_model *s, int nodes, uint64_t *random) {
    *s = (store_model){.random = random};
    s->bucket = need(calloc(BUCKETS, sizeof(store_item *)));
    s->cut = need(calloc((size_t)nodes + 1, 1));
}

static void clear_log(store_item *item) {
    for (size_t i = item->first; i < item->end; i++)
        free(item->entry[i].bytes);
    item->first = item->end = 0;
}

static void free_item(store_item *item) {
    clear_log(item);
    free(item->entry);
    free(item->value);
    free(item->name);
    free(item);
}

static void clear(store_model *s) {
    for (int b = 0; b < BUCKETS; b++)
        while (s->bucket[b]) {
            store_item *gone = s->bucket[b];
            s->bucket[b] = gone->next;
            free_item(gone);
        }
}

void store_model_close(store_model *s) {
    clear(s);
    free(s->bucket);
    free(s->cut);
}

/* ---- items ---- */

static store_item **place(store_model *s, const char *name, size_t length) {
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    store_item **at = &s->bucket[(h ^ h >> 32) % BUCKETS];
    while (*at && (strlen((*at)->name) != length || memcmp((*at)->name, name, length) != 0))
        at = &(*at)->next;
    return at;
}

static void drop(store_item **at) {
    store_item *gone = *at;
    *at = gone->next;
    free_item(gone);
}

static store_item *find(store_model *s, const char *name, size_t length, sl_time now) {
    store_item **at = place(s, name, length);
    if (*at && (*at)->expires && now >= (*at)->expires)
        drop(at);
    return *at;
}

static store_item *make(store_model *s, const char *name, size_t length) {
    store_item **at = place(s, name, length);
    if (!*at) {
        *at = need(calloc(1, sizeof **at));
        (*at)->name = need(calloc(length + 1, 1));
        memcpy((*at)->name, name, length);
    }
    return *at;
}

void store_model_restart(store_model *s, int kept, sl_time now) {
    if (!kept) {
        clear(s);
        return;
    }
    for (int b = 0; b < BUCKETS; b++)
        for (store_item **at = &s->bucket[b]; *at;) {
            store_item *item = *at;
            while (item->end > item->first && item->entry[item->end - 1].ms > (now - SL_SECOND) / SL_MS)
                free(item->entry[--item->end].bytes);
            if (item->value && item->set > now - SL_SECOND)
                drop(at);
            else
                at = &item->next;
        }
}

/* ---- answers ---- */

static redisReply *answer(int type) {
    redisReply *reply = need(calloc(1, sizeof *reply));
    reply->type = type;
    return reply;
}

static redisReply *answer_bytes(int type, const char *bytes, size_t size) {
    redisReply *reply = answer(type);
    reply->str = need(malloc(size + 1));
    memcpy(reply->str, bytes, size);
    reply->str[size] = 0;
    reply->len = size;
    return reply;
}

static redisReply *answer_array(size_t elements) {
    redisReply *reply = answer(REDIS_REPLY_ARRAY);
    reply->elements = elements;
    reply->element = need(calloc(elements + 1, sizeof *reply->element));
    return reply;
}

/* ---- requests ---- */

typedef struct asked {
    int count;
    const char **word;
    const size_t *size;
} asked;

static int is_word(const asked *a, int i, const char *word) {
    return i < a->count && a->size[i] == strlen(word) && memcmp(a->word[i], word, a->size[i]) == 0;
}

static redisReply *set_value(store_model *s, const asked *a, sl_time now) {
    int only_new = is_word(a, 3, "NX");
    if (only_new && find(s, a->word[1], a->size[1], now))
        return answer(REDIS_REPLY_NIL);
    store_item *item = make(s, a->word[1], a->size[1]);
    free(item->value);
    item->value = need(malloc(a->size[2] + 1));
    memcpy(item->value, a->word[2], a->size[2]);
    item->size = a->size[2];
    item->set = now;
    item->expires = is_word(a, 3 + only_new, "PX") ? now + atoll(a->word[4 + only_new]) * SL_MS : 0;
    return answer_bytes(REDIS_REPLY_STATUS, "OK", 2);
}

static redisReply *get_value(store_model *s, const asked *a, sl_time now) {
    const store_item *item = find(s, a->word[1], a->size[1], now);
    return item && item->value ? answer_bytes(REDIS_REPLY_STRING, item->value, item->size)
                               : answer(REDIS_REPLY_NIL);
}

static redisReply *remove_item(store_model *s, const asked *a) {
    store_item **at = place(s, a->word[1], a->size[1]);
    if (*at)
        drop(at);
    return answer(REDIS_REPLY_INTEGER);
}

static void add_entry(store_item *log, const asked *a, sl_time now) {
    int64_t ms = now / SL_MS;
    if (log->end == log->room && log->first > log->room / 2) {
        memmove(log->entry, log->entry + log->first, (log->end - log->first) * sizeof *log->entry);
        log->end -= log->first;
        log->first = 0;
    }
    if (log->end == log->room) {
        log->room = log->room ? 2 * log->room : 64;
        log->entry = need(realloc(log->entry, log->room * sizeof *log->entry));
    }
    log->last_number = ms > log->last_ms ? 0 : log->last_number + 1;
    log->last_ms = ms > log->last_ms ? ms : log->last_ms;
    store_log_entry *e = &log->entry[log->end++];
    *e = (store_log_entry){
        .ms = log->last_ms, .number = log->last_number, .size = a->size[7], .seal_size = a->size[9]};
    e->bytes = need(malloc(e->size + e->seal_size + 1));
    memcpy(e->bytes, a->word[7], e->size);
    memcpy(e->bytes + e->size, a->word[9], e->seal_size);
}

/* XADD LOG MAXLEN ~ N * b BYTES s SEAL */
static redisReply *append(store_model *s, const asked *a, sl_time now) {
    size_t keep = (size_t)atoll(a->word[4]);
    store_item *log = make(s, a->word[1], a->size[1]);
    add_entry(log, a, now);
    if (s->twice > 0 && chance(s) < s->twice)
        add_entry(log, a, now);
    while (log->end - log->first >= keep + BLOCK)
        for (int i = 0; i < BLOCK; i++)
            free(log->entry[log->first++].bytes);
    return answer_bytes(REDIS_REPLY_STRING, "0-0", 3);
}

static int is_after(const store_log_entry *e, int64_t ms, int64_t number) {
    return e->ms > ms || (e->ms == ms && e->number > number);
}

/* [id, ["b", bytes, "s", seal]] */
static redisReply *answer_entry(const store_log_entry *e) {
    char id[48];
    redisReply *reply = answer_array(2), *fields = answer_array(4);
    int length = snprintf(id, sizeof id, "%lld-%lld", (long long)e->ms, (long long)e->number);
    reply->element[0] = answer_bytes(REDIS_REPLY_STRING, id, (size_t)length);
    reply->element[1] = fields;
    fields->element[0] = answer_bytes(REDIS_REPLY_STRING, "b", 1);
    fields->element[1] = answer_bytes(REDIS_REPLY_STRING, e->bytes, e->size);
    fields->element[2] = answer_bytes(REDIS_REPLY_STRING, "s", 1);
    fields->element[3] = answer_bytes(REDIS_REPLY_STRING, e->bytes + e->size, e->seal_size);
    return reply;
}

/* The index of the first entry after a position "MS-NUMBER". */
static size_t first_after(const store_item *log, const char *position) {
    long long ms = 0, number = 0;
    sscanf(position, "%lld-%lld", &ms, &number);
    size_t low = log->first, high = log->end;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (is_after(&log->entry[middle], ms, number))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* XREAD COUNT N [BLOCK MS] STREAMS LOG ID */
static redisReply *read_log(store_model *s, const asked *a, sl_time now) {
    size_t most = (size_t)atoll(a->word[2]);
    int blocks = is_word(a, 3, "BLOCK");
    const int name = blocks ? 6 : 4;
    const store_item *log = find(s, a->word[name], a->size[name], now);
    size_t low = log ? first_after(log, a->word[name + 1]) : 0;
    if (blocks && (!log || low == log->end)) {
        model_await(a->word[name]);
        log = find(s, a->word[name], a->size[name], now);
        low = log ? first_after(log, a->word[name + 1]) : 0;
    }
    size_t count = log ? log->end - low : 0;
    count = count > most ? most : count;
    if (count == 0) {
        if (blocks)
            model_pass(atoll(a->word[4]) * SL_MS);
        return answer(REDIS_REPLY_NIL);
    }
    redisReply *reply = answer_array(1), *all = answer_array(2), *entries = answer_array(count);
    reply->element[0] = all;
    all->element[0] = answer_bytes(REDIS_REPLY_STRING, a->word[name], a->size[name]);
    all->element[1] = entries;
    for (size_t i = 0; i < count; i++) {
        entries->element[i] = answer_entry(&log->entry[low + i]);
        s->bytes_out += (int64_t)(log->entry[low + i].size + log->entry[low + i].seal_size);
    }
    return reply;
}

/* All names at once; the pattern is a prefix and a star. */
static redisReply *scan(store_model *s, const asked *a) {
    size_t count = 0;
    redisReply *reply = answer_array(2), *names;
    for (int b = 0; b < BUCKETS; b++)
        for (const store_item *item = s->bucket[b]; item; item = item->next)
            count += strncmp(item->name, a->word[3], a->size[3] - 1) == 0;
    reply->element[0] = answer_bytes(REDIS_REPLY_STRING, "0", 1);
    reply->element[1] = names = answer_array(count);
    count = 0;
    for (int b = 0; b < BUCKETS; b++)
        for (const store_item *item = s->bucket[b]; item; item = item->next)
            if (strncmp(item->name, a->word[3], a->size[3] - 1) == 0)
                names->element[count++] = answer_bytes(REDIS_REPLY_STRING, item->name, strlen(item->name));
    return reply;
}

static int is_write(const asked *a) {
    return is_word(a, 0, "SET") || is_word(a, 0, "XADD");
}

static redisReply *serve(store_model *s, const asked *a, sl_time now) {
    s->requests++;
    for (int i = 0; i < a->count; i++)
        s->bytes_in += (int64_t)a->size[i];
    if (is_word(a, 0, "SET"))
        return set_value(s, a, now);
    if (is_word(a, 0, "GET"))
        return get_value(s, a, now);
    if (is_word(a, 0, "DEL"))
        return remove_item(s, a);
    if (is_word(a, 0, "XADD"))
        return append(s, a, now);
    if (is_word(a, 0, "XREAD"))
        return read_log(s, a, now);
    if (is_word(a, 0, "SCAN"))
        return scan(s, a);
    abort(); /* another request than the store's: the model lacks it */
}

/* ---- in the place of store_link.c ---- */

sl_status __wrap_sl_store_link_open(const char *url, sl_store_link *link);
void __wrap_sl_store_link_close(sl_store_link *link);
sl_status __wrap_sl_store_link_ask(sl_store_link *link, int count, const char **words, const size_t *sizes,
                                   sl_time patience, redisReply **reply);

sl_status __wrap_sl_store_link_open(const char *url, sl_store_link *link) {
    memset(link, 0, sizeof *link);
    return sl_store_address_read(url, &link->address);
}

void __wrap_sl_store_link_close(sl_store_link *link) {
    (void)link;
}

static sl_status lost(sl_store_link *link, const char *why, sl_time again) {
    link->retry = again;
    store_model_current->refused++;
    return sl_error(SL_EPEER, "redis of the model: %s", why);
}

sl_status __wrap_sl_store_link_ask(sl_store_link *link, int count, const char **words, const size_t *sizes,
                                   sl_time patience, redisReply **reply) {
    store_model *s = store_model_current;
    const asked a = {count, words, sizes};
    sl_time now = model_now();
    link->answered = 0;
    if (now < link->retry)
        return lost(link, "not tried again yet", link->retry);
    if (s->down || s->cut[s->client])
        return lost(link, "connection refused", now + SL_SECOND);
    if (s->lose > 0 && chance(s) < s->lose) {
        if (chance(s) < 0.5)
            freeReplyObject(serve(s, &a, now));
        return lost(link, "connection lost", 0);
    }
    if (s->delay > 0) {
        sl_time delay = (sl_time)((double)s->delay * 2 * chance(s));
        if (delay > patience) {
            freeReplyObject(serve(s, &a, now));
            model_pass(patience);
            return lost(link, "no answer in time", model_now() + SL_SECOND);
        }
        model_pass(delay);
    }
    link->answered = 1;
    if (s->full && is_write(&a))
        return lost(link, "OOM command not allowed when used memory > 'maxmemory'", 0);
    *reply = serve(s, &a, model_now());
    return SL_OK;
}
