#include "run/train/binding.h"
#include "base/memory.h"
#include "run/model/model.h"
#include "run/train/data.h"
#include "run/train/hash.h"
#include "run/train/norm.h"
#include "run/train/optimizer.h"

#include <math.h>
#include <string.h>

#define VOCABULARY 256
#define MOST_VALIDATED 32 /* microbatches of held-out text in a validation loss */

struct sl_binding {
    const sl_run *run;
    int stage, stages, iteration;
    sl_model_config config;
    sl_device *device;
    sl_arena *arena;
    sl_model_stage *model;
    sl_data *data;
    sl_optimizer optimizer;
    uint8_t *tokens, *targets; /* [batch][context] of the microbatch at hand */
    double *squares,
        *all_squares; /* block sums of this rank, and of all in canonical order (room for the whole model) */
    size_t blocks, all_blocks;
    float *head;          /* first stage of several: the head's gradient as it arrives */
    float *activation[2]; /* validation: in and out */
};

static void shape_of(const sl_run *run, sl_model_config *config) {
    *config = (sl_model_config){.layers = run->model.layers,
                                .width = run->model.width,
                                .heads = run->model.heads,
                                .context = run->model.context,
                                .vocabulary = VOCABULARY,
                                .batch = run->batch.size};
}

sl_status sl_binding_measure(const sl_run *run, int rank, sl_binding_sizes *sizes) {
    sl_model_config config;
    sl_model_bytes bytes;
    sl_device *device;
    shape_of(run, &config);
    SL_TRY(sl_model_check(&config, run->parallel.pipeline));
    SL_TRY(sl_device_open_cpu(run->device.threads, &device));
    sl_status status = sl_model_measure(&config, device, rank, run->parallel.pipeline, &bytes);
    device->close(device);
    SL_TRY(status);
    *sizes = (sl_binding_sizes){.activation_bytes = (double)(bytes.forward + bytes.backward),
                                .fixed_bytes = (double)bytes.fixed,
                                .message_bytes = bytes.message};
    return SL_OK;
}

static sl_status open_model(sl_binding *b, int in_flight) {
    sl_model_bytes bytes;
    const sl_run *run = b->run;
    SL_TRY(sl_device_open_cpu(run->device.threads, &b->device));
    SL_TRY(sl_model_measure(&b->config, b->device, b->stage, b->stages, &bytes));
    size_t limit = bytes.fixed + (size_t)(in_flight > 1 ? in_flight : 1) * (bytes.forward + bytes.backward);
    if (run->device.memory_mb > 0 && (double)limit > run->device.memory_mb * 1e6)
        limit = (size_t)(run->device.memory_mb * 1e6);
    SL_TRY(sl_arena_open(limit, &b->arena));
    return sl_model_stage_open(&b->config, b->device, b->arena, b->stage, b->stages, (uint64_t)run->data.seed,
                               &b->model);
}

static sl_status open_buffers(sl_binding *b) {
    size_t tokens = (size_t)b->config.batch * (size_t)b->config.context;
    int count;
    const sl_parameter *parameter = sl_model_parameters(b->model, &count);
    for (int i = 0; i < count; i++)
        b->blocks += sl_norm_blocks(parameter[i].count);
    /* each parameter ends in a block of its own: at most one more than its elements fill */
    b->all_blocks = sl_model_count(&b->config) / SL_NORM_BLOCK + 16 * ((size_t)b->config.layers + 1);
    SL_TRY(sl_alloc(&b->tokens, tokens, 1));
    SL_TRY(sl_alloc(&b->targets, tokens, 1));
    SL_TRY(sl_alloc(&b->squares, b->blocks, sizeof *b->squares));
    SL_TRY(sl_alloc(&b->all_squares, b->all_blocks, sizeof *b->all_squares));
    SL_TRY(sl_alloc(&b->activation[0], tokens * (size_t)b->config.width, sizeof(float)));
    SL_TRY(sl_alloc(&b->activation[1], tokens * (size_t)b->config.width, sizeof(float)));
    if (b->stage == 0 && b->stages > 1)
        SL_TRY(sl_alloc(&b->head, sl_model_embedding(b->model)->count, sizeof(float)));
    return SL_OK;
}

