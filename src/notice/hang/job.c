#include "notice/hang/job.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ITEMS = 1 << 16, MAX_RANK = 1 << 20 };

void sl_hang_rank_free(sl_hang_rank *rank) {
    for (size_t i = 0; i < rank->threads; i++)
        sl_free(rank->thread[i].wait);
    SL_FREE(rank->thread, rank->channel, rank->collective);
    *rank = (sl_hang_rank){0};
}

void sl_hang_job_free(sl_hang_job *job) {
    for (size_t i = 0; i < job->ranks; i++)
        sl_hang_rank_free(&job->rank[i]);
    sl_free(job->rank);
    *job = (sl_hang_job){0};
}

const sl_hang_rank *sl_hang_find(const sl_hang_job *job, int rank) {
    for (size_t i = 0; i < job->ranks; i++)
        if (job->rank[i].rank == rank)
            return &job->rank[i];
    return NULL;
}

const sl_hang_channel *sl_hang_channel_of(const sl_hang_rank *rank, const sl_channel_key *key) {
    for (size_t i = 0; i < rank->channels; i++)
        if (sl_channel_key_same(&rank->channel[i].key, key))
            return &rank->channel[i];
    return NULL;
}

const sl_hang_collective *sl_hang_collective_of(const sl_hang_rank *rank, uint64_t communicator,
                                                uint64_t number) {
    for (size_t i = 0; i < rank->collectives; i++)
        if (rank->collective[i].communicator == communicator && rank->collective[i].number == number)
            return &rank->collective[i];
    return NULL;
}

sl_status sl_hang_add(sl_hang_job *job, sl_hang_rank *rank) {
    size_t at = 0;
    while (at < job->ranks && job->rank[at].rank < rank->rank)
        at++;
    if (at < job->ranks && job->rank[at].rank == rank->rank) {
        if (rank->ended && !job->rank[at].ended) {
            sl_hang_rank_free(rank);
            return SL_OK;
        }
        sl_hang_rank_free(&job->rank[at]);
        job->rank[at] = *rank;
        return SL_OK;
    }
    size_t capacity = job->ranks;
    sl_status status = sl_grow(&job->rank, &capacity, job->ranks + 1, sizeof *job->rank);
    if (status != SL_OK) {
        sl_hang_rank_free(rank);
        return status;
    }
    memmove(&job->rank[at + 1], &job->rank[at], (job->ranks - at) * sizeof *job->rank);
    job->rank[at] = *rank;
    job->ranks++;
    if (rank->rank >= job->size)
        job->size = rank->rank + 1;
    return SL_OK;
}

/* ---- JSON: numbers of 64 bits are hexadecimal texts where they may exceed a double's ---- */

static json_t *word(uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIx64, value);
    return json_string(text);
}

static uint64_t word_of(const json_t *value) {
    const char *text = json_string_value(value);
    return text ? strtoull(text, NULL, 16) : 0;
}

static json_t *key_json(const sl_channel_key *key) {
    return json_pack("[o,i,i,i,i]", word(key->communicator), key->source, key->destination, key->tag,
                     (int)key->kind);
}

static int int_at(const json_t *list, size_t at) {
    return (int)json_integer_value(json_array_get(list, at));
}

static sl_channel_key key_of(const json_t *list) {
    return (sl_channel_key){word_of(json_array_get(list, 0)), int_at(list, 1), int_at(list, 2),
                            int_at(list, 3), (uint32_t)int_at(list, 4)};
}

static json_t *text_json(const char *text) {
    json_t *json = json_string(text);
    return json ? json : json_string("?"); /* not UTF-8 */
}

static json_t *thread_json(const sl_hang_thread *t) {
    json_t *waits = json_array();
    for (size_t i = 0; i < t->waits; i++)
        json_array_append_new(waits, json_pack("[o,I,i]", key_json(&t->wait[i].channel),
                                               (json_int_t)t->wait[i].number, t->wait[i].need));
    const char state[2] = {t->state, 0};
    return json_pack("{s:i,s:s,s:i,s:f,s:s,s:o,s:o,s:o}", "inside", t->inside, "call", t->call, "peer",
                     t->peer, "for_s", t->for_s, "state", state, "doing", text_json(t->doing), "frames",
                     text_json(t->frames), "waits", waits);
}

json_t *sl_hang_rank_json(const sl_hang_rank *r) {
    json_t *threads = json_array(), *channels = json_array(), *collectives = json_array();
    for (size_t i = 0; i < r->threads; i++)
        json_array_append_new(threads, thread_json(&r->thread[i]));
    for (size_t i = 0; i < r->channels; i++)
        json_array_append_new(channels, json_pack("[o,I,I]", key_json(&r->channel[i].key),
                                                  (json_int_t)r->channel[i].announced,
                                                  (json_int_t)r->channel[i].matched));
    for (size_t i = 0; i < r->collectives; i++) {
        const sl_hang_collective *c = &r->collective[i];
        json_array_append_new(collectives, json_pack("[o,I,s,i,i,I,o]", word(c->communicator),
                                                     (json_int_t)c->number, c->call, c->root, c->sized,
                                                     (json_int_t)c->bytes, text_json(c->shape)));
    }
    return json_pack("{s:i,s:i,s:s,s:b,s:b,s:f,s:o,s:o,s:o}", "rank", r->rank, "pid", r->pid, "host", r->host,
                     "ended", r->ended, "finished", r->finished, "still_s", r->still_s, "threads", threads,
                     "channels", channels, "collectives", collectives);
}

static void copy(char *to, size_t size, const char *from) {
    snprintf(to, size, "%s", from);
}

