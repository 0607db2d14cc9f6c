#include "plan/search/portfolio.h"
#include "base/memory.h"
#include "plan/family/greedy_pass.h"
#include "plan/family/list.h"

/* The source of a list schedule's keys; PHASES: not a list schedule, but CrossPipe's greedy with F and I in
 * turn (plan/family/greedy_pass.h), for linear placement. */
typedef enum key_source { NO_KEYS, BY_TAIL, BY_HEAD, PHASES } key_source;

/* The number of forwards that a rank runs before its first backward. */
typedef enum quota { NO_QUOTA, ONE_F_ONE_B, DEEP } quota;

typedef struct rule {
    key_source keys; /* PHASES: all other fields but `patience` are 0 */
    quota quota;
    sl_list_tie tie;
    int patience; /* in quarters of the longest op; PHASES: the delay that a W may cause another op */
    int flight; /* cap of microbatches between F and W of a stage, in halves of the ranks; -1: one, 0: none */
} rule;

/* clang-format off */
static const rule rules[SL_PORTFOLIO] = {
    {PHASES, NO_QUOTA, SL_OLDEST, 2, 0},      {BY_TAIL, NO_QUOTA, SL_OLDEST, 0, 0},
    {BY_TAIL, NO_QUOTA, SL_OLDEST, 0, 2},     {BY_TAIL, NO_QUOTA, SL_OLDEST, 0, 4},
    {PHASES, NO_QUOTA, SL_OLDEST, 0, 0},      {BY_TAIL, NO_QUOTA, SL_OLDEST, 4, 0},
    {BY_TAIL, NO_QUOTA, SL_OLDEST, 1, 0},     {BY_HEAD, NO_QUOTA, SL_OLDEST, 0, 0},
    {NO_KEYS, NO_QUOTA, SL_OLDEST, 0, 0},     {BY_HEAD, NO_QUOTA, SL_OLDEST, 2, 0},
    {PHASES, NO_QUOTA, SL_OLDEST, 4, 0},      {NO_KEYS, NO_QUOTA, SL_BROADEST, 0, 0},
    {NO_KEYS, ONE_F_ONE_B, SL_OLDEST, 0, 0},  {NO_KEYS, ONE_F_ONE_B, SL_BROADEST, 0, 0},
    {NO_KEYS, DEEP, SL_OLDEST, 0, 0},         {NO_KEYS, DEEP, SL_BROADEST, 0, 0},
    {BY_TAIL, ONE_F_ONE_B, SL_OLDEST, 0, 0},  {BY_HEAD, ONE_F_ONE_B, SL_OLDEST, 0, 0},
    {BY_HEAD, ONE_F_ONE_B, SL_OLDEST, 4, 0},  {BY_TAIL, NO_QUOTA, SL_OLDEST, 0, -1},
    {NO_KEYS, NO_QUOTA, SL_OLDEST, 0, -1},    {BY_TAIL, NO_QUOTA, SL_OLDEST, 0, 1},
    {NO_KEYS, NO_QUOTA, SL_OLDEST, 0, 1},
};
/* clang-format on */

int sl_portfolio_suits(const sl_problem *p, int index) {
    const rule *r = &rules[index];
    if (r->keys == PHASES)
        return p->placement == SL_LINEAR;
    return r->flight == 0 || p->stages > p->ranks; /* caps help if ranks hold several stages */
}

static void append(const sl_problem *p, sl_order *order, int stage, int kind, int microbatch) {
    int rank = sl_problem_rank(p, stage);
    order->ops[rank][order->count[rank]++] = (sl_op){.stage = stage, .microbatch = microbatch, .kind = kind};
}

sl_status sl_serial_order(const sl_problem *p, sl_order *order) {
    int most = 0;
    for (int rank = 0; rank < p->ranks; rank++) {
        int ops = sl_problem_rank_ops(p, rank, 3);
        most = ops > most ? ops : most;
    }
    SL_TRY(sl_order_make(p->ranks, most, order));
    for (int m = 0; m < p->microbatches; m++) {
        for (int s = 0; s < p->stages; s++)
            if (sl_problem_runs(p, s, m))
                append(p, order, s, SL_F, m);
        for (int s = p->stages - 1; s >= 0; s--)
            if (sl_problem_runs(p, s, m)) {
                append(p, order, s, SL_I, m);
                append(p, order, s, SL_W, m);
            }
    }
    sl_status status = sl_order_split(p, order);
    if (status != SL_OK)
        sl_order_free(order);
    return status;
}

static int stages_per_rank(const sl_problem *p) {
    return p->stages / p->ranks;
}

