/* The parts of reading a run file that run.c calls. */
#pragma once

#include "run/file/run.h"

/* The part of reading a run file that knows placements: which rank holds which stage, and whether the
 * schedule, the model and the pace fit that. */

/** Fills in placement and stages where the file leaves them open. SL_EINVAL: the shape is impossible, the
 * schedule is not defined for it, or the model has fewer layers. */
sl_status sl_run_check_shape(const sl_document *document, sl_run *run);

/** parallel.cut and device.recompute, once the number of stages is known. */
sl_status sl_run_read_cut(const sl_document *document, sl_run *run);
sl_status sl_run_read_recompute(const sl_document *document, sl_run *run);

/** device.pace_ms, once the number of stages is known. */
sl_status sl_run_read_pace(const sl_document *document, sl_run *run);

/** A complaint about `key` of `section` (NULL: of the section itself), or about what of that path is there.
 */
sl_status sl_run_refuse(const sl_document *document, const char *section, const char *key, const char *format,
                        ...) __attribute__((format(printf, 4, 5)));

/* `faults` of a run file: reproducible trouble, read and checked. What is in force when is asked of
 * sl_fault_is_active (run.h). */

/** The list, into run->fault: a link both ways is two. SL_EINVAL names file, line and key. */
sl_status sl_run_read_faults(const sl_yaml_node *node, void *run);
void sl_run_free_faults(sl_run *run);

/** Once the shape and the hosts are known: whether each fault names what is there, and puts a name for a
 * host's number. SL_EINVAL names file, line and key. */
sl_status sl_run_check_faults(const sl_document *document, sl_run *run);

/** The item's keys, as Markdown rows. */
void sl_run_document_faults(FILE *out);

/* `arrangements` of a run file: who sits where and how many microbatches each replica takes from an iteration
 * on, said by hand. */

/** Once the shape is known. SL_EINVAL names file, line and key: seats that are no permutation of the run's
 * processes, a split that does not fit replicas, microbatches or schedule, iterations out of order. */
sl_status sl_run_read_arrangements(const sl_document *document, sl_run *run);
void sl_run_free_arrangements(sl_run *run);

/** The item's keys, as Markdown rows. */
void sl_run_document_arrangements(FILE *out);
