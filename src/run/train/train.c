#include "run/train/train.h"
#include "base/json.h"
#include "base/lines.h"
#include "base/memory.h"
#include "run/arrange/departure.h"
#include "run/arrange/exchange.h"
#include "run/arrange/faults.h"
#include "run/arrange/iterate.h"
#include "run/arrange/network_profile.h"
#include "run/arrange/path.h"
#include "run/arrange/rearrange.h"
#include "run/arrange/trainer_open.h"
#include "run/train/assess.h"
#include "run/train/body.h"
#include "run/train/leader_report.h"

#include <stdio.h>
#include <string.h>

#define LEAD (2 * SL_MS) /* from the broadcast of an iteration's begin to that begin */

/* ---- one iteration, on every rank; `l` is NULL on those that do not lead ---- */

/* What the leader decides before an iteration. */
typedef struct iteration_start {
    sl_time begin; /* on this rank's clock */
    int leaves;    /* all ranks end before this iteration */
    int grows;     /* the same, to be restarted in a larger layout */
    int profiles;  /* all measure the network after it */
} iteration_start;

enum { LEAVES = 1, PROFILES = 2, GROWS = 4 };

/* All ranks get `begin`, and whether there is another iteration, from the same broadcast; a rank on another
 * host translates the time to its own clock. */
static sl_status begin_iteration(sl_trainer *t, sl_leader *l, iteration_start *start) {
    sl_time *begins;
    SL_TRY(sl_alloc(&begins, (size_t)t->world + 1, sizeof *begins));
    if (l) {
        sl_time now = sl_clock_now(t->clock) + LEAD;
        for (int r = 0; r < t->world; r++)
            begins[r] = now + t->clocks[r].offset;
        l->warned |= sl_iterate_is_warned(t);
        const int grows = l->warned && sl_departure_may_grow(t);
        begins[t->world] = grows ? GROWS : l->warned ? LEAVES : 0;
        begins[t->world] |= sl_network_profile_due(t) ? PROFILES : 0;
        l->warned &= !grows;
    }
    sl_status status =
        sl_group_broadcast(t->groups.world, t->leader, begins, ((size_t)t->world + 1) * sizeof *begins);
    *start = (iteration_start){.begin = begins[t->world_rank],
                               .leaves = (begins[t->world] & LEAVES) != 0,
                               .grows = (begins[t->world] & GROWS) != 0,
                               .profiles = (begins[t->world] & PROFILES) != 0};
    sl_free(begins);
    return status;
}

static sl_status validate(sl_trainer *t, sl_leader *l, int iteration) {
    const int every = t->run->validate_every;
    double loss;
    if (every == 0 || (iteration + 1) % every != 0 || iteration + 1 >= t->run->iterations)
        return SL_OK;
    SL_TRY(sl_binding_validate(t->binding, &loss));
    if (l)
        sl_run_log_validation(t->log, loss);
    return SL_OK;
}

static int is_suspect(sl_run_phase phase) {
    return phase == SL_PHASE_SLOW || phase == SL_PHASE_DELEGATED || phase == SL_PHASE_ADAPTED;
}

/* *leaves: it did not run, and the run ends. */
static sl_status one_iteration(sl_trainer *t, sl_leader *l, int iteration, int *leaves) {
    iteration_start start;
    sl_rank_reports *reports;
    SL_TRY(sl_exchange_clocks(t, l && is_suspect(sl_run_log_phase(t->log))));
    SL_TRY(begin_iteration(t, l, &start));
    if (start.grows && iteration > t->first) {
        SL_TRY(sl_departure_grow(t, iteration));
        if (t->departed)
            return SL_OK;
        SL_TRY(begin_iteration(t, l, &start)); /* it has saved itself in vain, which took a while */
    }
    *leaves = start.leaves;
    if (l)
        SL_TRY(sl_run_log_flush(t->log, start.begin));
    if (start.leaves)
        return SL_OK;
    if (l)
        SL_TRY(sl_faults_write(t, iteration));
    SL_TRY(sl_iterate(t, iteration, start.begin));
    SL_TRY(sl_iterate_gather(t, &reports));
    if (l)
        SL_TRY(sl_assess_iteration(l, reports, iteration, start.begin));
    SL_TRY(sl_path_event(t, iteration));
    SL_TRY(validate(t, l, iteration));
    SL_TRY(sl_body_act(t, l, iteration));
    if (start.profiles && !t->departed && iteration + 1 < t->run->iterations)
        SL_TRY(sl_body_look(t, l, iteration + 1));
    return t->departed ? SL_OK : sl_saving_step(t->saving, iteration + 1, t->log);
}

