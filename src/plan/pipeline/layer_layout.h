/* The layout of layers of Megatron-LM, such as "Et*3|(tt|)*29,m|L" (--pipeline-model-parallel-layout, as
 * PipelineParallelLayerLayout of megatron-core 0.16.1 reads it). `|` separates stages, in the order of a
 * microbatch. E is the embedding, t a transformer layer, m a layer of multi-token prediction, and L the loss
 * with the head. Commas have no meaning. (...)*n and x*n repeat. Each letter is one layer of a problem. */
#pragma once

#include "base/status.h"
#include <stdio.h>

#define SL_LAYOUT_LETTERS "EtmL"

typedef struct sl_layer_layout {
    int stages, layers;
    int *first;   /* [stages + 1] first layer of each stage */
    char *letter; /* [layers + 1] ended by 0 */
} sl_layer_layout;

/** Reads a layout. SL_EINVAL: another letter, a stage without layers, no E at the begin or no L at the end, a
 * t after an m, layers m on several stages, or more layers or stages than a problem may have. Free with
 * sl_layer_layout_free, also on error. */
sl_status sl_layer_layout_parse(const char *text, sl_layer_layout *layout);
void sl_layer_layout_free(sl_layer_layout *layout);

/** Writes the layout of stages whose layers begin at first[0..stages], as short as stages of one kind in a
 * row allow. `letter` has one letter per layer. */
void sl_layer_layout_write(const char *letter, const int *first, int stages, FILE *out);
