#include "run/arrange/network_profile.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/arrange/exchange.h"
#include "run/arrange/faults.h"
#include "run/arrange/rank_state.h"

#define PATIENCE (120 * SL_SECOND) /* a slow link is slow here, too */

/* The latest measurement. */
typedef struct sl_network_profile {
    sl_network_link *link; /* [links], on the leader only */
    int links;
    sl_time at, took; /* time of its end (0: never measured), and its duration */
} sl_network_profile;

/* ---- pairs ---- */

int sl_network_profile_max(const sl_run *run) {
    const int data = run->parallel.data, tensor = run->parallel.tensor, pipeline = run->parallel.pipeline;
    return data * tensor * run->parallel.stages + pipeline * tensor * (data * (data - 1) / 2);
}

/* The pairs of one round of a tournament of `teams`, an even number: one is fixed, the others rotate (the
 * circle method, Kirkman 1847). */
static sl_ping_pair meet(int teams, int round, int match) {
    const int circle = teams - 1;
    if (match == 0)
        return (sl_ping_pair){round, circle};
    int a = (round + match) % circle, b = (round - match + circle) % circle;
    return (sl_ping_pair){a < b ? a : b, a < b ? b : a};
}

/* Neighbours of all pipelines. Returns how many. */
static int pair_neighbours(const sl_run *run, const sl_ping_pair *of_one, const int *round_of_one, int count,
                           sl_ping_pair *pairs, int *round) {
    int pairs_made = 0;
    for (int i = 0; i < count; i++)
        for (int r = 0; r < run->parallel.data; r++)
            for (int x = 0; x < run->parallel.tensor; x++) {
                pairs[pairs_made] =
                    (sl_ping_pair){sl_run_world_rank(run, (sl_run_position){of_one[i].a, r, x}),
                                   sl_run_world_rank(run, (sl_run_position){of_one[i].b, r, x})};
                round[pairs_made++] = round_of_one[i];
            }
    return pairs_made;
}

/* All pairs of each data group, after `made` others. */
static int pair_replicas(const sl_run *run, int made, int first_round, sl_ping_pair *pairs, int *round) {
    const int data = run->parallel.data, teams = data + data % 2;
    for (int n = 0; n < teams - 1; n++)
        for (int match = 0; match < teams / 2; match++) {
            sl_ping_pair one = meet(teams, n, match);
            for (int p = 0; p < run->parallel.pipeline && one.b < data; p++)
                for (int x = 0; x < run->parallel.tensor; x++) {
                    pairs[made] = (sl_ping_pair){sl_run_world_rank(run, (sl_run_position){p, one.a, x}),
                                                 sl_run_world_rank(run, (sl_run_position){p, one.b, x})};
                    round[made++] = first_round + n;
                }
        }
    return made;
}

sl_status sl_network_profile_pairs(const sl_run *run, sl_ping_pair *pairs, int *round, int *count) {
    sl_problem shape = sl_run_shape(run);
    sl_ping_pair *neighbours;
    int *round_of_one;
    sl_status status;
    SL_TRY(sl_alloc(&neighbours, (size_t)shape.stages, sizeof *neighbours));
    SL_TRY_GOTO(out, status, sl_alloc(&round_of_one, (size_t)shape.stages, sizeof *round_of_one));
    int mine = sl_ping_pairs(&shape, neighbours, round_of_one);
    int made = pair_neighbours(run, neighbours, round_of_one, mine, pairs, round);
    *count = pair_replicas(run, made, made ? round[made - 1] + 1 : 0, pairs, round);
    sl_free(round_of_one);
out:
    sl_free(neighbours);
    return status;
}

/* ---- messages ---- */

/* Peers are world ranks: the transport reaches those of the same pipeline, the data group those of another
 * replica. */
typedef struct ways {
    const sl_run *run;
    const sl_groups *groups;
    sl_ping_transport transport;
} ways;

static sl_status say(void *object, int peer, int round, const void *data, size_t bytes) {
    ways *w = object;
    sl_run_position position = sl_run_position_of(w->run, peer);
    if (position.replica == w->groups->position.replica)
        return sl_ping_say(&w->transport, position.pipeline, round, data, bytes);
    return sl_group_pass(w->groups->data, sl_run_holder(w->run, w->groups->position),
                         sl_run_holder(w->run, position), (void *)(uintptr_t)data, bytes);
}

static sl_status hear(void *object, int peer, int round, void *data, size_t bytes, sl_time *heard) {
    ways *w = object;
    sl_run_position position = sl_run_position_of(w->run, peer);
    if (position.replica == w->groups->position.replica)
        return sl_ping_hear(&w->transport, position.pipeline, round, data, bytes, heard);
    SL_TRY(sl_group_pass(w->groups->data, sl_run_holder(w->run, position),
                         sl_run_holder(w->run, w->groups->position), data, bytes));
    *heard = sl_clock_now(w->transport.clock);
    return SL_OK;
}

