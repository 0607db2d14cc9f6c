#include "run/binding/binding.h"
#include "base/file.h"
#include "base/memory.h"
#include "run/binding/binding_inside.h"
#include "run/checkpoint/checksum.h"
#include "run/device/host_view.h"
#include "run/model/parameter.h"

#include <stdio.h>

int sl_binding_holds(const sl_binding *b, int rank, int stage) {
    for (int number = stage; number < b->shape.stages; number += b->stages)
        if (sl_problem_rank(&b->shape, number) == rank)
            return 1;
    return 0;
}

int sl_binding_is_second(const sl_held *h) {
    return h->twin && h->twin < h;
}

int sl_binding_rank_of(const sl_binding *b, int stage) {
    return sl_run_first_rank(b->run, sl_problem_rank(&b->shape, stage));
}

sl_held *sl_binding_held_of(const sl_binding *b, int stage) {
    for (int i = 0; i < b->helds; i++)
        if (b->held[i].stage == stage)
            return &b->held[i];
    return NULL;
}

sl_model_stage *sl_binding_model_of(const sl_binding *b, int stage) {
    const sl_held *held = sl_binding_held_of(b, stage);
    return held ? held->model : NULL;
}

/* The model's sums and maxima over tensor ranks. Scratch grows in the first iteration and then stays. */
static sl_status over_tensor_ranks(sl_binding *b, float *values, size_t count,
                                   sl_status (*combine)(sl_group *, float *, size_t, float *)) {
    const size_t floats = sl_group_scratch(b->groups->tensor, count);
    sl_host_view view;
    SL_TRY(sl_grow(&b->tensor_scratch, &b->tensor_capacity, floats, sizeof *b->tensor_scratch));
    SL_TRY(sl_host_view_open(b->device, values, count * sizeof *values, SL_VIEW_READ | SL_VIEW_WRITE, &view));
    return sl_host_view_close(&view, combine(b->groups->tensor, view.host, count, b->tensor_scratch));
}

static sl_status tensor_sum(void *object, float *values, size_t count) {
    return over_tensor_ranks(object, values, count, sl_group_sum);
}

static sl_status tensor_max(void *object, float *values, size_t count) {
    return over_tensor_ranks(object, values, count, sl_group_max);
}

/* As seen by a tensor rank; `binding` may be NULL if nothing is computed. */
static void shape_of(const sl_run *run, int tensor, sl_binding *binding, sl_model_config *config) {
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
                                   .recompute = run->device.recompute,
                                   .without_moments = run->parallel.zero > 0,
                                   .tensor = {.rank = tensor,
                                              .size = run->parallel.tensor,
                                              .object = binding,
                                              .sum = tensor_sum,
                                              .max = tensor_max}};
    *config = sl_model_complete(&given);
}

/* ZeRO: the moments of the largest share, so that all holders have the same size. */
static sl_status add_moments(const sl_run *run, const sl_model_config *config, int stage, int holders,
                             sl_model_bytes *all) {
    sl_shares cut;
    SL_TRY(sl_binding_cut_stage(config, stage, sl_run_model_stages(run), holders, &cut));
    size_t most = 0;
    for (int holder = 0; holder < holders; holder++) {
        size_t elements = sl_shares_elements(&cut, holder);
        most = elements > most ? elements : most;
    }
    all->fixed += 2 * sl_arena_round(most * sizeof(float));
    sl_shares_free(&cut);
    return SL_OK;
}

/* The memory of all stages of a rank together, and the block sizes that all of them use. */
static sl_status measure(const sl_run *run, const sl_model_config *config, sl_device *device, int rank,
                         sl_model_bytes *all) {
    const sl_problem shape = sl_run_shape(run);
    const int stages = sl_run_model_stages(run);
    *all = (sl_model_bytes){0};
    for (int number = 0; number < shape.stages; number++) {
        const int stage = number % stages;
        sl_model_bytes one;
        if (sl_problem_rank(&shape, number) != rank)
            continue;
        SL_TRY(sl_model_measure(config, device, stage, stages, &one));
        all->fixed += one.fixed;
        const int is_second = number >= stages && sl_problem_rank(&shape, stage) == rank;
        if (run->parallel.zero > 0 && !is_second) /* the first of two copies here has the moments */
            SL_TRY(add_moments(run, config, stage, sl_run_holders(run, rank), all));
        all->forward = one.forward > all->forward ? one.forward : all->forward;
        all->backward = one.backward > all->backward ? one.backward : all->backward;
        all->message = one.message;
    }
    return SL_OK;
}

