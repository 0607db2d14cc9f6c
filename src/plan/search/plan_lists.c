#include "plan/search/plan_lists.h"
#include "base/json.h"
#include "base/memory.h"
#include "plan/lower/issue.h"
#include "plan/search/plan_memory.h"

#include <math.h>
#include <string.h>

enum {
    LINE = 512,         /* bytes: more than any entry has, but for the steps of memory */
    LOOKED_AT = 1 << 12 /* entries between two looks whether writing fails */
};

/* ---- one entry ---- */

static char *put_text(char *at, const char *text) {
    const size_t length = strlen(text);
    memcpy(at, text, length);
    return at + length;
}

static char *put_number(char *at, const char *key, int value) {
    char digits[16], *digit = digits + sizeof digits;
    unsigned rest = value < 0 ? 0u - (unsigned)value : (unsigned)value;
    at = put_text(at, key);
    do
        *--digit = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (value < 0)
        *--digit = '-';
    const size_t length = (size_t)(digits + sizeof digits - digit);
    memcpy(at, digit, length);
    return at + length;
}

static char *put_time(char *at, const char *key, sl_time time) {
    at = put_text(at, key);
    return at + sl_json_ms(time, at);
}

static char *put_real(char *at, const char *key, double value) {
    at = put_text(at, key);
    return at + sl_json_real(value, at);
}

static char *put_op(char *at, const sl_op *op) {
    at = put_text(put_text(at, ", \"op\": \""), sl_op_name(op->kind));
    at = put_number(at, "\", \"stage\": ", op->stage);
    return put_number(at, ", \"microbatch\": ", op->microbatch);
}

/* Whether writing has failed, which is looked at now and then: the rest would be for nothing. */
static int has_failed(int entry, FILE *out) {
    return entry % LOOKED_AT == 0 && ferror(out);
}

/* Its line, which ends at `end`. */
static void write_entry(int is_first, const char *line, const char *end, FILE *out) {
    fputs(is_first ? "\n  " : ",\n  ", out);
    fwrite(line, 1, (size_t)(end - line), out);
}

/* ---- ops and collectives, by start, then rank, then the rank's own sequence ---- */

/* Spans of one rank in order of their starts. */
typedef struct span_run {
    const sl_span *next, *end;
    int number; /* in order of the timeline */
} span_run;

static int comes_before(const span_run *a, const span_run *b) {
    if (a->next->start != b->next->start)
        return a->next->start < b->next->start;
    return a->next->rank != b->next->rank ? a->next->rank < b->next->rank : a->number < b->number;
}

