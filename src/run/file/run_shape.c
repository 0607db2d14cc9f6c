#include "base/memory.h"
#include "plan/family/family.h"
#include "plan/pipeline/problem_read.h"
#include "run/file/run_inside.h"

#include <stdarg.h>
#include <string.h>

static const sl_yaml *find(const sl_document *document, const char *section, const char *key) {
    return sl_yaml_find(sl_yaml_find(document->root, section), key);
}

sl_status sl_run_refuse(const sl_document *document, const char *section, const char *key, const char *format,
                        ...) {
    char why[256];
    const sl_yaml *map = sl_yaml_find(document->root, section), *node = key ? sl_yaml_find(map, key) : map;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    return sl_yaml_error(node ? node : map ? map : document->root, "%s", why);
}

/* ---- shape ---- */

int sl_run_ranks(const sl_run *run) {
    return run->parallel.pipeline * run->parallel.data * run->parallel.tensor;
}

sl_run_position sl_run_position_of(const sl_run *run, int world_rank) {
    int replicas = run->parallel.data, tensors = run->parallel.tensor;
    return (sl_run_position){.pipeline = world_rank / tensors / replicas,
                             .replica = world_rank / tensors % replicas,
                             .tensor = world_rank % tensors};
}

int sl_run_world_rank(const sl_run *run, sl_run_position position) {
    return (position.pipeline * run->parallel.data + position.replica) * run->parallel.tensor +
           position.tensor;
}

int sl_run_copies(const sl_run *run) {
    return run->parallel.placement == SL_BIDIRECTIONAL ? 2 : 1;
}

int sl_run_model_stages(const sl_run *run) {
    return run->parallel.stages / sl_run_copies(run);
}

int sl_run_holders(const sl_run *run, int rank) {
    const int is_middle = rank == run->parallel.pipeline - 1 - rank;
    return run->parallel.data * (is_middle ? 1 : sl_run_copies(run));
}

int sl_run_first_rank(const sl_run *run, int rank) {
    const int opposite = run->parallel.pipeline - 1 - rank;
    return sl_run_copies(run) > 1 && opposite < rank ? opposite : rank;
}

int sl_run_holder(const sl_run *run, sl_run_position position) {
    const int is_first = sl_run_first_rank(run, position.pipeline) == position.pipeline;
    return (is_first ? 0 : run->parallel.data) + position.replica;
}

int sl_run_first_microbatch(const sl_run *run, int replica) {
    int first = 0;
    for (int r = 0; r < replica; r++)
        first += run->batch.split[r];
    return first;
}

sl_problem sl_run_replica_shape(const sl_run *run, int replica) {
    return (sl_problem){.ranks = run->parallel.pipeline,
                        .stages = run->parallel.stages,
                        .microbatches = run->batch.split[replica],
                        .placement = (sl_placement)run->parallel.placement,
                        .parts = run->parallel.parts};
}

sl_problem sl_run_shape(const sl_run *run) {
    return sl_run_replica_shape(run, 0);
}

int sl_run_may_delegate(const sl_run *run) {
    return run->transport != SL_RUN_DIRECT && run->parallel.pipeline > 1;
}

int sl_run_has_link(const sl_run *run, int from, int to) {
    const sl_problem shape = sl_run_shape(run);
    return sl_shape_has_link(&shape, from, to);
}

int sl_shape_has_link(const sl_problem *shape, int from, int to) {
    for (int stage = 0; stage + 1 < shape->stages && from != to; stage++) {
        int a = sl_problem_rank(shape, stage), b = sl_problem_rank(shape, stage + 1);
        if ((a == from && b == to) || (a == to && b == from))
            return 1;
    }
    return 0;
}

static int is_file(const sl_run *run) {
    return strcmp(run->schedule, "auto") != 0 && !sl_family_find(run->schedule);
}

int sl_run_is_plan(const char *schedule) {
    size_t length = strlen(schedule);
    return (length > 5 && strcmp(schedule + length - 5, ".json") == 0) ||
           (length > 8 && strcmp(schedule + length - 8, ".json.gz") == 0);
}

/* The first placement that the schedule's family is defined for; linear for those that take any. */
static void choose_placement(const sl_document *document, sl_run *run) {
    const sl_family *family = sl_family_find(run->schedule);
    if (find(document, "parallel", "placement") || !family)
        return;
    for (int placement = SL_PLACEMENTS - 1; placement >= 0; placement--)
        if (family->placements & 1u << placement)
            run->parallel.placement = placement;
}

