#include "notice/hang/hang.h"
#include "base/memory.h"
#include "notice/hang/look.h"
#include "notice/hang/recorders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_EVERY (SL_SECOND / 2)
#define LEAVE_EVERY SL_SECOND
#define LASTS (5 * SL_SECOND)     /* of what a node leaves */
#define ASK_AGAIN (5 * SL_SECOND) /* dumps may be written later */
enum { CONFIRMED = 2, KEY = 160 };

struct sl_hanging {
    sl_hanging_config config;
    sl_hang_look *look;
    sl_time next_look, next_leave;
    int left;                     /* something of this node is in the store */
    sl_hang_recorders *recorders; /* that are being asked; NULL: none */
    sl_time next_ask;             /* 0: not asked since the node stalled */
    sl_hang_job torch, ras;       /* what they said last */
    /* in charge */
    sl_hang_verdict last, reported; /* of the last look, and the one reported; SL_HANG_NOTHING: none */
    int looks;                      /* in a row that found `last` */
    sl_time since;                  /* of `reported`: when the job stalled */
};

sl_status sl_hanging_open(const sl_hanging_config *config, sl_hanging **hanging) {
    sl_hanging *h;
    *hanging = NULL;
    SL_TRY(sl_alloc(&h, 1, sizeof *h));
    h->config = *config;
    sl_status status = sl_hang_look_open(config->folder, config->node, &h->look);
    if (status == SL_OK)
        *hanging = h;
    else
        sl_free(h);
    return status;
}

void sl_hanging_close(sl_hanging *h) {
    if (!h)
        return;
    sl_hang_recorders_close(h->recorders);
    sl_hang_job_free(&h->torch);
    sl_hang_job_free(&h->ras);
    sl_hang_look_close(h->look);
    sl_free(h);
}

/* ---- this node ---- */

static void key_of(const char *node, char key[KEY]) {
    snprintf(key, KEY, "hang:%s", node);
}

/* Asks what PyTorch and NCCL record themselves, and takes their answers when they have come. */
static sl_status ask_recorders(sl_hanging *h, const sl_hang_job *job, sl_time now) {
    if (h->recorders && sl_hang_recorders_done(h->recorders)) {
        sl_hang_job torch, ras;
        sl_hang_recorders_take(h->recorders, &torch, &ras);
        sl_hang_job *const to[2] = {&h->torch, &h->ras}, *const from[2] = {&torch, &ras};
        for (int i = 0; i < 2; i++) {
            sl_hang_job_free(to[i]);
            *to[i] = *from[i];
        }
        sl_hang_recorders_close(h->recorders);
        h->recorders = NULL;
    }
    if (h->recorders || now < h->next_ask)
        return SL_OK;
    const int wake = h->next_ask == 0;
    h->next_ask = now + ASK_AGAIN;
    return sl_hang_recorders_start(job, wake, &h->recorders);
}

static void forget_recorders(sl_hanging *h) {
    if (h->recorders && !sl_hang_recorders_done(h->recorders))
        return;
    sl_hang_recorders_close(h->recorders);
    h->recorders = NULL;
    h->next_ask = 0;
    sl_hang_job_free(&h->torch);
    sl_hang_job_free(&h->ras);
}

/* `asking`: the first answers are still to come. */
static json_t *state_json(const sl_hanging *h, const sl_hang_job *job) {
    json_t *json = sl_hang_job_json(job);
    if (json && h->recorders && h->torch.ranks == 0 && h->ras.ranks == 0)
        json_object_set_new(json, "asking", json_true());
    if (json && h->torch.ranks > 0)
        json_object_set_new(json, "torch", sl_hang_job_json(&h->torch));
    if (json && h->ras.ranks > 0)
        json_object_set_new(json, "ras", sl_hang_job_json(&h->ras));
    return json;
}

