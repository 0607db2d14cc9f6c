#include "notice/control/carried.h"
#include "base/text.h"

#define BEYOND 1.1      /* as a validation's (notice/validate/expect.c) */
#define SPREADS 2       /* plus this many coefficients of variation */
#define LATENCY_MIN 0.1 /* ms */
#define ANOTHER_WAY 2   /* times the tested value: calls that carry that much take another path */

typedef struct profile {
    const sl_call_profile *calls;
    double clock_error;
    const int *node_of;
    int ranks;
} profile;

/* What the calls of a group prove of the way from one node to another. */
typedef struct proof {
    double whole;      /* GB/s: it carried at least that much; 0: nothing is known */
    double gb_per_s;   /* the least of one of the streams that may have carried it */
    double latency_ms; /* it took at most that long; 0: nothing is known */
} proof;

static int node(int rank, const int *node_of, int ranks) {
    return rank >= 0 && rank < ranks ? node_of[rank] : -1;
}

/* Bytes that must have gone from `here` members of a node to `there` members of the other, per recorded byte
 * of the call; 0: not all members wait for each other in this call, or that is unknown. */
static double share_of(int call, int here, int there) {
    switch (call) {
    case SL_CALL_MPI_Allreduce:
    case SL_CALL_MPI_Iallreduce:
    case SL_CALL_glooAllreduce:
    case SL_CALL_glooIallreduce:
        return 1;
    case SL_CALL_glooAllgather: /* recorded: the bytes of one member's part */
    case SL_CALL_glooIallgather:
        return here;
    case SL_CALL_glooReduceScatter: /* recorded: the bytes that each member brings */
    case SL_CALL_glooIreduceScatter:
        return (double)there / (here + there);
    default:
        return 0;
    }
}

/* Several members may have sent at the same time, each as fast as one test, so a direction is credited with
 * at most its share. */
static proof proof_of(const sl_call_group *g, double clock_error, int from, int to, const int *node_of,
                      int ranks) {
    int here = 0, there = 0;
    for (int i = 0; i < g->size; i++) {
        here += node(g->member[i], node_of, ranks) == from;
        there += node(g->member[i], node_of, ranks) == to;
    }
    const double within = sl_spread_mean(&g->within) + clock_error;
    const double share = g->message || here + there != g->size ? 0 : share_of(g->call, here, there);
    const int at_once = here < there ? here : there;
    if (at_once == 0 || share <= 0 || g->within.count == 0 || within <= 0)
        return (proof){0};
    const double whole = share * (double)g->bytes / within; /* bytes / ns are GB/s */
    return (proof){whole, whole / at_once, within / 1e6};
}

/* For the link of a direction; nothing within a node. */
static proof best_proof(const profile *r, const sl_tested_direction *t) {
    const int from = node(t->from, r->node_of, r->ranks), to = node(t->to, r->node_of, r->ranks);
    proof best = {0};
    for (size_t g = 0; g < r->calls->groups && from >= 0 && to >= 0 && from != to; g++) {
        const proof p = proof_of(&r->calls->group[g], r->clock_error, from, to, r->node_of, r->ranks);
        best.whole = p.whole > best.whole ? p.whole : best.whole;
        best.gb_per_s = p.gb_per_s > best.gb_per_s ? p.gb_per_s : best.gb_per_s;
        if (p.latency_ms > 0 && (best.latency_ms <= 0 || p.latency_ms < best.latency_ms))
            best.latency_ms = p.latency_ms;
    }
    return best;
}

static int slow_by_rate(const sl_tested_direction *t, proof was, proof is) {
    return t->gb_per_s > 0 && is.whole <= ANOTHER_WAY * t->gb_per_s &&
           was.gb_per_s > (BEYOND + SPREADS * t->cv) * t->gb_per_s;
}

static int slow_by_latency(const sl_tested_direction *t, proof was, proof is) {
    return was.latency_ms > 0 && is.latency_ms * BEYOND > t->latency_ms &&
           t->latency_ms > BEYOND * was.latency_ms && t->latency_ms > was.latency_ms + LATENCY_MIN;
}

static void say(const sl_tested_direction *t, proof was, int by_rate, sl_suspect *s) {
    *s = (sl_suspect){.component = SL_COMPONENT_LINK,
                      .rank = -1,
                      .from = t->from,
                      .to = t->to,
                      .both = !by_rate, /* half a round trip is of both directions */
                      .measured = by_rate ? t->gb_per_s : t->latency_ms,
                      .expected = by_rate ? was.gb_per_s : was.latency_ms};
    if (by_rate)
        sl_text_format(s->why, sizeof s->why,
                       "tested: %.3g GB/s; healthy calls have carried %.3g GB/s or more", s->measured,
                       s->expected);
    else
        sl_text_format(
            s->why, sizeof s->why,
            "tested: latency of %.3g ms (half a round trip); healthy calls that wait for it took %.3g ms "
            "or less",
            s->measured, s->expected);
}

/* The same way with its ends turned around. */
static int is_back(const profile *r, const sl_tested_direction *t, const sl_suspect *s) {
    return node(t->from, r->node_of, r->ranks) == node(s->to, r->node_of, r->ranks) &&
           node(t->to, r->node_of, r->ranks) == node(s->from, r->node_of, r->ranks);
}

int sl_carried_compare(const sl_call_profile *healthy, const sl_call_profile *slow, int64_t clock_error,
                       const sl_tested_direction *tested, int count, const int *node_of, int ranks,
                       sl_suspect *found) {
    const profile before = {healthy, (double)clock_error, node_of, ranks};
    const profile now = {slow, (double)clock_error, node_of, ranks};
    double worst = 0;
    for (int i = 0; i < count; i++) {
        const sl_tested_direction *t = &tested[i];
        const proof was = best_proof(&before, t), is = best_proof(&now, t);
        const int by_rate = slow_by_rate(t, was, is);
        const double by = by_rate                       ? was.gb_per_s / t->gb_per_s
                          : slow_by_latency(t, was, is) ? t->latency_ms / was.latency_ms
                                                        : 0;
        if (by > worst) {
            worst = by;
            say(t, was, by_rate, found);
        }
    }
    for (int i = 0; i < count && worst > 0; i++)
        if (is_back(&before, &tested[i], found))
            found->both |=
                slow_by_rate(&tested[i], best_proof(&before, &tested[i]), best_proof(&now, &tested[i]));
    return worst > 0;
}
