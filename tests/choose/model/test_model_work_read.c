/* Readers of models: parameters of published models, by their published counts; what is refused, and where.
 */
#include "models.h"

#include "base/memory.h"

#define CONFIGS SL_SOURCE "/tests/choose/model/configs"

/* With `set` as by --set, and a batch. */
static void read_config(const char *name, const char *set, sl_model_work *model) {
    char path[600];
    sl_document document;
    snprintf(path, sizeof path, CONFIGS "/%s.json", name);
    assert_ok(sl_document_read(path, &document));
    assert_ok(sl_document_set(&document, "batch.sequences=1024"));
    if (set)
        assert_ok(sl_document_set(&document, set));
    assert_ok(sl_model_work_read(&document, path, model));
    sl_document_close(&document);
}

/* Counts of the weights as Hugging Face shows them, without the multi-token prediction of DeepSeek-V3. */
static void published_models_have_their_published_parameters(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double parameters;
        int layers;
    } is[] = {
        {"gpt2", 124439808, 12},
        {"llama-2-70b", 68976648192, 80},
        {"llama-3-70b", 70553706496, 80},
        {"mistral-7b", 7241732096, 32},
        {"mixtral-8x7b", 46702792704, 32},
        {"qwen2.5-72b", 72706203648, 80},
        {"qwen3-8b", 8190735360, 36},
        {"qwen3-235b-a22b", 235093634560, 94},
        {"deepseek-v2-lite", 15706484224, 27},
        {"deepseek-v2", 235741434880, 60},
        {"deepseek-v3", 671026419200, 61},
        {"gemma-7b", 8537680896, 28},
        {"gemma-2-27b", 27227128320, 46},
    };
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        sl_model_work model;
        read_config(is[i].name, NULL, &model);
        assert_near(sl_model_work_parameters(&model), is[i].parameters, 0.5);
        assert_int_equal(model.layers, is[i].layers + 2);
        sl_model_work_free(&model);
    }
}

/* Table 1 of Narayanan et al. 2021, in 1e9. */
static void gpts_have_the_parameters_of_the_papers_table(void **state) {
    (void)state;
    static const struct {
        double billions;
        int heads, width, layers;
    } row[] = {{1.7, 24, 2304, 24},      {3.6, 32, 3072, 30},     {7.5, 32, 4096, 36},
               {18.4, 48, 6144, 40},     {39.1, 64, 8192, 48},    {76.1, 80, 10240, 60},
               {145.6, 96, 12288, 80},   {310.1, 128, 16384, 96}, {529.6, 128, 20480, 105},
               {1008.0, 160, 25600, 128}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        sl_model_work model;
        make_gpt(row[i].layers, row[i].width, row[i].heads, 2048, 51200, &model);
        assert_near(sl_model_work_parameters(&model) / 1e9, row[i].billions, 0.051);
        sl_model_work_free(&model);
    }
}

/* GPT-3: 96 layers of 12 h^2 + 13 h, 50257 + 2048 rows of 12288, a last norm of 2 h. */
static void gpt_3_has_175_billion_parameters(void **state) {
    (void)state;
    sl_model_work model;
    make_gpt(96, 12288, 96, 2048, 50257, &model);
    assert_near(sl_model_work_parameters(&model), 174604259328.0, 0.5);
    sl_model_work_free(&model);
}

static void layers_have_the_names_of_their_modules(void **state) {
    (void)state;
    sl_model_work model;
    read_config("deepseek-v3", NULL, &model);
    assert_string_equal(model.layer[0].name, "model.embed_tokens");
    assert_string_equal(model.layer[1].name, "model.layers.0");
    assert_string_equal(model.layer[61].name, "model.layers.60");
    assert_string_equal(model.layer[62].name, "lm_head");
    assert_int_equal(model.kind[model.layer[3].kind].experts, 0);
    assert_int_equal(model.kind[model.layer[4].kind].experts, 256); /* after the first three */
    assert_string_equal(model.name, "deepseek_v3");
    sl_model_work_free(&model);
    read_config("gpt2", NULL, &model);
    assert_string_equal(model.layer[0].name, "transformer.wte");
    assert_string_equal(model.layer[12].name, "transformer.h.11");
    sl_model_work_free(&model);
}

static void a_config_takes_keys_of_the_model_file_from_the_command_line(void **state) {
    (void)state;
    sl_model_work model;
    read_config("llama-3-70b", NULL, &model);
    assert_int_equal(model.context, 8192);
    assert_int_equal(model.sequences, 1024);
    assert_true(model.flash);
    assert_near(model.optimizer_bytes, 12, 0);
    sl_model_work_free(&model);
    read_config("qwen2.5-72b", NULL, &model);
    assert_int_equal(model.context, 8192); /* of 131072: the cap */
    sl_model_work_free(&model);
    read_config("qwen2.5-72b", "model.context=32768", &model);
    assert_int_equal(model.context, 32768);
    sl_model_work_free(&model);
    read_config("gpt2", "attention=full", &model);
    assert_false(model.flash);
    assert_true(model.kind[1].dropout);
    sl_model_work_free(&model);
}

