#include "plan/family/family.h"
#include "base/memory.h"
#include "plan/family/cross_ud_sub.h"
#include "plan/family/list.h"
#include "plan/family/slack.h"
#include "plan/family/static_families.h"

#include <stdio.h>
#include <string.h>

static int least(int a, int b) {
    return a < b ? a : b;
}

static void append(sl_order *order, int rank, int kind, int microbatch) {
    order->ops[rank][order->count[rank]++] = (sl_op){.stage = rank, .microbatch = microbatch, .kind = kind};
}

/* Some forwards, then one backward and one forward in turn, then the backwards that are left. */
static sl_status one_f_one_b(const sl_problem *p, sl_order *order) {
    int n = p->microbatches;
    SL_TRY(sl_order_make(p->ranks, 2 * n, order));
    for (int rank = 0; rank < p->ranks; rank++) {
        int warmup = least(p->ranks - rank, n);
        for (int m = 0; m < warmup; m++)
            append(order, rank, SL_F, m);
        for (int m = 0; m < n; m++) {
            append(order, rank, SL_B, m);
            if (warmup + m < n)
                append(order, rank, SL_F, warmup + m);
        }
    }
    return SL_OK;
}

/* Zero Bubble's handcrafted schedules (its section 2): H1 keeps 1F1B's warm-up p - s and memory p on every
 * rank, W fills what 1F1B leaves idle; H2 (`deep`) warms up with 2(p - s) - 1 and takes 2p - 1. Found for F =
 * I = W on free links, whatever the problem's times are. */
static sl_status zero_bubble(const sl_problem *p, int deep, sl_order *order) {
    sl_problem unit;
    int *x, ranks = p->ranks;
    SL_TRY(sl_problem_make(ranks, ranks, p->microbatches, &unit));
    sl_status status = sl_alloc(&x, 2 * (size_t)ranks, sizeof *x);
    if (status == SL_OK) {
        for (int rank = 0; rank < ranks; rank++) {
            unit.time[SL_F][rank] = unit.time[SL_I][rank] = unit.time[SL_W][rank] = 1;
            x[rank] = least(deep ? 2 * (ranks - rank) - 1 : ranks - rank, p->microbatches);
            x[ranks + rank] = deep ? 2 * ranks - 1 : ranks;
        }
        sl_list_rule rule = {.warmup = x, .ahead = x, .flight = x + ranks, .forward_first = 1};
        status = sl_list_schedule(&unit, &rule, order);
        sl_free(x);
    }
    sl_problem_free(&unit);
    return status;
}

static sl_status zb_h1(const sl_problem *p, sl_order *order) {
    return zero_bubble(p, 0, order);
}

static sl_status zb_h2(const sl_problem *p, sl_order *order) {
    return zero_bubble(p, 1, order);
}

/* ---- adaptra ---- */

static int links_are_free(const sl_problem *p) {
    for (int i = 0; i < p->ranks * p->ranks; i++)
        if (p->link[i].latency > 0 || p->link[i].transfer > 0)
            return 0;
    return 1;
}

/* Forwards that a rank may run before its first I without passing its limit, at most all; room for that I is
 * kept where I takes memory (F leaves it, see list.c). */
static int capacity(const sl_problem *p, int rank) {
    double each = p->delta[SL_F][rank], input = p->delta[SL_I][rank] > 0 ? p->delta[SL_I][rank] : 0;
    if (!p->limit)
        return p->microbatches;
    double room = p->limit[rank] * (1 + 1e-9) - input;
    if (each <= 0)
        return room >= each ? p->microbatches : 0;
    return room < 0 ? 0 : room / each >= p->microbatches ? p->microbatches : (int)(room / each);
}

/* What no order can help: when a rank starts its last F, it holds at least what all other microbatches leave
 * behind, and that F or its I comes on top. */
static sl_status check_room(const sl_problem *p) {
    for (int rank = 0; p->limit && rank < p->ranks; rank++) {
        double forward = p->delta[SL_F][rank], input = forward + p->delta[SL_I][rank],
               kept = input + p->delta[SL_W][rank];
        double needed = (forward > input ? forward : input) + (kept > 0 ? kept * (p->microbatches - 1) : 0);
        if (needed > p->limit[rank] * (1 + 1e-9))
            return sl_error(SL_ENONE, "adaptra needs memory of at least %g on rank %d, over its limit of %g",
                            needed, rank, p->limit[rank]);
    }
    return SL_OK;
}

/* A rank's warm-up neither passes its own memory nor that of the rank before (Lemma 1: it never grows). */
static void clip(const sl_problem *p, int x0, int *x) {
    for (int rank = 0; rank < p->ranks; rank++) {
        x[rank] = least(x[rank], least(capacity(p, rank), rank > 0 ? x[rank - 1] : x0));
        x[rank] = x[rank] > 1 ? x[rank] : 1;
    }
}