/* As in 1F1B and its interleaved form; Zero Bubble's H2 goes twice as deep. */
static int quota_of(const sl_problem *p, quota kind, int rank) {
    int down = p->ranks - rank, chunks = stages_per_rank(p), wanted = 0;
    int total = p->microbatches * chunks / (p->placement == SL_BIDIRECTIONAL ? 2 : 1);
    if (kind == ONE_F_ONE_B)
        wanted = p->placement == SL_LOOP && chunks > 1 ? 2 * (down - 1) + (chunks - 1) * p->ranks + 1 : down;
    if (kind == DEEP)
        wanted = (2 * down - 1) * chunks;
    return wanted < total ? wanted : total;
}

static sl_time longest_op(const sl_problem *p) {
    sl_time longest = 0;
    for (int kind = SL_F; kind <= SL_W; kind++)
        for (int s = 0; s < p->stages; s++)
            longest = p->time[kind][s] > longest ? p->time[kind][s] : longest;
    return longest;
}

/* Smallest first: the op with the longest tail, or the one that could start earliest. */
static sl_status make_keys(const sl_relaxation *r, key_source source, int64_t **keys) {
    const sl_problem *p = r->problem;
    SL_TRY(sl_alloc(keys, (size_t)p->stages * 3 * (size_t)p->microbatches, sizeof **keys));
    for (int s = 0; s < p->stages; s++)
        for (int kind = SL_F; kind <= SL_W; kind++)
            for (int k = 0; k < r->count[s]; k++) {
                int node = sl_relaxation_node(r, s, kind, k);
                int64_t late = kind == SL_W && source == BY_HEAD ? SL_TIME_NEVER / 2 : 0;
                (*keys)[((int64_t)s * 3 + kind) * p->microbatches + k] =
                    source == BY_TAIL ? -r->tail[node] : r->head[node] + late;
            }
    return SL_OK;
}

static sl_status schedule(const sl_relaxation *r, const rule *chosen, int *warmup, sl_order *order) {
    const sl_problem *p = r->problem;
    int64_t *keys = NULL;
    int *flight = warmup + p->ranks, cap = chosen->flight * p->ranks / 2;
    for (int stage = 0; stage < p->stages; stage++)
        flight[stage] = cap > 1 ? cap : 1;
    if (chosen->keys != NO_KEYS)
        SL_TRY(make_keys(r, chosen->keys, &keys));
    sl_list_rule list = {.warmup = warmup,
                         .flight = chosen->flight != 0 ? flight : NULL,
                         .limited = 1,
                         .tie = chosen->tie,
                         .key = keys,
                         .patience = chosen->patience * longest_op(p) / 4};
    sl_status status = sl_list_schedule(p, &list, order);
    sl_free(keys);
    return status;
}

static sl_status phases(const sl_problem *p, const rule *chosen, sl_order *order) {
    return sl_phases_order(p, &(sl_phase_rule){.steady = SL_ALTERNATE, .overrun = chosen->patience}, order);
}

sl_status sl_portfolio_order(const sl_relaxation *r, int index, sl_order *order) {
    const sl_problem *p = r->problem;
    int *warmup;
    if (rules[index].keys == PHASES)
        return p->placement == SL_LINEAR ? phases(p, &rules[index], order) : SL_ENONE;
    SL_TRY(sl_alloc(&warmup, (size_t)p->ranks + (size_t)p->stages, sizeof *warmup));
    for (int rank = 0; rank < p->ranks; rank++)
        warmup[rank] = quota_of(p, rules[index].quota, rank);
    sl_status status = schedule(r, &rules[index], warmup, order);
    sl_free(warmup);
    if (status == SL_OK && (status = sl_order_split(p, order)) != SL_OK)
        sl_order_free(order);
    return status;
}

sl_status sl_portfolio_capped(const sl_relaxation *r, const int *cap, int patience, sl_order *order) {
    const sl_problem *p = r->problem;
    int *none, *flight;
    int64_t *keys = NULL;
    SL_TRY(sl_alloc(&none, (size_t)p->ranks + (size_t)p->stages, sizeof *none));
    flight = none + p->ranks;
    for (int stage = 0; stage < p->stages; stage++)
        flight[stage] = cap[stage / p->ranks];
    sl_status status = make_keys(r, BY_TAIL, &keys);
    sl_list_rule list = {.warmup = none,
                         .flight = flight,
                         .limited = 1,
                         .tie = SL_OLDEST,
                         .key = keys,
                         .patience = patience * longest_op(p) / 4};
    SL_THEN(status, sl_list_schedule(p, &list, order));
    SL_FREE(none, keys);
    if (status == SL_OK && (status = sl_order_split(p, order)) != SL_OK)
        sl_order_free(order);
    return status;
}
