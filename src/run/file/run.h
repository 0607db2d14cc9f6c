/* The run file, the input of `train` (design.md, Files). Read and checked before any process starts, so that
 * a wrong request costs nothing. Also part of the command: it uses neither MPI nor the model. */
#pragma once

#include "adapt/orchestrator/orchestrator.h"
#include "base/config.h"
#include "plan/pipeline/problem.h"

/* A reproducible fault for iterations [first, end), of the processes in these positions when the run begins:
 * a link, a network card, a slow device or host, a death. */
typedef struct sl_fault {
    int item; /* of the file's list */
    int first, end;
    int every, lasts;             /* only in the first `lasts` of every `every` iterations; 0: in all */
    int from, to;                 /* directed link; from -1: none */
    int from_replica, to_replica; /* between these replicas of that rank (from equals to): the connection for
                                     their sums; -1: a link of a pipeline */
    int nic;                      /* the traffic of `rank`, or else of `host`, is slow, not its ops */
    double latency_ms;            /* added; 0: none */
    double bandwidth_gbps;        /* replaces the bandwidth; of a card, shared by all messages; 0: none */
    int per_queue;                /* the bandwidth applies to each queue of the link */
    int rank;                     /* -1: none */
    char *host; /* all ranks on the host of this name, or its card; links with an end on it; NULL: none */
    double slowdown;     /* of that rank's or host's ops; 1: none */
    int kill;            /* rank that dies at `first`; -1: none */
    int replica, tensor; /* limits the fault to these; -1: all. Ranks above are pipeline ranks */
} sl_fault;

/* A manual change from `iteration` on. NULL: unchanged. */
typedef struct sl_run_arrangement {
    int iteration;
    int *position; /* [processes] process at each world rank, by its initial world rank */
    int *split;    /* [parallel.data] microbatches of each replica */
    char *without; /* a host to leave */
} sl_run_arrangement;

#define SL_RUN_RAILS_MAX 8 /* network.rails */

/* Messages are carried by the ranks themselves, by delegates, or by delegates while a link is slow. */
typedef enum sl_run_transport { SL_RUN_DIRECT, SL_RUN_DELEGATED, SL_RUN_AUTO } sl_run_transport;

/* network.auth */
typedef enum sl_run_auth { SL_RUN_AUTH_CONNECTIONS, SL_RUN_AUTH_FRAMES } sl_run_auth;

/* The values of adaptation.strategies, by sl_strategy_kind (adapt/orchestrator/orchestrator.h). */
extern const char *const sl_strategy_keys[SL_STRATEGY_KINDS + 1];

/* device.kind */
typedef enum sl_run_device { SL_RUN_CPU, SL_RUN_CUDA } sl_run_device;

typedef struct sl_run {
    struct {
        int kind, layers, width, heads, context; /* kind: sl_model_kind */
        int kv_heads, hidden, vocabulary, tied;  /* 0: the kind's default */
        double rope_base, norm_epsilon;
        char *weights; /* directory of the weights to start from; NULL: initial ones */
    } model;
    struct {
        char **file; /* patterns */
        int files;
        int tokens; /* sl_data_tokens */
        int64_t seed;
        double held_out;
    } data;
    struct {
        int pipeline, data, tensor, zero;
        int placement, stages, parts; /* sl_placement; defaults to the schedule's */
        int *cut;                     /* [stages] blocks of each; NULL: by cost */
    } parallel;
    struct {
        int microbatches, size; /* microbatches: of all replicas together */
        int *split;             /* [parallel.data] microbatches of each replica */
    } batch;
    struct {
        int kind, warmup;
        double lr, clip, decay;
    } optimizer;
    int iterations;
    char *schedule;
    int adapt;
    int transport;            /* sl_run_transport */
    int communication, queue; /* communication: sl_regime */
    struct {                  /* fifo; as in sl_problem */
        int communicators, receive_buffers;
        double eager_kb;
    } messages;
    struct {
        char **rail; /* interfaces or addresses; none: one rail on the address that other hosts can reach */
        int rails;
        int queues; /* delegates per link and direction; 0: by production and consumption */
        double beat_ms, silence_ms, outage_s;
        int auth; /* sl_run_auth */
    } network;
    int *wire; /* [from * ranks + to] emulated links with one number share a wire; NULL: a wire per link */
    struct {
        int hold, dwell, record;
        double gain, profile_every_s;
        unsigned strategies;                     /* 1 << sl_strategy_kind */
        double balance_s, topology_s, restart_s; /* their costs, until they have been applied */
    } adaptation;
    struct {
        int kind;    /* sl_run_device */
        int card;    /* CUDA: -1: that of `local` */
        int local;   /* number of this rank among those of its host, once they have exchanged their cores */
        int threads; /* 0: auto, until the ranks have exchanged their cores (cores.h) */
        int bind;    /* sl_bind */
        double memory_mb, host_memory_mb, offload_ms;
        int precision;                /* sl_type of matrix products */
        int *recompute;               /* [stages] 1: F keeps only the inputs of blocks; NULL: none */
        double *pace_ms[SL_OP_KINDS]; /* F, I, W, B of every stage; NULL: no pace */
        double *pair_ms;              /* F and B overlapped, of every stage; NULL: no pace */
    } device;
    struct {
        int every, keep; /* iterations, 0: none are written; number kept */
    } checkpoint;
    sl_fault *fault;
    int faults;
    sl_run_arrangement *arrangement; /* by ascending iteration */
    int arrangements;
    int validate_every;
    int dump_gradients; /* number of first iterations */
    int restarts;       /* attempts after the first; -1: see sl_run_restarts */
    struct {
        int on; /* continues on fewer slots than it has ranks (run_layout.h) */
        int min_replicas, min_pipeline;
        double test_every_s;
    } elastic;
    char **host; /* allowed hosts: entries name:slots, or the path of a hostfile; none: not given */
    int hosts;
} sl_run;

