/* Ranks of a job that stands, written by hand, and what the diagnosis says of them. */
#pragma once

#include "check.h"

#include "base/memory.h"
#include "notice/hang/diagnosis.h"

#include <stdio.h>
#include <string.h>

#define WORLD 0x10

static inline sl_hang_rank blank(int rank) {
    sl_hang_rank r = {.rank = rank, .pid = 100 + rank, .still_s = 30};
    assert_int_equal(sl_alloc(&r.thread, 2, sizeof *r.thread), SL_OK);
    assert_int_equal(sl_alloc(&r.channel, 16, sizeof *r.channel), SL_OK);
    assert_int_equal(sl_alloc(&r.collective, 16, sizeof *r.collective), SL_OK);
    return r;
}

static inline sl_channel_key collective(uint64_t communicator) {
    return (sl_channel_key){communicator, -1, -1, -1, SL_CHANNEL_COLLECTIVE};
}

static inline sl_channel_key message(int from, int to, int tag) {
    return (sl_channel_key){WORLD, from, to, tag, SL_CHANNEL_POINT};
}

static inline void counts(sl_hang_rank *r, sl_channel_key key, uint64_t announced) {
    r->channel[r->channels++] = (sl_hang_channel){key, announced, 0};
}

/* Inside a call that waits for call `number` of a channel. */
static inline void waits(sl_hang_rank *r, const char *call, sl_channel_key key, uint64_t number) {
    sl_hang_thread *t = &r->thread[r->threads++];
    *t = (sl_hang_thread){.inside = 1, .for_s = 30, .state = 'R', .waits = 1};
    snprintf(t->call, sizeof t->call, "%s", call);
    assert_int_equal(sl_alloc(&t->wait, 1, sizeof *t->wait), SL_OK);
    t->wait[0] = (sl_hang_wait){key, number, 0};
}

static inline void computes(sl_hang_rank *r) {
    sl_hang_thread *t = &r->thread[r->threads++];
    *t = (sl_hang_thread){
        .for_s = 30, .state = 'R', .call = "MPI_Send", .doing = "computes", .frames = "spin < main"};
}

static inline sl_hang_verdict diagnosed(sl_hang_rank *ranks, int count) {
    sl_hang_job job = {.size = count};
    sl_hang_verdict v, again;
    for (int i = 0; i < count; i++)
        assert_int_equal(sl_hang_add(&job, &ranks[i]), SL_OK);
    assert_int_equal(sl_hang_diagnose(&job, 20, &v), SL_OK);
    json_t *json = sl_hang_job_json(&job);
    sl_hang_job copy = {0};
    assert_int_equal(sl_hang_job_read(json, &copy), SL_OK); /* the same, after a way across nodes */
    assert_int_equal(sl_hang_diagnose(&copy, 20, &again), SL_OK);
    assert_string_equal(v.seen, again.seen);
    assert_string_equal(v.why, again.why);
    assert_int_equal(v.cause, again.cause);
    json_decref(json);
    sl_hang_job_free(&copy);
    sl_hang_job_free(&job);
    return v;
}
