#include "notice/hang/nccl_ras.h"
#include "base/memory.h"
#include "notice/record/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 1 << 13 };
#define FOREVER 1e9 /* seconds: the answer has no times */

static const json_t *communicators_of(const json_t *json) {
    const json_t *list = json_object_get(json, "communicators");
    return json_is_array(list) ? list : NULL;
}

int sl_nccl_ras_is(const json_t *json) {
    return communicators_of(json) && json_object_get(json, "nccl_version");
}

static int64_t launched(const json_t *rank) {
    const char *name;
    json_t *count;
    int64_t sum = 0;
    json_object_foreach((json_t *)(uintptr_t)json_object_get(rank, "collective_counts"), name, count) sum +=
        json_integer_value(count);
    return sum;
}

/* The operation of which this rank has launched more than another: its last one, where the sums are equal. */
static const char *extra(const json_t *ranks, const json_t *rank) {
    const char *name;
    json_t *count, *other;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)json_object_get(rank, "collective_counts"), name, count) {
        json_array_foreach(ranks, i, other) {
            const json_t *theirs = json_object_get(json_object_get(other, "collective_counts"), name);
            if (json_integer_value(count) > json_integer_value(theirs))
                return name;
        }
    }
    return "operation";
}

static int differs(const json_t *communicator) {
    const json_t *ranks = json_object_get(communicator, "ranks");
    size_t i;
    json_t *rank;
    json_array_foreach(ranks, i, rank) if (!json_equal(json_object_get(rank, "collective_counts"),
                                                       json_object_get(json_array_get(ranks, 0),
                                                                       "collective_counts"))) return 1;
    return json_array_size(json_object_get(communicator, "missing_ranks")) > 0;
}

static const json_t *choose(const json_t *json) {
    const json_t *found = NULL;
    size_t i;
    json_t *one;
    json_array_foreach(communicators_of(json), i, one) {
        const int better = !found || differs(one) > differs(found) ||
                           (differs(one) == differs(found) &&
                            sl_json_count(one, "size", 0) > sl_json_count(found, "size", 0));
        found = better ? one : found;
    }
    return found;
}

static int64_t most_launched(const json_t *communicator) {
    const json_t *ranks = json_object_get(communicator, "ranks");
    int64_t most = 0;
    size_t i;
    json_t *one;
    json_array_foreach(ranks, i, one) most = launched(one) > most ? launched(one) : most;
    return most;
}

/* A rank that has launched more operations than another waits on its device until all have. */
static sl_status add_rank(const json_t *communicator, const json_t *one, int missing, sl_hang_job *job) {
    const sl_channel_key key = {strtoull(sl_json_text(communicator, "hash", "0"), NULL, 16), -1, -1, -1,
                                SL_CHANNEL_COLLECTIVE};
    const json_t *status = json_object_get(one, "status");
    sl_hang_rank r = {.rank = sl_json_count(one, "rank", 0),
                      .pid = (int)sl_json_int(one, "pid", -1),
                      .still_s = FOREVER,
                      .finished = json_is_true(json_object_get(status, "finalize_called"))};
    const uint64_t number = (uint64_t)launched(one);
    sl_status result;
    snprintf(r.host, sizeof r.host, "%s", sl_json_text(one, "host", ""));
    r.ended = json_is_true(json_object_get(status, "considered_dead"));
    SL_TRY_GOTO(err_free, result, sl_alloc(&r.thread, 1, sizeof *r.thread));
    SL_TRY_GOTO(err_free, result, sl_alloc(&r.channel, 1, sizeof *r.channel));
    SL_TRY_GOTO(err_free, result, sl_alloc(&r.collective, 1, sizeof *r.collective));
    r.threads = r.channels = 1;
    r.channel[0] = (sl_hang_channel){.key = key, .announced = number};
    sl_hang_thread *t = &r.thread[0];
    *t = (sl_hang_thread){.for_s = FOREVER, .state = '?', .peer = SL_PEER_NONE};
    SL_TRY_GOTO(err_free, result, sl_alloc(&t->wait, 1, sizeof *t->wait));
    const char *name = extra(json_object_get(communicator, "ranks"), one);
    snprintf(t->call, sizeof t->call, "%.*s", SL_HANG_CALL - 1, name);
    if (!missing)
        snprintf(t->doing, sizeof t->doing, "has launched %llu operations", (unsigned long long)number);
    if (!missing && number > 0 && (int64_t)number == most_launched(communicator)) {
        t->inside = SL_HANG_ON_DEVICE;
        t->wait[t->waits++] = (sl_hang_wait){key, number, 1};
        r.collective[r.collectives] =
            (sl_hang_collective){.communicator = key.communicator, .number = number, .root = -1};
        snprintf(r.collective[r.collectives++].call, SL_HANG_CALL, "%.*s", SL_HANG_CALL - 1, name);
    } else if (missing) {
        snprintf(t->doing, sizeof t->doing, "does not answer NCCL's RAS service");
    }
    return sl_hang_add(job, &r);
err_free:
    sl_hang_rank_free(&r);
    return result;
}

sl_status sl_nccl_ras_add(const char *name, const json_t *json, sl_hang_job *job) {
    const json_t *communicator = choose(json);
    size_t i;
    json_t *one;
    if (!communicator)
        return sl_error(SL_EINVAL, "%s: NCCL's RAS service knows no communicator", name);
    job->size = sl_json_count(communicator, "size", 0);
    if (job->size > MAX_RANKS)
        return sl_error(SL_EINVAL, "%s: a communicator of more than %d ranks", name, MAX_RANKS);
    json_array_foreach(json_object_get(communicator, "ranks"), i, one)
        SL_TRY(add_rank(communicator, one, 0, job));
    json_array_foreach(json_object_get(communicator, "missing_ranks"), i, one)
        SL_TRY(add_rank(communicator, one, 1, job));
    job->from_dumps = 1;
    return SL_OK;
}
