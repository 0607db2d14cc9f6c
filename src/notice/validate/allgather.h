/* An allgather: how validating processes exchange what they know and wait for each other. One table of
 * functions, filled by the store (processes that agents start) or by MPI (processes of an allocation, in the
 * worker).
 *
 * Members are numbered from 0. All take the same steps in the same order. A member that does not come to a
 * step within the patience is absent from then on, and all others agree on that. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "notice/store/store.h"
#include <stddef.h>

/* What everybody brought; of an absent member `part` is NULL. */
typedef struct sl_allgather_parts {
    void **part; /* [members], each ended by an additional zero */
    size_t *size;
    int members;
} sl_allgather_parts;

void sl_gathered_free(sl_allgather_parts *gathered);

typedef struct sl_allgather {
    int members, self;
    void *context;
    /** Everybody gets everybody's `bytes[size]`. SL_EPEER: this member came too late itself, or nobody can be
     * reached; SL_ENOMEM. Free with sl_gathered_free, also on error. */
    sl_status (*gather_all)(void *context, const void *bytes, size_t size, sl_time patience,
                            sl_allgather_parts *gathered);
    void (*close)(void *context);
} sl_allgather;

/** Waits for all; *stop becomes nonzero for everybody when anybody's is. */
sl_status sl_allgather_barrier(const sl_allgather *allgather, sl_time patience, int *stop);

/** Room for `members` parts. SL_ENOMEM. */
sl_status sl_gathered_open(int members, sl_allgather_parts *gathered);
/** Puts a copy of `bytes[size]` at member `member`, unless there is something. SL_ENOMEM. */
sl_status sl_gathered_put(sl_allgather_parts *gathered, int member, const void *bytes, size_t size);

/** Through the log `validation:ROUND:talk` of `store` (the caller's). Its order is everybody's order: a step
 * ends when all have come, or where the first member that lost patience says so in it; what comes behind that
 * is not heard. No member is needed for that, so none can take it away with it. SL_ENOMEM. */
sl_status sl_allgather_open_store(sl_store *store, const char *round, int members, int self,
                                  sl_allgather *allgather);
