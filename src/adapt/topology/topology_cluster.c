/* A cluster as such: made, freed. */
#include "adapt/topology/topology.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>

static sl_status check_shape(int tensor, int data, int pipeline, int microbatches) {
    if (tensor < 1 || data < 1 || pipeline < 1 || tensor > SL_MAX_CLUSTER || data > SL_MAX_CLUSTER ||
        pipeline > SL_MAX_RANKS || (long long)tensor * data > SL_MAX_CLUSTER ||
        (long long)tensor * data * pipeline > SL_MAX_CLUSTER)
        return sl_error(SL_EINVAL, "tensor %d x data %d x pipeline %d: 1 to %d positions, %d stages at most",
                        tensor, data, pipeline, SL_MAX_CLUSTER, SL_MAX_RANKS);
    if (microbatches < 1 || microbatches > SL_MAX_MICROBATCHES || 3LL * microbatches * pipeline > SL_MAX_OPS)
        return sl_error(SL_EINVAL, "%d microbatches of %d stages are out of 1 to %d ops", microbatches,
                        pipeline, SL_MAX_OPS);
    return SL_OK;
}

static sl_status make_arrays(sl_cluster *c) {
    size_t n = (size_t)c->hosts, stages = (size_t)c->pipeline;
    SL_TRY(sl_alloc(&c->name, n, sizeof *c->name));
    SL_TRY(sl_alloc(&c->speed, n, sizeof *c->speed));
    SL_TRY(sl_alloc(&c->latency, n * n, sizeof *c->latency));
    SL_TRY(sl_alloc(&c->pace, n * n, sizeof *c->pace));
    SL_TRY(sl_alloc(&c->present, n, sizeof *c->present));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        SL_TRY(sl_alloc(&c->time[kind], stages, sizeof *c->time[kind]));
    SL_TRY(sl_alloc(&c->gradient, stages, sizeof *c->gradient));
    SL_TRY(sl_alloc(&c->sums[0], stages, sizeof *c->sums[0]));
    SL_TRY(sl_alloc(&c->sums[1], stages, sizeof *c->sums[1]));
    return sl_copy_text(&c->schedule, "1f1b");
}

sl_status sl_cluster_make(int tensor, int data, int pipeline, int microbatches, sl_cluster *c) {
    *c = (sl_cluster){0};
    SL_TRY(check_shape(tensor, data, pipeline, microbatches));
    c->tensor = tensor;
    c->data = data;
    c->pipeline = pipeline;
    c->hosts = tensor * data * pipeline;
    c->microbatches = microbatches;
    SL_TRY(make_arrays(c));
    for (int i = 0; i < c->hosts; i++) {
        char name[32];
        snprintf(name, sizeof name, "node%d", i);
        SL_TRY(sl_copy_text(&c->name[i], name));
        c->speed[i] = 1;
        c->present[i] = i;
    }
    return SL_OK;
}

void sl_cluster_free(sl_cluster *c) {
    for (int i = 0; i < c->hosts && c->name; i++)
        sl_free(c->name[i]);
    sl_free(c->name);
    sl_free(c->speed);
    sl_free(c->latency);
    sl_free(c->pace);
    sl_free(c->present);
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        sl_free(c->time[kind]);
    sl_free(c->gradient);
    sl_free(c->sums[0]);
    sl_free(c->sums[1]);
    sl_free(c->schedule);
    *c = (sl_cluster){0};
}

sl_status sl_cluster_check(const sl_cluster *c, const char *where) {
    double speed = 1e3, latency = 0, pace = 0, gradient = 0, total = 0;
    for (int i = 0; i < c->hosts; i++)
        speed = fmin(speed, c->speed[i]);
    for (size_t i = 0; i < (size_t)c->hosts * (size_t)c->hosts; i++) {
        latency = fmax(latency, c->latency[i]);
        pace = fmax(pace, c->pace[i]);
    }
    double sum = 2.0 * (c->tensor - 1) * (latency + c->sum / c->tensor * pace),
           hop = latency + c->activation * pace;
    double longest = hop;
    for (int p = 0; p < c->pipeline; p++) {
        gradient = fmax(gradient, c->gradient[p]);
        for (int kind = 0; kind < SL_OP_KINDS; kind++) {
            double op = (double)c->time[kind][p] / speed +
                        (kind == SL_W ? 0 : c->sums[kind != SL_F][p]) * (c->tensor > 1 ? sum : 0);
            longest = fmax(longest, op);
            total += c->microbatches * (op + hop);
        }
    }
    double ring = sl_sum_steps(c) * (latency + gradient / c->data * pace);
    longest = fmax(longest, ring);
    if (longest > 2 * SL_MAX_OP_MS * 1e6)
        return sl_error(SL_EINVAL, "%s has an op, message or ring that may take %.3g ms; at most %g", where,
                        longest / 1e6, 2 * SL_MAX_OP_MS);
    if (total + ring > SL_MAX_TOTAL_MS * 1e6 / 2)
        return sl_error(SL_EINVAL, "%s may take %.3g ms for an iteration; at most %g", where,
                        (total + ring) / 1e6, SL_MAX_TOTAL_MS / 2);
    return SL_OK;
}