/* ---- what was found ---- */

typedef struct pair_profiling {
    sl_ping_pair *pairs;
    int *round;
    int count;
    sl_ping_half *half, *all; /* this rank's; the leader has those of all ranks */
    sl_ping_link (*found)[2];
    size_t *sizes;
} pair_profiling;

static void free_profiling(pair_profiling *p) {
    SL_FREE(p->pairs, p->round, p->half, p->all, p->found, p->sizes);
}

/* Pairs that name this rank. */
static size_t count_mine(const pair_profiling *p, int rank) {
    size_t mine = 0;
    for (int i = 0; i < p->count; i++)
        mine += p->pairs[i].a == rank || p->pairs[i].b == rank;
    return mine;
}

/* Both directions of each pair, by initial position. */
static sl_status keep(sl_trainer *t, const pair_profiling *p) {
    sl_network_profile *network = t->state->network;
    sl_network_link *link;
    SL_TRY(sl_alloc(&link, 2 * (size_t)p->count, sizeof *link));
    sl_free(network->link);
    network->link = link;
    network->links = 0;
    for (int i = 0; i < p->count; i++) {
        const int ends[2] = {p->pairs[i].a, p->pairs[i].b};
        const sl_run_position a = sl_run_position_of(t->run, ends[0]),
                              b = sl_run_position_of(t->run, ends[1]);
        for (int back = 0; back < 2; back++) {
            const sl_ping_link *found = &p->found[i][back];
            if (found->rounds > 0)
                link[network->links++] = (sl_network_link){.from = t->home[ends[back]],
                                                           .to = t->home[ends[1 - back]],
                                                           .replicas = a.replica != b.replica,
                                                           .latency = found->latency,
                                                           .per_byte = found->per_byte};
        }
    }
    return SL_OK;
}

/* Gathers the results of all ranks; the leader makes its table. */
static sl_status collect(sl_trainer *t, pair_profiling *p, int halves) {
    const size_t most = 2 * (size_t)p->count * SL_PING_MAX;
    size_t sum = 0;
    const int leads = sl_trainer_leads(t);
    SL_TRY(sl_alloc(&p->all, leads ? most : 1, sizeof *p->all));
    SL_TRY(sl_alloc(&p->sizes, (size_t)t->world, sizeof *p->sizes));
    SL_TRY(sl_alloc(&p->found, (size_t)p->count, sizeof *p->found));
    SL_TRY(sl_group_gather(t->groups.world, t->leader, p->half, (size_t)halves * sizeof *p->half, p->all,
                           most * sizeof *p->all, p->sizes));
    if (!leads)
        return SL_OK;
    for (int w = 0; w < t->world; w++)
        sum += p->sizes[w];
    SL_TRY(sl_ping_fit_pairs(p->all, (int)(sum / sizeof *p->all), p->pairs, p->count, t->clocks, p->found));
    return keep(t, p);
}

/* Pairs [first, end) with messages of at most `bytes`; *halves more of this rank's. */
static sl_status exchange(sl_trainer *t, pair_profiling *p, int first, int end, size_t bytes, int *halves) {
    ways w = {.run = t->run,
              .groups = &t->groups,
              .transport = {.transport = t->state->transport, .clock = t->clock, .patience = PATIENCE}};
    sl_ping_way way = {.object = &w, .say = say, .hear = hear};
    sl_ping_half *mine = p->half + *halves;
    int more;
    SL_TRY(sl_ping_over(&way, t->clock, t->world_rank, p->pairs + first, end - first, bytes,
                        SL_NETWORK_BUDGET, mine, &more));
    for (int i = 0; i < more; i++)
        mine[i].pair += first;
    *halves += more;
    return SL_OK;
}

/* Of replicas: as much as one sends another in a sum. */
static size_t share_bytes(const sl_trainer *t) {
    size_t most = 0;
    for (int stage = 0; stage < t->state->problem.stages; stage++) {
        size_t elements = sl_binding_elements(t->run, stage);
        most = elements > most ? elements : most;
    }
    most = sizeof(float) * most / (size_t)sl_run_holders(t->run, 0);
    return most < SL_NETWORK_BYTES ? most : SL_NETWORK_BYTES;
}

static sl_status measure(sl_trainer *t, pair_profiling *p) {
    const size_t most = (size_t)sl_network_profile_max(t->run);
    size_t bytes = SL_NETWORK_BYTES; /* a transport has a longest message */
    int halves = 0, neighbours = 0;
    if (t->ranks > 1 && t->message_bytes < (double)bytes)
        bytes = (size_t)t->message_bytes;
    SL_TRY(sl_alloc(&p->pairs, most, sizeof *p->pairs));
    SL_TRY(sl_alloc(&p->round, most, sizeof *p->round));
    SL_TRY(sl_network_profile_pairs(t->run, p->pairs, p->round, &p->count));
    while (neighbours < p->count && sl_run_position_of(t->run, p->pairs[neighbours].a).replica ==
                                        sl_run_position_of(t->run, p->pairs[neighbours].b).replica)
        neighbours++;
    SL_TRY(sl_alloc(&p->half, count_mine(p, t->world_rank) * SL_PING_MAX, sizeof *p->half));
    SL_TRY(exchange(t, p, 0, neighbours, bytes, &halves));
    SL_TRY(exchange(t, p, neighbours, p->count, share_bytes(t), &halves));
    return collect(t, p, halves);
}

