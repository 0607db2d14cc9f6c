/* Ops that only the profiler's stacks show: PyTorch's Schedule1F1B gives its ops no labels, but
 * with_stack=True records their functions. If the file has labels, they are used instead. */
#include "plan/trace/collect_inside.h"

static size_t count(const sl_traced *t, const sl_file *f, int of_stack, int kind) {
    size_t found = 0;
    for (size_t i = f->first_op; i < t->ops; i++)
        found += t->op[i].of_stack == of_stack && (kind < 0 || t->op[i].op.kind == kind);
    return found;
}

static void drop(sl_traced *t, const sl_file *f) {
    size_t kept = f->first_op;
    for (size_t i = f->first_op; i < t->ops; i++) {
        if (!t->op[i].of_stack)
            t->op[kept++] = t->op[i];
        else if (t->op[i].op.kind < SL_OP_KINDS)
            t->process[t->op[i].process].ops--;
    }
    t->ops = kept;
}

void sl_file_sort_stack(sl_traced *t, const sl_file *f) {
    if (count(t, f, 0, -1) > 0) {
        drop(t, f);
        return;
    }
    /* backward_one_chunk is I if each has its backward_weight_one_chunk */
    const size_t weights = count(t, f, 1, SL_W);
    const int kind = weights > 0 && weights == count(t, f, 1, SL_B) ? SL_I : SL_B;
    for (size_t i = f->first_op; i < t->ops; i++)
        if (t->op[i].op.kind == SL_B)
            t->op[i].op.kind = kind;
}
