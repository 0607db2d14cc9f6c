/* The config.json of a Hugging Face model: which keys hold the sizes, and what a model type implies that no
 * key says. Types that are not listed are read as Llama if they have its keys. */
#include "choose/model/model_work_inside.h"

#include <stdio.h>
#include <string.h>

typedef struct config_trait {
    const char *type;
    int plain;  /* not gated */
    int tied;   /* unless the file says otherwise */
    int norms;  /* of a block, each of the width; 2 h for each where they have biases */
    int biased; /* norms have biases; so have all products */
    int qkv_bias,
        head_norms;  /* queries, keys and values have biases; queries and keys have norms of a head */
    int shared_gate; /* shared experts have a gate */
    int router_bias; /* the router has a correction of each expert */
} config_trait;

static const config_trait traits[] = {
    {.type = "gpt2", .plain = 1, .tied = 1, .norms = 2, .biased = 1},
    {.type = "llama", .norms = 2},
    {.type = "mistral", .norms = 2},
    {.type = "mixtral", .norms = 2},
    {.type = "qwen2", .norms = 2, .qkv_bias = 1},
    {.type = "qwen2_moe", .norms = 2, .qkv_bias = 1, .shared_gate = 1},
    {.type = "qwen3", .norms = 2, .head_norms = 1},
    {.type = "qwen3_moe", .norms = 2, .head_norms = 1},
    {.type = "deepseek_v2", .norms = 2},
    {.type = "deepseek_v3", .norms = 2, .router_bias = 1},
    {.type = "gemma", .norms = 2, .tied = 1},
    {.type = "gemma2", .norms = 4, .tied = 1},
    {.type = "gemma3_text", .norms = 4, .tied = 1, .head_norms = 1},
};
static const config_trait other_trait = {.norms = 2};

/* ---- keys ---- */

/* The first of `names` (separated by blanks) that the map has and that is not null. */
static const sl_yaml *find_first(const sl_yaml *root, const char *names) {
    for (const char *at = names; *at;) {
        char name[64];
        size_t length = strcspn(at, " ");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        const sl_yaml *found = sl_yaml_find(root, name);
        if (found && !(found->kind == SL_YAML_SCALAR && !found->quoted && strcmp(found->text, "null") == 0))
            return found;
        at += length + strspn(at + length, " ");
    }
    return NULL;
}

/* A whole number from `least` on, or `otherwise` without one. */
static sl_status optional(const sl_yaml *root, const char *names, int least, int otherwise, int *value) {
    const sl_yaml *found = find_first(root, names);
    int64_t whole = otherwise;
    if (found)
        SL_TRY(sl_yaml_int(found, least, 100000000, &whole));
    *value = (int)whole;
    return SL_OK;
}

typedef struct config_reader {
    const sl_yaml *root;
    char missing[256];
} config_reader;

/* Missing ones are collected, for one error. */
static sl_status needed(config_reader *r, const char *names, int *value) {
    *value = 1;
    if (find_first(r->root, names))
        return optional(r->root, names, 1, 1, value);
    size_t used = strlen(r->missing), length = strcspn(names, " ");
    snprintf(r->missing + used, sizeof r->missing - used, "%s'%.*s'", used ? ", " : "", (int)length, names);
    return SL_OK;
}

/* Whether any of the keys is a number above 0, or true. */
static int is_on(const sl_yaml *root, const char *const *names) {
    for (; *names; names++) {
        const sl_yaml *found = sl_yaml_find(root, *names);
        double number;
        int yes;
        if (found && ((sl_yaml_real(found, 0, 1e9, &number) == SL_OK && number > 0) ||
                      (sl_yaml_bool(found, &yes) == SL_OK && yes)))
            return 1;
    }
    return 0;
}

static int flag(const sl_yaml *root, const char *name) {
    return is_on(root, (const char *const[]){name, NULL});
}

/* ---- parts ---- */