sl_status sl_binding_measure(const sl_run *run, sl_run_position position, sl_binding_sizes *sizes) {
    sl_model_config config;
    sl_model_bytes bytes;
    sl_device *device;
    shape_of(run, position.tensor, NULL, &config);
    SL_TRY(sl_model_check(&config, sl_run_model_stages(run)));
    SL_TRY(sl_binding_open_device(run, &device));
    sl_status status = measure(run, &config, device, position.pipeline, &bytes);
    device->close(device);
    SL_TRY(status);
    *sizes = (sl_binding_sizes){.forward_bytes = (double)bytes.forward,
                                .backward_bytes = (double)bytes.backward,
                                .fixed_bytes = (double)bytes.fixed,
                                .message_bytes = bytes.message};
    return SL_OK;
}

size_t sl_binding_elements(const sl_run *run, int number) {
    const int stages = sl_run_model_stages(run), stage = number % stages;
    sl_model_config config;
    sl_parameter *list;
    size_t elements = 0;
    shape_of(run, 0, NULL, &config);
    int count = sl_model_list(&config, stage, stages, NULL);
    if (sl_alloc(&list, (size_t)count, sizeof *list) != SL_OK)
        return 0; /* an estimate of 0 */
    sl_model_list(&config, stage, stages, list);
    for (int i = 0; i < count; i++)
        elements += list[i].count;
    sl_free(list);
    return elements;
}

static sl_status open_stage(sl_binding *b, int stage, int number, sl_held *h) {
    sl_held *const twin = sl_binding_held_of(b, stage);
    *h = (sl_held){.binding = b, .stage = stage, .number = number, .index = b->helds, .twin = twin};
    SL_TRY(sl_model_stage_open(&b->config, b->device, b->arena, stage, b->stages, (uint64_t)b->run->data.seed,
                               &h->model));
    sl_model_stage_pad(h->model, b->need.forward, b->need.backward);
    sl_model_set_host(h->model, b->host);
    h->list = sl_model_parameters(h->model, &h->parameters);
    h->tied = b->config.tied ? sl_model_head(h->model) : NULL;
    b->helds++;
    if (!twin)
        return sl_binding_open_moments(b, h);
    twin->twin = h;
    h->due = 1; /* the first may get other weights than its initial ones */
    return SL_OK;
}

sl_status sl_binding_open_stages(sl_binding *b) {
    SL_TRY(sl_alloc(&b->held, (size_t)b->shape.stages, sizeof *b->held));
    for (int stage = 0; stage < b->stages; stage++)
        for (int number = stage; number < b->shape.stages; number += b->stages)
            if (sl_problem_rank(&b->shape, number) == b->rank)
                SL_TRY(open_stage(b, stage, number, &b->held[b->helds]));
    return SL_OK;
}

/* With a limit, F's and I's blocks come and go as the limit allows: at most as many of each as fit alone.
 * Their two ends of the arena must not meet, so its address range is larger than the memory that may be in
 * use (arena.h). */
static void size_arena(sl_binding *b, const sl_model_bytes *bytes, int in_flight) {
    size_t both = bytes->forward + bytes->backward, count = (size_t)(in_flight > 1 ? in_flight : 1),
           all = bytes->fixed + count * both, most = (size_t)(b->run->device.memory_mb * 1e6);
    b->limit = b->room = most == 0 || all <= most ? all : most;
    if (b->limit == all || most < bytes->fixed + both)
        return; /* the plan was refused before */
    size_t forwards = (most - bytes->fixed) / bytes->forward, backwards = (most - bytes->fixed) / both;
    forwards = forwards < count ? forwards : count;
    backwards = backwards < count ? backwards : count;
    b->room = bytes->fixed + forwards * bytes->forward + backwards * bytes->backward;
}

sl_status sl_binding_size(sl_binding *b, int in_flight, int hosted) {
    if (!b->device)
        SL_TRY(sl_binding_open_device(b->run, &b->device));
    SL_TRY(measure(b->run, &b->config, b->device, b->rank, &b->need));
    b->hosted = (size_t)(hosted > 0 ? hosted : 0) * (b->need.forward + b->need.backward);
    size_arena(b, &b->need, in_flight);
    return SL_OK;
}

