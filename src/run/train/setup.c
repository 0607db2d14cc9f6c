#include "base/memory.h"
#include "plan/family/family.h"
#include "plan/lower/post.h"
#include "plan/pipeline/csv.h"
#include "plan/timing/replay.h"
#include "run/train/path.h"

#include <string.h>
#include <sys/random.h>

_Static_assert(SL_RUN_RAILS_MOST <= SL_TRANSPORT_RAILS, "what a run file may name can be opened");

#define PATIENCE (60 * SL_SECOND) /* for one message, on top of the worst emulated latency */
#define TRACED 400                /* iterations in timeline.json */
#define FIRST_SWAP (5 * SL_MS)    /* estimated cost of a swap until one was measured */

static sl_status read_order(sl_trainer *t, const char *file, sl_plan *plan) {
    sl_order order = {0};
    SL_TRY(sl_order_read_csv(file, &t->problem, &order));
    sl_status status = sl_order_check_ascending(&order);
    if (status == SL_OK)
        status = sl_plan_of_order(&t->problem, &order, "file", plan);
    sl_order_free(&order);
    if (status == SL_OK && !plan->memory_ok)
        status = sl_error(SL_ENONE, "%s: the order exceeds device.memory_mb", file);
    return status;
}

static sl_status make_plan(sl_trainer *t, const sl_binding_sizes *sizes) {
    double *activation, *fixed;
    sl_problem shape = sl_run_shape(t->run);
    SL_TRY(sl_alloc(&activation, (size_t)shape.stages + (size_t)shape.ranks, sizeof *activation));
    fixed = activation + shape.stages;
    for (int stage = 0; stage < shape.stages; stage++)
        activation[stage] = sizes[sl_problem_rank(&shape, stage)].activation_bytes;
    for (int rank = 0; rank < shape.ranks; rank++)
        fixed[rank] = sizes[rank].fixed_bytes;
    sl_status status = sl_run_problem(t->run, activation, fixed, &t->problem);
    sl_free(activation);
    SL_TRY(status);
    const char *schedule = t->run->schedule;
    if (strcmp(schedule, "auto") == 0 || sl_family_find(schedule))
        return sl_plan_make(&t->problem, schedule, &t->plan);
    return read_order(t, schedule, &t->plan);
}

/* sizes[ranks]: all ranks know those of all, so that all make the same problem and the same first plan. */
static sl_status exchange_sizes(sl_trainer *t, sl_binding_sizes *sizes) {
    sl_binding_sizes mine;
    SL_TRY(sl_binding_measure(t->run, t->rank, &mine));
    return sl_group_gather_all(t->group, &mine, sizeof mine, sizes, (size_t)t->ranks * sizeof mine, NULL);
}

/* Most messages of an iteration from one rank to another: each pair of neighbouring stages on two ranks sends
 * an activation there and a gradient back for every microbatch. The same on all ranks. */
static sl_status count_messages(const sl_problem *p, int *most) {
    int *count;
    SL_TRY(sl_alloc(&count, (size_t)p->ranks * (size_t)p->ranks, sizeof *count));
    *most = 1;
    for (int stage = 0; stage + 1 < p->stages; stage++) {
        int a = sl_problem_rank(p, stage), b = sl_problem_rank(p, stage + 1);
        int there = count[a * p->ranks + b] += p->microbatches;
        int back = count[b * p->ranks + a] += p->microbatches;
        if (a != b && (there > *most || back > *most))
            *most = there > back ? there : back;
    }
    sl_free(count);
    return SL_OK;
}

/* The rails of this rank, whether or not it has peers on other hosts: a name that is wrong is so everywhere.
 */
static sl_status listen_on_rails(const sl_run *run, sl_transport_address *mine, int *sockets) {
    sl_status status =
        sl_transport_listen_rails((const char *const *)run->network.rail, run->network.rails, mine, sockets);
    if (status == SL_OK || run->network.rails == 0)
        return status;
    char text[256];
    snprintf(text, sizeof text, "%s", sl_error_text());
    return sl_error(SL_EINVAL, "'network.rails': %s", text);
}

