/* Problems and orders of the tests of exports, and their output. */
#ifndef SL_TESTS_PLAN_EXPORTED_H
#define SL_TESTS_PLAN_EXPORTED_H

#include "check.h"
#include "plan/order_text.h"

#include "base/memory.h"
#include "plan/export/export.h"
#include "plan/export/order_table.h"

/** F 1 ms, I 1 ms, W 1 ms, B 2 ms. */
static inline sl_problem shaped(int ranks, int stages, int microbatches, sl_placement placement) {
    sl_problem p;
    assert_ok(sl_problem_make(ranks, stages, microbatches, &p));
    p.placement = placement;
    for (int stage = 0; stage < stages; stage++) {
        p.time[SL_F][stage] = p.time[SL_I][stage] = p.time[SL_W][stage] = SL_MS;
        p.time[SL_B][stage] = 2 * SL_MS;
    }
    return p;
}

/** The plan of rows as order_text.h has them. */
static inline sl_plan planned(const sl_problem *p, const char *const *rows) {
    sl_order order;
    sl_plan plan;
    assert_ok(sl_order_make(p->ranks, sl_problem_rank_ops(p, 0, 3), &order));
    for (int rank = 0; rank < p->ranks; rank++)
        fill(&order, rank, rows[rank]);
    assert_ok(sl_plan_of_order(p, &order, "file", &plan));
    sl_order_free(&order);
    return plan;
}

/** Free with free; NULL if it fails, with *status. */
static inline char *exported(const char *name, const sl_problem *p, const sl_plan *plan,
                             const sl_export_shape *shape, sl_status *status) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    *status = sl_export_find(name)->write(p, plan, shape ? shape : &sl_export_shape_standard, out);
    fclose(out);
    if (*status == SL_OK)
        return text;
    free(text);
    return NULL;
}

static inline void assert_has(const char *text, const char *part) {
    if (!text || !strstr(text, part))
        fail_msg("lacks '%s':\n%s", part, text ? text : sl_error_text());
}

static inline void assert_lacks(const char *text, const char *part) {
    if (!text || strstr(text, part))
        fail_msg("has '%s':\n%s", part, text ? text : sl_error_text());
}

#endif
