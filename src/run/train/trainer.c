#include "run/train/trainer.h"
#include "base/json.h"
#include "base/lines.h"
#include "base/median.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/arrange/departure.h"
#include "run/arrange/exchange.h"
#include "run/arrange/faults.h"
#include "run/arrange/path.h"
#include "run/arrange/rearrange.h"
#include "run/arrange/run_events.h"
#include "run/binding/binding.h"
#include "run/train/body.h"
#include "run/train/judge.h"
#include "run/train/setup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEAD (2 * SL_MS) /* from the broadcast of an iteration's begin to that begin */

/* ---- one iteration, on every rank ---- */

static int is_paced(const sl_trainer *t) {
    return t->run->device.pace_ms[SL_F] != NULL;
}

/* By this thread: a ring has one writer. */
static void record_reductions(sl_trainer *t, int iteration) {
    for (int i = 0, stage; (stage = sl_binding_stage_at(t->binding, i)) >= 0; i++) {
        const sl_reduction *r = &t->reduction[i];
        if (r->end == 0)
            continue;
        sl_record record = {.kind = SL_RECORD_REDUCE,
                            .op = SL_REDUCE,
                            .iteration = iteration,
                            .rank = t->rank,
                            .peer = -1,
                            .stage = stage,
                            .microbatch = -1,
                            .start = r->start,
                            .end = r->end,
                            .arrive = r->end};
        sl_record_write(t->ring, t->ring->capacity, &record);
    }
}

static int is_warned(const sl_trainer *t) {
    return t->place->warned && t->place->warned();
}

static sl_status run_iteration(sl_trainer *t, int iteration, sl_time begin) {
    sl_engine_result result;
    sl_faults_apply(t, iteration);
    sl_binding_begin(t->binding, iteration);
    SL_TRY(sl_engine_run(t->engine, (uint32_t)iteration, begin, &result));
    SL_TRY(sl_binding_reduce(t->binding, t->reduction));
    sl_rank_report mine = {.ops = result.ops, .overruns = result.overruns};
    record_reductions(t, iteration);
    t->moves += result.moves;
    int losses = sl_binding_losses(t->binding, (double *)(void *)(t->report + sizeof mine));
    t->report_bytes = sizeof mine + (size_t)losses * sizeof(double);
    SL_TRY(sl_binding_join(t->binding));
    if (iteration < t->run->dump_gradients)
        SL_TRY(sl_gradients_write(t->binding, sl_trainer_leads(t), t->folder, iteration));
    SL_TRY(sl_binding_clip(t->binding));
    mine.end = sl_clock_now(t->clock);
    mine.warned = is_warned(t);
    memcpy(t->report, &mine, sizeof mine);
    return SL_OK;
}

/* All ranks get `begin`, and whether there is another iteration, from the same broadcast; a rank on another
 * host translates the time to its own clock. */
static sl_status begin_iteration(sl_trainer *t, sl_time *begin) {
    sl_time *begins;
    SL_TRY(sl_alloc(&begins, (size_t)t->world + 1, sizeof *begins));
    if (sl_trainer_leads(t)) {
        sl_time now = sl_clock_now(t->clock) + LEAD;
        for (int r = 0; r < t->world; r++)
            begins[r] = now + t->clocks[r].offset;
        t->warned |= is_warned(t);
        begins[t->world] = (t->warned != 0) | (sl_network_profile_due(t) ? 2 : 0);
    }
    sl_status status =
        sl_group_broadcast(t->groups.world, t->leader, begins, ((size_t)t->world + 1) * sizeof *begins);
    *begin = begins[t->world_rank];
    t->leaves = begins[t->world] & 1;
    t->profiles = (begins[t->world] & 2) != 0;
    sl_free(begins);
    return status;
}