static sl_status open_transport(sl_trainer *t, size_t message_bytes, const sl_place *place) {
    if (t->ranks == 1)
        return SL_OK;
    sl_transport_address mine = {0}, *all;
    int messages;
    SL_TRY(count_messages(&t->problem, &messages));
    sl_transport_config config = {.rank = t->rank,
                                  .ranks = t->ranks,
                                  .clock = t->clock,
                                  .directory = place->temporary,
                                  .message_bytes = message_bytes,
                                  .wire = t->run->wire,
                                  .starter = place->starter,
                                  .rails = (const char *const *)t->run->network.rail,
                                  .rail_count = t->run->network.rails,
                                  .rail_beat = sl_from_ms(t->run->network.beat_ms),
                                  .rail_silence = sl_from_ms(t->run->network.silence_ms),
                                  .outage = sl_from_ms(1e3 * t->run->network.outage_s),
                                  .slots = 2 * messages};
    char *peers = NULL;
    int sockets[SL_TRANSPORT_RAILS];
    SL_TRY(sl_alloc(&all, (size_t)t->ranks, sizeof *all));
    sl_status status = sl_alloc(&peers, (size_t)t->ranks, 1);
    if (status == SL_OK)
        status = listen_on_rails(t->run, &mine, sockets);
    if (status == SL_OK)
        status = sl_group_gather_all(t->group, &mine, sizeof mine, all, (size_t)t->ranks * sizeof mine, NULL);
    if (status == SL_OK && t->rank == 0 && getrandom(config.key, sizeof config.key, 0) != sizeof config.key)
        status = sl_error_errno(SL_ESYS, "no random key for the run");
    if (status == SL_OK)
        status = sl_group_broadcast(t->group, 0, config.key, sizeof config.key);
    for (int r = 0; r < t->ranks && status == SL_OK; r++) {
        peers[r] = (char)sl_run_has_link(t->run, t->rank, r);
        if (t->remote)
            t->remote[r] = strcmp(all[r].host, all[0].host) != 0;
    }
    config.addresses = all;
    config.peers = peers;
    config.rail_sockets = sockets;
    if (status == SL_OK)
        status = sl_transport_open(&config, -1, 30 * SL_SECOND, &t->transport);
    sl_free(all);
    sl_free(peers);
    return status;
}

static sl_status open_records(sl_trainer *t) {
    /* F, I, W in parts, two messages and four moves to host memory or back; twice, so that none is lost.
     * SL_MAX_OPS keeps it within bounds. */
    uint32_t capacity = 64, stages = (uint32_t)(t->problem.stages / t->ranks);
    uint32_t records = (3 * (uint32_t)t->problem.parts + 6) * (uint32_t)t->problem.microbatches * stages;
    while (capacity < 2 * records)
        capacity *= 2;
    SL_TRY(sl_alloc(&t->ring, 1, sl_record_ring_bytes(capacity)));
    if (sl_record_ring_init(t->ring, capacity) != 0)
        return sl_error(SL_EINVAL, "a ring of %u records", capacity);
    t->record_capacity = capacity;
    SL_TRY(sl_alloc(&t->records, capacity, sizeof *t->records));
    if (t->rank != 0)
        return SL_OK;
    t->gathered_capacity = (size_t)capacity * (size_t)t->ranks;
    return sl_alloc(&t->gathered, t->gathered_capacity, sizeof *t->gathered);
}

static sl_status open_rank0(sl_trainer *t, const sl_place *place) {
    double tokens = (double)t->run->batch.microbatches * t->run->batch.size * t->run->model.context;
    if (t->rank != 0)
        return SL_OK;
    SL_TRY(sl_journal_open(place->folder, t->ranks, tokens, t->run->iterations, TRACED, &t->journal));
    const char *how = strcmp(t->plan.schedule, "file") == 0 ? "auto" : t->run->schedule;
    sl_adaptation_config config = {.schedule = how,
                                   .hold = t->run->adaptation.hold,
                                   .dwell = t->run->adaptation.dwell,
                                   .gain = t->run->adaptation.gain,
                                   .delegation = (sl_delegation)t->run->transport,
                                   .queues = t->run->network.queues,
                                   .frozen = !t->run->adapt,
                                   .swap_cost = FIRST_SWAP};
    return sl_adaptation_open(&config, &t->problem, &t->plan, &t->adaptation);
}

/* Receives are posted by what the problem predicts, with the longest op as margin; every rank comes to the
 * same times. */
static sl_status post_receives(const sl_problem *p, const sl_program *program, int32_t *post) {
    sl_timeline predicted;
    sl_time *times, margin = 0;
    SL_TRY(sl_replay(p, program, p->communication, p->queue, &predicted));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        for (int stage = 0; stage < p->stages; stage++)
            margin = p->time[kind][stage] > margin ? p->time[kind][stage] : margin;
    sl_status status = sl_alloc(&times, (size_t)predicted.spans + (size_t)predicted.transfers, sizeof *times);
    for (int i = 0; i < predicted.spans && status == SL_OK; i++)
        times[i] = predicted.span[i].start;
    for (int i = 0; i < predicted.transfers && status == SL_OK; i++)
        times[predicted.spans + i] = predicted.transfer[i].start;
    if (status == SL_OK)
        status = sl_program_post(program, times, times + predicted.spans, margin, post);
    sl_timeline_free(&predicted);
    sl_free(times);
    return status;
}

static sl_status swap_program(sl_trainer *t, const sl_program *program) {
    int32_t *post;
    SL_TRY(sl_alloc(&post, (size_t)program->messages, sizeof *post));
    sl_status status = post_receives(&t->problem, program, post);
    if (status == SL_OK)
        status = sl_engine_swap(t->engine, program, post);
    sl_free(post);
    return status;
}

sl_status sl_trainer_run_order(sl_trainer *t, const sl_order *order) {
    int next = 1 - t->running;
    sl_program_free(&t->program[next]);
    SL_TRY(sl_lower(&t->problem, order, &t->program[next]));
    SL_TRY(swap_program(t, &t->program[next]));
    t->running = next;
    return SL_OK;
}

