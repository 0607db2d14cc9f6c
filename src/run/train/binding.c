#include "run/train/binding.h"
#include "base/memory.h"
#include "run/model/model.h"
#include "run/train/data.h"
#include "run/train/hash.h"
#include "run/train/norm.h"
#include "run/train/optimizer.h"

#include <math.h>
#include <string.h>

#define MOST_VALIDATED 32 /* microbatches of held-out text in a validation loss */

/* A stage that this rank holds: the object of the engine's table. */
typedef struct held {
    struct sl_binding *binding;
    int stage;
    sl_model_stage *model;
} held;

struct sl_binding {
    const sl_run *run;
    sl_problem shape; /* of the run: which rank holds which stage */
    int rank, stages, iteration;
    sl_model_config config;
    sl_device *device;
    sl_arena *arena, *host; /* host: NULL without host memory */
    held *held;             /* [helds] ascending stages */
    int helds;
    sl_data *data;
    sl_optimizer optimizer;
    uint16_t *tokens, *targets; /* [batch][context] of the microbatch at hand */
    /* Sums of squares of blocks: those of this rank's stages; those of all ranks as they are gathered; the
     * latter in canonical order. */
    double *squares, *gathered, *all_squares;
    size_t *blocks; /* [stages] */
    size_t all_blocks;
    float *head;          /* first of several stages: the head's gradient as it arrives from another rank */
    float *activation[2]; /* validation: in and out of a stage */
};

static int rank_of(const sl_binding *b, int stage) {
    return sl_problem_rank(&b->shape, stage);
}

/* NULL: another rank holds it. */
static sl_model_stage *model_of(const sl_binding *b, int stage) {
    for (int i = 0; i < b->helds; i++)
        if (b->held[i].stage == stage)
            return b->held[i].model;
    return NULL;
}

static void shape_of(const sl_run *run, sl_model_config *config) {
    const sl_model_config given = {.kind = (sl_model_kind)run->model.kind,
                                   .layers = run->model.layers,
                                   .width = run->model.width,
                                   .heads = run->model.heads,
                                   .kv_heads = run->model.kv_heads,
                                   .hidden = run->model.hidden,
                                   .context = run->model.context,
                                   .vocabulary = run->model.vocabulary,
                                   .tied = run->model.tied,
                                   .rope_base = run->model.rope_base,
                                   .norm_epsilon = run->model.norm_epsilon,
                                   .batch = run->batch.size,
                                   .type = (sl_type)run->device.precision,
                                   .cut = run->parallel.cut,
                                   .recompute = run->device.recompute};
    *config = sl_model_complete(&given);
}

/* What the stages of a rank take together, and the blocks of memory that all of them use. */
static sl_status measure(const sl_run *run, const sl_model_config *config, sl_device *device, int rank,
                         sl_model_bytes *all) {
    sl_problem shape = sl_run_shape(run);
    *all = (sl_model_bytes){0};
    for (int stage = 0; stage < shape.stages; stage++) {
        sl_model_bytes one;
        if (sl_problem_rank(&shape, stage) != rank)
            continue;
        SL_TRY(sl_model_measure(config, device, stage, shape.stages, &one));
        all->fixed += one.fixed;
        all->forward = one.forward > all->forward ? one.forward : all->forward;
        all->backward = one.backward > all->backward ? one.backward : all->backward;
        all->message = one.message;
    }
    return SL_OK;
}

sl_status sl_binding_measure(const sl_run *run, int rank, sl_binding_sizes *sizes) {
    sl_model_config config;
    sl_model_bytes bytes;
    sl_device *device;
    shape_of(run, &config);
    SL_TRY(sl_model_check(&config, run->parallel.stages));
    SL_TRY(sl_device_open_cpu(run->device.threads, &device));
    sl_status status = measure(run, &config, device, rank, &bytes);
    device->close(device);
    SL_TRY(status);
    *sizes = (sl_binding_sizes){.activation_bytes = (double)(bytes.forward + bytes.backward),
                                .fixed_bytes = (double)bytes.fixed,
                                .message_bytes = bytes.message};
    return SL_OK;
}