static sl_status gather_records(sl_trainer *t) {
    sl_rank_reports *g = &t->gathered;
    size_t read =
        sl_record_read(t->ring, t->ring->capacity, &t->position, t->records, t->record_capacity, &t->lost);
    if (t->lost > 0)
        return sl_error(SL_ESYS, "%llu records of rank %d were lost", (unsigned long long)t->lost,
                        t->world_rank);
    SL_TRY(sl_group_gather(t->groups.world, t->leader, t->report, t->report_bytes, g->reports,
                           g->reports_capacity, g->report_bytes));
    return sl_group_gather(t->groups.world, t->leader, t->records, read * sizeof *t->records, g->records,
                           g->records_capacity * sizeof *g->records, g->record_bytes);
}

static sl_time median_time(const sl_time *values, int count) {
    sl_time sorted[64];
    memcpy(sorted, values, (size_t)count * sizeof *values);
    return sl_median(sorted, count);
}

static sl_status one_iteration(sl_trainer *t, int iteration) {
    sl_time begin;
    int suspect = t->pending.phase == SL_PHASE_SLOW || t->pending.phase == SL_PHASE_DELEGATED ||
                  t->pending.phase == SL_PHASE_ADAPTED; /* known to the leader */
    SL_TRY(sl_exchange_clocks(t->groups.world, t->leader, t->clock, t->remote, suspect, t->clocks));
    SL_TRY(begin_iteration(t, &begin));
    if (sl_trainer_leads(t))
        SL_TRY(sl_run_events_flush(t, begin));
    if (t->leaves)
        return SL_OK;
    if (sl_trainer_leads(t))
        SL_TRY(sl_faults_write(t, iteration));
    SL_TRY(run_iteration(t, iteration, begin));
    SL_TRY(gather_records(t));
    if (sl_trainer_leads(t))
        SL_TRY(sl_judge(t, iteration, begin));
    SL_TRY(sl_path_news(t, iteration));
    int every = t->run->validate_every;
    if (every > 0 && (iteration + 1) % every == 0 && iteration + 1 < t->run->iterations)
        SL_TRY(sl_binding_validate(t->binding, &t->pending.validation));
    SL_TRY(sl_body_act(t, iteration));
    if (t->profiles && !t->departed && iteration + 1 < t->run->iterations)
        SL_TRY(sl_body_look(t, iteration + 1));
    return t->departed ? SL_OK : sl_saving_step(t->saving, iteration + 1, t->journal, t->started);
}

/* ---- beginning and end ---- */

static sl_time longest_plan(const sl_trainer *t) {
    sl_time longest = 0;
    for (int r = 0; r < t->run->parallel.data; r++)
        if (t->replica[r].plan.makespan > longest)
            longest = t->replica[r].plan.makespan;
    return longest;
}

/* Slowest and fastest link of the ping test, for a message of the run's size. */
static void describe_links(const sl_trainer *t, char *text, size_t size) {
    const sl_ping_link *slow = NULL, *fast = NULL;
    double bytes = t->message_bytes;
    for (int at = 0; at < t->ranks * t->ranks; at++) {
        const sl_ping_link *link = &t->ping[at];
        if (link->rounds == 0)
            continue;
        slow = !slow || sl_ping_time(link, bytes) > sl_ping_time(slow, bytes) ? link : slow;
        fast = !fast || sl_ping_time(link, bytes) < sl_ping_time(fast, bytes) ? link : fast;
    }
    if (!slow)
        return;
    int at = (int)(slow - t->ping);
    snprintf(text, size,
             "a message of %.3g MB takes %.3g ms on the slowest link (%d to %d), %.3g ms on the fastest",
             bytes / 1e6, sl_to_ms(sl_ping_time(slow, bytes)), at / t->ranks, at % t->ranks,
             sl_to_ms(sl_ping_time(fast, bytes)));
}

