#include "dashboard/cluster.h"
#include "base/clock.h"
#include "base/memory.h"
#include "dashboard/dashboard_watch.h"
#include "notice/control/standing.h"
#include "notice/message/messages.h"
#include "notice/store/address.h"
#include "notice/watch/published.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE SL_SECOND
#define MAX_NUMBER (INT64_C(1) << 50) /* of an iteration */
#define LOOK_EVERY (SL_SECOND)        /* for jobs */
enum { MAX = 512, RANK_LIMIT = SL_MAX_WATCHED_RANKS };

struct sl_watched_cluster {
    char *url, *wanted; /* wanted: the job's name; NULL: any */
    char shown[400];    /* the server */
    char job[256];      /* being followed; "": none yet */
    sl_store *store;
    sl_store_position at_nodes, at_iterations, at_events, at_profiles;
    sl_nodes nodes;
    sl_standing standing;  /* where the ranks are */
    sl_time look;          /* the next look for jobs */
    int reference;         /* the rank whose iterations are drawn; -1 */
    int64_t number, added; /* its last block; offset for numbers that started over */
    int ended, beats;      /* the job's end was reported; heartbeats since the last look */
    int moved;             /* nodes or their processes have changed */
    int others;            /* further jobs on the server */
    sl_board *board;
    pthread_mutex_t *lock;
};

sl_status sl_cluster_name(const char *url, char *text, size_t size) {
    sl_store_address address;
    SL_TRY(sl_store_address_read(url, &address));
    sl_store_address_show(&address, text, size);
    return SL_OK;
}

sl_status sl_cluster_open(const char *url, const char *job, sl_watched_cluster **result) {
    sl_watched_cluster *c;
    sl_store *store = NULL;
    SL_TRY(sl_store_open(url, job ? job : "", 0, &store)); /* rejects what this build cannot connect to */
    sl_store_close(store);
    SL_TRY(sl_alloc(&c, 1, sizeof *c));
    c->reference = -1;
    sl_status status = sl_copy_text(&c->url, url);
    if (status == SL_OK && job)
        status = sl_copy_text(&c->wanted, job);
    SL_THEN(status, sl_cluster_name(url, c->shown, sizeof c->shown));
    if (status != SL_OK) {
        sl_cluster_close(c);
        return status;
    }
    *result = c;
    return SL_OK;
}

void sl_cluster_close(sl_watched_cluster *c) {
    if (!c)
        return;
    sl_store_close(c->store);
    sl_standing_close(&c->standing);
    sl_nodes_close(&c->nodes);
    SL_FREE(c->url, c->wanted, c);
}

/* ---- choice of a job ---- */

static sl_status forget(sl_watched_cluster *c) {
    sl_board *b = c->board;
    char source[700];
    snprintf(source, sizeof source, "%s, job %s", c->shown, c->job);
    pthread_mutex_lock(c->lock);
    sl_board_forget_iterations(b);
    sl_board_forget_events(b);
    sl_board_forget_lines(b);
    b->program[0] = b->unread[0] = 0;
    b->damaged = 0;
    sl_free(b->source);
    b->source = NULL;
    sl_status status = sl_copy_text(&b->source, source);
    pthread_mutex_unlock(c->lock);
    c->reference = -1;
    c->number = c->added = 0;
    sl_standing_close(&c->standing);
    sl_nodes_close(&c->nodes);
    c->ended = 0;
    return status;
}

static sl_status follow(sl_watched_cluster *c, const char *job) {
    sl_store *store;
    SL_TRY(sl_store_open(c->url, job, PATIENCE, &store));
    sl_store_close(c->store);
    c->store = store;
    snprintf(c->job, sizeof c->job, "%s", job);
    c->at_nodes = c->at_iterations = c->at_events = c->at_profiles = (sl_store_position){""};
    return forget(c);
}

