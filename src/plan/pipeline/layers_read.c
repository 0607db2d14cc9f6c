/* `layers:`: costs of layers, from which the planner cuts the stages. */
#include "base/memory.h"
#include "plan/pipeline/layer_layout.h"
#include "plan/pipeline/layers.h"
#include "plan/pipeline/problem_read.h"

#include <stddef.h>

typedef struct layers_request {
    int count;
    char *layout;
} layers_request;

static const sl_number_range bytes = {.least = 0, .most = SL_MAX_MEMORY},
                             op_ms = {.least = 0, .most = SL_MAX_OP_MS};

/* clang-format off */
const sl_key sl_layers_keys[] = {
    {.name = "count", .type = SL_KEY_INT, .offset = offsetof(layers_request, count), .minimum = 1, .maximum = 65536, .help = "layers; every stage gets at least one; default: the layout's"},
    {.name = "layout", .type = SL_KEY_TEXT, .offset = offsetof(layers_request, layout), .help = "the cut, as Megatron-LM's --pipeline-model-parallel-layout has it: each letter is a layer, and plans choose no other cut"},
    {.name = "cut", .type = SL_KEY_CUSTOM, .help = "list of layers of each stage, at least 1 each, that sums to count (bidirectional: of the first pipeline); plans may choose another; default: even"},
    {.name = "recomputed", .type = SL_KEY_CUSTOM, .help = "list of true and false per stage, with recompute: auto: what recomputes in this cut; plans may choose otherwise; default: none"},
    {.name = "times_ms", .type = SL_KEY_CUSTOM, .required = 1, .section = sl_time_keys, .help = "as times_ms of the pipeline, but a number or one per layer; no FB"},
    {.name = "delta", .type = SL_KEY_CUSTOM, .section = sl_delta_keys, .help = "as memory.delta, but a number or one per layer; I_start: in a stage, the largest of its layers counts; input: what F keeps of a layer of a stage that recomputes"},
    {.name = "weights", .type = SL_KEY_CUSTOM, .help = "memory that a layer takes all the time, part of memory.limit and of the peak; a number or one per layer; default 0"},
    {.name = "reduce_ms", .type = SL_KEY_CUSTOM, .help = "a layer's share of the reduction of its stage, ms, in place of data_parallel; a number or one per layer"},
    {.name = "gather_ms", .type = SL_KEY_CUSTOM, .help = "its share of the gather of its stage, ms; a number or one per layer"},
    {.name = "speed", .type = SL_KEY_CUSTOM, .help = "of each rank: 2 halves the times; a number or one per rank; default 1"},
    {0}};
/* clang-format on */

static sl_status refuse_key(const sl_yaml *map, const char *key) {
    const sl_yaml *node = map ? sl_yaml_find(map, key) : NULL;
    return node ? sl_yaml_error(node, "is not available for layers") : SL_OK;
}

static sl_status read_bytes(const sl_yaml *node, int count, double *values) {
    return node ? sl_read_numbers(node, count, "layer", &bytes, values) : SL_OK;
}

static sl_status read_costs(const sl_yaml *map, sl_layers *l, int ranks) {
    const sl_yaml *times = sl_yaml_find(map, "times_ms"), *delta = sl_yaml_find(map, "delta"),
                  *weights = sl_yaml_find(map, "weights"), *speed = sl_yaml_find(map, "speed"),
                  *reduce = sl_yaml_find(map, "reduce_ms"), *gather = sl_yaml_find(map, "gather_ms");
    SL_TRY(sl_check_keys(times, sl_time_keys));
    SL_TRY(refuse_key(times, "FB"));
    SL_TRY(sl_read_op_times(times, l->count, "layer", l->time));
    if (delta) {
        SL_TRY(sl_check_keys(delta, sl_delta_keys));
        SL_TRY(sl_read_deltas(delta, l->count, "layer", l->delta));
        SL_TRY(read_bytes(sl_yaml_find(delta, "input"), l->count, l->input));
        SL_TRY(read_bytes(sl_yaml_find(delta, "I_start"), l->count, l->early));
    }
    SL_TRY(read_bytes(weights, l->count, l->weights));
    if (reduce || gather)
        SL_TRY(sl_layers_add_collectives(l));
    if (reduce)
        SL_TRY(sl_read_times(reduce, l->count, "layer", &op_ms, l->reduce));
    if (gather)
        SL_TRY(sl_read_times(gather, l->count, "layer", &op_ms, l->gather));
    if (speed)
        SL_TRY(
            sl_read_numbers(speed, ranks, "rank", &(sl_number_range){.least = 1e-3, .most = 1e3}, l->speed));
    return SL_OK;
}

