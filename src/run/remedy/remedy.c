#include "run/remedy/remedy.h"

#include "base/memory.h"
#include "base/text.h"
#include "run/arrange/departure.h"
#include "run/arrange/rearrange.h"
#include "run/arrange/telling.h"
#include "run/remedy/remedy_inside.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#define WORTH_A_LOOK 0.1 /* share of a healthy iteration that a sum must have grown by */

/* What all ranks do between these two iterations. */
typedef enum order_kind {
    ORDER_NOTHING,
    ORDER_NETWORK, /* look at the network */
    ORDER_ARRANGE,
    ORDER_LEAVE
} order_kind;

/* ---- opening ---- */

static sl_status open_view(sl_trainer *t) {
    sl_remedy *r = t->remedy;
    size_t world = (size_t)t->world, replicas = (size_t)t->run->parallel.data;
    int **const of_world[] = {&r->places, &r->tried, &r->next_home},
                **const of_data[] = {&r->even, &r->places_split, &r->tried_split, &r->split, &r->next_split};
    r->view.homes = t->world;
    SL_TRY(sl_alloc(&r->view.slow, world, sizeof *r->view.slow));
    SL_TRY(sl_alloc(&r->view.latency, world * world, sizeof *r->view.latency));
    SL_TRY(sl_alloc(&r->view.pace, world * world, sizeof *r->view.pace));
    SL_TRY(sl_alloc(&r->unseen, world * world, sizeof *r->unseen));
    for (size_t i = 0; i < sizeof of_world / sizeof *of_world; i++)
        SL_TRY(sl_alloc(of_world[i], world, sizeof **of_world[i]));
    for (size_t i = 0; i < sizeof of_data / sizeof *of_data; i++)
        SL_TRY(sl_alloc(of_data[i], replicas, sizeof **of_data[i]));
    memcpy(r->even, t->run->batch.split, replicas * sizeof *r->even);
    return SL_OK;
}

sl_status sl_remedy_open(sl_trainer *t) {
    sl_remedy *r;
    SL_TRY(sl_alloc(&r, 1, sizeof *r));
    t->remedy = r;
    r->t = t;
    r->waiting = -1;
    SL_TRY(sl_alloc(&r->took, 2 * (size_t)t->run->adaptation.hold, sizeof *r->took));
    SL_TRY(sl_alloc(&r->looked, (size_t)t->problem.stages, sizeof *r->looked));
    SL_TRY(open_view(t));
    for (int s = 0; s < SL_REMEDIES; s++)
        r->rung[s] = -1;
    return SL_OK;
}

void sl_remedy_close(sl_remedy *r) {
    if (!r)
        return;
    sl_ladder_close(r->ladder);
    sl_free(r->took);
    sl_free(r->view.slow);
    sl_free(r->view.latency);
    sl_free(r->view.pace);
    sl_free(r->looked);
    sl_free(r->unseen);
    int *const lists[] = {r->places,       r->tried,       r->next_home, r->even,
                          r->places_split, r->tried_split, r->split,     r->next_split};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        sl_free(lists[i]);
    sl_free(r);
}

/* ---- the rank that leads: what the ladder is told ---- */

/* Iterations before and after a change are not compared. */
static void measure_anew(sl_remedy *r) {
    r->filled = r->next = 0;
    r->fresh = 1;
}

static sl_piece *told_of(sl_remedy *r, int id) {
    for (int i = 0; i < r->tolds; i++)
        if (r->told[i].id == id)
            return &r->told[i];
    return NULL;
}

static const sl_piece *seen_of(const sl_remedy *r, int id) {
    for (int i = 0; i < r->nows; i++)
        if (r->now[i].id == id)
            return &r->now[i];
    return NULL;
}

static sl_status tell_relief(sl_remedy *r, sl_time now) {
    for (int i = 0; i < r->tolds; i++) {
        if (seen_of(r, r->told[i].id))
            continue;
        SL_TRY(sl_ladder_relieved(r->ladder, now, r->told[i].id));
        r->told[i--] = r->told[--r->tolds];
    }
    return SL_OK;
}

static sl_status tell_begin(sl_remedy *r, sl_time now, const sl_piece *piece) {
    sl_incident incident = {.id = piece->id, .cause = piece->cause, .loss = piece->loss};
    int alone = piece->excess >= SL_REMEDY_LEAST * sl_remedy_believed(r);
    if (!alone || piece->loss < SL_REMEDY_LEAST || r->tolds == SL_REMEDY_PIECES)
        return SL_OK;
    sl_text_fit(incident.seen, sizeof incident.seen, piece->seen);
    r->told[r->tolds++] = *piece;
    return sl_ladder_begins(r->ladder, now, &incident);
}

