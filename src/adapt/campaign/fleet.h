/* A fleet: a job on many hosts for months, while hosts fail, slow down and are repaired. It answers what a
 * cluster's owner asks: the goodput of a job with each strategy, how many spare hosts pay, how often to take
 * a checkpoint, and what it brings to notice slow hosts.
 *
 * Faults are those of a cluster's log (fleet_csv.c), or drawn (fleet_draw.c), or both. A fault has a host, a
 * kind, a start and an end. fleet_play.c plays one strategy from change to change, so its effort depends on
 * the number of faults, not on the time. fleet.c plays all strategies on several placements of the job and
 * varies the number of spares and the checkpoint interval. docs/formats.md describes the model.
 *
 * A campaign (campaign.h) simulates each iteration of a pipeline; a fleet has no iterations, and how much
 * longer a job takes with a slow host is given.
 *
 * Nothing here reads a clock: the same inputs give the same result. */
#pragma once

#include "base/config.h"
#include "base/time.h"

#include <stddef.h>
#include <stdint.h>

#define SL_FLEET_HOSTS 100000
#define SL_FLEET_FAULTS 1000000
#define SL_FLEET_RUNS 10000
#define SL_FLEET_POINTS 32

/* By effect. Slow kinds are last. */
typedef enum sl_fleet_kind {
    SL_FLEET_STOP,  /* the host fails, and a job on it stops */
    SL_FLEET_AWAY,  /* the host is tested or taken out: a start cannot use it, but a running job continues */
    SL_FLEET_WARN,  /* the host works without its reserve: a start prefers others */
    SL_FLEET_PCIE,  /* slow: fewer lanes between device and host */
    SL_FLEET_NIC,   /* slow: its network card */
    SL_FLEET_PEER,  /* slow: between its devices */
    SL_FLEET_HEAT,  /* slow: its devices throttle */
    SL_FLEET_DRAWN, /* slow: drawn instead of logged */
    SL_FLEET_KINDS
} sl_fleet_kind;

#define SL_FLEET_SLOW SL_FLEET_PCIE /* the first slow kind */

/** Names of the kinds in files and tables, NULL at the end. */
extern const char *const sl_fleet_kind_names[];

typedef struct sl_fleet_fault {
    int host;
    sl_fleet_kind kind;
    sl_time first, until; /* ns; until: its end, SL_TIME_NEVER: none is known */
} sl_fleet_fault;

/* A cause that the log names, to check how it was understood. */
typedef struct sl_fleet_cause {
    char text[160]; /* "level, class, description" */
    sl_fleet_kind kind;
    int known; /* a word decided; else it counts as a stop */
    int faults;
    sl_time lasted; /* in total, of those with an end */
} sl_fleet_cause;

typedef struct sl_fleet_word {
    char *word;
    sl_fleet_kind kind;
} sl_fleet_word;

/* Where the time of a job goes. The parts add up to the time of the job exactly. */
typedef enum sl_fleet_part {
    SL_FLEET_USEFUL, /* iterations at the healthy speed that are never repeated */
    SL_FLEET_SLOWER, /* what the same iterations took longer because of slow hosts */
    SL_FLEET_SAVING, /* checkpoints */
    SL_FLEET_REWORK, /* everything since the last checkpoint, when the job stops */
    SL_FLEET_RESTARTING,
    SL_FLEET_CHECKING, /* of hosts, before a start */
    SL_FLEET_WAITING,  /* for hosts */
    SL_FLEET_PARTS
} sl_fleet_part;

typedef struct sl_fleet {
    int hosts, spares; /* spares: of these; the job has the others */
    sl_time duration;  /* ns of the job, or until `work` is done */
    sl_time work;      /* ns of iterations at the healthy speed; 0: no end but `duration` */
    sl_time restart, check, notice;
    sl_time save, every;            /* a checkpoint, and the work between two; every 0: Daly's optimum */
    double slow[SL_FLEET_KINDS];    /* factor of the job's time with a slow host; 1 for other kinds */
    double failure_days, slow_days; /* mean time between drawn faults of a host; 0: none */
    double repair_hours; /* mean of drawn repairs; with a log, instead of its ends; 0: only the log's ends */
    double slow_hours;
    int crews;    /* repairs at the same time, first come first served; 0: any number */
    int runs;     /* placements of the job, each with its own drawn faults */
    int in_order; /* the job begins on the first hosts; else its hosts are drawn */
    uint64_t seed;
    sl_fleet_fault *fault; /* [faults] of the log, by start */
    size_t faults, fault_room;
    sl_time log_end; /* last line of the log */
    sl_fleet_cause *cause;
    size_t causes, cause_room;
    sl_fleet_word *word; /* of the file, before those of fleet_csv.c */
    size_t words, word_room;
    int try_spares[SL_FLEET_POINTS], spare_points;
    sl_time try_every[SL_FLEET_POINTS];
    int every_points;
} sl_fleet;

