/* The output of a run, written by rank 0: metrics.jsonl, events.jsonl, decisions.txt and, if requested,
 * measurements.jsonl during the run (whole lines) and timeline.json (complete after each iteration); at its
 * end profile.yaml and summary.json (each complete or absent), and the table of the time that adapting saved.
 * Fields: docs/formats.md.
 *
 * None of it is essential to the job: a file that cannot be written, or a file system that hangs, is reported
 * once, as a warning, and training neither waits nor ends (base/writer.h). */
#pragma once

#include "base/event.h"
#include "plan/pipeline/problem.h"
#include "plan/timing/timeline.h"
#include "run/journal/measure.h"
#include "run/journal/run_profile.h"

/* The state of adapting in an iteration. */
typedef enum sl_run_phase {
    SL_PHASE_HEALTHY,   /* first schedule, nothing slow yet */
    SL_PHASE_SLOW,      /* something slow, still first schedule */
    SL_PHASE_DELEGATED, /* something slow, still first schedule, but delegates carry the messages */
    SL_PHASE_ADAPTED,   /* something slow, another schedule */
    SL_PHASE_BETWEEN,   /* another schedule, nothing slow: relief not yet acted upon */
    SL_PHASE_RELIEVED,  /* first schedule, after a slowdown */
    SL_PHASES
} sl_run_phase;

typedef struct sl_iteration {
    int iteration;
    double loss, validation; /* validation: NaN when not measured */
    uint64_t samples;        /* sl_binding_samples of all ranks, added */
    sl_time time;            /* first op to the end of the optimizer, over all ranks */
    sl_time period;          /* to the start of the next iteration, including bookkeeping and swaps */
    sl_time predicted;       /* of `time`, made before the iteration; -1: unknown */
    const char *schedule;
    int delegates; /* per link and direction; 0: the ranks carry the messages */
    sl_run_phase phase;
    int late;      /* an arrival was over 1 ms late: excluded from medians of prediction */
    sl_time begin; /* since the run's start */
    int replicas;
    sl_measured *const *measured; /* [replicas] */
    const sl_timeline *timeline;  /* [replicas] */
} sl_iteration;

typedef struct sl_journal sl_journal;

/* The division of the run. */
typedef struct sl_journal_layout {
    int pipeline, data, tensor, zero;
} sl_journal_layout;

/** Creates the folder and opens the files. `first` >= 0: continues an earlier attempt at that iteration (its
 * events stay, its metrics from there on are removed); -1: new. `tokens`: of one iteration. `keep`: number
 * of iterations whose timelines go into timeline.json, and half as many more after later events. */
sl_status sl_journal_open(const char *folder, int first, sl_journal_layout layout, double tokens,
                          int iterations, int keep, sl_journal **journal);
/** Keeps the run file, including settings, as run.yaml. Not rewritten if unchanged. */
void sl_journal_keep(sl_journal *journal, const char *run_file);
sl_status sl_journal_iteration(sl_journal *journal, const sl_iteration *iteration);
/** Before the first iteration: the links of the ping test ([ranks * ranks]; NULL: none was made), the size of
 * a message, and whether op times are prescribed. */
sl_status sl_journal_profile(sl_journal *journal, const sl_ping_link *ping, double message_bytes, int paced);

/** The replica whose ops took longest, excluding reductions, in which each waits for the others. The profile
 * has its shape, its ops and its links: a mix of several replicas would match none. */
int sl_journal_slowest(const sl_journal *journal);
sl_status sl_journal_event(sl_journal *journal, const sl_event *event);
/** Waits until everything recorded is in its file, or cannot be written. */
void sl_journal_flush(sl_journal *journal);
/** A line of decisions.txt, including its newline. */
void sl_journal_decision(sl_journal *journal, const char *line);
/** The same for measurements.jsonl (adapt/orchestrator/recording.h). */
void sl_journal_measurement(sl_journal *journal, const char *line);

/* Highest use of a rank's device memory, bytes. */
typedef struct sl_peak {
    int pipeline, replica, tensor;
    long measured;
    double predicted; /* of the programs that ran */
} sl_peak;

typedef struct sl_summary {
    uint64_t weights_hash;
    double validation;      /* NaN: none */
    double byte_entropy;    /* nats per byte, of the same text */
    const char *scheduling; /* class of the communication threads */
    const char *isa, *regime;
    sl_arrivals *arrivals;
    long ops, overruns;
    int swaps;
    sl_time swap_cost; /* median; -1: none */
    sl_time path_cost; /* of the last change between ranks and delegates; -1: none */
    double seconds;
    long memory_peak, host_peak, moves; /* largest over ranks, bytes */
    sl_peak *peak;                      /* [peaks] of all ranks */
    int peaks;
    const sl_program *program; /* last program on the replica of the profile; NULL: none ran */
    const char *schedule;      /* its name */
} sl_summary;

/** Writes the final files and prints the table to `out`. */
sl_status sl_journal_finish(sl_journal *journal, const sl_summary *summary, FILE *out);
/** Closes; without finish only the data written so far remain (whole lines). */
void sl_journal_close(sl_journal *journal);
