/* Slow components of all replicas as incidents, from onset to relief: named, reported to ladder and user. */
#include "adapt/orchestrator/orchestrator_inside.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEWS 0.2         /* a loss that is off by more is reported to the ladder */
enum { ONSET = 4 };      /* rows in which a component may already be slow before it is seen */
#define WORTH_A_LOOK 0.1 /* a sum must have grown by this share of a healthy iteration */

/* ---- words ---- */

static void name_process(const sl_orchestrator *o, int process, char *text, size_t size) {
    if (o->config.job.replicas > 1)
        snprintf(text, size, "rank %d of replica %d", sl_job_rank(&o->config.job, process),
                 sl_job_replica(&o->config.job, process));
    else
        snprintf(text, size, "rank %d", sl_job_rank(&o->config.job, process));
}

void sl_incident_name(const sl_orchestrator *o, const sl_case *c, char *text, size_t size) {
    const sl_slow_part *part = &c->view.part;
    char a[36], b[36];
    if (part->a < 0) {
        snprintf(text, size, "sum of stage %d", c->view.stage);
        return;
    }
    name_process(o, part->a, a, sizeof a);
    if (part->kind == SL_PART_DEVICE)
        snprintf(text, size, "device of %s", a);
    else if (part->kind == SL_PART_CARD)
        snprintf(text, size, "card of %s", a);
    else {
        int there = part->latency[0] > 0 || part->pace[0] > 0,
            back = part->latency[1] > 0 || part->pace[1] > 0;
        int replica = sl_job_replica(&o->config.job, part->a),
            other = sl_job_replica(&o->config.job, part->b), from = sl_job_rank(&o->config.job, part->a),
            to = sl_job_rank(&o->config.job, part->b);
        if (replica != other) {
            name_process(o, part->b, b, sizeof b);
            if (from == to)
                snprintf(text, size, "link of replicas %d-%d at rank %d", replica, other, from);
            else
                snprintf(text, size, "link of %s and %s", a, b);
            return;
        }
        int turned = back && !there;
        size_t used = (size_t)sl_text_link(text, size, turned ? to : from, turned ? from : to, there && back);
        if (o->config.job.replicas > 1 && used < size)
            snprintf(text + used, size - used, " of replica %d", replica);
    }
}

static void describe(const sl_orchestrator *o, sl_case *c) {
    char name[80];
    if (c->reported)
        return;
    sl_incident_name(o, c, name, sizeof name);
    if (c->view.part.kind == SL_PART_DEVICE)
        sl_text_format(c->view.seen, sizeof c->view.seen, "%s: ops take %.2f times as long", name,
                       c->view.growth);
    else if (c->cause == SL_CAUSE_REPLICA_LINK)
        sl_text_format(c->view.seen, sizeof c->view.seen,
                       "%s: stage %d's sum takes %.2f ms, %.2f ms when healthy", name, c->view.stage,
                       c->now / SL_MS, c->healthy / SL_MS);
    else
        sl_text_format(c->view.seen, sizeof c->view.seen, "%s: a message takes %.2f ms, %.2f ms when healthy",
                       name, c->now / SL_MS, c->healthy / SL_MS);
}

/* ---- seeing ---- */

/* The rows before a slow component is first seen may be slow already: they do not count as healthy. */
static sl_status leave_out_onset(sl_orchestrator *o) {
    int oldest = sl_history_oldest(&o->series), marked = 0;
    for (int i = o->series.rows - ONSET; i < o->series.rows; i++)
        if (i >= oldest && !sl_history_row(&o->series, i)->slow)
            marked = sl_history_row(&o->series, i)->slow = sl_history_row(&o->series, i)->named = 1;
    if (!marked)
        return SL_OK;
    SL_TRY(sl_history_learn(&o->series));
    return sl_losses_renew(o);
}

/* Both directions of a link, or all of a card's. */
static void suspect_links(sl_orchestrator *o, const sl_case *c) {
    for (int other = 0; other < o->config.job.ranks && c->replica >= 0; other++)
        for (int way = 0; way < 2; way++) {
            int card = c->cause == SL_CAUSE_HOST && !c->reported,
                link = c->cause == SL_CAUSE_LINK && other == c->to;
            int mine = card ? c->rank : c->from;
            if ((card || link) && mine >= 0 && other != mine && o->series.suspected_links < SL_CASES_MAX)
                o->series.suspected_link[o->series.suspected_links++] =
                    (struct sl_suspected_link){c->replica, way ? other : mine, way ? mine : other};
        }
}

