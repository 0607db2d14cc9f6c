#include "notice/store/store.h"
#include "base/memory.h"
#include "base/random.h"
#include "notice/store/seal.h"
#include "notice/store/store_link.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 12 };

/* The last that was read of a sender in a log. */
typedef struct heard {
    char *log;
    uint64_t sender, counter;
} heard;

struct sl_store {
    sl_store_link link;
    sl_time patience;
    char *prefix; /* slackline:JOB: */
    redisReply *read;
    sl_store_entry *entry;
    size_t entries;
    char key[SL_STORE_KEY]; /* "": nothing is sealed */
    sl_seal seal;           /* of this store, the last */
    heard *heard;           /* [heards] */
    size_t heards, heard_room;
    uint32_t *slot; /* [slots] open addressing: 1 + index of heard; 0: empty */
    size_t slots, slot_room;
    sl_store_refused refused;
};

/* A request that is put together word by word. */
typedef struct store_request {
    const char *word[WORDS];
    size_t size[WORDS];
    int words;
    char *name; /* with its prefix */
    char number[3][24];
} store_request;

static void add_bytes(store_request *r, const void *bytes, size_t size) {
    r->word[r->words] = bytes;
    r->size[r->words++] = size;
}

static void add(store_request *r, const char *word) {
    add_bytes(r, word, strlen(word));
}

static void add_number(store_request *r, int slot, int64_t number) {
    snprintf(r->number[slot], sizeof r->number[slot], "%" PRId64, number);
    add(r, r->number[slot]);
}

