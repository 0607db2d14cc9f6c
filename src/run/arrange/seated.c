#include "run/arrange/seated.h"
#include "base/memory.h"
#include "plan/lower/post.h"
#include "plan/timing/replay.h"
#include "run/arrange/run_events.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* The transport of a rank's pipeline: the addresses of its ranks, and the connections to its peers. */

_Static_assert(SL_RUN_RAILS_MAX <= SL_TRANSPORT_RAILS, "what a run file may name can be opened");

/* Max. messages of an iteration from one rank to another: for every microbatch, each pair of neighboring
 * stages on two ranks sends an activation there and a gradient back. The same on all ranks. */
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

/* Opens the rails of this rank even without peers on other hosts, so that a wrong name always fails. */
static sl_status listen_on_rails(const sl_run *run, sl_transport_address *mine, int *sockets) {
    sl_status status =
        sl_transport_listen_rails((const char *const *)run->network.rail, run->network.rails, mine, sockets);
    if (status == SL_OK || run->network.rails == 0)
        return status;
    return sl_error(SL_EINVAL, "'network.rails': %s", sl_error_text());
}

/* Gathers the address of each rank of the world; those of this pipeline go into addresses[ranks]. Without
 * peers, ranks do not listen. */
static sl_status exchange_addresses(sl_trainer *t, const sl_transport_address *mine,
                                    sl_transport_address *addresses) {
    sl_transport_address *all;
    SL_TRY(sl_alloc(&all, (size_t)t->world, sizeof *all));
    sl_status status =
        sl_group_gather_all(t->groups.world, mine, sizeof *mine, all, (size_t)t->world * sizeof *mine, NULL);
    for (int w = 0; w < t->world && status == SL_OK; w++) {
        sl_run_position seat = sl_run_seat(t->run, w);
        t->remote[w] = strcmp(all[w].host, all[t->leader].host) != 0;
        if (seat.replica == t->groups.seat.replica && seat.tensor == t->groups.seat.tensor)
            addresses[seat.pipeline] = all[w];
    }
    sl_free(all);
    return status;
}