sl_status sl_binding_open(const sl_run *run, int rank, int in_flight, sl_binding **binding) {
    sl_binding *b;
    SL_TRY(sl_alloc(&b, 1, sizeof *b));
    *binding = b;
    b->run = run;
    b->stage = rank;
    b->stages = run->parallel.pipeline;
    shape_of(run, &b->config);
    sl_data_config data = {.patterns = run->data.file,
                           .pattern_count = run->data.files,
                           .seed = (uint64_t)run->data.seed,
                           .held_out = run->data.held_out,
                           .context = run->model.context,
                           .batch = run->batch.size,
                           .microbatches = run->batch.microbatches};
    SL_TRY(sl_data_open(&data, &b->data));
    b->optimizer = sl_optimizer_standard(run->optimizer.lr, run->iterations);
    b->optimizer.warmup = run->optimizer.warmup < run->iterations ? run->optimizer.warmup : run->iterations;
    b->optimizer.decay = run->optimizer.decay;
    SL_TRY(sl_optimizer_check(&b->optimizer));
    SL_TRY(open_model(b, in_flight));
    return open_buffers(b);
}

void sl_binding_close(sl_binding *b) {
    if (!b)
        return;
    sl_model_stage_close(b->model);
    sl_arena_close(b->arena);
    if (b->device)
        b->device->close(b->device);
    sl_data_close(b->data);
    sl_free(b->tokens);
    sl_free(b->targets);
    sl_free(b->squares);
    sl_free(b->all_squares);
    sl_free(b->head);
    sl_free(b->activation[0]);
    sl_free(b->activation[1]);
    sl_free(b);
}

/* ---- the engine's table ---- */

static sl_status forward(void *object, const sl_op *op, int parts, const void *input, void *output) {
    sl_binding *b = object;
    int microbatch = op->microbatch;
    (void)parts;
    sl_data_batch(b->data, b->iteration, microbatch, b->tokens, b->targets);
    return sl_model_forward(b->model, microbatch, b->stage == 0 ? b->tokens : NULL,
                            b->stage == b->stages - 1 ? b->targets : NULL, input, output);
}

static sl_status input_grad(void *object, const sl_op *op, int parts, const void *output_grad, void *grad) {
    (void)parts;
    return sl_model_input_grad(((sl_binding *)object)->model, op->microbatch, output_grad, grad);
}

static sl_status weight_grad(void *object, const sl_op *op, int parts) {
    (void)parts;
    return sl_model_weight_grad(((sl_binding *)object)->model, op->microbatch);
}

sl_stage sl_binding_stage(sl_binding *b) {
    size_t bytes =
        (size_t)b->config.batch * (size_t)b->config.context * (size_t)b->config.width * sizeof(float);
    return (sl_stage){.object = b,
                      .forward = forward,
                      .input_grad = input_grad,
                      .weight_grad = weight_grad,
                      .input_bytes = b->stage > 0 ? bytes : 0,
                      .output_bytes = b->stage + 1 < b->stages ? bytes : 0};
}

sl_status sl_binding_begin(sl_binding *b, int iteration) {
    b->iteration = iteration;
    return sl_model_begin(b->model, b->run->batch.microbatches);
}

double sl_binding_loss(const sl_binding *b) {
    double sum = 0;
    for (int m = 0; m < b->run->batch.microbatches; m++)
        sum += sl_model_loss(b->model, m);
    return sum / b->run->batch.microbatches;
}

/* ---- the update ---- */

/* The head's accumulator meets the embedding's on the first stage, always as one addition (docs/design.md,
 * rule 4). */
static sl_status join_head(sl_binding *b, sl_group *group) {
    sl_parameter *head = sl_model_head(b->model), *embedding = sl_model_embedding(b->model);
    float *gradient = head ? head->gradient : b->head;
    if (b->stages > 1)
        SL_TRY(sl_group_pass(group, b->stages - 1, 0, gradient,
                             (head        ? head
                              : embedding ? embedding
                                          : &(sl_parameter){0})
                                     ->count *
                                 sizeof(float)));
    return embedding ? sl_model_add_head(b->model, gradient) : SL_OK;
}

static sl_status global_norm(sl_binding *b, sl_group *group, double *norm) {
    int count;
    const sl_parameter *parameter = sl_model_parameters(b->model, &count);
    size_t at = 0, sizes[SL_MAX_RANKS], all = 0;
    for (int i = 0; i < count; i++) {
        sl_norm_squares(parameter[i].gradient, parameter[i].count, b->squares + at);
        at += sl_norm_blocks(parameter[i].count);
    }
    SL_TRY(sl_group_gather_all(group, b->squares, b->blocks * sizeof(double), b->all_squares,
                               b->all_blocks * sizeof(double), sizes));
    for (int r = 0; r < b->stages; r++)
        all += sizes[r] / sizeof(double);
    *norm = sl_norm_total(b->all_squares, all);
    return SL_OK;
}

