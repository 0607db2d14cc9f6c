/* The part of reading a run file that knows placements: which rank holds which stage, and whether the
 * schedule, the model and the pace fit that. */
#ifndef SL_RUN_FILE_RUN_SHAPE_H
#define SL_RUN_FILE_RUN_SHAPE_H

#include "run/file/run.h"

/** Fills in placement and stages where the file leaves them open. SL_EINVAL: the shape is impossible, the
 * schedule is not defined for it, or the model has fewer layers. */
sl_status sl_run_check_shape(const sl_document *document, sl_run *run);

/** parallel.cut and device.recompute, once the number of stages is known. */
sl_status sl_run_read_cut(const sl_document *document, sl_run *run);
sl_status sl_run_read_recompute(const sl_document *document, sl_run *run);

/** device.pace_ms, once the number of stages is known. */
sl_status sl_run_read_pace(const sl_document *document, sl_run *run);

/** A complaint about `key` of `section` (NULL: of the whole), or about what of that path is there. */
sl_status sl_run_refuse(const sl_document *document, const char *section, const char *key, const char *why);

#endif