static sl_status check_both_ways(const sl_document *document, const sl_run *run) {
    const int ranks = run->parallel.pipeline, layers = run->model.layers;
    if (ranks < 2)
        return sl_run_refuse(document, "parallel", "pipeline",
                             "must be at least 2 with placement bidirectional, got %d", ranks);
    if (run->parallel.stages != 2 * ranks)
        return sl_run_refuse(document, "parallel", "stages",
                             "must be two for each rank (%d) with placement bidirectional, got %d", 2 * ranks,
                             run->parallel.stages);
    if (ranks > layers)
        return sl_run_refuse(document, "parallel", "pipeline",
                             "of %d ranks is more stages than the model's %d layers", ranks, layers);
    return SL_OK;
}

static sl_status check_stages(const sl_document *document, sl_run *run) {
    const int ranks = run->parallel.pipeline, layers = run->model.layers,
              linear = run->parallel.placement == SL_LINEAR;
    const char *placement = sl_placement_name((sl_placement)run->parallel.placement);
    const sl_yaml *stated = find(document, "parallel", "stages"),
                  *pipeline = find(document, "parallel", "pipeline");
    if (!stated)
        run->parallel.stages = linear ? ranks : 2 * ranks;
    const int stages = run->parallel.stages;
    if (run->parallel.placement == SL_BIDIRECTIONAL)
        return check_both_ways(document, run);
    if (stages < 1 || (linear ? stages != ranks : stages % ranks != 0))
        return sl_run_refuse(document, "parallel", "stages", "must be %s (%d) with placement %s, got %d",
                             linear ? "as many as ranks" : "a multiple of the ranks", ranks, placement,
                             stages);
    if (stages <= layers)
        return SL_OK;
    if (stated)
        return sl_yaml_error(stated, "of %d (placement %s) is more than the model's %d layers", stages,
                             placement, layers);
    if (linear)
        return sl_run_refuse(document, "parallel", "pipeline",
                             "of %d ranks is more stages than the model's %d layers", ranks, layers);
    return sl_yaml_error(pipeline ? pipeline : sl_yaml_find(document->root, "schedule"),
                         "makes %d stages with placement %s, more than the model's %d layers", stages,
                         placement, layers);
}

/* As even as possible unless the file sets it. */
static sl_status choose_split(const sl_document *document, sl_run *run) {
    const sl_yaml *split = find(document, "batch", "split");
    int replicas = run->parallel.data, all = run->batch.microbatches, sum = 0;
    if (split && split->children != replicas)
        return sl_run_refuse(document, "batch", "split", "must have a number for each of %d replicas, has %d",
                             replicas, split->children);
    if (!split && all < replicas)
        return sl_run_refuse(document, "batch", "microbatches",
                             "of %d is less than one for each of %d replicas", all, replicas);
    if (!split)
        SL_TRY(sl_alloc(&run->batch.split, (size_t)replicas, sizeof *run->batch.split));
    for (int r = 0; r < replicas && !split; r++)
        run->batch.split[r] = all / replicas + (r < all % replicas);
    for (int r = 0; r < replicas; r++)
        sum += run->batch.split[r] <= all ? run->batch.split[r] : all;
    return sum == all
               ? SL_OK
               : sl_run_refuse(document, "batch", "split", "must be batch.microbatches (%d) in sum", all);
}

static sl_status check_schedule(const sl_document *document, const sl_run *run, int replica) {
    const sl_family *family = sl_family_find(run->schedule);
    sl_problem shape = sl_run_replica_shape(run, replica);
    if (run->parallel.parts > 1 && is_file(run) && !sl_run_is_plan(run->schedule))
        return sl_run_refuse(document, "parallel", "parts",
                             "needs a planned schedule, or a plan's JSON; the ops of a CSV are whole");
    if ((int64_t)shape.stages * shape.microbatches * 3 * shape.parts > SL_MAX_OPS)
        return sl_run_refuse(document, "batch", "microbatches",
                             "times the stages and parts is more than the planner takes");
    if (!family || sl_family_check(family, &shape) == SL_OK)
        return SL_OK;
    if (run->parallel.data > 1)
        return sl_run_refuse(document, "schedule", NULL, "in replica %d: %.200s", replica, sl_error_text());
    return sl_run_refuse(document, "schedule", NULL, "%s", sl_error_text());
}

