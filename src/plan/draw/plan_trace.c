/* The trace of a plan. Processes and threads are numbered from 1, because 0 is the idle process in some
 * viewers. */
#include "base/memory.h"
#include "plan/draw/trace.h"

typedef struct tracer {
    const sl_problem *problem;
    const sl_program *program;
    const sl_timeline *t;
    sl_highlight highlight;
    FILE *out;
    int threads;                /* named so far */
    int32_t *thread;            /* [transfers] thread of each; 0: it takes no time and has no slice */
    int32_t *sent;              /* [transfers] those of the current link with a slice */
    int32_t *ops, *collectives; /* [ranks] threads */
    int32_t *first;             /* [ranks] first span */
} tracer;

static void put_time(FILE *out, const char *key, sl_time t) {
    fprintf(out, ",\"%s\":%lld.%03d", key, (long long)(t / 1000), (int)(t % 1000)); /* us */
}

static void name_process(tracer *r, int process, const char *name, int number) {
    fprintf(r->out, ",\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"%s", process,
            name);
    if (number >= 0)
        fprintf(r->out, " %d", number);
    fprintf(r->out,
            "\"}},\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%d}}",
            process, process);
}

/* A new thread below the others of its process. */
static int name_thread(tracer *r, int process, const char *name, int number) {
    int thread = ++r->threads;
    fprintf(r->out, ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s",
            process, thread, name);
    if (number >= 0)
        fprintf(r->out, " %d", number);
    fprintf(r->out,
            "\"}},\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_sort_index\",\"args\":"
            "{\"sort_index\":%d}}",
            process, thread, thread);
    return thread;
}

/* "F3" if each rank has one stage, else "5F3" as in orders; "gather 5". */
static void put_name(const tracer *r, const sl_op *op) {
    if (op->microbatch < 0)
        fprintf(r->out, ",\"name\":\"%s %d\"", sl_op_name(op->kind), op->stage);
    else if (r->problem->stages == r->problem->ranks)
        fprintf(r->out, ",\"name\":\"%s%d\"", sl_op_name(op->kind), op->microbatch);
    else
        fprintf(r->out, ",\"name\":\"%d%s%d\"", op->stage, sl_op_name(op->kind), op->microbatch);
}

/* A slice up to its arguments; the caller may add more and closes it with "}}". */
static void begin_slice(const tracer *r, int process, int thread, const char *category, int critical,
                        const sl_op *op, sl_time start, sl_time end) {
    fprintf(r->out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"cat\":\"%s%s\"", process, thread, category,
            critical ? ",critical" : "");
    put_name(r, op);
    put_time(r->out, "ts", start);
    put_time(r->out, "dur", end - start);
    if (critical)
        fputs(",\"cname\":\"terrible\"", r->out);
    fprintf(r->out, ",\"args\":{\"kind\":\"%s\",\"stage\":%d", sl_op_name(op->kind), op->stage);
    if (op->microbatch >= 0)
        fprintf(r->out, ",\"microbatch\":%d", op->microbatch);
    if (r->problem->parts > 1 && op->microbatch >= 0)
        fprintf(r->out, ",\"part\":%d", op->part);
    fprintf(r->out, ",\"critical\":%s", critical ? "true" : "false");
}

/* Messages of a link leave it in order, so the thread used first is free first. */
static void name_link(tracer *r, int rank, int queue) {
    const sl_rank_program *mine = &r->program->rank[rank];
    int used = 0, oldest = 0;
    for (int k = 0; k < mine->queued[queue]; k++) {
        int32_t m = mine->queue[queue][k];
        const sl_transfer *transfer = &r->t->transfer[m];
        if (transfer->arrive == transfer->start)
            continue;
        const sl_transfer *freed = oldest < used ? &r->t->transfer[r->sent[oldest]] : NULL;
        if (freed && freed->arrive <= transfer->start)
            r->thread[m] = r->thread[r->sent[oldest++]];
        else
            r->thread[m] = name_thread(r, 1 + rank, "link to rank", transfer->to);
        r->sent[used++] = m;
    }
}

static void put_ops(tracer *r) {
    for (int i = 0; i < r->t->spans; i++) {
        const sl_span *span = &r->t->span[i];
        begin_slice(r, 1 + span->rank, r->ops[span->rank], sl_op_name(span->op.kind), r->highlight.span[i],
                    &span->op, span->start, span->end);
        if (span->op.paired || (i > 0 && r->t->span[i - 1].op.paired))
            fputs(",\"overlapped\":true", r->out);
        fputs("}}", r->out);
    }
}

static void put_collectives(tracer *r) {
    for (int c = 0; c < r->t->collectives; c++) {
        const sl_span *span = &r->t->collective[c];
        begin_slice(r, 1 + span->rank, r->collectives[span->rank], sl_op_name(span->op.kind),
                    r->highlight.collective[c], &span->op, span->start, span->end);
        fputs("}}", r->out);
    }
}

