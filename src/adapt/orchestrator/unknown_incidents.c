#include "adapt/orchestrator/unknown_incidents.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

#define NEWS 0.02 /* a loss that has moved by less is not told to the ladder again */

struct sl_unknown {
    sl_unknown_job job;
    sl_unknown_incident *incident;
    size_t count, capacity;
    sl_unknown_part *part; /* the slow ones when it was slow last; room for `capacity` */
    size_t part_capacity;
    int parts;
    unsigned refused;
    int applied_iteration, applied_changes; /* when something was carried out last */
    sl_time applied_at;
};

sl_status sl_unknown_open(const sl_unknown_job *job, sl_unknown **unknown) {
    SL_TRY(sl_alloc(unknown, 1, sizeof **unknown));
    (*unknown)->job = *job;
    return SL_OK;
}

void sl_unknown_close(sl_unknown *u) {
    if (!u)
        return;
    sl_free(u->incident);
    sl_free(u->part);
    sl_free(u);
}

sl_unknown_view sl_unknown_seen(const sl_unknown *u) {
    return (sl_unknown_view){.job = &u->job, .part = u->part, .parts = u->parts, .refused = u->refused};
}

const sl_unknown_incident *sl_unknown_incidents(const sl_unknown *u, int *count) {
    *count = (int)u->count;
    return u->incident;
}

static sl_unknown_incident *find(const sl_unknown *u, int id) {
    for (size_t i = 0; i < u->count; i++)
        if (u->incident[i].report.id == id)
            return &u->incident[i];
    return NULL;
}

/* ---- reports ---- */

/* The place of one that is over, or one more. */
static sl_status make_place(sl_unknown *u, sl_unknown_incident **place) {
    for (size_t i = 0; i < u->count; i++)
        if (!u->incident[i].lasts && !u->incident[i].named) {
            *place = &u->incident[i];
            return SL_OK;
        }
    SL_TRY(sl_grow(&u->part, &u->part_capacity, u->count + 1, sizeof *u->part));
    SL_TRY(sl_grow(&u->incident, &u->capacity, u->count + 1, sizeof *u->incident));
    *place = &u->incident[u->count++];
    return SL_OK;
}

sl_status sl_unknown_report(sl_unknown *u, const sl_orchestrator_report *report) {
    sl_unknown_incident *i = find(u, report->id);
    if (report->id < 0)
        return sl_error(SL_EINVAL, "the id %d of what is slow is negative", report->id);
    if (!i && report->over)
        return SL_OK;
    if (!i) {
        SL_TRY(make_place(u, &i));
        *i = (sl_unknown_incident){.place = -1, .strategy = -1};
    }
    i->report = *report;
    i->named = !report->over;
    return SL_OK;
}

/* ---- what the ladder is told ---- */

static double loss_of(const sl_unknown *u, const sl_unknown_incident *i) {
    sl_unknown_view view = sl_unknown_seen(u);
    return i->report.loss >= 0 ? i->report.loss : sl_unknown_loss(&view, i->place);
}

static sl_status begin(sl_unknown_incident *i, sl_ladder *ladder, int iteration, sl_time now, double loss) {
    sl_unknown_part part = {.part = i->report.part, .host = i->report.host};
    sl_incident told = {.id = i->report.id, .cause = (sl_cause)sl_unknown_cause(&part), .loss = loss};
    memcpy(told.seen, i->report.seen, sizeof told.seen);
    i->lasts = 1;
    i->awaited = 0;
    i->strategy = -1;
    i->since = iteration;
    i->loss = loss;
    return sl_ladder_begins(ladder, now, &told);
}

static sl_status change(sl_unknown_incident *i, sl_ladder *ladder, sl_time now, double loss) {
    if (!i->awaited && fabs(loss - i->loss) <= NEWS * fmax(loss, i->loss))
        return SL_OK;
    i->awaited = 0;
    i->loss = loss;
    return sl_ladder_changes(ladder, now, i->report.id, loss);
}

static sl_status relieve(sl_unknown_incident *i, sl_ladder *ladder, sl_time now) {
    i->lasts = i->awaited = 0;
    return sl_ladder_relieved(ladder, now, i->report.id);
}

