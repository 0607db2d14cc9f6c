#include "base/memory.h"
#include "plan/family/family.h"
#include "plan/lower/post.h"
#include "plan/pipeline/csv.h"
#include "plan/timing/replay.h"
#include "run/binding/reduce.h"
#include "run/journal/profile.h"
#include "run/train/exchange.h"
#include "run/train/path.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(SL_RUN_RAILS_MOST <= SL_TRANSPORT_RAILS, "what a run file may name can be opened");

#define PATIENCE (60 * SL_SECOND) /* for one message, on top of the worst emulated latency */
#define TRACED 400                /* iterations in timeline.json */
#define FIRST_SWAP (5 * SL_MS)    /* estimated cost of a swap until one was measured */
#define FIRST_RATE 1e9            /* bytes/s of a reduction until one was measured */

/* ---- planning: rank 0 for every replica ---- */

static sl_status read_order(const char *file, const sl_problem *problem, sl_plan *plan) {
    sl_order order = {0};
    SL_TRY(sl_order_read_csv(file, problem, &order));
    sl_status status = sl_order_check_ascending(&order);
    if (status == SL_OK)
        status = sl_plan_of_order(problem, &order, "file", plan);
    sl_order_free(&order);
    if (status == SL_OK && !plan->memory_ok)
        status = sl_error(SL_ENONE, "%s: the order exceeds device.memory_mb", file);
    return status;
}

/* The replica's question; the same on all ranks, which know the sizes[ranks] of all. */
static sl_status make_problem(const sl_trainer *t, int replica, const sl_binding_sizes *sizes,
                              sl_problem *problem) {
    double *forward, *backward, *fixed;
    sl_problem shape = sl_run_shape(t->run);
    SL_TRY(sl_alloc(&forward, 2 * (size_t)shape.stages + (size_t)shape.ranks, sizeof *forward));
    backward = forward + shape.stages;
    fixed = backward + shape.stages;
    for (int stage = 0; stage < shape.stages; stage++) {
        forward[stage] = sizes[sl_problem_rank(&shape, stage)].forward_bytes;
        backward[stage] = sizes[sl_problem_rank(&shape, stage)].backward_bytes;
    }
    for (int rank = 0; rank < shape.ranks; rank++)
        fixed[rank] = sizes[rank].fixed_bytes;
    sl_status status = sl_run_replica_problem(t->run, replica, forward, backward, fixed, problem);
    for (int stage = 0; stage < shape.stages && status == SL_OK && t->run->parallel.data > 1; stage++) {
        double bytes = sl_reduce_bytes(sl_binding_elements(t->run, stage), t->run->parallel.data);
        problem->reduce[stage] = sl_from_ms(1e3 * bytes / FIRST_RATE);
    }
    sl_free(forward);
    return status;
}

/* Replicas that have as many microbatches as one before them run its order. */
static sl_status plan_replica(sl_trainer *t, int replica) {
    const char *schedule = t->run->schedule;
    sl_replica *mine = &t->replica[replica];
    for (int r = 0; r < replica; r++)
        if (t->run->batch.split[r] == t->run->batch.split[replica])
            return sl_plan_of_order(&mine->problem, &t->replica[r].plan.order, t->replica[r].plan.schedule,
                                    &mine->plan);
    if (strcmp(schedule, "auto") == 0 || sl_family_find(schedule))
        return sl_plan_make(&mine->problem, schedule, &mine->plan);
    return read_order(schedule, &mine->problem, &mine->plan);
}

static sl_status make_plans(sl_trainer *t, const sl_binding_sizes *sizes) {
    int replicas = t->run->parallel.data;
    SL_TRY(make_problem(t, t->groups.seat.replica, sizes, &t->problem));
    if (sl_trainer_leads(t))
        SL_TRY(sl_alloc(&t->replica, (size_t)replicas, sizeof *t->replica));
    for (int r = 0; r < replicas; r++) {
        sl_problem shape = sl_run_replica_shape(t->run, r);
        sl_order order = {0};
        sl_status status = SL_OK;
        if (sl_trainer_leads(t)) {
            SL_TRY(make_problem(t, r, sizes, &t->replica[r].problem));
            SL_TRY(plan_replica(t, r));
            snprintf(t->replica[r].schedule, sizeof t->replica[r].schedule, "%s",
                     t->replica[r].plan.schedule);
            SL_TRY(sl_order_copy(&t->replica[r].plan.order, &order));
        }
        status = sl_exchange_order(t->groups.world, &shape, &order);
        if (status == SL_OK && r == t->groups.seat.replica)
            t->first = order;
        else
            sl_order_free(&order);
        SL_TRY(status);
    }
    return SL_OK;
}