static sl_status read_mlp(config_reader *r, const config_trait *trait, sl_layer_sizes *b) {
    int four = b->width <= 25000000 ? 4 * b->width : b->width;
    if (trait->plain)
        return optional(r->root, "n_inner intermediate_size", 1, four, &b->hidden);
    return needed(r, "intermediate_size", &b->hidden);
}

/* Every layer after the first dense ones must have experts. */
static sl_status check_uniform(const sl_yaml *root) {
    int every;
    const sl_yaml *only = find_first(root, "mlp_only_layers"),
                  *found = find_first(root, "decoder_sparse_step moe_layer_freq");
    SL_TRY(optional(root, "decoder_sparse_step moe_layer_freq", 1, 1, &every));
    if (every != 1)
        return sl_yaml_error(found, "of %d is not known here: only some layers have experts", every);
    if (only && (only->kind != SL_YAML_LIST || only->children > 0))
        return sl_yaml_error(only, "is not known here, unless it is empty");
    return SL_OK;
}

static sl_status read_experts(config_reader *r, sl_transformer *t) {
    sl_layer_sizes *b = &t->block;
    const sl_yaml *root = r->root;
    int shared;
    SL_TRY(optional(root, "num_local_experts num_experts n_routed_experts", 0, 0, &b->experts));
    if (b->experts == 0)
        return SL_OK;
    SL_TRY(check_uniform(root));
    SL_TRY(needed(r, "num_experts_per_tok", &b->experts_per_token));
    SL_TRY(optional(root, "moe_intermediate_size", 1, b->hidden, &b->expert_hidden));
    SL_TRY(optional(root, "n_shared_experts", 0, 0, &b->shared_experts));
    SL_TRY(optional(root, "shared_expert_intermediate_size", 0, 0, &shared));
    SL_TRY(optional(root, "first_k_dense_replace", 0, 0, &t->dense_layers));
    if (shared % b->expert_hidden != 0)
        return sl_yaml_error(sl_yaml_find(root, "shared_expert_intermediate_size"),
                             "is not a multiple of 'moe_intermediate_size'");
    b->shared_experts += shared / b->expert_hidden;
    return SL_OK;
}

static sl_status read_attention(config_reader *r, sl_layer_sizes *b) {
    const sl_yaml *root = r->root;
    SL_TRY(needed(r, "num_attention_heads n_head", &b->heads));
    SL_TRY(optional(root, "num_key_value_heads", 1, b->heads, &b->kv_heads));
    SL_TRY(optional(root, "kv_lora_rank", 1, 0, &b->kv_rank));
    if (b->kv_rank == 0)
        return optional(root, "head_dim", 1, b->width % b->heads == 0 ? b->width / b->heads : 0,
                        &b->head_width);
    SL_TRY(optional(root, "q_lora_rank", 1, 0, &b->query_rank));
    SL_TRY(needed(r, "qk_nope_head_dim", &b->head_width));
    SL_TRY(needed(r, "qk_rope_head_dim", &b->rope_width));
    return needed(r, "v_head_dim", &b->value_width);
}

static void set_vectors(const sl_yaml *root, const config_trait *trait, sl_transformer *t) {
    const sl_layer_sizes *b = &t->block;
    double h = b->width, queries = (double)b->heads * b->head_width,
           keys = (double)b->kv_heads * b->head_width, width = trait->biased ? 2 * h : h;
    double norms = trait->norms * width + (trait->head_norms ? 2.0 * b->head_width : 0);
    if (b->kv_rank > 0)
        norms += b->query_rank + b->kv_rank;
    int all = trait->biased || flag(root, "attention_bias");
    double biases = b->kv_rank > 0    ? 0
                    : all             ? queries + 2 * keys + h
                    : trait->qkv_bias ? queries + 2 * keys
                                      : 0;
    double mlp = trait->biased ? b->hidden + h : flag(root, "mlp_bias") ? 2.0 * b->hidden + h : 0;
    t->dense_vectors = norms + biases + mlp;
    t->expert_vectors = norms + biases + (trait->shared_gate ? h : 0) + (trait->router_bias ? b->experts : 0);
    t->head_vectors = width;
}

