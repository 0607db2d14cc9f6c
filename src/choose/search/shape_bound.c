/* What a layer keeps of a microbatch stays at least until the later layers have run forwards and backwards.
 * So bytes times time is bounded from below, for all ranks together and for each, and with it the time.
 *
 * Every cut of a linear placement is covered: a rank with layers b .. e - 1 cannot begin before the forwards
 * of the layers before, on the fastest rank; after its last I come their backwards, while its W may be left
 * for the end. Other placements: the work of all layers, shared out by speed. All placements: the way of one
 * microbatch there and back, and the messages of all microbatches on each link, one after the other. */
#include "base/memory.h"
#include "choose/search/shape.h"
#include "plan/pipeline/layers.h"

#include <math.h>

typedef struct bound_sums {
    double *work, *forward, *back; /* [layers + 1] of the layers before, ns: F, I and W; F; I */
    double *gather, *reduce;       /* ns */
    double *weights, *needed;      /* bytes; of one microbatch */
    double *hosted;                /* bytes in host memory */
    double *stays;                 /* bytes times ns that these stay at least */
} bound_sums;

/* The larger of two; the first if the second is not a number. */
static inline double larger(double a, double b) {
    return b > a ? b : a;
}

static double least_kept(const sl_layers *l, size_t layer) {
    return l->recompute ? fmin(l->input[layer], l->delta[SL_F][layer]) : l->delta[SL_F][layer];
}

static sl_status add_up(const sl_problem *p, bound_sums *b) {
    const sl_layers *l = p->layers;
    size_t n = (size_t)l->count + 1;
    double *all;
    SL_TRY(sl_alloc(&all, 9 * n, sizeof *all));
    *b = (bound_sums){all,         all + n,     all + 2 * n, all + 3 * n, all + 4 * n,
                      all + 5 * n, all + 6 * n, all + 7 * n, all + 8 * n};
    for (size_t i = 0; i + 1 < n; i++) {
        double split = (double)(l->time[SL_I][i] + l->time[SL_W][i]), full = (double)l->time[SL_B][i];
        b->work[i + 1] = b->work[i] + (double)l->time[SL_F][i] + fmin(split, full);
        b->forward[i + 1] = b->forward[i] + (double)l->time[SL_F][i];
        b->back[i + 1] = b->back[i] + (double)l->time[SL_I][i];
        b->gather[i + 1] = b->gather[i] + (double)l->gather[i];
        b->reduce[i + 1] = b->reduce[i] + (double)l->reduce[i];
        b->weights[i + 1] = b->weights[i] + l->weights[i];
        b->needed[i + 1] = b->needed[i] + least_kept(l, i);
        b->hosted[i + 1] = b->hosted[i] + (l->hosted ? l->hosted[i] : 0);
    }
    double fastest = 0, way = b->forward[n - 1] + b->back[n - 1];
    for (int rank = 0; rank < p->ranks; rank++)
        fastest = fmax(fastest, l->speed[rank]);
    for (size_t i = 0; i + 1 < n; i++)
        b->stays[i + 1] = b->stays[i] + least_kept(l, i) * (way - b->forward[i] - b->back[i]) / fastest;
    return SL_OK;
}

/* A rank of a linear placement with layers first .. end - 1; INFINITY: not within its memory. */
static double rank_ns(const sl_problem *p, const bound_sums *b, int rank, int first, int end, double fastest,
                      double hops) {
    const sl_layers *l = p->layers;
    double needed = b->weights[end] - b->weights[first] + b->needed[end] - b->needed[first],
           hosted = b->hosted[end] - b->hosted[first];
    if ((l->memory && needed > l->memory[rank] * (1 + 1e-9)) || hosted > l->host_memory * (1 + 1e-9))
        return INFINITY;
    double head = larger(b->forward[first] / fastest + hops, b->gather[end] - b->gather[first]),
           tail = b->back[first] / fastest + hops, each = p->microbatches / l->speed[rank],
           to_last_i = b->forward[end] - b->forward[first] + b->back[end] - b->back[first],
           all = b->work[end] - b->work[first];
    double time = head + larger(each * to_last_i + tail, each * all + b->reduce[end] - b->reduce[first]);
    if (!l->memory)
        return time;
    double room = l->memory[rank] - (b->weights[end] - b->weights[first]) +
                  (p->host_limit ? l->host_memory - hosted : 0);
    return larger(time, p->microbatches * (b->stays[end] - b->stays[first]) / room);
}

