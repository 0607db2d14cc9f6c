#include "run/saving/identity.h"
#include "run/model/model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

typedef struct key_list {
    sl_checkpoint_key *key;
    int count;
} key_list;

__attribute__((format(printf, 3, 4))) static void put(key_list *list, const char *name, const char *format,
                                                      ...) {
    sl_checkpoint_key *key = &list->key[list->count++];
    va_list arguments;
    snprintf(key->name, sizeof key->name, "%s", name);
    va_start(arguments, format);
    vsnprintf(key->value, sizeof key->value, format, arguments);
    va_end(arguments);
}

int sl_identity_keys(const sl_run *run, const sl_binding *binding, sl_checkpoint_key *key) {
    const sl_model_config *model = sl_binding_config(binding);
    uint64_t tokens, checksum;
    key_list list = {.key = key};
    put(&list, "model.kind", "\"%s\"", sl_architecture_of(model->kind)->name);
    put(&list, "model.layers", "%d", model->layers);
    put(&list, "model.width", "%d", model->width);
    put(&list, "model.heads", "%d", model->heads);
    put(&list, "model.context", "%d", model->context);
    put(&list, "model.vocabulary", "%d", model->vocabulary);
    put(&list, "model.hidden", "%d", model->hidden);
    if (model->kind == SL_MODEL_LLAMA) {
        put(&list, "model.kv_heads", "%d", model->kv_heads);
        put(&list, "model.tied", "%s", model->tied ? "true" : "false");
        put(&list, "model.rope_base", "%.15g", model->rope_base);
        put(&list, "model.norm_eps", "%.15g", model->norm_epsilon);
    }
    sl_binding_data(binding, &tokens, &checksum);
    put(&list, "data.files", "\"%" PRIu64 " tokens, xxh64 %016" PRIx64 "\"", tokens, checksum);
    put(&list, "data.seed", "%" PRId64, run->data.seed);
    put(&list, "data.held_out", "%.15g", run->data.held_out);
    put(&list, "batch.microbatches", "%d", run->batch.microbatches);
    put(&list, "batch.size", "%d", run->batch.size);
    put(&list, "optimizer.kind", "\"adamw\"");
    put(&list, "optimizer.lr", "%.15g", run->optimizer.lr);
    put(&list, "optimizer.warmup", "%d", run->optimizer.warmup);
    put(&list, "optimizer.clip", "%.15g", run->optimizer.clip);
    put(&list, "optimizer.decay", "%.15g", run->optimizer.decay);
    return list.count;
}

sl_model_description sl_identity_model(const sl_binding *binding) {
    const sl_model_config *c = sl_binding_config(binding);
    return (sl_model_description){.kind = c->kind == SL_MODEL_LLAMA ? SL_DESCRIBE_LLAMA : SL_DESCRIBE_GPT2,
                                  .layers = c->layers,
                                  .width = c->width,
                                  .heads = c->heads,
                                  .kv_heads = c->kv_heads,
                                  .hidden = c->hidden,
                                  .context = c->context,
                                  .vocabulary = c->vocabulary,
                                  .tied = c->tied,
                                  .rope_base = c->rope_base,
                                  .epsilon = c->kind == SL_MODEL_LLAMA ? c->norm_epsilon : 1e-5};
}