static void a_model_file_may_name_a_config(void **state) {
    (void)state;
    sl_model_work model;
    assert_ok(
        read_model("name: mine\nmodel: {config: mistral-7b.json, context: 4096}\nbatch: {sequences: 256}\n"
                   "precision: {activations: 1, weights: 1, gradients: 2, optimizer: 8}\n",
                   CONFIGS "/model.yaml", &model));
    assert_string_equal(model.name, "mine");
    assert_int_equal(model.context, 4096);
    assert_near(sl_model_work_parameters(&model), 7241732096.0, 0.5);
    assert_near(model.activation_bytes + model.weight_bytes + model.gradient_bytes + model.optimizer_bytes,
                12, 0);
    sl_model_work_free(&model);
}

static void measured_layers_are_repeated_and_numbered(void **state) {
    (void)state;
    sl_model_work model;
    make_model("layers:\n"
               "  - {name: embed, times_ms: {F: 1, I: 0, W: 1}, output_mb: 8, parameters_m: 100}\n"
               "  - {name: block, repeat: 2, times_ms: {F: 2, I: 3, W: 4}, activations_mb: 50, input_mb: 8}\n"
               "  - {name: block, times_ms: {F: 5, I: 6, W: 7}, activations_mb: 50, kept_for_w_mb: 20}\n"
               "measured: {tensor: 2, size: 4}\nscaling: ideal\nbatch: {sequences: 64}\n",
               &model);
    const char *const names[] = {"embed", "block.0", "block.1", "block.2"};
    assert_int_equal(model.layers, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(model.layer[i].name, names[i]);
    assert_int_equal(model.kinds, 3);
    assert_near(model.kind[1].kept_for_w, 50e6, 0); /* the default */
    assert_near(model.kind[2].kept_for_w, 20e6, 0);
    assert_true(model.scales);
    assert_near(sl_model_work_parameters(&model), 100e6, 0);
    assert_string_equal(model.name, "model");
    sl_model_work_free(&model);
}

#define SIZES "layers: 2, width: 8, heads: 2, vocabulary: 10, context: 16"

static void wrong_files_are_refused_with_line_and_key(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"model: {" SIZES "}\n", "model.yaml:1: 'batch.sequences' is missing"},
        {"batch: {sequences: 4}\n", "'model' is missing"},
        {"batch: {sequences: 0}\nmodel: {" SIZES "}\n", "model.yaml:1: 'sequences' 0"},
        {"batch: {sequences: 4}\nmodel:\n  layers: 2\n  width: 8\n", "'heads' is missing in 'model'"},
        {"batch: {sequences: 4}\nmodel: {" SIZES "}\nprecison: {}\n", "model.yaml:3: 'precison' 'precision'"},
        {"batch: {sequences: 4}\nmodel: {" SIZES ", kv_heads: 3}\n", "model.yaml:2: 'model' 2 heads 3"},
        {"batch: {sequences: 4}\nmodel: {" SIZES ", experts: 4}\n", "model.yaml:2: 0 experts per token of 4"},
        {"batch: {sequences: 4}\nmodel: {" SIZES ", shared_experts: 1}\n", "but no experts"},
        {"batch: {sequences: 4}\nmodel: {" SIZES ", dense_layers: 3, experts: 4, experts_per_token: 2}\n",
         "3 dense layers of 2"},
        {"batch: {sequences: 4}\nmodel: {layers: 2, width: 9, heads: 2, vocabulary: 10, context: 16}\n",
         "width of 9 2 heads"},
        {"batch: {sequences: 4}\nmodel: {" SIZES ", value_width: 4}\n", "latent attention"},
        {"batch: {sequences: 4}\nmodel: {" SIZES "}\nattention: fast\n",
         "model.yaml:3: 'attention' flash full"},
        {"batch: {sequences: 4}\nmodel: {" SIZES "}\nscaling: ideal\n", "model.yaml:3: 'scaling' 'layers'"},
        {"batch: {sequences: 4}\nmodel: {config: a.json, layers: 3}\n", "model.yaml:2: 'layers' 'config'"},
        {"batch: {sequences: 4}\nmodel: {config: /nowhere/a.json}\n", "/nowhere/a.json"},
        {"batch: {sequences: 4}\nlayers: []\n", "model.yaml:2: 'layers' 10000"},
        {"batch: {sequences: 4}\nlayers: [{name: a, times_ms: {F: 1, I: 1}}]\n",
         "'W' is missing in 'times_ms'"},
        {"batch: {sequences: 4}\nlayers: [{name: a, repeat: 9999, times_ms: {F: 1, I: 1, W: 1}},\n"
         "  {name: b, repeat: 2, times_ms: {F: 1, I: 1, W: 1}}]\n",
         "more than 10000 layers"},
        {"links: {default: {bandwidth_gbps: 1}}\n", "model.yaml:1: 'links' cluster file model file"},
        {"pipeline: {ranks: 2}\n", "model.yaml:1: 'pipeline' problem file model file"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sl_model_work model;
        assert_fails(read_model(wrong[i].text, "model.yaml", &model), SL_EINVAL, wrong[i].says);
        sl_model_work_free(&model);
    }
}

