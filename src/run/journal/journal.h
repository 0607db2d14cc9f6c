/* What a run leaves behind, written by rank 0: metrics.jsonl, events.jsonl, decisions.txt and, where it is
 * asked for, measurements.jsonl as it goes (whole lines) and timeline.json (whole after each iteration), at
 * its end profile.yaml and summary.json (each complete or absent), and the table that says what adapting was
 * worth. Fields: docs/formats.md.
 *
 * None of it is what the job is for: a file that cannot be written, or a file system that hangs, is said
 * once, as a warning, and training neither waits nor ends (base/writer.h). */
#pragma once

#include "base/event.h"
#include "plan/pipeline/problem.h"
#include "plan/timing/timeline.h"
#include "run/journal/measure.h"
#include "run/journal/run_profile.h"

/* What an iteration tells about adapting. */
typedef enum sl_run_phase {
    SL_PHASE_HEALTHY,   /* first schedule, no trouble yet */
    SL_PHASE_SLOW,      /* trouble, first schedule still */
    SL_PHASE_DELEGATED, /* trouble, first schedule still, but delegates carry the messages by now */
    SL_PHASE_ADAPTED,   /* trouble, another schedule */
    SL_PHASE_BETWEEN,   /* another schedule, no trouble: relief was not yet acted upon */
    SL_PHASE_RELIEVED,  /* first schedule, after trouble */
    SL_PHASES
} sl_run_phase;

typedef struct sl_iteration {
    int iteration;
    double loss, validation; /* validation: NaN when not measured */
    sl_time time;            /* first op to the end of the optimizer, over all ranks */
    sl_time period;          /* to the next iteration's begin, bookkeeping and swaps included */
    sl_time predicted;       /* of `time`, made before the iteration; -1: nothing was known yet */
    const char *schedule;
    int delegates; /* per link and direction; 0: the ranks carry the messages */
    sl_run_phase phase;
    int late;      /* an arrival was over 1 ms late: left out of medians of prediction */
    sl_time begin; /* since the run's start */
    int replicas;
    sl_measured *const *measured; /* [replicas] */
    const sl_timeline *timeline;  /* [replicas] */
} sl_iteration;

typedef struct sl_journal sl_journal;

/* How the run is divided. */
typedef struct sl_journal_layout {
    int pipeline, data, tensor, zero;
} sl_journal_layout;

/** Makes the folder and opens the files. `first` >= 0: of an earlier attempt, which is continued at that
 * iteration (its events stay, its metrics from there on go); -1: anew. `tokens`: of one iteration. `keep`:
 * iterations whose timelines go into timeline.json; half as many
 * more behind later events. */
sl_status sl_journal_open(const char *folder, int first, sl_journal_layout layout, double tokens,
                          int iterations, int keep, sl_journal **journal);
/** Keeps the run file, with what was set, as run.yaml. Left alone where it says the same already. */
void sl_journal_keep(sl_journal *journal, const char *run_file);
sl_status sl_journal_iteration(sl_journal *journal, const sl_iteration *iteration);
/** Before the first iteration: what the links were in the ping test ([ranks * ranks]; NULL: none was made),
 * the size of a message, and whether op times are prescribed. */
sl_status sl_journal_profile(sl_journal *journal, const sl_ping_link *ping, double message_bytes, int paced);

/** The replica whose ops took longest, reductions aside, in which each waits for the others: the profile is
 * of it, its shape, its ops and its links, for those of several together are nobody's. */
int sl_journal_slowest(const sl_journal *journal);
sl_status sl_journal_event(sl_journal *journal, const sl_event *event);
/** An event of no link or rank, by its texts. */
sl_status sl_journal_tell(sl_journal *journal, sl_event_kind kind, sl_time time, int iteration,
                          const char *seen, const char *decided, const char *why);
/** Waits until all that was told is in its file, or cannot be. */
void sl_journal_flush(sl_journal *journal);
/** A line of decisions.txt, with its end. */
void sl_journal_decision(sl_journal *journal, const char *line);
/** The same of measurements.jsonl (adapt/orchestrator/recording.h). */
void sl_journal_measurement(sl_journal *journal, const char *line);

/* Highest use of a rank's device memory, bytes. */
typedef struct sl_peak {
    int pipeline, replica, tensor;
    long measured;
    double predicted; /* for the programs that ran */
} sl_peak;

typedef struct sl_summary {
    uint64_t weights_hash;
    double validation;      /* NaN: none */
    double byte_entropy;    /* nats a byte, of the same text */
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
    const sl_program *program; /* that ran last, on the replica that the profile is of; NULL: it never ran */
    const char *schedule;      /* its name */
} sl_summary;

/** Writes the files of the end and prints the table to `out`. */
sl_status sl_journal_finish(sl_journal *journal, const sl_summary *summary, FILE *out);
/** Closes; without finish what was written so far stays (whole lines) and nothing else. */
void sl_journal_close(sl_journal *journal);