/* sizes[ranks]: the largest of those that hold the same stages. */
static sl_status exchange_sizes(sl_trainer *t, sl_binding_sizes *sizes) {
    sl_binding_sizes mine, *all;
    SL_TRY(sl_binding_measure(t->run, t->groups.seat, &mine));
    SL_TRY(sl_alloc(&all, (size_t)t->world, sizeof *all));
    sl_status status =
        sl_group_gather_all(t->groups.world, &mine, sizeof mine, all, (size_t)t->world * sizeof mine, NULL);
    for (int w = 0; w < t->world && status == SL_OK; w++) {
        sl_binding_sizes *most = &sizes[sl_run_seat(t->run, w).pipeline];
        if (all[w].forward_bytes > most->forward_bytes)
            most->forward_bytes = all[w].forward_bytes;
        if (all[w].backward_bytes > most->backward_bytes)
            most->backward_bytes = all[w].backward_bytes;
        if (all[w].fixed_bytes > most->fixed_bytes)
            most->fixed_bytes = all[w].fixed_bytes;
        if (all[w].message_bytes > most->message_bytes)
            most->message_bytes = all[w].message_bytes;
    }
    sl_free(all);
    return status;
}

/* ---- connecting ---- */

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

/* Where each rank of the world is; those of this pipeline into addresses[ranks]. Without peers nobody
 * listens. */
static sl_status exchange_addresses(sl_trainer *t, const sl_transport_address *mine,
                                    sl_transport_address *addresses) {
    sl_transport_address *all;
    SL_TRY(sl_alloc(&all, (size_t)t->world, sizeof *all));
    sl_status status =
        sl_group_gather_all(t->groups.world, mine, sizeof *mine, all, (size_t)t->world * sizeof *mine, NULL);
    for (int w = 0; w < t->world && status == SL_OK; w++) {
        sl_seat seat = sl_run_seat(t->run, w);
        t->remote[w] = strcmp(all[w].host, all[0].host) != 0;
        if (seat.replica == t->groups.seat.replica && seat.tensor == t->groups.seat.tensor)
            addresses[seat.pipeline] = all[w];
    }
    sl_free(all);
    return status;
}

/* A pipeline of several has a folder of its own. */
static sl_status choose_directory(const sl_trainer *t, const sl_place *place, char *directory, size_t size) {
    const sl_seat *seat = &t->groups.seat;
    int written = snprintf(directory, size, "%s", place->temporary);
    if (t->world == t->ranks)
        return SL_OK;
    written = snprintf(directory, size, "%s/%d.%d", place->temporary, seat->replica, seat->tensor);
    if (written < 0 || (size_t)written >= size)
        return sl_error(SL_EINVAL, "%s: the path is too long", place->temporary);
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        return sl_error_errno(SL_ESYS, "%s: cannot be made", directory);
    return SL_OK;
}

static sl_status connect_peers(sl_trainer *t, sl_transport_config *config, sl_transport_address *addresses) {
    char *peers;
    int sockets[SL_TRANSPORT_RAILS];
    sl_transport_address mine = {0};
    SL_TRY(listen_on_rails(t->run, &mine, sockets));
    SL_TRY(exchange_addresses(t, &mine, addresses));
    if (t->rank == 0 && getrandom(config->key, sizeof config->key, 0) != sizeof config->key)
        return sl_error_errno(SL_ESYS, "no random key for the run");
    SL_TRY(sl_group_broadcast(t->groups.pipeline, 0, config->key, sizeof config->key));
    SL_TRY(sl_alloc(&peers, (size_t)t->ranks, 1));
    for (int r = 0; r < t->ranks; r++)
        peers[r] = (char)sl_run_has_link(t->run, t->rank, r);
    config->addresses = addresses;
    config->peers = peers;
    config->rail_sockets = sockets;
    sl_status status = sl_transport_open(config, -1, 30 * SL_SECOND, &t->transport);
    sl_free(peers);
    return status;
}

