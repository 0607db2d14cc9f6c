#include "notice/store/store.h"
#include "base/memory.h"
#include "notice/store/link.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 12 };

struct sl_store {
    sl_link link;
    sl_time patience;
    char *prefix; /* slackline:JOB: */
    redisReply *read;
    sl_store_entry *entry;
    size_t entries;
};

/* A request that is put together word by word. */
typedef struct request {
    const char *word[WORDS];
    size_t size[WORDS];
    int words;
    char *name; /* with its prefix */
    char number[3][24];
} request;

static void add_bytes(request *r, const void *bytes, size_t size) {
    r->word[r->words] = bytes;
    r->size[r->words++] = size;
}

static void add(request *r, const char *word) {
    add_bytes(r, word, strlen(word));
}

static void add_number(request *r, int place, int64_t number) {
    snprintf(r->number[place], sizeof r->number[place], "%" PRId64, number);
    add(r, r->number[place]);
}

static sl_status add_name(request *r, const sl_store *store, const char *name) {
    size_t before = strlen(store->prefix), size = before + strlen(name) + 1;
    SL_TRY(sl_alloc(&r->name, size, 1));
    snprintf(r->name, size, "%s%s", store->prefix, name);
    add(r, r->name);
    return SL_OK;
}

/* At least a millisecond, which is as fine as Redis counts. */
static int64_t in_ms(sl_time time) {
    return time / SL_MS + (time % SL_MS > 0);
}

/* Asks and frees what the request holds. */
static sl_status ask(sl_store *store, request *r, sl_time patience, redisReply **reply) {
    sl_status status = sl_link_ask(&store->link, r->words, r->word, r->size, patience, reply);
    sl_free(r->name);
    return status;
}

static sl_status strange(redisReply *reply) {
    freeReplyObject(reply);
    return sl_error(SL_EPEER, "redis gave an answer of another kind than was asked for");
}

sl_status sl_store_open(const char *url, const char *job, sl_time patience, sl_store **result) {
    sl_store *store;
    SL_TRY(sl_alloc(&store, 1, sizeof *store));
    sl_status status = sl_link_open(url, &store->link);
    size_t size = strlen(job) + sizeof "slackline::";
    if (status == SL_OK)
        status = sl_alloc(&store->prefix, size, 1);
    if (status != SL_OK) {
        sl_store_close(store);
        return status;
    }
    snprintf(store->prefix, size, "slackline:%s:", job);
    store->patience = patience > 0 ? patience : SL_SECOND;
    *result = store;
    return SL_OK;
}

void sl_store_close(sl_store *store) {
    if (!store)
        return;
    sl_link_close(&store->link);
    if (store->read)
        freeReplyObject(store->read);
    sl_free(store->entry);
    sl_free(store->prefix);
    sl_free(store);
}

int sl_store_connected(const sl_store *store) {
    return store->link.answered;
}

/* SET, *won whether it was set. */
static sl_status set(sl_store *store, const char *key, const void *bytes, size_t size, sl_time lasts,
                     int only_new, int *won) {
    request r = {.words = 0};
    redisReply *reply;
    add(&r, "SET");
    SL_TRY(add_name(&r, store, key));
    add_bytes(&r, bytes, size);
    if (only_new)
        add(&r, "NX");
    if (lasts > 0) {
        add(&r, "PX");
        add_number(&r, 0, in_ms(lasts));
    }
    SL_TRY(ask(store, &r, store->patience, &reply));
    *won = reply->type == REDIS_REPLY_STATUS;
    if (!*won && reply->type != REDIS_REPLY_NIL)
        return strange(reply);
    freeReplyObject(reply);
    return SL_OK;
}

sl_status sl_store_set(sl_store *store, const char *key, const void *bytes, size_t size, sl_time lasts) {
    int won;
    return set(store, key, bytes, size, lasts, 0, &won);
}

sl_status sl_store_claim(sl_store *store, const char *key, const void *bytes, size_t size, sl_time lasts,
                         int *won) {
    *won = 0;
    return set(store, key, bytes, size, lasts, 1, won);
}

sl_status sl_store_get(sl_store *store, const char *key, void **bytes, size_t *size) {
    request r = {.words = 0};
    redisReply *reply;
    *bytes = NULL;
    *size = 0;
    add(&r, "GET");
    SL_TRY(add_name(&r, store, key));
    SL_TRY(ask(store, &r, store->patience, &reply));
    if (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_NIL)
        return strange(reply);
    sl_status status = SL_OK;
    if (reply->type == REDIS_REPLY_STRING) {
        *size = (size_t)reply->len;
        status = sl_alloc(bytes, *size + 1, 1);
        if (status == SL_OK)
            memcpy(*bytes, reply->str, *size);
    }
    freeReplyObject(reply);
    return status;
}

sl_status sl_store_remove(sl_store *store, const char *key) {
    request r = {.words = 0};
    redisReply *reply;
    add(&r, "DEL");
    SL_TRY(add_name(&r, store, key));
    SL_TRY(ask(store, &r, store->patience, &reply));
    freeReplyObject(reply);
    return SL_OK;
}

