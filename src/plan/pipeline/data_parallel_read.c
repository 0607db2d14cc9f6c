/* `data_parallel:`: collectives of a stage over its replicas, given as times or by the ring's formula. */
#include "base/memory.h"
#include "plan/pipeline/problem_read.h"

#include <stddef.h>

typedef struct ring_item {
    int replicas, zero;
    double *alpha, *rate; /* [replicas] of its links, ms and 1e9 bit/s */
} ring_item;

#define RING(field) offsetof(ring_item, field)
/* clang-format off */
const sl_key sl_data_parallel_keys[] = {
    {.name = "reduce_ms", .type = SL_KEY_CUSTOM, .help = "reduction after a stage's last W or B, ms; a number or one per stage; default 0"},
    {.name = "gather_ms", .type = SL_KEY_CUSTOM, .help = "ZeRO-1 gather before a stage's first F, ms (in profile.yaml: its whole update of weights); a number or one per stage; default 0"},
    {.name = "replicas", .type = SL_KEY_INT, .standard = "1", .offset = RING(replicas), .minimum = 1, .maximum = 65536, .help = "instead of times: replicas on a ring, 2(n-1)(latency + volume / (n bandwidth)) for an all-reduce"},
    {.name = "volume_mb", .type = SL_KEY_CUSTOM, .help = "with replicas: gradients of a stage, 1e6 bytes; a number or one per stage"},
    {.name = "latency_ms", .type = SL_KEY_CUSTOM, .help = "with replicas: of the ring's links, ms; a number or one per link (replicas of them): the slowest link counts"},
    {.name = "bandwidth_gbps", .type = SL_KEY_CUSTOM, .help = "with replicas: of the ring's links, 1e9 bit/s; a number or one per link"},
    {.name = "zero", .type = SL_KEY_INT, .standard = "0", .offset = RING(zero), .minimum = 0, .maximum = 1, .help = "with replicas: 1 halves the ring's work into a reduce-scatter at the end and a gather at the start"},
    {0}};
/* clang-format on */

/* Time of one of the ring's steps: every link carries a chunk, and the slowest link sets the time. */
static double step_ms(const ring_item *r, const double *volume, int stage) {
    double slowest = 0;
    for (int i = 0; i < r->replicas; i++) {
        double step = r->alpha[i] + volume[stage] * 8 / (r->rate[i] * r->replicas); /* 1e6*8/1e9 s = ms */
        slowest = step > slowest ? step : slowest;
    }
    return slowest;
}

static sl_status read_numbers(const sl_yaml *map, const ring_item *r, double *volume, const sl_problem *p) {
    const sl_yaml *latency = sl_yaml_find(map, "latency_ms");
    if (latency)
        SL_TRY(sl_read_numbers(latency, r->replicas, "link of the ring",
                               &(sl_number_range){.least = 0, .most = SL_MAX_OP_MS}, r->alpha));
    SL_TRY(sl_read_numbers(sl_yaml_find(map, "bandwidth_gbps"), r->replicas, "link of the ring",
                           &(sl_number_range){.least = 1e-6, .most = 1e9}, r->rate));
    return sl_read_numbers(sl_yaml_find(map, "volume_mb"), p->stages, "stage",
                           &(sl_number_range){.least = 0, .most = 1e9}, volume);
}

static sl_status read_ring(const sl_yaml *map, const ring_item *r, double *volume, sl_problem *p) {
    SL_TRY(read_numbers(map, r, volume, p));
    for (int stage = 0; stage < p->stages; stage++) {
        double whole = 2.0 * (r->replicas - 1) * step_ms(r, volume, stage);
        if (whole > SL_MAX_OP_MS)
            return sl_yaml_error(map, "gives a reduction of %g ms; at most %g", whole, SL_MAX_OP_MS);
        p->reduce[stage] = sl_from_ms(r->zero ? whole / 2 : whole);
        p->gather[stage] = r->zero ? sl_from_ms(whole / 2) : 0;
    }
    return SL_OK;
}

sl_status sl_read_data_parallel(const sl_yaml *map, sl_problem *p) {
    static const sl_number_range ms = {.least = 0, .most = SL_MAX_OP_MS};
    ring_item r = {0};
    SL_TRY(sl_config_read(map, "data_parallel", sl_data_parallel_keys, &r));
    const sl_yaml *reduce = sl_yaml_find(map, "reduce_ms"), *gather = sl_yaml_find(map, "gather_ms");
    int by_ring = 0;
    for (const sl_key *key = &sl_data_parallel_keys[2]; key->name; key++)
        by_ring |= sl_yaml_find(map, key->name) != NULL;
    if (by_ring && (reduce || gather))
        return sl_yaml_error(map,
                             "has times (reduce_ms, gather_ms) and a ring (replicas, volume_mb, ..); give "
                             "one of them");
    if (by_ring && !sl_yaml_find(map, "replicas"))
        return sl_yaml_error(map, "lacks 'replicas'");
    if (reduce)
        SL_TRY(sl_read_times(reduce, p->stages, "stage", &ms, p->reduce));
    if (gather)
        SL_TRY(sl_read_times(gather, p->stages, "stage", &ms, p->gather));
    if (!by_ring)
        return SL_OK;
    if (!sl_yaml_find(map, "volume_mb") || !sl_yaml_find(map, "bandwidth_gbps"))
        return sl_yaml_error(map, "needs volume_mb and bandwidth_gbps together with replicas");
    double *numbers;
    size_t links = (size_t)r.replicas;
    SL_TRY(sl_alloc(&numbers, 2 * links + (size_t)p->stages, sizeof *numbers));
    r.alpha = numbers;
    r.rate = numbers + links;
    sl_status status = read_ring(map, &r, numbers + 2 * links, p);
    sl_free(numbers);
    return status;
}
