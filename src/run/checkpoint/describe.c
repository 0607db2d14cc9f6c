#include "run/checkpoint/describe.h"
#include "base/file.h"
#include "run/checkpoint/checksum.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Ids of tokens that begin and end a text: ours have none, and the defaults lie outside a vocabulary of
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