sl_status sl_run_check_shape(const sl_document *document, sl_run *run) {
    choose_placement(document, run);
    SL_TRY(check_stages(document, run));
    SL_TRY(choose_split(document, run));
    for (int replica = 0; replica < run->parallel.data; replica++)
        SL_TRY(check_schedule(document, run, replica));
    return SL_OK;
}

/* ---- lists of a value for each stage ---- */

static sl_status check_length(const sl_yaml *node, int stages) {
    if (node->kind != SL_YAML_LIST || node->children != stages)
        return sl_yaml_error(node, "must be a list of one value for each of the %d stages", stages);
    return SL_OK;
}

sl_status sl_run_read_cut(const sl_document *document, sl_run *run) {
    const sl_yaml *node = find(document, "parallel", "cut");
    const int stages = sl_run_model_stages(run);
    int64_t blocks, sum = 0;
    if (!node)
        return SL_OK;
    SL_TRY(check_length(node, stages));
    SL_TRY(sl_alloc(&run->parallel.cut, (size_t)stages, sizeof *run->parallel.cut));
    for (int stage = 0; stage < stages; stage++) {
        if (sl_yaml_int(node->child[stage], 1, run->model.layers, &blocks) != SL_OK)
            return sl_yaml_error(node, "must hold whole numbers of at least 1 (stage %d)", stage);
        run->parallel.cut[stage] = (int)blocks;
        sum += blocks;
    }
    if (sum != run->model.layers)
        return sl_yaml_error(node, "has %lld blocks in all, the model has %d layers", (long long)sum,
                             run->model.layers);
    return SL_OK;
}

sl_status sl_run_read_recompute(const sl_document *document, sl_run *run) {
    const sl_yaml *node = find(document, "device", "recompute");
    const int list = node && node->kind == SL_YAML_LIST, stages = sl_run_model_stages(run);
    if (!node)
        return SL_OK;
    if (list)
        SL_TRY(check_length(node, stages));
    SL_TRY(sl_alloc(&run->device.recompute, (size_t)stages, sizeof *run->device.recompute));
    for (int stage = 0; stage < stages; stage++)
        SL_TRY(sl_yaml_bool(list ? node->child[stage] : node, &run->device.recompute[stage]));
    return SL_OK;
}

/* ---- pace ---- */

static sl_status read_pace_list(const sl_yaml *map, const char *key, int stages, double *values) {
    static const sl_number_range ms = {.least = 1e-3, .most = SL_MAX_OP_MS};
    const sl_yaml *node = sl_yaml_find(map, key);
    return sl_read_numbers(node, stages, "stage", &ms, values);
}

/* Like times_ms of a problem, but no time may be 0, which would mean the duration of the arithmetic. */
sl_status sl_run_read_pace(const sl_document *document, sl_run *run) {
    const sl_yaml *map = find(document, "device", "pace_ms");
    int stages = run->parallel.stages;
    if (!map)
        return SL_OK;
    SL_TRY(sl_check_keys(map, sl_time_keys));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        SL_TRY(sl_alloc(&run->device.pace_ms[kind], (size_t)stages, sizeof(double)));
    SL_TRY(sl_alloc(&run->device.pair_ms, (size_t)stages, sizeof(double)));
    double *const *pace = run->device.pace_ms;
    for (int kind = SL_F; kind <= SL_W; kind++)
        SL_TRY(read_pace_list(map, sl_op_name(kind), stages, pace[kind]));
    for (int stage = 0; stage < stages; stage++)
        pace[SL_B][stage] = pace[SL_I][stage] + pace[SL_W][stage];
    if (sl_yaml_find(map, "B"))
        SL_TRY(read_pace_list(map, "B", stages, pace[SL_B]));
    for (int stage = 0; stage < stages; stage++)
        run->device.pair_ms[stage] = pace[SL_F][stage] + pace[SL_B][stage];
    return sl_yaml_find(map, "FB") ? read_pace_list(map, "FB", stages, run->device.pair_ms) : SL_OK;
}

/* ---- the planner's question ---- */

/* As in the model: F allocates its kept data at its start, I its added data at its start, W frees both at its
 * end. */
