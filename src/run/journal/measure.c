#include "run/journal/measure.h"
#include "base/memory.h"

#include <stdlib.h>

static int is_op(const sl_record *r, int iteration) {
    return r->kind == SL_RECORD_OP && r->iteration == iteration;
}

static int is_transfer(const sl_record *r, int iteration) {
    return r->kind == SL_RECORD_TRANSFER && r->iteration == iteration;
}

static int is_move(const sl_record *r, int iteration) {
    return r->kind == SL_RECORD_MOVE && r->iteration == iteration;
}

static int is_reduction(const sl_record *r, int iteration) {
    return r->kind == SL_RECORD_REDUCE && r->iteration == iteration;
}

static int is_update(const sl_record *r, int iteration) {
    return r->kind == SL_RECORD_OPTIMIZER && r->iteration == iteration;
}

/* Records that belong to a stage as a whole, not to one of its microbatches. */
static int is_of_stage(const sl_record *r) {
    return r->kind == SL_RECORD_REDUCE || r->kind == SL_RECORD_OPTIMIZER;
}

static sl_status check_record(const sl_problem *p, const sl_record *r) {
    if (is_of_stage(r) && r->stage >= 0 && r->stage < p->stages && sl_problem_rank(p, r->stage) == r->rank &&
        r->microbatch == -1 && r->op == (r->kind == SL_RECORD_REDUCE ? SL_REDUCE : SL_GATHER))
        return SL_OK;
    if (is_of_stage(r) || r->rank < 0 || r->rank >= p->ranks || r->stage < 0 || r->stage >= p->stages ||
        r->microbatch < 0 || r->microbatch >= p->microbatches ||
        (r->kind == SL_RECORD_MOVE ? (r->op != SL_OFFLOAD && r->op != SL_FETCH) || r->part > 1
                                   : r->op >= SL_OP_KINDS || r->part >= p->parts) ||
        (r->kind != SL_RECORD_TRANSFER && sl_problem_rank(p, r->stage) != r->rank) ||
        (r->kind == SL_RECORD_TRANSFER && (r->peer < 0 || r->peer >= p->ranks)))
        return sl_error(SL_EPEER, "rank %d wrote a record that is not of this run", r->rank);
    return SL_OK;
}

/* Parts seen of each kind of a (stage, microbatch). */
typedef struct seen {
    uint8_t parts[SL_OP_KINDS];
} seen;

/* Every (stage, microbatch) that runs must have F and either B or both I and W, in all parts. */
static int is_complete(const seen *cell, int parts) {
    int full = cell->parts[SL_B] == parts && !cell->parts[SL_I] && !cell->parts[SL_W];
    int split = !cell->parts[SL_B] && cell->parts[SL_I] == parts && cell->parts[SL_W] == parts;
    return cell->parts[SL_F] == parts && (full || split);
}

static sl_status check_parts(const sl_problem *p, const sl_timeline *timeline, seen *cell) {
    for (int i = 0; i < timeline->spans; i++) {
        const sl_op *op = &timeline->span[i].op;
        uint8_t *parts = &cell[op->stage * p->microbatches + op->microbatch].parts[op->kind];
        if (*parts != op->part)
            return sl_error(SL_EPEER, "%s of stage %d, microbatch %d was recorded twice or out of order",
                            sl_op_name(op->kind), op->stage, op->microbatch);
        ++*parts;
    }
    for (int stage = 0; stage < p->stages; stage++)
        for (int m = 0; m < p->microbatches; m++)
            if (sl_problem_runs(p, stage, m) && !is_complete(&cell[stage * p->microbatches + m], p->parts))
                return sl_error(SL_EPEER, "the records of stage %d, microbatch %d are incomplete", stage, m);
    return SL_OK;
}

static sl_status check_complete(const sl_problem *p, const sl_timeline *timeline) {
    seen *cell;
    SL_TRY(sl_alloc(&cell, (size_t)p->stages * (size_t)p->microbatches, sizeof *cell));
    sl_status status = check_parts(p, timeline, cell);
    sl_free(cell);
    return status;
}

static sl_op op_of(const sl_record *r) {
    return (sl_op){.stage = r->stage,
                   .microbatch = r->microbatch,
                   .kind = r->op,
                   .part = r->part,
                   .paired = r->paired != 0};
}

/* Converts to rank 0's clock: times are stamped at the sender, arrivals at the receiver. */
static void add_span(const sl_record *r, sl_time begin, const sl_offset *clock, sl_timeline *timeline,
                     int at) {
    sl_time shift = begin + clock[r->rank].offset;
    timeline->span[at] =
        (sl_span){.rank = r->rank, .op = op_of(r), .start = r->start - shift, .end = r->end - shift};
}

static void add_transfer(const sl_record *r, sl_time begin, const sl_offset *clock, sl_timeline *timeline) {
    sl_time shift = begin + clock[r->rank].offset;
    timeline->transfer[timeline->transfers++] =
        (sl_transfer){.from = r->rank,
                      .to = r->peer,
                      .op = op_of(r),
                      .start = r->start - shift,
                      .end = r->end - shift,
                      .arrive = r->arrive - begin - clock[r->peer].offset};
}

/* next[rank]: index of the rank's next span. A rank writes its records in the order in which it runs. */
static void fill(const sl_record *records, int count, int iteration, sl_time begin, const sl_offset *clock,
                 int *next, sl_timeline *timeline) {
    timeline->transfers = 0;
    for (int i = 0; i < count; i++) {
        if (is_op(&records[i], iteration))
            add_span(&records[i], begin, clock, timeline, next[records[i].rank]++);
        else if (is_transfer(&records[i], iteration))
            add_transfer(&records[i], begin, clock, timeline);
    }
}

