/* The model file: a transformer, the config.json of one, or measured layers; and what holds for all. */
#include "base/memory.h"
#include "choose/model/model_work_inside.h"
#include "plan/pipeline/kind.h"
#include "plan/pipeline/problem_read.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct model_request {
    char *name, *config;
    int attention, scaling, context;
    int64_t sequences;
    double activations, weights, gradients, optimizer;
} model_request;

static const char *const attentions[] = {"flash", "full", NULL};
static const char *const scalings[] = {"none", "ideal", NULL};

#define REQUEST(field) offsetof(model_request, field)
/* clang-format off */
static const sl_key batch_keys[] = {
    {.name = "sequences", .type = SL_KEY_INT64, .required = 1, .offset = REQUEST(sequences), .minimum = 1, .maximum = 1e12, .help = "of an iteration, over all replicas"},
    {0}};
static const sl_key precision_keys[] = {
    {.name = "activations", .type = SL_KEY_REAL, .standard = "2", .offset = REQUEST(activations), .minimum = 0.5, .maximum = 8, .help = "bytes of a number: 2 (bf16), 4 (f32)"},
    {.name = "weights", .type = SL_KEY_REAL, .standard = "2", .offset = REQUEST(weights), .minimum = 0.5, .maximum = 8, .help = "bytes of a parameter"},
    {.name = "gradients", .type = SL_KEY_REAL, .standard = "4", .offset = REQUEST(gradients), .minimum = 0.5, .maximum = 8, .help = "bytes of its gradient"},
    {.name = "optimizer", .type = SL_KEY_REAL, .standard = "12", .offset = REQUEST(optimizer), .minimum = 0, .maximum = 64, .help = "bytes of its state: 12 for an f32 copy and AdamW's two averages"},
    {0}};
static const sl_key config_keys[] = {
    {.name = "config", .type = SL_KEY_TEXT, .offset = REQUEST(config), .help = "instead of the sizes: a Hugging Face config.json, relative to this file"},
    {.name = "context", .type = SL_KEY_INT, .offset = REQUEST(context), .minimum = 1, .maximum = 1e8, .help = "tokens of a sequence; default with config: max_position_embeddings, at most 8192"},
    {0}};
static const sl_key model_file_keys[] = {
    {.name = "name", .type = SL_KEY_TEXT, .offset = REQUEST(name), .help = "default: that of the file, or the type of a config.json"},
    {.name = "model", .type = SL_KEY_CUSTOM, .section = sl_transformer_keys, .help = "a transformer: its sizes, or `config`"},
    {.name = "layers", .type = SL_KEY_CUSTOM, .is_list = 1, .section = sl_measured_layer_keys, .help = "instead of model: measured layers, in order"},
    {.name = "measured", .type = SL_KEY_CUSTOM, .section = sl_measured_keys, .help = "how the layers were measured"},
    {.name = "scaling", .type = SL_KEY_CHOICE, .standard = "none", .choices = scalings, .offset = REQUEST(scaling), .help = "other numbers of tensor ranks than measured: none are possible, or times and activations divide"},
    {.name = "batch", .type = SL_KEY_CUSTOM, .section = batch_keys},
    {.name = "precision", .type = SL_KEY_CUSTOM, .section = precision_keys},
    {.name = "attention", .type = SL_KEY_CHOICE, .standard = "flash", .choices = attentions, .offset = REQUEST(attention), .help = "without a matrix of context x context, or with it"},
    {0}};
/* clang-format on */

void sl_model_work_visit_keys(sl_key_visit visit, void *context) {
    sl_config_visit(model_file_keys, "", visit, context);
    visit("model.", &config_keys[0], context);
}

static void free_request(model_request *r) {
    SL_FREE(r->name, r->config);
}

/* Also of a config.json, where --set may have added these keys. */
static sl_status read_common(const sl_yaml *root, model_request *r) {
    const sl_yaml *batch = sl_yaml_find(root, "batch");
    if (!batch)
        return sl_error(SL_EINVAL,
                        "%s:%d: 'batch.sequences' is missing: the sequences of an iteration, over all "
                        "replicas (--set batch.sequences=1024)",
                        root->file, root->line);
    SL_TRY(sl_config_read(batch, "batch", batch_keys, r));
    return sl_config_read(sl_yaml_find(root, "precision"), "precision", precision_keys, r);
}

static sl_status take_name(const model_request *r, const char *otherwise, sl_model_work *model) {
    return sl_copy_text(&model->name, r->name ? r->name : otherwise);
}

/* Base of the path, without its ending. */
static sl_status name_by_file(const model_request *r, const char *path, sl_model_work *model) {
    char name[256];
    const char *slash = path ? strrchr(path, '/') : NULL, *base = slash ? slash + 1 : path ? path : "model";
    snprintf(name, sizeof name, "%s", base);
    char *dot = strrchr(name, '.');
    if (dot && dot > name)
        *dot = 0;
    return take_name(r, strcmp(base, "-") == 0 ? "model" : name, model);
}

/* ---- a config.json ---- */

