/* SPDX-License-Identifier: Apache-2.0 */
/* The best ways to train a model on a cluster: the ranks of tensor, context, expert, data and pipeline
 * groups, the cut into stages, their placement, the size of a microbatch, recomputation, ZeRO, what is in
 * host memory, the devices of the ranks and the schedule, with predicted times and a bound that no
 * arrangement can beat (docs/choosing.md).
 *
 * A chooser has the values that must not change and the limits of the search. It reads a model and a cluster
 * and returns choices: a few arrangements, by time, each of which needs less memory than those before it. */
#ifndef SLACKLINE_CHOOSE_H
#define SLACKLINE_CHOOSE_H

#include <slackline/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- choosing ---- */

typedef struct slackline_chooser slackline_chooser;
typedef struct slackline_choices slackline_choices;

/** A chooser for any arrangement: ten seconds of search, at most eight arrangements, all processors. */
slackline_status slackline_chooser_make(slackline_chooser **chooser);
void slackline_chooser_free(slackline_chooser *chooser);
/** Only arrangements with this value, as --fix: "tensor" and "8", "placement" and "wave". SLACKLINE_INVALID
 * lists the names and their values. */
slackline_status slackline_chooser_fix(slackline_chooser *chooser, const char *name, const char *value);
/** Only schedules of this family, and of those allowed before, at most 32; without any call, all orders. */
slackline_status slackline_chooser_allow(slackline_chooser *chooser, const char *schedule);
/** Seconds of the search, 0 to 86,400. */
slackline_status slackline_chooser_set_time_limit(slackline_chooser *chooser, double seconds);
/** Maximum number of arrangements, 1 to 32. */
slackline_status slackline_chooser_set_most(slackline_chooser *chooser, int arrangements);
/** The same seed gives the same rounds of search; their number depends on the time. */
void slackline_chooser_set_seed(slackline_chooser *chooser, uint64_t seed);
/** 0: one per processor, at most 8. */
slackline_status slackline_chooser_set_threads(slackline_chooser *chooser, int threads);

/** From another thread or a signal handler: a running search ends with the best arrangements so far. Later
 * searches of this chooser end at once. */
void slackline_chooser_stop(slackline_chooser *chooser);

/** Reads a model file or a Hugging Face config.json, and a cluster file, and searches. `set`: `sets`
 * assignments KEY=VALUE to the model, applied first; NULL with 0. SLACKLINE_NO_ANSWER: nothing divides the
 * model over the devices, or nothing fits into their memory. Free with slackline_choices_free. */
slackline_status slackline_chooser_read(const slackline_chooser *chooser, const char *model,
                                        const char *cluster, const char *const *set, int sets,
                                        slackline_choices **choices);
/** The same from text; `model_name` and `cluster_name` replace the files in errors. A config.json that the
 * model names is relative to `model_name`. */
slackline_status slackline_chooser_parse(const slackline_chooser *chooser, const char *model_name,
                                         const char *model, const char *cluster_name, const char *cluster,
                                         const char *const *set, int sets, slackline_choices **choices);

/* ---- choices ---- */

typedef struct slackline_choices_summary {
    int arrangements;
    int64_t bound_ns; /* proven: nothing searched can be shorter; 0: stopped before all had a bound */
    double gap;       /* (time of the first - bound) / bound; 0 without a bound */
    int64_t shapes;   /* in the searched space: arrangements without cut and schedule */
    int64_t dismissed, estimated, planned; /* of these: by their bound; by a short plan; completely */
    int64_t solve_ns;                      /* time spent searching */
} slackline_choices_summary;

typedef struct slackline_arrangement {
    int tensor, context, expert, data, pipeline; /* ranks; expert ranks are among the data ranks */
    int chunks;                                  /* stages of a pipeline rank */
    slackline_placement placement;
    int stages, size, microbatches; /* size: sequences of a microbatch; microbatches: of the replica that
                                       takes longest */
    int zero;                       /* 0 to 3 */
    int recomputed_stages;          /* slackline_choices_recomputes has which */
    const char *recompute;          /* of the other stages: "none" or "attention" */
    const char *neighbors; /* devices next to each other in the file: "replicas" of a stage, or "stages" */
    const char *schedule;  /* the texts are owned by the choices */
    int64_t time_ns;       /* of an iteration, update of the weights included */
    int64_t bound_ns;      /* proven: no cut and schedule of this shape is shorter */
    double memory;         /* bytes of the rank that needs most */
    double tokens_per_s;
} slackline_arrangement;

void slackline_choices_free(slackline_choices *choices);
void slackline_choices_summary_of(const slackline_choices *choices, slackline_choices_summary *summary);
/** Arrangement `index`, 0: the shortest. An invalid index gives zeros and NULL. */
void slackline_choices_arrangement(const slackline_choices *choices, int index,
                                   slackline_arrangement *arrangement);
/** The first layer of a stage; for the number of stages: the number of layers; -1: no such stage. */
int slackline_choices_first_layer(const slackline_choices *choices, int index, int stage);
/** Whether a stage recomputes its layers. */
int slackline_choices_recomputes(const slackline_choices *choices, int index, int stage);
/** The bytes of a pipeline rank; 0: no such rank. */
double slackline_choices_memory(const slackline_choices *choices, int index, int rank);

/** What is in host memory: "none", "optimizer", "activations" or "both". NULL: no such arrangement. */
const char *slackline_choices_offload(const slackline_choices *choices, int index);
/** Bytes of host memory of the rank that needs most. */
double slackline_choices_host_memory(const slackline_choices *choices, int index);
/** Microbatches of a replica: fewer on slower devices, if that is faster. 0: no such replica. */
int slackline_choices_microbatches(const slackline_choices *choices, int index, int replica);
/** The device of a rank, counted from 0 in the order of the cluster file. Ranks are numbered as in
 * frameworks: tensor ranks fastest, then context ranks, replicas, pipeline ranks. -1: no such rank. */
int slackline_choices_device(const slackline_choices *choices, int index, int rank);
/** What messages between stages wait for, as in a problem file: "decoupled", "inorder", "batched" or "fifo".
 * *communicators (may be NULL): with "fifo" their kind, such as "pair"; otherwise NULL. NULL: no such
 * arrangement. */
const char *slackline_choices_communication(const slackline_choices *choices, int index,
                                            const char **communicators);

/** The pipeline of one replica as a problem with layers and the chosen cut. Free with
 * slackline_problem_free. */
slackline_status slackline_choices_problem(const slackline_choices *choices, int index,
                                           slackline_problem **problem);
/** Its plan. The update of the weights follows after it. Free with slackline_plan_free. */
slackline_status slackline_choices_plan(const slackline_choices *choices, int index, slackline_plan **plan);

/** All arrangements as text: "text" (a table) or "json" (docs/formats.md). *text is ended by 0 and *size (may
 * be NULL) counts the rest; free it with slackline_free. */
slackline_status slackline_choices_write(const slackline_choices *choices, const char *format, char **text,
                                         size_t *size);

#ifdef __cplusplus
}
#endif
#endif
