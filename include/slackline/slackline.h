/* slackline as a library: pipeline schedules for training, planned, proven and timed.
 *
 * A problem says how long the ops of each stage take, what they do to memory, and what the links between
 * ranks are like; it is read from YAML (docs/formats.md) or filled in here. A planner makes plans of
 * problems: a schedule, its timing and a bound that no schedule can beat. All handles are opaque and owned by
 * the caller.
 *
 * Nothing is kept outside the handles: several threads may plan at once, each with its own planner or with a
 * shared one, from the same problem as long as none of them changes it. Times are int64 nanoseconds (`_ns`);
 * ranks, stages and microbatches count from 0. What fails returns a status, leaves its result NULL or
 * untouched, and says why in slackline_error() of the same thread. Nothing is ever printed. */
#ifndef SLACKLINE_SLACKLINE_H
#define SLACKLINE_SLACKLINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; slackline_version() is that of the library. */
#define SLACKLINE_VERSION_MAJOR 0
#define SLACKLINE_VERSION_MINOR 1
#define SLACKLINE_VERSION_PATCH 0

/** "0.1.0". */
const char *slackline_version(void);

typedef enum slackline_status {
    SLACKLINE_OK = 0,
    SLACKLINE_INVALID,   /* a wrong request: a file, a key, an argument, an order that is no schedule */
    SLACKLINE_NO_ANSWER, /* a valid request without an answer: no schedule fits into the memory limit */
    SLACKLINE_NO_MEMORY,
    SLACKLINE_SYSTEM /* a system call or another program failed */
} slackline_status;

/** Why the last call of this thread that failed did so; never NULL, valid until the next failure. */
const char *slackline_error(void);

/* ---- problems ---- */

typedef struct slackline_problem slackline_problem;

typedef enum slackline_placement {
    SLACKLINE_LINEAR,       /* stage s on rank s */
    SLACKLINE_LOOP,         /* s mod ranks */
    SLACKLINE_WAVE,         /* 0..R-1, R-1..0, .. */
    SLACKLINE_BIDIRECTIONAL /* two pipelines in opposite directions, 2 * ranks stages */
} slackline_placement;

typedef enum slackline_kind {
    SLACKLINE_F,      /* forward */
    SLACKLINE_I,      /* backward for the input */
    SLACKLINE_W,      /* backward for the weights */
    SLACKLINE_B,      /* full backward */
    SLACKLINE_GATHER, /* collectives of a stage over its replicas: in timelines only */
    SLACKLINE_REDUCE
} slackline_kind;

typedef enum slackline_regime {
    SLACKLINE_DECOUPLED, /* sends never hold a rank */
    SLACKLINE_INORDER,   /* a send holds one of `queue` places of its rank and peer until it has arrived */
    SLACKLINE_BATCHED    /* what an op sends and the next one receives complete together */
} slackline_regime;

/** Reads a problem file. `set`: `sets` assignments KEY=VALUE by dotted path, applied first; NULL with 0. */
slackline_status slackline_problem_read(const char *file, const char *const *set, int sets,
                                        slackline_problem **problem);
/** The same from text; `name` stands for the file in errors. */
slackline_status slackline_problem_parse(const char *name, const char *text, const char *const *set, int sets,
                                         slackline_problem **problem);
/** A problem of this shape: `stages` 0 takes the placement's default (ranks for linear, else twice the
 * ranks). All times and links are 0, F takes one unit of memory and W or B gives it back, without a limit. */
slackline_status slackline_problem_make(slackline_placement placement, int ranks, int stages,
                                        int microbatches, slackline_problem **problem);
void slackline_problem_free(slackline_problem *problem);

int slackline_problem_ranks(const slackline_problem *problem);
int slackline_problem_stages(const slackline_problem *problem);
int slackline_problem_microbatches(const slackline_problem *problem);
/** The rank that holds a stage; -1 where there is no such stage. */
int slackline_problem_rank(const slackline_problem *problem, int stage);

/** Time of an op of one stage, 0 to 1e15 ns. B follows I + W until it is set itself. */
slackline_status slackline_problem_set_time(slackline_problem *problem, int stage, slackline_kind kind,
                                            int64_t time_ns);
/** Memory change of an op of one stage, in any unit: F's when it starts, the others' when they end. B follows
 * I + W until it is set itself. */
slackline_status slackline_problem_set_memory(slackline_problem *problem, int stage, slackline_kind kind,
                                              double delta);
/** The memory of a rank; ranks that are never set have no limit. */
slackline_status slackline_problem_set_limit(slackline_problem *problem, int rank, double limit);
/** The link of one direction: a message occupies it for `transfer_ns` and arrives `latency_ns` later. */
slackline_status slackline_problem_set_link(slackline_problem *problem, int from, int to, int64_t latency_ns,
                                            int64_t transfer_ns);
/** Collectives of a stage: before its first F, after its last W or B. */
slackline_status slackline_problem_set_collectives(slackline_problem *problem, int stage, int64_t gather_ns,
                                                   int64_t reduce_ns);
/** `queue`: places, 1 to 65536; used by the inorder regime. */
slackline_status slackline_problem_set_regime(slackline_problem *problem, slackline_regime regime, int queue);

/* ---- planning ---- */

typedef struct slackline_planner slackline_planner;
typedef struct slackline_plan slackline_plan;

/** The name of schedule `index` (0: auto, 1: optimal, then the families); NULL behind the last. */
const char *slackline_schedule_name(int index);

/** A planner for auto: at most a second of search, every processor, the exact solver where OR-tools is found.
 */
