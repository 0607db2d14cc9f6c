#include "notice/control/closing.h"

#include "base/memory.h"
#include <stdio.h>
#include <string.h>

sl_status sl_closing_begin(sl_closing *c, int64_t round, int ranks, sl_cut_limits limits) {
    sl_closing_end(c);
    c->ranks = ranks;
    c->round = round;
    SL_TRY(sl_alloc(&c->view, (size_t)ranks, sizeof *c->view));
    SL_TRY(sl_alloc(&c->seen, (size_t)ranks, 1));
    SL_TRY(sl_alloc(&c->views, (size_t)ranks, sizeof *c->views));
    for (int r = 0; r < ranks; r++)
        c->view[r] = &c->views[r];
    return sl_cut_create(&c->cut, ranks, limits);
}

void sl_closing_end(sl_closing *c) {
    SL_FREE(c->view, c->views, c->seen);
    sl_cut_destroy(c->cut);
    *c = (sl_closing){.cut = NULL};
}

void sl_closing_add(sl_closing *c, const sl_message_head *head, const void *body) {
    if (!c->cut || head->round != c->round || head->look != c->look)
        return;
    if (head->trouble[0])
        snprintf(c->trouble, sizeof c->trouble, "node %.*s: %s", 80, head->node, head->trouble);
    if (head->trouble[0] || head->rank < 0 || head->rank >= c->ranks) {
        if (!c->trouble[0])
            snprintf(c->trouble, sizeof c->trouble, "a gate says that it is of rank %d", head->rank);
        return;
    }
    if (sl_view_unpack(body, head->count, c->view[head->rank]) != 0)
        return;
    c->came += !c->seen[head->rank];
    c->seen[head->rank] = 1;
}

int sl_closing_ready(const sl_closing *c) {
    return c->cut && (c->came == c->ranks || c->trouble[0]);
}

static json_t *describe(const sl_cut_raise *raise) {
    return json_pack("[i,I,i,i,i,I,I]", raise->rank, (json_int_t)raise->key.communicator, raise->key.source,
                     raise->key.destination, raise->key.tag, (json_int_t)raise->key.kind,
                     (json_int_t)raise->target);
}

sl_status sl_closing_step(sl_closing *c, sl_time now, sl_cut_verdict *verdict, json_t **raises) {
    const sl_cut_raise *raise = NULL;
    size_t count = 0;
    *verdict = SL_CUT_RELEASE;
    *raises = json_array();
    if (!*raises)
        return sl_error(SL_ENOMEM, "out of memory for a hold");
    if (c->trouble[0])
        return SL_OK;
    *verdict = SL_CUT_MOVING;
    if (c->look > 0) {
        sl_status status =
            sl_cut_step(c->cut, (const sl_gate_view *const *)(void *)c->view, now, verdict, &raise, &count);
        if (status == SL_ENOMEM)
            return status;
        if (status != SL_OK) {
            *verdict = SL_CUT_RELEASE;
            count = 0;
        }
        snprintf(c->trouble, sizeof c->trouble, "%s",
                 status != SL_OK              ? sl_error_text()
                 : *verdict == SL_CUT_RELEASE ? sl_cut_reason(c->cut)
                                              : "");
    }
    for (size_t i = 0; i < count; i++)
        json_array_append_new(*raises, describe(&raise[i]));
    c->look++;
    c->came = 0;
    memset(c->seen, 0, (size_t)c->ranks);
    return SL_OK;
}