/* The components that are compared with less doubt, at their present positions. */
static void suspect(sl_orchestrator *o) {
    size_t positions = (size_t)o->config.job.replicas * (size_t)o->config.job.ranks;
    o->series.suspected_links = 0;
    memset(o->series.suspected, 0, positions * sizeof *o->series.suspected);
    for (int i = 0; i < o->case_count; i++) {
        const sl_case *c = &o->cases[i];
        if (!c->seen)
            continue;
        if (c->view.part.kind == SL_PART_DEVICE && !c->reported)
            o->series.suspected[c->replica * o->config.job.ranks + c->rank] = (float)c->level;
        suspect_links(o, c);
    }
}

sl_status sl_incidents_see(sl_orchestrator *o, int *ready) {
    int rows = o->series.rows - o->series.since, least = o->config.hold < 3 ? o->config.hold : 3;
    *ready = 0;
    SL_TRY(sl_losses_learn(o));
    if (o->losses.healthy_time <= 0 || rows < least)
        return SL_OK;
    suspect(o); /* they may have moved */
    SL_TRY(sl_cases_compare(o));
    SL_TRY(sl_losses_open_model(o));
    int begins = 0;
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        c->streak = c->seen ? c->streak + 1 : 0;
        c->level = c->streak <= o->config.hold || c->view.growth < c->level ? c->view.growth : c->level;
        begins |= c->streak == 1;
        describe(o, c);
    }
    suspect(o);
    if (begins)
        SL_TRY(leave_out_onset(o));
    SL_TRY(sl_losses_divide(o));
    *ready = 1;
    return SL_OK;
}

/* ---- reporting ---- */

/* It must cost time: measured against the first iterations; or, if the current setup is better than theirs,
 * by the model. */
static sl_status announce_onset(sl_orchestrator *o, sl_case *c) {
    sl_incident incident = {.id = c->view.id,
                            .cause = c->cause,
                            .loss = c->view.loss,
                            .age = (sl_time)(c->streak * sl_losses_believed(o))};
    double alone = c->excess / sl_losses_believed(o);
    if (!(c->reported || alone >= SL_LOSS_MIN) || !(c->view.loss >= SL_LOSS_MIN || alone >= SL_ITERATION_MIN))
        return SL_OK;
    sl_text_fit(incident.seen, sizeof incident.seen, c->view.seen);
    c->announced = c->view.loss; /* visible to the strategies that are asked */
    sl_status status = sl_ladder_begins(o->ladder, o->now, &incident);
    if (status != SL_OK) {
        c->announced = -1;
        return status;
    }
    c->view.since = o->iteration - c->streak + 1;
    sl_events_onset(o, c);
    return SL_OK;
}

/* A slightly different loss is not reported; the loss after an application is reported once in any case. */
static sl_status announce_loss(sl_orchestrator *o, sl_case *c) {
    double off = fabs(c->view.loss - c->announced);
    if (sl_history_time(&o->series) <= 0) /* not fully measured since the change */
        return SL_OK;
    if (!o->fresh && (off < SL_LOSS_MIN || off < NEWS * fmax(c->announced, c->view.loss)))
        return SL_OK;
    c->announced = c->view.loss;
    return sl_ladder_changes(o->ladder, o->now, c->view.id, c->view.loss);
}

/* Strategies for lasting incidents are asked once one has lasted, and again periodically while it is slow. */
/* A simulation repeats itself: the same questions get the same answers, but for plans past their `dwell`. */
static int asks_the_same(const sl_orchestrator *o) {
    const sl_history *s = &o->series;
    int rows = o->config.hold + 1;
    if (s->rows - rows < s->quiet || !sl_history_repeats(s, rows))
        return 0;
    for (int r = 0; r < s->replicas; r++) {
        int apart = o->iteration - o->side[r].last_swap - o->config.dwell;
        if ((apart >= 0 && apart <= o->config.hold) || o->side[r].changed)
            return 0;
    }
    return 1;
}

static sl_status reconsider(sl_orchestrator *o, sl_case *c) {
    if (c->announced < 0 || !c->seen ||
        (!o->doing.asks_again && (++c->waits < o->config.hold || c->streak < o->config.hold)))
        return SL_OK;
    c->waits = 0;
    if (c->streak > 2 * o->config.hold && asks_the_same(o) && !o->doing.asks_again)
        return SL_OK;
    SL_TRY(sl_ladder_reconsider(o->ladder, o->now, c->view.id));
    c->keeps |= c->streak < 2 * o->config.hold;
    return SL_OK;
}

sl_status sl_incidents_announce(sl_orchestrator *o) {
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        if (c->seen || c->announced < 0)
            continue;
        SL_TRY(sl_ladder_relieved(o->ladder, o->now, c->view.id));
        c->announced = -1;
        if (!c->merged && !c->apart && !sl_cases_is_unused(o, c)) /* otherwise its state is unknown */
            sl_events_relief(o, c);
    }
    sl_cases_drop_unknown(o);
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        if (c->seen)
            SL_TRY(c->announced < 0 ? announce_onset(o, c) : announce_loss(o, c));
    }
    for (int i = 0; i < o->case_count; i++)
        SL_TRY(reconsider(o, &o->cases[i]));
    o->doing.asks_again = 0;
    o->fresh &= sl_history_time(&o->series) <= 0;
    return SL_OK;
}

