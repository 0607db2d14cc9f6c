/* A campaign: a long training job of any size, simulated under a trace of faults with several strategies, so
 * that one sees before the job runs what each is worth.
 *
 * The pipeline of a replica is a problem (plan/pipeline); the job has replicas of it, each position held by a
 * device (or a group of tensor ranks). Faults make devices, links and NICs slow for a while or stop the job.
 * How long an iteration takes says the one timing model: the replay of every replica's plan with what is slow
 * in it, rings over the replicas included (adapt/model). Iterations that are alike are replayed once. What is
 * measured goes to the orchestrator that `train` asks, too, and what that says is done, at its cost: what a
 * campaign says is what a run would do. Nothing here reads a clock: the same inputs give the same result.
 *
 * What is modelled, and what is not, stands in src/adapt/README.md. */
#pragma once

#include "adapt/orchestrator/orchestrator.h"

#define SL_CAMPAIGN_FAULTS 20000
#define SL_CAMPAIGN_ITERATIONS 100000000
#define SL_CAMPAIGN_POSITIONS 1000000
#define SL_CAMPAIGN_FAMILIES 8
#define SL_FAULT_LASTS INT64_MAX

typedef enum sl_campaign_fault_kind {
    SL_FAULT_LINK,   /* between devices a and b, in both directions */
    SL_FAULT_DEVICE, /* ops of devices a to b */
    SL_FAULT_NIC,    /* whatever devices a to b send or receive */
    SL_FAULT_STOP    /* the job stops and is restarted from a checkpoint */
} sl_campaign_fault_kind;

/* Devices are numbered by the position where they sit at first: replica + replicas * rank. A device is all
 * tensor ranks of a position: the slowest holds up the others. */
typedef struct sl_campaign_fault {
    sl_campaign_fault_kind kind;
    int64_t first, until; /* iterations, or ns of the job's time; until: the first that is well again */
    int a, b;
    double slowdown; /* DEVICE: ops take so many times as long; LINK, NIC: transfers */
    sl_time latency; /* LINK, NIC: one way, absolute; what a healthy link has where that is more */
    sl_time stop;    /* STOP: what it costs; negative: what a restart costs */
    int is_rail;     /* STOP: a NIC was lost; who has delegates goes on over another */
    char seen[96];   /* for people */
} sl_campaign_fault;

typedef struct sl_campaign {
    sl_problem problem; /* of one replica, healthy */
    int replicas, tensor, iterations;
    int by_time;      /* faults are in ns instead of iterations */
    sl_time duration; /* ns; where given, iterations follow: as many as a healthy job makes; 0: not given */
    char *schedule;   /* the job's first */
    char *adapt_with; /* family of new plans, or auto */
    int families;     /* beside the job's own, each never changed: "zero-bubble" */
    char *family[SL_CAMPAIGN_FAMILIES];
    int families_may_fail; /* they are the default: what does not fit this pipeline is left out */
    double gradient;       /* bytes that one rank has in its ring; 0: reduce_ms of the problem is the ring */
    double ring_latency, ring_pace; /* ns, ns a byte, of a link of the ring */
    int notice; /* iterations that a change must last: the orchestrator's `hold`, at least 1, at most 32 */
    int host_devices;  /* devices of a host, tensor ranks counted one by one */
    sl_time other;     /* of every iteration, beside the pipelines and rings */
    sl_time delegated; /* more latency on the delegated path */
    sl_time cost[SL_STRATEGY_KINDS], undo[SL_STRATEGY_KINDS], profile;
    double effort; /* of the topology's search */
    uint64_t seed; /* of drawn faults and the topology's search */
    sl_ladder_config ladder;
    sl_campaign_fault *fault; /* [faults] by `first` */
    size_t faults, fault_room;
    size_t drawn;    /* of them, from published rates */
    char about[160]; /* how they were drawn */
} sl_campaign;

/** Ready with defaults and no faults; `problem` is copied. Free with sl_campaign_free, also on error. */
sl_status sl_campaign_make(const sl_problem *problem, sl_campaign *campaign);
void sl_campaign_free(sl_campaign *campaign);

/** Reads a campaign file (docs/formats.md), with the CSV that it names, and another one (`csv`, or NULL).
 * SL_EINVAL names file, line and key. Free with sl_campaign_free, also on error. */
sl_status sl_campaign_read(const sl_document *document, const sl_problem *problem, const char *csv,
                           sl_campaign *campaign);
/** Adds the faults of a CSV (campaign_csv.c); `name` stands for it in messages. */
sl_status sl_campaign_read_csv(const char *name, char *text, sl_campaign *campaign);
/** Adds one fault; SL_EINVAL (no file, no line) when it makes no sense for this job. */
sl_status sl_campaign_add(sl_campaign *campaign, const sl_campaign_fault *fault);
/** Adds a fault that comes in spells, as a device that throttles: for `lasts` from its beginning and again
 * whenever `every` has passed, until it ends, each spell as a fault of its own. No more than the job's given
 * length has: iterations, or four times its duration, as a slow job lasts longer. SL_EINVAL likewise: a pause
 * is missing, there are too many, or neither fault nor job has an end. */
sl_status sl_campaign_add_spells(sl_campaign *campaign, const sl_campaign_fault *fault, int64_t every,
                                 int64_t lasts);
/** The hosts of the job: devices are numbered tensor rank fastest, then replica, then rank. */
int sl_campaign_hosts(const sl_campaign *campaign);
/** The first and the last position of `host`, as faults name them. */
void sl_campaign_host_range(const sl_campaign *campaign, int host, int *first, int *last);
/** The config tables, as Markdown. */
void sl_campaign_document(FILE *out);

/* ---- the result */

typedef struct sl_campaign_stretch {
    int iteration, count; /* count 0: the job stands still */
    sl_time start, each;  /* of an iteration; of the stop */
} sl_campaign_stretch;

typedef struct sl_campaign_row {
    char name[48];
    sl_time total, paid; /* paid: what strategies and stops cost, in `total` */
    sl_time worst;       /* longest iteration */
    int applied[SL_STRATEGY_KINDS], undone, stops;
    sl_campaign_stretch *stretch;
    size_t stretches, stretch_room;
    char *log; /* the orchestrator's decisions; NULL: there is none, or they were not asked for */
} sl_campaign_row;

typedef struct sl_campaign_result {
    sl_time healthy; /* an iteration of the job's schedule without faults */
    int iterations;
    sl_campaign_row *row;
    int rows;
    long long states, replays, plans; /* iterations that differ; replicas that were replayed; plans made */
} sl_campaign_result;

/** Simulates every strategy; `log`: keep the decisions. SL_EINVAL: a family that does not fit; SL_ENONE: a
 * plan that the memory does not take. Free with sl_campaign_result_free, also on error. */
sl_status sl_campaign_run(const sl_campaign *campaign, int log, sl_campaign_result *result);
void sl_campaign_result_free(sl_campaign_result *result);

/** Share of the slowdown of the row "ignore" that `row` does not have: 1 as if healthy, 0 as if ignored. 0
 * where nothing was lost. Never fails. */
double sl_campaign_recovered(const sl_campaign_result *result, const sl_campaign_row *row);
