#include "report/analysis.h"
#include "base/memory.h"
#include "plan/draw/page_data.h"
#include "plan/lower/program.h"
#include "plan/timing/profile.h"
#include "plan/timing/replay.h"

#include <stdlib.h>

void sl_analysis_free(sl_analysis *r) {
    sl_timeline_free(&r->measured);
    sl_timeline_free(&r->predicted);
    sl_problem_free(&r->problem);
    sl_program_free(&r->program);
    SL_FREE(r->cause, r->predicted_cause);
    sl_highlight_free(&r->measured_path);
    sl_highlight_free(&r->predicted_path);
    *r = (sl_analysis){0};
}

/* Keeps the reason; only lack of memory ends the report. */
static sl_status give_up(sl_analysis *r, sl_status status) {
    if (status != SL_OK)
        snprintf(r->why_not, sizeof r->why_not, "%s", sl_error_text());
    return status == SL_ENOMEM ? status : SL_OK;
}

/* ---- the program that ran ---- */

/* F and B with equal times are one overlapped block. */
static sl_status order_of(const sl_timeline *t, sl_order *order) {
    SL_TRY(sl_order_make(t->ranks, t->spans, order));
    for (int i = 0; i < t->spans; i++) {
        const sl_span *span = &t->span[i], *next = i + 1 < t->spans ? &t->span[i + 1] : span;
        sl_op op = span->op;
        op.paired = op.kind == SL_F && next->op.kind == SL_B && next->rank == span->rank &&
                    next->start == span->start && next->end == span->end && span->end > span->start;
        order->ops[span->rank][order->count[span->rank]++] = op;
    }
    return SL_OK;
}

static sl_status shape_of(const sl_run_data *data, const sl_timeline *t, sl_analysis *r) {
    int most = 0, stage = 0;
    if (!data->has_problem)
        return sl_error(SL_EINVAL, "there is no profile.yaml");
    for (int i = 0; i < t->spans; i++) {
        most = t->span[i].op.microbatch > most ? t->span[i].op.microbatch : most;
        stage = t->span[i].op.stage > stage ? t->span[i].op.stage : stage;
    }
    if (data->problem.ranks != t->ranks || stage >= data->problem.stages)
        return sl_error(SL_EINVAL, "profile.yaml has other ranks or stages");
    for (int i = 0; i < t->collectives; i++)
        if (t->collective[i].op.stage >= data->problem.stages)
            return sl_error(SL_EINVAL, "profile.yaml has other stages");
    SL_TRY(sl_problem_copy(&data->problem, &r->problem));
    r->problem.microbatches = most + 1;
    return SL_OK;
}

static int compare_messages(const sl_transfer *t, int from, int to, const sl_op *op) {
    const int one[] = {t->from, t->to, t->op.kind, t->op.stage, t->op.microbatch},
              two[] = {from, to, op->kind, op->stage, op->microbatch};
    for (int i = 0; i < 5; i++)
        if (one[i] != two[i])
            return one[i] < two[i] ? -1 : 1;
    return 0;
}

static int compare_transfers(const void *a, const void *b) {
    const sl_transfer *y = b;
    return compare_messages(a, y->from, y->to, &y->op);
}

/* Orders transfers by message. One that took no time was not recorded: it happens when it is produced. */
static sl_status align_transfers(sl_analysis *r, const int *first) {
    const sl_program *p = &r->program;
    sl_timeline *t = &r->measured;
    sl_transfer *aligned;
    SL_TRY(sl_alloc(&aligned, (size_t)p->messages, sizeof *aligned));
    if (t->transfers > 0)
        qsort(t->transfer, (size_t)t->transfers, sizeof *t->transfer, compare_transfers);
    for (int i = 0; i < p->messages; i++) {
        const sl_message *m = &p->message[i];
        const sl_time made = t->span[first[m->from] + m->producer].end;
        sl_transfer key = {.from = m->from, .to = m->to, .op = m->op};
        const sl_transfer *found =
            t->transfers > 0 ? bsearch(&key, t->transfer, (size_t)t->transfers, sizeof key, compare_transfers)
                             : NULL;
        aligned[i] = found ? *found : (sl_transfer){m->from, m->to, m->op, made, made, made};
    }
    sl_free(t->transfer);
    t->transfer = aligned;
    t->transfers = p->messages;
    return SL_OK;
}

/* ---- causes of measured ops ---- */

static sl_time time_of_cause(const sl_timeline *t, int32_t cause) {
    if (cause == SL_NO_CAUSE)
        return -1;
    return cause < 0 ? t->transfer[-1 - cause].arrive : t->span[cause].end;
}

