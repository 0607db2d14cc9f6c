#include "plan/draw/trace.h"
#include "base/memory.h"

#include <stdlib.h>

static sl_status check(FILE *out) {
    return ferror(out) ? sl_error_errno(SL_ESYS, "the trace cannot be written") : SL_OK;
}

static void name_track(FILE *out, int rank, int track, const char *what, const char *name, int number) {
    fprintf(out, ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{\"name\":\"%s%d\"}}", rank,
            track, what, name, number);
}

#define REDUCTIONS 1000000 /* a thread after those of all links */

/* `process` is the rank, for the first replica; those of other replicas follow. */
static void name_rank(FILE *out, int ranks, int rank, int process) {
    name_track(out, process, 0, "thread_name", "ops of rank ", rank);
    for (int to = rank - 1; to <= rank + 1; to += 2)
        if (to >= 0 && to < ranks)
            name_track(out, process, 1 + to, "thread_name", "link to rank ", to);
}

sl_status sl_trace_begin(FILE *out, int ranks, int replicas) {
    fprintf(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
                 "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_labels\",\"args\":{\"labels\":\"slackline\"}}");
    for (int process = 0; process < ranks * replicas; process++) {
        char name[48];
        snprintf(name, sizeof name, "replica %d, rank ", process / ranks);
        name_track(out, process, 0, "process_name", replicas > 1 ? name : "rank ", process % ranks);
        name_rank(out, ranks, process % ranks, process);
        if (replicas > 1)
            name_track(out, process, REDUCTIONS, "thread_name", "reductions of rank ", process % ranks);
    }
    return check(out);
}

/* Microseconds with ns digits: Chrome's unit. */
static void put_event(FILE *out, int rank, int track, const char *kind, const sl_op *op, sl_time start,
                      sl_time end, int iteration) {
    const char *name = op->kind == SL_GATHER ? kind : sl_op_name(op->kind);
    sl_time length = end - start;
    fprintf(out,
            ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"cat\":\"%s\",\"name\":\"%s%d\",\"ts\":%lld.%03d,"
            "\"dur\":%lld.%03d,"
            "\"args\":{\"iteration\":%d,\"stage\":%d,\"microbatch\":%d}}",
            rank, track, kind, name, op->microbatch >= 0 ? op->microbatch : op->stage,
            (long long)(start / 1000), (int)(start % 1000), (long long)(length / 1000), (int)(length % 1000),
            iteration, op->stage, op->microbatch);
}

/* By link, then by start. */
static int compare_transfers(const void *a, const void *b) {
    const sl_transfer *x = *(const sl_transfer *const *)a, *y = *(const sl_transfer *const *)b;
    if (x->from != y->from)
        return x->from - y->from;
    if (x->to != y->to)
        return x->to - y->to;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Track `lane` of a link; the first one between neighbors already has a name. Names are repeated in each
 * iteration, because earlier ones are not stored; viewers accept that. */
static int link_track(FILE *out, const sl_transfer *t, int first, int ranks, int lane, int is_new) {
    int track = 1 + t->to + ranks * lane, neighbours = t->from - t->to == 1 || t->to - t->from == 1;
    if (is_new && (lane > 0 || !neighbours))
        name_track(out, first + t->from, track, "thread_name", "link to rank ", t->to);
    return track;
}

/* Overlapping messages of a link are on separate tracks. */
static sl_status add_transfers(FILE *out, const sl_timeline *timeline, int first, sl_time offset,
                               int iteration) {
    const sl_transfer **order;
    sl_time *busy; /* end of the last message of each lane of the link */
    int count = timeline->transfers, lanes = 0;
    SL_TRY(sl_alloc(&order, (size_t)count + 1, sizeof *order));
    sl_status status = sl_alloc(&busy, (size_t)count + 1, sizeof *busy);
    for (int i = 0; i < count; i++)
        order[i] = &timeline->transfer[i];
    qsort(order, (size_t)count, sizeof *order, compare_transfers);
    for (int i = 0; i < count && status == SL_OK; i++) {
        const sl_transfer *t = order[i];
        if (i == 0 || t->from != order[i - 1]->from || t->to != order[i - 1]->to)
            lanes = 0;
        if (t->arrive <= t->start)
            continue;
        int lane = 0;
        while (lane < lanes && busy[lane] > t->start)
            lane++;
        int track = link_track(out, t, first, timeline->ranks, lane, lane == lanes);
        lanes += lane == lanes;
        busy[lane] = t->arrive;
        put_event(out, first + t->from, track, "transfer", &t->op, offset + t->start, offset + t->arrive,
                  iteration);
    }
    SL_FREE(busy, order);
    return status;
}

sl_status sl_trace_add(FILE *out, const sl_timeline *timeline, int replica, sl_time offset, int iteration) {
    int first = replica * timeline->ranks;
    for (int i = 0; i < timeline->spans; i++) {
        const sl_span *span = &timeline->span[i];
        put_event(out, first + span->rank, 0, sl_op_name(span->op.kind), &span->op, offset + span->start,
                  offset + span->end, iteration);
    }
    for (int i = 0; i < timeline->collectives; i++) {
        const sl_span *span = &timeline->collective[i];
        if (span->op.kind == SL_GATHER) /* the rank's own time */
            put_event(out, first + span->rank, 0, "update", &span->op, offset + span->start,
                      offset + span->end, iteration);
        if (span->op.kind == SL_REDUCE)
            put_event(out, first + span->rank, REDUCTIONS, "reduce", &span->op, offset + span->start,
                      offset + span->end, iteration);
    }
    SL_TRY(add_transfers(out, timeline, first, offset, iteration));
    return check(out);
}

sl_status sl_trace_end(FILE *out) {
    fprintf(out, "\n]}\n");
    return check(out);
}
