#include "adapt/orchestrator/measured.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/timing/profile.h"
#include "plan/timing/wire_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WITHOUT_LONGEST 4 /* from this many values on the longest, perhaps an interruption, is left out */

static sl_status make(const sl_problem *problem, sl_measured **measured) {
    sl_measured *m;
    size_t stages = (size_t)problem->stages, ranks = (size_t)problem->ranks;
    SL_TRY(sl_alloc(measured, 1, sizeof **measured));
    m = *measured;
    m->references = 1;
    SL_TRY(sl_problem_copy(problem, &m->problem));
    SL_TRY(sl_alloc(&m->op, SL_OP_KINDS * stages, sizeof *m->op));
    SL_TRY(sl_alloc(&m->link, ranks * ranks, sizeof *m->link));
    return sl_alloc(&m->summed, stages, 1);
}

sl_measured *sl_measured_keep(sl_measured *measured) {
    if (measured)
        measured->references++;
    return measured;
}

void sl_measured_drop(sl_measured *m) {
    if (!m || --m->references > 0)
        return;
    sl_problem_free(&m->problem);
    sl_free(m->op);
    sl_free(m->link);
    sl_free(m->summed);
    sl_free(m);
}

/* ---- from records ---- */

/* One op or message. */
typedef struct level_sample {
    int at, part;
    double time, work;
} level_sample;

static int by_op_and_time(const void *left, const void *right) {
    const level_sample *a = left, *b = right;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->time < b->time ? -1 : a->time > b->time;
}

/* The line through time and work, as sums around the means. */
static void add_work(const level_sample *s, int count, sl_level *level) {
    double work = 0, time = 0;
    for (int i = 0; i < count; i++)
        if (s[i].work > 0) {
            level->worked++;
            work += s[i].work;
            time += s[i].time;
        }
    if (!level->worked)
        return;
    work /= level->worked;
    time /= level->worked;
    for (int i = 0; i < count; i++)
        if (s[i].work > 0) {
            level->span += (s[i].work - work) * (s[i].work - work);
            level->slope += (s[i].work - work) * (s[i].time - time);
        }
    level->work = work;
}

/* From sorted samples of ops: the parts of one op count together. */
static sl_level op_level(const level_sample *s, int count) {
    sl_level level = {0};
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += s[i].time;
        level.count += s[i].part == 0;
    }
    if (level.count == count)
        add_work(s, count, &level);
    if (level.count == count && count >= WITHOUT_LONGEST && !level.worked)
        level.time = (sum - s[count - 1].time) / (count - 1);
    else
        level.time = level.count ? sum / level.count : 0;
    return level;
}

static double middle_of(const level_sample *s, int count) {
    return count % 2 ? s[count / 2].time : (s[count / 2 - 1].time + s[count / 2].time) / 2;
}

/* At mean work, from the median around the line. */
static sl_level link_level(level_sample *s, int count) {
    sl_level level = {.count = count, .time = middle_of(s, count)};
    add_work(s, count, &level);
    if (level.worked < count || !(level.span > 0))
        return level;
    for (int i = 0; i < count; i++)
        s[i].time -= fmax(0, level.slope / level.span) * (s[i].work - level.work);
    qsort(s, (size_t)count, sizeof *s, by_op_and_time);
    level.time = middle_of(s, count);
    return level;
}

static void fill(level_sample *s, int count, sl_level *level, int links) {
    if (count > 1)
        qsort(s, (size_t)count, sizeof *s, by_op_and_time);
    for (int first = 0, last; first < count; first = last) {
        for (last = first; last < count && s[last].at == s[first].at; last++)
            ;
        level[s[first].at] = links ? link_level(s + first, last - first) : op_level(s + first, last - first);
    }
}

/* The time an op of a pair would take alone: its span times its planned time over the pair's. */
static double alone(const sl_problem *expected, const sl_timeline *t, int i) {
    const sl_span *span = &t->span[i];
    double time = (double)(span->end - span->start);
    int first = span->op.paired, second = i > 0 && t->span[i - 1].op.paired;
    if (!first && !second)
        return time;
    const sl_op *forward = &t->span[first ? i : i - 1].op, *backward = &t->span[first ? i + 1 : i].op;
    sl_time pair = sl_problem_pair_time(expected, forward->stage, backward->stage);
    return pair > 0 ? time * (double)expected->time[span->op.kind][span->op.stage] / (double)pair : time;
}

static sl_status fill_levels(const sl_problem *expected, const sl_timeline *t, const double *op_work,
                             const double *message_work, sl_measured *m) {
    level_sample *s;
    sl_time *wait = NULL;
    int most = t->spans > t->transfers ? t->spans : t->transfers;
    SL_TRY(sl_alloc(&s, (size_t)most, sizeof *s));
    sl_status status = sl_alloc(&wait, (size_t)t->transfers, sizeof *wait);
    SL_THEN(status, sl_wire_fit_links(t, NULL, wait));
    if (status != SL_OK) {
        SL_FREE(s, wait);
        return status;
    }
    for (int i = 0; i < t->spans; i++)
        s[i] = (level_sample){.at = t->span[i].op.kind * expected->stages + t->span[i].op.stage,
                              .part = t->span[i].op.part,
                              .time = alone(expected, t, i),
                              .work = op_work ? op_work[i] : 0};
    fill(s, t->spans, m->op, 0);
    for (int i = 0; i < t->transfers; i++) {
        const sl_transfer *message = &t->transfer[i];
        sl_time time = message->arrive - message->start - wait[i];
        s[i] = (level_sample){.at = message->from * expected->ranks + message->to,
                              .time = time > 0 ? (double)time : 0,
                              .work = message_work ? message_work[i] : 0};
    }
    fill(s, t->transfers, m->link, 1);
    SL_FREE(s, wait);
    return SL_OK;
}

sl_status sl_measured_make(const sl_problem *expected, const sl_timeline *timeline, const double *op_work,
                           const double *message_work, sl_measured **measured) {
    sl_measured *m = NULL;
    *measured = NULL;
    sl_status status = make(expected, &m);
    SL_THEN(status, sl_profile(timeline, &m->problem));
    SL_THEN(status, fill_levels(expected, timeline, op_work, message_work, m));
    if (status == SL_OK)
        *measured = m;
    else
        sl_measured_drop(m);
    return status;
}

sl_status sl_measured_of_problem(const sl_problem *problem, sl_measured **measured) {
    sl_measured *m = NULL;
    *measured = NULL;
    sl_status status = make(problem, &m);
    if (status != SL_OK) {
        sl_measured_drop(m);
        return status;
    }
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        for (int stage = 0; stage < problem->stages; stage++)
            m->op[kind * problem->stages + stage] = (sl_level){
                .count = kind == SL_B || problem->time[kind][stage] <= 0 ? 0 : problem->microbatches,
                .time = (double)problem->time[kind][stage]};
    for (int stage = 0; stage < problem->stages; stage++) {
        int next = sl_problem_next(problem, stage);
        int from = sl_problem_rank(problem, stage), to = next < 0 ? from : sl_problem_rank(problem, next);
        m->summed[stage] = 1;
        for (int way = 0; way < 2 && from != to; way++) {
            int at = way ? to * problem->ranks + from : from * problem->ranks + to;
            const sl_link *link = &problem->link[at];
            m->link[at] =
                (sl_level){.count = problem->microbatches, .time = (double)(link->latency + link->transfer)};
        }
    }
    *measured = m;
    return SL_OK;
}