static sl_status open_transport(sl_trainer *t, size_t message_bytes, const sl_place *place) {
    sl_transport_address alone = {0}, *addresses;
    char directory[512];
    int messages;
    SL_TRY(count_messages(&t->problem, &messages));
    SL_TRY(choose_directory(t, place, directory, sizeof directory));
    sl_transport_config config = {.rank = t->rank,
                                  .ranks = t->ranks,
                                  .clock = t->clock,
                                  .directory = directory,
                                  .message_bytes = message_bytes,
                                  .wire = t->run->wire,
                                  .starter = place->starter,
                                  .rails = (const char *const *)t->run->network.rail,
                                  .rail_count = t->run->network.rails,
                                  .rail_beat = sl_from_ms(t->run->network.beat_ms),
                                  .rail_silence = sl_from_ms(t->run->network.silence_ms),
                                  .outage = sl_from_ms(1e3 * t->run->network.outage_s),
                                  .slots = 2 * messages};
    SL_TRY(sl_alloc(&addresses, (size_t)t->ranks, sizeof *addresses));
    sl_status status;
    if (t->ranks > 1)
        status = connect_peers(t, &config, addresses);
    else if (gethostname(alone.host, sizeof alone.host - 1) != 0)
        status = sl_error_errno(SL_ESYS, "this host has no name that fits");
    else
        status = exchange_addresses(t, &alone, addresses);
    sl_free(addresses);
    return status;
}

/* ---- records ---- */

static sl_status open_gathered(sl_trainer *t) {
    sl_gathered *g = &t->gathered;
    size_t world = (size_t)t->world;
    g->records_capacity = (size_t)t->record_capacity * world;
    g->reports_capacity = world * sizeof(sl_report) + (size_t)t->run->batch.microbatches * sizeof(double);
    SL_TRY(sl_alloc(&g->reports, g->reports_capacity, 1));
    SL_TRY(sl_alloc(&g->report_bytes, world, sizeof *g->report_bytes));
    SL_TRY(sl_alloc(&g->records, g->records_capacity, sizeof *g->records));
    SL_TRY(sl_alloc(&g->record_bytes, world, sizeof *g->record_bytes));
    return sl_alloc(&g->replica, t->record_capacity * (size_t)t->ranks, sizeof *g->replica);
}

static sl_status open_records(sl_trainer *t) {
    /* F, I, W in parts, two messages and four moves to host memory or back, and a reduction and an update a
     * stage; twice, so that none is lost. SL_MAX_OPS keeps it within bounds. */
    uint32_t capacity = 64, stages = (uint32_t)(t->problem.stages / t->ranks), most = 0;
    for (int r = 0; r < t->run->parallel.data; r++)
        if ((uint32_t)t->run->batch.split[r] > most)
            most = (uint32_t)t->run->batch.split[r];
    uint32_t records = (3 * (uint32_t)t->problem.parts + 6) * most * stages + 2 * stages;
    while (capacity < 2 * records)
        capacity *= 2;
    SL_TRY(sl_alloc(&t->ring, 1, sl_record_ring_bytes(capacity)));
    if (sl_record_ring_init(t->ring, capacity) != 0)
        return sl_error(SL_EINVAL, "a ring of %u records", capacity);
    t->record_capacity = capacity;
    SL_TRY(sl_alloc(&t->records, capacity, sizeof *t->records));
    SL_TRY(sl_alloc(&t->reduction, stages, sizeof *t->reduction));
    SL_TRY(sl_alloc(&t->report, sizeof(sl_report) + (size_t)t->problem.microbatches * sizeof(double), 1));
    return sl_trainer_leads(t) ? open_gathered(t) : SL_OK;
}

/* ---- rank 0 ---- */