/* Looks for a job if none is followed, or the followed one has ended. */
static sl_status choose(sl_watched_cluster *c, sl_time now) {
    char **job;
    size_t count;
    if (now < c->look)
        return SL_OK;
    c->look = now + LOOK_EVERY;
    sl_status status = sl_store_jobs(c->url, "node:", PATIENCE, &job, &count);
    if (status != SL_OK)
        return status;
    for (size_t i = 0; i < count && status == SL_OK; i++)
        if ((!c->wanted || strcmp(job[i], c->wanted) == 0) && strcmp(job[i], c->job) != 0) {
            status = follow(c, job[i]);
            break;
        }
    c->others = count > 1 ? (int)count - 1 : 0;
    for (size_t i = 0; i < count; i++)
        sl_free(job[i]);
    sl_free(job);
    return status;
}

/* ---- heartbeats ---- */

static sl_status take_beat(sl_watched_cluster *c, const sl_store_entry *entry) {
    sl_job_node *node;
    int change;
    json_t *beat = json_loadb(entry->bytes, entry->size, 0, NULL);
    sl_status status = sl_nodes_hear(&c->nodes, beat, sl_now(), &node, &change);
    c->board->damaged += !node;
    c->beats += node != NULL;
    c->moved |= change != 0;
    json_decref(beat);
    return status;
}

/* Positions of the ranks, after changes of the nodes. Those of an ended job are not marked as gone. */
static sl_status show_ranks(sl_watched_cluster *c, sl_time now) {
    sl_board *b = c->board;
    const size_t known = b->hosts;
    while (sl_nodes_expired(&c->nodes, now))
        c->moved = 1;
    if (!c->moved)
        return SL_OK;
    SL_TRY(sl_standing_positions(&c->standing, &c->nodes));
    SL_TRY(sl_board_need_ranks(b, c->standing.ranks));
    for (size_t i = 0; i < c->standing.ranks && i < b->ranks; i++) {
        const sl_standing_rank *s = &c->standing.rank[i];
        sl_board_rank *r = &b->rank[i];
        int host = r->host;
        const int gone = s->gone && !c->ended;
        if (s->node >= 0)
            SL_TRY(sl_board_name(&b->host, &b->hosts, &b->host_room, c->nodes.node[s->node].name, &host));
        r->changed |= r->gone != gone || r->host != host || r->pid != s->pid;
        r->gone = gone;
        r->host = host;
        r->pid = s->pid;
    }
    b->renewed |= b->hosts != known;
    c->moved = 0;
    return SL_OK;
}

/* ---- iterations ---- */

static sl_status take_block(sl_watched_cluster *c, const sl_message_block *block) {
    sl_board *b = c->board;
    if (block->rank < 0 || block->rank >= RANK_LIMIT || block->count < 1 || block->time < 0 ||
        block->number < 0 || block->number > MAX_NUMBER)
        return SL_OK;
    double ms = (double)block->time / 1e6 / (double)block->count;
    SL_TRY(sl_board_need_ranks(b, (size_t)block->rank + 1));
    sl_board_rank_time(b, (size_t)block->rank, ms);
    if (c->reference < 0 || block->rank < c->reference) {
        c->reference = block->rank;
        c->number = -1;
        c->added = b->rows ? b->row[b->rows - 1].iteration + 1 - block->number : 0;
    }
    if (block->rank != c->reference)
        return SL_OK;
    if (block->number <= c->number) /* the period has changed: numbers start over */
        c->added += c->number + 1;
    if (c->added > MAX_NUMBER || c->added < -MAX_NUMBER) { /* after implausible numbers */
        c->added = 0;
        sl_board_forget_iterations(b);
    }
    c->number = block->number + block->count - 1;
    sl_board_row row = {.iteration = c->number + c->added,
                        .time = (float)ms,
                        .predicted = NAN,
                        .loss = NAN,
                        .schedule = -1,
                        .phase = -1};
    return sl_board_add_row(b, &row);
}

