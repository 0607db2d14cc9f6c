/* An allgather: how validating processes exchange data and wait for each other. One table of functions,
 * filled by the store (processes started by agents) or by MPI (processes of an allocation, in the worker).
 *
 * Members are numbered from 0. All take the same steps in the same order. A member that does not reach a step
 * within the patience is absent from then on, and all others agree on that. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "notice/store/store.h"
#include <stddef.h>

/* The parts of all members; of an absent member `part` is NULL. */
typedef struct sl_allgather_parts {
    void **part; /* [members], each followed by an additional zero */
    size_t *size;
    int members;
} sl_allgather_parts;

void sl_allgather_parts_free(sl_allgather_parts *gathered);

typedef struct sl_allgather {
    int members, self;
    void *context;
    /** Every member gets the `bytes[size]` of all. SL_EPEER: this member itself was too late, or no member
     * can be reached; SL_ENOMEM. Free with sl_allgather_parts_free, also on error. */
    sl_status (*gather_all)(void *context, const void *bytes, size_t size, sl_time patience,
                            sl_allgather_parts *gathered);
    void (*close)(void *context);
} sl_allgather;

/** Waits for all; *stop becomes nonzero for all if it is for one. */
sl_status sl_allgather_barrier(const sl_allgather *allgather, sl_time patience, int *stop);

/** Room for `members` parts. SL_ENOMEM. */
sl_status sl_allgather_parts_open(int members, sl_allgather_parts *gathered);
/** Stores a copy of `bytes[size]` for member `member`, unless it has one. SL_ENOMEM. */
sl_status sl_allgather_parts_put(sl_allgather_parts *gathered, int member, const void *bytes, size_t size);

/** Through the log `validation:ROUND:talk` of `store` (the caller's). Its order is the same for all: a step
 * ends when all members have come, or at the entry of the first member that lost patience; later entries are
 * ignored. This depends on no particular member, so the loss of one cannot block it. SL_ENOMEM. */
sl_status sl_allgather_open_store(sl_store *store, const char *round, int members, int self,
                                  sl_allgather *allgather);
