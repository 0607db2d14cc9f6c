/* The problem file (docs/formats.md) through config tables: `pipeline:` and its content. */
#include "plan/pipeline/problem_read.h"
#include "base/memory.h"
#include "plan/pipeline/kind.h"
#include "plan/pipeline/layers.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Lists cannot be read before the shape is known, so the tables leave their nodes alone. */
typedef struct problem_request {
    int ranks, stages, microbatches, placement, queue, parts, objective, synchronization;
} problem_request;

static const char *const placements[] = {"linear", "loop", "wave", "bidirectional", NULL};
const char *const sl_objective_names[] = {"makespan", "span", "period", NULL};
const char *const sl_synchronization_names[] = {"none", "update", "norm", NULL};

#define AT(field) offsetof(problem_request, field)

/* A key is a line. */
/* clang-format off */
static const sl_key memory_keys[] = {
    {.name = "delta", .type = SL_KEY_CUSTOM, .section = sl_delta_keys, .help = "memory changes of each op, in bytes or any unit"},
    {.name = "limit", .type = SL_KEY_CUSTOM, .help = "a number or one per rank; absent: no limit"},
    {.name = "fixed", .type = SL_KEY_CUSTOM, .help = "permanent use (weights, optimizer state), part of limit and peak; a number or one per rank; default 0"},
    {.name = "host_limit", .type = SL_KEY_CUSTOM, .help = "activations (what is kept of one microbatch of one stage) that may lie in host memory; a whole number or one per rank; default 0"},
    {.name = "offload_ms", .type = SL_KEY_CUSTOM, .help = "time to move one of them out or back; a number or one per stage; default 0"},
    {0}};
static const sl_key pipeline_keys[] = {
    {.name = "ranks", .type = SL_KEY_INT, .required = 1, .offset = AT(ranks), .minimum = 1, .maximum = SL_MAX_RANKS, .help = "pipeline ranks"},
    {.name = "microbatches", .type = SL_KEY_INT, .required = 1, .offset = AT(microbatches), .minimum = 1, .maximum = SL_MAX_MICROBATCHES, .help = "microbatches of an iteration"},
    {.name = "placement", .type = SL_KEY_CHOICE, .standard = "linear", .offset = AT(placement), .choices = placements, .help = "which rank holds which stage"},
    {.name = "stages", .type = SL_KEY_INT, .standard = "0", .offset = AT(stages), .minimum = 0, .maximum = SL_MAX_STAGES, .help = "model chunks; absent: ranks (linear), 2 * ranks (loop, wave, bidirectional)"},
    {.name = "times_ms", .type = SL_KEY_CUSTOM, .section = sl_time_keys, .help = "op times; required unless there are layers"},
    {.name = "layers", .type = SL_KEY_CUSTOM, .section = sl_layers_keys, .help = "instead of times_ms: costs of layers; the planner cuts them into stages"},
    {.name = "memory", .type = SL_KEY_SECTION, .section = memory_keys},
    {.name = "links", .type = SL_KEY_CUSTOM, .section = sl_links_keys, .help = "latency and occupancy between ranks"},
    {.name = "data_parallel", .type = SL_KEY_CUSTOM, .section = sl_data_parallel_keys, .help = "collectives over the replicas of a stage; those of one rank follow each other"},
    {.name = "recompute", .type = SL_KEY_CUSTOM, .help = "true, false or one per stage: adds F's time to I and B, and F keeps only delta.input; of layers: each keeps its input and is computed again by itself, and auto chooses the stages; default false"},
    {.name = "overhead_ms", .type = SL_KEY_CUSTOM, .section = sl_overhead_keys, .help = "what a runtime adds to each op and message"},
    {.name = "parts", .type = SL_KEY_INT, .standard = "1", .offset = AT(parts), .minimum = 1, .maximum = SL_MAX_PARTS, .help = "sub-blocks that an op may be cut into"},
    {.name = "communication", .type = SL_KEY_CUSTOM, .section = sl_communication_keys, .help = "what messages wait for, and whether sends hold a rank; the regime alone, or a map; default decoupled"},
    {.name = "queue", .type = SL_KEY_INT, .standard = "1", .offset = AT(queue), .minimum = 1, .maximum = 65536, .help = "inorder: sends under way per rank and peer"},
    {.name = "objective", .type = SL_KEY_CHOICE, .standard = "makespan", .offset = AT(objective), .choices = sl_objective_names, .help = "what plans minimize: the time of an iteration; the longest time of a rank from its first op to its last; or the time from iteration to iteration when the order repeats"},
    {.name = "synchronization", .type = SL_KEY_CHOICE, .standard = "update", .offset = AT(synchronization), .choices = sl_synchronization_names, .help = "period: what an iteration waits for besides its rank: nothing; the reduction of each stage, before the stage's first F; a norm over all gradients, so the end of the whole iteration before"},
    {0}};