static sl_status open_stages(sl_binding *b, const sl_model_bytes *bytes) {
    SL_TRY(sl_alloc(&b->held, (size_t)b->stages, sizeof *b->held));
    for (int stage = 0; stage < b->stages; stage++) {
        if (rank_of(b, stage) != b->rank)
            continue;
        held *h = &b->held[b->helds];
        *h = (held){.binding = b, .stage = stage};
        SL_TRY(sl_model_stage_open(&b->config, b->device, b->arena, stage, b->stages,
                                   (uint64_t)b->run->data.seed, &h->model));
        sl_model_stage_pad(h->model, bytes->forward, bytes->backward);
        sl_model_set_host(h->model, b->host);
        b->helds++;
    }
    return SL_OK;
}

static sl_status open_model(sl_binding *b, int in_flight, int hosted) {
    sl_model_bytes bytes;
    const sl_run *run = b->run;
    SL_TRY(sl_device_open_cpu(run->device.threads, &b->device));
    SL_TRY(measure(run, &b->config, b->device, b->rank, &bytes));
    size_t limit = bytes.fixed + (size_t)(in_flight > 1 ? in_flight : 1) * (bytes.forward + bytes.backward);
    if (run->device.memory_mb > 0 && (double)limit > run->device.memory_mb * 1e6)
        limit = (size_t)(run->device.memory_mb * 1e6);
    SL_TRY(sl_arena_open(limit, &b->arena));
    if (hosted > 0)
        SL_TRY(sl_arena_open((size_t)hosted * (bytes.forward + bytes.backward), &b->host));
    return open_stages(b, &bytes);
}

/* Blocks of squares of every stage of the model: each parameter begins a new one. */
static sl_status count_blocks(sl_binding *b) {
    SL_TRY(sl_alloc(&b->blocks, (size_t)b->stages, sizeof *b->blocks));
    for (int stage = 0; stage < b->stages; stage++) {
        sl_parameter *list;
        int count = sl_model_list(&b->config, stage, b->stages, NULL);
        SL_TRY(sl_alloc(&list, (size_t)count, sizeof *list));
        sl_model_list(&b->config, stage, b->stages, list);
        for (int i = 0; i < count; i++)
            b->blocks[stage] += sl_norm_blocks(list[i].count);
        sl_free(list);
        b->all_blocks += b->blocks[stage];
    }
    return SL_OK;
}

static sl_status open_buffers(sl_binding *b) {
    size_t tokens = (size_t)b->config.batch * (size_t)b->config.context;
    SL_TRY(count_blocks(b));
    SL_TRY(sl_alloc(&b->tokens, tokens, sizeof *b->tokens));
    SL_TRY(sl_alloc(&b->targets, tokens, sizeof *b->targets));
    SL_TRY(sl_alloc(&b->squares, b->all_blocks, sizeof *b->squares));
    SL_TRY(sl_alloc(&b->gathered, b->all_blocks, sizeof *b->gathered));
    SL_TRY(sl_alloc(&b->all_squares, b->all_blocks, sizeof *b->all_squares));
    SL_TRY(sl_alloc(&b->activation[0], tokens * (size_t)b->config.width, sizeof(float)));
    SL_TRY(sl_alloc(&b->activation[1], tokens * (size_t)b->config.width, sizeof(float)));
    if (model_of(b, 0) && !model_of(b, b->stages - 1))
        SL_TRY(sl_alloc(&b->head, sl_model_embedding(model_of(b, 0))->count, sizeof(float)));
    return SL_OK;
}