sl_status sl_binding_open_memory(sl_binding *b) {
    SL_TRY(sl_arena_open_room(b->device, b->limit, b->room, &b->arena));
    return b->hosted > 0 ? sl_arena_open_pinned(b->device, b->hosted, &b->host) : SL_OK;
}

sl_status sl_binding_open_buffers(sl_binding *b) {
    size_t tokens = (size_t)b->config.batch * (size_t)b->config.context;
    for (int i = 0; i < 2; i++) {
        SL_TRY(sl_alloc(&b->tokens[i], tokens, sizeof *b->tokens[i]));
        SL_TRY(sl_alloc(&b->targets[i], tokens, sizeof *b->targets[i]));
    }
    SL_TRY(sl_alloc(&b->activation[0], tokens * (size_t)b->config.width, sizeof(float)));
    SL_TRY(sl_alloc(&b->activation[1], tokens * (size_t)b->config.width, sizeof(float)));
    SL_TRY(sl_binding_open_clip(b));
    return sl_binding_open_sums(b);
}

static sl_status open_data(sl_binding *b) {
    const sl_run *run = b->run;
    sl_data_config data = {.patterns = run->data.file,
                           .pattern_count = run->data.files,
                           .seed = (uint64_t)run->data.seed,
                           .held_out = run->data.held_out,
                           .tokens = (sl_data_tokens)run->data.tokens,
                           .vocabulary = run->model.vocabulary,
                           .context = run->model.context,
                           .batch = run->batch.size,
                           .microbatches = run->batch.microbatches};
    return sl_data_open(&data, &b->data);
}

sl_status sl_binding_make(const sl_run *run, const sl_groups *groups, sl_binding **binding) {
    sl_binding *b;
    *binding = NULL;
    SL_TRY(sl_alloc(&b, 1, sizeof *b));
    *binding = b;
    b->run = run;
    b->own = *groups;
    b->groups = &b->own;
    b->shape = sl_run_replica_shape(run, groups->position.replica);
    b->rank = groups->position.pipeline;
    b->first = sl_run_first_microbatch(run, groups->position.replica);
    b->stages = sl_run_model_stages(run);
    b->holders = sl_run_holders(run, b->rank);
    b->holder = sl_run_holder(run, groups->position);
    shape_of(run, groups->position.tensor, b, &b->config);
    SL_TRY(sl_model_check(&b->config, b->stages));
    b->optimizer = sl_optimizer_standard(run->optimizer.lr, run->iterations);
    b->optimizer.warmup = run->optimizer.warmup < run->iterations ? run->optimizer.warmup : run->iterations;
    b->optimizer.decay = run->optimizer.decay;
    SL_TRY(sl_optimizer_check(&b->optimizer));
    return sl_binding_plot(b);
}

sl_status sl_binding_open(const sl_run *run, const sl_groups *groups, int in_flight, int hosted,
                          sl_binding **binding) {
    SL_TRY(sl_binding_make(run, groups, binding));
    sl_binding *b = *binding;
    SL_TRY(open_data(b));
    SL_TRY(sl_binding_size(b, in_flight, hosted));
    SL_TRY(sl_binding_open_memory(b));
    SL_TRY(sl_binding_open_stages(b));
    return sl_binding_open_buffers(b);
}

/* They may be opened again in the same memory. */
void sl_binding_close_stages(sl_binding *b) {
    for (int i = 0; i < b->helds; i++) {
        for (int m = 0; m < 2; m++)
            sl_arena_give(b->arena, b->held[i].moment[m]);
        sl_model_stage_close(b->held[i].model);
        b->held[i].moment[0] = b->held[i].moment[1] = NULL;
        b->held[i].model = NULL;
    }
}

void sl_binding_close(sl_binding *b) {
    if (!b || !sl_reducer_close(b->reducer) || !sl_passing_close(&b->passing))
        return; /* a thread still works on what would go */
    sl_binding_close_sums(b);
    sl_binding_close_clip(b);
    sl_binding_close_plot(b);
    sl_binding_close_stages(b);
    SL_FREE(b->tensor_scratch, b->held);
    sl_arena_close(b->arena);
    sl_arena_close(b->host);
    if (b->device)
        b->device->close(b->device);
    sl_data_close(b->data);
    SL_FREE(b->tokens[0], b->tokens[1], b->targets[0], b->targets[1], b->activation[0], b->activation[1], b);
}

