#include "base/memory.h"
#include "choose/search/positions.h"
#include "plan/pipeline/layers.h"

#include <math.h>

#define S 1e9 /* ns */

/* What the parameters of a layer take on a device, and what is sent of them. */
typedef struct layer_weights {
    double memory;    /* bytes all the time */
    double hosted;    /* bytes in host memory all the time */
    double reduce;    /* ns of its gradients' sum, once in an iteration */
    double gather;    /* ns of its weights' gather, once */
    double each[3];   /* ns in F, I, W of every microbatch: ZeRO 2 and 3 */
    double update;    /* bytes that the optimizer reads and writes */
    double out, back; /* bytes that go to host memory before it, and come back */
} layer_weights;

/* A ring over `ranks`: one pass of V bytes (reduce-scatter or gather; an allreduce is two). */
static double pass_ns(double bytes, int ranks, double latency, double pace) {
    return ranks <= 1 ? 0 : (ranks - 1) * latency + (ranks - 1.0) / ranks * bytes * pace;
}

/* Of one kind of parameters, replicated over `ranks` of a rank's devices. */
static void add_weights(const sl_model_work *m, const sl_shape *s, double parameters, int ranks,
                        double latency, double pace, layer_weights *w) {
    int zero = s->zero, on_host = sl_hosts_optimizer(s->offload);
    if (parameters <= 0)
        return;
    double gradients = pass_ns(parameters * m->gradient_bytes, ranks, latency, pace),
           weights = pass_ns(parameters * m->weight_bytes, ranks, latency, pace), share = 1.0 / ranks;
    w->memory += parameters *
                 (m->weight_bytes * (zero >= 3 ? share : 1) + m->gradient_bytes * (zero >= 2 ? share : 1));
    double mine = parameters * (zero >= 1 ? share : 1);
    *(on_host ? &w->hosted : &w->memory) += mine * m->optimizer_bytes;
    w->update += mine * (2 * m->optimizer_bytes + m->gradient_bytes + m->weight_bytes);
    w->out += on_host ? mine * m->gradient_bytes : 0;
    w->back += on_host ? mine * m->weight_bytes : 0;
    if (ranks <= 1)
        return;
    if (zero >= 2)
        w->each[2] += gradients;
    else
        w->reduce += zero == 0 ? 2 * gradients : gradients;
    if (zero >= 3)
        for (int op = 0; op < 2; op++)
            w->each[op] += weights; /* again in the backward; W has them from I */
    else if (zero >= 1)
        w->gather += weights;
}

static layer_weights weights_of(const sl_model_work *m, const sl_positions *positions, const sl_shape *s,
                                const sl_layer_work *work) {
    layer_weights w = {0};
    double latency = 0, pace = 0;
    for (int rank = 0; rank < s->pipeline; rank++) {
        latency = fmax(latency, positions->ring_latency[rank]);
        pace = fmax(pace, positions->ring_pace[rank]);
    }
    if (s->division.context > 1) { /* these hold the same parameters, too */
        latency = fmax(latency, positions->latency[SL_WORK_CONTEXT]);
        pace = fmax(pace, positions->pace[SL_WORK_CONTEXT]);
    }
    int ranks = s->data * s->division.context;
    add_weights(m, s, work->parameters, ranks, latency, pace, &w);
    add_weights(m, s, work->expert_parameters, ranks / s->division.expert, latency, pace, &w);
    return w;
}

static sl_time to_ns(double ns) {
    return (sl_time)llround(fmin(ns, SL_MAX_OP_MS * 1e6));
}

/* One layer in a shape. */
typedef struct layer_cost {
    sl_layer_work work;
    sl_layer_seconds seconds;
    layer_weights weights;
    double waits[3]; /* ns for weights and gradients, beyond the computation meanwhile */
} layer_cost;

static layer_cost cost_of(const sl_model_work *m, const sl_devices *d, const sl_positions *positions,
                          const sl_shape *s, int layer) {
    layer_cost c = {0};
    sl_work_rates rates = {d->flops_per_s, d->bytes_per_s, d->overhead_s, 1, {0}, {0}};
    for (int group = 0; group < SL_WORK_GROUPS; group++) {
        rates.latency_s[group] = positions->latency[group] / S;
        rates.s_per_byte[group] = positions->pace[group] / S;
    }
    sl_layer_work_of(m, layer, &s->division, &c.work);
    const sl_layer_sizes *kind = &m->kind[m->layer[layer].kind];
    if (kind->kind == SL_LAYER_HEAD && kind->tied &&
        s->pipeline == 1) /* the embedding's, on the same device */
        c.work.parameters -= (double)kind->vocabulary / s->division.tensor * kind->width;
    sl_layer_time(&c.work, &rates, &c.seconds);
    c.weights = weights_of(m, positions, s, &c.work);
    for (int op = SL_F; op <= SL_W; op++)
        c.waits[op] = fmax(0, c.weights.each[op] - c.seconds.computed[op] * S);
    return c;
}

