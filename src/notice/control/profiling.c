#include "notice/control/controller_inside.h"

#include "base/memory.h"
#include "notice/control/collection.h"

#define AHEAD (100 * SL_MS) /* of a profile's window: every agent reads its orders until then */
#define SHORTEST                                                                                             \
    SL_SECOND /* window of a profile: a quota stops a rank every 100 ms, and one pause is not evidence */
#define LONGEST_WINDOW (600 * SL_SECOND)
#define PATIENCE                                                                                             \
    (4 * SL_SECOND)         /* while iterations are slow: an answer soon is worth more than an exact one */
enum { FEWEST = 3 };        /* iterations: fewer occurrences of a call show nothing (call_measure.c) */
#define PROFILE_CALLS 20000 /* of one rank, about */
#define STRETCH_MAX 9

struct sl_profiling {
    sl_store_position position;
    sl_collection collection;
    sl_time from, to;
    int iterations;
    int stretch; /* part of its window in which iterations took longer than their level */
};

sl_status sl_profiling_open(sl_control_core *c) {
    return sl_alloc(&c->profiling, 1, sizeof *c->profiling);
}

void sl_profiling_close(sl_control_core *c) {
    if (c->profiling)
        sl_collection_end(&c->profiling->collection);
    sl_free(c->profiling);
}

void sl_profiling_skip(sl_control_core *c) {
    sl_control_skip(c, SL_LOG_PROFILES, &c->profiling->position);
}

/* All of K iterations are within a window of K + 1. */
static void ask(sl_control_core *c, int stretch) {
    struct sl_profiling *p = c->profiling;
    sl_time level = sl_from_ms(c->view.level_ms > 0.001 ? c->view.level_ms : 0.001);
    int64_t iterations = SL_PROFILE_ITERATIONS, most = PROFILE_CALLS / (c->view.period + 1);
    if (c->view.slow && level * iterations > PATIENCE)
        iterations = PATIENCE / level > FEWEST ? PATIENCE / level : FEWEST;
    if (level * iterations < SHORTEST)
        iterations = SHORTEST / level;
    if (iterations > most)
        iterations = most;
    if (iterations > LONGEST_WINDOW / level)
        iterations = LONGEST_WINDOW / level;
    iterations = iterations < 1 ? 1 : iterations;
    p->stretch = stretch;
    p->iterations = (int)iterations;
    p->from = c->now + AHEAD + 2 * sl_order_pace(sl_nodes_alive(&c->nodes));
    p->to = p->from + (iterations + 1) * level * stretch;
    sl_control_wait_until(c, p->to + 8 * SL_SECOND);
    int world = sl_nodes_world(&c->nodes);
    if (world <= 0 || sl_collection_begin(&p->collection, ++c->round, world) != SL_OK) {
        c->failed = world <= 0 ? c->failed : SL_ENOMEM;
        return;
    }
    json_t *order = json_pack("{s:o,s:I}", "until", sl_nodes_times(&c->nodes, p->to), "length",
                              (json_int_t)(p->to - p->from));
    sl_control_order(c, "profile", c->round, order);
}

void sl_profiling_begin(sl_control_core *c) {
    ask(c, 1);
}

void sl_profiling_cancel(sl_control_core *c) {
    sl_collection *collection = &c->profiling->collection;
    if (collection->round)
        sl_control_order(c, "cancel", collection->round, json_object());
    sl_collection_end(collection);
}

/* If the profile holds far fewer calls than its iterations have, a longer window may help. */
static int too_few(const sl_control_core *c) {
    const struct sl_profiling *p = c->profiling;
    int64_t expected = (int64_t)c->view.period * p->iterations * p->collection.completed;
    return (int64_t)p->collection.calls < expected / 3 && p->stretch < STRETCH_MAX;
}

void sl_profiling_read(sl_control_core *c) {
    struct sl_profiling *p = c->profiling;
    sl_collection *got = &p->collection;
    const sl_store_entry *entry;
    size_t count;
    if (!got->round)
        return;
    do {
        if (!sl_control_read(c, SL_LOG_PROFILES, &p->position, 64, &entry, &count))
            return;
        for (size_t i = 0; i < count; i++) {
            const void *body;
            const sl_message_head *head = sl_control_message(c, &entry[i], SL_MESSAGE_CALLS, &body);
            if (!head || head->round != got->round)
                continue;
            if (sl_collection_add(got, &c->nodes, head, body) != SL_OK ||
                sl_traffic_take(&c->standing.traffic, head, body, !c->view.slow) != SL_OK)
                c->failed = SL_ENOMEM;
        }
    } while (count == 64 && !c->failed);
    if (!sl_collection_whole(got) && (got->completed == 0 || c->now <= p->to + 4 * SL_SECOND))
        return;
    if (too_few(c))
        ask(c, p->stretch * 3);
    else
        sl_control_feed(c, SL_IN_PROFILE, 0);
}

sl_profiled sl_profiling_take(sl_control_core *c) {
    struct sl_profiling *p = c->profiling;
    sl_collection *got = &p->collection;
    sl_profiled taken = {.end = p->to,
                         .calls = got->calls,
                         .iterations = p->iterations,
                         .ranks = got->ranks,
                         .complete = got->completed};
    sl_collection_settle(got);
    sl_status status = SL_OK;
    if (got->ranks > 0)
        status = sl_call_profile_make(got->call, got->calls, got->ranks, sl_nodes_clock_error(&c->nodes),
                                      &taken.profile);
    SL_THEN(status, sl_call_excerpt_take(&c->standing.excerpt, got->call, got->calls,
                                         sl_from_ms(c->view.level_ms), c->view.iteration, c->view.slow));
    if (status == SL_ENOMEM)
        c->failed = status;
    for (int r = 0; taken.profile && r < taken.profile->ranks; r++) {
        taken.profile->rank[r].starved = got->starved[r];
        taken.profile->rank[r].stopped = got->stopped[r];
    }
    sl_collection_end(got);
    return taken;
}
