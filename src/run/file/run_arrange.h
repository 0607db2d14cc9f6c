/* `arrangements` of a run file: who sits where and how many microbatches each replica takes from an iteration
 * on, said by hand. */
#ifndef SL_RUN_FILE_RUN_ARRANGE_H
#define SL_RUN_FILE_RUN_ARRANGE_H

#include "run/file/run.h"

/** Once the shape is known. SL_EINVAL names file, line and key: seats that are no permutation of the run's
 * processes, a split that does not fit replicas, microbatches or schedule, iterations out of order. */
sl_status sl_run_read_arrangements(const sl_document *document, sl_run *run);
void sl_run_free_arrangements(sl_run *run);

/** The item's keys, as Markdown rows. */
void sl_run_document_arrangements(FILE *out);

#endif
