/* A campaign: simulates a long training job of any size under a trace of faults with several strategies, to
 * compare them before the job runs.
 *
 * The pipeline of a replica is a problem (plan/pipeline); the job has replicas of it, each position held by a
 * device (or a group of tensor ranks). Faults slow devices, links and NICs for a while or stop the job. The
 * timing model gives the iteration time: the replay of every replica's plan with its slow components,
 * including rings over the replicas (adapt/model). Equal iterations are replayed once. Measurements go to the
 * same orchestrator that `train` uses, and its actions are carried out at their cost: a campaign decides like
 * a run. Nothing here reads a clock: the same inputs give the same result.
 *
 * src/adapt/README.md describes the model and its limits. */
#pragma once

#include "adapt/orchestrator/orchestrator.h"
#include "base/config.h"

#define SL_CAMPAIGN_FAULTS 20000
#define SL_CAMPAIGN_ITERATIONS 100000000
#define SL_CAMPAIGN_POSITIONS 1000000
#define SL_CAMPAIGN_FAMILIES 8
#define SL_FAULT_LASTS INT64_MAX

typedef enum sl_campaign_fault_kind {
    SL_FAULT_LINK,   /* between devices a and b, in both directions */
    SL_FAULT_DEVICE, /* ops of devices a to b */
    SL_FAULT_NIC,    /* everything that devices a to b send or receive */
    SL_FAULT_STOP    /* the job stops and is restarted from a checkpoint */
} sl_campaign_fault_kind;

/* Devices are numbered by their first positions: replica + replicas * rank. A device is all tensor ranks of a
 * position: the slowest delays the others. */
typedef struct sl_campaign_fault {
    sl_campaign_fault_kind kind;
    int64_t first, until; /* iterations, or ns of job time; until: the first healthy one */
    int a, b;
    double slowdown; /* DEVICE: factor of op times; LINK, NIC: of transfer times */
    sl_time latency; /* LINK, NIC: one way, absolute; at least that of the healthy link */
    sl_time stop;    /* STOP: cost; negative: the cost of a restart */
    int is_rail;     /* STOP: a NIC was lost; with delegates the job continues on another */
    char seen[96];   /* for users */
} sl_campaign_fault;

typedef struct sl_campaign {
    sl_problem problem; /* of one replica, healthy */
    int replicas, tensor, iterations;
    int by_time;      /* faults are in ns instead of iterations */
    sl_time duration; /* ns; sets iterations to those of a healthy job; 0: not given */
    char *schedule;   /* the job's first */
    char *adapt_with; /* family of new plans, or auto */
    int families;     /* in addition to the job's own, each never changed: "zero-bubble" */
    char *family[SL_CAMPAIGN_FAMILIES];
    int families_may_fail; /* the default list: omits families that do not fit this pipeline */
    double gradient;       /* bytes of one rank in its ring; 0: reduce_ms of the problem is the ring */
    double ring_latency, ring_pace; /* ns, ns per byte, of a link of the ring */
    int notice; /* iterations that a change must last: the orchestrator's `hold`, at least 1, at most 32 */
    int host_devices;  /* devices per host, counting each tensor rank */
    sl_time other;     /* per iteration, in addition to the pipelines and rings */
    sl_time delegated; /* additional latency of the delegated path */
    sl_time cost[SL_STRATEGY_KINDS], undo[SL_STRATEGY_KINDS], profile;
    double effort; /* of the topology search */
    uint64_t seed; /* of drawn faults and the topology search */
    sl_ladder_config ladder;
    sl_campaign_fault *fault; /* [faults] by `first` */
    size_t faults, fault_room;
    size_t drawn;    /* of these, from published rates */
    char about[160]; /* how they were drawn */
} sl_campaign;

/** Ready with defaults and no faults; `problem` is copied. Free with sl_campaign_free, also on error. */
sl_status sl_campaign_make(const sl_problem *problem, sl_campaign *campaign);
void sl_campaign_free(sl_campaign *campaign);

/** Reads a campaign file (docs/formats.md), with the CSV that it names, and another one (`csv`, or NULL).
 * SL_EINVAL names file, line and key. Free with sl_campaign_free, also on error. */
sl_status sl_campaign_read(const sl_document *document, const sl_problem *problem, const char *csv,
                           sl_campaign *campaign);
/** Adds the faults of a CSV (campaign_csv.c); `name` names it in messages. */
sl_status sl_campaign_read_csv(const char *name, char *text, sl_campaign *campaign);
/** Adds one fault; SL_EINVAL (without file and line): invalid for this job. */
sl_status sl_campaign_add(sl_campaign *campaign, const sl_campaign_fault *fault);
/** Adds a fault that recurs in spells, such as a throttling device: each spell lasts `lasts` and the next
 * starts `every` after its start, until the end of the fault; each is a separate fault. Spells stop at the
 * job's given length: its iterations, or four times its duration, because a slow job takes longer. SL_EINVAL
 * as above: no pause, too many spells, or no end of fault and job. */
sl_status sl_campaign_add_spells(sl_campaign *campaign, const sl_campaign_fault *fault, int64_t every,
                                 int64_t lasts);
/** The number of hosts: devices are numbered tensor rank fastest, then replica, then rank. */
int sl_campaign_hosts(const sl_campaign *campaign);
/** The first and the last position of `host`, as faults name them. */
void sl_campaign_host_range(const sl_campaign *campaign, int host, int *first, int *last);
/** Visits the keys of a campaign file. */
void sl_campaign_visit_keys(sl_key_visit visit, void *context);

/* ---- the result */

typedef struct sl_campaign_stretch {
    int iteration, count; /* count 0: the job is stopped */
    sl_time start, each;  /* of an iteration, or of the stop */
} sl_campaign_stretch;

typedef struct sl_campaign_row {
    char name[48];
    sl_time total, paid; /* paid: cost of strategies and stops, included in `total` */
    sl_time worst;       /* longest iteration */
    int applied[SL_STRATEGY_KINDS], undone, stops;
    sl_campaign_stretch *stretch;
    size_t stretches, stretch_room;
    char *log;    /* the orchestrator's decisions; NULL: none, or not requested */
    char *events; /* its events, a JSON object per line; the same */
} sl_campaign_row;

typedef struct sl_campaign_result {
    sl_time healthy; /* an iteration of the job's schedule without faults */
    int iterations;
    sl_campaign_row *row;
    int rows;
    long long states, replays, plans; /* distinct iterations; replayed replicas; plans made */
} sl_campaign_result;

/** Simulates every strategy; `log`: keep the decisions. SL_EINVAL: a family that does not fit; SL_ENONE: a
 * plan that does not fit into memory. Free with sl_campaign_result_free, also on error. */
sl_status sl_campaign_run(const sl_campaign *campaign, int log, sl_campaign_result *result);
void sl_campaign_result_free(sl_campaign_result *result);

/** Share of the slowdown of the row "ignore" that `row` avoids: 1 if healthy, 0 if as slow as ignored, 0 if
 * nothing was lost. Never fails. */
double sl_campaign_recovered(const sl_campaign_result *result, const sl_campaign_row *row);
