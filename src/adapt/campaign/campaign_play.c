/* Plays one strategy from the first iteration to the last as the orchestrator's caller, on simulated time.
 * The trace starts and ends faults, the world gives iteration times and measurements, the orchestrator
 * chooses actions, and each action costs its time. */
#include "adapt/campaign/campaign_inside.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TIME ((sl_time)4000000000000000000)
#define MAX_HOLD 32        /* of the orchestrator */
#define MAX_ACTIONS 1000   /* between two iterations, plus one per replica */
#define MAX_LOOKED_AT 4096 /* positions; of larger jobs only those near faults are examined */

typedef struct play {
    sl_world *w;
    const sl_campaign *c;
    sl_campaign_row *row;
    sl_orchestrator *o; /* NULL: no actions */
    unsigned can;
    sl_job_layout home;
    const sl_job_layout *layout;
    int *plan; /* [replicas] */
    sl_time now, each;
    int iteration;
    int changed;         /* `each` is outdated for the next iteration */
    int swapped, undone; /* iterations before which schedules were last adapted, and taken back; -1 */
    size_t next;         /* the next fault to begin */
    int *live;           /* [lives] lasting faults that were not left behind, ascending */
    size_t lives, live_room;
    FILE *log, *events; /* NULL: not requested */
} play;

/* ---- the row ---- */

sl_status sl_row_add(sl_campaign_row *row, int iteration, int count, sl_time start, sl_time each) {
    sl_campaign_stretch *last = row->stretches ? &row->stretch[row->stretches - 1] : NULL;
    if (last && count && last->count && last->each == each) {
        last->count += count;
        return SL_OK;
    }
    SL_TRY(sl_grow(&row->stretch, &row->stretch_room, row->stretches + 1, sizeof *row->stretch));
    row->stretch[row->stretches++] =
        (sl_campaign_stretch){.iteration = iteration, .count = count, .start = start, .each = each};
    return SL_OK;
}

static sl_status too_long(void) {
    return sl_error(SL_EINVAL, "the job would take longer than %g s", (double)MAX_TIME / 1e9);
}

static sl_status pause_for(play *p, sl_time cost) {
    if (cost == 0)
        return SL_OK;
    if (cost > MAX_TIME - p->now)
        return too_long();
    SL_TRY(sl_row_add(p->row, p->iteration, 0, p->now, cost));
    p->now += cost;
    p->row->paid += cost;
    return SL_OK;
}

/* ---- opening ---- */

static void configure(const play *p, sl_orchestrator_config *config) {
    const sl_campaign *c = p->c;
    config->job = p->w->job;
    config->problem = p->w->replica;
    config->can = p->can;
    memcpy(config->cost, c->cost, sizeof config->cost);
    memcpy(config->undo, c->undo, sizeof config->undo);
    config->at_once = c->ladder.at_once > 0 ? c->ladder.at_once : 1;
    config->calm = c->ladder.calm > 0 ? c->ladder.calm : -1;
    config->changed = c->ladder.changed;
    config->least_gain = c->ladder.least_gain;
    config->profile_every = c->ladder.profile_every;
    config->looks = 1;
    config->hold = c->notice < 1 ? 1 : c->notice < MAX_HOLD ? c->notice : MAX_HOLD;
    config->paced = 1;
}

static sl_status open_orchestrator(play *p) {
    sl_orchestrator_config config = sl_orchestrator_defaults();
    int positions = sl_job_processes(&p->w->job);
    char(*name)[32] = NULL;
    const char **host = NULL;
    const sl_plan **first = NULL;
    sl_status status;
    configure(p, &config);
    SL_TRY_GOTO(done, status, sl_alloc(&name, (size_t)positions, sizeof *name));
    SL_TRY_GOTO(done, status, sl_alloc(&host, (size_t)positions, sizeof *host));
    SL_TRY_GOTO(done, status, sl_alloc(&first, (size_t)p->c->replicas, sizeof *first));
    for (int i = 0; i < positions; i++) {
        long long device = (long long)i * p->c->tensor;
        snprintf(name[i], sizeof name[i], "host%lld", device / p->c->host_devices);
        host[i] = name[i];
    }
    for (int d = 0; d < p->c->replicas; d++)
        first[d] = &p->w->first;
    config.host = host;
    config.first = first;
    status = sl_orchestrator_open(&config, &p->o);
done:
    SL_FREE(name, host, first);
    return status;
}

