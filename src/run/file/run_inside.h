/* The parts of reading a run file that run.c calls. */
#pragma once

#include "run/file/run.h"

/* Placements in a run file: the rank of each stage, and whether the schedule, the model and the pace fit. */

/** Fills in placement and stages if the file omits them. SL_EINVAL: the shape is impossible, the schedule is
 * not defined for it, or the model has fewer layers. */
sl_status sl_run_check_shape(const sl_document *document, sl_run *run);

/** Reads parallel.cut and device.recompute, after the number of stages is known. */
sl_status sl_run_read_cut(const sl_document *document, sl_run *run);
sl_status sl_run_read_recompute(const sl_document *document, sl_run *run);

/** Reads device.pace_ms, after the number of stages is known. */
sl_status sl_run_read_pace(const sl_document *document, sl_run *run);

/** An error about `key` of `section` (NULL: of the section itself), or about the value at that path. */
sl_status sl_run_refuse(const sl_document *document, const char *section, const char *key, const char *format,
                        ...) __attribute__((format(printf, 4, 5)));

/* `faults` of a run file: reproducible faults, read and checked. See sl_fault_is_active (run.h) for the
 * active ones. */

/** Reads the list into run->fault: a link in both directions is two. SL_EINVAL names file, line and key. */
sl_status sl_run_read_faults(const sl_yaml *node, void *run);
void sl_run_free_faults(sl_run *run);

/** After the shape and the hosts are known: checks that each fault names something that exists, and replaces
 * a host's number by its name. SL_EINVAL names file, line and key. */
sl_status sl_run_check_faults(const sl_document *document, sl_run *run);

/** The item's keys, as Markdown rows. */
void sl_run_visit_fault_keys(sl_key_visit visit, void *context);

/* `arrangements` of a run file: manual changes of the rank map and of the number of microbatches of each
 * replica from an iteration on. */

/** After the shape is known. SL_EINVAL names file, line and key: positions that are not a permutation of the
 * run's processes, a split that does not fit replicas, microbatches or schedule, iterations out of order. */
sl_status sl_run_read_arrangements(const sl_document *document, sl_run *run);
void sl_run_free_arrangements(sl_run *run);

/** The item's keys, as Markdown rows. */
void sl_run_visit_arrangement_keys(sl_key_visit visit, void *context);
