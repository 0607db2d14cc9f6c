#include "run/arrange/rearrange.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/arrange/exchange.h"
#include "run/arrange/path.h"
#include "run/arrange/planning.h"
#include "run/arrange/rank_open.h"
#include "run/arrange/rank_state.h"

#include <string.h>

/* The data of a change: the same on all ranks except `before` and `delegates`. */
typedef struct position_change {
    int *home, *split; /* [world], [data] from now on */
    int *was;          /* [world] the previous world rank of the process at each position */
    int rank;          /* taken by this process */
    sl_groups before;
    int delegates;
    sl_replica_plan *plan; /* those of the previous arrangement, on the leader */
    sl_rearranged took;
    sl_time phase; /* when the phase at hand began */
} position_change;

/* ---- what is asked for ---- */

static sl_status check(const sl_trainer *t, const int *home, const int *split) {
    char *taken;
    int sum = 0, wrong = -1;
    SL_TRY(sl_alloc(&taken, (size_t)t->world, 1));
    for (int w = 0; w < t->world; w++)
        if (home[w] < 0 || home[w] >= t->world || taken[home[w]]++)
            wrong = w;
    sl_free(taken);
    if (wrong >= 0)
        return sl_error(SL_EINVAL,
                        "position %d is given to process %d, which is none of %d or has another one", wrong,
                        home[wrong], t->world);
    for (int r = 0; r < t->run->parallel.data; r++) {
        if (split[r] < 1)
            return sl_error(SL_EINVAL, "replica %d would have %d microbatches", r, split[r]);
        sum += split[r];
    }
    return sum == t->run->batch.microbatches
               ? SL_OK
               : sl_error(SL_EINVAL, "a split of %d microbatches, the run has %d", sum,
                          t->run->batch.microbatches);
}

/* To all ranks. */
static sl_status agree(sl_trainer *t, const sl_arrangement *next, position_change *c) {
    size_t world = (size_t)t->world * sizeof(int), data = (size_t)t->run->parallel.data * sizeof(int);
    SL_TRY(sl_alloc(&c->home, (size_t)t->world, sizeof *c->home));
    SL_TRY(sl_alloc(&c->was, (size_t)t->world, sizeof *c->was));
    SL_TRY(sl_alloc(&c->split, (size_t)t->run->parallel.data, sizeof *c->split));
    if (sl_trainer_leads(t)) {
        memcpy(c->home, next->home ? next->home : t->home, world);
        memcpy(c->split, next->split ? next->split : t->run->batch.split, data);
        SL_TRY(check(t, c->home, c->split));
    }
    SL_TRY(sl_group_broadcast(t->groups.world, t->leader, c->home, world));
    SL_TRY(sl_group_broadcast(t->groups.world, t->leader, c->split, data));
    for (int w = 0; w < t->world; w++)
        for (int old = 0; old < t->world; old++)
            if (t->home[old] == c->home[w])
                c->was[w] = old;
    for (int w = 0; w < t->world; w++) {
        c->took.moved += c->was[w] != w;
        c->rank = c->was[w] == t->world_rank ? w : c->rank;
    }
    return SL_OK;
}

static int changes_nothing(const sl_trainer *t, const position_change *c) {
    return c->took.moved == 0 &&
           memcmp(c->split, t->run->batch.split, (size_t)t->run->parallel.data * sizeof *c->split) == 0;
}

/* ---- the phases ---- */

/* All ranks together, so that the leader's times cover all ranks. */
static sl_status end_phase(sl_trainer *t, position_change *c, sl_time *time) {
    SL_TRY(sl_group_barrier(t->groups.world));
    sl_time now = sl_clock_now(t->clock);
    *time = now - c->phase;
    c->phase = now;
    return SL_OK;
}

static sl_status settle(sl_trainer *t, position_change *c) {
    SL_TRY(sl_saving_rest(t->saving, t->log));
    SL_TRY(sl_binding_settle_last(t->binding));
    c->delegates = t->state->delegates;
    if (c->delegates)
        SL_TRY(sl_path_change(t, -1));
    SL_TRY(sl_group_barrier(t->groups.world)); /* a peer may still be reading what we sent */
    sl_rank_state_close(t);
    return end_phase(t, c, &c->took.settle);
}

static sl_status regroup(sl_trainer *t, position_change *c) {
    sl_group *world;
    int leader = 0;
    while (c->home[leader] != 0)
        leader++;
    SL_TRY(sl_exchange_clocks_follow(t, c->was));
    SL_TRY(sl_group_split(t->state->origin, 0, c->rank, SL_WAIT_LONG, &world));
    c->before = t->groups;
    memcpy(t->home, c->home, (size_t)t->world * sizeof *t->home);
    memcpy(t->state->own.batch.split, c->split, (size_t)t->run->parallel.data * sizeof *c->split);
    t->world_rank = c->rank;
    t->leader = leader;
    SL_TRY(sl_groups_open(t->run, world, leader, &t->groups));
    t->rank = t->groups.position.pipeline;
    return end_phase(t, c, &c->took.groups);
}

static sl_status plan(sl_trainer *t, position_change *c, const sl_plan *const *given) {
    sl_binding_sizes *sizes;
    c->plan = t->state->plan;
    t->state->plan = NULL;
    SL_TRY(sl_alloc(&sizes, (size_t)t->ranks, sizeof *sizes));
    sl_status status = sl_planning_measure(t, sizes);
    SL_THEN(status, sl_planning_make(t, sizes, c->plan, given));
    sl_free(sizes);
    SL_TRY(status);
    return end_phase(t, c, &c->took.plan);
}

