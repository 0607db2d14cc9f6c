/* The end of a trace file: relates its events to each other. */
#include "base/memory.h"
#include "plan/trace/collect_inside.h"
#include "plan/trace/interval.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void sl_file_free(sl_file *f) {
    if (!f)
        return;
    sl_scan_close(f->scanner);
    for (size_t i = 0; i < f->opens; i++)
        free(f->open[i].text);
    SL_FREE(f->open, f->name, f->inner, f->issue, f->receipt, f->payload, f->launch, f->kernel, f->mark, f);
}

/* ---- the first computation inside each op ---- */

static int compare_inner(const void *a, const void *b) {
    const sl_inner *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* The first of `thread` at or after `from`. */
static size_t first_from(const sl_inner *inner, size_t count, uint64_t thread, sl_time from) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        sl_inner wanted = {thread, from};
        if (compare_inner(&inner[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int inside(const sl_inner *inner, size_t count, size_t at, const sl_traced_op *op) {
    return at < count && inner[at].thread == op->thread && inner[at].start <= op->end;
}

/* After the last receive that was issued inside, if any, because the op waits for it. */
static void find_work(sl_traced *t, sl_file *f) {
    if (f->inners > 0)
        qsort(f->inner, f->inners, sizeof *f->inner, compare_inner);
    if (f->issues > 0)
        qsort(f->issue, f->issues, sizeof *f->issue, compare_inner);
    for (size_t i = f->first_op; i < t->ops; i++) {
        sl_traced_op *op = &t->op[i];
        const size_t after = first_from(f->issue, f->issues, op->thread, op->end + 1);
        const size_t first = first_from(f->issue, f->issues, op->thread, op->start);
        const sl_time from = after > first ? f->issue[after - 1].start : op->start;
        const size_t at = first_from(f->inner, f->inners, op->thread, from);
        if (inside(f->inner, f->inners, at, op))
            op->work = f->inner[at].start;
    }
}

/* ---- kernels ---- */

/* By start; the longer first, because it contains the other; F of a pair before its B. */
static int compare_ops(const void *a, const void *b) {
    const sl_traced_op *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    return x->op.kind - y->op.kind;
}

/* Finds the op whose label was open at each launch; `at` becomes the index of the op, -1: none. Ops of a file
 * are sorted. */
static void find_launchers(sl_traced *t, sl_file *f) {
    sl_traced_op *op = t->op + f->first_op;
    size_t ops = t->ops - f->first_op;
    for (size_t i = 0; i < f->launches; i++) {
        size_t low = 0, high = ops;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (op[middle].label_start <= f->launch[i].at)
                low = middle + 1;
            else
                high = middle;
        }
        int found = low > 0 && op[low - 1].label_end >= f->launch[i].at;
        f->launch[i].at = found ? (sl_time)(low - 1) : -1;
    }
}

static int compare_launches(const void *a, const void *b) {
    const sl_launch *x = a, *y = b;
    return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

static void add_kernel(sl_traced_op *op, const sl_kernel *kernel, int first) {
    op->start = first || kernel->start < op->start ? kernel->start : op->start;
    op->end = first || kernel->end > op->end ? kernel->end : op->end;
    op->work = op->start;
}

/* A pair's B comes after its F, which has found the kernels of both. */
static sl_status find_kernels(sl_traced *t, sl_file *f) {
    unsigned char *seen;
    size_t ops = t->ops - f->first_op;
    if (f->kernels == 0 || f->launches == 0)
        return SL_OK;
    SL_TRY(sl_alloc(&seen, ops, 1));
    find_launchers(t, f);
    qsort(f->launch, f->launches, sizeof *f->launch, compare_launches);
    for (size_t i = 0; i < f->kernels; i++) {
        sl_launch wanted = {.correlation = f->kernel[i].correlation};
        const sl_launch *launch =
            bsearch(&wanted, f->launch, f->launches, sizeof *f->launch, compare_launches);
        if (!launch || launch->at < 0)
            continue;
        size_t op = (size_t)launch->at;
        for (size_t k = op;; k--) { /* both of a pair have the same label */
            add_kernel(&t->op[f->first_op + k], &f->kernel[i], !seen[k]);
            t->on_gpu += !seen[k];
            seen[k] = 1;
            if (k == 0 || t->op[f->first_op + k - 1].label_start != t->op[f->first_op + op].label_start)
                break;
        }
    }
    sl_free(seen);
    return SL_OK;
}

/* ---- payloads, marks, ranks ---- */

/* Intervals to search for an instant: labels of ops, of messages, of receives that are not done, and marks;
 * per process, and of all. */
typedef struct labels {
    sl_intervals op, message, receive, mark, any_mark;
} labels;

static void labels_free(labels *l) {
    sl_intervals_free(&l->op);
    sl_intervals_free(&l->message);
    sl_intervals_free(&l->receive);
    sl_intervals_free(&l->mark);
    sl_intervals_free(&l->any_mark);
}

/* A mark ends where the next one begins. */
static sl_status add_mark(labels *l, const sl_mark *mark, size_t i) {
    SL_TRY(sl_intervals_add(&l->mark, (sl_interval){(uint64_t)mark->process, mark->start, mark->end - 1, i}));
    return sl_intervals_add(&l->any_mark, (sl_interval){0, mark->start, mark->end - 1, i});
}

static sl_status labels_make(const sl_traced *t, const sl_file *f, labels *l) {
    for (size_t i = f->first_op; i < t->ops; i++) {
        const sl_traced_op *op = &t->op[i];
        SL_TRY(sl_intervals_add(&l->op, (sl_interval){op->thread, op->label_start, op->label_end, i}));
    }
    for (size_t i = f->first_message; i < t->messages; i++) {
        const sl_traced_message *m = &t->message[i];
        const sl_interval interval = {m->thread, m->start, m->end, i};
        SL_TRY(sl_intervals_add(&l->message, interval));
        if (m->receive && !m->done)
            SL_TRY(sl_intervals_add(&l->receive, interval));
    }
    for (size_t i = 0; i < f->marks; i++)
        SL_TRY(add_mark(l, &f->mark[i], i));
    SL_TRY(sl_intervals_sort(&l->op));
    SL_TRY(sl_intervals_sort(&l->message));
    SL_TRY(sl_intervals_sort(&l->receive));
    SL_TRY(sl_intervals_sort(&l->mark));
    return sl_intervals_sort(&l->any_mark);
}

/* The functions of stacks contain no messages: such an op's receive is issued before it, its send after it.
 * The ops of a file are all from stacks or all from labels. */
static sl_traced_op *of_stack(sl_traced *t, const labels *l, long index) {
    sl_traced_op *op = index < 0 ? NULL : &t->op[l->op.interval[index].of];
    return op && op->of_stack ? op : NULL;
}

static void give_payload(sl_traced *t, const labels *l, const sl_payload *p) {
    long index = sl_intervals_holding(&l->message, p->thread, p->start, 0);
    if (index >= 0) {
        t->message[l->message.interval[index].of].bytes += p->bytes;
        return;
    }
    index = sl_intervals_holding(&l->op, p->thread, p->start, 0);
    if (index >= 0) {
        sl_traced_op *op = &t->op[l->op.interval[index].of];
        op->bytes += p->bytes;
        op->sent = p->start;
        return;
    }
    sl_traced_op *before = of_stack(t, l, sl_intervals_before(&l->op, p->thread, p->start));
    if (before)
        before->bytes += p->bytes;
    if (before && before->sent < 0)
        before->sent = p->start;
}

/* Assigns it to the label of the receive that was issued then, else to the op inside which it was. */
static void give_receipt(sl_traced *t, labels *l, const sl_receipt *receipt) {
    const uint64_t thread = receipt->thread;
    long index = sl_intervals_holding(&l->receive, thread, receipt->start, 0);
    if (index >= 0) {
        sl_traced_message *m = &t->message[l->receive.interval[index].of];
        m->end = receipt->end;
        m->done = 1;
        sl_intervals_remove(&l->receive, (size_t)index);
        return;
    }
    int given = 0;
    for (size_t from = 0; (index = sl_intervals_holding(&l->op, thread, receipt->start, from)) >= 0;
         from = (size_t)index + 1) {
        sl_traced_op *op = &t->op[l->op.interval[index].of];
        op->received = receipt->end > op->received ? receipt->end : op->received;
        given = 1;
    }
    sl_traced_op *next =
        given ? NULL : of_stack(t, l, sl_intervals_following(&l->op, thread, receipt->start));
    if (next && receipt->end > next->received)
        next->received = receipt->end;
}

/* The process's own mark; another's if it has none then, because some programs mark on one rank only. */
static int64_t mark_at(const sl_file *f, const labels *l, int process, sl_time start) {
    long index = sl_intervals_holding(&l->mark, (uint64_t)process, start, 0);
    if (index >= 0)
        return f->mark[l->mark.interval[index].of].iteration;
    index = sl_intervals_holding(&l->any_mark, 0, start, 0);
    return index >= 0 ? f->mark[l->any_mark.interval[index].of].iteration : -1;
}

static void give_all(sl_traced *t, const sl_file *f, labels *l) {
    for (size_t i = 0; i < f->payloads; i++)
        give_payload(t, l, &f->payload[i]);
    for (size_t i = 0; i < f->receipts; i++)
        give_receipt(t, l, &f->receipt[i]);
    for (size_t i = f->first_op; i < t->ops; i++)
        if (t->op[i].mark < 0)
            t->op[i].mark = mark_at(f, l, t->op[i].process, t->op[i].start);
    for (size_t i = f->first_message; i < t->messages; i++)
        if (t->message[i].mark < 0)
            t->message[i].mark = mark_at(f, l, t->message[i].process, t->message[i].start);
}

static void shift(sl_traced *t, const sl_file *f) {
    for (size_t i = f->first_op; i < t->ops; i++) {
        t->op[i].start += f->base;
        t->op[i].end += f->base;
        t->op[i].label_start += f->base;
        t->op[i].label_end += f->base;
        t->op[i].work += t->op[i].work < 0 ? 0 : f->base;
        t->op[i].sent += t->op[i].sent < 0 ? 0 : f->base;
        t->op[i].received += t->op[i].received < 0 ? 0 : f->base;
    }
    for (size_t i = f->first_message; i < t->messages; i++) {
        t->message[i].start += f->base;
        t->message[i].end += f->base;
    }
}

sl_status sl_file_finish(sl_traced *t, sl_file *f) {
    if (t->ops > f->first_op) /* labels of a file in order of time */
        qsort(t->op + f->first_op, t->ops - f->first_op, sizeof *t->op, compare_ops);
    sl_file_sort_stack(t, f);
    find_work(t, f);
    labels all = {0};
    sl_status status = labels_make(t, f, &all);
    if (status == SL_OK)
        give_all(t, f, &all);
    labels_free(&all);
    SL_TRY(status);
    SL_TRY(find_kernels(t, f));
    for (size_t i = f->first_process; i < t->processes; i++) {
        t->process[i].host = f->host;
        t->process[i].rank = f->rank >= 0 ? f->rank : t->process[i].rank;
    }
    shift(t, f);
    return SL_OK;
}

/* ---- names ---- */

enum { NAMES_MAX = 512, NAME_LENGTH = 64 };

struct sl_name {
    char text[NAME_LENGTH]; /* numbers written as N */
    long count;
};

sl_status sl_name_count(sl_traced *t, const char *name) {
    char text[NAME_LENGTH];
    size_t used = 0;
    for (; *name && used + 1 < sizeof text; name++)
        if (!isdigit((unsigned char)*name) || used == 0 || text[used - 1] != 'N')
            text[used++] = isdigit((unsigned char)*name) ? 'N' : *name;
    text[used] = 0;
    for (size_t i = 0; i < t->names; i++)
        if (strcmp(t->name[i].text, text) == 0) {
            t->name[i].count++;
            return SL_OK;
        }
    if (t->names == NAMES_MAX)
        return SL_OK;
    SL_TRY(sl_grow(&t->name, &t->name_room, t->names + 1, sizeof *t->name));
    memcpy(t->name[t->names].text, text, used + 1);
    t->name[t->names++].count = 1;
    return SL_OK;
}

static const struct sl_name *most_frequent(const sl_traced *t, const struct sl_name *before) {
    const struct sl_name *best = NULL;
    for (size_t i = 0; i < t->names; i++) {
        const struct sl_name *n = &t->name[i];
        int later = !before || n->count < before->count || (n->count == before->count && n > before);
        if (later && (!best || n->count > best->count))
            best = n;
    }
    return best;
}

sl_status sl_file_check(const sl_traced *t, const sl_file *f) {
    const size_t events = t->events - f->first_event;
    for (size_t i = f->first_op; i < t->ops; i++)
        if (t->op[i].op.kind < SL_OP_KINDS)
            return SL_OK;
    if (events == 0)
        return sl_error(SL_EINVAL, "%s: no ops of a pipeline: the trace has no events", f->name);
    char seen[512] = "";
    const struct sl_name *name = NULL;
    for (int i = 0; i < 6 && (name = most_frequent(t, name)) != NULL; i++) {
        size_t used = strlen(seen);
        snprintf(seen + used, sizeof seen - used, "%s'%s' (%ld)", used ? ", " : "", name->text, name->count);
    }
    if (!seen[0])
        snprintf(seen, sizeof seen,
                 "none but PyTorch's own; PyTorch's Schedule1F1B labels no ops: profile it with "
                 "with_stack=True, or label the ops with record_function");
    return sl_error(
        SL_EINVAL,
        "%s: no ops of a pipeline among %zu events; names seen (N: a number): %s. Map them to ops, "
        "such as --map 'F=fwd stage {stage} mb {microbatch}' --map 'B=bwd*'; see slackline import "
        "--help",
        f->name, events, seen);
}

/* ---- files ---- */

const char *sl_traced_file(const sl_traced *t, int process) {
    return t->file_name[t->process[process].file];
}

const char *sl_traced_sources(const sl_traced *t, char text[SL_SOURCES]) {
    const char *first = t->files > 0 ? t->file_name[0] : "the trace";
    if (t->files > 1)
        snprintf(text, SL_SOURCES, "%.250s and %d more", first, t->files - 1);
    else
        snprintf(text, SL_SOURCES, "%.290s", first);
    return text;
}

void sl_traced_free(sl_traced *t) {
    sl_file_free(t->file);
    SL_FREE(t->op, t->message, t->process, t->name);
    for (int i = 0; t->file_name && i <= t->files && (size_t)i < t->name_rooms; i++)
        sl_free(t->file_name[i]);
    sl_free(t->file_name);
    *t = (sl_traced){0};
}