/* Measures the links as the first iteration will find them; done before it begins. */
static sl_status ping(sl_trainer *t, int first) {
    if (t->ranks == 1)
        return SL_OK;
    sl_faults_emulate(t, first);
    SL_TRY(sl_exchange_clocks(t->groups.world, t->leader, t->clock, t->remote, 0, t->clocks));
    return sl_ping_all(t->run, &t->groups, t->transport, t->clock, t->message_bytes, t->clocks, t->ping);
}

static sl_status write_start(sl_trainer *t) {
    const struct {
        const char *words;
        int count;
    } parts[] = {{"replicas", t->run->parallel.data}, {"tensor ranks", t->run->parallel.tensor}};
    if (!sl_trainer_leads(t))
        return SL_OK;
    sl_event event = {.kind = SL_EVENT_START, .iteration = t->resume.first, .from = -1, .to = -1, .rank = -1};
    sl_text_format(event.decided, sizeof event.decided,
                   "schedule %.60s, predicted %.2f ms of ops an iteration", t->schedule,
                   sl_to_ms(longest_plan(t)));
    sl_text_format(event.seen, sizeof event.seen, "%d ranks, %s, communication thread %s", t->world,
                   sl_binding_isa(t->binding), t->transport ? sl_transport_scheduling(t->transport) : "none");
    describe_links(t, event.why, sizeof event.why);
    SL_TRY(sl_journal_profile(t->journal, t->ping, t->message_bytes, is_paced(t)));
    char more[160] = "";
    size_t at = 0;
    for (int i = 0; i < 2; i++)
        if (parts[i].count > 1)
            at += (size_t)snprintf(more + at, sizeof more - at, ", %d %s", parts[i].count, parts[i].words);
    if (t->problem.placement != SL_LINEAR)
        snprintf(more + at, sizeof more - at, ", %d stages (%s)", t->problem.stages,
                 sl_placement_name(t->problem.placement));
    sl_progress_say(t->progress, "slackline: %d pipeline ranks%s, %d microbatches, schedule %s", t->ranks,
                    more, t->run->batch.microbatches, t->schedule);
    if (event.why[0])
        sl_progress_say(t->progress, "%s", event.why);
    return sl_journal_event(t->journal, &event);
}

/* Of every rank: the peak use of its arena (all[3 * world]), and the predicted one. */
static sl_status list_peaks(const sl_trainer *t, const long *all, sl_summary *s) {
    SL_TRY(sl_alloc(&s->peak, (size_t)t->world, sizeof *s->peak));
    for (int w = 0; w < t->world; w++) {
        sl_run_position seat = sl_run_seat(t->run, w);
        const sl_trainer_replica *r = &t->replica[seat.replica];
        double now = r->ran ? r->peak[seat.pipeline] : 0, before = r->peak_before[seat.pipeline];
        s->peak[w] = (sl_peak){.pipeline = seat.pipeline,
                               .replica = seat.replica,
                               .tensor = seat.tensor,
                               .measured = all[3 * w],
                               .predicted = now > before ? now : before};
    }
    s->peaks = t->world;
    return SL_OK;
}

