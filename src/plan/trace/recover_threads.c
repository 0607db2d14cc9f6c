/* Ranks that are threads of one process, as in simulators and multithreaded programs. A rank runs one op at a
 * time; so if names have the stages, each stage is on one thread, and ops of two threads overlap, the threads
 * are the ranks. A process that is known to be one rank is not divided. */
#include "base/memory.h"
#include "plan/trace/recover_inside.h"

#include <stdlib.h>

/* The thread of one stage's ops. */
typedef struct thread_position {
    int process;
    int32_t stage;
    uint64_t thread;
    sl_time start, end;
    size_t op; /* index */
} thread_position;

static int compare_positions(const void *a, const void *b) {
    const thread_position *x = a, *y = b;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int compare_stages(const void *a, const void *b) {
    const thread_position *x = a, *y = b;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    return x->thread < y->thread ? -1 : x->thread > y->thread;
}

static sl_status list_positions(const sl_traced *t, thread_position **list, size_t *count) {
    *count = 0;
    SL_TRY(sl_alloc(list, t->ops, sizeof **list));
    for (size_t i = 0; i < t->ops; i++) {
        const sl_traced_op *op = &t->op[i];
        if (op->op.kind < SL_OP_KINDS && t->process[op->process].rank < 0)
            (*list)[(*count)++] =
                (thread_position){op->process, op->op.stage, op->thread, op->label_start, op->label_end, i};
    }
    return SL_OK;
}

/* Whether ops of two threads overlap by more than a tenth of one; `of` by start, of one process. */
static int overlap(const thread_position *of, size_t count) {
    const thread_position *latest = count ? &of[0] : NULL; /* the one with the latest end so far */
    for (size_t i = 1; i < count; i++) {
        if (of[i].thread != latest->thread && latest->end - of[i].start > (of[i].end - of[i].start) / 10)
            return 1;
        latest = of[i].end > latest->end ? &of[i] : latest;
    }
    return 0;
}

/* Whether each stage has one thread; `of` by stage, then thread, of one process. */
static int one_thread_a_stage(const thread_position *of, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (of[i].stage < 0 || (i > 0 && of[i].stage == of[i - 1].stage && of[i].thread != of[i - 1].thread))
            return 0;
    return 1;
}

/* The process of a thread: the present one for the first, a new one for each other. */
static sl_status process_for(sl_traced *t, int process, size_t first, uint64_t thread, uint64_t own,
                             int *found) {
    *found = process;
    if (thread == own)
        return SL_OK;
    for (size_t i = first; i < t->processes; i++)
        if (t->process[i].key == thread) {
            *found = (int)i;
            return SL_OK;
        }
    SL_TRY(sl_grow(&t->process, &t->process_room, t->processes + 1, sizeof *t->process));
    t->process[t->processes] = t->process[process];
    t->process[t->processes].key = thread;
    t->process[t->processes].ops = 0;
    *found = (int)t->processes++;
    return SL_OK;
}

/* Moves ops and messages of a process to the processes of their threads. */
static sl_status divide(sl_traced *t, const thread_position *of, size_t count) {
    const int process = of->process;
    const size_t first = t->processes;
    int found;
    for (size_t i = 0; i < count; i++) {
        SL_TRY(process_for(t, process, first, of[i].thread, of->thread, &found));
        t->op[of[i].op].process = found;
        t->process[process].ops--;
        t->process[found].ops++;
    }
    for (size_t i = 0; i < t->messages; i++)
        for (size_t k = first; k < t->processes; k++)
            if (t->message[i].process == process && t->message[i].thread == t->process[k].key)
                t->message[i].process = (int)k;
    for (size_t i = 0; i < t->ops; i++) /* gathers and reductions */
        for (size_t k = first; k < t->processes; k++)
            if (t->op[i].op.kind >= SL_OP_KINDS && t->op[i].process == process &&
                t->op[i].thread == t->process[k].key)
                t->op[i].process = (int)k;
    return SL_OK;
}

sl_status sl_recover_threads(sl_traced *t) {
    thread_position *list = NULL;
    size_t count;
    sl_status status = list_positions(t, &list, &count);
    if (status == SL_OK && count > 0)
        qsort(list, count, sizeof *list, compare_positions);
    for (size_t first = 0, last; status == SL_OK && first < count; first = last) {
        for (last = first; last < count && list[last].process == list[first].process;)
            last++;
        if (!overlap(list + first, last - first))
            continue;
        qsort(list + first, last - first, sizeof *list, compare_stages);
        if (one_thread_a_stage(list + first, last - first))
            status = divide(t, list + first, last - first);
    }
    sl_free(list);
    return status;
}
