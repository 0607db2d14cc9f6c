#include "plan/draw/trace.h"

static sl_status check(FILE *out) {
    return ferror(out) ? sl_error_errno(SL_ESYS, "the trace cannot be written") : SL_OK;
}

static void name_track(FILE *out, int rank, int track, const char *what, const char *name, int number) {
    fprintf(out, ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{\"name\":\"%s%d\"}}", rank,
            track, what, name, number);
}

sl_status sl_trace_begin(FILE *out, int ranks) {
    fprintf(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
                 "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_labels\",\"args\":{\"labels\":\"slackline\"}}");
    for (int rank = 0; rank < ranks; rank++) {
        name_track(out, rank, 0, "process_name", "rank ", rank);
        name_track(out, rank, 0, "thread_name", "ops of rank ", rank);
        for (int to = rank - 1; to <= rank + 1; to += 2)
            if (to >= 0 && to < ranks)
                name_track(out, rank, 1 + to, "thread_name", "link to rank ", to);
    }
    return check(out);
}

/* Microseconds with ns digits: Chrome's unit. */
static void put_event(FILE *out, int rank, int track, const char *kind, const sl_op *op, sl_time start,
                      sl_time end, int iteration) {
    sl_time length = end - start;
    fprintf(out,
            ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"cat\":\"%s\",\"name\":\"%s%d\",\"ts\":%lld.%03d,"
            "\"dur\":%lld.%03d,"
            "\"args\":{\"iteration\":%d,\"stage\":%d,\"microbatch\":%d}}",
            rank, track, kind, sl_op_name(op->kind), op->microbatch, (long long)(start / 1000),
            (int)(start % 1000), (long long)(length / 1000), (int)(length % 1000), iteration, op->stage,
            op->microbatch);
}

sl_status sl_trace_add(FILE *out, const sl_timeline *timeline, sl_time offset, int iteration) {
    for (int i = 0; i < timeline->spans; i++) {
        const sl_span *span = &timeline->span[i];
        put_event(out, span->rank, 0, sl_op_name(span->op.kind), &span->op, offset + span->start,
                  offset + span->end, iteration);
    }
    for (int i = 0; i < timeline->transfers; i++) {
        const sl_transfer *t = &timeline->transfer[i];
        if (t->arrive > t->start)
            put_event(out, t->from, 1 + t->to, "transfer", &t->op, offset + t->start, offset + t->arrive,
                      iteration);
    }
    return check(out);
}

sl_status sl_trace_end(FILE *out) {
    fprintf(out, "\n]}\n");
    return check(out);
}