/* ---- files */

extern const sl_key sl_fleet_keys[];

/** Whether a document has a fleet, or a CSV is a log of faults of hosts. */
int sl_fleet_is(const sl_document *document);
int sl_fleet_csv_is(const char *text);

/** Reads a campaign file with the section `fleet` (docs/formats.md), with the log that it names, or the log
 * `csv` (NULL: none). SL_EINVAL names file, line and key. Free with sl_fleet_free, also on error. */
sl_status sl_fleet_read(const sl_document *document, const char *csv, sl_fleet *fleet);
/** Adds the faults of a log; `name` names it in messages. Changes `text`. SL_EINVAL names file and line. */
sl_status sl_fleet_read_csv(const char *name, char *text, sl_fleet *fleet);
void sl_fleet_free(sl_fleet *fleet);

/** The kind of a fault by the words of its cause; *known 0: no word decides, and it is a stop. Never fails.
 */
sl_fleet_kind sl_fleet_kind_of(const sl_fleet *fleet, const char *text, int *known);

/* ---- one strategy */

typedef struct sl_fleet_strategy {
    const char *name;
    int swaps;   /* replaces failed hosts by spares; else waits for their repair */
    int checks;  /* checks the hosts before each start, which finds slow ones */
    int notices; /* notices slow hosts in the running job and replaces them when that pays */
} sl_fleet_strategy;

#define SL_FLEET_STRATEGIES 5
extern const sl_fleet_strategy sl_fleet_strategies[SL_FLEET_STRATEGIES];

typedef struct sl_fleet_outcome {
    sl_time wall, part[SL_FLEET_PARTS];
    int stops, starts, replaced; /* starts: without the first; replaced: starts because of slow hosts */
    int is_done;                 /* `work` was done */
} sl_fleet_outcome;

/** The faults of run `run`: the log's and the drawn ones, by start. Free *fault with sl_free. SL_EINVAL: too
 * many. */
sl_status sl_fleet_draw(const sl_fleet *fleet, int run, sl_fleet_fault **fault, size_t *faults);

/** Plays a strategy on the faults of a run; every > 0. */
sl_status sl_fleet_play(const sl_fleet *fleet, const sl_fleet_strategy *strategy, int run,
                        const sl_fleet_fault *fault, size_t faults, sl_fleet_outcome *outcome);

/* ---- all of them */

typedef struct sl_fleet_row {
    const char *name;
    double part[SL_FLEET_PARTS];          /* share of the job's time, mean over runs; [0] is the goodput */
    double error;                         /* twice the standard error of the goodput; 0 for one run */
    double wall, stops, starts, replaced; /* means; wall in ns */
    int done;                             /* runs whose work was done */
} sl_fleet_row;

typedef struct sl_fleet_point {
    int spares;
    sl_time every;
    double goodput[SL_FLEET_STRATEGIES], error[SL_FLEET_STRATEGIES];
} sl_fleet_point;

typedef struct sl_fleet_result {
    sl_fleet_row row[SL_FLEET_STRATEGIES];
    double
        between_stops;   /* mean time between stops of the job with spares, without waiting, ns; 0: no stop */
    sl_time young, daly; /* optimal intervals for it; 0: no stop, or checkpoints cost nothing */
    sl_time every;       /* that of the rows */
    sl_fleet_point spare[SL_FLEET_POINTS], interval[SL_FLEET_POINTS];
    int spares, intervals;
    int best_spares, best_interval; /* points with the most work, for the last strategy */
    long long changes;              /* simulated */
} sl_fleet_result;

/** Plays all strategies, and varies spares and interval. */
sl_status sl_fleet_run(const sl_fleet *fleet, sl_fleet_result *result);

/** Optimal time between two checkpoints that take `save` if a job stops every `mean` on average: Young 1974
 * (first order) and Daly 2006 (equation 37, higher order). Never fails. */
double sl_fleet_young(double save, double mean);
double sl_fleet_daly(double save, double mean);