static sl_status finish(sl_trainer *t) {
    static const char *const regimes[] = {"decoupled", "inorder", "batched"};
    sl_summary s = {.scheduling = t->transport ? sl_transport_scheduling(t->transport) : "none",
                    .isa = sl_binding_isa(t->binding),
                    .regime = regimes[t->problem.communication],
                    .arrivals = &t->arrivals,
                    .ops = t->ops,
                    .overruns = t->overruns,
                    .swaps = t->swaps,
                    .byte_entropy = sl_binding_entropy(t->binding)};
    if (sl_trainer_leads(t))
        SL_TRY(sl_run_events_flush(t, sl_clock_now(t->clock)));
    sl_progress_end(t->progress);
    SL_TRY(sl_saving_finish(t->saving, t->run->iterations, t->journal, t->started));
    const long mine[3] = {(long)sl_binding_peak(t->binding), (long)sl_binding_host_peak(t->binding),
                          t->moves};
    long *all;
    SL_TRY(sl_binding_validate(t->binding, &s.validation));
    SL_TRY(sl_binding_hash(t->binding, &s.weights_hash));
    SL_TRY(sl_alloc(&all, 3 * (size_t)t->world, sizeof *all));
    sl_status status = sl_group_gather(t->groups.world, t->leader, mine, sizeof mine, all,
                                       (size_t)t->world * sizeof mine, NULL);
    for (int r = 0; r < t->world; r++) {
        s.memory_peak = all[3 * r] > s.memory_peak ? all[3 * r] : s.memory_peak;
        s.host_peak = all[3 * r + 1] > s.host_peak ? all[3 * r + 1] : s.host_peak;
        s.moves += all[3 * r + 2];
    }
    if (status == SL_OK && sl_trainer_leads(t))
        status = list_peaks(t, all, &s);
    sl_free(all);
    SL_TRY(status);
    if (!sl_trainer_leads(t))
        return SL_OK;
    const sl_trainer_replica *slowest = &t->replica[sl_journal_slowest(t->journal)];
    s.program = slowest->ran ? slowest->program : NULL;
    s.schedule = slowest->schedule;
    s.path_cost = t->path_settled > 0 ? t->path_cost : -1;
    s.swap_cost = t->swaps ? median_time(t->swap_cost, t->swaps < 64 ? t->swaps : 64) : -1;
    s.seconds = (double)(sl_clock_now(t->clock) - t->started) / 1e9;
    sl_event event = {.kind = SL_EVENT_END,
                      .time = sl_clock_now(t->clock) - t->started,
                      .iteration = t->run->iterations,
                      .from = -1,
                      .to = -1,
                      .rank = -1};
    status = sl_journal_event(t->journal, &event);
    SL_THEN(status, sl_journal_finish(t->journal, &s, stdout));
    sl_free(s.peak);
    return status;
}

/* `done` iterations are complete, the remaining ones are skipped. */
static sl_status leave(sl_trainer *t, int done) {
    *t->place->left = 1 + done;
    if (done > t->resume.first)
        SL_TRY(sl_saving_finish(t->saving, done, t->journal, t->started));
    if (!sl_trainer_leads(t))
        return SL_OK;
    sl_event event = {.kind = SL_EVENT_WARNED,
                      .time = sl_clock_now(t->clock) - t->started,
                      .iteration = done,
                      .from = -1,
                      .to = -1,
                      .rank = -1};
    sl_text_format(event.decided, sizeof event.decided, "the run ends after %d of %d iterations", done,
                   t->run->iterations);
    return sl_journal_event(t->journal, &event);
}

/* With several pipelines a world rank alone is not informative: its place is prepended to the reason. */
static sl_status name_place(const sl_trainer *t, sl_status status) {
    char text[448];
    const sl_run_position *seat = &t->groups.seat;
    if (status == SL_OK || t->run->parallel.data * t->run->parallel.tensor == 1)
        return status;
    snprintf(text, sizeof text, "%s", sl_error_text());
    if (t->run->parallel.tensor == 1)
        return sl_error(status, "(pipeline rank %d, replica %d) %s", seat->pipeline, seat->replica, text);
    return sl_error(status, "(pipeline rank %d, replica %d, tensor rank %d) %s", seat->pipeline,
                    seat->replica, seat->tensor, text);
}

/* Applies the run file's arrangements. After a restart every process is in its home seat, but microbatches
 * are divided as before: another split would change bits. */
static sl_status arrange(sl_trainer *t, int iteration) {
    sl_arrangement next = {.why = "the run file says so"};
    sl_rearranged took;
    for (int i = 0; i < t->run->arrangements; i++) {
        const sl_run_arrangement *a = &t->run->arrangement[i];
        if (a->iteration == iteration && a->seat)
            next.home = a->seat;
        if ((a->iteration == iteration || (a->iteration < iteration && iteration == t->resume.first)) &&
            a->split)
            next.split = a->split;
    }
    if (!next.home && !next.split)
        return SL_OK;
    SL_TRY(sl_rearrange(t, iteration, sl_trainer_leads(t) ? &next : NULL, &took));
    return took.whole > 0 ? sl_body_moved(t) : SL_OK;
}

