/* Volumes. For a microbatch of b sequences of n tokens, width h, k bytes per number: b n h k bytes in an
 * activation, and in a sum of tensor ranks, of which each layer makes two in F and two in I (the attention's
 * and the MLP's outgoing products, and the gradients of their inputs). Parameters: 12 h^2 + 5 h per layer, v
 * h + n h in the first stage, v h in the last of several (the output's gradients, tied or not). Layers are
 * divided evenly; the first stages get one more. */
#include "adapt/topology/topology_volume.h"
#include "plan/pipeline/problem_read.h"

#include <stddef.h>

typedef struct model {
    int layers, width, context, vocabulary, bytes;
} model;

typedef struct volumes {
    double activation_mb, tensor_mb;
} volumes;

#define MODEL(field) offsetof(model, field)
/* clang-format off */
const sl_key sl_volume_model_keys[] = {
    {.name = "layers", .type = SL_KEY_INT, .required = 1, .offset = MODEL(layers), .minimum = 1, .maximum = 100000, .help = "divided evenly over the stages, the first ones get one more"},
    {.name = "width", .type = SL_KEY_INT, .required = 1, .offset = MODEL(width), .minimum = 1, .maximum = 10000000, .help = "hidden size h"},
    {.name = "context", .type = SL_KEY_INT, .required = 1, .offset = MODEL(context), .minimum = 1, .maximum = 100000000, .help = "tokens of a sequence"},
    {.name = "vocabulary", .type = SL_KEY_INT, .standard = "0", .offset = MODEL(vocabulary), .minimum = 0, .maximum = 100000000, .help = "entries: gradients of the first and the last stage"},
    {.name = "bytes", .type = SL_KEY_INT, .standard = "2", .offset = MODEL(bytes), .minimum = 1, .maximum = 8, .help = "of an activation or gradient: 2 (bf16), 4 (f32)"},
    {0}};
static const sl_key sums_keys[] = {
    {.name = "F", .type = SL_KEY_CUSTOM, .help = "sums of a microbatch in F, a number or one per stage; default 0"},
    {.name = "I", .type = SL_KEY_CUSTOM, .help = "and in I (or B)"},
    {0}};
const sl_key sl_volume_keys[] = {
    {.name = "activation_mb", .type = SL_KEY_REAL, .standard = "0", .offset = offsetof(volumes, activation_mb), .minimum = 0, .maximum = 1e9, .help = "a message of a microbatch between two stages, per tensor rank and direction, 1e6 bytes"},
    {.name = "gradient_mb", .type = SL_KEY_CUSTOM, .help = "gradients of a rank, 1e6 bytes; a number or one per stage; default 0"},
    {.name = "tensor_mb", .type = SL_KEY_REAL, .standard = "0", .offset = offsetof(volumes, tensor_mb), .minimum = 0, .maximum = 1e9, .help = "a sum over tensor ranks, 1e6 bytes"},
    {.name = "tensor_sums", .type = SL_KEY_CUSTOM, .section = sums_keys, .help = "how many sums over tensor ranks a microbatch needs"},
    {0}};
/* clang-format on */

static sl_status read_model(const sl_yaml *map, int size, sl_cluster *c) {
    model m = {0};
    SL_TRY(sl_config_read(map, "model", sl_volume_model_keys, &m));
    if (m.layers < c->pipeline)
        return sl_yaml_error(map, "has %d layers for %d stages", m.layers, c->pipeline);
    double h = m.width, k = m.bytes, v = m.vocabulary;
    c->activation = c->sum = (double)size * m.context * h * k;
    for (int p = 0; p < c->pipeline; p++) {
        int layers = m.layers / c->pipeline + (p < m.layers % c->pipeline);
        double parameters = layers * (12 * h * h + 5 * h);
        parameters += p == 0 ? v * h + m.context * h : 0;
        parameters += p > 0 && p == c->pipeline - 1 ? v * h : 0;
        c->gradient[p] = parameters * k / c->tensor;
        c->sums[0][p] = c->sums[1][p] = 2 * layers;
    }
    return SL_OK;
}

static sl_status read_volumes(const sl_yaml *map, sl_cluster *c) {
    static const sl_number_range mb = {.least = 0, .most = 1e9}, times = {.least = 0, .most = 1e6};
    volumes v = {0};
    SL_TRY(sl_config_read(map, "volumes", sl_volume_keys, &v));
    c->activation = v.activation_mb * 1e6;
    c->sum = v.tensor_mb * 1e6;
    const sl_yaml *gradient = sl_yaml_find(map, "gradient_mb"), *sums = sl_yaml_find(map, "tensor_sums");
    if (gradient)
        SL_TRY(sl_read_numbers(gradient, c->pipeline, "stage", &mb, c->gradient));
    for (int p = 0; p < c->pipeline; p++)
        c->gradient[p] *= 1e6;
    if (!sums)
        return SL_OK;
    SL_TRY(sl_check_keys(sums, sums_keys));
    for (int i = 0; i < 2; i++) {
        const sl_yaml *node = sl_yaml_find(sums, i ? "I" : "F");
        if (node)
            SL_TRY(sl_read_numbers(node, c->pipeline, "stage", &times, c->sums[i]));
    }
    return SL_OK;
}

sl_status sl_volume_read(const sl_yaml *root, int size, sl_cluster *c) {
    const sl_yaml *from = sl_yaml_find(root, "model"), *volumes_node = sl_yaml_find(root, "volumes");
    if (from && volumes_node)
        return sl_yaml_error(volumes_node, "is given with 'model'; give one of them");
    if (!from && !volumes_node)
        return sl_error(SL_EINVAL, "%s:%d: 'model' is missing in 'cluster' (or 'volumes'): what is sent",
                        root->file, root->line);
    return from ? read_model(from, size, c) : read_volumes(volumes_node, c);
}

double sl_volume_pipeline(const sl_cluster *c) {
    return c->pipeline > 1 ? 2.0 * c->microbatches * c->activation : 0;
}

double sl_volume_data(const sl_cluster *c, int stage) {
    return 2.0 * (c->data - 1) / c->data * c->gradient[stage];
}

double sl_volume_tensor(const sl_cluster *c, int stage) {
    return c->microbatches * (c->sums[0][stage] + c->sums[1][stage]) * 2.0 * (c->tensor - 1) / c->tensor *
           c->sum;
}
