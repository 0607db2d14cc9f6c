/* SPDX-License-Identifier: Apache-2.0 */
/* How to divide a model over a cluster, from C.
 *
 * $ cc choose.c $(pkg-config --cflags --libs slackline) -o choose && ./choose
 * > 2 replicas, 2 pipeline ranks, 4 microbatches of 1: 65 ms, 0.90 GB
 * > layers 0 to 4, layers 5 to 7
 *
 * The last of eight layers is three times as heavy as the others, and no device can hold them all. Each rank
 * computes for 60 ms, and the second one begins after one forward of 5 ms. */
#include <slackline/slackline.h>
#include <stdio.h>

static const char model[] =
    "layers:\n"
    "  - {name: block, repeat: 7, times_ms: {F: 1, I: 1, W: 1}, activations_mb: 0.001, output_mb: 0.000001,\n"
    "     input_mb: 0.000001, parameters_m: 10}\n"
    "  - {name: head, times_ms: {F: 3, I: 3, W: 3}, activations_mb: 0.001, output_mb: 0.000001,\n"
    "     input_mb: 0.000001, parameters_m: 30}\n"
    "measured: {tensor: 1, size: 1}\n"
    "batch: {sequences: 8}\n";
static const char cluster[] = "hosts: [\"node[0-3]\"]\n"
                              "links: {default: {latency_ms: 0, bandwidth_gbps: 1000000}}\n"
                              "device: {tflops: 1, memory_gb_per_s: 10000000, memory_gb: 1}\n";

static slackline_status search(slackline_chooser *chooser, slackline_choices **choices) {
    slackline_status status = slackline_chooser_fix(chooser, "placement", "linear");
    if (status == SLACKLINE_OK)
        status = slackline_chooser_fix(chooser, "zero", "0"); /* no division of the optimizer's state */
    if (status == SLACKLINE_OK)
        status = slackline_chooser_set_time_limit(chooser, 2);
    if (status != SLACKLINE_OK)
        return status;
    return slackline_chooser_parse(chooser, "model", model, "cluster", cluster, NULL, 0, choices);
}

static void show(const slackline_choices *choices) {
    slackline_arrangement a;
    slackline_choices_arrangement(choices, 0, &a);
    printf("%d replicas, %d pipeline ranks, %d microbatches of %d: %.0f ms, %.2f GB\n", a.data, a.pipeline,
           a.microbatches, a.size, (double)a.time_ns / 1e6, a.memory / 1e9);
    for (int stage = 0; stage < a.stages; stage++)
        printf("%slayers %d to %d", stage ? ", " : "", slackline_choices_first_layer(choices, 0, stage),
               slackline_choices_first_layer(choices, 0, stage + 1) - 1);
    printf("\n");
}

int main(void) {
    slackline_chooser *chooser = NULL;
    slackline_choices *choices = NULL;
    slackline_status status = slackline_chooser_make(&chooser);
    if (status == SLACKLINE_OK)
        status = search(chooser, &choices);
    if (status == SLACKLINE_OK)
        show(choices);
    else
        fprintf(stderr, "%s\n", slackline_error());
    slackline_choices_free(choices);
    slackline_chooser_free(chooser);
    return status == SLACKLINE_OK ? 0 : 1;
}