static sl_status open_replica(sl_trainer *t, sl_replica *replica) {
    const char *how = strcmp(replica->plan.schedule, "file") == 0 ? "auto" : t->run->schedule;
    sl_adaptation_config config = {.schedule = how,
                                   .hold = t->run->adaptation.hold,
                                   .dwell = t->run->adaptation.dwell,
                                   .gain = t->run->adaptation.gain,
                                   .delegation = (sl_delegation)t->run->transport,
                                   .queues = t->run->network.queues,
                                   .frozen = !t->run->adapt,
                                   .swap_cost = FIRST_SWAP};
    replica->program = &replica->plan.program;
    SL_TRY(sl_alloc(&replica->peak, 2 * (size_t)t->ranks, sizeof *replica->peak));
    replica->peak_before = replica->peak + t->ranks;
    return sl_adaptation_open(&config, &replica->problem, &replica->plan, &replica->adaptation);
}

static sl_status open_rank0(sl_trainer *t, const sl_place *place) {
    double tokens = (double)t->run->batch.microbatches * t->run->batch.size * t->run->model.context;
    size_t replicas = (size_t)t->run->parallel.data;
    sl_journal_layout layout = {.pipeline = t->ranks,
                                .data = t->run->parallel.data,
                                .tensor = t->run->parallel.tensor,
                                .zero = t->run->parallel.zero};
    if (!sl_trainer_leads(t))
        return SL_OK;
    SL_TRY(sl_journal_open(place->folder, t->resume.asked ? t->resume.first : -1, layout, tokens,
                           t->run->iterations, TRACED, &t->journal));
    SL_TRY(sl_resume_report(&t->resume, t->journal));
    SL_TRY(sl_alloc(&t->pending_problem, replicas, sizeof *t->pending_problem));
    SL_TRY(sl_localiser_open(t->ranks, t->problem.stages, (int)replicas, &t->localiser));
    SL_TRY(sl_alloc(&t->pending_timeline, replicas, sizeof *t->pending_timeline));
    for (size_t r = 0; r < replicas; r++)
        SL_TRY(open_replica(t, &t->replica[r]));
    sl_terminal terminal;
    sl_terminal_find(&terminal);
    SL_TRY(sl_progress_open(stdout, &terminal, t->clock, &t->problem, t->run->device.pace_ms[SL_F] != NULL,
                            t->run->iterations, tokens, &t->progress));
    SL_TRY(sl_alloc(&t->ping, (size_t)t->ranks * (size_t)t->ranks, sizeof *t->ping));
    sl_judge_name_schedule(t);
    return SL_OK;
}

/* ---- programs ---- */

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
    SL_TRY(sl_alloc(&all, (size_t)t->world, sizeof *all));
    snprintf(mine, sizeof mine, "%s", sl_binding_isa(t->binding));
    sl_status status =
        sl_group_gather_all(t->groups.world, mine, sizeof mine, all, (size_t)t->world * sizeof *all, NULL);
    for (int r = 1; r < t->world && status == SL_OK; r++)
        if (strcmp(all[r], all[0]) != 0)
            status = sl_error(SL_ENONE,
                              "rank 0 computes with %s and rank %d with %s: results would not be "
                              "bit-identical; set DNNL_MAX_CPU_ISA alike or leave the host out",
                              all[0], r, all[r]);
    sl_free(all);
    return status;
}

/* What the first order holds at once on this rank. */
static sl_status count_buffers(const sl_trainer *t, int *buffers) {
    sl_program program;
    SL_TRY(sl_lower(&t->problem, &t->first, &program));
    *buffers = program.rank[t->rank].buffers;
    sl_program_free(&program);
    return SL_OK;
}

/* An adapted plan may hold more than the first; without a limit all microbatches may be in flight on every
 * stage of the rank. */