/* A loss that varies a little is no news; what an application brought is told once, whatever it is. */
static sl_status tell_loss(sl_remedy *r, sl_time now, sl_piece *told, const sl_piece *piece) {
    double off = fabs(piece->loss - told->loss);
    if (!sl_remedy_iteration(r)) /* not wholly measured after the change */
        return SL_OK;
    if (!r->fresh && (off < SL_REMEDY_LEAST || off < 0.2 * fmax(told->loss, piece->loss)))
        return SL_OK;
    *told = *piece;
    return sl_ladder_changes(r->ladder, now, piece->id, piece->loss);
}

static sl_status tell(sl_trainer *t, sl_time now) {
    sl_remedy *r = t->remedy;
    memset(r->known, 0, sizeof r->known);
    r->present = 0;
    SL_TRY(sl_remedy_view(t));
    SL_TRY(tell_relief(r, now));
    for (int i = 0; i < r->nows; i++) {
        sl_piece *told = told_of(r, r->now[i].id);
        SL_TRY(told ? tell_loss(r, now, told, &r->now[i]) : tell_begin(r, now, &r->now[i]));
    }
    r->fresh &= sl_remedy_iteration(r) == 0;
    return SL_OK;
}

/* ---- its log ---- */

static int is_told_of(sl_ladder_entry_kind kind) {
    return kind == SL_LADDER_APPLY || kind == SL_LADDER_UNDO || kind == SL_LADDER_BROUGHT ||
           kind == SL_LADDER_FAILED;
}

void sl_remedy_note(sl_trainer *t, const sl_event *event) {
    const int path = event->kind == SL_EVENT_DELEGATE || event->kind == SL_EVENT_DIRECT,
              schedule = event->kind == SL_EVENT_SWAP || event->kind == SL_EVENT_RETURN;
    char whose[32] = "", line[1024];
    if (!t->remedy || (!path && !schedule))
        return;
    if (event->has_replica)
        snprintf(whose, sizeof whose, " of replica %d", event->replica);
    snprintf(line, sizeof line, "%9.3f s  iteration %4d  %s%s: %s%s%s; %s\n", sl_to_ms(event->time) / 1e3,
             event->iteration, path ? "the path of messages" : "the schedule", whose, event->decided,
             event->seen[0] ? ", for " : "", event->seen, event->why);
    sl_journal_decision(t->journal, line);
}

static sl_status write_log(sl_trainer *t, int iteration) {
    sl_remedy *r = t->remedy;
    size_t count;
    if (!r->ladder)
        return SL_OK;
    const sl_ladder_entry *entry = sl_ladder_log(r->ladder, &count);
    for (size_t i = 0; i < count; i++) {
        char text[256], line[320];
        sl_ladder_entry_text(r->ladder, &entry[i], text, sizeof text);
        snprintf(line, sizeof line, "%9.3f s  iteration %4d  %s\n",
                 sl_to_ms(entry[i].time - t->started) / 1e3, iteration, text);
        sl_journal_decision(t->journal, line);
        if (!is_told_of(entry[i].kind))
            continue;
        sl_event event = {
            .kind = SL_EVENT_DECISION, .iteration = iteration, .from = -1, .to = -1, .rank = -1};
        sl_text_format(event.seen, sizeof event.seen, "%s", entry[i].seen);
        sl_text_fit(event.decided, sizeof event.decided, text);
        sl_text_format(event.why, sizeof event.why, "%s", strlen(text) > 127 ? text : "");
        SL_TRY(sl_telling_event(t, &event, -1));
    }
    sl_ladder_clear_log(r->ladder);
    return SL_OK;
}

/* ---- what it decides ---- */

static int may_act(const sl_trainer *t) {
    const unsigned acts = 1u << SL_REMEDY_BALANCE | 1u << SL_REMEDY_TOPOLOGY | 1u << SL_REMEDY_RESTART;
    return t->run->adapt && (t->run->adaptation.strategies & acts) && t->world > 1;
}

static int swapped_now(const sl_trainer *t) {
    for (int r = 0; r < t->run->parallel.data; r++)
        if (t->replica[r].decision.verdict != SL_VERDICT_KEEP)
            return 1;
    return 0;
}