/* Applies the run file's arrangements. After a restart every process is in its initial position, but
 * microbatches are divided as before: another split would change bits. */
static sl_status arrange(sl_trainer *t, sl_leader *l, int iteration) {
    sl_arrangement next = {.why = "the run file says so", .requested = 1};
    sl_rearranged took;
    for (int i = 0; i < t->run->arrangements; i++) {
        const sl_run_arrangement *a = &t->run->arrangement[i];
        if (a->iteration == iteration && a->position)
            next.home = a->position;
        if ((a->iteration == iteration || (a->iteration < iteration && iteration == t->first)) && a->split)
            next.split = a->split;
    }
    if (!next.home && !next.split)
        return SL_OK;
    SL_TRY(sl_rearrange(t, iteration, l ? &next : NULL, &took));
    if (took.whole == 0)
        return SL_OK;
    sl_leader_rearranged(l, iteration);
    return sl_body_moved(l);
}

/* ---- beginning and end ---- */

/* With the ping test of the links as the first iteration will find them. */
static sl_status start(sl_trainer *t, sl_leader *l) {
    sl_ping_link *ping;
    SL_TRY(sl_alloc(&ping, (size_t)t->ranks * (size_t)t->ranks, sizeof *ping));
    sl_status status = sl_network_profile_ping(t, ping);
    if (status == SL_OK && l)
        status = sl_leader_report_start(l, ping);
    sl_free(ping);
    return status;
}

static sl_status finish(sl_trainer *t, sl_leader *l) {
    sl_summary s = {0};
    long *all;
    if (l) {
        SL_TRY(sl_run_log_flush(t->log, sl_clock_now(t->clock)));
        sl_progress_end(sl_run_log_progress(t->log));
    }
    SL_TRY(sl_saving_finish(t->saving, t->run->iterations, t->log));
    const long mine[3] = {(long)sl_binding_peak(t->binding), (long)sl_binding_host_peak(t->binding),
                          t->moves};
    SL_TRY(sl_binding_validate(t->binding, &s.validation));
    SL_TRY(sl_binding_hash(t->binding, &s.weights_hash));
    SL_TRY(sl_alloc(&all, 3 * (size_t)t->world, sizeof *all));
    sl_status status = sl_group_gather(t->groups.world, t->leader, mine, sizeof mine, all,
                                       (size_t)t->world * sizeof mine, NULL);
    if (status == SL_OK && l)
        status = sl_leader_report_end(l, all, &s);
    sl_free(all);
    return status;
}

/* `done` iterations are complete, the remaining ones are skipped. */
static sl_status leave(sl_trainer *t, sl_leader *l, int done) {
    *t->site->left = 1 + done;
    if (done > t->first)
        SL_TRY(sl_saving_finish(t->saving, done, t->log));
    return l ? sl_leader_report_warned(l, done) : SL_OK;
}

/* With several pipelines a world rank alone is not informative: its position is prepended to the reason. */
static sl_status name_position(const sl_trainer *t, sl_status status) {
    char text[448];
    const sl_run_position *position = &t->groups.position;
    if (status == SL_OK || t->run->parallel.data * t->run->parallel.tensor == 1)
        return status;
    snprintf(text, sizeof text, "%s", sl_error_text());
    if (t->run->parallel.tensor == 1)
        return sl_error(status, "(pipeline rank %d, replica %d) %s", position->pipeline, position->replica,
                        text);
    return sl_error(status, "(pipeline rank %d, replica %d, tensor rank %d) %s", position->pipeline,
                    position->replica, position->tensor, text);
}