static const sl_key problem_keys[] = {
    {.name = "pipeline", .type = SL_KEY_SECTION, .required = 1, .section = pipeline_keys},
    {0}};
/* clang-format on */

static sl_status read_stage_times(const sl_yaml *map, sl_problem *p) {
    static const sl_number_range ms = {.least = 0, .most = 3 * SL_MAX_OP_MS};
    SL_TRY(sl_check_keys(map, sl_time_keys));
    SL_TRY(sl_read_op_times(map, p->stages, "stage", p->time));
    const sl_yaml *both = sl_yaml_find(map, "FB");
    if (!both)
        return SL_OK;
    SL_TRY(sl_read_times(both, p->stages, "stage", &ms, p->saved));
    for (int stage = 0; stage < p->stages; stage++)
        p->saved[stage] = p->time[SL_F][stage] + p->time[SL_B][stage] - p->saved[stage];
    return SL_OK;
}

/* Whole numbers; all 0 is the same as an absent key. */
static sl_status read_host_limit(const sl_yaml *node, sl_problem *p) {
    static const sl_number_range range = {.least = 0, .most = SL_MAX_HOST};
    double *held;
    int any = 0;
    sl_status status;
    SL_TRY(sl_alloc(&held, (size_t)p->ranks, sizeof *held));
    SL_TRY_GOTO(done, status, sl_read_numbers(node, p->ranks, "rank", &range, held));
    for (int rank = 0; rank < p->ranks; rank++) {
        if (held[rank] != floor(held[rank]))
            SL_TRY_GOTO(done, status,
                        sl_yaml_error(node, "must be a whole number of activations, got %g", held[rank]));
        any |= held[rank] > 0;
    }
    if (!any)
        goto done;
    SL_TRY_GOTO(done, status, sl_alloc(&p->host_limit, (size_t)p->ranks, sizeof *p->host_limit));
    for (int rank = 0; rank < p->ranks; rank++)
        p->host_limit[rank] = (int32_t)held[rank];
done:
    sl_free(held);
    return status;
}

static sl_status read_offload(const sl_yaml *memory, sl_problem *p) {
    static const sl_number_range ms = {.least = 0, .most = SL_MAX_OP_MS};
    const sl_yaml *host = sl_yaml_find(memory, "host_limit"), *move = sl_yaml_find(memory, "offload_ms");
    if (host)
        SL_TRY(read_host_limit(host, p));
    return move ? sl_read_times(move, p->stages, "stage", &ms, p->offload) : SL_OK;
}

/* Permanent use is subtracted from the limit: the planner considers only the changes by ops. */
static sl_status read_fixed(const sl_yaml *memory, sl_problem *p) {
    static const sl_number_range range = {.least = 0, .most = SL_MAX_MEMORY};
    const sl_yaml *fixed = sl_yaml_find(memory, "fixed");
    if (!fixed)
        return SL_OK;
    if (p->layers)
        return sl_yaml_error(fixed, "belongs in 'layers' (weights) where stages are cut from layers");
    SL_TRY(sl_alloc(&p->fixed, (size_t)p->ranks, sizeof *p->fixed));
    SL_TRY(sl_read_numbers(fixed, p->ranks, "rank", &range, p->fixed));
    for (int rank = 0; p->limit && rank < p->ranks; rank++) {
        if (p->fixed[rank] > p->limit[rank])
            return sl_yaml_error(fixed, "takes %g on rank %d, over its limit of %g", p->fixed[rank], rank,
                                 p->limit[rank]);
        p->limit[rank] -= p->fixed[rank];
    }
    return SL_OK;
}

/* `I_start` of every stage; recomputation adds to it. */
static sl_status read_start(const sl_yaml *delta, sl_problem *p) {
    static const sl_number_range range = {.least = 0, .most = SL_MAX_MEMORY};
    const sl_yaml *start = sl_yaml_find(delta, "I_start");
    if (!start)
        return SL_OK;
    SL_TRY(sl_read_numbers(start, p->stages, "stage", &range, p->start));
    memcpy(p->early, p->start, (size_t)p->stages * sizeof *p->early);
    return SL_OK;
}