/* Restores the heap run[count] below `at`. */
static void sift(span_run *run, int count, int at) {
    for (;;) {
        int least = at;
        for (int child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            if (comes_before(&run[child], &run[least]))
                least = child;
        if (least == at)
            return;
        const span_run kept = run[at];
        run[at] = run[least];
        run[least] = kept;
        at = least;
    }
}

/* Cuts spans into runs, after run[*count]; counts them only if `run` is NULL. */
static void cut_runs(const sl_span *span, int spans, span_run *run, int *count) {
    for (int i = 0, begin = 0; i < spans; i++) {
        const int ends =
            i + 1 == spans || span[i + 1].rank != span[i].rank || span[i + 1].start < span[i].start;
        if (!ends)
            continue;
        if (run)
            run[*count] = (span_run){&span[begin], &span[i] + 1, *count};
        ++*count;
        begin = i + 1;
    }
}

static void write_span(const sl_problem *p, const sl_span *s, int is_first, FILE *out) {
    char line[LINE], *at = put_number(line, "{\"rank\": ", s->rank);
    at = put_op(at, &s->op);
    at = put_time(put_time(at, ", \"start_ms\": ", s->start), ", \"end_ms\": ", s->end);
    if (p->parts > 1 && s->op.kind < SL_OP_KINDS)
        at = put_number(at, ", \"part\": ", s->op.part);
    write_entry(is_first, line, put_text(at, "}"), out);
}

static sl_status write_ops(const sl_problem *p, const sl_timeline *t, FILE *out) {
    span_run *run;
    int runs = 0, made = 0;
    cut_runs(t->span, t->spans, NULL, &runs);
    cut_runs(t->collective, t->collectives, NULL, &runs);
    SL_TRY(sl_alloc(&run, (size_t)runs, sizeof *run));
    cut_runs(t->span, t->spans, run, &made);
    cut_runs(t->collective, t->collectives, run, &made);
    for (int i = runs / 2 - 1; i >= 0; i--)
        sift(run, runs, i);
    fputs(",\n \"ops\": [", out);
    for (int i = 0; runs > 0 && !has_failed(i, out); i++) {
        write_span(p, run->next++, i == 0, out);
        if (run->next == run->end)
            *run = run[--runs];
        sift(run, runs, 0);
    }
    fputs("]", out);
    sl_free(run);
    return SL_OK;
}

/* ---- messages ---- */

static void write_transfers(const sl_timeline *t, FILE *out) {
    fputs(",\n \"transfers\": [", out);
    for (int i = 0; i < t->transfers && !has_failed(i, out); i++) {
        const sl_transfer *m = &t->transfer[i];
        char line[LINE], *at = put_number(put_number(line, "{\"from\": ", m->from), ", \"to\": ", m->to);
        at = put_time(put_op(at, &m->op), ", \"start_ms\": ", m->start);
        at = put_time(put_time(at, ", \"end_ms\": ", m->end), ", \"arrive_ms\": ", m->arrive);
        write_entry(i == 0, line, put_text(at, "}"), out);
    }
    fputs("]", out);
}

/* By the op that makes its message, like a transfer. */
static void write_issue(const sl_plan *plan, int rank, const sl_message_issue *issue, int is_first,
                        FILE *out) {
    char line[LINE], *at = put_number(line, "{\"rank\": ", rank);
    at = put_text(put_text(at, ", \"end\": \""), issue->receive ? "receive\"" : "send\"");
    at = put_op(at, &plan->program.message[issue->message].op);
    at = put_number(at, ", \"after_ops\": ", issue->step);
    write_entry(is_first, line, put_text(at, "}"), out);
}

/* The order in which the ranks issue their messages, if it has a meaning. */
static sl_status write_issues(const sl_problem *p, const sl_plan *plan, FILE *out) {
    sl_issuer *issuer;
    int is_first = 1;
    if (p->communication != SL_FIFO)
        return SL_OK;
    SL_TRY(sl_issuer_open(&plan->program, &issuer));
    sl_status status = sl_issuer_run(issuer);
    if (status == SL_OK)
        fputs(",\n \"issues\": [", out);
    for (int rank = 0; rank < p->ranks && status == SL_OK; rank++) {
        int count;
        const sl_message_issue *issue = sl_issues_of(issuer, rank, &count);
        for (int i = 0; i < count && !has_failed(i, out); i++, is_first = 0)
            write_issue(plan, rank, &issue[i], is_first, out);
    }
    fputs("]", out);
    sl_issuer_close(issuer);
    return status;
}

/* ---- memory: a rank's use at each instant at which it changes ---- */

static void write_rank(const sl_plan_memory *m, int rank, FILE *out) {
    char line[LINE], *at = put_number(line, "{\"rank\": ", rank);
    at = put_text(put_real(at, ", \"fixed\": ", m->always[rank]), ", \"steps\": [");
    write_entry(rank == 0, line, at, out);
    for (int i = m->first[rank]; i < m->first[rank + 1] && !has_failed(i, out); i++) {
        at = put_time(line, i == m->first[rank] ? "[" : ", [", m->step[i].time);
        at = put_text(put_real(at, ", ", m->step[i].used), "]");
        fwrite(line, 1, (size_t)(at - line), out);
    }
    at = put_text(line, "]");
    if (m->limit && isfinite(m->limit[rank]))
        at = put_real(at, ", \"limit\": ", m->limit[rank]);
    fwrite(line, 1, (size_t)(put_text(at, "}") - line), out);
}

static sl_status write_memory(const sl_problem *p, const sl_plan *plan, FILE *out) {
    sl_plan_memory held;
    sl_status status = sl_plan_memory_make(p, &plan->timeline, &held);
    if (status == SL_OK) {
        fputs(",\n \"memory\": [", out);
        for (int rank = 0; rank < p->ranks; rank++)
            write_rank(&held, rank, out);
        fputs("]", out);
    }
    sl_plan_memory_free(&held);
    return status;
}

sl_status sl_plan_write_lists(const sl_problem *p, const sl_plan *plan, FILE *out) {
    SL_TRY(write_ops(p, &plan->timeline, out));
    write_transfers(&plan->timeline, out);
    SL_TRY(write_issues(p, plan, out));
    return write_memory(p, plan, out);
}
