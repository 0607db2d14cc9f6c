#include "choose/search/shape.h"
#include "base/memory.h"

#include <string.h>

#define MAX_CHUNKS 8
#define MAX_SIZE 64     /* sequences of a microbatch */
#define MAX_OPS 4000000 /* of a shape: an estimate of more takes seconds */

const char *const sl_neighbors_names[] = {"replicas", "stages", NULL};
const char *const sl_recompute_names[] = {"none", "attention", "all", NULL};
const char *const sl_host_use_names[] = {"none", "optimizer", "activations", "both", NULL};
const char *const sl_split_names[] = {"even", "uneven", NULL};

int sl_shape_devices(const sl_shape *s) {
    return s->division.tensor * s->division.context * s->data * s->pipeline;
}

long long sl_shape_total(const sl_model_work *model, const sl_shape *s) {
    return model->sequences / s->division.size;
}

typedef struct shape_list {
    const sl_model_work *model;
    const sl_devices *devices;
    const sl_shape_fixed *fixed;
    sl_shape *shape;
    size_t count, capacity;
    char why[256]; /* why the last one was not possible */
} shape_list;

static int is_wanted(int fixed, int value) {
    return fixed <= 0 || fixed == value;
}

static int is_chosen(int fixed, int value) {
    return fixed < 0 || fixed == value;
}

static sl_status add(shape_list *l, const sl_shape *shape) {
    SL_TRY(sl_grow(&l->shape, &l->capacity, l->count + 1, sizeof *l->shape));
    l->shape[l->count++] = *shape;
    return SL_OK;
}

/* Memory limits are there that activations could be moved for. */
static int is_limited(const sl_devices *d) {
    for (int i = 0; i < d->count; i++)
        if (d->device[i].memory > 0)
            return 1;
    return 0;
}

/* Whether a use of host memory is possible and makes sense. */
static int may_offload(shape_list *l, const sl_shape *s, sl_host_use offload) {
    const sl_shape_fixed *f = l->fixed;
    if (f->offload >= 0 && !(f->offload >> offload & 1))
        return 0;
    if (offload == SL_HOST_NOTHING)
        return 1;
    if (l->devices->host_memory <= 0)
        snprintf(l->why, sizeof l->why, "the cluster has no device.host_memory_gb for offload");
    if (l->devices->host_memory <= 0 || (sl_hosts_activations(offload) && !is_limited(l->devices)))
        return 0;
    if (sl_hosts_optimizer(offload) && s->zero == 0 && s->data > 1 && f->zero != 0)
        return 0; /* every replica's host would do the same update */
    return !sl_hosts_optimizer(offload) || l->model->optimizer_bytes > 0;
}

static sl_status add_offloads(shape_list *l, sl_shape *s) {
    for (int offload = SL_HOST_NOTHING; offload < SL_HOST_USES; offload++)
        if (may_offload(l, s, (sl_host_use)offload)) {
            s->offload = (sl_host_use)offload;
            SL_TRY(add(l, s));
        }
    return SL_OK;
}

/* ZeRO, recomputation, offload and positions of a shape with sizes. */
static sl_status add_kinds(shape_list *l, sl_shape *s) {
    const sl_shape_fixed *f = l->fixed;
    int measured = l->model->kind[l->model->layer[0].kind].kind == SL_LAYER_MEASURED;
    for (s->zero = 0; s->zero <= 3; s->zero++)
        for (int recompute = SL_KEEP_ALL; recompute <= SL_RECOMPUTE_ATTENTION; recompute++)
            for (s->again = 0; s->again < 2; s->again++)
                for (s->neighbors = 0; s->neighbors < SL_NEIGHBORS; s->neighbors++) {
                    s->division.recompute = (sl_recompute)recompute;
                    if (!is_chosen(f->zero, s->zero) || !is_chosen(f->again, s->again) ||
                        !is_chosen(f->neighbors, (int)s->neighbors) || !is_chosen(f->recompute, recompute))
                        continue;
                    if ((s->zero > 0 && s->data == 1) ||
                        (s->zero >= 2 && s->pipeline > 1 && f->zero != s->zero))
                        continue; /* every microbatch would wait for weights or gradients of all its stages */
                    if (recompute && (measured || l->model->flash || s->again))
                        continue; /* nothing to gain, or part of `again` */
                    if (s->uneven && (s->division.expert > 1 || s->zero >= 2))
                        continue; /* these wait for other replicas in every op */
                    if (s->neighbors && (s->data == 1 || s->pipeline == 1))
                        continue; /* the same positions */
                    SL_TRY(add_offloads(l, s));
                }
    return SL_OK;
}