static sl_status add_name(store_request *r, const sl_store *store, const char *name) {
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

/* Sends the request and frees it. */
static sl_status ask(sl_store *store, store_request *r, sl_time patience, redisReply **reply) {
    sl_status status = sl_store_link_ask(&store->link, r->words, r->word, r->size, patience, reply);
    sl_free(r->name);
    return status;
}

static sl_status strange(redisReply *reply) {
    freeReplyObject(reply);
    return sl_error(SL_EPEER, "redis gave an answer of an unexpected kind");
}

sl_status sl_store_open(const char *url, const char *job, sl_time patience, sl_store **result) {
    sl_store *store;
    SL_TRY(sl_alloc(&store, 1, sizeof *store));
    const size_t size = strlen(job) + sizeof "slackline::";
    sl_status status;
    SL_TRY_GOTO(err_close, status, sl_store_link_open(url, &store->link));
    SL_TRY_GOTO(err_close, status, sl_seal_begin(&store->seal));
    SL_TRY_GOTO(err_close, status, sl_alloc(&store->prefix, size, 1));
    snprintf(store->prefix, size, "slackline:%s:", job);
    store->patience = patience > 0 ? patience : SL_SECOND;
    *result = store;
    return SL_OK;
err_close:
    sl_store_close(store);
    return status;
}

void sl_store_close(sl_store *store) {
    if (!store)
        return;
    sl_store_link_close(&store->link);
    if (store->read)
        freeReplyObject(store->read);
    for (size_t i = 0; i < store->heards; i++)
        sl_free(store->heard[i].log);
    SL_FREE(store->heard, store->slot, store->entry, store->prefix, store);
}

/* ---- seals ---- */

sl_status sl_store_key_check(const char *key) {
    size_t length = 0;
    while (key[length] > ' ' && key[length] < 127)
        length++;
    if (key[length] || length < SL_STORE_KEY_MIN || length >= SL_STORE_KEY)
        return sl_error(SL_EINVAL, "a job's key must have %d to %d characters of ASCII without blanks",
                        SL_STORE_KEY_MIN, SL_STORE_KEY - 1);
    return SL_OK;
}

sl_status sl_store_seal(sl_store *store, const char *key) {
    SL_TRY(sl_store_key_check(key));
    snprintf(store->key, sizeof store->key, "%s", key);
    return SL_OK;
}

const sl_store_refused *sl_store_refused_by(const sl_store *store) {
    return &store->refused;
}

void sl_store_refuse(sl_store *store) {
    store->refused.odd++;
}

void sl_store_version_text(const sl_store *store, char *text, size_t size) {
    text[0] = 0;
    if (store->refused.others > 0)
        sl_seal_version_text(store->refused.version, store->refused.host, text, size);
}

/* Whether bytes with this seal (NULL: none) may be read under `name`. SL_ENOMEM. */
static sl_status believe(sl_store *store, const char *name, const void *bytes, size_t size,
                         const sl_seal *seal, int *is_good) {
    *is_good = !store->key[0];
    if (store->key[0] && seal)
        SL_TRY(sl_seal_check(seal, store->key, name, bytes, size, is_good));
    if (!*is_good) {
        store->refused.foreign++;
    } else if (seal && strcmp(seal->version, store->seal.version) != 0) {
        *is_good = 0;
        store->refused.others++;
        memcpy(store->refused.version, seal->version, sizeof seal->version);
        memcpy(store->refused.host, seal->host, sizeof seal->host);
    }
    return SL_OK;
}

/* The slot of a sender in a log, or the empty one where it belongs. A sender's name is random already. */
static uint32_t *heard_slot(const sl_store *store, const char *log, uint64_t sender) {
    uint64_t mixed = sl_random_mix(sender + strlen(log));
    for (size_t at = (size_t)mixed & (store->slots - 1);; at = (at + 1) & (store->slots - 1)) {
        const uint32_t which = store->slot[at];
        if (!which ||
            (store->heard[which - 1].sender == sender && strcmp(store->heard[which - 1].log, log) == 0))
            return &store->slot[at];
    }
}

static void enter_heard(sl_store *store) {
    memset(store->slot, 0, store->slots * sizeof *store->slot);
    for (size_t i = 0; i < store->heards; i++)
        *heard_slot(store, store->heard[i].log, store->heard[i].sender) = (uint32_t)i + 1;
}

/* Room for one more. SL_ENOMEM. */
static sl_status need_heard(sl_store *store) {
    SL_TRY(sl_grow(&store->heard, &store->heard_room, store->heards + 1, sizeof *store->heard));
    size_t slots = store->slots ? store->slots : 64;
    while (slots < 2 * (store->heards + 1))
        slots *= 2;
    if (slots == store->slots)
        return SL_OK;
    SL_TRY(sl_grow(&store->slot, &store->slot_room, slots, sizeof *store->slot));
    store->slots = slots;
    enter_heard(store);
    return SL_OK;
}

/* Whether an entry of a log is newer than the last of its sender. SL_ENOMEM. */
static sl_status is_new(sl_store *store, const char *log, const sl_seal *seal, int *is_good) {
    SL_TRY(need_heard(store));
    uint32_t *slot = heard_slot(store, log, seal->sender);
    if (!*slot) {
        heard *made = &store->heard[store->heards];
        *made = (heard){.sender = seal->sender};
        SL_TRY(sl_copy_text(&made->log, log));
        *slot = (uint32_t)++store->heards;
    }
    heard *h = &store->heard[*slot - 1];
    *is_good = seal->counter > h->counter;
    store->refused.repeated += !*is_good;
    h->counter = *is_good ? seal->counter : h->counter;
    return SL_OK;
}

/* Forgets the senders of a log, which is read from its beginning again. */
static void forget_heard(sl_store *store, const char *log) {
    for (size_t i = store->heards; i-- > 0;)
        if (strcmp(store->heard[i].log, log) == 0) {
            sl_free(store->heard[i].log);
            store->heard[i] = store->heard[--store->heards];
        }
    if (store->slots > 0)
        enter_heard(store);
}

static sl_status seal_next(sl_store *store, const char *name, const void *bytes, size_t size) {
    store->seal.counter++;
    if (!store->key[0]) /* the version is reported all the same */
        return SL_OK;
    return sl_seal_close(&store->seal, store->key, name, bytes, size);
}

/* ---- values ---- */

int sl_store_connected(const sl_store *store) {
    return store->link.answered;
}

/* SET, *won whether it was set. */
static sl_status set(sl_store *store, const char *key, const void *bytes, size_t size, sl_time lasts,
                     int only_new, int *won) {
    store_request r = {.words = 0};
    redisReply *reply;
    char *sealed;
    size_t seal_bytes = store->key[0] ? sizeof store->seal : 0;
    add(&r, "SET");
    SL_TRY(add_name(&r, store, key));
    sl_status status = sl_alloc(&sealed, size + seal_bytes + 1, 1);
    SL_THEN(status, seal_next(store, r.name, bytes, size));
    if (status != SL_OK) {
        SL_FREE(r.name, sealed);
        return status;
    }
    if (size > 0)
        memcpy(sealed, bytes, size);
    memcpy(sealed + size, &store->seal, seal_bytes);
    add_bytes(&r, sealed, size + seal_bytes);
    if (only_new)
        add(&r, "NX");
    if (lasts > 0) {
        add(&r, "PX");
        add_number(&r, 0, in_ms(lasts));
    }
    status = ask(store, &r, store->patience, &reply);
    sl_free(sealed);
    SL_TRY(status);
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
    int64_t before = store->refused.foreign;
    void *other;
    size_t other_size;
    *won = 0;
    SL_TRY(set(store, key, bytes, size, lasts, 1, won));
    if (*won || !store->key[0])
        return SL_OK;
    SL_TRY(sl_store_get(store, key, &other, &other_size));
    sl_free(other);
    if (store->refused.foreign == before)
        return SL_OK;
    SL_TRY(sl_store_remove(store, key));
    return set(store, key, bytes, size, lasts, 1, won);
}

/* The seal at the end of a value, if any; *size is without it. */
static const sl_seal *take_off(const char *bytes, size_t *size, sl_seal *seal) {
    if (*size < sizeof *seal || !sl_seal_is(bytes + *size - sizeof *seal, sizeof *seal))
        return NULL;
    *size -= sizeof *seal;
    memcpy(seal, bytes + *size, sizeof *seal);
    return seal;
}

static sl_status take_value(sl_store *store, const char *name, const redisReply *reply, void **bytes,
                            size_t *size) {
    sl_seal room;
    size_t length = (size_t)reply->len;
    int is_good;
    const sl_seal *seal = take_off(reply->str, &length, &room);
    SL_TRY(believe(store, name, reply->str, length, seal, &is_good));
    if (!is_good)
        return SL_OK;
    SL_TRY(sl_alloc(bytes, length + 1, 1));
    memcpy(*bytes, reply->str, length);
    *size = length;
    return SL_OK;
}

sl_status sl_store_get(sl_store *store, const char *key, void **bytes, size_t *size) {
    store_request r = {.words = 0};
    redisReply *reply;
    *bytes = NULL;
    *size = 0;
    add(&r, "GET");
    SL_TRY(add_name(&r, store, key));
    sl_status status = sl_store_link_ask(&store->link, r.words, r.word, r.size, store->patience, &reply);
    if (status == SL_OK && reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_NIL)
        status = strange(reply);
    else if (status == SL_OK) {
        if (reply->type == REDIS_REPLY_STRING)
            status = take_value(store, r.name, reply, bytes, size);
        freeReplyObject(reply);
    }
    sl_free(r.name);
    return status;
}

sl_status sl_store_remove(sl_store *store, const char *key) {
    store_request r = {.words = 0};
    redisReply *reply;
    add(&r, "DEL");
    SL_TRY(add_name(&r, store, key));
    SL_TRY(ask(store, &r, store->patience, &reply));
    freeReplyObject(reply);
    return SL_OK;
}

static const redisReply *item(const redisReply *reply, size_t index) {
    return reply && reply->type == REDIS_REPLY_ARRAY && index < (size_t)reply->elements
               ? reply->element[index]
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

/* Removes the keys in one answer to SCAN. */
static sl_status remove_all(sl_store *store, const redisReply *names, const char *kept) {
    for (size_t i = 0; item(names, i); i++) {
        redisReply *reply;
        if (is_named(store, item(names, i), kept))
            continue;
        const char *word[] = {"DEL", item(names, i)->str};
        const size_t size[] = {3, (size_t)item(names, i)->len};
        SL_TRY(sl_store_link_ask(&store->link, 2, word, size, store->patience, &reply));
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
        status = sl_store_link_ask(&store->link, 6, word, size, store->patience, &reply);
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
    store_request r = {.words = 0};
    redisReply *reply;
    add(&r, "XADD");
    SL_TRY(add_name(&r, store, log));
    add(&r, "MAXLEN");
    add(&r, "~");
    add_number(&r, 0, (int64_t)keep);
    add(&r, "*");
    add(&r, "b");
    add_bytes(&r, bytes, size);
    sl_status status = seal_next(store, r.name, bytes, size);
    if (status != SL_OK) {
        sl_free(r.name);
        return status;
    }
    add(&r, "s");
    add_bytes(&r, &store->seal, sizeof store->seal);
    SL_TRY(ask(store, &r, store->patience, &reply));
    freeReplyObject(reply);
    return SL_OK;
}

static int is_text(const redisReply *reply) {
    return reply && reply->type == REDIS_REPLY_STRING;
}

/* Whether an entry is for the caller. SL_ENOMEM. */
static sl_status take_entry(sl_store *store, const char *name, const redisReply *bytes,
                            const redisReply *sealed, int *is_good) {
    sl_seal seal;
    int has_seal = is_text(sealed) && sl_seal_is(sealed->str, (size_t)sealed->len);
    if (has_seal)
        memcpy(&seal, sealed->str, sizeof seal);
    SL_TRY(believe(store, name, bytes->str, (size_t)bytes->len, has_seal ? &seal : NULL, is_good));
    return *is_good && store->key[0] ? is_new(store, name, &seal, is_good) : SL_OK;
}

/* [[name, [[id, ["b", bytes, "s", seal]], ...]]]; a stranger's entry may differ and is skipped. */
static sl_status take(sl_store *store, const char *name, const redisReply *reply, sl_store_position *position,
                      size_t *count) {
    const redisReply *all = item(item(reply, 0), 1);
    size_t entries = all && all->type == REDIS_REPLY_ARRAY ? (size_t)all->elements : 0;
    SL_TRY(sl_grow(&store->entry, &store->entries, entries, sizeof *store->entry));
    for (size_t i = 0; i < entries; i++) {
        const redisReply *id = item(all->element[i], 0), *fields = item(all->element[i], 1);
        const redisReply *bytes = item(fields, 1);
        int is_good = 0;
        if (!is_text(id) || (size_t)id->len >= sizeof position->id)
            return sl_error(SL_EPEER, "redis gave an entry without a position");
        if (is_text(bytes))
            SL_TRY(take_entry(store, name, bytes, item(fields, 3), &is_good));
        memcpy(position->id, id->str, (size_t)id->len + 1);
        if (is_good)
            store->entry[(*count)++] = (sl_store_entry){.bytes = bytes->str, .size = (size_t)bytes->len};
    }
    return SL_OK;
}

sl_status sl_store_read(sl_store *store, const char *log, sl_store_position *position, size_t most,
                        sl_time wait, const sl_store_entry **entries, size_t *count) {
    store_request r = {.words = 0};
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
    if (!position->id[0])
        forget_heard(store, r.name);
    sl_status status = sl_store_link_ask(&store->link, r.words, r.word, r.size,
                                         store->patience + (wait > 0 ? wait : 0), &reply);
    if (status == SL_OK) {
        store->read = reply;
        status = take(store, r.name, reply, position, count);
    }
    sl_free(r.name);
    *entries = store->entry;
    if (status != SL_OK)
        *count = 0;
    return status;
}
