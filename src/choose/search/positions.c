#include "choose/search/positions.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

int sl_shape_device(const sl_shape *s, int tensor, int context, int replica, int rank) {
    int outer =
        s->neighbors == SL_NEIGHBOR_REPLICAS ? rank * s->data + replica : replica * s->pipeline + rank;
    return (outer * s->division.context + context) * s->division.tensor + tensor;
}

/* The link from one device to another. */
static void worst_link(const sl_devices *d, int from, int to, double *latency, double *pace) {
    size_t at = (size_t)d->device[from].host * (size_t)d->hosts + (size_t)d->device[to].host;
    *latency = fmax(*latency, d->latency[at]);
    *pace = fmax(*pace, d->pace[at]);
}

/* All pairs of a group of `count` that starts at a position and takes every device that `position` gives. */
static void take_group(const sl_devices *d, const int *member, int count, double *latency, double *pace) {
    double l, p;
    sl_devices_group(d, member, count, &l, &p);
    *latency = fmax(*latency, l);
    *pace = fmax(*pace, p);
}

/* The replicas that count. */
typedef struct replica_range {
    int begin, end;
} replica_range;

static void look_at_groups(const sl_devices *d, const sl_shape *s, replica_range range, int *member,
                           sl_positions *positions) {
    const sl_division *v = &s->division;
    for (int rank = 0; rank < s->pipeline; rank++) {
        for (int replica = range.begin; replica < range.end; replica++) {
            for (int context = 0; context < v->context && v->tensor > 1; context++) {
                for (int tensor = 0; tensor < v->tensor; tensor++)
                    member[tensor] = sl_shape_device(s, tensor, context, replica, rank);
                take_group(d, member, v->tensor, &positions->latency[SL_WORK_TENSOR],
                           &positions->pace[SL_WORK_TENSOR]);
            }
            for (int tensor = 0; tensor < v->tensor && v->context > 1; tensor++) {
                for (int context = 0; context < v->context; context++)
                    member[context] = sl_shape_device(s, tensor, context, replica, rank);
                take_group(d, member, v->context, &positions->latency[SL_WORK_CONTEXT],
                           &positions->pace[SL_WORK_CONTEXT]);
            }
        }
        /* expert ranks: successive context ranks and replicas */
        for (int first = 0; first < s->data * v->context && v->expert > 1; first += v->expert) {
            for (int i = 0; i < v->expert; i++)
                member[i] = sl_shape_device(s, 0, (first + i) % v->context, (first + i) / v->context, rank);
            take_group(d, member, v->expert, &positions->latency[SL_WORK_EXPERT],
                       &positions->pace[SL_WORK_EXPERT]);
        }
    }
}

static void look_at_rank(const sl_devices *d, const sl_shape *s, replica_range range, int rank,
                         sl_positions *positions) {
    int next = (rank + 1) % s->pipeline;
    positions->speed[rank] = INFINITY;
    for (int replica = range.begin; replica < range.end; replica++)
        for (int context = 0; context < s->division.context; context++)
            for (int tensor = 0; tensor < s->division.tensor; tensor++) {
                int here = sl_shape_device(s, tensor, context, replica, rank),
                    there = sl_shape_device(s, tensor, context, replica, next),
                    after = sl_shape_device(s, tensor, context, (replica + 1) % s->data, rank);
                const sl_cluster_device *device = &d->device[here];
                positions->speed[rank] = fmin(positions->speed[rank], device->speed);
                if (device->memory > 0 &&
                    (positions->memory[rank] <= 0 || device->memory < positions->memory[rank]))
                    positions->memory[rank] = device->memory;
                if (next != rank) {
                    worst_link(d, here, there, &positions->hop_latency[rank], &positions->hop_pace[rank]);
                    worst_link(d, there, here, &positions->hop_latency[rank], &positions->hop_pace[rank]);
                }
                if (after != here && range.end - range.begin == s->data)
                    worst_link(d, here, after, &positions->ring_latency[rank], &positions->ring_pace[rank]);
            }
}

static void free_positions(sl_positions *s) {
    SL_FREE(s->speed, s->memory, s->hop_latency, s->hop_pace, s->ring_latency, s->ring_pace);
}