sl_status sl_binding_open(const sl_run *run, int rank, int in_flight, int hosted, sl_binding **binding) {
    sl_binding *b;
    SL_TRY(sl_alloc(&b, 1, sizeof *b));
    *binding = b;
    b->run = run;
    b->shape = sl_run_shape(run);
    b->rank = rank;
    b->stages = b->shape.stages;
    shape_of(run, &b->config);
    sl_data_config data = {.patterns = run->data.file,
                           .pattern_count = run->data.files,
                           .seed = (uint64_t)run->data.seed,
                           .held_out = run->data.held_out,
                           .tokens = (sl_data_tokens)run->data.tokens,
                           .vocabulary = run->model.vocabulary,
                           .context = run->model.context,
                           .batch = run->batch.size,
                           .microbatches = run->batch.microbatches};
    SL_TRY(sl_data_open(&data, &b->data));
    b->optimizer = sl_optimizer_standard(run->optimizer.lr, run->iterations);
    b->optimizer.warmup = run->optimizer.warmup < run->iterations ? run->optimizer.warmup : run->iterations;
    b->optimizer.decay = run->optimizer.decay;
    SL_TRY(sl_optimizer_check(&b->optimizer));
    SL_TRY(open_model(b, in_flight, hosted));
    return open_buffers(b);
}

void sl_binding_close(sl_binding *b) {
    if (!b)
        return;
    for (int i = 0; i < b->helds; i++)
        sl_model_stage_close(b->held[i].model);
    sl_free(b->held);
    sl_arena_close(b->arena);
    sl_arena_close(b->host);
    if (b->device)
        b->device->close(b->device);
    sl_data_close(b->data);
    sl_free(b->tokens);
    sl_free(b->targets);
    sl_free(b->squares);
    sl_free(b->gathered);
    sl_free(b->all_squares);
    sl_free(b->blocks);
    sl_free(b->head);
    sl_free(b->activation[0]);
    sl_free(b->activation[1]);
    sl_free(b);
}

/* ---- the engine's tables ---- */

static sl_part part_of(const sl_op *op, int parts) {
    return (sl_part){.index = op->part, .count = parts};
}

/* The last part reads the targets, the first one the tokens. */
static sl_status forward(void *object, const sl_op *op, int parts, const void *input, void *output) {
    const held *h = object;
    sl_binding *b = h->binding;
    uint16_t *tokens = h->stage == 0 ? b->tokens : NULL,
             *targets = h->stage == b->stages - 1 ? b->targets : NULL;
    if (tokens || targets)
        sl_data_batch(b->data, b->iteration, op->microbatch, tokens, targets);
    return sl_model_forward_part(h->model, op->microbatch, part_of(op, parts), tokens, targets, input,
                                 output);
}

static sl_status input_grad(void *object, const sl_op *op, int parts, const void *output_grad, void *grad) {
    return sl_model_input_grad_part(((const held *)object)->model, op->microbatch, part_of(op, parts),
                                    output_grad, grad);
}

static sl_status weight_grad(void *object, const sl_op *op, int parts) {
    return sl_model_weight_grad_part(((const held *)object)->model, op->microbatch, part_of(op, parts));
}

static sl_status offload(void *object, int microbatch) {
    return sl_model_offload(((const held *)object)->model, microbatch);
}

static sl_status fetch(void *object, int microbatch) {
    return sl_model_fetch(((const held *)object)->model, microbatch);
}

void sl_binding_stages(sl_binding *b, sl_stage *table) {
    size_t bytes =
        (size_t)b->config.batch * (size_t)b->config.context * (size_t)b->config.width * sizeof(float);
    for (int i = 0; i < b->helds; i++) {
        int stage = b->held[i].stage;
        table[stage] = (sl_stage){.object = &b->held[i],
                                  .forward = forward,
                                  .input_grad = input_grad,
                                  .weight_grad = weight_grad,
                                  .offload = b->host ? offload : NULL,
                                  .fetch = b->host ? fetch : NULL,
                                  .input_bytes = stage > 0 ? bytes : 0,
                                  .output_bytes = stage + 1 < b->stages ? bytes : 0};
    }
}

sl_status sl_binding_begin(sl_binding *b, int iteration) {
    b->iteration = iteration;
    for (int i = 0; i < b->helds; i++)
        SL_TRY(sl_model_begin(b->held[i].model, b->run->batch.microbatches));
    return SL_OK;
}

