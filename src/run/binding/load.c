#include "run/binding/load.h"
#include "base/memory.h"
#include "run/binding/binding_inside.h"
#include "run/checkpoint/weights.h"
#include "run/device/host_view.h"

#include <stdio.h>
#include <string.h>

/* Buffers for a tensor if this rank holds columns or a share of it. */
typedef struct scratch {
    float *full;
    size_t capacity;
} scratch;

static sl_status read_full(const sl_weights *w, const sl_parameter *p, const char *ending, float *out) {
    char name[128];
    snprintf(name, sizeof name, "%s%s", p->name, ending);
    return sl_weights_read(w, name, p->rows ? p->full_rows : 0, p->full_columns, 0,
                           sl_parameter_full_count(p), out);
}

/* Rows of a matrix are contiguous in the file: a rank that holds some of them reads no others. */
static int holds_rows(const sl_parameter *p) {
    return p->axis == SL_AXIS_ROWS && p->pieces <= 1 && p->rows > 0;
}

static sl_status read_rows(const sl_weights *w, const sl_parameter *p, const char *ending, float *out) {
    char name[128];
    int first, end;
    sl_slice_range(p->full_rows, p->tensor_rank, p->tensor_ranks, &first, &end);
    snprintf(name, sizeof name, "%s%s", p->name, ending);
    return sl_weights_read(w, name, p->full_rows, p->full_columns, (size_t)first * (size_t)p->full_columns,
                           p->count, out);
}

/* `mine`: destination of this rank's slice; NULL: with ZeRO it holds a share of it. */
static sl_status load_value(const sl_weights *w, sl_binding *b, int stage, int index, const sl_parameter *p,
                            sl_binding_value value, float *mine, scratch *s) {
    static const char *const endings[] = {
        [SL_VALUE_WEIGHT] = "", [SL_VALUE_MOMENT1] = ".moment1", [SL_VALUE_MOMENT2] = ".moment2"};
    if (mine && (p->count == sl_parameter_full_count(p) || holds_rows(p))) {
        sl_host_view view;
        SL_TRY(sl_host_view_open(b->device, mine, p->count * sizeof *mine, SL_VIEW_WRITE, &view));
        sl_status (*const read)(const sl_weights *, const sl_parameter *, const char *, float *) =
            p->count == sl_parameter_full_count(p) ? read_full : read_rows;
        return sl_host_view_close(&view, read(w, p, endings[value], view.host));
    }
    SL_TRY(sl_grow(&s->full, &s->capacity, sl_parameter_full_count(p), sizeof *s->full));
    SL_TRY(read_full(w, p, endings[value], s->full));
    return sl_binding_put(b, stage, index, value, s->full);
}

/* A tied head's copy of the embedding, by the embedding's name. */
static sl_status load_head(const sl_weights *w, sl_binding *b, sl_model_stage *model, scratch *s) {
    const sl_parameter *head = sl_model_head(model), *embedding = sl_model_embedding(model);
    if (!head || (embedding && embedding->weight == head->weight))
        return SL_OK;
    SL_TRY(sl_grow(&s->full, &s->capacity, sl_parameter_full_count(head), sizeof *s->full));
    SL_TRY(read_full(w, head, "", s->full));
    return sl_binding_put_head(b, s->full);
}

static sl_status load_stage(const sl_weights *w, sl_binding *b, int stage, int moments, scratch *s) {
    sl_model_stage *model = sl_binding_model_of(b, stage);
    int count;
    const sl_parameter *list = sl_model_parameters(model, &count);
    for (int i = 0; i < count; i++) {
        const sl_parameter *p = &list[i];
        SL_TRY(load_value(w, b, stage, i, p, SL_VALUE_WEIGHT, p->weight, s));
        if (moments) {
            SL_TRY(load_value(w, b, stage, i, p, SL_VALUE_MOMENT1, p->moment1, s));
            SL_TRY(load_value(w, b, stage, i, p, SL_VALUE_MOMENT2, p->moment2, s));
        }
    }
    return load_head(w, b, model, s);
}

static sl_status load_stages(const sl_weights *w, int stages, sl_binding *binding, int moments) {
    scratch s = {0};
    sl_status status = SL_OK;
    for (int stage = 0; stage < stages && status == SL_OK; stage++)
        if (sl_binding_model_of(binding, stage))
            status = load_stage(w, binding, stage, moments, &s);
    sl_free(s.full);
    return status;
}