static sl_status take_blocks(sl_watched_cluster *c, const sl_store_entry *entry) {
    const void *body;
    const sl_message_head *head = sl_message_read(entry, SL_MESSAGE_ITERATIONS, &body);
    c->board->damaged += !head;
    for (uint32_t i = 0; head && i < head->count; i++) {
        sl_message_block block = ((const sl_message_block *)body)[i];
        SL_TRY(take_block(c, &block));
    }
    return SL_OK;
}

/* ---- links: traffic between ranks in the last profile ---- */

/* Reports a rank's links once its part of a profile is complete. */
static sl_status take_profile(sl_watched_cluster *c, const sl_message_head *head, const sl_call *calls) {
    sl_traffic *t = &c->standing.traffic;
    const uint64_t seen = t->number;
    SL_TRY(sl_traffic_take(t, head, calls, !c->board->slow));
    for (size_t i = 0; i < t->links && t->number > seen; i++) {
        const sl_traffic_link *l = &t->link[i];
        const double ms = l->timed > 0 ? l->busy_ms / (double)l->timed : NAN;
        if (l->number > seen)
            SL_TRY(sl_board_traffic(c->board, l->from, l->to, i, l->messages, l->bytes, ms, NAN));
    }
    return SL_OK;
}

static sl_status take_calls(sl_watched_cluster *c, const sl_store_entry *entry) {
    const void *body;
    const sl_message_head *head = sl_message_read(entry, SL_MESSAGE_CALLS, &body);
    c->board->damaged += !head;
    return head ? take_profile(c, head, body) : SL_OK;
}

/* ---- reports of the watch in charge ---- */

static sl_status take_event(sl_watched_cluster *c, const sl_store_entry *entry) {
    sl_row_event row;
    sl_status status = sl_row_event_read(entry->bytes, entry->size, &row);
    c->board->damaged += status == SL_EINVAL;
    status = status == SL_OK ? sl_board_event(c->board, &row) : SL_OK;
    json_decref(row.object);
    return status;
}

/* New entries of a log, at most `most` of them; *more: more are available at once. */
static sl_status read_log(sl_watched_cluster *c, const char *log, sl_store_position *at, size_t most,
                          sl_status (*take)(sl_watched_cluster *c, const sl_store_entry *entry), int *more) {
    const sl_store_entry *entry;
    size_t count;
    SL_TRY(sl_store_read(c->store, log, at, most, 0, &entry, &count));
    *more |= count == most;
    sl_status status = SL_OK;
    pthread_mutex_lock(c->lock);
    for (size_t i = 0; i < count && status == SL_OK; i++)
        status = take(c, &entry[i]);
    pthread_mutex_unlock(c->lock);
    return status;
}

/* *is_there: a value exists, which may not be JSON. */
static sl_status read_object(sl_watched_cluster *c, const char *key, json_t **object, int *is_there) {
    void *bytes;
    size_t size;
    *object = NULL;
    SL_TRY(sl_store_get(c->store, key, &bytes, &size));
    *is_there = bytes != NULL;
    if (bytes)
        *object = json_loadb(bytes, size, 0, NULL);
    sl_free(bytes);
    return SL_OK;
}

static sl_status read_end(sl_watched_cluster *c, int *exit_code, int *is_over) {
    json_t *status, *end;
    int is_there;
    SL_TRY(read_object(c, SL_PUBLISHED_STATUS, &status, &is_there));
    sl_status done = SL_OK;
    pthread_mutex_lock(c->lock);
    snprintf(c->board->unread, sizeof c->board->unread, "%s",
             is_there && !json_is_object(status) ? "the status of the watch in charge" : "");
    if (json_is_object(status))
        done = sl_watched_status(c->board, status);
    pthread_mutex_unlock(c->lock);
    json_decref(status);
    SL_TRY(done);
    SL_TRY(read_object(c, SL_PUBLISHED_END, &end, &is_there));
    *is_over = end != NULL;
    *exit_code = sl_json_count(end, "exit_code", -1);
    json_decref(end);
    return SL_OK;
}

/* ---- state ---- */

