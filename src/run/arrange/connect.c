#include "run/arrange/connect.h"
#include "base/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(SL_RUN_RAILS_MOST <= SL_TRANSPORT_RAILS, "what a run file may name can be opened");

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
    return sl_error(SL_EINVAL, "'network.rails': %s", sl_error_text());
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
        t->remote[w] = strcmp(all[w].host, all[t->leader].host) != 0;
        if (seat.replica == t->groups.seat.replica && seat.tensor == t->groups.seat.tensor)
            addresses[seat.pipeline] = all[w];
    }
    sl_free(all);
    return status;
}

/* A pipeline of several has a folder of its own. */
static sl_status choose_directory(const sl_trainer *t, char *directory, size_t size) {
    const sl_place *place = t->place;
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

sl_status sl_connect(sl_trainer *t, size_t message_bytes) {
    const sl_place *place = t->place;
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
