#include "plan/family/cross_ud_sub.h"
#include "base/memory.h"
#include "plan/family/greedy_pass.h"
#include "plan/family/slack.h"
#include "plan/timing/objective.h"

typedef enum warmup { NATURAL, STATIC, ADAPTED, WARMUPS } warmup;

/* Rules worth a pass. On the paper's grid (4 and 8 ranks, two sites, delays up to 2 F), the first four are
 * within 0.05% of the best of all; long problems try only the first FEW. */
static const struct sub_choice {
    sl_steady steady;
    warmup warmup;
    int overrun, weights_first;
} choices[] = {
    /* clang-format off */
    {SL_ALTERNATE, NATURAL, 0, 0},
    {SL_FORWARD_FIRST, NATURAL, 0, 0},
    {SL_STRICT, STATIC, 4, 0},
    {SL_ALTERNATE, NATURAL, 4, 0},
    {SL_STRICT, STATIC, 0, 1}, /* 1F1B with its B split in two */
    {SL_INPUT_FIRST, NATURAL, 4, 0},
    {SL_FORWARD_FIRST, ADAPTED, 4, 0},
    {SL_STRICT, ADAPTED, 4, 0},
    {SL_FORWARD_FIRST, NATURAL, 4, 0},
    {SL_ALTERNATE, NATURAL, 2, 0},
    {SL_INPUT_FIRST, NATURAL, 0, 0},
    {SL_INPUT_FIRST, NATURAL, 2, 0},
    {SL_FORWARD_FIRST, NATURAL, 2, 0},
    {SL_ALTERNATE, ADAPTED, 4, 0},
    {SL_ALTERNATE, ADAPTED, 0, 0},
    {SL_ALTERNATE, ADAPTED, 2, 0},
    {SL_INPUT_FIRST, ADAPTED, 4, 0},
    {SL_INPUT_FIRST, ADAPTED, 0, 0},
    {SL_INPUT_FIRST, ADAPTED, 2, 0},
    {SL_FORWARD_FIRST, ADAPTED, 0, 0},
    {SL_FORWARD_FIRST, ADAPTED, 2, 0},
    {SL_STRICT, ADAPTED, 0, 0},
    {SL_STRICT, ADAPTED, 2, 0},
    {SL_STRICT, STATIC, 0, 0},
    {SL_STRICT, STATIC, 2, 0},
    {SL_STRICT, ADAPTED, 0, 1},
    /* clang-format on */
};
enum { FEW = 5, CHOICES = SL_CROSS_UD_SUB_TRIES };
_Static_assert(sizeof choices / sizeof choices[0] == CHOICES, "tries");

/* Every rule gets a pass if the sum of their ops is small. */
static int passes(const sl_problem *p) {
    int64_t ops = 3LL * p->stages * p->microbatches * p->parts, most = 4000000 / ops;
    return most < FEW ? FEW : most > CHOICES ? CHOICES : (int)most;
}

/* Forwards before the first backward under each kind of quota. */
static sl_status make_quotas(const sl_problem *p, int **quota) {
    for (int kind = STATIC; kind < WARMUPS; kind++)
        SL_TRY(sl_alloc(&quota[kind], (size_t)p->ranks, sizeof *quota[kind]));
    for (int rank = 0; rank < p->ranks; rank++) {
        int left = p->ranks - rank;
        quota[STATIC][rank] = left < p->microbatches ? left : p->microbatches;
    }
    sl_warmup_adapted(p, quota[ADAPTED]);
    return SL_OK;
}

static sl_status try_choices(const sl_problem *p, int *const *quota, sl_order *best) {
    sl_time least = SL_TIME_NEVER;
    for (int i = 0; i < CHOICES; i++) {
        const struct sub_choice *c = &choices[i];
        sl_phase_rule rule = {.steady = c->steady,
                              .warmup = quota[c->warmup],
                              .overrun = c->overrun,
                              .weights_first = c->weights_first};
        sl_order order;
        sl_time value = SL_TIME_NEVER;
        if (i >= passes(p) && least < SL_TIME_NEVER)
            break;
        sl_status status = sl_phases_order(p, &rule, &order);
        if (status == SL_ENONE)
            continue;
        SL_TRY(status);
        status = sl_objective_of_order(p, &order, &value);
        if (status == SL_OK && value < least) {
            sl_order worse = *best;
            *best = order;
            order = worse;
            least = value;
        }
        sl_order_free(&order);
        SL_TRY(status);
    }
    return least < SL_TIME_NEVER ? SL_OK
                                 : sl_error(SL_ENONE, "cross-ud-sub: no schedule fits into the memory limit");
}

sl_status sl_cross_ud_sub(const sl_problem *p, sl_order *order) {
    int *quota[WARMUPS] = {0};
    *order = (sl_order){0};
    sl_status status = make_quotas(p, quota);
    SL_THEN(status, try_choices(p, quota, order));
    for (int kind = 0; kind < WARMUPS; kind++)
        sl_free(quota[kind]);
    if (status != SL_OK)
        sl_order_free(order);
    return status;
}