static sl_status end_groups_before(const sl_trainer *t, position_change *c) {
    sl_group *world = c->before.world;
    SL_TRY(sl_groups_end(&c->before));
    return world == t->state->origin ? SL_OK : sl_group_end(world);
}

static sl_status sum_bytes(sl_trainer *t, position_change *c, double mine) {
    double *all;
    SL_TRY(sl_alloc(&all, (size_t)t->world, sizeof *all));
    sl_status status = sl_group_gather(t->groups.world, t->leader, &mine, sizeof mine, all,
                                       (size_t)t->world * sizeof *all, NULL);
    for (int w = 0; w < t->world; w++)
        c->took.bytes_moved += all[w];
    sl_free(all);
    return status;
}

static sl_status move_states(sl_trainer *t, position_change *c) {
    sl_binding *next;
    double bytes = 0;
    int in_flight;
    SL_TRY(sl_planning_in_flight(t, &in_flight));
    sl_status status = sl_binding_move(t->binding, t->run, &t->groups, in_flight, sl_planning_hosted(t),
                                       c->was, &next, &bytes);
    if (status != SL_OK) {
        sl_binding_close(next);
        return status;
    }
    sl_binding_close(t->binding);
    t->binding = next;
    SL_TRY(sl_saving_move(t->saving, next, &t->groups));
    SL_TRY(end_groups_before(t, c));
    SL_TRY(sum_bytes(t, c, bytes));
    return end_phase(t, c, &c->took.states);
}

/* The path stays what it was. */
static sl_status connect_positions(sl_trainer *t, position_change *c) {
    SL_TRY(sl_rank_state_open(t));
    if (c->delegates)
        SL_TRY(sl_path_change(t, c->delegates));
    return end_phase(t, c, &c->took.connect);
}

/* ---- saying it ---- */

static size_t put_list(char *text, size_t size, size_t at, const char *name, const int *numbers, int count) {
    for (int i = 0; i < count && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%d", i ? " " : name, numbers[i]);
    return at;
}

static json_t *list_of(const int *numbers, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, json_integer(numbers[i]));
    return list;
}

static void add_facts(sl_event *event, const sl_trainer *t, const sl_rearranged *took) {
    sl_event_fact(event, "split", list_of(t->run->batch.split, t->run->parallel.data));
    sl_event_fact(event, "moved", json_integer(took->moved));
    sl_event_fact(event, "moved_mb", json_real(took->bytes_moved / 1e6));
    sl_event_fact(event, "took_ms", json_real(sl_to_ms(took->whole)));
    sl_event_fact(event, "phases_ms",
                  json_pack("{s:f,s:f,s:f,s:f,s:f}", "settle", sl_to_ms(took->settle), "groups",
                            sl_to_ms(took->groups), "plan", sl_to_ms(took->plan), "states",
                            sl_to_ms(took->states), "connect", sl_to_ms(took->connect)));
    sl_event_fact(event, "positions", list_of(t->home, t->world)); /* last: of many ranks it does not fit */
}

static sl_status write_event(sl_trainer *t, int iteration, const sl_rearranged *took,
                             const sl_arrangement *next) {
    sl_event event = sl_event_of(SL_EVENT_ARRANGE, 0, iteration);
    if (next->requested)
        sl_event_fact(&event, "requested", json_true());
    add_facts(&event, t, took);
    size_t most = sizeof event.decided - 4,
           at = put_list(event.decided, most, 0, "positions ", t->home, t->world);
    at = put_list(event.decided, most, at < most ? at : most, ", split ", t->run->batch.split,
                  t->run->parallel.data);
    if (at >= most)
        strcpy(event.decided + most - 1, " ..");
    sl_text_format(
        event.seen, sizeof event.seen,
        "%d of %d processes moved, %.3f MB between them, in %.1f ms: settle %.1f, groups %.1f, plan %.1f, "
        "states %.1f, connect %.1f",
        took->moved, t->world, took->bytes_moved / 1e6, sl_to_ms(took->whole), sl_to_ms(took->settle),
        sl_to_ms(took->groups), sl_to_ms(took->plan), sl_to_ms(took->states), sl_to_ms(took->connect));
    sl_text_format(event.why, sizeof event.why, "%s", next->why ? next->why : "");
    return sl_run_log_add(t->log, &event, -1);
}

static sl_status carry_out(sl_trainer *t, const sl_plan *const *given, position_change *c) {
    sl_time start = sl_clock_now(t->clock);
    c->phase = start;
    SL_TRY(settle(t, c));
    SL_TRY(regroup(t, c));
    SL_TRY(plan(t, c, given));
    SL_TRY(move_states(t, c));
    SL_TRY(connect_positions(t, c));
    c->took.whole = sl_clock_now(t->clock) - start;
    return SL_OK;
}

sl_status sl_rearrange(sl_trainer *t, int iteration, const sl_arrangement *next, sl_rearranged *took) {
    position_change c = {0};
    *took = (sl_rearranged){0};
    sl_status status = agree(t, next, &c);
    int same = status == SL_OK && changes_nothing(t, &c);
    if (status == SL_OK && !same)
        status = carry_out(t, next ? next->plan : NULL, &c);
    if (status == SL_OK && !same && sl_trainer_leads(t)) {
        *took = c.took;
        status = write_event(t, iteration, took, next);
    }
    sl_planning_free(t, c.plan);
    SL_FREE(c.home, c.split, c.was);
    return status;
}
