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
#define CLOCK_AGAIN (60 * SL_SECOND)
#define CLOCK_RETRY (2 * SL_SECOND)
#define CLOCKS_AT_ONCE 16         /* nodes whose agents are notified together */
#define CLOCKS_TIME (400 * SL_MS) /* of a step for asking: the controller has other work */
#define CLOCK_NODES 1000          /* with more, clocks are asked again later in proportion */

struct sl_controller {
    sl_control_core shared;
    sl_store_position position; /* in the log of nodes */
    size_t clock_turn;          /* the node at which the next look for unknown clocks begins */
    int led;                    /* since it took over; also while the store is lost */
};

/* ---- opening and closing ---- */

static const struct {
    sl_status (*open)(sl_control_core *c);
    void (*close)(sl_control_core *c);
} parts[] = {
#define PART(name) {sl_##name##_open, sl_##name##_close},
    SL_CONTROL_PARTS(PART)
#undef PART
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static int64_t first_round(void) {
    uint64_t mixed = sl_random_mix((uint64_t)sl_now() ^ (uint64_t)getpid() << 40);
    return (int64_t)((mixed & 0x3fffff) << 8) + 1; /* rounds of two controllers meet nowhere */
}

sl_status sl_controller_open(const sl_controller_config *config, sl_controller **controller) {
    sl_controller *opened;
    *controller = NULL;
    if (!config->store || !config->job || config->deadline < 0)
        return sl_error(SL_EINVAL, "a controller needs a store and a job");
    SL_TRY(sl_alloc(&opened, 1, sizeof *opened));
    sl_control_core *c = &opened->shared;
    c->given = *config;
    c->given.deadline = config->deadline ? config->deadline : SL_GATE_DEADLINE;
    c->round = first_round();
    c->begun = c->now = sl_now();
    c->view = (sl_status_view){.iteration = -1, .onset = -1, .connected = 1};
    sl_leadership_open(&c->leadership);
    sl_clock_identity(c->nodes.clock, sizeof c->nodes.clock);
    sl_status status = SL_OK;
    for (int i = 0; i < PARTS; i++)
        SL_TRY_GOTO(err_close, status, parts[i].open(c));
    *controller = opened;
    return SL_OK;
err_close:
    sl_controller_close(opened);
    return status;
}

void sl_controller_close(sl_controller *controller) {
    if (!controller)
        return;
    sl_control_core *c = &controller->shared;
    for (int i = PARTS; i-- > 0;)
        parts[i].close(c);
    sl_leadership_leave(&c->leadership, c->given.store);
    sl_nodes_close(&c->nodes);
    sl_standing_close(&c->standing);
    sl_free(controller);
}

int sl_controller_in_charge(const sl_controller *controller) {
    return controller->shared.leadership.mine;
}

const sl_status_view *sl_controller_status(const sl_controller *controller) {
    return &controller->shared.view;
}

const sl_standing *sl_controller_standing(const sl_controller *controller) {
    return &controller->shared.standing;
}

const sl_nodes *sl_controller_nodes(const sl_controller *controller) {
    return &controller->shared.nodes;
}

/* ---- nodes ---- */

static void report_node(sl_control_core *c, const sl_job_node *node, const char *what) {
    char seen[256], text[160] = "";
    for (size_t i = 0; i < node->ranks && strlen(text) + 16 < sizeof text; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i ? "," : "", node->rank[i].rank);
    if (node->ranks == 0)
        snprintf(seen, sizeof seen, "node %.60s %s, no process yet", node->name, what);
    else
        snprintf(seen, sizeof seen, "node %.60s %s, with rank%s %s", node->name, what,
                 node->ranks > 1 ? "s" : "", text);
    sl_control_report(c, SL_EVENT_NODE, seen, NULL, NULL);
}

/* A rank that no living node has is waited for no longer. */
static void drop_ranks(sl_control_core *c) {
    int world = sl_nodes_world(&c->nodes);
    for (int rank = 0; rank < world; rank++)
        if (!sl_nodes_of_rank(&c->nodes, rank, NULL))
            sl_levels_lose(c, rank);
    if (sl_standing_positions(&c->standing, &c->nodes) != SL_OK)
        c->failed = SL_ENOMEM;
}

/* Whether a node came, or has other processes. */
static int hear(sl_control_core *c, const json_t *beat) {
    sl_job_node *node;
    int changed;
    if (sl_nodes_hear(&c->nodes, beat, c->now, &node, &changed) != SL_OK) {
        c->failed = SL_ENOMEM;
        return 0;
    }
    if (!node)
        sl_store_refuse(c->given.store);
    if (changed == 1)
        report_node(c, node, "joined");
    if (node && node->troubled) {
        char seen[256];
        snprintf(seen, sizeof seen, "node %.60s: %.180s", node->name, node->trouble);
        sl_control_report(c, SL_EVENT_NODE, seen, NULL, NULL);
        node->troubled = 0;
    }
    if (node && node->calls > 0 && c->view.phase == SL_PHASE_WAITING)
        sl_control_feed(c, SL_IN_CALLS, 0);
    return changed;
}

static void read_nodes(sl_controller *controller) {
    sl_control_core *c = &controller->shared;
    const sl_store_entry *entry;
    size_t count;
    do {
        if (!sl_control_read(c, SL_LOG_NODES, &controller->position, SL_READ_MAX, &entry, &count))
            return;
        json_t *beats = json_array();
        for (size_t i = 0; i < count; i++)
            if (json_array_append_new(beats, json_loadb(entry[i].bytes, entry[i].size, 0, NULL)) != 0)
                sl_store_refuse(c->given.store); /* no JSON */
        size_t i;
        int changed = 0;
        const json_t *beat;
        json_array_foreach(beats, i, beat) changed |= hear(c, beat);
        json_decref(beats);
        if (changed)
            drop_ranks(c);
    } while (count == SL_READ_MAX);
    for (sl_job_node *node; (node = sl_nodes_expired(&c->nodes, c->now));) {
        report_node(c, node, "is silent");
        drop_ranks(c);
        sl_control_because(c, "node %.60s is lost", node->name);
        sl_control_feed(c, SL_IN_NODE_LOST, 0);
    }
}

/* Whether the offset of a node is to be measured now. */
static int is_clock_due(const sl_control_core *c, const sl_job_node *node) {
    sl_time again = node->offset.trips ? CLOCK_AGAIN : CLOCK_RETRY;
    if (node->offset.trips && c->nodes.count > CLOCK_NODES)
        again = again / CLOCK_NODES * (sl_time)c->nodes.count;
    return node->alive && !node->same_clock && (!node->asked || c->now >= node->asked + again);
}

/* Offsets of nodes with a clock of their own; not while the job is held. Agents look for orders only now and
 * then, so several are notified at once and then asked one after another. */
static void ask_clocks(sl_controller *controller) {
    sl_control_core *c = &controller->shared;
    sl_job_node *due[CLOCKS_AT_ONCE];
    int count = 0;
    if (sl_holding_now(c) || !c->view.connected)
        return;
    for (size_t i = 0; i < c->nodes.count && count < CLOCKS_AT_ONCE; i++) {
        sl_job_node *node = &c->nodes.node[(controller->clock_turn + i) % c->nodes.count];
        if (is_clock_due(c, node))
            due[count++] = node;
    }
    if (count == 0)
        return;
    json_t *names = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(names, json_string(due[i]->name));
    const int64_t round = ++c->round;
    const sl_time begin = sl_now();
    if (!sl_control_order(c, "clock", round, json_pack("{s:o}", "nodes", names)))
        return;
    for (int i = 0; i < count && c->view.connected && sl_now() - begin < CLOCKS_TIME; i++) {
        due[i]->asked = c->now;
        controller->clock_turn = (size_t)(due[i] - c->nodes.node) + 1;
        sl_control_answered(c, sl_clock_ask(c->given.store, due[i]->name, round, &due[i]->offset));
    }
}

/* ---- the step ---- */

static void fill_view(sl_control_core *c) {
    const sl_store_refused *r = sl_store_refused_by(c->given.store);
    c->view.refused = r->foreign + r->repeated + r->odd + r->others;
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

/* Orders of other controllers are not ours; nodes and iterations are read from the beginning. */
static void take_over(sl_controller *controller) {
    if (controller->led)
        return;
    controller->led = 1;
    sl_profiling_skip(&controller->shared);
    sl_holding_skip(&controller->shared);
    sl_levels_take_over(&controller->shared);
}

static int take_leadership(sl_controller *controller) {
    sl_control_core *c = &controller->shared;
    int before = c->leadership.mine;
    if (c->now < c->leadership.next) /* no request is made, so nothing is learned about the store */
        return c->view.connected && before;
    if (!sl_control_answered(c, sl_leadership_step(&c->leadership, c->given.store, c->now)))
        return 0;
    if (c->leadership.mine && !before)
        take_over(controller);
    if (!c->leadership.mine && before) {
        controller->led = 0;
        sl_control_report(c, SL_EVENT_CONTROLLER, "another process controls the job", NULL, NULL);
        sl_control_feed(c, SL_IN_STORE_LOST, 0); /* ends the current phase */
        sl_control_feed(c, SL_IN_STORE_BACK, 0);
    }
    return c->leadership.mine;
}

static sl_time when_next(const sl_control_core *c) {
    sl_time pace = IDLE, due = sl_control_due(c);
    if (c->view.connected && c->leadership.mine && c->view.phase == SL_PHASE_HOLDING)
        pace = CLOSING;
    else if (c->view.connected && c->leadership.mine && c->view.phase >= SL_PHASE_PROFILING &&
             c->view.phase <= SL_PHASE_VALIDATING)
        pace = BUSY;
    return due < c->now + pace && due > c->now ? due : c->now + pace;
}

static void work(sl_controller *controller) {
    sl_control_core *c = &controller->shared;
    read_nodes(controller);
    ask_clocks(controller);
    sl_levels_read(c);
    sl_levels_resume(c);
    sl_profiling_read(c);
    sl_holding_read(c);
    sl_validating_read(c);
}

sl_status sl_controller_step(sl_controller *controller, sl_time now, sl_time *next) {
    sl_control_core *c = &controller->shared;
    c->now = now;
    if (c->view.phase != SL_PHASE_ENDED && take_leadership(controller))
        work(controller);
    sl_control_feed(c, SL_IN_TICK, 0);
    fill_view(c);
    *next = when_next(c);
    sl_status failed = c->failed;
    c->failed = SL_OK;
    return failed == SL_OK ? SL_OK : sl_error(failed, "out of memory in the controller");
}

void sl_controller_finish(sl_controller *controller) {
    sl_control_core *c = &controller->shared;
    c->now = sl_now();
    if (c->view.phase != SL_PHASE_ENDED && take_leadership(controller)) {
        read_nodes(controller);
        sl_levels_read(c);
        sl_profiling_read(c);
    }
    sl_control_feed(c, SL_IN_ENDED, 0);
    fill_view(c);
}
