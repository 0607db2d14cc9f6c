#include "notice/control/controller_inside.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "notice/message/clocks.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define IDLE (100 * SL_MS)
#define BUSY (10 * SL_MS)   /* while a profile or a validation is awaited */
#define CLOSING (SL_MS / 2) /* while gates close */
#define CLOSURE (2 * SL_SECOND)
#define BEFORE (300 * SL_MS) /* of a hold's deadline */
#define VALIDATION (60 * SL_SECOND)
#define AGAIN (20 * SL_SECOND)
#define CLOCK_AGAIN (60 * SL_SECOND)
#define CLOCK_RETRY (2 * SL_SECOND)
#define MAX 512 /* entries of one reading */

/* ---- opening and closing ---- */

static int64_t first_round(void) {
    uint64_t mixed = sl_random_mix((uint64_t)sl_now() ^ (uint64_t)getpid() << 40);
    return (int64_t)((mixed & 0x3fffff) << 8) + 1; /* rounds of two controllers meet nowhere */
}

sl_status sl_controller_open(const sl_controller_config *config, sl_controller **controller) {
    sl_controller *c;
    *controller = NULL;
    if (!config->store || !config->job || config->deadline < 0)
        return sl_error(SL_EINVAL, "a controller needs a store and a job");
    SL_TRY(sl_alloc(&c, 1, sizeof *c));
    c->config = *config;
    c->deadline = config->deadline ? config->deadline : SL_GATE_DEADLINE;
    c->round = first_round();
    c->connected = 1;
    c->begun = c->now = sl_now();
    sl_leadership_open(&c->seat);
    sl_clock_identity(c->nodes.clock, sizeof c->nodes.clock);
    sl_phases_open(&c->phases,
                   (sl_phase_limits){.hold = config->hold,
                                     .profile = 30 * SL_SECOND,
                                     .closure = c->deadline < CLOSURE ? c->deadline : CLOSURE,
                                     .before = c->deadline / 4 < BEFORE ? c->deadline / 4 : BEFORE,
                                     .validation = VALIDATION,
                                     .again = AGAIN});
    c->view = (sl_status_view){.iteration = -1, .onset = -1, .connected = 1};
    sl_status status = sl_iteration_samples_open(&c->samples);
    SL_THEN(status, sl_detector_open(SL_CHANGE_BOCD_V, &c->detector));
    if (status != SL_OK) {
        sl_controller_close(c);
        return status;
    }
    *controller = c;
    return SL_OK;
}

void sl_controller_close(sl_controller *c) {
    if (!c)
        return;
    if (c->hold.round) /* not ended properly: the job is let go all the same */
        sl_controller_order(c, "release", c->hold.round, json_object());
    sl_leadership_leave(&c->seat, c->config.store);
    sl_closing_end(&c->hold.closing);
    sl_collection_end(&c->profile.collection);
    sl_controller_drop_reference(c);
    json_decref(c->validation.result);
    sl_iteration_samples_close(c->samples);
    sl_detector_close(c->detector);
    sl_nodes_close(&c->nodes);
    sl_standing_close(&c->standing);
    SL_FREE(c->starved, c);
}

int sl_controller_in_charge(const sl_controller *c) {
    return c->seat.mine;
}

const sl_status_view *sl_controller_status(const sl_controller *c) {
    return &c->view;
}

const sl_standing *sl_controller_standing(const sl_controller *c) {
    return &c->standing;
}

const sl_nodes *sl_controller_nodes(const sl_controller *c) {
    return &c->nodes;
}

/* ---- inputs ---- */

void sl_controller_feed(sl_controller *c, sl_phase_input input, int64_t number) {
    sl_phase_actions actions;
    sl_phases_step(&c->phases, input, number, c->now, &actions);
    sl_controller_act(c, &actions);
    while (c->inputs > 0) {
        sl_phase_input next = c->input[0].input;
        int64_t with = c->input[0].number;
        memmove(c->input, c->input + 1, (size_t)--c->inputs * sizeof c->input[0]);
        sl_phases_step(&c->phases, next, with, c->now, &actions);
        sl_controller_act(c, &actions);
    }
    c->view.phase = c->phases.phase;
}