static sl_status read_thread(const json_t *json, sl_hang_thread *t) {
    const json_t *waits = json_object_get(json, "waits");
    t->inside = sl_json_count(json, "inside", 0);
    copy(t->call, sizeof t->call, sl_json_text(json, "call", ""));
    t->peer = (int)sl_json_int(json, "peer", -1);
    t->for_s = json_number_value(json_object_get(json, "for_s"));
    t->state = sl_json_text(json, "state", "?")[0];
    copy(t->doing, sizeof t->doing, sl_json_text(json, "doing", ""));
    copy(t->frames, sizeof t->frames, sl_json_text(json, "frames", ""));
    if (json_array_size(waits) > SL_GATE_ENTRIES)
        return sl_error(SL_EINVAL, "a thread waits for more than %d calls", SL_GATE_ENTRIES);
    SL_TRY(sl_alloc(&t->wait, json_array_size(waits) + 1, sizeof *t->wait));
    for (; t->waits < json_array_size(waits); t->waits++) {
        const json_t *one = json_array_get(waits, t->waits);
        t->wait[t->waits] =
            (sl_hang_wait){key_of(json_array_get(one, 0)),
                           (uint64_t)json_integer_value(json_array_get(one, 1)), int_at(one, 2)};
    }
    return SL_OK;
}

static void read_channel(const json_t *one, sl_hang_channel *c) {
    *c = (sl_hang_channel){key_of(json_array_get(one, 0)),
                           (uint64_t)json_integer_value(json_array_get(one, 1)),
                           (uint64_t)json_integer_value(json_array_get(one, 2))};
}

static const char *string_at(const json_t *list, size_t at) {
    const char *text = json_string_value(json_array_get(list, at));
    return text ? text : "";
}

static void read_collective(const json_t *one, sl_hang_collective *c) {
    *c = (sl_hang_collective){.communicator = word_of(json_array_get(one, 0)),
                              .number = (uint64_t)json_integer_value(json_array_get(one, 1)),
                              .root = int_at(one, 3),
                              .sized = int_at(one, 4),
                              .bytes = (uint64_t)json_integer_value(json_array_get(one, 5))};
    copy(c->call, sizeof c->call, string_at(one, 2));
    copy(c->shape, sizeof c->shape, string_at(one, 6));
}

static sl_status read_lists(const json_t *json, sl_hang_rank *r) {
    const json_t *threads = json_object_get(json, "threads"), *channels = json_object_get(json, "channels"),
                 *collectives = json_object_get(json, "collectives");
    if (json_array_size(threads) > MAX_ITEMS || json_array_size(channels) > MAX_ITEMS ||
        json_array_size(collectives) > MAX_ITEMS)
        return sl_error(SL_EINVAL, "rank %d has more than %d threads, channels or collectives", r->rank,
                        MAX_ITEMS);
    SL_TRY(sl_alloc(&r->thread, json_array_size(threads) + 1, sizeof *r->thread));
    while (r->threads < json_array_size(threads)) {
        r->threads++;
        SL_TRY(read_thread(json_array_get(threads, r->threads - 1), &r->thread[r->threads - 1]));
    }
    SL_TRY(sl_alloc(&r->channel, json_array_size(channels) + 1, sizeof *r->channel));
    for (; r->channels < json_array_size(channels); r->channels++)
        read_channel(json_array_get(channels, r->channels), &r->channel[r->channels]);
    SL_TRY(sl_alloc(&r->collective, json_array_size(collectives) + 1, sizeof *r->collective));
    for (; r->collectives < json_array_size(collectives); r->collectives++)
        read_collective(json_array_get(collectives, r->collectives), &r->collective[r->collectives]);
    return SL_OK;
}

sl_status sl_hang_rank_read(const json_t *json, sl_hang_rank *rank) {
    *rank = (sl_hang_rank){0};
    if (!sl_json_within(json, "rank", 0, MAX_RANK))
        return sl_error(SL_EINVAL, "not the state of a rank: no 'rank' from 0 to %d", MAX_RANK);
    rank->rank = (int)sl_json_int(json, "rank", 0);
    rank->pid = (int)sl_json_int(json, "pid", -1);
    copy(rank->host, sizeof rank->host, sl_json_text(json, "host", ""));
    rank->ended = json_is_true(json_object_get(json, "ended"));
    rank->finished = json_is_true(json_object_get(json, "finished"));
    rank->still_s = json_number_value(json_object_get(json, "still_s"));
    sl_status status = read_lists(json, rank);
    if (status != SL_OK)
        sl_hang_rank_free(rank);
    return status;
}

json_t *sl_hang_job_json(const sl_hang_job *job) {
    json_t *ranks = json_array();
    for (size_t i = 0; i < job->ranks; i++)
        json_array_append_new(ranks, sl_hang_rank_json(&job->rank[i]));
    return json_pack("{s:i,s:o}", "size", job->size, "ranks", ranks);
}

sl_status sl_hang_job_read(const json_t *json, sl_hang_job *job) {
    const json_t *ranks = json_object_get(json, "ranks");
    if (!json_is_array(ranks))
        return sl_error(SL_EINVAL, "not the state of a job: no list 'ranks'");
    for (size_t i = 0; i < json_array_size(ranks); i++) {
        sl_hang_rank rank;
        SL_TRY(sl_hang_rank_read(json_array_get(ranks, i), &rank));
        SL_TRY(sl_hang_add(job, &rank));
    }
    if (sl_json_within(json, "size", 0, MAX_RANK) && sl_json_int(json, "size", 0) > job->size)
        job->size = (int)sl_json_int(json, "size", 0);
    return SL_OK;
}
