#include "plan/search/plan_memory.h"
#include "base/memory.h"

/* Permanent use is added to the changes by ops; the limit covers both. */
sl_status sl_plan_memory_make(const sl_problem *p, const sl_timeline *t, sl_plan_memory *m) {
    *m = (sl_plan_memory){0};
    SL_TRY(sl_alloc(&m->first, (size_t)t->ranks + 1, sizeof *m->first));
    SL_TRY(sl_memory_course(p, t, &m->step, m->first));
    for (int i = 0; i < m->first[t->ranks]; i++)
        m->step[i].used += sl_problem_fixed(p, m->step[i].rank);
    SL_TRY(sl_alloc(&m->always, (size_t)t->ranks, sizeof *m->always));
    for (int rank = 0; rank < t->ranks; rank++)
        m->always[rank] = sl_problem_fixed(p, rank);
    if (!p->limit)
        return SL_OK;
    SL_TRY(sl_alloc(&m->limit, (size_t)t->ranks, sizeof *m->limit));
    for (int rank = 0; rank < t->ranks; rank++)
        m->limit[rank] = p->limit[rank] + m->always[rank];
    return SL_OK;
}

void sl_plan_memory_free(sl_plan_memory *m) {
    SL_FREE(m->step, m->first, m->always, m->limit);
    *m = (sl_plan_memory){0};
}