/* Adds one kind, by rank, in the rank's order: updates, reductions, moves of the copy engine. */
static void add_other(const sl_record *records, int count, int iteration, sl_time begin,
                      const sl_offset *clock, int (*is_kind)(const sl_record *, int), sl_timeline *timeline) {
    for (int rank = 0; rank < timeline->ranks; rank++)
        for (int i = 0; i < count; i++)
            if (is_kind(&records[i], iteration) && records[i].rank == rank) {
                sl_time shift = begin + clock[rank].offset;
                timeline->collective[timeline->collectives++] = (sl_span){.rank = rank,
                                                                          .op = op_of(&records[i]),
                                                                          .start = records[i].start - shift,
                                                                          .end = records[i].end - shift};
            }
}

static sl_status add_collectives(const sl_record *records, int count, int iteration, sl_time begin,
                                 const sl_offset *clock, sl_timeline *timeline) {
    int all = 0;
    for (int i = 0; i < count; i++)
        all += is_move(&records[i], iteration) || is_reduction(&records[i], iteration) ||
               is_update(&records[i], iteration);
    if (all == 0)
        return SL_OK;
    SL_TRY(sl_alloc(&timeline->collective, (size_t)all, sizeof *timeline->collective));
    add_other(records, count, iteration, begin, clock, is_update, timeline);
    add_other(records, count, iteration, begin, clock, is_reduction, timeline);
    add_other(records, count, iteration, begin, clock, is_move, timeline);
    return SL_OK;
}

sl_status sl_measure_timeline(const sl_problem *problem, const sl_record *records, int count, int iteration,
                              sl_time begin, const sl_offset *clock, sl_timeline *timeline) {
    int spans = 0, transfers = 0, *next;
    sl_status status;
    *timeline = (sl_timeline){0};
    for (int i = 0; i < count; i++)
        if (is_op(&records[i], iteration) || is_transfer(&records[i], iteration) ||
            is_move(&records[i], iteration) || is_reduction(&records[i], iteration) ||
            is_update(&records[i], iteration)) {
            SL_TRY(check_record(problem, &records[i]));
            spans += is_op(&records[i], iteration);
            transfers += is_transfer(&records[i], iteration);
        }
    SL_TRY(sl_alloc(&next, (size_t)problem->ranks + 1, sizeof *next));
    for (int i = 0; i < count; i++)
        if (is_op(&records[i], iteration))
            next[records[i].rank + 1]++;
    for (int rank = 0; rank < problem->ranks; rank++)
        next[rank + 1] += next[rank];
    SL_TRY_GOTO(out, status, sl_timeline_make(problem->ranks, spans, transfers, timeline));
    timeline->measured = 1;
    fill(records, count, iteration, begin, clock, next, timeline);
    SL_TRY_GOTO(out, status, check_complete(problem, timeline));
    status = add_collectives(records, count, iteration, begin, clock, timeline);
out:
    sl_free(next);
    return status;
}

/* ---- several tensor ranks, several replicas ---- */

/* The key that distinguishes records of an iteration. */
static int compare_records(const void *a, const void *b) {
    const sl_record *x = *(const sl_record *const *)a, *y = *(const sl_record *const *)b;
    const int32_t keys[][2] = {
        {x->iteration, y->iteration},   {x->kind, y->kind}, {x->op, y->op}, {x->stage, y->stage},
        {x->microbatch, y->microbatch}, {x->part, y->part}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

static void take_later(int64_t *mine, int64_t other) {
    *mine = other > *mine ? other : *mine;
}

sl_status sl_measure_merge(sl_record *base, int count, const sl_record *other, int others) {
    sl_record **index;
    SL_TRY(sl_alloc(&index, (size_t)count, sizeof *index));
    for (int i = 0; i < count; i++)
        index[i] = &base[i];
    qsort(index, (size_t)count, sizeof *index, compare_records);
    sl_status status = SL_OK;
    for (int i = 0; i < others && status == SL_OK; i++) {
        const sl_record *key = &other[i];
        sl_record **found = bsearch(&key, index, (size_t)count, sizeof *index, compare_records);
        if (!found) {
            status = sl_error(SL_EPEER, "tensor ranks of pipeline rank %d ran different ops", other[i].rank);
            continue;
        }
        take_later(&(*found)->start, key->start);
        take_later(&(*found)->end, key->end);
        take_later(&(*found)->arrive, key->arrive);
        take_later(&(*found)->due, key->due);
    }
    sl_free(index);
    return status;
}

void sl_measure_reductions(const sl_timeline *timeline, int replicas, sl_measured *const *measured) {
    for (int stage = 0; stage < measured[0]->problem.stages; stage++) {
        sl_time start = 0, end = 0;
        for (int r = 0; r < replicas; r++)
            for (int i = 0; i < timeline[r].collectives; i++) {
                const sl_span *one = &timeline[r].collective[i];
                if (one->op.kind != SL_REDUCE || one->op.stage != stage)
                    continue;
                start = one->start > start ? one->start : start;
                end = one->end > end ? one->end : end;
            }
        for (int r = 0; r < replicas; r++) {
            measured[r]->problem.reduce[stage] = end > start ? end - start : 0;
            measured[r]->summed[stage] = end > start;
        }
    }
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