static sl_status read_memory(const sl_yaml *memory, sl_problem *p) {
    static const sl_number_range range = {.least = 0, .most = SL_MAX_MEMORY};
    const sl_yaml *delta = sl_yaml_find(memory, "delta"), *limit = sl_yaml_find(memory, "limit");
    if (delta && p->layers)
        return sl_yaml_error(delta, "belongs in 'layers' where stages are cut from layers");
    if (delta) {
        SL_TRY(sl_check_keys(delta, sl_delta_keys));
        SL_TRY(sl_read_deltas(delta, p->stages, "stage", p->delta));
        SL_TRY(read_start(delta, p));
    }
    SL_TRY(read_offload(memory, p));
    if (!limit)
        return read_fixed(memory, p);
    SL_TRY(sl_alloc(&p->limit, (size_t)p->ranks, sizeof *p->limit));
    SL_TRY(sl_read_numbers(limit, p->ranks, "rank", &range, p->limit));
    SL_TRY(read_fixed(memory, p));
    if (!p->layers)
        return SL_OK;
    SL_TRY(sl_alloc(&p->layers->memory, (size_t)p->ranks, sizeof *p->layers->memory));
    memcpy(p->layers->memory, p->limit, (size_t)p->ranks * sizeof *p->limit);
    return SL_OK;
}

/* I and B rerun F and take at their start the memory that F did not keep. */
static void recompute_stage(sl_problem *p, int stage, double input) {
    p->recompute[stage] = 1;
    p->time[SL_I][stage] += p->time[SL_F][stage];
    p->time[SL_B][stage] += p->time[SL_F][stage];
    p->early[stage] = p->start[stage] + (p->delta[SL_F][stage] - input);
    p->delta[SL_F][stage] = input;
}

/* `recompute: auto`: the stages that recompute in the present cut. */
static sl_status read_recomputed(const sl_yaml *node, sl_problem *p) {
    if (node && (node->kind != SL_YAML_LIST || node->children != p->stages))
        return sl_yaml_error(node, "must be a list of %d, one per stage", p->stages);
    for (int stage = 0; node && stage < p->stages; stage++) {
        int wanted;
        if (node->child[stage]->kind != SL_YAML_SCALAR || sl_yaml_bool(node->child[stage], &wanted) != SL_OK)
            return sl_yaml_error(node, "must be a list of true and false");
        p->recompute[stage] = (unsigned char)wanted;
    }
    return SL_OK;
}

static sl_status read_recompute(const sl_yaml *pipeline, sl_problem *p) {
    const sl_yaml *node = sl_yaml_find(pipeline, "recompute"), *memory = sl_yaml_find(pipeline, "memory"),
                  *delta = memory ? sl_yaml_find(memory, "delta") : NULL,
                  *kept = delta ? sl_yaml_find(delta, "input") : NULL,
                  *layers = sl_yaml_find(pipeline, "layers"),
                  *chosen = layers ? sl_yaml_find(layers, "recomputed") : NULL;
    double *input;
    if (node && p->layers && node->kind == SL_YAML_SCALAR && strcmp(node->text, "auto") == 0) {
        if (p->layers->letter)
            return sl_yaml_error(node, "cannot be auto with a layout, which gives the cut");
        p->layers->recompute = 1;
        SL_TRY(read_recomputed(chosen, p));
        sl_problem_cut(p, p->layers->first);
        return SL_OK;
    }
    if (chosen)
        return sl_yaml_error(chosen, "is only for 'recompute: auto'");
    if (node && node->kind == SL_YAML_MAP)
        return sl_yaml_error(node, "must be true, false or a list of %d", p->stages);
    if (node && node->kind == SL_YAML_LIST && node->children != p->stages)
        return sl_yaml_error(node, "must be true, false or a list of %d, one per stage, got %d", p->stages,
                             node->children);
    SL_TRY(sl_alloc(&input, (size_t)p->stages, sizeof *input));
    sl_status status = SL_OK;
    if (kept)
        status = sl_read_numbers(kept, p->stages, "stage",
                                 &(sl_number_range){.least = 0, .most = SL_MAX_MEMORY}, input);
    for (int stage = 0; node && stage < p->stages && status == SL_OK; stage++) {
        int wanted = 0;
        const sl_yaml *item = node->kind == SL_YAML_LIST ? node->child[stage] : node;
        if (item->kind != SL_YAML_SCALAR || sl_yaml_bool(item, &wanted) != SL_OK)
            status = sl_yaml_error(node, "must be true, false or a list of them");
        else if (wanted && p->layers)
            p->recompute[stage] = 1;
        else if (wanted)
            recompute_stage(p, stage, input[stage]);
    }
    if (status == SL_OK && p->layers)
        sl_problem_cut(p, p->layers->first);
    sl_free(input);
    return status;
}

