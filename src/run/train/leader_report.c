#include "run/train/leader_report.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/arrange/path.h"
#include "run/arrange/planning.h"
#include "run/arrange/rank_open.h"
#include "run/train/assess.h"
#include "run/train/body.h"

#include <stdio.h>

/* ---- start ---- */

static sl_time longest_plan(const sl_trainer *t) {
    const sl_replica_plan *plans = sl_planning_plans(t);
    sl_time longest = 0;
    for (int r = 0; r < t->run->parallel.data; r++)
        if (plans[r].plan.makespan > longest)
            longest = plans[r].plan.makespan;
    return longest;
}

/* Slowest and fastest link of the ping test, for a message of the run's size. */
static void describe_links(const sl_trainer *t, const sl_ping_link *ping, char *text, size_t size) {
    const sl_ping_link *slow = NULL, *fast = NULL;
    double bytes = t->message_bytes;
    for (int at = 0; at < t->ranks * t->ranks; at++) {
        const sl_ping_link *link = &ping[at];
        if (link->rounds == 0)
            continue;
        slow = !slow || sl_ping_time(link, bytes) > sl_ping_time(slow, bytes) ? link : slow;
        fast = !fast || sl_ping_time(link, bytes) < sl_ping_time(fast, bytes) ? link : fast;
    }
    if (!slow)
        return;
    int at = (int)(slow - ping);
    snprintf(text, size,
             "a message of %.3g MB takes %.3g ms on the slowest link (%d -> %d), %.3g ms on the fastest",
             bytes / 1e6, sl_to_ms(sl_ping_time(slow, bytes)), at / t->ranks, at % t->ranks,
             sl_to_ms(sl_ping_time(fast, bytes)));
}

sl_status sl_leader_report_start(const sl_leader *l, const sl_ping_link *ping) {
    const sl_trainer *t = l->t;
    const struct {
        const char *words;
        int count;
    } parts[] = {{"replicas", t->run->parallel.data}, {"tensor ranks", t->run->parallel.tensor}};
    sl_journal *journal = sl_run_log_journal(t->log);
    sl_progress *progress = sl_run_log_progress(t->log);
    sl_event event = sl_event_of(SL_EVENT_START, 0, t->first);
    sl_run_log_start(t->log);
    sl_text_format(event.decided, sizeof event.decided,
                   "schedule %.60s, predicted %.2f ms of ops per iteration", l->schedule,
                   sl_to_ms(longest_plan(t)));
    sl_text_format(event.seen, sizeof event.seen, "%d ranks, %s, communication thread %s", t->world,
                   sl_binding_isa(t->binding), sl_rank_state_scheduling(t));
    describe_links(t, ping, event.why, sizeof event.why);
    SL_TRY(sl_journal_profile(journal, ping, t->message_bytes, sl_leader_is_paced(l)));
    char more[160] = "";
    size_t at = 0;
    for (int i = 0; i < 2; i++)
        if (parts[i].count > 1)
            at += (size_t)snprintf(more + at, sizeof more - at, ", %d %s", parts[i].count, parts[i].words);
    if (t->run->parallel.placement != SL_LINEAR)
        snprintf(more + at, sizeof more - at, ", %d stages (%s)", t->run->parallel.stages,
                 sl_placement_name((sl_placement)t->run->parallel.placement));
    sl_progress_say(progress, "slackline: %d pipeline ranks%s, %d microbatches, schedule %s", t->ranks, more,
                    t->run->batch.microbatches, l->schedule);
    if (event.why[0])
        sl_progress_say(progress, "%s", event.why);
    return sl_journal_event(journal, &event);
}

/* ---- end ---- */

/* Of every rank: the peak use of its arena, and the predicted one. */
static sl_status list_peaks(const sl_leader *l, const long *peaks, sl_summary *s) {
    const sl_trainer *t = l->t;
    SL_TRY(sl_alloc(&s->peak, (size_t)t->world, sizeof *s->peak));
    for (int w = 0; w < t->world; w++) {
        sl_run_position position = sl_run_position_of(t->run, w);
        const sl_leader_replica *r = &l->replica[position.replica];
        double now = r->ran ? r->peak[position.pipeline] : 0, before = r->peak_before[position.pipeline];
        s->peak[w] = (sl_peak){.pipeline = position.pipeline,
                               .replica = position.replica,
                               .tensor = position.tensor,
                               .measured = peaks[3 * w],
                               .predicted = now > before ? now : before};
        s->memory_peak = peaks[3 * w] > s->memory_peak ? peaks[3 * w] : s->memory_peak;
        s->host_peak = peaks[3 * w + 1] > s->host_peak ? peaks[3 * w + 1] : s->host_peak;
        s->moves += peaks[3 * w + 2];
    }
    s->peaks = t->world;
    return SL_OK;
}

sl_status sl_leader_report_end(const sl_leader *l, const long *peaks, sl_summary *s) {
    const sl_trainer *t = l->t;
    sl_journal *journal = sl_run_log_journal(t->log);
    const int slowest = sl_journal_slowest(journal);
    const sl_replica_plan *plans = sl_planning_plans(t);
    sl_event event = sl_event_of(SL_EVENT_END, 0, t->run->iterations);
    SL_TRY(list_peaks(l, peaks, s));
    s->scheduling = sl_rank_state_scheduling(t);
    s->isa = sl_binding_isa(t->binding);
    s->regime = sl_regime_names[plans[0].problem.communication];
    s->byte_entropy = sl_binding_entropy(t->binding);
    s->program = l->replica[slowest].ran ? l->replica[slowest].program : NULL;
    s->schedule = l->replica[slowest].schedule;
    s->path_cost = sl_path_cost(t);
    s->swaps = sl_body_swaps(l, &s->swap_cost);
    sl_assess_sum(l, s);
    s->seconds = (double)sl_run_log_time(t->log, sl_clock_now(t->clock)) / 1e9;
    sl_status status = sl_run_log_write(t->log, &event);
    SL_THEN(status, sl_journal_finish(journal, s, stdout));
    sl_free(s->peak);
    return status;
}

sl_status sl_leader_report_warned(const sl_leader *l, int done) {
    char decided[128];
    snprintf(decided, sizeof decided, "the run ends after %d of %d iterations", done, l->t->run->iterations);
    return sl_run_log_report(l->t->log, SL_EVENT_WARNED, done, "", decided, "");
}