static sl_status open_play(play *p, int plan) {
    const sl_campaign *c = p->c;
    int *split;
    SL_TRY(sl_alloc(&p->plan, (size_t)c->replicas, sizeof *p->plan));
    SL_TRY(sl_alloc(&split, (size_t)c->replicas, sizeof *split));
    for (int d = 0; d < c->replicas; d++) {
        p->plan[d] = plan;
        split[d] = c->problem.microbatches;
    }
    sl_status status = sl_job_layout_make(&p->w->job, split, &p->home);
    sl_free(split);
    p->layout = &p->home;
    if (status == SL_OK && p->can)
        status = open_orchestrator(p);
    return status;
}

/* ---- faults ---- */

static int64_t value_now(const play *p) {
    return p->c->by_time ? p->now : p->iteration;
}

sl_time sl_campaign_stop_cost(const sl_campaign *c, const sl_campaign_fault *f, const sl_job_layout *layout,
                              int delegates) {
    sl_time full = f->stop >= 0 ? f->stop : c->cost[SL_STRATEGY_RESTART];
    sl_time over = layout->delegates ? 0 : c->cost[SL_STRATEGY_DELEGATE];
    return f->is_rail && delegates ? over : full;
}

static sl_status begin_faults(play *p) {
    for (; p->next < p->c->faults && p->c->fault[p->next].first <= value_now(p); p->next++) {
        const sl_campaign_fault *f = &p->c->fault[p->next];
        if (f->kind == SL_FAULT_STOP) {
            p->row->stops++;
            SL_TRY(pause_for(
                p, sl_campaign_stop_cost(p->c, f, p->layout, (p->can & 1u << SL_STRATEGY_DELEGATE) != 0)));
        } else if (f->until > value_now(p)) {
            SL_TRY(sl_grow(&p->live, &p->live_room, p->lives + 1, sizeof *p->live));
            p->live[p->lives++] = (int)p->next;
            p->changed = 1;
        }
    }
    return SL_OK;
}

static void end_faults(play *p) {
    size_t kept = 0;
    for (size_t i = 0; i < p->lives; i++)
        if (p->c->fault[p->live[i]].until > value_now(p))
            p->live[kept++] = p->live[i];
    p->changed |= kept != p->lives;
    p->lives = kept;
}

/* ---- actions ---- */

/* Reads each replica's plan and the layout from the orchestrator. */
static sl_status read_layout(play *p) {
    const sl_plan *last = NULL;
    sl_keys pointers = {0};
    int *known = NULL, number = 0, is_new;
    size_t room = 0;
    sl_status status = SL_OK;
    p->layout = sl_orchestrator_layout(p->o);
    p->changed = 1;
    for (int d = 0; d < p->c->replicas; d++) {
        const sl_plan *plan = sl_orchestrator_plan(p->o, d);
        if (plan != last) {
            SL_TRY_GOTO(done, status, sl_keys_number(&pointers, &plan, sizeof plan, &number, &is_new));
            SL_TRY_GOTO(done, status, sl_grow(&known, &room, pointers.count, sizeof *known));
            if (is_new)
                SL_TRY_GOTO(done, status, sl_world_number(p->w, plan, p->layout->split[d], &known[number]));
            last = plan;
        }
        p->plan[d] = known[number];
    }
done:
    sl_keys_free(&pointers);
    sl_free(known);
    return status;
}

/* The present time of a message between two processes: only faults known to the world slow it. */
static sl_network_measure measure_link(const sl_world *w, int from, int to, double latency) {
    double pace = 0, more = 0;
    for (size_t i = 0; i < w->parts; i++) {
        const sl_slow_part *part = &w->part[i];
        int touches = part->kind == SL_PART_CARD
                          ? part->a == from || part->a == to
                          : part->kind == SL_PART_LINK &&
                                ((part->a == from && part->b == to) || (part->a == to && part->b == from));
        if (touches) {
            more = fmax(more, part->latency[0]);
            pace = fmax(pace, part->pace[0]);
        }
    }
    return (sl_network_measure){from, to, latency + more, 1 + pace};
}

/* The replicas to measure: all of a small job, else those with faults, their neighbors, and the first two. */
static void choose_replicas(const play *p, unsigned char *chosen) {
    const sl_job *job = &p->w->job;
    for (int d = 0; d < job->replicas; d++)
        chosen[d] = d < 2 || sl_job_processes(job) <= MAX_LOOKED_AT;
    for (size_t i = 0; i < p->w->parts; i++)
        for (int end = 0; end < 2; end++) {
            int process = end ? p->w->part[i].b : p->w->part[i].a;
            if (process < 0)
                continue;
            int d = sl_job_replica(job, sl_job_layout_position(job, p->layout, process));
            for (int k = -1; k <= 1; k++)
                chosen[(d + k + job->replicas) % job->replicas] = 1;
        }
}

