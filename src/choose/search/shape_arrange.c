#include "choose/search/shape_arrange.h"
#include "adapt/topology/topology.h"
#include "base/memory.h"
#include "choose/search/shape_split.h"
#include "plan/pipeline/layers.h"

#include <math.h>
#include <string.h>

#define MAX_DEVICES 1024 /* the search of positions has a link for each pair of them */
#define EFFORT 0.15      /* of each search of positions: about 0.15 s for 1,024 devices */
#define SUM_BYTES 1e6    /* of a sum over tensor ranks; their number follows from the bytes */

int sl_arrange_matters(const sl_devices *d) {
    double latency[2] = {-1, -1}, pace[2] = {-1, -1}; /* between hosts, within a host */
    if (d->count > MAX_DEVICES || d->hosts < 2)
        return 0;
    for (int i = 1; i < d->count; i++)
        if (fabs(d->device[i].speed - d->device[0].speed) > 0)
            return 1;
    for (int from = 0; from < d->hosts; from++)
        for (int to = 0; to < d->hosts; to++) {
            size_t at = (size_t)from * (size_t)d->hosts + (size_t)to;
            int inside = from == to;
            if (latency[inside] >= 0 &&
                (fabs(d->latency[at] - latency[inside]) > 0 || fabs(d->pace[at] - pace[inside]) > 0))
                return 1;
            latency[inside] = d->latency[at];
            pace[inside] = d->pace[at];
        }
    return 0;
}

/* ---- the question ---- */

/* A plan has a sum over replicas for each of a rank's layers, and `topology` one for all: its links have less
 * latency and more time per byte, so that it takes as long, and so does a message between stages. With
 * latency l and pace p, `message` bytes, and `step` bytes in each step of a sum: l' + message p' = l +
 * message p, and l' + step p' = layers l + step p. Not with tensor ranks, whose sums are of other sizes. */
static double latency_in_pace(const sl_cluster *c, double layers) {
    double step = 0;
    for (int rank = 0; rank < c->pipeline; rank++)
        step = fmax(step, c->gradient[rank] / c->data);
    return c->tensor == 1 && c->data > 1 && step > layers * c->activation
               ? (layers - 1) / (step - c->activation)
               : 0;
}

/* After fill_work. */
static void fill_hosts(const sl_devices *d, double layers, sl_cluster *c) {
    double moved = latency_in_pace(c, layers);
    for (int i = 0; i < c->hosts; i++) {
        c->speed[i] = d->device[i].speed;
        for (int k = 0; k < c->hosts; k++) {
            size_t link = (size_t)d->device[i].host * (size_t)d->hosts + (size_t)d->device[k].host,
                   at = (size_t)i * (size_t)c->hosts + (size_t)k;
            c->latency[at] = i == k ? 0 : d->latency[link] * (1 - moved * c->activation);
            c->pace[at] = i == k ? 0 : d->pace[link] + d->latency[link] * moved;
        }
    }
}

/* Ops, sums of tensor and context ranks, and gradients of each pipeline rank; its stages in one. */
static void fill_work(const sl_shape_planning *s, const sl_choice *choice, sl_cluster *c) {
    const sl_problem *p = &choice->problem;
    const sl_devices *d = s->devices;
    sl_work_rates rates = {d->flops_per_s, d->bytes_per_s, d->overhead_s, 1, {0}, {0}};
    double tensor_ranks = c->tensor; /* and context ranks */
    c->sum = SUM_BYTES;
    for (int stage = 0; stage < p->stages; stage++) {
        int rank = sl_problem_rank(p, stage);
        for (int layer = p->layers->first[stage]; layer < p->layers->first[stage + 1]; layer++) {
            sl_layer_work work;
            sl_layer_seconds seconds;
            sl_layer_work_of(s->model, layer, &choice->shape.division, &work);
            sl_layer_time(&work, &rates, &seconds);
            for (int op = SL_F; op <= SL_W; op++) {
                sl_time time = (sl_time)llround(1e9 * seconds.computed[op]);
                if (op == SL_I && p->recompute[stage])
                    time += (sl_time)llround(1e9 * seconds.computed[SL_F]);
                c->time[op][rank] += time;
                c->time[SL_B][rank] += op == SL_F ? 0 : time;
            }
            for (int op = SL_F; op <= SL_I && tensor_ranks > 1; op++)
                c->sums[op][rank] +=
                    (work.traffic[SL_WORK_TENSOR][op].bytes + work.traffic[SL_WORK_CONTEXT][op].bytes) /
                    (2 * (tensor_ranks - 1) / tensor_ranks * SUM_BYTES);
            c->gradient[rank] += work.parameters * s->model->gradient_bytes;
        }
    }
    for (int i = 0; i < p->ranks * p->ranks; i++)
        c->activation = fmax(c->activation, p->link[i].bytes);
}

/* Positions of `topology`: tensor ranks first, then replicas, then pipeline ranks. */
static int device_at(const sl_shape *s, int position) {
    int tensor = s->division.tensor, context = s->division.context;
    return sl_shape_device(s, position % tensor, position / tensor % context,
                           position / tensor / context % s->data, position / tensor / context / s->data);
}