sl_status sl_train(const sl_run *run, const sl_run_site *place, sl_group *world) {
    sl_trainer t = {.origin = world,
                    .folder = place->folder,
                    .place = place,
                    .world = sl_group_size(world),
                    .world_rank = sl_group_rank(world),
                    .clock = sl_clock_real()};
    const sl_time begin = sl_clock_now(t.clock);
    sl_status status = sl_trainer_take_run(&t, run);
    SL_THEN(status, sl_groups_open(t.run, world, t.leader, &t.groups));
    SL_THEN(status, sl_departure_open(&t));
    SL_THEN(status, sl_trainer_open(&t));
    t.opened = sl_clock_now(t.clock) - begin;
    if (status == SL_OK && sl_trainer_leads(&t))
        status = sl_body_open(&t);
    SL_THEN(status, ping(&t, t.resume.first));
    t.started = sl_clock_now(t.clock);
    SL_THEN(status, write_start(&t));
    int iteration = t.resume.first;
    if (status == SL_OK && run->adaptation.profile_every_s > 0 && iteration < run->iterations)
        status = sl_body_look(&t, iteration);
    for (; iteration < run->iterations && status == SL_OK && !t.leaves && !t.departed; iteration++) {
        status = sl_departure_step(&t, iteration);
        if (t.departed)
            break;
        SL_THEN(status, arrange(&t, iteration));
        SL_THEN(status, one_iteration(&t, iteration));
    }
    if (status == SL_OK && !t.departed)
        status = t.leaves ? leave(&t, iteration - 1) : finish(&t);
    status = name_place(&t, status);
    sl_departure_close(&t);
    sl_trainer_close(&t);
    return status;
}

typedef struct deaths {
    const sl_run *run;
    char *fired; /* [faults] */
} deaths;

static sl_status mark(void *context, const char *line, size_t length) {
    const deaths *d = context;
    json_t *event = sl_json_object(line, length);
    const int is_death = strcmp(sl_json_text(event, "kind", ""), "fault") == 0 &&
                         strcmp(sl_json_text(event, "decided", ""), "injected") == 0;
    const int rank = sl_json_count(event, "rank", -1), iteration = sl_json_count(event, "iteration", -1);
    for (int i = 0; i < d->run->faults && is_death; i++) {
        const sl_fault *fault = &d->run->fault[i];
        d->fired[i] |= fault->kill >= 0 && fault->kill == rank && fault->first == iteration;
    }
    json_decref(event);
    return SL_OK;
}

static void read_events(const sl_run *run, const char *folder, char *fired) {
    char path[4096];
    sl_lines lines;
    deaths d = {run, fired};
    snprintf(path, sizeof path, "%s/events.jsonl", folder);
    if (sl_lines_open(path, &lines) == SL_OK)
        (void)sl_lines_step(&lines, SIZE_MAX, mark, NULL, &d);
    sl_lines_close(&lines);
}

sl_status sl_fired_forget(sl_run *run, const char *folder, sl_group *group) {
    char *fired;
    if (run->faults == 0)
        return SL_OK;
    SL_TRY(sl_alloc(&fired, (size_t)run->faults, 1));
    if (sl_group_rank(group) == 0)
        read_events(run, folder, fired);
    sl_status status = sl_group_broadcast(group, 0, fired, (size_t)run->faults);
    for (int i = 0; i < run->faults && status == SL_OK; i++)
        if (fired[i])
            run->fault[i].kill = run->fault[i].first = run->fault[i].end = -1;
    sl_free(fired);
    return status;
}