static sl_status take_config(const sl_yaml *root, const model_request *r, sl_model_work *model) {
    sl_transformer transformer;
    const char *type;
    SL_TRY(sl_model_config_read(root, &transformer, &type));
    if (r->context > 0)
        transformer.context = r->context;
    SL_TRY(take_name(r, type[0] ? type : "model", model));
    return sl_transformer_layers(&transformer, model);
}

/* The document is the config itself: of our keys, the ones that --set has added. */
static sl_status read_config_root(const sl_yaml *root, model_request *r, sl_model_work *model) {
    const sl_yaml *own = sl_yaml_find(root, "model");
    for (const sl_key *key = model_file_keys; key->name; key++) {
        const sl_yaml *child = sl_yaml_find(root, key->name);
        if (child && (key->type == SL_KEY_TEXT || key->type == SL_KEY_CHOICE))
            SL_TRY(sl_config_read_value(child, key, r));
    }
    SL_TRY(read_common(root, r));
    if (own)
        SL_TRY(sl_config_read(own, "model", config_keys, r));
    return take_config(root, r, model);
}

/* A path relative to the folder of the model file. Free with sl_free. */
static sl_status join(const char *path, const char *config, char **joined) {
    const char *slash = path ? strrchr(path, '/') : NULL;
    int folder = slash ? (int)(slash - path) + 1 : 0;
    size_t size = (size_t)folder + strlen(config) + 3;
    if (config[0] == '/')
        return sl_copy_text(joined, config);
    SL_TRY(sl_alloc(joined, size, 1));
    snprintf(*joined, size, "%.*s%s", folder ? folder : 2, folder ? path : "./", config);
    return SL_OK;
}

static sl_status read_config_file(const sl_yaml *map, const char *path, model_request *r,
                                  sl_model_work *model) {
    sl_document document = {0};
    char *joined;
    for (int i = 0; i < map->children; i++)
        if (strcmp(map->child[i]->key, "config") != 0 && strcmp(map->child[i]->key, "context") != 0)
            return sl_yaml_error(map->child[i], "is given by 'config'; only 'context' may replace its value");
    SL_TRY(sl_config_read(map, "model", config_keys, r));
    SL_TRY(join(path, r->config, &joined));
    sl_status status = sl_document_read(joined, &document);
    sl_free(joined);
    if (status == SL_OK && !sl_model_config_is(document.root))
        status = sl_yaml_error(sl_yaml_find(map, "config"),
                               "names '%.100s', which has neither model_type nor architectures", r->config);
    SL_THEN(status, take_config(document.root, r, model));
    sl_document_close(&document);
    return status;
}

/* ---- a model file ---- */

static sl_status read_sizes(const sl_yaml *map, const char *path, model_request *r, sl_model_work *model) {
    sl_transformer transformer;
    if (sl_yaml_find(map, "config"))
        return read_config_file(map, path, r, model);
    SL_TRY(sl_transformer_read(map, &transformer));
    SL_TRY(name_by_file(r, path, model));
    return sl_transformer_layers(&transformer, model);
}

static sl_status refuse_with_model(const sl_yaml *root, const char *key) {
    const sl_yaml *found = sl_yaml_find(root, key);
    return found ? sl_yaml_error(found, "is for measured 'layers', and not with 'model'") : SL_OK;
}

static sl_status read_file(const sl_yaml *root, const char *path, model_request *r, sl_model_work *model) {
    const sl_yaml *sizes = sl_yaml_find(root, "model"), *layers = sl_yaml_find(root, "layers");
    SL_TRY(sl_file_kind_check(root, SL_FILE_MODEL));
    SL_TRY(sl_config_read(root, "model file", model_file_keys, r));
    SL_TRY(read_common(root, r));
    if (!sizes && !layers)
        return sl_error(SL_EINVAL,
                        "%s:%d: 'model' is missing (or 'layers', with measured times, or a config.json)",
                        root->file, root->line);
    if (sizes) {
        SL_TRY(refuse_with_model(root, "layers"));
        SL_TRY(refuse_with_model(root, "measured"));
        SL_TRY(refuse_with_model(root, "scaling"));
        return read_sizes(sizes, path, r, model);
    }
    SL_TRY(name_by_file(r, path, model));
    model->scales = r->scaling;
    return sl_measured_layers_read(layers, sl_yaml_find(root, "measured"), model);
}

sl_status sl_model_work_read(const sl_document *document, const char *path, sl_model_work *model) {
    model_request r = {0};
    const sl_yaml *root = document->root;
    *model = (sl_model_work){0};
    sl_status status =
        sl_model_config_is(root) ? read_config_root(root, &r, model) : read_file(root, path, &r, model);
    model->sequences = r.sequences;
    model->activation_bytes = r.activations;
    model->weight_bytes = r.weights;
    model->gradient_bytes = r.gradients;
    model->optimizer_bytes = r.optimizer;
    model->flash = r.attention == 0;
    free_request(&r);
    return status;
}

void sl_model_work_free(sl_model_work *model) {
    for (int i = 0; i < model->layers; i++)
        sl_free(model->layer[i].name);
    SL_FREE(model->name, model->layer, model->kind);
    *model = (sl_model_work){0};
}
