/* `faults` of a run file: reproducible trouble, read and checked. What is in force when is asked of
 * sl_fault_is_active (run.h). */
#ifndef SL_RUN_FILE_RUN_FAULTS_H
#define SL_RUN_FILE_RUN_FAULTS_H

#include "run/file/run.h"

/** The list, into run->fault: a link both ways is two. SL_EINVAL names file, line and key. */
sl_status sl_run_read_faults(const sl_node *node, void *run);
void sl_run_free_faults(sl_run *run);

/** Once the shape and the hosts are known: whether each fault names what is there, and puts a name for a
 * host's number. SL_EINVAL names file, line and key. */
sl_status sl_run_check_faults(const sl_document *document, sl_run *run);

/** The item's keys, as Markdown rows. */
void sl_run_document_faults(FILE *out);

#endif