static void fill_layer(const layer_cost *c, int layer, sl_layers *l) {
    const sl_layer_work *w = &c->work;
    l->time[SL_B][layer] = 0;
    for (int op = SL_F; op <= SL_W; op++) {
        double ns = c->seconds.computed[op] * S + c->waits[op];
        for (int group = 0; group < SL_WORK_GROUPS; group++)
            ns += c->seconds.sent[group][op] * S;
        l->time[op][layer] = to_ns(ns);
        l->time[SL_B][layer] += op == SL_F ? 0 : l->time[op][layer];
    }
    l->delta[SL_F][layer] = w->kept;
    l->delta[SL_I][layer] = w->kept_for_w - w->kept - w->gradients;
    l->delta[SL_W][layer] = -w->kept_for_w;
    l->delta[SL_B][layer] = -w->kept - w->gradients;
    l->early[layer] = w->gradients;
    l->input[layer] = fmin(w->input, w->kept);
    l->weights[layer] = c->weights.memory;
    if (l->hosted)
        l->hosted[layer] = c->weights.hosted;
    l->reduce[layer] = to_ns(c->weights.reduce);
    l->gather[layer] = to_ns(c->weights.gather);
}

/* An optimizer on the host takes its layers one after the other: while it updates one, the gradients of the
 * next go there and the weights of the one before come back, each on a link of its own. So the slowest of the
 * three counts for all layers, and the other two once (*ends: the most of any layer). Returns s. */
static double hosted_update(const layer_weights *w, const sl_devices *d, double *ends) {
    double out = w->out * d->host_pace / S, back = w->back * d->host_pace / S,
           computed = w->update / d->host_bytes_per_s, slowest = fmax(computed, fmax(out, back));
    *ends = fmax(*ends, out + back + computed - slowest);
    return slowest;
}

/* The layer's part of what a rank does on average, in an iteration. */
static void add_parts(const layer_cost *c, const sl_devices *d, const sl_problem *p, double *ends,
                      sl_shape_parts *parts) {
    double each = (double)p->microbatches / p->ranks;
    for (int op = SL_F; op <= SL_W; op++) {
        parts->computed += c->seconds.computed[op] * each;
        parts->weights += c->waits[op] / S * each;
        for (int group = 0; group < SL_WORK_GROUPS; group++)
            parts->sent[group] += c->seconds.sent[group][op] * each;
    }
    parts->summed += (c->weights.reduce + c->weights.gather) / S / p->ranks;
    if (p->layers->hosted)
        parts->update += hosted_update(&c->weights, d, ends) / p->ranks;
    else if (d->bytes_per_s > 0)
        parts->update += c->weights.update / d->bytes_per_s / p->ranks;
}

/* Messages between neighboring stages: the largest output of a layer that is not the last. */
static void fill_links(const sl_model_work *m, const sl_positions *positions, const sl_shape *s,
                       sl_problem *p) {
    double bytes = 0;
    for (int layer = 0; layer + 1 < m->layers; layer++) {
        sl_layer_work work;
        if (layer > 0 && m->layer[layer].kind == m->layer[layer - 1].kind)
            continue;
        sl_layer_work_of(m, layer, &s->division, &work);
        bytes = fmax(bytes, work.output);
    }
    for (int rank = 0; rank < p->ranks && p->ranks > 1; rank++) {
        int next = (rank + 1) % p->ranks;
        if (next == 0 && s->placement != SL_LOOP)
            continue;
        sl_link link = {.latency = to_ns(positions->hop_latency[rank]),
                        .transfer = to_ns(positions->hop_pace[rank] * bytes),
                        .bytes = bytes};
        sl_link *both[] = {&p->link[rank * p->ranks + next], &p->link[next * p->ranks + rank]};
        for (int i = 0; i < 2; i++) { /* two ranks in a loop: the slower of both */
            both[i]->latency = sl_later(both[i]->latency, link.latency);
            both[i]->transfer = sl_later(both[i]->transfer, link.transfer);
            both[i]->bytes = bytes;
        }
    }
}