/* ---- reports ---- */

static sl_time time_of(const sl_network_link *link) {
    return link->latency + (sl_time)(link->per_byte * (double)SL_NETWORK_BYTES);
}

static const sl_network_link *slowest(const sl_network_profile *network, int replicas) {
    const sl_network_link *found = NULL;
    for (int i = 0; i < network->links; i++) {
        const sl_network_link *link = &network->link[i];
        if (link->replicas == replicas && (!found || time_of(link) > time_of(found)))
            found = link;
    }
    return found;
}

static void put_speed(const sl_network_link *link, char *text, size_t size) {
    int at = snprintf(text, size, "latency %.3g ms", sl_to_ms(link->latency));
    if (link->per_byte > 0)
        snprintf(text + at, size - (size_t)at, ", %.3g Gbit/s", 8 / link->per_byte);
}

/* Names the ends by their positions when the attempt began, as the run file does. */
static void describe(const sl_trainer *t, char *text, size_t size) {
    const sl_network_link *neighbours = slowest(t->state->network, 0),
                          *replicas = slowest(t->state->network, 1);
    char speed[64], more[32] = "";
    size_t at = 0;
    text[0] = 0;
    if (neighbours) {
        sl_run_position a = sl_run_position_of(t->run, neighbours->from),
                        b = sl_run_position_of(t->run, neighbours->to);
        put_speed(neighbours, speed, sizeof speed);
        if (t->run->parallel.data > 1)
            snprintf(more, sizeof more, " (replica %d)", a.replica);
        at = (size_t)snprintf(text, size, "slowest link of a pipeline: %d -> %d%s: %s", a.pipeline,
                              b.pipeline, more, speed);
    }
    if (replicas) {
        sl_run_position a = sl_run_position_of(t->run, replicas->from),
                        b = sl_run_position_of(t->run, replicas->to);
        put_speed(replicas, speed, sizeof speed);
        snprintf(text + at, size - at, "%sbetween replicas: %d -> %d (rank %d): %s",
                 at ? "; " : "slowest link ", a.replica, b.replica, a.pipeline, speed);
    }
}

static sl_status report(sl_trainer *t, int iteration) {
    sl_event event = sl_event_of(SL_EVENT_PROFILE, 0, iteration);
    describe(t, event.seen, sizeof event.seen);
    sl_text_format(event.decided, sizeof event.decided, "measured %d directions in %.3g ms",
                   t->state->network->links, sl_to_ms(t->state->network->took));
    return sl_run_log_write(t->log, &event);
}

sl_status sl_network_profile_measure(sl_trainer *t, int iteration) {
    sl_network_profile *network = t->state->network;
    pair_profiling p = {0};
    if (t->world == t->run->parallel.tensor)
        return SL_OK; /* no rank has a neighbor or a twin */
    const sl_time begin = sl_clock_now(t->clock);
    sl_faults_emulate(t, iteration);
    SL_TRY(sl_exchange_clocks(t, 0));
    sl_status status = measure(t, &p);
    free_profiling(&p);
    SL_TRY(status);
    network->at = sl_clock_now(t->clock);
    network->took = network->at - begin;
    if (!sl_trainer_leads(t))
        return SL_OK;
    sl_run_log_exclude(t->log, network->took);
    return report(t, iteration);
}

const sl_network_link *sl_network_profile_links(const sl_trainer *t, int *links) {
    *links = t->state->network->links;
    return t->state->network->link;
}

sl_status sl_network_profile_ping(sl_trainer *t, sl_ping_link *link) {
    if (t->ranks == 1)
        return SL_OK;
    sl_faults_emulate(t, t->first);
    SL_TRY(sl_exchange_clocks(t, 0));
    return sl_ping_all(t->run, &t->groups, t->state->transport, t->clock, t->message_bytes, t->clocks, link);
}

int sl_network_profile_due(const sl_trainer *t) {
    const sl_time every = sl_from_ms(1e3 * t->run->adaptation.profile_every_s);
    return every > 0 && sl_clock_now(t->clock) - t->state->network->at >= every;
}

sl_status sl_network_profile_open(sl_trainer *t) {
    return sl_alloc(&t->state->network, 1, sizeof(sl_network_profile));
}

void sl_network_profile_close(sl_trainer *t) {
    if (t->state->network)
        SL_FREE(t->state->network->link, t->state->network);
}
