/* The end of a trace file: what its events tell of each other. */
#include "base/memory.h"
#include "plan/trace/collect_parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void sl_file_free(sl_file *f) {
    if (!f)
        return;
    sl_scan_close(f->scanner);
    for (size_t i = 0; i < f->opens; i++)
        free(f->open[i].text);
    sl_free(f->open);
    sl_free(f->name);
    sl_free(f->inner);
    sl_free(f->issue);
    sl_free(f->receipt);
    sl_free(f->payload);
    sl_free(f->launch);
    sl_free(f->kernel);
    sl_free(f->mark);
    sl_free(f);
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

/* Behind the last receive that was issued inside, where there is one: it is waited for. */
static void find_work(sl_traced *t, sl_file *f) {
    if (f->inners > 0)
        qsort(f->inner, f->inners, sizeof *f->inner, compare_inner);
    if (f->issues > 0)
        qsort(f->issue, f->issues, sizeof *f->issue, compare_inner);
    for (size_t i = f->first_op; i < t->ops; i++) {
        sl_traced_op *op = &t->op[i];
        sl_time from = op->start;
        for (size_t k = first_from(f->issue, f->issues, op->thread, from); inside(f->issue, f->issues, k, op);
             k++)
            from = f->issue[k].start;
        size_t at = first_from(f->inner, f->inners, op->thread, from);
        if (inside(f->inner, f->inners, at, op))
            op->work = f->inner[at].start;
    }
}

/* ---- kernels ---- */

/* By start; the longer first, for it holds the other; F of a pair before its B. */
static int compare_ops(const void *a, const void *b) {
    const sl_traced_op *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    return x->op.kind - y->op.kind;
}

/* Launches: which op's label was open; `at` becomes the index of the op, -1: none. Ops of a file are sorted.
 */
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

/* A pair's B lies behind its F, which has found the kernels of both. */
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

static void give_payload(sl_traced *t, const sl_file *f, const sl_payload *p) {
    for (size_t i = f->first_message; i < t->messages; i++) {
        sl_traced_message *m = &t->message[i];
        if (m->thread == p->thread && m->start <= p->start && p->start <= m->end) {
            m->bytes += p->bytes;
            return;
        }
    }
    for (size_t i = f->first_op; i < t->ops; i++) {
        sl_traced_op *op = &t->op[i];
        if (op->thread == p->thread && op->label_start <= p->start && p->start <= op->label_end) {
            op->bytes += p->bytes;
            op->sent = p->start;
            return;
        }
    }
}

/* To the label of the receive that was issued then, else to the op inside which it was. */
static void give_receipt(sl_traced *t, const sl_file *f, const sl_receipt *receipt) {
    for (size_t i = f->first_message; i < t->messages; i++) {
        sl_traced_message *m = &t->message[i];
        if (m->receive && m->thread == receipt->thread && m->start <= receipt->start &&
            receipt->start <= m->end && !m->done) {
            m->end = receipt->end;
            m->done = 1;
            return;
        }
    }
    for (size_t i = f->first_op; i < t->ops; i++) {
        sl_traced_op *op = &t->op[i];
        if (op->thread == receipt->thread && op->label_start <= receipt->start &&
            receipt->start <= op->label_end)
            op->received = receipt->end > op->received ? receipt->end : op->received;
    }
}

static int64_t mark_at(const sl_file *f, sl_time start) {
    for (size_t i = 0; i < f->marks; i++)
        if (f->mark[i].start <= start && start < f->mark[i].end)
            return f->mark[i].iteration;
    return -1;
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
    if (t->ops > f->first_op) /* labels of a file in the order of time */
        qsort(t->op + f->first_op, t->ops - f->first_op, sizeof *t->op, compare_ops);
    find_work(t, f);
    for (size_t i = 0; i < f->payloads; i++)
        give_payload(t, f, &f->payload[i]);
    for (size_t i = 0; i < f->receipts; i++)
        give_receipt(t, f, &f->receipt[i]);
    for (size_t i = f->first_op; i < t->ops; i++)
        t->op[i].mark = t->op[i].mark < 0 ? mark_at(f, t->op[i].start) : t->op[i].mark;
    for (size_t i = f->first_message; i < t->messages; i++)
        t->message[i].mark = t->message[i].mark < 0 ? mark_at(f, t->message[i].start) : t->message[i].mark;
    SL_TRY(find_kernels(t, f));
    for (size_t i = f->first_process; i < t->processes; i++) {
        t->process[i].host = f->host;
        t->process[i].rank = f->rank >= 0 ? f->rank : t->process[i].rank;
    }
    shift(t, f);
    return SL_OK;
}

/* ---- names ---- */

enum { NAMES_MOST = 512, NAME_LENGTH = 64 };

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
    if (t->names == NAMES_MOST)
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

sl_status sl_traced_check(const sl_traced *t) {
    for (size_t i = 0; i < t->ops; i++)
        if (t->op[i].op.kind < SL_OP_KINDS)
            return SL_OK;
    char seen[512] = "";
    const struct sl_name *name = NULL;
    for (int i = 0; i < 6 && (name = most_frequent(t, name)) != NULL; i++) {
        size_t used = strlen(seen);
        snprintf(seen + used, sizeof seen - used, "%s'%s' (%ld)", used ? ", " : "", name->text, name->count);
    }
    if (!seen[0])
        snprintf(seen, sizeof seen,
                 "none but PyTorch's own; label the ops with record_function (Schedule1F1B of PyTorch has no "
                 "labels, _PipelineScheduleRuntime has)");
    return sl_error(
        SL_EINVAL,
        "no ops of a pipeline among %zu events; names seen (N: a number): %s. Tell what they mean, "
        "such as --map 'F=fwd stage {stage} mb {microbatch}' --map 'B=bwd*'; see slackline profile "
        "--help",
        t->events, seen);
}

void sl_traced_free(sl_traced *t) {
    sl_file_free(t->file);
    sl_free(t->op);
    sl_free(t->message);
    sl_free(t->process);
    sl_free(t->name);
    *t = (sl_traced){0};
}
