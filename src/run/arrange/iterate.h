/* One iteration of a rank at its position: its ops, the sums of its gradients, and the records and reports of
 * all ranks for the leader. */
#pragma once

#include "notice/record/record.h"
#include "run/arrange/trainer.h"

/* A rank's report at the end of an iteration: this, then the losses of its microbatches. */
typedef struct sl_rank_report {
    sl_time end; /* its own clock */
    int32_t ops, overruns;
    int32_t warned, unused;
    uint64_t samples; /* sl_binding_samples */
} sl_rank_report;

/* The leader's data from all ranks, rank by rank. */
typedef struct sl_rank_reports {
    char *reports; /* [world] reports, each followed by its losses, packed */
    size_t reports_capacity, *report_bytes;
    sl_record *records;
    size_t records_capacity, *record_bytes;
    sl_record *replica; /* room for those of one replica */
} sl_rank_reports;

typedef struct sl_iteration_records sl_iteration_records;

/** For the problem in t->state, in t->state->records; also closes what was opened in part. */
sl_status sl_iterate_open(sl_trainer *t);
void sl_iterate_close(sl_trainer *t);
/** That the engine writes to. */
sl_record_ring *sl_iterate_ring(const sl_trainer *t);

/** Runs `iteration`, which begins at `begin` on this rank's clock, with its faults. Collective. */
sl_status sl_iterate(sl_trainer *t, int iteration, sl_time begin);

/** Gathers the records and reports of the last iteration: *all on the leader, until the next one. Collective.
 */
sl_status sl_iterate_gather(sl_trainer *t, sl_rank_reports **all);

/** Whether this process was warned that the run should end, since the last call. */
int sl_iterate_is_warned(const sl_trainer *t);
