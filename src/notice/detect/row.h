/* One iteration of a training run as localisation remembers it, and the comparison of slow rows with healthy
 * ones. Internal to localise.c and locate.c. */
#ifndef SL_NOTICE_DETECT_ROW_H
#define SL_NOTICE_DETECT_ROW_H

#include "notice/detect/localise.h"
#include "plan/pipeline/op.h"

#define SL_ROW_KEYS (2 * SL_OP_KINDS) /* of a stage: kind, and whether paired */

/* Durations of one kind of op of one stage, or of one link's messages; count 0: there were none. */
typedef struct sl_level {
    float time; /* ns: ops a mean without the longest, messages a median */
    int32_t count;
} sl_level;

typedef struct sl_row {
    int iteration;
    int slow;        /* between an onset and its end: no measure of health */
    sl_time time;    /* of the iteration */
    sl_level *op;    /* [replicas * stages * SL_ROW_KEYS] */
    sl_level *link;  /* [replicas * ranks * ranks], from * ranks + to */
    int32_t *rank;   /* [replicas * stages] that held the stage; -1: not seen */
    sl_time *came;   /* [stages] the last replica, to the reduction; 0: there was none */
    sl_time *summed; /* [stages] the last replica, done */
} sl_row;

typedef struct sl_rows {
    int ranks, stages, replicas;
} sl_rows;

/** What is slow in now[nows] against healthy[healthies]: fills located, count (0: nothing), `why` (a line,
 * when nothing is, or UNKNOWN). SL_ENOMEM. */
sl_status sl_locate(const sl_rows *shape, const sl_row *const *now, int nows, const sl_row *const *healthy,
                    int healthies, double clock_error, sl_located *located, int *count, char *why,
                    size_t size);

#endif