/* Whether the store answered; handles its loss. */
int sl_controller_answered(sl_controller *c, sl_status status) {
    if (status == SL_ENOMEM)
        c->failed = status;
    if (status == SL_OK && !c->connected) {
        c->connected = c->view.connected = 1;
        sl_nodes_forgive(&c->nodes, c->now);
        c->seat.next = 0;
        sl_controller_tell(c, SL_EVENT_STORE, "the store answers again", NULL, NULL);
        sl_controller_feed(c, SL_IN_STORE_BACK, 0);
    } else if (status != SL_OK && c->connected) {
        c->connected = c->view.connected = 0;
        sl_controller_tell(c, SL_EVENT_STORE, "the store does not answer", "the program runs on",
                           sl_error_text());
        snprintf(c->reason, sizeof c->reason, "the store is lost");
        sl_controller_feed(c, SL_IN_STORE_LOST, 0);
    }
    return status == SL_OK;
}

/* ---- nodes ---- */

static void tell_node(sl_controller *c, const sl_job_node *node, const char *what) {
    char seen[256], text[160] = "";
    for (size_t i = 0; i < node->ranks && strlen(text) + 16 < sizeof text; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i ? "," : "", node->rank[i].rank);
    if (node->ranks == 0)
        snprintf(seen, sizeof seen, "node %.60s %s, no process yet", node->name, what);
    else
        snprintf(seen, sizeof seen, "node %.60s %s, with rank%s %s", node->name, what,
                 node->ranks > 1 ? "s" : "", text);
    sl_controller_tell(c, SL_EVENT_NODE, seen, NULL, NULL);
}

/* A rank that no living node has is waited for no longer. */
static void drop_ranks(sl_controller *c) {
    int world = sl_nodes_world(&c->nodes);
    for (int rank = 0; rank < world; rank++)
        if (!sl_nodes_of_rank(&c->nodes, rank, NULL))
            sl_iteration_samples_lost(c->samples, rank);
    if (sl_standing_places(&c->standing, &c->nodes) != SL_OK)
        c->failed = SL_ENOMEM;
}

static void hear(sl_controller *c, const json_t *beat) {
    sl_job_node *node;
    int news;
    if (sl_nodes_hear(&c->nodes, beat, c->now, &node, &news) != SL_OK) {
        c->failed = SL_ENOMEM;
        return;
    }
    if (!node)
        sl_store_refuse(c->config.store);
    if (news == 1)
        tell_node(c, node, "is here");
    if (node && node->troubled) {
        char seen[256];
        snprintf(seen, sizeof seen, "node %.60s: %.180s", node->name, node->trouble);
        sl_controller_tell(c, SL_EVENT_NODE, seen, NULL, NULL);
        node->troubled = 0;
    }
    if (news)
        drop_ranks(c);
    if (node && node->calls > 0 && c->phases.phase == SL_PHASE_WAITING)
        sl_controller_feed(c, SL_IN_CALLS, 0);
}

static void read_nodes(sl_controller *c) {
    const sl_store_entry *entry;
    size_t count;
    do {
        if (!sl_controller_answered(
                c, sl_store_read(c->config.store, SL_LOG_NODES, &c->at_nodes, MAX, 0, &entry, &count)))
            return;
        json_t *beats = json_array();
        for (size_t i = 0; i < count; i++)
            if (json_array_append_new(beats, json_loadb(entry[i].bytes, entry[i].size, 0, NULL)) != 0)
                sl_store_refuse(c->config.store); /* no JSON */
        size_t i;
        const json_t *beat;
        json_array_foreach(beats, i, beat) hear(c, beat);
        json_decref(beats);
    } while (count == MAX);
    for (sl_job_node *node; (node = sl_nodes_expired(&c->nodes, c->now));) {
        tell_node(c, node, "is silent");
        drop_ranks(c);
        snprintf(c->reason, sizeof c->reason, "node %.60s is lost", node->name);
        sl_controller_feed(c, SL_IN_NODE_LOST, 0);
    }
}