/* ---- the engine's tables ---- */

static sl_op_part part_of(const sl_op *op, int parts) {
    return (sl_op_part){.index = op->part, .count = parts};
}

/* Of the replica's microbatches, a copy of a stage runs every one, or every second one. */
static int microbatches_of(const sl_held *h) {
    return sl_problem_microbatches(&h->binding->shape, h->number);
}

static int microbatch_of(const sl_held *h, int microbatch) {
    return microbatch * h->binding->stages / h->binding->shape.stages;
}

/* Of two holders in opposite directions, each may come first to another of their stages: so that they gather
 * weights in one order, they update all of them at the first. */
static sl_status update(sl_held *h) {
    sl_binding *b = h->binding;
    const int together = b->run->parallel.zero && sl_run_copies(b->run) > 1;
    for (int i = 0; i < b->helds && together; i++)
        SL_TRY(sl_binding_update_stage(&b->held[i]));
    return sl_binding_update_stage(h);
}

/* The gradients that the update needs are valid until now. */
static sl_status prepare(void *object) {
    sl_held *h = object;
    SL_TRY(update(h));
    return sl_model_begin_part(h->model, microbatches_of(h), h->binding->run->batch.microbatches);
}

/* The last part reads the targets, the first one the tokens. */
static sl_status forward(void *object, const sl_op *op, int parts, const void *input, void *output) {
    const sl_held *h = object;
    sl_binding *b = h->binding;
    b->text = !b->text;
    uint16_t *tokens = h->stage == 0 ? b->tokens[b->text] : NULL,
             *targets = h->stage == b->stages - 1 ? b->targets[b->text] : NULL;
    if (tokens || targets)
        sl_data_batch(b->data, b->iteration, b->first + op->microbatch, tokens, targets);
    if (tokens && op->part == 0 && b->own.position.tensor == 0)
        b->samples +=
            sl_checksum(tokens, (size_t)b->config.batch * (size_t)b->config.context * sizeof *tokens);
    return sl_model_forward_part(h->model, microbatch_of(h, op->microbatch), part_of(op, parts), tokens,
                                 targets, input, output);
}

static sl_status input_grad(void *object, const sl_op *op, int parts, const void *output_grad, void *grad) {
    const sl_held *h = object;
    return sl_model_input_grad_part(h->model, microbatch_of(h, op->microbatch), part_of(op, parts),
                                    output_grad, grad);
}

static sl_status weight_grad(void *object, const sl_op *op, int parts) {
    const sl_held *h = object;
    return sl_model_weight_grad_part(h->model, microbatch_of(h, op->microbatch), part_of(op, parts));
}

/* After the last of them the stage's gradients are those of the replica. */
static sl_status weights_added(void *object, const sl_op *op, int parts, sl_time end) {
    sl_held *h = object;
    (void)op;
    (void)parts;
    h->left--;
    return sl_binding_weights_added(h, end);
}

static sl_status finish(void *object) {
    sl_device *device = ((const sl_held *)object)->binding->device;
    return device->finish(device);
}

static sl_status mark(void *object, int number) {
    sl_device *device = ((const sl_held *)object)->binding->device;
    device->mark(device, number);
    return SL_OK;
}

static sl_status wait_for(void *object, int number) {
    sl_device *device = ((const sl_held *)object)->binding->device;
    return device->wait(device, number);
}

static sl_status offload(void *object, int microbatch) {
    const sl_held *h = object;
    return sl_model_offload(h->model, microbatch_of(h, microbatch));
}

static sl_status fetch(void *object, int microbatch) {
    const sl_held *h = object;
    return sl_model_fetch(h->model, microbatch_of(h, microbatch));
}

/* Ops that sum over tensor ranks wait for them; they in turn may need results that a block queued ahead holds
 * back. */
static int may_queue_ahead(const sl_binding *b) {
    return !b->device->host_memory && b->config.tensor.size <= 1;
}