/* The later of the previous op and the consumed message; a rank's first op may have waited for its update. */
static void find_causes(sl_analysis *r, const int *first) {
    const sl_timeline *t = &r->measured;
    for (int i = 0; i < t->spans; i++) {
        const int rank = t->span[i].rank, k = i - first[rank];
        const sl_step *step = &r->program.rank[rank].step[k];
        int before = i - 1;
        if (k > 0 && r->program.rank[rank].step[k - 1].op.paired)
            before--;
        int32_t cause = before >= first[rank] ? before : SL_NO_CAUSE;
        if (step->receive >= 0 && t->transfer[step->receive].arrive > time_of_cause(t, cause))
            cause = -1 - step->receive;
        for (int c = 0; c < t->collectives && cause == SL_NO_CAUSE; c++)
            if (t->collective[c].rank == rank && t->collective[c].op.kind == SL_GATHER &&
                t->collective[c].end <= t->span[i].start)
                cause = t->spans + c;
        r->cause[i] = cause;
    }
}

static sl_status find_path(sl_analysis *r, const int *first) {
    const sl_timeline *t = &r->measured;
    sl_highlight *h = &r->measured_path;
    int last = 0;
    SL_TRY(sl_alloc(&h->path, (size_t)t->spans + (size_t)t->transfers + (size_t)t->collectives,
                    sizeof *h->path));
    SL_TRY(sl_alloc(&h->span, (size_t)t->spans, 1));
    SL_TRY(sl_alloc(&h->transfer, (size_t)t->transfers, 1));
    SL_TRY(sl_alloc(&h->collective, (size_t)t->collectives, 1));
    for (int i = 1; i < t->spans; i++)
        last = t->span[i].end > t->span[last].end ? i : last;
    for (int32_t at = last; at != SL_NO_CAUSE && t->spans > 0;) {
        h->path[h->length++] = at;
        if (at < 0) {
            const sl_message *m = &r->program.message[-1 - at];
            h->transfer[-1 - at] = 1;
            at = first[m->from] + m->producer;
        } else if (at >= t->spans) {
            h->collective[at - t->spans] = 1;
            at = SL_NO_CAUSE;
        } else {
            h->span[at] = 1;
            at = r->cause[at];
        }
    }
    for (int i = 0; i < h->length / 2; i++) {
        int32_t swapped = h->path[i];
        h->path[i] = h->path[h->length - 1 - i];
        h->path[h->length - 1 - i] = swapped;
    }
    return SL_OK;
}

static sl_status find_program(const sl_run_data *data, sl_analysis *r) {
    sl_order order = {0};
    int *first = NULL;
    sl_status status;
    SL_TRY_GOTO(done, status, shape_of(data, &r->measured, r));
    SL_TRY_GOTO(done, status, order_of(&r->measured, &order));
    SL_TRY_GOTO(done, status, sl_lower(&r->problem, &order, &r->program));
    r->has_program = 1;
    SL_TRY_GOTO(done, status, sl_alloc(&first, (size_t)r->program.ranks + 1, sizeof *first));
    for (int k = 0; k < r->program.ranks; k++)
        first[k + 1] = first[k] + r->program.rank[k].steps;
    for (int k = 0; k < r->program.ranks; k++)
        for (int i = 0; i < r->program.rank[k].steps; i++)
            r->measured.span[first[k] + i].op.paired = r->program.rank[k].step[i].op.paired;
    SL_TRY_GOTO(done, status, align_transfers(r, first));
    SL_TRY_GOTO(done, status, sl_alloc(&r->cause, (size_t)r->measured.spans, sizeof *r->cause));
    find_causes(r, first);
    status = find_path(r, first);
done:
    sl_order_free(&order);
    sl_free(first);
    return status;
}

/* ---- prediction ---- */

static sl_status know_links(const sl_run_data *data, int iteration, int replica, sl_problem *p) {
    long row = sl_run_data_find(data, iteration);
    int found = 0;
    for (size_t i = row < 0 ? data->samples : sl_run_data_samples_from(data, (size_t)row);
         i < data->samples && data->sample[i].row == row; i++) {
        const sl_run_data_link *link = &data->link[data->sample[i].link];
        const double latency = data->sample[i].latency, transfer = data->sample[i].transfer;
        if ((link->replica >= 0 && link->replica != replica) || link->from >= p->ranks ||
            link->to >= p->ranks || latency > SL_MAX_OP_MS || transfer > SL_MAX_OP_MS || latency < 0 ||
            transfer < 0)
            continue;
        sl_link *known = &p->link[link->from * p->ranks + link->to];
        *known = (sl_link){.latency = sl_from_ms(latency), .transfer = sl_from_ms(transfer)};
        found = 1;
    }
    if (row >= 0 && data->iteration[row].delegates > 0)
        p->communication = SL_DECOUPLED; /* transfers never occupy a rank */
    return found || p->ranks == 1
               ? SL_OK
               : sl_error(SL_EINVAL, "metrics.jsonl has no links of iteration %d", iteration);
}