/* Offsets of nodes with a clock of their own; not while the job is held. */
static void ask_clocks(sl_controller *c) {
    for (size_t i = 0; i < c->nodes.count && c->connected; i++) {
        sl_job_node *node = &c->nodes.node[i];
        sl_time again = node->offset.trips ? CLOCK_AGAIN : CLOCK_RETRY;
        if (!node->alive || node->same_clock || c->hold.round ||
            (node->asked && c->now < node->asked + again))
            continue;
        node->asked = c->now;
        json_t *order = json_pack("{s:s}", "node", node->name);
        int64_t round = ++c->round;
        if (sl_controller_order(c, "clock", round, order))
            sl_controller_answered(c, sl_clock_ask(c->config.store, node->name, round, &node->offset));
    }
}

/* ---- the step ---- */

static void fill_view(sl_controller *c) {
    const sl_store_refused *r = sl_store_refused_by(c->config.store);
    c->view.refused = r->foreign + r->repeated + r->odd + r->others;
    c->view.phase = c->phases.phase;
    c->view.nodes = sl_nodes_alive(&c->nodes);
    c->view.ranks = 0;
    c->view.calls = c->view.lost = 0;
    for (size_t i = 0; i < c->nodes.count; i++) {
        const sl_job_node *node = &c->nodes.node[i];
        c->view.ranks += node->alive ? (int)node->ranks : 0;
        c->view.calls += node->calls;
        c->view.lost += node->lost;
    }
}

/* The seat is ours from now on. */
static void take_over(sl_controller *c) {
    const sl_store_entry *entry;
    size_t count;
    if (c->was_mine)
        return;
    c->was_mine = 1;
    /* orders of other controllers are not ours; nodes and iterations are read from the beginning */
    while (sl_controller_answered(
               c, sl_store_read(c->config.store, SL_LOG_PROFILES, &c->at_profiles, 64, 0, &entry, &count)) &&
           count > 0)
        ;
    while (sl_controller_answered(
               c, sl_store_read(c->config.store, SL_LOG_VIEWS, &c->at_views, MAX, 0, &entry, &count)) &&
           count > 0)
        ;
    c->taken_over = c->now;
}

static int take_seat(sl_controller *c) {
    int before = c->seat.mine;
    if (c->now < c->seat.next) /* no request is made, so nothing is learned about the store */
        return c->connected && before;
    if (!sl_controller_answered(c, sl_leadership_step(&c->seat, c->config.store, c->now)))
        return 0;
    if (c->seat.mine && !before)
        take_over(c);
    if (!c->seat.mine && before) {
        c->was_mine = 0;
        sl_controller_tell(c, SL_EVENT_CONTROLLER, "another process controls the job", NULL, NULL);
        sl_controller_feed(c, SL_IN_STORE_LOST, 0); /* ends the current phase */
        sl_controller_feed(c, SL_IN_STORE_BACK, 0);
    }
    return c->seat.mine;
}

static sl_time when_next(const sl_controller *c) {
    sl_time pace = !c->connected || !c->seat.mine                                                    ? IDLE
                   : c->phases.phase == SL_PHASE_HOLDING                                             ? CLOSING
                   : c->phases.phase >= SL_PHASE_PROFILING && c->phases.phase <= SL_PHASE_VALIDATING ? BUSY
                                                                                                     : IDLE;
    sl_time next = c->now + pace, due = sl_phases_next(&c->phases);
    return due < next && due > c->now ? due : next;
}

static void work(sl_controller *c) {
    read_nodes(c);
    ask_clocks(c);
    sl_controller_read_iterations(c);
    sl_controller_resume(c);
    sl_controller_read_profiles(c);
    sl_controller_read_views(c);
    sl_controller_read_validation(c);
}

sl_status sl_controller_step(sl_controller *c, sl_time now, sl_time *next) {
    c->now = now;
    if (c->phases.phase != SL_PHASE_ENDED && take_seat(c))
        work(c);
    sl_controller_feed(c, SL_IN_TICK, 0);
    fill_view(c);
    *next = when_next(c);
    sl_status failed = c->failed;
    c->failed = SL_OK;
    return failed == SL_OK ? SL_OK : sl_error(failed, "out of memory in the controller");
}

void sl_controller_finish(sl_controller *c) {
    c->now = sl_now();
    if (c->phases.phase != SL_PHASE_ENDED && take_seat(c)) {
        read_nodes(c);
        sl_controller_read_iterations(c);
        sl_controller_read_profiles(c);
    }
    sl_controller_feed(c, SL_IN_ENDED, 0);
    fill_view(c);
}