/* What the model said was about the arrangement before; until something is measured it is believed. */
static void forget_answers(sl_remedy *r, double takes) {
    memset(r->known, 0, sizeof r->known);
    r->present = 0;
    if (takes > 0 && isfinite(takes))
        r->believed = takes;
}

/* Another split and other places are the same mechanism: what one took, the other is thought to take, until
 * it has been measured. */
static void share_cost(sl_remedy *r, int kind, sl_time took) {
    int other = kind == SL_REMEDY_BALANCE ? SL_REMEDY_TOPOLOGY : SL_REMEDY_BALANCE;
    r->measured[kind] = 1;
    if (r->rung[other] >= 0 && !r->measured[other])
        (void)sl_ladder_estimate(r->ladder, r->rung[other], took);
}

/* `moved`: by a rearrangement. */
static sl_status ended(sl_trainer *t, sl_time took, int done, int moved) {
    sl_remedy *r = t->remedy;
    int kind = r->waiting;
    r->waiting = -1;
    measure_anew(r);
    for (int stage = 0; stage < t->problem.stages; stage++)
        r->looked[stage] = 0;
    forget_answers(r, done ? r->takes[kind] : 0);
    if (moved)
        share_cost(r, kind, took);
    return sl_ladder_ended(r->ladder, sl_clock_now(t->clock), took, done);
}

/* The schedule and the path change by adapt/schedule/decision.h, which waits until a change has lasted. */
static sl_status await_decision(sl_trainer *t) {
    sl_remedy *r = t->remedy;
    int schedule = r->waiting == SL_REMEDY_SCHEDULE;
    if (schedule ? swapped_now(t) : t->delegates > 0)
        return ended(t, schedule ? t->swap_cost[(t->swaps + 63) % 64] : t->path_cost, 1, 0);
    return ++r->waited > t->run->adaptation.hold ? ended(t, 0, 0, 0) : SL_OK;
}

/* What is taken back is the split; places cost nothing. Other trouble may have come meanwhile, so it becomes
 * the one that is best now. */
static void take_back(sl_trainer *t) {
    sl_remedy *r = t->remedy;
    size_t bytes = (size_t)t->run->parallel.data * sizeof *r->split;
    double time;
    memcpy(r->split, t->run->batch.split, bytes);
    if (r->rung[SL_REMEDY_BALANCE] < 0 || sl_remedy_model(t, t->home, r->split, 1, &time) != SL_OK)
        memcpy(r->split, r->even, bytes);
}

static order_kind order_of(sl_trainer *t, const sl_action *action) {
    sl_remedy *r = t->remedy;
    if (action->kind != SL_ACTION_APPLY && action->kind != SL_ACTION_UNDO)
        return ORDER_NOTHING;
    r->waiting = r->kind[action->strategy];
    r->waited = 0;
    if (r->waiting == SL_REMEDY_SCHEDULE || r->waiting == SL_REMEDY_DELEGATE)
        return ORDER_NOTHING; /* asked for again below */
    if (r->waiting == SL_REMEDY_RESTART)
        return ORDER_LEAVE;
    int moves = r->waiting == SL_REMEDY_TOPOLOGY && action->kind == SL_ACTION_APPLY;
    if (action->kind == SL_ACTION_UNDO)
        take_back(t);
    const int *split = moves ? r->places_split : r->split;
    memcpy(r->next_home, moves ? r->places : t->home, (size_t)t->world * sizeof *r->next_home);
    memcpy(r->next_split, split, (size_t)t->run->parallel.data * sizeof *r->next_split);
    return ORDER_ARRANGE;
}

/* What a stage's sum has grown by, the worst replica. */
static sl_status sum_growth(sl_trainer *t, int stage, sl_time *grown) {
    *grown = 0;
    for (int i = 0; i < t->run->parallel.data; i++) {
        sl_finding found[SL_REMEDY_PIECES];
        int count = 0;
        SL_TRY(sl_adaptation_findings(t->replica[i].adaptation, found, SL_REMEDY_PIECES, &count));
        for (int k = 0; k < count; k++)
            if (found[k].kind == SL_FINDING_REDUCTION && found[k].stage == stage &&
                found[k].now - found[k].healthy > *grown)
                *grown = found[k].now - found[k].healthy;
    }
    return SL_OK;
}

/* Which pair of several replicas is slow, and whether by latency or by bandwidth, only a look at the network
 * tells: when a sum has become slow, or slower. */