static sl_status check_stages(const sl_yaml *pipeline, problem_request *r) {
    static const int each[SL_PLACEMENTS] = {1, 2, 2, 2};
    const sl_yaml *stages = sl_yaml_find(pipeline, "stages");
    const char *placement = sl_placement_name((sl_placement)r->placement);
    if (!stages)
        r->stages = each[r->placement] * r->ranks;
    switch (r->placement) {
    case SL_LINEAR:
    case SL_BIDIRECTIONAL:
        if (r->stages != each[r->placement] * r->ranks)
            return sl_yaml_error(stages, "must be %s (%d) with placement %s, got %d",
                                 r->placement == SL_LINEAR ? "as many as ranks" : "twice the ranks",
                                 each[r->placement] * r->ranks, placement, r->stages);
        return SL_OK;
    default:
        if (r->stages <= 0 || r->stages % r->ranks != 0)
            return sl_yaml_error(stages ? stages : pipeline,
                                 "must be a multiple of ranks (%d) with placement %s, got %d", r->ranks,
                                 placement, r->stages);
        return SL_OK;
    }
}

static sl_status check_shape(const sl_yaml *pipeline, problem_request *r) {
    SL_TRY(check_stages(pipeline, r));
    if ((int64_t)r->stages * r->microbatches * 3 * r->parts > SL_MAX_OPS)
        return sl_yaml_error(sl_yaml_find(pipeline, "microbatches"),
                             "times stages, kinds and parts makes %lld ops; at most %d",
                             (long long)r->stages * r->microbatches * 3 * r->parts, SL_MAX_OPS);
    if (!sl_yaml_find(pipeline, "times_ms") == !sl_yaml_find(pipeline, "layers"))
        return sl_yaml_error(pipeline, sl_yaml_find(pipeline, "layers")
                                           ? "has 'times_ms' and 'layers'; give one of them"
                                           : "lacks 'times_ms' (or 'layers')");
    return SL_OK;
}

static sl_status read_parts(const sl_yaml *pipeline, sl_problem *p) {
    const sl_yaml *layers = sl_yaml_find(pipeline, "layers"), *memory = sl_yaml_find(pipeline, "memory"),
                  *links = sl_yaml_find(pipeline, "links"), *data = sl_yaml_find(pipeline, "data_parallel"),
                  *communication = sl_yaml_find(pipeline, "communication"),
                  *overhead = sl_yaml_find(pipeline, "overhead_ms");
    if (overhead)
        SL_TRY(sl_read_overhead(overhead, p));
    SL_TRY(layers ? sl_read_layers(layers, p) : read_stage_times(sl_yaml_find(pipeline, "times_ms"), p));
    if (memory)
        SL_TRY(read_memory(memory, p));
    SL_TRY(read_recompute(pipeline, p));
    for (int stage = 0; stage < p->stages && !p->layers; stage++)
        sl_problem_add_overhead(p, stage, 1);
    if (data && p->layers && p->layers->gather)
        return sl_yaml_error(data,
                             "has collectives, and so have layers (reduce_ms, gather_ms); give one of them");
    if (data)
        SL_TRY(sl_read_data_parallel(data, p));
    if (links)
        SL_TRY(sl_read_links(links, p));
    if (communication)
        SL_TRY(sl_read_communication(communication, p));
    return sl_check_total(pipeline, p);
}

/* The order of messages of two iterations on one wire or communicator would depend on their times. */
static sl_status check_objective(const sl_yaml *pipeline, const sl_problem *p) {
    const sl_yaml *objective = sl_yaml_find(pipeline, "objective"),
                  *synchronization = sl_yaml_find(pipeline, "synchronization");
    if (synchronization && p->objective != SL_PERIOD)
        return sl_yaml_error(synchronization, "belongs to objective period");
    if (p->objective != SL_PERIOD || p->synchronization == SL_SYNC_NORM)
        return SL_OK;
    if (p->communication == SL_FIFO)
        return sl_yaml_error(objective, "is period, which regime fifo has only with synchronization norm");
    if (p->wire)
        return sl_yaml_error(objective, "is period, which shared links have only with synchronization norm");
    return SL_OK;
}

sl_status sl_problem_read(const sl_document *document, sl_problem *problem) {
    problem_request r = {0};
    *problem = (sl_problem){0};
    SL_TRY(sl_file_kind_check(document->root, SL_FILE_PROBLEM));
    SL_TRY(sl_config_read(document->root, document->file, problem_keys, &r));
    const sl_yaml *pipeline = sl_yaml_find(document->root, "pipeline");
    SL_TRY(check_shape(pipeline, &r));
    SL_TRY(sl_problem_make(r.ranks, r.stages, r.microbatches, problem));
    problem->placement = (sl_placement)r.placement;
    problem->queue = r.queue;
    problem->parts = r.parts;
    problem->objective = (sl_objective)r.objective;
    problem->synchronization = (sl_synchronization)r.synchronization;
    SL_TRY(read_parts(pipeline, problem));
    return check_objective(pipeline, problem);
}

void sl_problem_visit_keys(sl_key_visit visit, void *context) {
    sl_config_visit(pipeline_keys, "pipeline.", visit, context);
}