/* One point of an arrow: s where it starts, t on its way, f where it ends. */
static void put_arrow(const tracer *r, char point, int32_t message, int process, int thread, sl_time at) {
    fprintf(r->out, ",\n{\"ph\":\"%c\",\"id\":%d,\"pid\":%d,\"tid\":%d,\"cat\":\"message\",\"name\":\"%s\"",
            point, message, process, thread,
            r->t->transfer[message].op.kind == SL_F ? "activation" : "gradient");
    put_time(r->out, "ts", at);
    fputs(point == 's' ? "}" : ",\"bp\":\"e\"}", r->out);
}

/* Arrows start within their op: at its very end they would belong to the next one. */
static void put_messages(tracer *r) {
    for (int32_t m = 0; m < r->t->transfers; m++) {
        const sl_transfer *transfer = &r->t->transfer[m];
        const sl_message *message = &r->program->message[m];
        const sl_span *producer = &r->t->span[r->first[message->from] + message->producer],
                      *consumer = &r->t->span[r->first[message->to] + message->consumer];
        put_arrow(r, 's', m, 1 + message->from, r->ops[message->from],
                  producer->end > producer->start ? producer->end - 1 : producer->end);
        if (r->thread[m]) {
            begin_slice(r, 1 + transfer->from, r->thread[m], "transfer", r->highlight.transfer[m],
                        &transfer->op, transfer->start, transfer->arrive);
            fprintf(r->out, ",\"to\":%d", transfer->to);
            put_time(r->out, "on_link_us", transfer->end - transfer->start);
            fputs("}}", r->out);
            put_arrow(r, 't', m, 1 + transfer->from, r->thread[m], transfer->start);
        }
        put_arrow(r, 'f', m, 1 + message->to, r->ops[message->to], consumer->start);
    }
}

static void put_path(tracer *r) {
    int process = 1 + r->t->ranks, thread;
    name_process(r, process, "critical path", -1);
    thread = name_thread(r, process, "critical path", -1);
    for (int k = 0; k < r->highlight.length; k++) {
        int32_t entry = r->highlight.path[k];
        sl_time until = sl_highlight_until(r->t, &r->highlight, k);
        if (entry < 0) {
            const sl_transfer *transfer = &r->t->transfer[-1 - entry];
            begin_slice(r, process, thread, "critical-path", 0, &transfer->op, transfer->start, until);
            fprintf(r->out, ",\"from\":%d,\"to\":%d}}", transfer->from, transfer->to);
        } else {
            const sl_span *span =
                entry < r->t->spans ? &r->t->span[entry] : &r->t->collective[entry - r->t->spans];
            begin_slice(r, process, thread, "critical-path", 0, &span->op, span->start, until);
            fprintf(r->out, ",\"rank\":%d}}", span->rank);
        }
    }
}

/* Each rank's threads in the order in which they are shown: ops, collectives, links. */
static void name_tracks(tracer *r) {
    for (int rank = 0; rank < r->t->ranks; rank++) {
        int collectives = 0;
        r->first[rank] = rank ? r->first[rank - 1] + r->program->rank[rank - 1].steps : 0;
        for (int c = 0; c < r->t->collectives; c++)
            collectives |= r->t->collective[c].rank == rank;
        name_process(r, 1 + rank, "rank", rank);
        r->ops[rank] = name_thread(r, 1 + rank, "ops of rank", rank);
        if (collectives)
            r->collectives[rank] = name_thread(r, 1 + rank, "collectives of rank", rank);
        name_link(r, rank, SL_SEND_NEXT);
        name_link(r, rank, SL_SEND_PREVIOUS);
    }
}

static void write_trace(tracer *r) {
    fprintf(r->out,
            "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
            "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_labels\",\"args\":{\"labels\":\"slackline\"}}");
    name_tracks(r);
    put_ops(r);
    put_collectives(r);
    put_messages(r);
    put_path(r);
    fprintf(r->out, "\n]}\n");
}

static sl_status make_tracer(tracer *r) {
    size_t transfers = (size_t)r->t->transfers, ranks = (size_t)r->t->ranks;
    SL_TRY(sl_highlight_make(r->problem, r->program, r->t, &r->highlight));
    SL_TRY(sl_alloc(&r->thread, transfers, sizeof *r->thread));
    SL_TRY(sl_alloc(&r->sent, transfers, sizeof *r->sent));
    SL_TRY(sl_alloc(&r->ops, ranks, sizeof *r->ops));
    SL_TRY(sl_alloc(&r->collectives, ranks, sizeof *r->collectives));
    return sl_alloc(&r->first, ranks, sizeof *r->first);
}

sl_status sl_trace_plan(const sl_problem *problem, const sl_program *program, const sl_timeline *timeline,
                        FILE *out) {
    tracer r = {.problem = problem, .program = program, .t = timeline, .out = out};
    sl_status status = make_tracer(&r);
    if (status == SL_OK)
        write_trace(&r);
    if (status == SL_OK && ferror(out))
        status = sl_error_errno(SL_ESYS, "the trace cannot be written");
    sl_highlight_free(&r.highlight);
    SL_FREE(r.thread, r.sent, r.ops, r.collectives, r.first);
    return status;
}