/* All that is reported is slow. */
static sl_status follow_slow(sl_unknown *u, sl_ladder *ladder, int iteration, sl_time now) {
    int settled = sl_unknown_settled(iteration - u->applied_iteration, now - u->applied_at,
                                     u->job.changes != u->applied_changes);
    u->parts = 0;
    for (size_t k = 0; k < u->count; k++) {
        sl_unknown_incident *i = &u->incident[k];
        i->place = i->named ? u->parts : -1;
        if (i->named)
            u->part[u->parts++] = (sl_unknown_part){.part = i->report.part, .host = i->report.host};
    }
    for (size_t k = 0; k < u->count; k++) {
        sl_unknown_incident *i = &u->incident[k];
        if (i->named && !i->lasts)
            SL_TRY(begin(i, ladder, iteration, now, loss_of(u, i)));
        else if (i->named && (!i->awaited || settled))
            SL_TRY(change(i, ladder, now, loss_of(u, i)));
    }
    for (size_t k = 0; k < u->count; k++)
        if (u->incident[k].lasts && !u->incident[k].named && u->incident[k].strategy < 0)
            SL_TRY(relieve(&u->incident[k], ladder, now));
    return SL_OK;
}

/* Iterations are healthy again. */
static sl_status follow_healthy(sl_unknown *u, sl_ladder *ladder, sl_time now) {
    for (size_t k = 0; k < u->count; k++) {
        sl_unknown_incident *i = &u->incident[k];
        int treated = i->strategy == SL_STRATEGY_BALANCE && (i->awaited || i->loss <= 0);
        i->named = 0;
        if (i->lasts)
            SL_TRY(treated ? change(i, ladder, now, 0) : relieve(i, ladder, now));
    }
    return SL_OK;
}

sl_status sl_unknown_follow(sl_unknown *u, sl_ladder *ladder, int iteration, sl_time now,
                            const sl_unknown_job *job) {
    if (!job)
        return SL_OK;
    double healthy = u->job.healthy, level = u->job.level;
    int was_slow = u->job.slow;
    u->job = *job;
    if (job->slow)
        return follow_slow(u, ladder, iteration, now);
    u->job.healthy = healthy;
    u->job.level = level;
    return was_slow ? follow_healthy(u, ladder, now) : SL_OK;
}

void sl_unknown_carried_out(sl_unknown *u, sl_strategy_kind strategy, int undo, const int *incidents,
                            int count, sl_outcome outcome, int iteration, sl_time now) {
    if (outcome == SL_OUTCOME_REFUSED)
        u->refused |= 1u << strategy;
    if (outcome != SL_OUTCOME_DONE)
        return;
    for (int k = 0; k < count; k++) {
        sl_unknown_incident *i = find(u, incidents[k]);
        if (!i)
            continue;
        i->strategy = undo ? -1 : (int)strategy;
        i->awaited = !undo && i->lasts;
    }
    u->applied_iteration = iteration;
    u->applied_at = now;
    u->applied_changes = u->job.changes;
}

/* ---- what the ladder asks ---- */

double sl_unknown_leaves(const sl_unknown *u, sl_strategy_kind strategy, const sl_incident *incident) {
    const sl_unknown_incident *i = find(u, incident->id);
    sl_unknown_view view = sl_unknown_seen(u);
    double loss = i && i->place >= 0 ? sl_unknown_loss(&view, i->place) : 0;
    if (loss <= 0)
        return incident->loss;
    /* what the ladder believes of the incident may be newer than what was reported last */
    return incident->loss / loss * sl_unknown_remaining(&view, strategy, i->place);
}

void sl_unknown_reason(const sl_unknown *u, sl_strategy_kind strategy, int incident, char *text,
                       size_t size) {
    const sl_unknown_incident *i = find(u, incident);
    sl_unknown_view view = sl_unknown_seen(u);
    text[0] = 0;
    if (i && i->place >= 0)
        sl_unknown_why(&view, strategy, i->place, text, size);
}