void sl_binding_stages(sl_binding *b, sl_stage *table) {
    size_t bytes =
        (size_t)b->config.batch * (size_t)b->config.context * (size_t)b->config.width * sizeof(float);
    for (int i = 0; i < b->helds; i++) {
        int stage = b->held[i].stage;
        table[b->held[i].number] = (sl_stage){.object = &b->held[i],
                                              .prepare = prepare,
                                              .forward = forward,
                                              .input_grad = input_grad,
                                              .weight_grad = weight_grad,
                                              .finish = finish,
                                              .mark = may_queue_ahead(b) ? mark : NULL,
                                              .wait = wait_for,
                                              .weights_added = weights_added,
                                              .offload = b->host ? offload : NULL,
                                              .fetch = b->host ? fetch : NULL,
                                              .input_bytes = stage > 0 ? bytes : 0,
                                              .output_bytes = stage + 1 < b->stages ? bytes : 0};
    }
}

void sl_binding_begin(sl_binding *b, int iteration) {
    b->iteration = iteration;
    b->samples = 0;
    if (b->reducer)
        sl_reducer_begin(b->reducer);
    for (int i = 0; i < b->helds; i++) {
        b->held[i].left = microbatches_of(&b->held[i]) * b->shape.parts;
        b->held[i].squared = 0;
    }
}

int sl_binding_stage_at(const sl_binding *b, int index) {
    return index < b->helds ? b->held[index].number : -1;
}

int sl_binding_losses(const sl_binding *b, double *losses) {
    const sl_held *last = sl_binding_held_of(b, b->stages - 1);
    if (!last || b->groups->position.tensor > 0)
        return 0;
    for (int m = 0; m < microbatches_of(last); m++)
        losses[m] = sl_model_loss(last->model, m);
    return microbatches_of(last);
}

const sl_model_config *sl_binding_config(const sl_binding *b) {
    return &b->config;
}

uint64_t sl_binding_samples(const sl_binding *b) {
    return b->samples;
}

void sl_binding_data(const sl_binding *b, uint64_t *tokens, uint64_t *checksum) {
    *tokens = sl_data_all_tokens(b->data);
    *checksum = sl_data_checksum(b->data);
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

sl_device *sl_binding_device(const sl_binding *b) {
    return b->device;
}

const char *sl_binding_isa(const sl_binding *b) {
    return b->device->isa;
}

typedef struct state_writer {
    FILE *values, *names;
    size_t offset;
} state_writer;

static sl_status open_file(const char *folder, const char *name, FILE **file) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/gradients", folder) >= (int)sizeof path - 64)
        return sl_error(SL_EINVAL, "%s: the path is too long", folder);
    SL_TRY(sl_directory_make(path));
    snprintf(path, sizeof path, "%s/gradients/%s", folder, name);
    *file = fopen(path, "we");
    return *file ? SL_OK : sl_error_errno(SL_ESYS, "%s: cannot be written", path);
}

static sl_status add(void *object, const sl_parameter *tensor, const float *full) {
    state_writer *w = object;
    int failed = fwrite(full, sizeof *full, tensor->count, w->values) != tensor->count;
    fprintf(w->names, "%s\n{\"name\": \"%s\", \"shape\": [", w->offset ? "," : "[", tensor->name);
    if (tensor->rows)
        fprintf(w->names, "%d, ", tensor->rows);
    failed |= fprintf(w->names, "%d], \"offset\": %zu}", tensor->columns, w->offset) < 0;
    w->offset += tensor->count * sizeof *full;
    return failed ? sl_error_errno(SL_ESYS, "the gradients cannot be written") : SL_OK;
}

sl_status sl_gradients_write(sl_binding *binding, int leads, const char *folder, int iteration) {
    state_writer w = {0};
    char name[64];
    snprintf(name, sizeof name, "iteration-%06d.f32", iteration);
    sl_status status;
    int failed = 0;
    if (leads) {
        SL_TRY_GOTO(out, status, open_file(folder, name, &w.values));
        SL_TRY_GOTO(out, status, open_file(folder, "tensors.json", &w.names));
    }
    status = sl_binding_each(binding, SL_VALUE_GRADIENT, add, &w);
out:
    if (w.names) {
        failed |= fprintf(w.names, "\n]\n") < 0;
        failed |= fclose(w.names) != 0;
    }
    if (w.values)
        failed |= fclose(w.values) != 0;
    if (status == SL_OK && failed)
        status = sl_error_errno(SL_ESYS, "%s/gradients: cannot be written", folder);
    return status;
}