#define BASE                                                                                                 \
    "\"hidden_size\": 8, \"vocab_size\": 10, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "         \
    "\"intermediate_size\": 32, \"max_position_embeddings\": 16, batch: {sequences: 1}"

static void wrong_configs_are_refused_with_what_is_missing(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"{\"model_type\": \"mamba\", \"hidden_size\": 8, \"vocab_size\": 9, \"num_hidden_layers\": 2, "
         "batch: {sequences: 1}}",
         "config.json:1: 'model_type' mamba 'rms_norm_eps' 'max_position_embeddings' 'num_attention_heads' "
         "'intermediate_size'"},
        {"{\"model_type\": \"bert\", " BASE "}", "bert not known 'rms_norm_eps'"},
        {"{\"architectures\": [\"T5ForConditionalGeneration\"], \"vocab_size\": 9, batch: {sequences: 1}}",
         "config.json:1: 'architectures' T5ForConditionalGeneration 'num_hidden_layers' 'hidden_size'"},
        {"{\"model_type\": \"llama\", " BASE ", \"num_key_value_heads\": 3}", "2 heads 3"},
        {"{\"model_type\": \"llama\", " BASE ", \"head_dim\": \"x\"}", "config.json:1: 'head_dim' x"},
        {"{\"model_type\": \"qwen3_moe\", " BASE ", \"num_experts\": 4, \"num_experts_per_tok\": 2, "
         "\"decoder_sparse_step\": 2}",
         "'decoder_sparse_step' 2"},
        {"{\"model_type\": \"qwen3_moe\", " BASE ", \"num_experts\": 4, \"num_experts_per_tok\": 2, "
         "\"mlp_only_layers\": [1]}",
         "'mlp_only_layers'"},
        {"{\"model_type\": \"mixtral\", " BASE ", \"num_local_experts\": 4}", "'num_experts_per_tok'"},
        {"{\"model_type\": \"deepseek_v3\", " BASE ", \"kv_lora_rank\": 4}",
         "'qk_nope_head_dim' 'qk_rope_head_dim' 'v_head_dim'"},
        {"{\"model_type\": \"llama\", \"hidden_size\": 8}", "'batch.sequences' is missing --set"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sl_model_work model;
        assert_fails(read_model(wrong[i].text, "config.json", &model), SL_EINVAL, wrong[i].says);
        sl_model_work_free(&model);
    }
}

/* A type that is not listed, with Llama's keys. */
static void an_unknown_type_with_the_keys_of_llama_is_read_as_llama(void **state) {
    (void)state;
    sl_model_work model;
    assert_ok(
        read_model("{\"model_type\": \"new\", \"rms_norm_eps\": 1e-6, " BASE "}", "config.json", &model));
    /* two blocks of 4 * 64 + 3 * 8 * 32 + 16, the last norm of 8, twice 80 */
    assert_near(sl_model_work_parameters(&model), 2 * (256 + 768 + 16) + 8 + 160, 0);
    sl_model_work_free(&model);
}

static void no_memory_is_an_error_everywhere(void **state) {
    (void)state;
    const char *const texts[] = {
        "name: a\nmodel: {" SIZES
        ", experts: 4, experts_per_token: 2, dense_layers: 1}\nbatch: {sequences: 4}\n",
        "layers: [{name: a, repeat: 3, times_ms: {F: 1, I: 1, W: 1}}]\nbatch: {sequences: 4}\n",
        "{\"model_type\": \"llama\", " BASE "}"};
    for (int i = 0; i < 3; i++) {
        sl_document document;
        sl_status status = SL_ENOMEM;
        assert_ok(sl_document_parse("text", texts[i], &document));
        for (long n = 0; status != SL_OK; n++) {
            sl_model_work model;
            sl_alloc_fail_at(n);
            status = sl_model_work_read(&document, "text", &model);
            sl_alloc_fail_at(-1);
            assert_true(status == SL_OK || status == SL_ENOMEM);
            sl_model_work_free(&model);
            assert_true(n < 1000);
        }
        sl_document_close(&document);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_models_have_their_published_parameters),
        cmocka_unit_test(gpts_have_the_parameters_of_the_papers_table),
        cmocka_unit_test(gpt_3_has_175_billion_parameters),
        cmocka_unit_test(layers_have_the_names_of_their_modules),
        cmocka_unit_test(a_config_takes_keys_of_the_model_file_from_the_command_line),
        cmocka_unit_test(a_model_file_may_name_a_config),
        cmocka_unit_test(measured_layers_are_repeated_and_numbered),
        cmocka_unit_test(wrong_files_are_refused_with_line_and_key),
        cmocka_unit_test(wrong_configs_are_refused_with_what_is_missing),
        cmocka_unit_test(an_unknown_type_with_the_keys_of_llama_is_read_as_llama),
        cmocka_unit_test(no_memory_is_an_error_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