/* A stage's times must not exceed SL_MAX_OP_MS for any cut of the layers. */
static sl_status check_sums(const sl_yaml *map, const sl_layers *l, int ranks) {
    double slowest = 1;
    for (int rank = 0; rank < ranks; rank++)
        slowest = 1 / l->speed[rank] > slowest ? 1 / l->speed[rank] : slowest;
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        double sum = 0;
        for (int layer = 0; layer < l->count; layer++)
            sum += sl_to_ms(l->time[kind][layer]) * slowest;
        if (sum > (kind == SL_B ? 2 : 1) * SL_MAX_OP_MS)
            return sl_yaml_error(map, "%s of all layers takes %g ms; at most %g", sl_op_name(kind), sum,
                                 SL_MAX_OP_MS);
    }
    return SL_OK;
}

/* The layout's cut, whose letters replace the count. */
static sl_status take_layout(const sl_yaml *map, const sl_layer_layout *layout, int stages, int *count) {
    const sl_yaml *node = sl_yaml_find(map, "layout");
    if (layout->stages != stages)
        return sl_yaml_error(node, "has %d stages, but the pipeline has %d", layout->stages, stages);
    if (*count && *count != layout->layers)
        return sl_yaml_error(node, "has %d layers, but 'count' is %d", layout->layers, *count);
    *count = layout->layers;
    return SL_OK;
}

static sl_status read_layout(const sl_yaml *map, const char *text, int stages, int *count,
                             sl_layer_layout *layout) {
    if (!text)
        return *count ? SL_OK
                      : sl_error(SL_EINVAL, "%s:%d: 'count' is missing in 'layers'", map->file, map->line);
    if (sl_layer_layout_parse(text, layout) != SL_OK) {
        char why[128];
        snprintf(why, sizeof why, "%s", sl_error_text());
        return sl_yaml_error(sl_yaml_find(map, "layout"), "is wrong: %s", why);
    }
    return take_layout(map, layout, stages, count);
}

/* The present cut: even if the file has none. */
static sl_status read_cut(const sl_yaml *map, const sl_layer_layout *layout, int stages, sl_layers *l) {
    const sl_yaml *node = sl_yaml_find(map, "cut");
    int64_t layers, sum = 0;
    for (int stage = 0; stage <= stages; stage++)
        l->first[stage] = layout->first ? layout->first[stage] : (int)((int64_t)l->count * stage / stages);
    if (!node)
        return SL_OK;
    if (layout->first)
        return sl_yaml_error(node, "is given by 'layout'; give one of them");
    if (node->kind != SL_YAML_LIST || node->children != stages)
        return sl_yaml_error(node, "must be a list of %d, one per stage", stages);
    for (int stage = 0; stage < stages; stage++) {
        if (sl_yaml_int(node->child[stage], 1, l->count, &layers) != SL_OK)
            return sl_yaml_error(node, "must hold whole numbers from 1 to %d (stage %d)", l->count, stage);
        l->first[stage] = (int)sum;
        sum += layers;
    }
    return sum == l->count
               ? SL_OK
               : sl_yaml_error(node, "has %lld layers in all, but 'count' is %d", (long long)sum, l->count);
}

static sl_status read_layers(const sl_yaml *map, int count, sl_layer_layout *layout, sl_problem *p) {
    int stages = p->placement == SL_BIDIRECTIONAL ? p->ranks : p->stages;
    if (count < stages)
        return sl_yaml_error(sl_yaml_find(map, "count"), "must be at least the number of stages, %d, got %d",
                             stages, count);
    SL_TRY(sl_layers_make(count, p->ranks, p->stages, &p->layers));
    SL_TRY(sl_alloc(&p->fixed, (size_t)p->ranks, sizeof *p->fixed));
    sl_layers *l = p->layers;
    for (int layer = 0; layer < l->count; layer++) {
        l->delta[SL_F][layer] = 1;
        l->delta[SL_W][layer] = l->delta[SL_B][layer] = -1;
    }
    SL_TRY(read_costs(map, l, p->ranks));
    SL_TRY(check_sums(map, l, p->ranks));
    SL_TRY(read_cut(map, layout, stages, l));
    l->letter = layout->letter;
    layout->letter = NULL;
    return SL_OK;
}

sl_status sl_read_layers(const sl_yaml *map, sl_problem *p) {
    layers_request request = {0};
    sl_layer_layout layout = {0};
    int stages = p->placement == SL_BIDIRECTIONAL ? p->ranks : p->stages;
    sl_status status = sl_config_read(map, "layers", sl_layers_keys, &request);
    SL_THEN(status, read_layout(map, request.layout, stages, &request.count, &layout));
    SL_THEN(status, read_layers(map, request.count, &layout, p));
    sl_layer_layout_free(&layout);
    sl_config_free(sl_layers_keys, &request);
    return status;
}