static sl_status know_ops(const sl_recorded *recorded, int iteration, int replica, sl_problem *p) {
    sl_timeline before;
    long index = iteration < 0 ? -1 : sl_recorded_find(recorded, iteration, replica);
    if (index < 0)
        return sl_error(SL_EINVAL, "the iteration before was not recorded");
    SL_TRY(sl_recorded_timeline(recorded, (size_t)index, &before));
    for (int i = 0; i < before.spans; i++)
        if (before.span[i].op.stage >= p->stages)
            before.spans = 0;
    before.transfers = 0; /* metrics.jsonl splits their time into transfer and latency */
    sl_status status = before.spans > 0 ? sl_profile(&before, p)
                                        : sl_error(SL_EINVAL, "the iteration before has other stages");
    sl_timeline_free(&before);
    return status;
}

static sl_time first_start(const sl_timeline *t) {
    sl_time first = t->spans > 0 ? SL_TIME_NEVER : 0;
    for (int i = 0; i < t->spans; i++)
        first = t->span[i].start < first ? t->span[i].start : first;
    return first;
}

static void shift(sl_timeline *t, sl_time by) {
    for (int i = 0; i < t->spans; i++) {
        t->span[i].start += by;
        t->span[i].end += by;
    }
    for (int i = 0; i < t->collectives; i++) {
        t->collective[i].start += by;
        t->collective[i].end += by;
    }
    for (int i = 0; i < t->transfers; i++) {
        t->transfer[i].start += by;
        t->transfer[i].end += by;
        t->transfer[i].arrive += by;
    }
}

/* Either may start with updates that take longer than the other's. */
static void align(sl_timeline *a, sl_timeline *b) {
    sl_time difference = first_start(a) - first_start(b);
    shift(difference < 0 ? a : b, difference < 0 ? -difference : difference);
}

static sl_status predict(const sl_run_data *data, const sl_recorded *recorded, size_t index, sl_analysis *r) {
    const sl_recorded_iteration *it = &recorded->iteration[index];
    SL_TRY(know_ops(recorded, it->iteration - 1, it->replica, &r->problem));
    SL_TRY(know_links(data, it->iteration - 1, it->replica, &r->problem));
    SL_TRY(sl_replay(&r->problem, &r->program, r->problem.communication, r->problem.queue, &r->predicted));
    r->has_predicted = 1;
    SL_TRY(sl_highlight_make(&r->problem, &r->program, &r->predicted, &r->predicted_path));
    SL_TRY(sl_alloc(&r->predicted_cause, (size_t)r->predicted.spans, sizeof *r->predicted_cause));
    for (int i = 0; i < r->predicted.spans; i++)
        r->predicted_cause[i] = sl_critical_cause(&r->problem, &r->program, &r->predicted, i);
    align(&r->measured, &r->predicted); /* last, since causes and paths use the replay's own times */
    return SL_OK;
}

sl_status sl_analysis_make(const sl_run_data *data, const sl_recorded *recorded, size_t index,
                           sl_analysis *r) {
    *r = (sl_analysis){0};
    SL_TRY(sl_recorded_timeline(recorded, index, &r->measured));
    SL_TRY(give_up(r, find_program(data, r)));
    if (r->has_program)
        SL_TRY(give_up(r, predict(data, recorded, index, r)));
    return SL_OK;
}

sl_status sl_gantt_data(const sl_analysis *r, const char *title, FILE *out) {
    const sl_program *program = r->has_program ? &r->program : NULL;
    sl_page_data d = {.title = title, .parts = 1, .makespan = SL_TIME_NEVER};
    for (int i = 0; i < r->measured.spans; i++)
        d.stages = r->measured.span[i].op.stage >= d.stages ? r->measured.span[i].op.stage + 1 : d.stages;
    if (r->has_predicted)
        d.chart[d.charts++] = (sl_page_chart){.name = "predicted",
                                              .timeline = &r->predicted,
                                              .program = program,
                                              .cause = r->predicted_cause,
                                              .path = &r->predicted_path};
    d.chart[d.charts++] = (sl_page_chart){.name = "measured",
                                          .timeline = &r->measured,
                                          .program = program,
                                          .cause = r->cause,
                                          .path = program ? &r->measured_path : NULL};
    return sl_page_data_write(&d, out);
}

void sl_gantt_title(const char *name, const sl_timeline *t, const char *what, char *text, size_t size) {
    snprintf(text, size, "%s: ops %.6g ms, bubble %.1f%%%s%s%s", name, sl_to_ms(sl_timeline_makespan(t)),
             100 * sl_timeline_bubble(t), *what ? " (" : "", what, *what ? ")" : "");
}

sl_status sl_gantt_still(const sl_analysis *r, const char *predicted, const char *measured, FILE *out) {
    sl_svg_chart charts[2];
    return sl_draw_svg_charts(charts, sl_gantt_charts(r, predicted, measured, charts), NULL, out);
}

int sl_gantt_charts(const sl_analysis *r, const char *predicted, const char *measured, sl_svg_chart *charts) {
    int count = 0;
    if (r->has_predicted)
        charts[count++] =
            (sl_svg_chart){.timeline = &r->predicted, .title = predicted, .highlight = &r->predicted_path};
    charts[count++] = (sl_svg_chart){
        .timeline = &r->measured, .title = measured, .highlight = r->has_program ? &r->measured_path : NULL};
    return count;
}