static sl_status add_placements(shape_list *l, sl_shape *s) {
    const sl_shape_fixed *f = l->fixed;
    for (s->chunks = 1; s->chunks <= (f->chunks > MAX_CHUNKS ? f->chunks : MAX_CHUNKS); s->chunks++)
        for (int placement = SL_LINEAR; placement <= SL_WAVE; placement++) {
            s->placement = (sl_placement)placement;
            if ((s->chunks == 1) != (placement == SL_LINEAR) || (placement == SL_WAVE && s->chunks > 2))
                continue;
            if ((s->pipeline == 1 && s->chunks > 1) || (f->chunks <= 0 && (s->chunks & (s->chunks - 1))))
                continue;
            if (!is_wanted(f->chunks, s->chunks) || !is_chosen(f->placement, placement) ||
                s->pipeline * s->chunks > l->model->layers ||
                (int64_t)s->pipeline * s->chunks * s->microbatches * 3 > MAX_OPS)
                continue;
            SL_TRY(add_kinds(l, s));
        }
    return SL_OK;
}

static int differ_in_speed(const sl_devices *d) {
    for (int i = 1; i < d->count; i++)
        if (d->device[i].speed < d->device[0].speed || d->device[i].speed > d->device[0].speed)
            return 1;
    return 0;
}

/* Sizes of a microbatch that divide a replica's sequences; uneven: those of all replicas. */
static sl_status add_sizes_split(shape_list *l, sl_shape *s) {
    const sl_shape_fixed *f = l->fixed;
    if (!s->uneven && l->model->sequences % s->data)
        return SL_OK;
    long long mine = l->model->sequences / s->data, divided = s->uneven ? l->model->sequences : mine;
    for (int size = 1, most = f->size > MAX_SIZE ? f->size : MAX_SIZE; size <= mine && size <= most; size++) {
        long long each = (divided / size + (s->uneven ? s->data - 1 : 0)) / (s->uneven ? s->data : 1);
        if (divided % size || !is_wanted(f->size, size) || each > SL_MAX_MICROBATCHES ||
            (f->size <= 0 && (size & (size - 1)) && (size != mine || s->uneven)))
            continue;
        s->division.size = size;
        s->division.recompute = SL_KEEP_ALL; /* not as the size before has left it */
        s->microbatches = (int)each;
        sl_status status = sl_division_check(l->model, &s->division);
        if (status == SL_EINVAL)
            snprintf(l->why, sizeof l->why, "%s", sl_error_text());
        else
            SL_TRY(status == SL_OK ? add_placements(l, s) : status);
    }
    return SL_OK;
}

static sl_status add_sizes(shape_list *l, sl_shape *s) {
    for (s->uneven = 0; s->uneven < 2; s->uneven++)
        if (is_chosen(l->fixed->uneven, s->uneven) &&
            (!s->uneven || (s->data > 1 && differ_in_speed(l->devices))))
            SL_TRY(add_sizes_split(l, s));
    return SL_OK;
}

static sl_status add_experts(shape_list *l, sl_shape *s) {
    int experts = 0;
    for (int kind = 0; kind < l->model->kinds; kind++)
        experts = l->model->kind[kind].experts > experts ? l->model->kind[kind].experts : experts;
    for (int expert = 1; expert == 1 || expert <= experts; expert++) {
        if (!is_wanted(l->fixed->expert, expert) || (expert > 1 && experts % expert) ||
            (s->data * s->division.context) % expert)
            continue;
        s->division.expert = expert;
        SL_TRY(add_sizes(l, s));
    }
    return SL_OK;
}

/* Tensor ranks stay within a host unless they are given. */
static int is_local(const sl_devices *d, int ranks) {
    int each = d->count / d->hosts;
    return ranks <= each || d->hosts == 1;
}

sl_status sl_shapes_list(const sl_model_work *model, const sl_devices *devices, const sl_shape_fixed *fixed,
                         sl_shape **shape, size_t *count) {
    shape_list l = {.model = model, .devices = devices, .fixed = fixed};
    sl_status status = SL_OK;
    for (int tensor = 1; tensor <= devices->count && status == SL_OK; tensor++) {
        if (devices->count % tensor || !is_wanted(fixed->tensor, tensor) ||
            (fixed->tensor <= 0 && !is_local(devices, tensor)))
            continue;
        for (int context = 1; context <= devices->count / tensor && status == SL_OK; context++) {
            if (devices->count / tensor % context || !is_wanted(fixed->context, context) ||
                (fixed->context <= 0 && context > 1 &&
                 (model->context / context < 4096 || (context & (context - 1)))))
                continue; /* short sequences gain nothing from being cut */
            int rest = devices->count / tensor / context;
            for (int pipeline = 1; pipeline <= rest && status == SL_OK; pipeline++) {
                sl_shape s = {
                    .division = {.tensor = tensor, .context = context, .sequence_parallel = tensor > 1},
                    .pipeline = pipeline,
                    .data = rest / pipeline};
                if (rest % pipeline || !is_wanted(fixed->pipeline, pipeline) ||
                    !is_wanted(fixed->data, s.data) || pipeline > model->layers || pipeline > SL_MAX_RANKS)
                    continue;
                status = add_experts(&l, &s);
            }
        }
    }
    if (status == SL_OK && l.count == 0)
        status = sl_error(SL_ENONE, "no shape divides %lld sequences of %d layers over %d devices%s%s",
                          model->sequences, model->layers, devices->count, l.why[0] ? "; the last one: " : "",
                          l.why);
    if (status != SL_OK)
        sl_free(l.shape);
    else {
        *shape = l.shape;
        *count = l.count;
    }
    return status;
}