static void set_state(sl_watched_cluster *c, int is_over, int exit_code, int alive) {
    sl_board *b = c->board;
    char version[300];
    sl_store_version_text(c->store, version, sizeof version);
    if (is_over) {
        c->ended = 1;
        sl_watched_ended(b);
    }
    if (c->ended && is_over && exit_code >= 0)
        sl_board_set_state(b, exit_code == 0 ? SL_BOARD_ENDED : SL_BOARD_FAILED,
                           "the watched program ended with exit code %d", exit_code);
    else if (c->ended && is_over)
        sl_board_set_state(b, SL_BOARD_ENDED, "the watched program has ended");
    else if (c->ended)
        return;
    else if (alive == 0 && version[0])
        sl_board_set_state(b, SL_BOARD_SILENT, "%s", version);
    else if (alive == 0)
        sl_board_set_state(b, SL_BOARD_SILENT, "no agent of the job reports; this is the last known state");
    else if (b->rows == 0 && b->iteration < 0)
        sl_board_set_state(b, SL_BOARD_STARTING, "%d node%s; no iteration is known yet", alive,
                           alive == 1 ? "" : "s");
    else if (c->others > 0)
        sl_board_set_state(b, SL_BOARD_RUNNING, "other jobs on this server: %d; --job NAME shows one",
                           c->others);
    else
        sl_board_set_state(b, SL_BOARD_RUNNING, "%s", "");
}

static sl_status read_all(sl_watched_cluster *c, int *more) {
    int exit_code = -1, is_over = 0;
    sl_time now = sl_now();
    c->beats = 0;
    SL_TRY(read_end(c, &exit_code, &is_over)); /* the end is written after everything else */
    SL_TRY(read_log(c, SL_LOG_NODES, &c->at_nodes, MAX, take_beat, more));
    if (c->ended && c->beats > 0 && !is_over) /* a new job of the same name */
        SL_TRY(forget(c));
    SL_TRY(read_log(c, SL_LOG_ITERATIONS, &c->at_iterations, MAX, take_blocks, more));
    SL_TRY(read_log(c, SL_PUBLISHED_EVENTS, &c->at_events, MAX, take_event, more));
    SL_TRY(read_log(c, SL_LOG_PROFILES, &c->at_profiles, 32, take_calls, more));
    pthread_mutex_lock(c->lock);
    c->board->connected = 1;
    sl_status status = show_ranks(c, now);
    set_state(c, is_over, exit_code, sl_nodes_alive(&c->nodes));
    pthread_mutex_unlock(c->lock);
    return status;
}

static void say_silent(sl_watched_cluster *c) {
    char why[300];
    snprintf(why, sizeof why, "%s", sl_error_text());
    pthread_mutex_lock(c->lock);
    c->board->connected = 0;
    if (c->ended)
        ;
    else if (c->job[0])
        sl_board_set_state(
            c->board, SL_BOARD_SILENT,
            "the server does not answer (one that a watch has started itself ends with it): %s", why);
    else
        sl_board_set_state(c->board, SL_BOARD_WAITING, "the server does not answer yet: %s", why);
    pthread_mutex_unlock(c->lock);
}

sl_status sl_cluster_step(sl_watched_cluster *c, sl_board *board, pthread_mutex_t *lock, int *more) {
    c->board = board;
    c->lock = lock;
    *more = 0;
    sl_status status = SL_OK;
    if (!c->job[0] || c->ended || board->state == SL_BOARD_SILENT)
        status = choose(c, sl_now());
    if (status == SL_OK && c->job[0])
        status = read_all(c, more);
    if (status == SL_OK && !c->job[0]) {
        pthread_mutex_lock(lock);
        board->connected = 1;
        if (c->wanted)
            sl_board_set_state(board, SL_BOARD_WAITING, "no agent of job %.100s is on this server yet",
                               c->wanted);
        else
            sl_board_set_state(board, SL_BOARD_WAITING,
                               "no job is watched on this server yet (slackline watch --redis)");
        pthread_mutex_unlock(lock);
    }
    if (status == SL_OK || status == SL_ENOMEM)
        return status;
    say_silent(c);
    return SL_OK;
}