static sl_status open_leader(sl_trainer *t, sl_time begin, sl_leader **l) {
    if (!sl_trainer_leads(t))
        return SL_OK;
    SL_TRY(sl_leader_open(t, l));
    SL_TRY(sl_assess_open(*l));
    return sl_body_open(*l, sl_clock_now(t->clock) - begin);
}

static void close_leader(sl_leader *l) {
    if (!l)
        return;
    sl_body_close(l);
    sl_assess_close(l);
    sl_leader_close(l);
}

static sl_status open(const sl_run *run, const sl_run_site *site, sl_group *world, sl_trainer *t,
                      sl_leader **l) {
    const sl_time begin = sl_now();
    SL_TRY(sl_trainer_open(run, site, world, t));
    if (run->transport == SL_RUN_DELEGATED)
        SL_TRY(sl_path_change(t, run->network.queues > 0 ? run->network.queues : 1));
    return open_leader(t, begin, l);
}

static sl_status iterate(sl_trainer *t, sl_leader *l) {
    int iteration = t->first, leaves = 0;
    if (t->run->adaptation.profile_every_s > 0 && iteration < t->run->iterations)
        SL_TRY(sl_body_look(t, l, iteration));
    for (; iteration < t->run->iterations && !leaves && !t->departed; iteration++) {
        SL_TRY(sl_departure_step(t, iteration));
        if (t->departed)
            break;
        SL_TRY(arrange(t, l, iteration));
        SL_TRY(one_iteration(t, l, iteration, &leaves));
    }
    if (t->departed)
        return SL_OK;
    return leaves ? leave(t, l, iteration - 1) : finish(t, l);
}

sl_status sl_train(const sl_run *run, const sl_run_site *site, sl_group *world) {
    sl_trainer t;
    sl_leader *leader = NULL;
    sl_status status = open(run, site, world, &t, &leader);
    SL_THEN(status, start(&t, leader));
    SL_THEN(status, iterate(&t, leader));
    status = name_position(&t, status);
    close_leader(leader);
    sl_trainer_close(&t);
    return status;
}

typedef struct deaths {
    const sl_run *run;
    char *happened; /* [faults] */
} deaths;

static sl_status mark(void *context, const char *line, size_t length) {
    const deaths *d = context;
    json_t *event = sl_json_object(line, length);
    const int is_death = strcmp(sl_json_text(event, "kind", ""), "fault") == 0 &&
                         strcmp(sl_json_text(event, "decided", ""), "injected") == 0;
    const int rank = sl_json_count(event, "rank", -1), iteration = sl_json_count(event, "iteration", -1);
    for (int i = 0; i < d->run->faults && is_death; i++) {
        const sl_fault *fault = &d->run->fault[i];
        d->happened[i] |= fault->kill >= 0 && fault->kill == rank && fault->first == iteration;
    }
    json_decref(event);
    return SL_OK;
}

static void read_events(const sl_run *run, const char *folder, char *happened) {
    char path[4096];
    sl_lines lines;
    deaths d = {run, happened};
    snprintf(path, sizeof path, "%s/events.jsonl", folder);
    if (sl_lines_open(path, &lines) == SL_OK)
        (void)sl_lines_step(&lines, SIZE_MAX, mark, NULL, &d);
    sl_lines_close(&lines);
}

sl_status sl_faults_forget(sl_run *run, const char *folder, sl_group *group) {
    char *happened;
    if (run->faults == 0)
        return SL_OK;
    SL_TRY(sl_alloc(&happened, (size_t)run->faults, 1));
    if (sl_group_rank(group) == 0)
        read_events(run, folder, happened);
    sl_status status = sl_group_broadcast(group, 0, happened, (size_t)run->faults);
    for (int i = 0; i < run->faults && status == SL_OK; i++)
        if (happened[i])
            run->fault[i].kill = run->fault[i].first = run->fault[i].end = -1;
    sl_free(happened);
    return status;
}