static sl_status make_positions(const sl_devices *d, const sl_shape *s, replica_range range,
                                sl_positions *positions) {
    const sl_division *v = &s->division;
    size_t ranks = (size_t)s->pipeline, most = (size_t)(v->tensor + v->context + v->expert);
    int *member;
    sl_status status;
    *positions = (sl_positions){.tensor = v->tensor,
                                .context = v->context,
                                .expert = v->expert,
                                .data = s->data,
                                .pipeline = s->pipeline,
                                .neighbors = s->neighbors};
    double **arrays[] = {&positions->speed,    &positions->memory,       &positions->hop_latency,
                         &positions->hop_pace, &positions->ring_latency, &positions->ring_pace};
    SL_TRY(sl_alloc(&member, most, sizeof *member));
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        SL_TRY_GOTO(err_free, status, sl_alloc(arrays[i], ranks, sizeof **arrays[i]));
    look_at_groups(d, s, range, member, positions);
    for (int rank = 0; rank < s->pipeline; rank++)
        look_at_rank(d, s, range, rank, positions);
    sl_free(member);
    return SL_OK;
err_free:
    sl_free(member);
    free_positions(positions);
    return status;
}

sl_status sl_positions_of(sl_position_table *plans, const sl_shape *s, const sl_positions **positions) {
    const sl_division *v = &s->division;
    for (size_t i = plans->count; i-- > 0;) {
        const sl_positions *one = &plans->plan[i];
        if (one->tensor == v->tensor && one->context == v->context && one->expert == v->expert &&
            one->data == s->data && one->pipeline == s->pipeline && one->neighbors == s->neighbors) {
            *positions = one;
            return SL_OK;
        }
    }
    SL_TRY(sl_grow(&plans->plan, &plans->capacity, plans->count + 1, sizeof *plans->plan));
    SL_TRY(make_positions(plans->devices, s, (replica_range){0, s->data}, &plans->plan[plans->count]));
    *positions = &plans->plan[plans->count++];
    return SL_OK;
}

/* ---- kinds of replicas ---- */

/* `all` has the rings of all replicas. */
static void take_rings(const sl_positions *all, sl_positions *one) {
    size_t size = (size_t)all->pipeline * sizeof *all->ring_latency;
    memcpy(one->ring_latency, all->ring_latency, size);
    memcpy(one->ring_pace, all->ring_pace, size);
    one->latency[SL_WORK_EXPERT] = all->latency[SL_WORK_EXPERT];
    one->pace[SL_WORK_EXPERT] = all->pace[SL_WORK_EXPERT];
}

static int is_equal(const sl_positions *a, const sl_positions *b) {
    size_t size = (size_t)a->pipeline * sizeof *a->speed;
    return memcmp(a->speed, b->speed, size) == 0 && memcmp(a->memory, b->memory, size) == 0 &&
           memcmp(a->hop_latency, b->hop_latency, size) == 0 && memcmp(a->hop_pace, b->hop_pace, size) == 0 &&
           memcmp(a->latency, b->latency, sizeof a->latency) == 0 &&
           memcmp(a->pace, b->pace, sizeof a->pace) == 0;
}

sl_status sl_replica_kinds_of(sl_position_table *plans, const sl_shape *s, sl_replica_kinds *kinds) {
    const sl_positions *all;
    *kinds = (sl_replica_kinds){0};
    SL_TRY(sl_positions_of(plans, s, &all));
    SL_TRY(sl_alloc(&kinds->of, (size_t)s->data, sizeof *kinds->of));
    SL_TRY(sl_alloc(&kinds->kind, (size_t)s->data, sizeof *kinds->kind));
    for (int replica = 0; replica < s->data; replica++) {
        sl_positions mine;
        int kind = 0;
        SL_TRY(make_positions(plans->devices, s, (replica_range){replica, replica + 1}, &mine));
        take_rings(all, &mine);
        while (kind < kinds->count && !is_equal(&kinds->kind[kind].positions, &mine))
            kind++;
        if (kind == kinds->count)
            kinds->kind[kinds->count++].positions = mine;
        else
            free_positions(&mine);
        kinds->kind[kind].replicas++;
        kinds->of[replica] = kind;
    }
    return SL_OK;
}

void sl_replica_kinds_free(sl_replica_kinds *kinds) {
    for (int kind = 0; kind < kinds->count; kind++)
        free_positions(&kinds->kind[kind].positions);
    SL_FREE(kinds->kind, kinds->of);
    *kinds = (sl_replica_kinds){0};
}

void sl_position_table_free(sl_position_table *plans) {
    for (size_t i = 0; i < plans->count; i++)
        free_positions(&plans->plan[i]);
    sl_free(plans->plan);
    plans->plan = NULL;
    plans->count = plans->capacity = 0;
}