static sl_status leave(sl_hanging *h, sl_time now) {
    sl_hang_job job = {0};
    char key[KEY], *text = NULL;
    sl_status status;
    SL_TRY_GOTO(done, status, sl_hang_look_ranks(h->look, now, 1, &job));
    SL_TRY_GOTO(done, status, ask_recorders(h, &job, now));
    json_t *json = state_json(h, &job);
    text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(json);
    key_of(h->config.node, key);
    if (text)
        h->left = sl_store_set(h->config.store, key, text, strlen(text), LASTS) == SL_OK || h->left;
    else
        status = sl_error(SL_ENOMEM, "out of memory for the state of ranks");
done:
    free(text);
    sl_hang_job_free(&job);
    return status;
}

static sl_status look_at_node(sl_hanging *h, sl_time now) {
    char key[KEY];
    const sl_time longest = sl_hang_look_step(h->look, now);
    if (longest >= h->config.after) {
        if (now < h->next_leave)
            return SL_OK;
        h->next_leave = now + LEAVE_EVERY;
        return leave(h, now);
    }
    forget_recorders(h);
    key_of(h->config.node, key);
    if (h->left && sl_store_remove(h->config.store, key) == SL_OK)
        h->left = 0;
    return SL_OK;
}

/* ---- the job ---- */

/* The job as its nodes left it. */
typedef struct whole_job {
    sl_hang_job ranks, torch, ras;
    sl_hang_verdict by_torch, by_ras;
    int asking;
} whole_job;

static void free_whole(whole_job *w) {
    sl_hang_job_free(&w->ranks);
    sl_hang_job_free(&w->torch);
    sl_hang_job_free(&w->ras);
}

static sl_status read_node(const json_t *json, whole_job *w) {
    const json_t *torch = json_object_get(json, "torch"), *ras = json_object_get(json, "ras");
    SL_TRY(sl_hang_job_read(json, &w->ranks));
    w->asking |= json_is_true(json_object_get(json, "asking"));
    w->torch.from_dumps = w->ras.from_dumps = 1;
    if (torch)
        SL_TRY(sl_hang_job_read(torch, &w->torch));
    return ras && w->ras.ranks == 0 ? sl_hang_job_read(ras, &w->ras) : SL_OK;
}

static sl_status add_node(sl_hanging *h, const char *node, whole_job *w) {
    char key[KEY];
    void *bytes = NULL;
    size_t size = 0;
    key_of(node, key);
    if (sl_store_get(h->config.store, key, &bytes, &size) != SL_OK || !bytes)
        return SL_OK;
    json_t *json = sl_json_object(bytes, size);
    sl_status status = json ? read_node(json, w) : SL_OK;
    if (!json || status == SL_EINVAL) {
        sl_store_refuse(h->config.store);
        status = SL_OK;
    }
    json_decref(json);
    sl_free(bytes);
    return status;
}

json_t *sl_hang_verdict_json(const sl_hang_verdict *v) {
    return json_pack("{s:s,s:b,s:i,s:f,s:s,s:s}", "cause", sl_hang_cause_name(v->cause), "certain",
                     v->certain, "rank", v->rank, "for_s", v->for_s, "seen", v->seen, "why", v->why);
}

/* A long text ends with its last whole word. */
static void cut_to(char *to, size_t size, const char *from) {
    size_t length = strlen(from);
    if (length < size) {
        memcpy(to, from, length + 1);
        return;
    }
    length = size - 5;
    while (length > 0 && from[length] != ' ')
        length--;
    memcpy(to, from, length);
    memcpy(to + length, " ...", 5);
}

static json_t *recorded_json(const sl_hang_job *job, const sl_hang_verdict *v) {
    json_t *json = sl_hang_job_json(job);
    if (json)
        json_object_set_new(json, "verdict", sl_hang_verdict_json(v));
    return json;
}