static void fill_stage(const sl_run *run, int stage, double forward, double backward, sl_problem *problem) {
    problem->delta[SL_F][stage] = forward;
    problem->start[stage] = problem->early[stage] = backward;
    problem->delta[SL_I][stage] = 0;
    problem->delta[SL_W][stage] = problem->delta[SL_B][stage] = -(forward + backward);
    const int recomputes = run->device.recompute && run->device.recompute[stage % sl_run_model_stages(run)];
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        double ms = run->device.pace_ms[kind] ? run->device.pace_ms[kind][stage] : kind == SL_B ? 20 : 10;
        if (!run->device.pace_ms[kind] && recomputes && (kind == SL_I || kind == SL_B))
            ms += 10;
        problem->time[kind][stage] = sl_from_ms(ms);
    }
    problem->offload[stage] = sl_from_ms(run->device.offload_ms);
    if (run->device.pair_ms)
        problem->saved[stage] =
            problem->time[SL_F][stage] + problem->time[SL_B][stage] - sl_from_ms(run->device.pair_ms[stage]);
}

/* A microbatch occupies all stages of the rank when the first I of them starts. */
static double min_memory(const sl_problem *problem, int rank) {
    double kept = 0, added = 0;
    for (int stage = 0; stage < problem->stages; stage++) {
        if (sl_problem_rank(problem, stage) != rank)
            continue;
        kept += problem->delta[SL_F][stage];
        added = problem->early[stage] > added ? problem->early[stage] : added;
    }
    return kept + added;
}

static sl_status fill_limits(const sl_run *run, const double *fixed_bytes, sl_problem *problem) {
    SL_TRY(sl_alloc(&problem->limit, (size_t)problem->ranks, sizeof *problem->limit));
    for (int rank = 0; rank < problem->ranks; rank++) {
        double least = min_memory(problem, rank);
        problem->limit[rank] = run->device.memory_mb * 1e6 - fixed_bytes[rank];
        if (problem->limit[rank] < least)
            return sl_error(
                SL_ENONE,
                "no schedule fits into device.memory_mb of %g: weights and optimizer take %g MB and one "
                "microbatch %g MB on rank %d",
                run->device.memory_mb, fixed_bytes[rank] / 1e6, least / 1e6, rank);
    }
    return SL_OK;
}

/* As many of a rank's largest activations as fit: each of its stages may need that much. */
static sl_status fill_host(const sl_run *run, sl_problem *problem) {
    SL_TRY(sl_alloc(&problem->host_limit, (size_t)problem->ranks, sizeof *problem->host_limit));
    double all = (double)problem->microbatches * (problem->stages / problem->ranks);
    for (int rank = 0; rank < problem->ranks; rank++) {
        double most = 1;
        for (int stage = 0; stage < problem->stages; stage++)
            if (sl_problem_rank(problem, stage) == rank && sl_problem_kept(problem, stage, 1) > most)
                most = sl_problem_kept(problem, stage, 1);
        double fit = run->device.host_memory_mb * 1e6 / most;
        problem->host_limit[rank] = (int32_t)(fit < all ? fit : all);
    }
    return SL_OK;
}

static void fill_regime(const sl_run *run, sl_problem *problem) {
    problem->communication =
        run->transport == SL_RUN_DELEGATED ? SL_DECOUPLED : (sl_regime)run->communication;
    problem->queue = run->queue;
    if (problem->communication != SL_FIFO)
        return;
    problem->communicators = (sl_communicators)run->messages.communicators;
    problem->receive_buffers = run->messages.receive_buffers;
    problem->eager = run->messages.eager_kb * 1e3;
}

sl_status sl_run_replica_problem(const sl_run *run, int replica, const double *forward_bytes,
                                 const double *backward_bytes, const double *fixed_bytes,
                                 sl_problem *problem) {
    sl_problem shape = sl_run_replica_shape(run, replica);
    SL_TRY(sl_problem_make(shape.ranks, shape.stages, shape.microbatches, problem));
    problem->placement = shape.placement;
    problem->parts = shape.parts;
    fill_regime(run, problem);
    if (run->wire) {
        size_t links = (size_t)shape.ranks * (size_t)shape.ranks;
        SL_TRY(sl_alloc(&problem->wire, links, sizeof *problem->wire));
        memcpy(problem->wire, run->wire, links * sizeof *problem->wire);
    }
    for (int stage = 0; stage < shape.stages; stage++)
        fill_stage(run, stage, forward_bytes[stage], backward_bytes[stage], problem);
    SL_TRY(sl_alloc(&problem->fixed, (size_t)shape.ranks, sizeof *problem->fixed));
    memcpy(problem->fixed, fixed_bytes, (size_t)shape.ranks * sizeof *problem->fixed);
    if (run->device.memory_mb <= 0)
        return SL_OK;
    SL_TRY(fill_limits(run, fixed_bytes, problem));
    return run->device.host_memory_mb > 0 ? fill_host(run, problem) : SL_OK;
}
