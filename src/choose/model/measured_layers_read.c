/* Layers with measured times. */
#include "base/memory.h"
#include "choose/model/model_work_inside.h"
#include "plan/pipeline/problem.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct measured_item {
    char *name;
    int repeat;
    double ms[3], activations_mb, kept_for_w_mb, input_mb, output_mb, parameters_m;
} measured_item;

typedef struct measured_division {
    int tensor, size;
} measured_division;

#define ITEM(field) offsetof(measured_item, field)
/* clang-format off */
static const sl_key times_keys[] = {
    {.name = "F", .type = SL_KEY_REAL, .required = 1, .offset = 0, .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "forward of a microbatch, ms"},
    {.name = "I", .type = SL_KEY_REAL, .required = 1, .offset = sizeof(double), .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "backward for the input, ms"},
    {.name = "W", .type = SL_KEY_REAL, .required = 1, .offset = 2 * sizeof(double), .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "backward for the weights, ms"},
    {0}};
const sl_key sl_measured_layer_keys[] = {
    {.name = "name", .type = SL_KEY_TEXT, .required = 1, .offset = ITEM(name), .help = "of the module, for exports; layers of one name are numbered: NAME.0, NAME.1"},
    {.name = "repeat", .type = SL_KEY_INT, .standard = "1", .offset = ITEM(repeat), .minimum = 1, .maximum = SL_MAX_MODEL_LAYERS, .help = "that many equal layers in a row"},
    {.name = "times_ms", .type = SL_KEY_SECTION, .required = 1, .offset = ITEM(ms), .section = times_keys, .help = "on a device of speed 1, with the sums over tensor ranks"},
    {.name = "activations_mb", .type = SL_KEY_REAL, .standard = "0", .offset = ITEM(activations_mb), .minimum = 0, .maximum = 1e9, .help = "kept on a device from F until I ends, 1e6 bytes"},
    {.name = "kept_for_w_mb", .type = SL_KEY_REAL, .offset = ITEM(kept_for_w_mb), .minimum = 0, .maximum = 1e9, .help = "kept from the end of I until W ends; default activations_mb"},
    {.name = "input_mb", .type = SL_KEY_REAL, .standard = "0", .offset = ITEM(input_mb), .minimum = 0, .maximum = 1e9, .help = "its input, all that recomputation keeps"},
    {.name = "output_mb", .type = SL_KEY_REAL, .standard = "0", .offset = ITEM(output_mb), .minimum = 0, .maximum = 1e9, .help = "the message of a device to the next stage"},
    {.name = "parameters_m", .type = SL_KEY_REAL, .standard = "0", .offset = ITEM(parameters_m), .minimum = 0, .maximum = 1e9, .help = "parameters of the whole layer, 1e6"},
    {0}};
const sl_key sl_measured_keys[] = {
    {.name = "tensor", .type = SL_KEY_INT, .standard = "1", .offset = offsetof(measured_division, tensor), .minimum = 1, .maximum = 100000, .help = "tensor ranks of the measurement"},
    {.name = "size", .type = SL_KEY_INT, .standard = "1", .offset = offsetof(measured_division, size), .minimum = 1, .maximum = 1000000, .help = "sequences of a microbatch in it; times and bytes of other sizes are proportional"},
    {0}};
/* clang-format on */

static sl_status read_item(const sl_yaml *node, const measured_division *measured, measured_item *item,
                           sl_layer_sizes *kind) {
    if (node->kind != SL_YAML_MAP)
        return sl_yaml_error(node, "must be a map of keys");
    item->kept_for_w_mb = -1;
    SL_TRY(sl_config_read(node, "layers", sl_measured_layer_keys, item));
    if (!item->name[0] || strlen(item->name) > 200)
        return sl_yaml_error(sl_yaml_find(node, "name"), "must have 1 to 200 characters");
    double for_w = item->kept_for_w_mb < 0 ? item->activations_mb : item->kept_for_w_mb;
    *kind = (sl_layer_sizes){.kind = SL_LAYER_MEASURED,
                             .tensor = measured->tensor,
                             .size = measured->size,
                             .kept = item->activations_mb * 1e6,
                             .kept_for_w = for_w * 1e6,
                             .input = item->input_mb * 1e6,
                             .output = item->output_mb * 1e6,
                             .parameters = item->parameters_m * 1e6};
    for (int op = 0; op < 3; op++)
        kind->seconds[op] = item->ms[op] / 1e3;
    return SL_OK;
}

/* Layers of the items so far whose name is `name`, if they were added with it. */
static int of_name(const measured_item *item, int items, const char *name) {
    int count = 0;
    for (int i = 0; i < items; i++)
        count += strcmp(item[i].name, name) == 0 ? item[i].repeat : 0;
    return count;
}

static sl_status add_layers(const measured_item *item, int items, sl_model_work *model) {
    for (int i = 0; i < items; i++) {
        int before = of_name(item, i, item[i].name), all = of_name(item, items, item[i].name);
        for (int k = 0; k < item[i].repeat; k++) {
            char name[256];
            sl_model_layer *layer = &model->layer[model->layers];
            snprintf(name, sizeof name, "%s.%d", item[i].name, before + k);
            SL_TRY(sl_copy_text(&layer->name, all > 1 ? name : item[i].name));
            layer->kind = i;
            model->layers++;
        }
    }
    return SL_OK;
}

static sl_status read_items(const sl_yaml *list, const measured_division *measured, measured_item *item,
                            sl_model_work *model) {
    int layers = 0;
    for (int i = 0; i < list->children; i++) {
        SL_TRY(read_item(list->child[i], measured, &item[i], &model->kind[i]));
        model->kinds++;
        layers += item[i].repeat;
        if (layers > SL_MAX_MODEL_LAYERS)
            return sl_yaml_error(list, "has more than %d layers", SL_MAX_MODEL_LAYERS);
    }
    SL_TRY(sl_alloc(&model->layer, (size_t)layers, sizeof *model->layer));
    return add_layers(item, list->children, model);
}

sl_status sl_measured_layers_read(const sl_yaml *list, const sl_yaml *map, sl_model_work *model) {
    measured_division measured;
    measured_item *item;
    SL_TRY(sl_config_read(map, "measured", sl_measured_keys, &measured));
    if (list->kind != SL_YAML_LIST || list->children == 0 || list->children > SL_MAX_MODEL_LAYERS)
        return sl_yaml_error(list, "must be a list of 1 to %d layers", SL_MAX_MODEL_LAYERS);
    size_t items = (size_t)list->children;
    SL_TRY(sl_alloc(&model->kind, items, sizeof *model->kind));
    SL_TRY(sl_alloc(&item, items, sizeof *item));
    sl_status status = read_items(list, &measured, item, model);
    for (size_t i = 0; i < items; i++)
        sl_config_free(sl_measured_layer_keys, &item[i]);
    sl_free(item);
    return status;
}