static sl_status wants_network(sl_trainer *t, int *wants) {
    sl_remedy *r = t->remedy;
    *wants = 0;
    for (int stage = 0; stage < t->problem.stages && t->run->parallel.data > 1 && may_act(t); stage++) {
        sl_time grown, before = r->looked[stage];
        SL_TRY(sum_growth(t, stage, &grown));
        if ((double)grown < WORTH_A_LOOK * (double)r->healthy)
            grown = 0;
        if (grown > 2 * before || !grown) {
            *wants |= grown > 0;
            r->looked[stage] = grown;
        }
    }
    return SL_OK;
}

/* The last iteration has been seen. A strategy whose application ends the ladder's answers is asked for what
 * it costs now. */
static sl_status decide(sl_trainer *t, order_kind *order) {
    sl_remedy *r = t->remedy;
    sl_action action;
    if (r->rung[SL_REMEDY_RESTART] >= 0)
        sl_ladder_estimate(r->ladder, r->rung[SL_REMEDY_RESTART], sl_leave_cost(t));
    SL_TRY(tell(t, sl_clock_now(t->clock)));
    SL_TRY(sl_ladder_next(r->ladder, sl_clock_now(t->clock), &action));
    *order = order_of(t, &action);
    return r->waiting >= 0 && *order == ORDER_NOTHING ? await_decision(t) : SL_OK;
}

static sl_status think(sl_trainer *t, order_kind *order) {
    sl_remedy *r = t->remedy;
    int ready, looks;
    *order = ORDER_NOTHING;
    if (swapped_now(t) && r->waiting < 0)
        measure_anew(r);
    SL_TRY(sl_remedy_see(t, &ready));
    if (r->waiting >= 0)
        return await_decision(t);
    if (!ready)
        return SL_OK;
    if (!r->ladder)
        SL_TRY(sl_remedy_ladder(t));
    SL_TRY(wants_network(t, &looks));
    if (looks) {
        *order = ORDER_NETWORK;
        return SL_OK;
    }
    return decide(t, order);
}

/* ---- every rank: what is done ---- */

static sl_status arrange(sl_trainer *t, int iteration) {
    sl_remedy *r = t->remedy;
    sl_rearranged took;
    sl_problem *expected;
    int replicas = t->run->parallel.data;
    if (!sl_trainer_leads(t))
        return sl_rearrange(t, iteration + 1, NULL, &took);
    SL_TRY(sl_alloc(&expected, (size_t)replicas, sizeof *expected));
    sl_status status = sl_remedy_problems(t, r->next_home, r->next_split, expected);
    if (status == SL_OK)
        status = sl_rearrange(
            t, iteration + 1,
            &(sl_arrangement){
                .home = r->next_home, .split = r->next_split, .expected = expected, .why = "decisions.txt"},
            &took);
    for (int i = 0; i < replicas; i++)
        sl_problem_free(&expected[i]);
    sl_free(expected);
    SL_TRY(status);
    return ended(t, took.whole, 1, took.whole > 0);
}

static sl_status leave(sl_trainer *t, int iteration) {
    const char *host = sl_trainer_leads(t) ? t->remedy->host : "";
    SL_TRY(sl_leave_hosts(t, iteration + 1, &host, 1, "it is slow (decisions.txt)"));
    return sl_trainer_leads(t) ? ended(t, t->departed ? sl_leave_cost(t) : 0, t->departed, 0) : SL_OK;
}

/* What the rank that leads has decided, to all. */
static sl_status give_order(sl_trainer *t, int iteration, sl_status (*decided)(sl_trainer *, order_kind *),
                            int *order) {
    order_kind kind = ORDER_NOTHING;
    if (sl_trainer_leads(t)) {
        SL_TRY(decided(t, &kind));
        SL_TRY(write_log(t, iteration));
    }
    *order = (int)kind;
    return may_act(t) ? sl_group_broadcast(t->groups.world, t->leader, order, sizeof *order) : SL_OK;
}

sl_status sl_remedy_step(sl_trainer *t, int iteration) {
    int order;
    SL_TRY(give_order(t, iteration, think, &order));
    if (order == ORDER_NETWORK) {
        SL_TRY(sl_network_profile(t, iteration + 1));
        SL_TRY(give_order(t, iteration, decide, &order));
    }
    if (order == ORDER_ARRANGE)
        SL_TRY(arrange(t, iteration));
    if (order == ORDER_LEAVE)
        SL_TRY(leave(t, iteration));
    return order != ORDER_NOTHING && sl_trainer_leads(t) ? write_log(t, iteration) : SL_OK;
}