sl_status sl_binding_update(sl_binding *b, sl_group *group, int iteration) {
    double norm;
    int count;
    SL_TRY(join_head(b, group));
    SL_TRY(global_norm(b, group, &norm));
    if (!isfinite(norm))
        return sl_error(SL_ENONE,
                        "iteration %d: the gradient norm is not finite; a smaller optimizer.lr may help",
                        iteration);
    const sl_parameter *parameter = sl_model_parameters(b->model, &count);
    float factor = sl_norm_clip(norm, b->run->optimizer.clip);
    for (int i = 0; i < count; i++)
        sl_optimizer_step(&b->optimizer, iteration, factor, parameter[i].rows > 0, parameter[i].count,
                          parameter[i].gradient, parameter[i].weight, parameter[i].moment1,
                          parameter[i].moment2);
    sl_parameter *head = sl_model_head(b->model), *embedding = sl_model_embedding(b->model);
    if (b->stages == 1 || (!head && !embedding))
        return SL_OK;
    sl_parameter *mine = head ? head : embedding;
    return sl_group_pass(group, 0, b->stages - 1, mine->weight, mine->count * sizeof(float));
}

/* ---- validation and hash: by forward passes and weights handed from rank to rank ---- */

static sl_status evaluate(sl_binding *b, sl_group *group, int index, double *loss) {
    size_t bytes =
        (size_t)b->config.batch * (size_t)b->config.context * (size_t)b->config.width * sizeof(float);
    int first = b->stage == 0, last = b->stage == b->stages - 1;
    sl_data_validation_batch(b->data, index, b->tokens, b->targets);
    if (!first)
        SL_TRY(sl_group_pass(group, b->stage - 1, b->stage, b->activation[0], bytes));
    SL_TRY(sl_model_evaluate(b->model, first ? b->tokens : NULL, last ? b->targets : NULL,
                             first ? NULL : b->activation[0], last ? NULL : b->activation[1], loss));
    return last ? SL_OK : sl_group_pass(group, b->stage, b->stage + 1, b->activation[1], bytes);
}

sl_status sl_binding_validate(sl_binding *b, sl_group *group, double *loss) {
    int batches = sl_data_validation_batches(b->data);
    double sum = 0;
    batches = batches < MOST_VALIDATED ? batches : MOST_VALIDATED;
    SL_TRY(sl_model_begin(b->model, 1));
    for (int i = 0; i < batches; i++) {
        double one = 0;
        SL_TRY(evaluate(b, group, i, &one));
        sum += one;
    }
    SL_TRY(sl_group_pass(group, b->stages - 1, 0, &sum, sizeof sum));
    *loss = b->stage == 0 ? sum / batches : (double)NAN;
    return SL_OK;
}

sl_status sl_binding_hash(sl_binding *b, sl_group *group, uint64_t *hash) {
    sl_hash *h = NULL;
    int count, counts[SL_MAX_RANKS];
    size_t sizes[SL_MAX_RANKS];
    float *received = NULL;
    const sl_parameter *parameter = sl_model_parameters(b->model, &count);
    SL_TRY(sl_group_gather_all(group, &count, sizeof count, counts, sizeof counts, sizes));
    SL_TRY(sl_alloc(&received, sl_model_count(&b->config), sizeof *received));
    sl_status status = sl_hash_open(&h);
    for (int rank = 0; rank < b->stages && status == SL_OK; rank++)
        for (int i = 0; i < counts[rank] && status == SL_OK; i++) {
            const sl_parameter *p = rank == b->stage ? &parameter[i] : NULL;
            size_t elements = p ? p->count : 0;
            status = sl_group_pass(group, rank, 0, &elements, sizeof elements);
            if (status == SL_OK)
                status = sl_group_pass(group, rank, 0, p ? p->weight : received, elements * sizeof(float));
            if (status == SL_OK && b->stage == 0)
                sl_hash_add(h, p ? p->weight : received, elements);
        }
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

const char *sl_binding_isa(const sl_binding *b) {
    return b->device->isa;
}