slackline_status slackline_planner_make(slackline_planner **planner);
void slackline_planner_free(slackline_planner *planner);
slackline_status slackline_planner_set_schedule(slackline_planner *planner, const char *name);
/** Seconds of search for auto and optimal, 0 to 1e6; it ends earlier when the plan is proven. */
slackline_status slackline_planner_set_time_limit(slackline_planner *planner, double seconds);
/** Same seed, same rounds of search; how many there are depends on the time. */
void slackline_planner_set_seed(slackline_planner *planner, uint64_t seed);
/** 0: as many as processors, at most 8. */
slackline_status slackline_planner_set_threads(slackline_planner *planner, int threads);
/** Whether to ask OR-tools CP-SAT (in a child process, slackline-solver). */
void slackline_planner_set_exact(slackline_planner *planner, int wanted);

/** Plans. The plan keeps what it needs of the problem. With layers it chooses the cut too. Free with
 * slackline_plan_free. */
slackline_status slackline_planner_plan(const slackline_planner *planner, const slackline_problem *problem,
                                        slackline_plan **plan);

/* ---- anybody's order ---- */

typedef struct slackline_op {
    int32_t stage, microbatch;
    int32_t kind;   /* slackline_kind */
    int32_t part;   /* of the problem's parts; 0 where ops are whole */
    int32_t paired; /* F: overlapped with the B behind it */
} slackline_op;

/** Checks and times an order: ops[rank][0 .. count[rank] - 1]. Over the memory limit is no error here: see
 * memory_ok. */
slackline_status slackline_simulate(const slackline_problem *problem, const slackline_op *const *ops,
                                    const int *count, slackline_plan **plan);
/** The same for an order in a CSV file of PyTorch's pipelining, compute_only or compute_comms. */
slackline_status slackline_simulate_csv(const slackline_problem *problem, const char *file,
                                        slackline_plan **plan);

/* ---- plans ---- */

typedef struct slackline_summary {
    const char *schedule, *why; /* owned by the plan */
    int64_t makespan_ns;        /* from the first F to the last op or reduction */
    int64_t span_ns;            /* largest over ranks of last end - first start */
    int64_t bound_ns;           /* proven: no schedule of the problem is shorter */
    double gap;                 /* (makespan - bound) / bound; 0: optimal */
    double bubble;              /* 1 - work / (ranks * makespan) */
    int memory_ok;
    int64_t solve_ns;
} slackline_summary;

typedef struct slackline_span {
    int32_t rank;
    slackline_op op; /* collectives have microbatch -1 */
    int64_t start_ns, end_ns;
} slackline_span;

typedef struct slackline_transfer {
    int32_t from, to; /* ranks */
    slackline_op op;  /* that made the message */
    int64_t start_ns, end_ns, arrive_ns;
} slackline_transfer;

void slackline_plan_free(slackline_plan *plan);
void slackline_plan_summary(const slackline_plan *plan, slackline_summary *summary);
/** Ops, then collectives; ops by rank in the rank's order. */
size_t slackline_plan_spans(const slackline_plan *plan);
slackline_span slackline_plan_span(const slackline_plan *plan, size_t index);
size_t slackline_plan_transfers(const slackline_plan *plan);
slackline_transfer slackline_plan_transfer(const slackline_plan *plan, size_t index);
/** How many ops a rank runs, and which at a place of its order. */
int slackline_plan_ops(const slackline_plan *plan, int rank);
slackline_op slackline_plan_op(const slackline_plan *plan, int rank, int position);
/** Forwards before the first backward. */
int slackline_plan_warmup(const slackline_plan *plan, int rank);
double slackline_plan_peak_memory(const slackline_plan *plan, int rank);
/** Largest one-way delay that the link between ranks `link` and `link` + 1 absorbs, linear placement, ns. */
int64_t slackline_plan_tolerance(const slackline_plan *plan, int link);

/* ---- asking a plan more; what was asked also appears in its JSON ---- */

typedef struct slackline_jitter {
    int draws;
    double mean_ns;
    int64_t least_ns, p10_ns, p50_ns, p90_ns, p99_ns, most_ns;
} slackline_jitter;

/** The distribution of the makespan when delays jitter, over 1 to 10,000,000 draws. */
slackline_status slackline_plan_jitter(slackline_plan *plan, int draws, uint64_t seed,
                                       slackline_jitter *jitter);

typedef struct slackline_losses {
    int64_t work_ns;        /* of a rank, on average; all of these add up to the makespan */
    int64_t imbalance_ns;   /* more on the busiest rank */
    int64_t fill_ns;        /* left idle by the order, even on free links */
    int64_t collectives_ns; /* gathers and reductions that nothing hides */
    int64_t dependency_ns;  /* waiting for delayed messages */
    int64_t blocking_ns;    /* ranks held by their messages */
    int links, ops;         /* how many costs there are, see below */
} slackline_losses;

/** Where the time goes; O((links + stages) * ops). */
slackline_status slackline_plan_explain(slackline_plan *plan, slackline_losses *losses);
/** After slackline_plan_explain: what a millisecond more on link `index` costs the makespan, in ms. */
double slackline_plan_link_cost(const slackline_plan *plan, int index, int *from, int *to);
/** After slackline_plan_explain: what a millisecond more on every op of a stage and kind costs, in ms. */
double slackline_plan_op_cost(const slackline_plan *plan, int index, int *stage, slackline_kind *kind);

/** The plan as text: "json", "csv", "csv-comms", "svg", "html" or "trace" (docs/formats.md). *text is ended
 * by 0 and *size (may be NULL) counts the rest; free it with slackline_free. */
slackline_status slackline_plan_write(const slackline_plan *plan, const char *format, char **text,
                                      size_t *size);
void slackline_free(void *pointer);

#ifdef __cplusplus
}
#endif
#endif