static void report(sl_hanging *h, const sl_hang_verdict *v, const whole_job *w, sl_time time) {
    sl_event event = sl_event_of(v->certain ? SL_EVENT_HANG : SL_EVENT_STALL, time, -1);
    json_t *state = recorded_json(&w->ranks, v);
    if (state && w->torch.ranks > 0)
        json_object_set_new(state, "torch", recorded_json(&w->torch, &w->by_torch));
    if (state && w->ras.ranks > 0)
        json_object_set_new(state, "ras", recorded_json(&w->ras, &w->by_ras));
    event.rank = v->rank;
    sl_event_fact(&event, "cause", json_string(sl_hang_cause_name(v->cause)));
    snprintf(event.seen, sizeof event.seen, "%s", v->seen);
    snprintf(event.decided, sizeof event.decided, "%s: %s",
             v->certain ? "the job hangs" : "the job stalls and might continue",
             sl_hang_cause_name(v->cause));
    cut_to(event.why, sizeof event.why, v->why);
    h->config.report(h->config.context, &event, state);
    json_decref(state);
    h->reported = *v;
}

static void report_moving(sl_hanging *h, sl_time now, sl_time began) {
    sl_event event = sl_event_of(SL_EVENT_MOVES, now - began, -1);
    event.rank = h->reported.rank;
    snprintf(event.seen, sizeof event.seen, "the job continues after %.0f s", (double)(now - h->since) / 1e9);
    snprintf(event.decided, sizeof event.decided, "no hang: %s", sl_hang_cause_name(h->reported.cause));
    h->config.report(h->config.context, &event, NULL);
    h->reported = (sl_hang_verdict){0};
}

void sl_hanging_finish(sl_hanging *h, sl_time now, sl_time began) {
    if (h->reported.cause != SL_HANG_NOTHING)
        report_moving(h, now, began);
}

static int same(const sl_hang_verdict *a, const sl_hang_verdict *b) {
    return a->cause == b->cause && a->certain == b->certain && a->rank == b->rank;
}

static void conclude(sl_hanging *h, const sl_hang_verdict *v, const whole_job *w, sl_time now,
                     sl_time began) {
    h->looks = same(v, &h->last) ? h->looks + 1 : 1;
    h->last = *v;
    if (h->looks < CONFIRMED || same(v, &h->reported))
        return;
    if (v->cause == SL_HANG_NOTHING) {
        /* ended or killed ranks do not move: sl_hanging_finish knows which */
        if (h->reported.cause != SL_HANG_NOTHING && sl_hang_look_lives(h->look))
            report_moving(h, now, began);
        return;
    }
    if (h->reported.cause == SL_HANG_NOTHING)
        h->since = now - (sl_time)(v->for_s * 1e9);
    report(h, v, w, now - began);
}

static sl_status look_at_job(sl_hanging *h, sl_time now, sl_time began, const char *const *nodes,
                             size_t count) {
    const double least_s = (double)h->config.after / 1e9;
    whole_job w = {0};
    sl_hang_verdict verdict = {.rank = -1};
    sl_status status = SL_OK;
    for (size_t i = 0; i < count && status == SL_OK; i++)
        status = add_node(h, nodes[i], &w);
    if (w.ranks.ranks > 0) {
        SL_THEN(status, sl_hang_diagnose(&w.ranks, least_s, &verdict));
        SL_THEN(status, sl_hang_recorders_join(&w.ranks, least_s, &w.torch, "PyTorch's flight recorder",
                                               &verdict, &w.by_torch));
        SL_THEN(status,
                sl_hang_recorders_join(&w.ranks, least_s, &w.ras, "NCCL's RAS service", &verdict, &w.by_ras));
    }
    if (status == SL_OK && !w.asking)
        conclude(h, &verdict, &w, now, began);
    free_whole(&w);
    return status;
}

sl_status sl_hanging_step(sl_hanging *h, sl_time now, sl_time began, const char *const *nodes, size_t count) {
    if (now < h->next_look)
        return SL_OK;
    h->next_look = now + LOOK_EVERY;
    SL_TRY(look_at_node(h, now));
    return count > 0 ? look_at_job(h, now, began, nodes, count) : SL_OK;
}