sl_status sl_incidents_keep(sl_orchestrator *o) {
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        sl_time running, best;
        if (!c->keeps)
            continue;
        if (o->side[c->replica < 0 ? 0 : c->replica].asked != o->iteration) /* its times are earlier ones */
            SL_TRY(sl_plans_ask(o, &running, &best));
        sl_events_keep(o, c);
        c->keeps = 0;
    }
    return SL_OK;
}

/* ---- the network ---- */

int sl_incidents_wants_network(sl_orchestrator *o) {
    int wants = 0, stages = sl_healthy_of(o, 0)->stages;
    for (int stage = 0; stage < stages && o->config.job.replicas > 1 && o->config.looks; stage++) {
        double grown = 0;
        for (size_t i = 0; i < o->lately.count; i++)
            if (o->lately.slow[i].kind == SL_SLOW_SUM && o->lately.slow[i].stage == stage)
                grown = o->lately.slow[i].now - o->lately.slow[i].healthy;
        if (grown < WORTH_A_LOOK * o->losses.healthy_time)
            grown = 0;
        if (grown > 2 * o->network.looked[stage] || grown <= 0) {
            wants |= grown > 0;
            o->network.looked[stage] = grown;
        }
    }
    return wants;
}

/* ---- from outside ---- */

/* The slowdown factor; or extra ns, if only that was reported of a link or card. */
static double growth_of(const sl_slow_part *part) {
    double later = fmax(part->latency[0], part->latency[1]);
    return part->kind == SL_PART_DEVICE || !(later > 0) ? part->slowdown : later;
}

void sl_incidents_note(const sl_orchestrator_report *report, sl_incident_view *view) {
    view->part = report->part;
    view->host = report->host;
    view->growth = growth_of(&report->part);
    sl_text_fit(view->seen, sizeof view->seen, report->seen);
}

sl_status sl_incidents_report(sl_orchestrator *o, const sl_orchestrator_report *r) {
    sl_case *c;
    const sl_job *job = &o->config.job;
    int most = sl_job_processes(job), two = r->part.kind == SL_PART_LINK;
    if (r->id < 0 || r->part.a < 0 || r->part.a >= most || (two && (r->part.b < 0 || r->part.b >= most)))
        return sl_error(SL_EINVAL, "a report on processes %d and %d of %d", r->part.a, r->part.b, most);
    int number;
    SL_TRY(sl_cases_number(o, (sl_component_key){SL_KEY_REPORT, r->id, 0}, -1, &number));
    if (r->over && !sl_cases_by_id(o, number))
        return sl_error(SL_EINVAL, "report %d is not open", r->id);
    SL_TRY(sl_cases_see(o, (sl_component_key){SL_KEY_REPORT, r->id, 0}, &c));
    if (!c)
        return SL_OK;
    int position = sl_job_layout_position(job, &o->layout, r->part.a);
    c->reported = !r->over;
    c->seen = !r->over;
    c->claimed = r->loss;
    c->replica = sl_job_replica(job, position);
    c->rank = sl_job_rank(job, position);
    c->from = c->to = -1;
    sl_incidents_note(r, &c->view);
    c->cause = r->host || r->part.kind == SL_PART_CARD ? SL_CAUSE_HOST
               : r->part.kind == SL_PART_DEVICE        ? SL_CAUSE_DEVICE
                                                       : SL_CAUSE_LINK;
    if (two) {
        int other = sl_job_layout_position(job, &o->layout, r->part.b);
        if (sl_job_replica(job, other) != c->replica)
            c->cause = SL_CAUSE_REPLICA_LINK;
        c->from = c->rank;
        c->to = sl_job_rank(job, other);
        c->rank = -1;
        c->view.stage = c->cause == SL_CAUSE_REPLICA_LINK ? c->from : -1;
    }
    return SL_OK;
}

static int costliest_first(const void *left, const void *right) {
    const sl_incident_view *a = left, *b = right;
    return a->loss != b->loss ? (a->loss < b->loss ? 1 : -1) : (a->id > b->id) - (a->id < b->id);
}

void sl_incidents_sort(sl_incident_view *view, int count) {
    if (count > 1)
        qsort(view, (size_t)count, sizeof *view, costliest_first);
}

void sl_incidents_view(sl_orchestrator *o) {
    o->views = 0;
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].announced >= 0)
            o->view[o->views++] = o->cases[i].view;
    sl_incidents_sort(o->view, o->views);
}