static sl_status fill_host(const sl_devices *d, const sl_shape *s, sl_problem *p) {
    sl_layers *l = p->layers;
    if (s->offload == SL_HOST_NOTHING)
        return SL_OK;
    l->host_memory = d->host_memory;
    l->host_pace = d->host_pace;
    if (sl_hosts_optimizer(s->offload))
        SL_TRY(sl_alloc(&l->hosted, (size_t)l->count, sizeof *l->hosted));
    return sl_hosts_activations(s->offload)
               ? sl_alloc(&p->host_limit, (size_t)p->ranks, sizeof *p->host_limit)
               : SL_OK;
}

static sl_status fill_memory(const sl_positions *positions, const sl_shape *s, sl_problem *p) {
    int limited = s->offload != SL_HOST_NOTHING;
    for (int rank = 0; rank < p->ranks; rank++)
        limited |= positions->memory[rank] > 0;
    SL_TRY(sl_alloc(&p->fixed, (size_t)p->ranks, sizeof *p->fixed));
    if (!limited)
        return SL_OK;
    SL_TRY(sl_alloc(&p->limit, (size_t)p->ranks, sizeof *p->limit));
    SL_TRY(sl_alloc(&p->layers->memory, (size_t)p->ranks, sizeof *p->layers->memory));
    for (int rank = 0; rank < p->ranks; rank++)
        p->layers->memory[rank] = positions->memory[rank] > 0 ? positions->memory[rank] : SL_MAX_MEMORY;
    return SL_OK;
}

static void fill_layers(const sl_model_work *m, const sl_devices *d, const sl_positions *positions,
                        const sl_shape *s, sl_problem *p, sl_shape_parts *parts) {
    layer_cost cost = {0};
    double slowest = INFINITY, sum = 0, ends = 0;
    for (int layer = 0; layer < m->layers; layer++) {
        if (layer == 0 || m->layer[layer].kind != m->layer[layer - 1].kind)
            cost = cost_of(m, d, positions, s, layer);
        fill_layer(&cost, layer, p->layers);
        add_parts(&cost, d, p, &ends, parts);
    }
    for (int rank = 0; rank < p->ranks; rank++) {
        p->layers->speed[rank] = positions->speed[rank];
        slowest = fmin(slowest, positions->speed[rank]);
        sum += positions->speed[rank];
    }
    parts->computed *= p->ranks / sum;
    parts->update = p->layers->hosted ? parts->update + ends : parts->update / slowest;
}

static sl_status check_size(const sl_shape *s, int microbatches, const sl_problem *p) {
    int64_t ops = (int64_t)s->pipeline * s->chunks * microbatches * 3;
    if (p && sl_problem_total_ms(p) > SL_MAX_TOTAL_MS)
        return sl_error(SL_EINVAL, "an iteration would take longer than %g ms", SL_MAX_TOTAL_MS);
    return ops <= SL_MAX_OPS && s->pipeline <= SL_MAX_RANKS && s->pipeline * s->chunks <= SL_MAX_STAGES
               ? SL_OK
               : sl_error(SL_EINVAL, "a shape with %lld ops; at most %d", (long long)ops, SL_MAX_OPS);
}

sl_status sl_shape_problem(const sl_model_work *m, const sl_devices *d, const sl_positions *positions,
                           const sl_shape *s, int microbatches, sl_problem *p, sl_shape_parts *parts) {
    int stages = s->pipeline * s->chunks;
    *p = (sl_problem){0};
    *parts = (sl_shape_parts){0};
    SL_TRY(check_size(s, microbatches, NULL));
    SL_TRY(sl_problem_make(s->pipeline, stages, microbatches, p));
    p->placement = s->placement;
    SL_TRY(sl_layers_make(m->layers, p->ranks, stages, &p->layers));
    SL_TRY(sl_layers_add_collectives(p->layers));
    SL_TRY(fill_memory(positions, s, p));
    SL_TRY(fill_host(d, s, p));
    p->layers->recompute = s->again;
    fill_layers(m, d, positions, s, p, parts);
    fill_links(m, positions, s, p);
    p->communication = d->communication.regime;
    p->communicators = d->communication.communicators < 0
                           ? SL_OF_KIND /* no other makes fewer messages wait */
                           : (sl_communicators)d->communication.communicators;
    p->eager = d->communication.eager;
    p->receive_buffers = d->communication.receive_buffers;
    for (int stage = 0; stage <= stages; stage++)
        p->layers->first[stage] = (int)((int64_t)m->layers * stage / stages);
    sl_problem_cut(p, p->layers->first);
    return check_size(s, microbatches, p);
}