/* The least over cuts of the largest rank_ns: least[e] for the ranks so far with e layers. */
static sl_status best_cut(const sl_problem *p, const bound_sums *b, double fastest, double *best) {
    int n = p->layers->count;
    double *least, *next, hops = 0;
    SL_TRY(sl_alloc(&least, 2 * ((size_t)n + 1), sizeof *least));
    next = least + n + 1;
    for (int e = 0; e <= n; e++)
        least[e] = e == 0 ? 0 : INFINITY;
    for (int rank = 0; rank < p->ranks; rank++) {
        int most = n - (p->ranks - 1 - rank); /* a layer for each of the later ranks */
        for (int e = 0; e <= n; e++)
            next[e] = INFINITY;
        for (int e = rank + 1 < p->ranks ? rank + 1 : n; e <= most; e++) {
            for (int first = e - 1; first >= rank; first--) {
                if (least[first] < next[e]) {
                    double mine = larger(rank_ns(p, b, rank, first, e, fastest, hops), least[first]);
                    next[e] = mine < next[e] ? mine : next[e];
                }
                if (p->microbatches * (b->work[e] - b->work[first]) / p->layers->speed[rank] > next[e])
                    break; /* more layers take longer still */
            }
        }
        for (int e = 0; e <= n; e++)
            least[e] = next[e];
        if (rank + 1 < p->ranks) {
            const sl_link *link = &p->link[rank * p->ranks + rank + 1];
            hops += (double)(link->latency + link->transfer);
        }
    }
    *best = least[n];
    sl_free(least);
    return SL_OK;
}

/* Messages, ns. */
typedef struct bound_messages {
    double way;  /* of one microbatch, there */
    double all;  /* of all microbatches on the link with the most, which takes one at a time */
    double once; /* where each microbatch passes a link once: of the others there, besides a whole way */
} bound_messages;

/* How often a microbatch passes the hop from a rank to the next on its way there. */
static int passes(const sl_problem *p, int rank) {
    int chunks = p->stages / p->ranks;
    if (rank + 1 < p->ranks)
        return chunks;
    return p->placement == SL_LOOP && p->ranks > 1 ? chunks - 1 : 0;
}

static bound_messages messages_of(const sl_problem *p) {
    bound_messages m = {0};
    for (int rank = 0; rank < p->ranks; rank++) {
        const sl_link *link = &p->link[rank * p->ranks + (rank + 1) % p->ranks];
        double transfer = (double)link->transfer;
        int mine = passes(p, rank);
        m.way += mine * (transfer + (double)link->latency);
        /* gradients come back on the other direction; a wave turns, and two ranks in a loop have one link */
        int busy = p->placement == SL_LOOP && p->ranks == 2 ? passes(p, 0) + passes(p, 1) : mine;
        m.all = larger(m.all, (double)p->microbatches * busy * transfer);
        m.once = larger(m.once, busy == 1 ? (p->microbatches - 1) * transfer : 0);
    }
    return m;
}

sl_status sl_shape_bound_of(const sl_problem *p, const sl_shape_parts *parts, sl_shape_bound *bound) {
    const sl_layers *l = p->layers;
    bound_sums b;
    int n = l->count;
    double speeds = 0, fastest = 0, room = 0, best = 0;
    SL_TRY(add_up(p, &b));
    int scaled = 0;
    for (int rank = 0; rank < p->ranks; rank++) {
        scaled |= l->speed[rank] < 1 || l->speed[rank] > 1;
        speeds += l->speed[rank];
        fastest = fmax(fastest, l->speed[rank]);
        room += l->memory ? l->memory[rank] : INFINITY;
    }
    double on_host = p->host_limit ? p->ranks * l->host_memory - b.hosted[n] : 0;
    sl_status status = SL_OK;
    const bound_messages messages = messages_of(p);
    double shared = p->microbatches * b.work[n] / speeds,
           way = (b.forward[n] + b.back[n]) / fastest + 2 * messages.way + messages.once;
    if (p->placement == SL_LINEAR)
        status = best_cut(p, &b, fastest, &best);
    else if (b.weights[n] > room || b.hosted[n] > p->ranks * l->host_memory * (1 + 1e-9))
        best = INFINITY;
    if (room < INFINITY && room > b.weights[n])
        best = fmax(best, p->microbatches * b.stays[n] / (room + on_host - b.weights[n]));
    best = fmax(fmax(best, messages.all), fmax(shared, way)) + parts->update * 1e9;
    best *= 1 - 1e-9;
    if (scaled) /* ops are rounded to the ns */
        best -= 2.0 * p->microbatches * (p->stages / p->ranks) + 3.0 * p->stages;
    bound->time = best < 9e18 ? (sl_time)fmax(best, 0) : SL_TIME_NEVER;
    bound->memory = b.weights[n] / p->ranks;
    sl_free(b.work);
    return status;
}