static const redisReply *item(const redisReply *reply, size_t place) {
    return reply && reply->type == REDIS_REPLY_ARRAY && place < (size_t)reply->elements
               ? reply->element[place]
               : NULL;
}

/* The prefix as a pattern that means nothing but itself; the caller's. */
static sl_status own_pattern(const sl_store *store, char **pattern) {
    SL_TRY(sl_alloc(pattern, 2 * strlen(store->prefix) + 2, 1));
    char *to = *pattern;
    for (const char *from = store->prefix; *from; from++) {
        if (strchr("*?[]^\\", *from))
            *to++ = '\\';
        *to++ = *from;
    }
    *to = '*';
    return SL_OK;
}

static int is_named(const sl_store *store, const redisReply *name, const char *key) {
    size_t before = strlen(store->prefix);
    return key && (size_t)name->len == before + strlen(key) &&
           memcmp(name->str, store->prefix, before) == 0 && memcmp(name->str + before, key, strlen(key)) == 0;
}

/* Removes what one answer to SCAN names. */
static sl_status remove_all(sl_store *store, const redisReply *names, const char *kept) {
    for (size_t i = 0; item(names, i); i++) {
        redisReply *reply;
        if (is_named(store, item(names, i), kept))
            continue;
        const char *word[] = {"DEL", item(names, i)->str};
        const size_t size[] = {3, (size_t)item(names, i)->len};
        SL_TRY(sl_link_ask(&store->link, 2, word, size, store->patience, &reply));
        freeReplyObject(reply);
    }
    return SL_OK;
}

sl_status sl_store_forget(sl_store *store, const char *kept) {
    char *pattern, cursor[32] = "0";
    SL_TRY(own_pattern(store, &pattern));
    sl_status status;
    do {
        redisReply *reply;
        const char *word[] = {"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"};
        const size_t size[] = {4, strlen(cursor), 5, strlen(pattern), 5, 4};
        status = sl_link_ask(&store->link, 6, word, size, store->patience, &reply);
        if (status != SL_OK)
            break;
        const redisReply *next = item(reply, 0);
        snprintf(cursor, sizeof cursor, "%s", next && next->type == REDIS_REPLY_STRING ? next->str : "0");
        status = remove_all(store, item(reply, 1), kept);
        freeReplyObject(reply);
    } while (status == SL_OK && strcmp(cursor, "0") != 0);
    sl_free(pattern);
    return status;
}

sl_status sl_store_append(sl_store *store, const char *log, const void *bytes, size_t size, size_t keep) {
    request r = {.words = 0};
    redisReply *reply;
    add(&r, "XADD");
    SL_TRY(add_name(&r, store, log));
    add(&r, "MAXLEN");
    add(&r, "~");
    add_number(&r, 0, (int64_t)keep);
    add(&r, "*");
    add(&r, "b");
    add_bytes(&r, bytes, size);
    SL_TRY(ask(store, &r, store->patience, &reply));
    freeReplyObject(reply);
    return SL_OK;
}

static int is_text(const redisReply *reply) {
    return reply && reply->type == REDIS_REPLY_STRING;
}

/* [[name, [[id, ["b", bytes]], ...]]]; an entry that somebody else wrote may look otherwise and is passed
 * over. */
static sl_status take(sl_store *store, const redisReply *reply, sl_store_position *position, size_t *count) {
    const redisReply *all = item(item(reply, 0), 1);
    size_t entries = all && all->type == REDIS_REPLY_ARRAY ? (size_t)all->elements : 0;
    SL_TRY(sl_grow(&store->entry, &store->entries, entries, sizeof *store->entry));
    for (size_t i = 0; i < entries; i++) {
        const redisReply *id = item(all->element[i], 0), *bytes = item(item(all->element[i], 1), 1);
        if (!is_text(id) || (size_t)id->len >= sizeof position->id)
            return sl_error(SL_EPEER, "redis gave an entry without a position");
        memcpy(position->id, id->str, (size_t)id->len + 1);
        if (is_text(bytes))
            store->entry[(*count)++] = (sl_store_entry){.bytes = bytes->str, .size = (size_t)bytes->len};
    }
    return SL_OK;
}

sl_status sl_store_read(sl_store *store, const char *log, sl_store_position *position, size_t most,
                        sl_time wait, const sl_store_entry **entries, size_t *count) {
    request r = {.words = 0};
    redisReply *reply;
    *count = 0;
    *entries = store->entry;
    if (store->read)
        freeReplyObject(store->read);
    store->read = NULL;
    add(&r, "XREAD");
    add(&r, "COUNT");
    add_number(&r, 0, (int64_t)most);
    if (wait > 0) {
        add(&r, "BLOCK");
        add_number(&r, 1, in_ms(wait));
    }
    add(&r, "STREAMS");
    SL_TRY(add_name(&r, store, log));
    add(&r, position->id[0] ? position->id : "0-0");
    SL_TRY(ask(store, &r, store->patience + (wait > 0 ? wait : 0), &reply));
    store->read = reply;
    sl_status status = take(store, reply, position, count);
    *entries = store->entry;
    if (status != SL_OK)
        *count = 0;
    return status;
}
