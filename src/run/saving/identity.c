#include "run/saving/identity.h"
#include "base/file.h"
#include "run/checkpoint/checksum.h"
#include "run/model/transformer.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Takes `root`. */
static sl_status write_json(const char *path, json_t *root, sl_file_seal *seal) {
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(root);
    if (!text)
        return sl_error(SL_ENOMEM, "out of memory for %s", path);
    *seal = (sl_file_seal){.size = strlen(text), .checksum = sl_checksum(text, strlen(text))};
    sl_status status = sl_file_write(path, text, strlen(text));
    free(text);
    return status;
}

/* Ids of tokens that begin and end a text: ours have none, and the defaults are outside a vocabulary of
 * bytes. */
static json_t *describe_gpt2(const sl_model_description *m) {
    return json_pack(
        "{s:[s], s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:b, s:s, s:n, s:n}",
        "architectures", "GPT2LMHeadModel", "model_type", "gpt2", "n_layer", m->layers, "n_embd", m->width,
        "n_head", m->heads, "n_inner", m->hidden, "n_positions", m->context, "n_ctx", m->context,
        "vocab_size", m->vocabulary, "activation_function", "gelu_new", "layer_norm_epsilon", m->epsilon,
        "initializer_range", 0.02, "attn_pdrop", 0.0, "embd_pdrop", 0.0, "resid_pdrop", 0.0,
        "tie_word_embeddings", m->tied, "torch_dtype", "float32", "bos_token_id", "eos_token_id");
}

static json_t *describe_llama(const sl_model_description *m) {
    return json_pack(
        "{s:[s], s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f, s:f, s:b, s:b, s:b, s:s, s:n, s:n}",
        "architectures", "LlamaForCausalLM", "model_type", "llama", "num_hidden_layers", m->layers,
        "hidden_size", m->width, "num_attention_heads", m->heads, "num_key_value_heads", m->kv_heads,
        "intermediate_size", m->hidden, "max_position_embeddings", m->context, "vocab_size", m->vocabulary,
        "hidden_act", "silu", "rms_norm_eps", m->epsilon, "rope_theta", m->rope_base, "initializer_range",
        0.02, "attention_bias", 0, "mlp_bias", 0, "tie_word_embeddings", m->tied, "torch_dtype", "float32",
        "bos_token_id", "eos_token_id");
}

sl_status sl_describe_model(const char *path, const sl_model_description *m, sl_file_seal *seal) {
    return write_json(path, m->kind == SL_DESCRIBE_GPT2 ? describe_gpt2(m) : describe_llama(m), seal);
}

static sl_status add_names(const char *folder, const char *name, json_t *map, uint64_t *bytes) {
    char path[4096];
    sl_safetensors *file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    SL_TRY(sl_safetensors_open(path, &file));
    int failed = 0;
    for (int i = 0; i < sl_safetensors_count(file); i++) {
        const sl_tensor *t = sl_safetensors_tensor(file, i);
        failed |= json_object_set_new(map, t->name, json_string(name));
        *bytes += t->end - t->begin;
    }
    sl_safetensors_close(file);
    return failed ? sl_error(SL_ENOMEM, "out of memory for an index") : SL_OK;
}

sl_status sl_describe_index(const char *folder, const char *const *names, int count, sl_file_seal *seal) {
    char path[4096];
    uint64_t bytes = 0;
    json_t *map = json_object();
    sl_status status = map ? SL_OK : sl_error(SL_ENOMEM, "out of memory for an index");
    for (int i = 0; i < count && status == SL_OK; i++)
        status = add_names(folder, names[i], map, &bytes);
    if (status != SL_OK) {
        json_decref(map);
        return status;
    }
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    return write_json(
        path, json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)bytes, "weight_map", map),
        seal);
}
