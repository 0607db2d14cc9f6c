#include "run/arrange/rank_open.h"
#include "base/memory.h"
#include "plan/lower/deadlock.h"
#include "plan/lower/post.h"
#include "plan/timing/replay.h"
#include "run/arrange/iterate.h"
#include "run/arrange/rank_state.h"

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
        sl_run_position position = sl_run_position_of(t->run, w);
        t->state->remote[w] = strcmp(all[w].host, all[t->leader].host) != 0;
        if (position.replica == t->groups.position.replica && position.tensor == t->groups.position.tensor)
            addresses[position.pipeline] = all[w];
    }
    sl_free(all);
    return status;
}

/* A pipeline of several has a folder of its own. */
static sl_status choose_directory(const sl_trainer *t, char *directory, size_t size) {
    const sl_run_site *site = t->site;
    const sl_run_position *position = &t->groups.position;
    int written = snprintf(directory, size, "%s", site->temporary);
    if (t->world == t->ranks)
        return SL_OK;
    written = snprintf(directory, size, "%s/%d.%d", site->temporary, position->replica, position->tensor);
    if (written < 0 || (size_t)written >= size)
        return sl_error(SL_EINVAL, "%s: the path is too long", site->temporary);
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
    sl_status status = sl_transport_open(config, -1, 30 * SL_SECOND, &t->state->transport);
    sl_free(peers);
    return status;
}

/* Collective: t->state->transport for the messages of t->state->problem, the largest of `message_bytes` (NULL
 * on a pipeline of one rank), and t->state->remote. */