/* A pipeline of several has a folder of its own. */
static sl_status choose_directory(const sl_trainer *t, char *directory, size_t size) {
    const sl_run_site *place = t->place;
    const sl_run_position *seat = &t->groups.seat;
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

/* Collective: t->transport for the messages of t->problem, the largest of `message_bytes` (NULL on a
 * pipeline of one rank), and t->remote. */
static sl_status sl_connect(sl_trainer *t, size_t message_bytes) {
    const sl_run_site *place = t->place;
    sl_transport_address alone = {0}, *addresses;
    char directory[512];
    int messages;
    SL_TRY(count_messages(&t->problem, &messages));
    SL_TRY(choose_directory(t, directory, sizeof directory));
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

#define PATIENCE (60 * SL_SECOND) /* for one message, on top of the worst emulated latency */

/* ---- records ---- */

static sl_status open_gathered(sl_trainer *t) {
    sl_rank_reports *g = &t->gathered;
    size_t world = (size_t)t->world;
    g->records_capacity = (size_t)t->record_capacity * world;
    g->reports_capacity =
        world * sizeof(sl_rank_report) + (size_t)t->run->batch.microbatches * sizeof(double);
    SL_TRY(sl_alloc(&g->reports, g->reports_capacity, 1));
    SL_TRY(sl_alloc(&g->report_bytes, world, sizeof *g->report_bytes));
    SL_TRY(sl_alloc(&g->records, g->records_capacity, sizeof *g->records));
    SL_TRY(sl_alloc(&g->record_bytes, world, sizeof *g->record_bytes));
    return sl_alloc(&g->replica, t->record_capacity * (size_t)t->ranks, sizeof *g->replica);
}

static sl_status open_records(sl_trainer *t) {
    /* F, I, W in parts, two messages, four moves to or from host memory, and a reduction and an update per
     * stage; twice, so that none is lost. SL_MAX_OPS bounds it. */
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
    SL_TRY(
        sl_alloc(&t->report, sizeof(sl_rank_report) + (size_t)t->problem.microbatches * sizeof(double), 1));
    return sl_trainer_leads(t) ? open_gathered(t) : SL_OK;
}

static void close_records(sl_trainer *t) {
    sl_rank_reports *g = &t->gathered;
    SL_FREE(g->reports, g->report_bytes, g->records, g->record_bytes, g->replica, t->ring, t->records,
            t->reduction, t->report);
    *g = (sl_rank_reports){0};
    t->ring = NULL;
    t->records = NULL;
    t->reduction = NULL;
    t->report = NULL;
    t->position = t->lost = 0;
}

/* ---- the rank that leads ---- */

static sl_status open_replicas(sl_trainer *t) {
    for (int r = 0; sl_trainer_leads(t) && r < t->run->parallel.data; r++) {
        sl_trainer_replica *replica = &t->replica[r];
        replica->program = &replica->plan.program;
        SL_TRY(sl_alloc(&replica->peak, 2 * (size_t)t->ranks, sizeof *replica->peak));
        replica->peak_before = replica->peak + t->ranks;
    }
    if (sl_trainer_leads(t))
        sl_run_events_name_schedule(t);
    return SL_OK;
}

/* ---- programs ---- */

/* Receives are posted at the times that the problem predicts, with the longest op as margin; every rank
 * computes the same times. */
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
    SL_THEN(status, sl_program_post(program, times, times + predicted.spans, margin, post));
    sl_timeline_free(&predicted);
    sl_free(times);
    return status;
}

static sl_status swap_program(sl_trainer *t, const sl_program *program) {
    int32_t *post;
    SL_TRY(sl_alloc(&post, (size_t)program->messages, sizeof *post));
    sl_status status = post_receives(&t->problem, program, post);
    SL_THEN(status, sl_engine_swap(t->engine, program, post));
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

/* Time of ZeRO's gather of a stage's weights over a slow link between replicas; the stage's first F waits for
 * it. A card may carry the gathers of all processes. */
static sl_time gather_time(const sl_trainer *t, const sl_fault *fault) {
    const int times = fault->nic ? t->world : 1;
    size_t most = 0;
    if (!t->run->parallel.zero || fault->bandwidth_gbps <= 0)
        return 0;
    for (int stage = 0; stage < t->problem.stages; stage++) {
        size_t elements = sl_binding_elements(t->run, stage);
        most = elements > most ? elements : most;
    }
    return sl_from_ms((double)most * times * sizeof(float) * 8 / (fault->bandwidth_gbps * 1e6));
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
    for (int i = 0; i < t->run->faults; i++) /* of a card twice: both ends may pass it */
        config.patience += sl_from_ms(t->run->fault[i].latency_ms) * t->problem.microbatches *
                           (t->problem.stages / t->ranks) * (1 + t->run->fault[i].nic);
    for (int i = 0; i < t->run->faults; i++)
        config.patience += gather_time(t, &t->run->fault[i]);
    config.patience += sl_from_ms(1e3 * t->run->network.outage_s); /* the transport says it first */
    sl_status status = sl_engine_open(&config, &t->engine);
    sl_free(stage);
    return status;
}

/* ---- all of it ---- */

sl_status sl_seated_open(sl_trainer *t) {
    SL_TRY(sl_connect(t, (size_t)t->message_bytes));
    SL_TRY(open_records(t));
    SL_TRY(open_engine(t));
    SL_TRY(open_replicas(t));
    return sl_trainer_run_order(t, &t->first);
}

void sl_seated_close(sl_trainer *t) {
    sl_engine_close(t->engine);
    sl_transport_close(t->transport);
    t->engine = NULL;
    t->transport = NULL;
    close_records(t);
    sl_program_free(&t->program[0]);
    sl_program_free(&t->program[1]);
    sl_order_free(&t->first);
    sl_problem_free(&t->problem);
}
