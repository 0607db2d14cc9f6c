/* Dumps of PyTorch's flight recorder (torch.distributed), of one rank each: pickled or as JSON. They become
 * ranks of a job (job.h), which diagnosis.h diagnoses by the same rules as a watched one.
 *
 * A dump has the calls of each process group with their numbers, sizes and frames, and whether each has
 * ended. Over Gloo it has collectives only. The rank is not in it, but at the end of its name
 * (nccl_trace_rank_3). */
#pragma once

#include "notice/hang/job.h"

/** Whether a file that begins with these bytes is a dump, or hang.json of a watch. */
int sl_torch_dump_is(const char *bytes, size_t size);

/** The rank at the end of the name, before an extension; -1: none. */
int sl_torch_dump_rank_of(const char *name);

/** Adds the content of a dump, or all ranks of a hang.json. `name` is for errors and the rank. SL_EINVAL: it
 * is none, or its name has no rank, or the job has the rank. SL_ENOMEM. */
sl_status sl_torch_dump_add(const char *name, const char *bytes, size_t size, sl_hang_job *job);

/** All dumps are there: members of the default group that have entered nothing are added to it, and ranks of
 * a group that only its configuration names. SL_ENOMEM. */
sl_status sl_torch_dump_finish(sl_hang_job *job);