double sl_binding_loss(const sl_binding *b) {
    const sl_model_stage *last = model_of(b, b->stages - 1);
    double sum = 0;
    for (int m = 0; m < b->run->batch.microbatches && last; m++)
        sum += sl_model_loss(last, m);
    return last ? sum / b->run->batch.microbatches : (double)NAN;
}

/* ---- the update ---- */

/* The head's accumulator meets the embedding's on the first stage, always as one addition (docs/design.md,
 * rule 4). */
static sl_status join_head(sl_binding *b, sl_group *group) {
    if (!b->config.tied)
        return SL_OK;
    int from = rank_of(b, b->stages - 1), to = rank_of(b, 0);
    sl_model_stage *first = model_of(b, 0), *last = model_of(b, b->stages - 1);
    float *gradient = last ? sl_model_head(last)->gradient : b->head;
    if (from != to && (first || last)) {
        const sl_parameter *mine = first ? sl_model_embedding(first) : sl_model_head(last);
        SL_TRY(sl_group_pass(group, from, to, gradient, mine->count * sizeof(float)));
    }
    return first ? sl_model_add_head(first, gradient) : SL_OK;
}

/* The new weight of the embedding to the head's copy. */
static sl_status copy_to_head(sl_binding *b, sl_group *group) {
    if (!b->config.tied)
        return SL_OK;
    int from = rank_of(b, 0), to = rank_of(b, b->stages - 1);
    sl_model_stage *first = model_of(b, 0), *last = model_of(b, b->stages - 1);
    if (!first && !last)
        return SL_OK;
    sl_parameter *source = first ? sl_model_embedding(first) : NULL,
                 *copy = last ? sl_model_head(last) : NULL;
    if (from != to)
        return sl_group_pass(group, from, to, copy ? copy->weight : source->weight,
                             (copy ? copy : source)->count * sizeof(float));
    if (copy->weight != source->weight)
        memcpy(copy->weight, source->weight, source->count * sizeof(float));
    return SL_OK;
}

/* From rank by rank, each its stages ascending, to stage by stage. */
static void sort_squares(sl_binding *b) {
    const double *from = b->gathered;
    for (int rank = 0; rank < b->shape.ranks; rank++) {
        double *to = b->all_squares;
        for (int stage = 0; stage < b->stages; stage++) {
            if (rank_of(b, stage) == rank) {
                memcpy(to, from, b->blocks[stage] * sizeof *to);
                from += b->blocks[stage];
            }
            to += b->blocks[stage];
        }
    }
}

static sl_status global_norm(sl_binding *b, sl_group *group, double *norm) {
    size_t at = 0;
    for (int h = 0; h < b->helds; h++) {
        int count;
        const sl_parameter *parameter = sl_model_parameters(b->held[h].model, &count);
        for (int i = 0; i < count; i++) {
            sl_norm_squares(parameter[i].gradient, parameter[i].count, b->squares + at);
            at += sl_norm_blocks(parameter[i].count);
        }
    }
    SL_TRY(sl_group_gather_all(group, b->squares, at * sizeof(double), b->gathered,
                               b->all_blocks * sizeof(double), NULL));
    sort_squares(b);
    *norm = sl_norm_total(b->all_squares, b->all_blocks);
    return SL_OK;
}

static void step_stage(sl_binding *b, sl_model_stage *model, int iteration, float factor) {
    int count;
    const sl_parameter *parameter = sl_model_parameters(model, &count);
    for (int i = 0; i < count; i++)
        sl_optimizer_step(&b->optimizer, iteration, factor, parameter[i].rows > 0, parameter[i].count,
                          parameter[i].gradient, parameter[i].weight, parameter[i].moment1,
                          parameter[i].moment2);
}

sl_status sl_binding_update(sl_binding *b, sl_group *group, int iteration) {
    double norm;
    SL_TRY(join_head(b, group));
    SL_TRY(global_norm(b, group, &norm));
    if (!isfinite(norm))
        return sl_error(SL_ENONE,
                        "iteration %d: the gradient norm is not finite; a smaller optimizer.lr may help",
                        iteration);
    float factor = sl_norm_clip(norm, b->run->optimizer.clip);
    for (int h = 0; h < b->helds; h++)
        step_stage(b, b->held[h].model, iteration, factor);
    return copy_to_head(b, group);
}