static sl_status find_devices(const sl_shape_planning *s, const sl_choice *choice, const char *family,
                              int *device, int *moved) {
    const sl_shape *shape = &choice->shape;
    sl_cluster c;
    sl_topology found = {0};
    const sl_topology_options options = {.seed = s->options->seed, .effort = EFFORT};
    sl_status status = sl_cluster_make(shape->division.tensor * shape->division.context, shape->data,
                                       shape->pipeline, shape->microbatches, &c);
    if (status == SL_OK) {
        fill_work(s, choice, &c);
        fill_hosts(s->devices, (double)s->model->layers / c.pipeline, &c);
        sl_free(c.schedule);
        c.schedule = NULL;
        for (int position = 0; position < c.hosts; position++)
            c.present[position] = device_at(shape, position);
        status = sl_copy_text(&c.schedule, family);
        SL_THEN(status, sl_cluster_check(&c, "choose"));
    }
    SL_THEN(status, sl_topology_search(&c, &options, &found));
    *moved = status == SL_OK && found.moved > 0;
    for (int position = 0; status == SL_OK && position < c.hosts; position++)
        device[device_at(shape, position)] = found.host[position];
    sl_topology_free(&found);
    sl_cluster_free(&c);
    return status;
}

/* ---- the answer ---- */

/* The cut and the order that *now has. */
static sl_status keep_plan(const sl_shape_planning *there, const sl_choice *now, sl_choice *made) {
    sl_problem *p = &made->problem;
    *made = (sl_choice){.shape = now->shape};
    SL_TRY(sl_shape_problem_of(there, &now->shape, now->shape.microbatches, p, &made->parts));
    memcpy(p->recompute, now->problem.recompute, (size_t)p->stages);
    sl_problem_cut(p, now->problem.layers->first);
    SL_TRY(sl_plan_of_order(p, &now->plan.order, now->plan.schedule, &made->plan));
    sl_shape_measure(there, made);
    return made->plan.memory_ok ? SL_OK : sl_error(SL_ENONE, "the plan does not fit at other positions");
}

/* A new plan, or the old one at the new positions, whichever is shorter. */
static sl_status plan_shape(const sl_shape_planning *there, const sl_choice *now, double seconds, int threads,
                            sl_choice *made) {
    sl_choice kept;
    if (now->shape.uneven)
        return sl_split_plan(there, &now->shape, 0, seconds, threads, made);
    SL_TRY(sl_shape_plan(there, &now->shape, 0, seconds, threads, made));
    sl_status status = keep_plan(there, now, &kept);
    if (status == SL_OK && kept.time < made->time) {
        const sl_choice other = *made;
        *made = kept;
        kept = other;
    }
    sl_choice_free(&kept);
    return status == SL_ENONE || status == SL_EINVAL ? SL_OK : status; /* it may not fit there */
}

static sl_status plan_there(const sl_shape_planning *s, const int *device, double seconds, int threads,
                            const sl_choice *now, sl_choice *made) {
    sl_devices arranged = *s->devices;
    sl_position_table positions = {.devices = &arranged};
    sl_shape_planning there = *s;
    SL_TRY(sl_alloc(&arranged.device, (size_t)arranged.count, sizeof *arranged.device));
    for (int i = 0; i < arranged.count; i++)
        arranged.device[i] = s->devices->device[device[i]];
    there.devices = &arranged;
    there.positions = &positions;
    sl_status status = plan_shape(&there, now, seconds, threads, made);
    sl_position_table_free(&positions);
    sl_free(arranged.device);
    return status;
}

/* Takes over *made if it is shorter, with the devices. */
static void take_shorter(sl_choice *made, int **device, sl_choice *choice) {
    if (made->time >= choice->time)
        return;
    made->bound = sl_sooner(choice->bound, made->time);
    made->device = *device;
    *device = NULL;
    sl_choice_free(choice);
    *choice = *made;
    *made = (sl_choice){0};
}

/* Takes `device`. */
static sl_status try_devices(const sl_shape_planning *s, int *device, double seconds, int threads,
                             sl_choice *choice) {
    sl_choice made = {0};
    sl_status status = plan_there(s, device, seconds, threads, choice, &made);
    if (status == SL_OK)
        take_shorter(&made, &device, choice);
    sl_choice_free(&made);
    sl_free(device);
    return status == SL_ENONE || status == SL_EINVAL ? SL_OK : status;
}

/* The devices that suit the order of a family. */
static sl_status arrange_for(const sl_shape_planning *s, const char *family, double seconds, int threads,
                             sl_choice *choice) {
    int *device, moved = 0;
    SL_TRY(sl_alloc(&device, (size_t)s->devices->count, sizeof *device));
    sl_status status = find_devices(s, choice, family, device, &moved);
    if (status == SL_OK && moved)
        return try_devices(s, device, seconds, threads, choice);
    sl_free(device);
    return status == SL_ENONE || status == SL_EINVAL ? SL_OK : status;
}

/* The last pipeline rank's devices for the first one, and so on: with ranks of several speeds, it matters
 * which are first, and the search of positions has one cut for all arrangements. */
static sl_status arrange_reversed(const sl_shape_planning *s, double seconds, int threads,
                                  sl_choice *choice) {
    int *device, count = s->devices->count, each = count / choice->shape.pipeline;
    if (choice->shape.pipeline < 2)
        return SL_OK;
    SL_TRY(sl_alloc(&device, (size_t)count, sizeof *device));
    for (int position = 0; position < count; position++) {
        int rank = choice->shape.pipeline - 1 - position / each,
            other = device_at(&choice->shape, rank * each + position % each);
        device[device_at(&choice->shape, position)] = choice->device ? choice->device[other] : other;
    }
    return try_devices(s, device, seconds, threads, choice);
}

/* Slow links are hard for 1F1B and easy for GPipe; what the plan's own order makes of them is in between. */
sl_status sl_arrange(const sl_shape_planning *s, double seconds, int threads, sl_choice *choice) {
    static const char *const families[] = {"1f1b", "gpipe"};
    enum { FAMILIES = sizeof families / sizeof *families };
    double each = seconds / (FAMILIES + 1);
    for (int i = 0; i < FAMILIES; i++)
        SL_TRY(arrange_for(s, families[i], each, threads, choice));
    return arrange_reversed(s, each, threads, choice);
}