static sl_status look(play *p) {
    const sl_job *job = &p->w->job;
    double ring = p->c->gradient > 0 ? p->c->ring_latency : 0;
    unsigned char *chosen = NULL;
    sl_network_measure *measure = NULL;
    size_t room = 0, count = 0;
    sl_status status;
    SL_TRY(sl_world_see(p->w, p->live, (int)p->lives));
    SL_TRY(sl_alloc(&chosen, (size_t)job->replicas, 1));
    choose_replicas(p, chosen);
    for (int i = 0; i < sl_job_processes(job); i++) {
        int d = sl_job_replica(job, i), rank = sl_job_rank(job, i), next = (d + 1) % job->replicas,
            below = (rank + 1) % job->ranks;
        if (!chosen[d])
            continue;
        SL_TRY_GOTO(done, status, sl_grow(&measure, &room, count + 4, sizeof *measure));
        for (int k = 0; k < 4; k++) {
            int other = k < 2 ? sl_job_position(job, below, d, 0) : sl_job_position(job, rank, next, 0);
            int link = k % 2 ? below * job->ranks + rank : rank * job->ranks + below;
            double latency = k < 2 ? (double)p->c->problem.link[link].latency : ring;
            int from = p->layout->process[k % 2 ? other : i], to = p->layout->process[k % 2 ? i : other];
            if (from != to && chosen[next])
                measure[count++] = measure_link(p->w, from, to, latency);
        }
    }
    status = sl_orchestrator_network(p->o, p->now, measure, (int)count);
done:
    SL_FREE(measure, chosen);
    return status;
}

/* The cost of an action. Delegates that come with another layout cost the usual amount. */
static sl_time price(const play *p, const sl_orchestrator_action *a) {
    if (a->what == SL_DO_NETWORK)
        return p->c->profile;
    sl_time cost = a->undo ? p->c->undo[a->strategy] : p->c->cost[a->strategy];
    int comes_along = a->what == SL_DO_LAYOUT && a->layout.delegates && !p->layout->delegates;
    return cost + (comes_along && a->strategy != SL_STRATEGY_DELEGATE ? p->c->cost[SL_STRATEGY_DELEGATE] : 0);
}

/* Plans of several replicas take effect together. */
static int is_with_another(play *p, const sl_orchestrator_action *a) {
    int *last = a->undo ? &p->undone : &p->swapped, is_together = *last == p->iteration;
    if (a->what != SL_DO_PLAN)
        return 0;
    *last = p->iteration;
    return is_together;
}

static sl_status write_event(play *p, const sl_event *event) {
    char *line;
    if (!p->events)
        return SL_OK;
    SL_TRY(sl_event_line(event, &line));
    fputs(line, p->events);
    free(line);
    return SL_OK;
}

static void write_decisions(play *p) {
    const char *text = sl_orchestrator_decisions(p->o);
    if (p->log && text)
        fputs(text, p->log);
}

/* The present slow components are left behind, and the job restarts in its initial state. */
static sl_status restart(play *p) {
    write_decisions(p);
    sl_orchestrator_close(p->o);
    p->o = NULL;
    p->lives = 0;
    SL_TRY(open_orchestrator(p));
    return read_layout(p);
}

static sl_status act(play *p, const sl_orchestrator_action *a) {
    sl_time cost = price(p, a);
    int is_together = is_with_another(p, a), id = a->id;
    sl_do what = a->what;
    if (what != SL_DO_NETWORK && !is_together)
        *(a->undo ? &p->row->undone : &p->row->applied[a->strategy]) += 1;
    if (what == SL_DO_PLAN)
        SL_TRY(sl_world_number(p->w, a->plan, p->layout->split[a->replica], &p->plan[a->replica]));
    if (!is_together)
        SL_TRY(pause_for(p, cost));
    if (what == SL_DO_NETWORK)
        SL_TRY(look(p));
    SL_TRY(sl_orchestrator_carried_out(p->o, id, p->now, SL_OUTCOME_DONE, cost));
    p->changed |= what != SL_DO_NETWORK;
    if (what == SL_DO_LEAVE)
        return restart(p);
    return what == SL_DO_PLAN || what == SL_DO_NETWORK ? SL_OK : read_layout(p);
}