static sl_status load_sealed(const char *path, uint64_t seal, int stages, sl_binding *binding) {
    char file[4096];
    sl_checkpoint_state state;
    sl_weights *weights = NULL;
    if (snprintf(file, sizeof file, "%s/state.json", path) >= (int)sizeof file)
        return sl_error(SL_EINVAL, "%s: the path is too long", path);
    SL_TRY(sl_checkpoint_state_read(file, &state));
    sl_status status = SL_OK;
    if (state.seal != seal)
        status =
            sl_error(SL_EINVAL,
                     "%s: differs from the one that rank 0 found; is the folder shared by all hosts?", file);
    SL_THEN(status, sl_weights_open_checkpoint(path, &state, &weights));
    SL_THEN(status, load_stages(weights, stages, binding, 1));
    sl_weights_close(weights);
    sl_checkpoint_state_free(&state);
    return status;
}

/* It was complete for rank 0 just now: so an error here is not a wrong request, and another attempt may
 * succeed. */
sl_status sl_load_checkpoint(const char *path, uint64_t seal, int stages, sl_binding *binding) {
    sl_status status = load_sealed(path, seal, stages, binding);
    return status == SL_EINVAL ? SL_ESYS : status;
}

/* ---- weights from elsewhere ---- */

static int ends_in(const char *name, const char *ending) {
    size_t length = strlen(name), tail = strlen(ending);
    return length >= tail && strcmp(name + length - tail, ending) == 0;
}

#define HEAD "lm_head.weight"

static int is_buffer(const char *name) {
    return ends_in(name, ".attn.bias") || ends_in(name, ".attn.masked_bias") ||
           ends_in(name, ".rotary_emb.inv_freq");
}

static int is_buffer_or_head(const char *name) {
    return is_buffer(name) || strcmp(name, HEAD) == 0;
}

/* The whole model's list, so that all ranks report the same. */
static sl_status list_all(const sl_model_config *shape, int stages, sl_parameter **list, int *count) {
    sl_model_config config = *shape;
    int all = 0;
    config.tensor = (sl_tensor_ranks){0};
    for (int stage = 0; stage < stages; stage++)
        all += sl_model_list(&config, stage, stages, NULL);
    SL_TRY(sl_alloc(list, (size_t)all, sizeof **list));
    *count = 0;
    for (int stage = 0; stage < stages; stage++)
        *count += sl_model_list(&config, stage, stages, *list + *count);
    return SL_OK;
}

/* A tied head in the files must equal the embedding: otherwise another model was meant. */
static sl_status check_head(const sl_weights *w, const sl_parameter *embedding) {
    size_t columns = (size_t)embedding->columns;
    const char *const name[2] = {embedding->name, HEAD};
    float *row[2] = {NULL, NULL};
    sl_status status = SL_OK;
    if (!sl_weights_has(w, HEAD))
        return SL_OK;
    for (int k = 0; k < 2; k++)
        SL_TRY_GOTO(out, status, sl_alloc(&row[k], columns, sizeof(float)));
    for (int i = 0; i < embedding->rows; i++) {
        for (int k = 0; k < 2; k++)
            SL_TRY_GOTO(out, status,
                        sl_weights_read(w, name[k], embedding->rows, embedding->columns, (size_t)i * columns,
                                        columns, row[k]));
        if (memcmp(row[0], row[1], columns * sizeof(float)) != 0)
            SL_TRY_GOTO(out, status,
                        sl_error(SL_EINVAL, "tensor '%s' differs from '%s', to which the model ties it", HEAD,
                                 embedding->name));
    }
out:
    SL_FREE(row[0], row[1]);
    return status;
}

static sl_status check_weights(sl_weights *w, const sl_model_config *config, int stages) {
    const sl_weight_rules rules = {.prefix = "transformer.", .passed_over = is_buffer_or_head};
    sl_parameter *list;
    sl_weight_need *needs = NULL;
    sl_status status;
    int count;
    SL_TRY(list_all(config, stages, &list, &count));
    SL_TRY_GOTO(out, status, sl_alloc(&needs, (size_t)count, sizeof *needs));
    for (int i = 0; i < count; i++)
        needs[i] = (sl_weight_need){.name = list[i].name, .rows = list[i].rows, .columns = list[i].columns};
    SL_TRY_GOTO(out, status, sl_weights_check(w, needs, count, &rules));
    if (config->tied)
        status = check_head(w, &list[0]); /* the embedding comes first */
out:
    SL_FREE(needs, list);
    return status;
}

sl_status sl_load_weights(const char *path, int stages, sl_binding *binding) {
    sl_weights *weights;
    sl_status status = sl_weights_open(path, &weights);
    SL_THEN(status, check_weights(weights, sl_binding_config(binding), stages));
    SL_THEN(status, load_stages(weights, stages, binding, 0));
    sl_weights_close(weights);
    return status == SL_EINVAL ? sl_error(status, "'model.weights': %s", sl_error_text()) : status;
}