/* Kernels of different instruction sets give different bits (docs/design.md, rules that keep every bit). */
static sl_status refuse_mixed_hosts(sl_trainer *t) {
    char mine[64] = "", (*all)[64];
    SL_TRY(sl_alloc(&all, (size_t)t->ranks, sizeof *all));
    snprintf(mine, sizeof mine, "%s", sl_binding_isa(t->binding));
    sl_status status =
        sl_group_gather_all(t->group, mine, sizeof mine, all, (size_t)t->ranks * sizeof *all, NULL);
    for (int r = 1; r < t->ranks && status == SL_OK; r++)
        if (strcmp(all[r], all[0]) != 0)
            status = sl_error(SL_ENONE,
                              "rank 0 computes with %s and rank %d with %s: results would not be "
                              "bit-identical; set DNNL_MAX_CPU_ISA alike or leave the host out",
                              all[0], r, all[r]);
    sl_free(all);
    return status;
}

/* An adapted plan may hold more than the first; without a limit all microbatches may be in flight on every
 * stage of the rank. */
static int most_in_flight(const sl_trainer *t, const sl_binding_sizes *mine) {
    int stages = t->problem.stages / t->ranks;
    int in_flight = t->run->adapt ? t->problem.microbatches * stages : t->plan.program.rank[t->rank].buffers;
    if (t->problem.limit && t->problem.limit[t->rank] / mine->activation_bytes < in_flight)
        in_flight = (int)(t->problem.limit[t->rank] / mine->activation_bytes);
    return in_flight;
}

static sl_status open_engine(sl_trainer *t) {
    sl_stage *stage;
    SL_TRY(sl_alloc(&stage, (size_t)t->problem.stages, sizeof *stage));
    sl_binding_stages(t->binding, stage);
    sl_engine_config config = {.rank = t->rank,
                               .clock = t->clock,
                               .transport = t->transport,
                               .ring = t->ring,
                               .stage = stage,
                               .stages = t->problem.stages,
                               .regime = t->problem.communication,
                               .queue = t->problem.queue,
                               .patience = PATIENCE};
    for (int i = 0; i < t->run->faults; i++)
        config.patience += sl_from_ms(t->run->fault[i].latency_ms) * t->problem.microbatches *
                           (t->problem.stages / t->ranks);
    config.patience += sl_from_ms(1e3 * t->run->network.outage_s); /* the transport says it first */
    sl_status status = sl_engine_open(&config, &t->engine);
    sl_free(stage);
    return status;
}

/* sizes[ranks] */
static sl_status open_all(sl_trainer *t, const sl_place *place, sl_binding_sizes *sizes) {
    SL_TRY(exchange_sizes(t, sizes));
    SL_TRY(make_plan(t, sizes));
    int hosted = sl_problem_offloads(&t->problem) ? t->problem.host_limit[t->rank] : 0;
    SL_TRY(sl_binding_open(t->run, t->rank, most_in_flight(t, &sizes[t->rank]), hosted, &t->binding));
    SL_TRY(refuse_mixed_hosts(t));
    SL_TRY(open_transport(t, sizes[t->rank].message_bytes, place));
    SL_TRY(open_records(t));
    SL_TRY(open_engine(t));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        SL_TRY(sl_alloc(&t->paced[kind], (size_t)t->problem.stages, sizeof *t->paced[kind]));
    SL_TRY(sl_alloc(&t->saved, (size_t)t->problem.stages, sizeof *t->saved));
    snprintf(t->schedule, sizeof t->schedule, "%s", t->plan.schedule);
    SL_TRY(open_rank0(t, place));
    SL_TRY(sl_trainer_run_order(t, &t->plan.order));
    int delegates = t->run->network.queues > 0 ? t->run->network.queues : 1;
    return t->run->transport == SL_RUN_DELEGATED ? sl_path_change(t, delegates) : SL_OK;
}

sl_status sl_trainer_open(sl_trainer *t, const sl_place *place) {
    sl_binding_sizes *sizes;
    SL_TRY(sl_alloc(&t->clocks, (size_t)t->ranks, sizeof *t->clocks));
    SL_TRY(sl_alloc(&t->remote, (size_t)t->ranks, sizeof *t->remote));
    SL_TRY(sl_alloc(&sizes, (size_t)t->ranks, sizeof *sizes));
    sl_status status = open_all(t, place, sizes);
    sl_free(sizes);
    return status;
}

void sl_trainer_close(sl_trainer *t) {
    sl_engine_close(t->engine);
    sl_transport_close(t->transport);
    sl_binding_close(t->binding);
    sl_adaptation_close(t->adaptation);
    sl_journal_close(t->journal);
    sl_program_free(&t->program[0]);
    sl_program_free(&t->program[1]);
    sl_plan_free(&t->plan);
    sl_problem_free(&t->problem);
    sl_problem_free(&t->pending_problem);
    sl_timeline_free(&t->pending_timeline);
    sl_arrivals_free(&t->arrivals);
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        sl_free(t->paced[kind]);
    sl_free(t->saved);
    sl_free(t->ring);
    sl_free(t->records);
    sl_free(t->gathered);
    sl_free(t->clocks);
    sl_free(t->remote);
}