static void choose_warmup(const sl_problem *p, int adapted, int x0, int *x) {
    if (adapted)
        sl_warmup_adapted(p, x);
    else
        sl_warmup_balanced(p->ranks, x0, x);
    clip(p, x0, x);
}

/* Algorithm 1 takes M / M_F for x_0, as if I freed everything. Here memory follows the deltas, so x_0 is the
 * largest that the list scheduler gets through with. Without a limit the first attempt succeeds. */
static sl_status adaptra(const sl_problem *p, sl_order *order) {
    int *x, adapted = !p->limit || !links_are_free(p);
    SL_TRY(check_room(p));
    SL_TRY(sl_alloc(&x, (size_t)p->ranks, sizeof *x));
    sl_list_rule rule = {.warmup = x, .limited = 1};
    sl_status status = SL_ENONE;
    for (int x0 = capacity(p, 0) > 1 ? capacity(p, 0) : 1; x0 >= 1 && status == SL_ENONE; x0--) {
        choose_warmup(p, adapted, x0, x);
        if (x[0] < x0)
            x0 = x[0];
        status = sl_list_schedule(p, &rule, order);
    }
    sl_free(x);
    return status == SL_ENONE ? sl_error(SL_ENONE, "adaptra: no schedule fits into the memory limit")
                              : status;
}

#define LINEAR (1u << SL_LINEAR)
#define LOOP (1u << SL_LOOP)
#define WAVE (1u << SL_WAVE)
#define BIDIRECTIONAL (1u << SL_BIDIRECTIONAL)
const sl_family sl_families[] = {
    {"gpipe", 0, LINEAR | LOOP | WAVE, sl_family_gpipe,
     "all forwards, then all backwards, stage by stage (GPipe; breadth-first)"},
    {"1f1b", 0, LINEAR, one_f_one_b, "one forward, one backward in turn (PipeDream-Flush, Megatron)"},
    {"zb-h1", 0, LINEAR, zb_h1, "backward in two halves, memory of 1f1b (Zero Bubble)"},
    {"zb-h2", 0, LINEAR, zb_h2,
     "backward in two halves, no bubble for equal times, twice the memory (Zero Bubble)"},
    {"adaptra", 0, LINEAR, adaptra,
     "warm-up by slack against slow links, then I before F before W (Adaptra)"},
    {"interleaved-1f1b", 0, LOOP, sl_family_interleaved,
     "1f1b with several stages a rank, in groups of microbatches (Megatron)"},
    {"zb-v", 0, WAVE | SL_TWO_STAGES, sl_family_zb_v,
     "no bubble for equal times with the memory of 1f1b, two stages a rank (Zero Bubble)"},
    {"dualpipe-v", 0, WAVE | SL_TWO_STAGES, sl_family_dualpipe_v,
     "forwards overlapped with backwards, two stages a rank (DeepSeek)"},
    {"chimera", 0, BIDIRECTIONAL, sl_family_chimera,
     "two pipelines against each other, for as many microbatches as ranks or few more (Chimera)"},
    {"cross-ud-sub", 1, LINEAR | SL_LABORIOUS, sl_cross_ud_sub,
     "greedy with phases, bubbles filled with parts of W (CrossPipe)"},
    {NULL, 0, 0, NULL, NULL}};

int sl_family_fits(const sl_family *family, const sl_problem *p) {
    return (family->placements & 1u << p->placement) &&
           (!(family->placements & SL_TWO_STAGES) || p->stages == 2 * p->ranks);
}

static sl_status refuse_shape(const sl_family *family, const sl_problem *p) {
    char needed[128] = "";
    if (family->placements & 1u << p->placement)
        return sl_error(SL_EINVAL, "%s needs two stages a rank (%d); the problem has %d", family->name,
                        2 * p->ranks, p->stages);
    for (int placement = 0; placement < SL_PLACEMENTS; placement++)
        if (family->placements & 1u << placement) {
            size_t used = strlen(needed);
            snprintf(needed + used, sizeof needed - used, "%s%s", used ? " or " : "",
                     sl_placement_name((sl_placement)placement));
        }
    return sl_error(SL_EINVAL, "%s needs placement %s; the problem's is %s", family->name, needed,
                    sl_placement_name(p->placement));
}

sl_status sl_family_build(const sl_family *family, const sl_problem *p, sl_order *order) {
    if (!sl_family_fits(family, p))
        return refuse_shape(family, p);
    SL_TRY(family->build(p, order));
    sl_status status = family->parts ? SL_OK : sl_order_split(p, order);
    if (status != SL_OK)
        sl_order_free(order);
    return status;
}

const sl_family *sl_family_find(const char *name) {
    for (const sl_family *family = sl_families; family->name; family++)
        if (strcmp(family->name, name) == 0)
            return family;
    return NULL;
}
