/* Models and clusters small enough for a hand calculation. */
#ifndef SL_TESTS_CHOOSE_SMALL_CLUSTER_H
#define SL_TESTS_CHOOSE_SMALL_CLUSTER_H

#include "check.h"

#include "base/memory.h"
#include "choose/search/shape_search.h"

#define MS 1e-3

/* Equal measured layers: F, I and W of 1 ms for one sequence, that keep `kept` bytes and have `parameters`.
 */
static inline void make_model(int layers, long long sequences, double kept, double parameters,
                              sl_model_work *m) {
    *m = (sl_model_work){.context = 1000,
                         .sequences = sequences,
                         .layers = layers,
                         .kinds = 1,
                         .activation_bytes = 2,
                         .weight_bytes = 2,
                         .gradient_bytes = 2,
                         .optimizer_bytes = 4};
    m->layer = calloc((size_t)layers, sizeof *m->layer);
    m->kind = calloc(1, sizeof *m->kind);
    m->kind[0] = (sl_layer_sizes){.kind = SL_LAYER_MEASURED,
                                  .tensor = 1,
                                  .size = 1,
                                  .seconds = {MS, MS, MS},
                                  .kept = kept,
                                  .kept_for_w = kept,
                                  .input = kept / 10,
                                  .output = 1000,
                                  .parameters = parameters};
}

static inline void free_model(sl_model_work *m) {
    free(m->layer);
    free(m->kind);
}

/* `each` devices a host; between hosts as given, within a host for free. */
static inline void make_devices(int hosts, int each, double memory, double latency_ns, double pace,
                                sl_devices *d) {
    *d = (sl_devices){.count = hosts * each, .hosts = hosts, .flops_per_s = 1e12, .bytes_per_s = 0};
    d->device = calloc((size_t)d->count, sizeof *d->device);
    d->latency = calloc((size_t)(hosts * hosts), sizeof *d->latency);
    d->pace = calloc((size_t)(hosts * hosts), sizeof *d->pace);
    for (int i = 0; i < d->count; i++)
        d->device[i] = (sl_cluster_device){.host = i / each, .speed = 1, .memory = memory};
    for (int i = 0; i < hosts * hosts; i++)
        if (i / hosts != i % hosts) {
            d->latency[i] = latency_ns;
            d->pace[i] = pace;
        }
}

static inline void free_devices(sl_devices *d) {
    free(d->device);
    free(d->latency);
    free(d->pace);
}

static double seconds = 2; /* of a search; more where the machine is busy */

static inline sl_status choose(const sl_model_work *m, const sl_devices *d, const sl_shape_fixed *fixed,
                               sl_choices *found) {
    const sl_choose_options options = {
        .fixed = *fixed, .time_limit = seconds, .most = 8, .threads = 2, .seed = 1};
    return sl_choose(m, d, &options, found);
}

#endif