static sl_status most_in_flight(const sl_trainer *t, int *in_flight) {
    SL_TRY(count_buffers(t, in_flight));
    if (t->run->adapt)
        *in_flight = t->problem.microbatches * (t->problem.stages / t->ranks);
    return SL_OK;
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
    int in_flight;
    SL_TRY(exchange_sizes(t, sizes));
    SL_TRY(make_plans(t, sizes));
    SL_TRY(most_in_flight(t, &in_flight));
    int hosted = sl_problem_offloads(&t->problem) ? t->problem.host_limit[t->rank] : 0;
    SL_TRY(sl_binding_open(t->run, &t->groups, in_flight, hosted, &t->binding));
    SL_TRY(refuse_mixed_hosts(t));
    t->message_bytes = (double)sizes[t->rank].message_bytes;
    SL_TRY(sl_resume_open(t->run, place->folder, place->resume, t->binding, t->groups.world, &t->resume));
    SL_TRY(sl_saving_open(t->run, place->folder, t->resume.first, t->binding, t->groups.world, &t->saving));
    SL_TRY(open_transport(t, sizes[t->rank].message_bytes, place));
    SL_TRY(open_records(t));
    SL_TRY(open_engine(t));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        SL_TRY(sl_alloc(&t->paced[kind], (size_t)t->problem.stages, sizeof *t->paced[kind]));
    SL_TRY(sl_alloc(&t->saved, (size_t)t->problem.stages, sizeof *t->saved));
    SL_TRY(open_rank0(t, place));
    SL_TRY(sl_trainer_run_order(t, &t->first));
    int delegates = t->run->network.queues > 0 ? t->run->network.queues : 1;
    if (t->run->transport == SL_RUN_DELEGATED)
        SL_TRY(sl_path_change(t, delegates));
    for (int r = 0; t->replica && r < t->run->parallel.data; r++)
        t->replica[r].delegates = t->delegates;
    return SL_OK;
}

sl_status sl_trainer_open(sl_trainer *t, const sl_place *place) {
    sl_binding_sizes *sizes;
    t->rank = t->groups.seat.pipeline;
    t->ranks = t->run->parallel.pipeline;
    SL_TRY(sl_alloc(&t->clocks, (size_t)t->world, sizeof *t->clocks));
    SL_TRY(sl_alloc(&t->remote, (size_t)t->world, sizeof *t->remote));
    SL_TRY(sl_alloc(&sizes, (size_t)t->ranks, sizeof *sizes));
    sl_status status = open_all(t, place, sizes);
    sl_free(sizes);
    return status;
}

static void close_rank0(sl_trainer *t) {
    for (int r = 0; t->replica && r < t->run->parallel.data; r++) {
        sl_adaptation_close(t->replica[r].adaptation);
        sl_plan_free(&t->replica[r].plan);
        sl_problem_free(&t->replica[r].problem);
        sl_free(t->replica[r].peak);
    }
    for (int r = 0; t->pending_problem && r < t->run->parallel.data; r++)
        sl_problem_free(&t->pending_problem[r]);
    for (int r = 0; t->pending_timeline && r < t->run->parallel.data; r++)
        sl_timeline_free(&t->pending_timeline[r]);
    sl_journal_close(t->journal);
    sl_progress_close(t->progress);
    sl_free(t->ping);
    sl_arrivals_free(&t->arrivals);
    sl_localiser_close(t->localiser);
    sl_free(t->replica);
    sl_free(t->pending_problem);
    sl_free(t->pending_timeline);
    sl_free(t->gathered.reports);
    sl_free(t->gathered.report_bytes);
    sl_free(t->gathered.records);
    sl_free(t->gathered.record_bytes);
    sl_free(t->gathered.replica);
}

void sl_trainer_close(sl_trainer *t) {
    sl_saving_close(t->saving);
    sl_resume_close(&t->resume);
    sl_engine_close(t->engine);
    sl_transport_close(t->transport);
    sl_binding_close(t->binding);
    close_rank0(t);
    sl_program_free(&t->program[0]);
    sl_program_free(&t->program[1]);
    sl_order_free(&t->first);
    sl_problem_free(&t->problem);
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        sl_free(t->paced[kind]);
    sl_free(t->saved);
    sl_free(t->ring);
    sl_free(t->records);
    sl_free(t->reduction);
    sl_free(t->report);
    sl_free(t->clocks);
    sl_free(t->remote);
}