/** Reads and checks a run document. SL_EINVAL names file, line and key. Free with sl_run_free, also on error.
 */
sl_status sl_run_read(const sl_document *document, sl_run *run);
void sl_run_free(sl_run *run);

/* ---- the world: every process of the run ----
 *
 * Each (replica, tensor) pair is a separate pipeline. World ranks number tensor ranks first, then replicas,
 * then pipeline ranks, so that tensor ranks, which communicate most, are adjacent (Megatron's order). With
 * one replica and one tensor rank, a world rank is its pipeline rank. */

typedef struct sl_run_position {
    int pipeline, replica, tensor;
} sl_run_position;

/** Processes of the run: pipeline * data * tensor. */
int sl_run_ranks(const sl_run *run);
sl_run_position sl_run_position_of(const sl_run *run, int world_rank);
int sl_run_world_rank(const sl_run *run, sl_run_position position);

/* Bidirectional placement trains two copies of the model, one per direction: stage n of the problem has the
 * weights of stage n % sl_run_model_stages of the model. Ranks r and ranks - 1 - r hold the same stages, as
 * replicas of a rank do: together, these are the holders of a stage. */

int sl_run_copies(const sl_run *run);
/** Stages into which the model is cut: parallel.stages / copies. */
int sl_run_model_stages(const sl_run *run);
/** Ranks that hold the same stages and slices as pipeline rank `rank`: replicas * copies; of an odd number of
 * ranks, the middle one holds both copies itself. */
int sl_run_holders(const sl_run *run, int rank);
/** The lowest pipeline rank that holds the stages of `rank`. */
int sl_run_first_rank(const sl_run *run, int rank);
/** The number of a position among the holders of its stages: by pipeline rank, then by replica. */
int sl_run_holder(const sl_run *run, sl_run_position position);

/** The first global microbatch of a replica: its microbatches follow those of the replicas before it. */
int sl_run_first_microbatch(const sl_run *run, int replica);

/** Whether `schedule` is a file with a plan's JSON, rather than an order's CSV. */
int sl_run_is_plan(const char *schedule);
/** Ranks, stages, placement and parts of this run and the microbatches of a replica, without arrays: for
 * sl_problem_rank and similar functions. Nothing to free. */
sl_problem sl_run_replica_shape(const sl_run *run, int replica);
/** That of replica 0. */
sl_problem sl_run_shape(const sl_run *run);

/** Whether a fault is in force in `iteration`. */
int sl_fault_is_active(const sl_fault *fault, int iteration);

/** Whether ranks `from` and `to` exchange messages in some schedule of this run. */
int sl_run_has_link(const sl_run *run, int from, int to);
/** The same for a problem: messages go between neighboring stages. */
int sl_shape_has_link(const sl_problem *shape, int from, int to);

/** Whether this run starts delegates, or may: `transport` asks for them and there is a peer to send to. */
int sl_run_may_delegate(const sl_run *run);

/** How often the run is restarted after a failure: `restarts`, or 3 if checkpoints are written, else 0. */
int sl_run_restarts(const sl_run *run);

/** Whether checkpoints are written, so that a warned run can save itself. */
int sl_run_saves(const sl_run *run);

/** The planner's problem for a replica of this run: shape and regime from the file, op times from the pace
 * (10 ms each without one: only their ratio matters until they are measured), links free, their
 * messages of unknown size. Of a microbatch, F
 * keeps `forward_bytes[stages]`, I adds `backward_bytes[stages]`, W frees both; `fixed_bytes[ranks]` are
 * permanent, a part of device.memory_mb; host memory for as many as fit into device.host_memory_mb.
 * SL_ENONE: not even one microbatch fits. Free with sl_problem_free, also on error. */
sl_status sl_run_replica_problem(const sl_run *run, int replica, const double *forward_bytes,
                                 const double *backward_bytes, const double *fixed_bytes,
                                 sl_problem *problem);

/** Visits the keys of a run file. */
void sl_run_visit_keys(sl_key_visit visit, void *context);
