#include "notice/control/controller_inside.h"

#include "base/memory.h"
#include <stdio.h>

#define POLL (50 * SL_MS) /* of the validation's result */
#define MAX 512           /* entries of one reading */

void sl_controller_read_profiles(sl_controller *c) {
    const sl_store_entry *entry;
    size_t count;
    if (!c->profile.collection.round)
        return;
    do {
        if (!sl_controller_answered(
                c, sl_store_read(c->config.store, SL_LOG_PROFILES, &c->at_profiles, 64, 0, &entry, &count)))
            return;
        for (size_t i = 0; i < count; i++) {
            const void *body;
            const sl_message_head *head = sl_message_read(&entry[i], SL_MESSAGE_CALLS, &body);
            if (!head)
                sl_store_refuse(c->config.store);
            if (!head || head->round != c->profile.collection.round)
                continue;
            if (sl_collection_add(&c->profile.collection, &c->nodes, head, body) != SL_OK ||
                sl_traffic_take(&c->standing.traffic, head, body, !c->view.slow) != SL_OK)
                c->failed = SL_ENOMEM;
        }
    } while (count == 64 && !c->failed);
    const sl_collection *got = &c->profile.collection;
    int here = sl_collection_whole(got) || (got->tolds > 0 && c->now > c->profile.to + 4 * SL_SECOND);
    if (here && !sl_controller_profile_again(c))
        sl_controller_feed(c, SL_IN_PROFILE, 0);
}

static void next_look(sl_controller *c) {
    sl_closing *closing = &c->hold.closing;
    sl_cut_verdict verdict;
    json_t *raises;
    if (sl_closing_step(closing, c->now, &verdict, &raises) != SL_OK) {
        c->failed = SL_ENOMEM;
        return;
    }
    if (verdict == SL_CUT_MOVING) {
        json_t *order = json_pack("{s:i,s:o}", "look", closing->look, "raises", raises);
        sl_controller_order(c, "look", c->hold.round, order);
        return;
    }
    json_decref(raises);
    if (verdict == SL_CUT_CLOSED) {
        char seen[128];
        c->hold.closed = c->now;
        c->view.closed++;
        snprintf(seen, sizeof seen, "%d ranks paused after %.1f ms (%d polls)", closing->ranks,
                 sl_to_ms(c->now - c->hold.begin), closing->look);
        sl_controller_tell(c, SL_EVENT_HELD, seen, "validation", NULL);
        sl_controller_feed(c, SL_IN_CLOSED, c->hold.until);
        return;
    }
    snprintf(c->reason, sizeof c->reason, "%s", closing->trouble);
    sl_controller_feed(c, SL_IN_OPEN, 0);
}

void sl_controller_read_views(sl_controller *c) {
    const sl_store_entry *entry;
    size_t count;
    if (c->phases.phase != SL_PHASE_HOLDING || !c->hold.round)
        return;
    do {
        if (!sl_controller_answered(
                c, sl_store_read(c->config.store, SL_LOG_VIEWS, &c->at_views, MAX, 0, &entry, &count)))
            return;
        for (size_t i = 0; i < count; i++) {
            const void *body;
            const sl_message_head *head = sl_message_read(&entry[i], SL_MESSAGE_VIEW, &body);
            if (head)
                sl_closing_add(&c->hold.closing, head, body);
            else
                sl_store_refuse(c->config.store);
        }
    } while (count == MAX);
    if (sl_closing_ready(&c->hold.closing))
        next_look(c);
    else
        snprintf(c->reason, sizeof c->reason, "%d of %d ranks answered in time", c->hold.closing.came,
                 c->hold.closing.ranks);
}

void sl_controller_read_validation(sl_controller *c) {
    char key[48];
    void *bytes;
    size_t size;
    if (c->phases.phase != SL_PHASE_VALIDATING || !c->validation.round || c->validation.result ||
        c->now < c->validation.next)
        return;
    c->validation.next = c->now + POLL;
    snprintf(key, sizeof key, "validation:%lld", (long long)c->validation.round);
    if (!sl_controller_answered(c, sl_store_get(c->config.store, key, &bytes, &size)) || !bytes)
        return;
    c->validation.result = json_loadb(bytes, size, 0, NULL);
    sl_free(bytes);
    if (!c->validation.result)
        return;
    sl_controller_validated(c);
    sl_controller_feed(c, SL_IN_TICK, 0); /* and inputs noted by the conclusion */
}
