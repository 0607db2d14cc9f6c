#include "notice/control/controller_inside.h"

#include "base/memory.h"
#include "notice/control/closing.h"
#include <stdio.h>

#define REST 3 /* times the length of a hold until the next */

struct sl_holding {
    sl_store_position position;
    sl_closing closing;
    int64_t round; /* 0: none ordered */
    int closed;
    sl_time begin, until;
    sl_time rested; /* no new hold before this time: a fault that comes and goes must not stop the job */
};

sl_status sl_holding_open(sl_control_core *c) {
    return sl_alloc(&c->holding, 1, sizeof *c->holding);
}

void sl_holding_close(sl_control_core *c) {
    struct sl_holding *h = c->holding;
    if (!h)
        return;
    if (h->round) /* not ended properly: the job is let go all the same */
        sl_control_order(c, "release", h->round, json_object());
    sl_closing_end(&h->closing);
    sl_free(h);
}

void sl_holding_skip(sl_control_core *c) {
    sl_control_skip(c, SL_LOG_VIEWS, &c->holding->position);
}

int sl_holding_now(const sl_control_core *c) {
    return c->holding->round != 0;
}

sl_time sl_holding_until(const sl_control_core *c) {
    return c->holding->until;
}

/* Why the job cannot be asked to hold; NULL: it can. */
static const char *not_to_hold(const sl_control_core *c) {
    if (!sl_nodes_whole(&c->nodes))
        return "not every rank has exactly one watched process";
    if (!sl_nodes_timed(&c->nodes))
        return "the clock of a node is unknown";
    return NULL;
}

int sl_holding_postponed(const sl_control_core *c) {
    return c->given.hold && !not_to_hold(c) && c->now < c->holding->rested;
}

void sl_holding_begin(sl_control_core *c) {
    struct sl_holding *h = c->holding;
    const char *why = not_to_hold(c);
    sl_time again = !why && c->now < h->rested ? h->rested : 0;
    int world = sl_nodes_world(&c->nodes), period = c->view.period;
    sl_cut_limits limits = {.calls = 6 * (uint64_t)(period > 0 ? period : 0)}; /* a call may count on two
                                                                                  channels */
    c->view.holds++;
    h->round = 0;
    h->closed = 0;
    h->begin = c->now;
    h->until = c->now + c->given.deadline;
    if (again)
        sl_control_because(c, "the job was held recently; the next hold is possible in %.1f s",
                           sl_to_ms(again - c->now) / 1000);
    else if (why)
        sl_control_because(c, "%s", why);
    if (again || why) {
        sl_control_note(c, SL_IN_OPEN, again);
        return;
    }
    if (sl_closing_begin(&h->closing, ++c->round, world, limits) != SL_OK) {
        c->failed = SL_ENOMEM;
        return;
    }
    h->round = c->round;
    sl_levels_interrupt(c);
    json_t *order = json_pack("{s:o}", "until", sl_nodes_times(&c->nodes, h->until));
    if (!sl_control_order(c, "hold", c->round, order)) {
        sl_control_because(c, "the store is lost");
        sl_control_note(c, SL_IN_OPEN, 0);
    }
}

void sl_holding_release(sl_control_core *c, int testing) {
    struct sl_holding *h = c->holding;
    char seen[96];
    const char *why = "the validation continues while the program runs";
    int closed = h->closed;
    sl_closing_end(&h->closing);
    if (!h->round) {
        sl_control_report_fact(c, SL_EVENT_HELD, "the job was not held", NULL, c->reason, "ranks",
                               json_integer(0));
        return;
    }
    sl_control_order(c, "release", h->round, json_object());
    double held = sl_to_ms(c->now - h->begin);
    c->view.held_ms += held;
    h->rested = c->now + REST * (c->now - h->begin);
    h->round = 0;
    snprintf(seen, sizeof seen, "held for %.1f ms", held);
    if (!closed || !testing) {
        why = closed ? "" : c->reason;
        sl_levels_continue(c);
    }
    if (!closed)
        sl_control_report_fact(c, SL_EVENT_HELD, "no cut closed", "released", c->reason, "ranks",
                               json_integer(0));
    sl_control_report(c, SL_EVENT_RELEASED, seen, NULL, why);
}

/* ---- closing ---- */

static void next_look(sl_control_core *c) {
    struct sl_holding *h = c->holding;
    sl_cut_verdict verdict;
    json_t *raises;
    if (sl_closing_step(&h->closing, c->now, &verdict, &raises) != SL_OK) {
        c->failed = SL_ENOMEM;
        return;
    }
    if (verdict == SL_CUT_MOVING) {
        json_t *order = json_pack("{s:i,s:o}", "look", h->closing.look, "raises", raises);
        sl_control_order(c, "look", h->round, order);
        return;
    }
    json_decref(raises);
    if (verdict == SL_CUT_CLOSED) {
        char seen[128];
        h->closed = 1;
        c->view.closed++;
        snprintf(seen, sizeof seen, "%d ranks paused after %.1f ms (%d polls)", h->closing.ranks,
                 sl_to_ms(c->now - h->begin), h->closing.look);
        sl_control_report_fact(c, SL_EVENT_HELD, seen, "validation", NULL, "ranks",
                               json_integer(h->closing.ranks));
        sl_control_feed(c, SL_IN_CLOSED, h->until);
        return;
    }
    sl_control_because(c, "%s", h->closing.trouble);
    sl_control_feed(c, SL_IN_OPEN, 0);
}

void sl_holding_read(sl_control_core *c) {
    struct sl_holding *h = c->holding;
    const sl_store_entry *entry;
    size_t count;
    if (c->view.phase != SL_PHASE_HOLDING || !h->round)
        return;
    do {
        if (!sl_control_read(c, SL_LOG_VIEWS, &h->position, SL_READ_MAX, &entry, &count))
            return;
        for (size_t i = 0; i < count; i++) {
            const void *body;
            const sl_message_head *head = sl_control_message(c, &entry[i], SL_MESSAGE_VIEW, &body);
            if (head)
                sl_closing_add(&h->closing, head, body);
        }
    } while (count == SL_READ_MAX);
    if (sl_closing_ready(&h->closing))
        next_look(c);
    else
        sl_control_because(c, "%d of %d ranks answered in time", h->closing.came, h->closing.ranks);
}
