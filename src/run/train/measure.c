#include "run/train/measure.h"
#include "base/memory.h"

#include <stdlib.h>

static int is_op(const sl_record *r, int iteration) {
    return r->kind == SL_RECORD_OP && r->iteration == iteration;
}

static int is_transfer(const sl_record *r, int iteration) {
    return r->kind == SL_RECORD_TRANSFER && r->iteration == iteration;
}

static sl_status check_record(const sl_problem *p, const sl_record *r) {
    if (r->rank < 0 || r->rank >= p->ranks || r->stage < 0 || r->stage >= p->stages || r->microbatch < 0 ||
        r->microbatch >= p->microbatches || r->op >= SL_OP_KINDS ||
        (r->kind == SL_RECORD_TRANSFER && (r->peer < 0 || r->peer >= p->ranks)))
        return sl_error(SL_EPEER, "rank %d wrote a record that is not of this run", r->rank);
    return SL_OK;
}

static int compare_spans(const void *a, const void *b) {
    const sl_span *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Every (stage, microbatch) must have F and either B or both I and W. */
static sl_status check_complete(const sl_problem *p, const sl_timeline *timeline) {
    unsigned char *seen;
    size_t cells = (size_t)p->stages * (size_t)p->microbatches;
    SL_TRY(sl_alloc(&seen, cells, 1));
    sl_status status = SL_OK;
    for (int i = 0; i < timeline->spans; i++) {
        const sl_op *op = &timeline->span[i].op;
        unsigned char *cell = &seen[(size_t)op->stage * (size_t)p->microbatches + (size_t)op->microbatch];
        if (*cell & (1u << op->kind))
            status = sl_error(SL_EPEER, "%s of stage %d, microbatch %d was recorded twice",
                              sl_op_name(op->kind), op->stage, op->microbatch);
        *cell = (unsigned char)(*cell | (1u << op->kind));
    }
    for (size_t i = 0; i < cells && status == SL_OK; i++)
        if (seen[i] != (1u << SL_F | 1u << SL_B) && seen[i] != (1u << SL_F | 1u << SL_I | 1u << SL_W))
            status = sl_error(SL_EPEER, "the records of stage %zu, microbatch %zu are incomplete",
                              i / (size_t)p->microbatches, i % (size_t)p->microbatches);
    sl_free(seen);
    return status;
}

sl_status sl_measure_timeline(const sl_problem *problem, const sl_record *records, int count, int iteration,
                              sl_time begin, const sl_offset *clock, sl_timeline *timeline) {
    int spans = 0, transfers = 0;
    *timeline = (sl_timeline){0};
    for (int i = 0; i < count; i++) {
        if (!is_op(&records[i], iteration) && !is_transfer(&records[i], iteration))
            continue;
        SL_TRY(check_record(problem, &records[i]));
        spans += is_op(&records[i], iteration);
        transfers += is_transfer(&records[i], iteration);
    }
    SL_TRY(sl_timeline_make(problem->ranks, spans, transfers, timeline));
    timeline->measured = 1;
    timeline->spans = timeline->transfers = 0;
    for (int i = 0; i < count; i++) {
        const sl_record *r = &records[i];
        sl_op op = {.stage = r->stage, .microbatch = r->microbatch, .kind = r->op};
        /* into rank 0's clock: times are stamped at the sender, arrivals at the receiver */
        if (is_op(r, iteration)) {
            sl_time shift = begin + clock[r->rank].offset;
            timeline->span[timeline->spans++] =
                (sl_span){.rank = r->rank, .op = op, .start = r->start - shift, .end = r->end - shift};
        } else if (is_transfer(r, iteration)) {
            sl_time shift = begin + clock[r->rank].offset;
            timeline->transfer[timeline->transfers++] =
                (sl_transfer){.from = r->rank,
                              .to = r->peer,
                              .op = op,
                              .start = r->start - shift,
                              .end = r->end - shift,
                              .arrive = r->arrive - begin - clock[r->peer].offset};
        }
    }
    qsort(timeline->span, (size_t)timeline->spans, sizeof *timeline->span, compare_spans);
    return check_complete(problem, timeline);
}

void sl_measure_level_directions(const sl_offset *clock, sl_problem *measured) {
    int ranks = measured->ranks;
    for (int a = 0; a < ranks; a++)
        for (int b = a + 1; b < ranks; b++) {
            sl_link *there = &measured->link[a * ranks + b], *back = &measured->link[b * ranks + a];
            int64_t error = clock[a].error + clock[b].error;
            if (error == 0 || sl_offset_direction_certain(there->latency, back->latency, error))
                continue;
            sl_time mean = (there->latency + back->latency) / 2;
            there->latency = back->latency = mean > 0 ? mean : 0;
        }
}

sl_status sl_arrivals_add(sl_arrivals *arrivals, const sl_record *records, int count, int iteration,
                          sl_time *worst) {
    *worst = 0;
    for (int i = 0; i < count; i++) {
        if (!is_transfer(&records[i], iteration))
            continue;
        sl_time error = records[i].arrive - records[i].due;
        if (error > *worst)
            *worst = error;
        SL_TRY(sl_grow(&arrivals->error_us, &arrivals->capacity, arrivals->count + 1,
                       sizeof *arrivals->error_us));
        arrivals->error_us[arrivals->count++] = (float)error / 1000.0f;
    }
    return SL_OK;
}

static int compare_errors(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

double sl_arrivals_percentile(sl_arrivals *arrivals, double share) {
    if (arrivals->count == 0)
        return 0;
    qsort(arrivals->error_us, arrivals->count, sizeof *arrivals->error_us, compare_errors);
    size_t index = (size_t)(share * (double)(arrivals->count - 1) + 0.5);
    return (double)arrivals->error_us[index];
}

void sl_arrivals_free(sl_arrivals *arrivals) {
    sl_free(arrivals->error_us);
    *arrivals = (sl_arrivals){0};
}
