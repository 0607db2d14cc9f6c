/* Shared by the readers of a problem file's parts. */
#pragma once

#include "base/config.h"
#include "plan/pipeline/problem.h"

typedef struct sl_number_range {
    double least, most;
} sl_number_range;

/** A number for all, or a list of `count` numbers, one per `each`. */
sl_status sl_read_numbers(const sl_yaml *node, int count, const char *each, const sl_number_range *range,
                          double *values);
/** The same in ms, into ns. */
sl_status sl_read_times(const sl_yaml *node, int count, const char *each, const sl_number_range *range,
                        sl_time *values);

/** Refuses keys of `map` that `table` does not have, and a map that lacks a required one. For maps whose
 * values are read by hand. */
sl_status sl_check_keys(const sl_yaml *map, const sl_key *table);

/** `links:` into link and wire. */
sl_status sl_read_links(const sl_yaml *map, sl_problem *problem);
extern const sl_key sl_links_keys[];

/** `shared:`, links that occupy one wire per direction, into *wires [from * ranks + to] (allocated here; the
 * caller's, also on error): wires of several links are numbered from ranks * ranks on, the others by their
 * link. */
sl_status sl_read_shared(const sl_yaml *shared, int ranks, int **wires);

/** `communication:`, after the links. */
sl_status sl_read_communication(const sl_yaml *node, sl_problem *problem);
void sl_write_communication(const sl_problem *problem, FILE *out);
extern const sl_key sl_communication_keys[];

/** `overhead_ms:`, without its addition to the times of stages. */
sl_status sl_read_overhead(const sl_yaml *node, sl_problem *problem);
extern const sl_key sl_overhead_keys[];

/** `layers:` into layers, cut evenly. */
sl_status sl_read_layers(const sl_yaml *map, sl_problem *problem);
extern const sl_key sl_layers_keys[];

/** `times_ms:` and `delta:` of `count` stages or layers. */
sl_status sl_read_op_times(const sl_yaml *map, int count, const char *each, sl_time *const *time);
sl_status sl_read_deltas(const sl_yaml *map, int count, const char *each, double *const *delta);
extern const sl_key sl_time_keys[], sl_delta_keys[];

/** SL_EINVAL if everything in a row takes longer than SL_MAX_TOTAL_MS, so that no later plan can leave int64.
 * `pipeline` is the node that the error names. */
sl_status sl_check_total(const sl_yaml *pipeline, const sl_problem *problem);

/** `data_parallel:` into gather and reduce. */
sl_status sl_read_data_parallel(const sl_yaml *map, sl_problem *problem);
extern const sl_key sl_data_parallel_keys[];