/* ---- the file ---- */

int sl_model_config_is(const sl_yaml *root) {
    return sl_yaml_find(root, "model_type") || sl_yaml_find(root, "architectures");
}

static const config_trait *find_trait(const char *type) {
    for (size_t i = 0; i < sizeof traits / sizeof *traits; i++)
        if (strcmp(traits[i].type, type) == 0)
            return &traits[i];
    return NULL;
}

/* The type, or else the name of the first architecture. */
static const char *type_of(const sl_yaml *root) {
    const sl_yaml *type = sl_yaml_find(root, "model_type"), *list = sl_yaml_find(root, "architectures");
    if (type && type->kind == SL_YAML_SCALAR)
        return type->text;
    return list && list->kind == SL_YAML_LIST && list->children > 0 && list->child[0]->kind == SL_YAML_SCALAR
               ? list->child[0]->text
               : "";
}

static sl_status read_tied(const sl_yaml *root, int otherwise, int *tied) {
    const sl_yaml *found = find_first(root, "tie_word_embeddings");
    *tied = otherwise;
    return found ? sl_yaml_bool(found, tied) : SL_OK;
}

static sl_status refuse_missing(const config_reader *r, const char *type, int known) {
    const sl_yaml *at = sl_yaml_find(r->root, "model_type");
    return sl_yaml_error(at ? at : sl_yaml_find(r->root, "architectures"),
                         "is '%.60s', %s, and these keys are missing: %s; give its sizes in a model file",
                         type, known ? "a known type" : "a type that is not known", r->missing);
}

sl_status sl_model_config_read(const sl_yaml *root, sl_transformer *t, const char **name) {
    static const char *const masks[] = {"resid_pdrop", "attn_pdrop", "hidden_dropout", "attention_dropout",
                                        NULL};
    config_reader r = {.root = root};
    const char *type = type_of(root);
    const config_trait *known = find_trait(type), *trait = known ? known : &other_trait;
    sl_layer_sizes *b = &t->block;
    double eps;
    *t = (sl_transformer){.gpt2_names = strcmp(type, "gpt2") == 0};
    *name = type;
    if (!known && !find_first(root, "rms_norm_eps"))
        snprintf(r.missing, sizeof r.missing, "'rms_norm_eps'");
    else if (!known)
        SL_TRY(sl_yaml_real(find_first(root, "rms_norm_eps"), 0, 1, &eps));
    SL_TRY(needed(&r, "num_hidden_layers n_layer", &t->layers));
    SL_TRY(needed(&r, "hidden_size n_embd", &b->width));
    SL_TRY(needed(&r, "vocab_size", &b->vocabulary));
    SL_TRY(needed(&r, "max_position_embeddings n_positions n_ctx", &t->context));
    SL_TRY(read_attention(&r, b));
    SL_TRY(read_mlp(&r, trait, b));
    SL_TRY(read_experts(&r, t));
    if (r.missing[0])
        return refuse_missing(&r, type, known != NULL);
    if (t->layers > SL_MAX_MODEL_LAYERS)
        return sl_yaml_error(find_first(root, "num_hidden_layers n_layer"), "must be at most %d",
                             SL_MAX_MODEL_LAYERS);
    b->gated = !trait->plain;
    b->dropout = is_on(root, masks);
    t->positions = trait->plain ? t->context : 0;
    t->context = t->context < SL_MAX_CONFIG_CONTEXT ? t->context : SL_MAX_CONFIG_CONTEXT;
    SL_TRY(read_tied(root, trait->tied, &t->tied));
    SL_TRY(sl_transformer_check(root, t));
    set_vectors(root, trait, t);
    return SL_OK;
}