static sl_status sl_connect(sl_trainer *t, size_t message_bytes) {
    const sl_run_site *site = t->site;
    sl_transport_address alone = {0}, *addresses;
    char directory[512];
    int messages;
    SL_TRY(count_messages(&t->state->problem, &messages));
    SL_TRY(choose_directory(t, directory, sizeof directory));
    sl_transport_config config = {.rank = t->rank,
                                  .ranks = t->ranks,
                                  .clock = t->clock,
                                  .directory = directory,
                                  .message_bytes = message_bytes,
                                  .wire = t->run->wire,
                                  .starter = site->starter,
                                  .rails = (const char *const *)t->run->network.rail,
                                  .rail_count = t->run->network.rails,
                                  .rail_beat = sl_from_ms(t->run->network.beat_ms),
                                  .rail_silence = sl_from_ms(t->run->network.silence_ms),
                                  .outage = sl_from_ms(1e3 * t->run->network.outage_s),
                                  .proves = t->run->network.auth == SL_RUN_AUTH_FRAMES,
                                  .clears = t->state->problem.communication == SL_FIFO,
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

/* ---- programs ---- */

/* Receives are posted at the times that the problem predicts, with the longest op as margin; every rank
 * computes the same times. */
static sl_status post_receives(const sl_problem *p, const sl_program *program, int32_t *post) {
    sl_timeline predicted;
    sl_time *times, margin = 0;
    sl_status status;
    SL_TRY(sl_replay(p, program, p->communication, p->queue, &predicted));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        for (int stage = 0; stage < p->stages; stage++)
            margin = p->time[kind][stage] > margin ? p->time[kind][stage] : margin;
    SL_TRY_GOTO(free_timeline, status,
                sl_alloc(&times, (size_t)predicted.spans + (size_t)predicted.transfers, sizeof *times));
    for (int i = 0; i < predicted.spans; i++)
        times[i] = predicted.span[i].start;
    for (int i = 0; i < predicted.transfers; i++)
        times[predicted.spans + i] = predicted.transfer[i].start;
    status = sl_program_post(program, times, times + predicted.spans, margin, post);
    sl_free(times);
free_timeline:
    sl_timeline_free(&predicted);
    return status;
}

/* Regime fifo: the order of messages, which cannot stop the ranks. */
static sl_status issue_messages(sl_trainer *t, const sl_program *program) {
    const sl_problem *p = &t->state->problem;
    sl_issuer *issuer;
    if (p->communication != SL_FIFO)
        return SL_OK;
    SL_TRY(sl_issuer_open(program, &issuer));
    sl_status status = sl_issuer_run(issuer);
    SL_THEN(status, sl_deadlock_check(&(sl_cells){.problem = p, .program = program, .issuer = issuer}));
    SL_THEN(status, sl_engine_issue(t->state->engine, p, issuer));
    sl_issuer_close(issuer);
    return status;
}

static sl_status swap_program(sl_trainer *t, const sl_program *program) {
    int32_t *post;
    SL_TRY(sl_alloc(&post, (size_t)program->messages, sizeof *post));
    sl_status status = post_receives(&t->state->problem, program, post);
    SL_THEN(status, sl_engine_swap(t->state->engine, program, post));
    SL_THEN(status, issue_messages(t, program));
    sl_free(post);
    return status;
}

sl_status sl_rank_state_run_order(sl_trainer *t, const sl_order *order) {
    int next = 1 - t->state->running;
    sl_program_free(&t->state->program[next]);
    SL_TRY(sl_lower(&t->state->problem, order, &t->state->program[next]));
    SL_TRY(swap_program(t, &t->state->program[next]));
    t->state->running = next;
    return SL_OK;
}

/* Time of ZeRO's gather of a stage's weights over a slow link between replicas; the stage's first F waits for
 * it. A card may carry the gathers of all processes. */
static sl_time gather_time(const sl_trainer *t, const sl_fault *fault) {
    const int times = fault->nic ? t->world : 1;
    size_t most = 0;
    if (!t->run->parallel.zero || fault->bandwidth_gbps <= 0)
        return 0;
    for (int stage = 0; stage < t->state->problem.stages; stage++) {
        size_t elements = sl_binding_elements(t->run, stage);
        most = elements > most ? elements : most;
    }
    return sl_from_ms((double)most * times * sizeof(float) * 8 / (fault->bandwidth_gbps * 1e6));
}

static sl_status open_engine(sl_trainer *t) {
    sl_stage *stage;
    SL_TRY(sl_alloc(&stage, (size_t)t->state->problem.stages, sizeof *stage));
    sl_binding_stages(t->binding, stage);
    sl_engine_config config = {.rank = t->rank,
                               .clock = t->clock,
                               .transport = t->state->transport,
                               .ring = sl_iterate_ring(t),
                               .device = sl_binding_device(t->binding),
                               .stage = stage,
                               .stages = t->state->problem.stages,
                               .regime = t->state->problem.communication,
                               .queue = t->state->problem.queue,
                               .patience = PATIENCE};
    for (int i = 0; i < t->run->faults; i++) /* of a card twice: both ends may pass it */
        config.patience += sl_from_ms(t->run->fault[i].latency_ms) * t->state->problem.microbatches *
                           (t->state->problem.stages / t->ranks) * (1 + t->run->fault[i].nic);
    for (int i = 0; i < t->run->faults; i++)
        config.patience += gather_time(t, &t->run->fault[i]);
    config.patience += sl_from_ms(1e3 * t->run->network.outage_s); /* the transport reports it first */
    sl_status status = sl_engine_open(&config, &t->state->engine);
    sl_free(stage);
    return status;
}

/* ---- all of it ---- */

sl_status sl_rank_state_open(sl_trainer *t) {
    SL_TRY(sl_connect(t, (size_t)t->message_bytes));
    SL_TRY(sl_iterate_open(t));
    SL_TRY(open_engine(t));
    return sl_rank_state_run_order(t, &t->state->first);
}

void sl_rank_state_close(sl_trainer *t) {
    sl_engine_close(t->state->engine);
    sl_transport_close(t->state->transport);
    t->state->engine = NULL;
    t->state->transport = NULL;
    sl_iterate_close(t);
    sl_program_free(&t->state->program[0]);
    sl_program_free(&t->state->program[1]);
    sl_order_free(&t->state->first);
    sl_problem_free(&t->state->problem);
}

const char *sl_rank_state_scheduling(const sl_trainer *t) {
    return t->state->transport ? sl_transport_scheduling(t->state->transport) : "none";
}