/* ---- validation and hash: by forward passes and weights handed from rank to rank ---- */

/* Stage by stage; the activation that a stage gives lies where the next one of the same rank takes it. */
static sl_status evaluate(sl_binding *b, sl_group *group, int index, double *loss) {
    size_t bytes =
        (size_t)b->config.batch * (size_t)b->config.context * (size_t)b->config.width * sizeof(float);
    sl_data_validation_batch(b->data, index, b->tokens, b->targets);
    for (int stage = 0; stage < b->stages; stage++) {
        int first = stage == 0, last = stage == b->stages - 1, rank = rank_of(b, stage);
        float *in = b->activation[stage % 2], *out = b->activation[(stage + 1) % 2];
        sl_model_stage *model = model_of(b, stage);
        if (model)
            SL_TRY(sl_model_evaluate(model, first ? b->tokens : NULL, last ? b->targets : NULL,
                                     first ? NULL : in, last ? NULL : out, loss));
        if (!last && rank_of(b, stage + 1) != rank)
            SL_TRY(sl_group_pass(group, rank, rank_of(b, stage + 1), out, bytes));
    }
    return SL_OK;
}

sl_status sl_binding_validate(sl_binding *b, sl_group *group, double *loss) {
    int batches = sl_data_validation_batches(b->data), last = rank_of(b, b->stages - 1);
    double sum = 0;
    batches = batches < MOST_VALIDATED ? batches : MOST_VALIDATED;
    for (int h = 0; h < b->helds; h++)
        SL_TRY(sl_model_begin(b->held[h].model, 1));
    for (int i = 0; i < batches; i++) {
        double one = 0;
        SL_TRY(evaluate(b, group, i, &one));
        sum += one;
    }
    if (last != 0)
        SL_TRY(sl_group_pass(group, last, 0, &sum, sizeof sum));
    *loss = b->rank == 0 ? sum / batches : (double)NAN;
    return SL_OK;
}

/* A stage's parameters, from the rank that holds it; on rank 0 into the hash. */
static sl_status hash_stage(sl_binding *b, sl_group *group, int stage, float *received, sl_hash *hash) {
    int count = sl_model_list(&b->config, stage, b->stages, NULL), from = rank_of(b, stage);
    sl_model_stage *model = model_of(b, stage);
    sl_parameter *list;
    SL_TRY(sl_alloc(&list, (size_t)count, sizeof *list));
    sl_model_list(&b->config, stage, b->stages, list);
    sl_status status = SL_OK;
    for (int i = 0; i < count && status == SL_OK; i++) {
        float *weight = model ? sl_model_parameters(model, &count)[i].weight : received;
        if (from != 0)
            status = sl_group_pass(group, from, 0, weight, list[i].count * sizeof(float));
        if (status == SL_OK && b->rank == 0)
            sl_hash_add(hash, weight, list[i].count);
    }
    sl_free(list);
    return status;
}

sl_status sl_binding_hash(sl_binding *b, sl_group *group, uint64_t *hash) {
    sl_hash *h = NULL;
    float *received = NULL;
    SL_TRY(sl_alloc(&received, sl_model_count(&b->config), sizeof *received));
    sl_status status = sl_hash_open(&h);
    for (int stage = 0; stage < b->stages && status == SL_OK; stage++)
        status = hash_stage(b, group, stage, received, h);
    if (status == SL_OK)
        *hash = sl_hash_value(h);
    sl_hash_close(h);
    sl_free(received);
    return status;
}

double sl_binding_entropy(const sl_binding *b) {
    return sl_data_entropy(b->data);
}

size_t sl_binding_peak(const sl_binding *b) {
    return sl_arena_peak(b->arena);
}

size_t sl_binding_host_peak(const sl_binding *b) {
    return b->host ? sl_arena_peak(b->host) : 0;
}

const char *sl_binding_isa(const sl_binding *b) {
    return b->device->isa;
}