static sl_status follow(play *p) {
    sl_event event;
    sl_orchestrator_action action;
    for (int i = 0; i < MAX_ACTIONS + p->c->replicas; i++) {
        while (sl_orchestrator_event(p->o, &event))
            SL_TRY(write_event(p, &event));
        if (!sl_orchestrator_next(p->o, &action)) {
            write_decisions(p);
            return SL_OK;
        }
        SL_TRY(act(p, &action));
    }
    return sl_error(SL_ESYS, "%d actions were requested at iteration %d", MAX_ACTIONS, p->iteration);
}

/* ---- iterations ---- */

/* Iterations of `each` until a value (iteration or ns) is reached; at least 1. */
static void until_value(const play *p, int64_t value, int64_t *most) {
    int64_t left = value - value_now(p);
    if (p->c->by_time)
        left = left / p->each + (left % p->each != 0);
    if (left < *most)
        *most = left < 1 ? 1 : left;
}

/* The number of iterations until a fault begins or ends. */
static int64_t alike(const play *p) {
    int64_t most = p->c->iterations - p->iteration;
    if (p->next < p->c->faults)
        until_value(p, p->c->fault[p->next].first, &most);
    for (size_t i = 0; i < p->lives; i++)
        if (p->c->fault[p->live[i]].until != SL_FAULT_LASTS)
            until_value(p, p->c->fault[p->live[i]].until, &most);
    return most;
}

static sl_status pass(play *p, int64_t count) {
    if (p->each > (MAX_TIME - p->now) / count)
        return too_long();
    SL_TRY(sl_row_add(p->row, p->iteration, (int)count, p->now, p->each));
    p->row->worst = p->each > p->row->worst ? p->each : p->row->worst;
    p->iteration += (int)count;
    p->now += count * p->each;
    return SL_OK;
}

static sl_status look_at_world(play *p) {
    sl_scene scene = {.layout = p->layout, .plan = p->plan, .fault = p->live, .faults = (int)p->lives};
    if (!p->changed)
        return SL_OK;
    p->changed = 0;
    SL_TRY(sl_world_time(p->w, &scene, p->o != NULL, &p->each));
    return p->each >= 1 ? SL_OK : sl_error(SL_EINVAL, "an iteration of this job takes no time");
}

static sl_status iterate(play *p) {
    SL_TRY(look_at_world(p));
    int64_t count = alike(p);
    if (!p->o)
        return pass(p, count);
    sl_orchestrator_iteration seen = {.iteration = p->iteration, .time = p->each, .replica = p->w->measured};
    SL_TRY(pass(p, 1));
    seen.now = p->now;
    SL_TRY(sl_orchestrator_observe(p->o, &seen));
    sl_time before = p->now;
    SL_TRY(follow(p));
    if (p->changed || p->now != before || count == 1)
        return SL_OK;
    int idle = sl_orchestrator_idle(p->o, p->each);
    count = idle < count - 1 ? idle : count - 1;
    if (count < 1)
        return SL_OK;
    SL_TRY(pass(p, count));
    return sl_orchestrator_skip(p->o, (int)count, p->now);
}

static sl_status play_all(play *p) {
    while (p->iteration < p->c->iterations) {
        SL_TRY(begin_faults(p));
        end_faults(p);
        SL_TRY(iterate(p));
    }
    p->row->total = p->now;
    return SL_OK;
}

/* Closes a file of memory, whose text is copied if all is well. Returns `status` or its own failure. */
static sl_status end_text(FILE *file, char **text, sl_status status, char **copy) {
    if (file && fclose(file) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for the log");
    if (file && status == SL_OK)
        status = sl_copy_text(copy, *text);
    free(*text);
    return status;
}

sl_status sl_campaign_play(sl_world *w, const char *name, unsigned can, int plan, int log,
                           sl_campaign_row *row) {
    size_t size, events_size;
    char *text = NULL, *events = NULL;
    play p = {.w = w, .c = w->campaign, .row = row, .can = can, .changed = 1, .swapped = -1, .undone = -1};
    snprintf(row->name, sizeof row->name, "%s", name);
    if (log && can && !(p.log = open_memstream(&text, &size)))
        return sl_error(SL_ENOMEM, "out of memory for the log");
    sl_status status = SL_OK;
    if (p.log && !(p.events = open_memstream(&events, &events_size)))
        status = sl_error(SL_ENOMEM, "out of memory for the events");
    SL_THEN(status, open_play(&p, plan));
    SL_THEN(status, play_all(&p));
    status = end_text(p.log, &text, status, &row->log);
    status = end_text(p.events, &events, status, &row->events);
    sl_orchestrator_close(p.o);
    sl_job_layout_free(&p.home);
    SL_FREE(p.plan, p.live);
    return status;
}
