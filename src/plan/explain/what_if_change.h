/* The time that a node of an iteration takes as it was, or with a change: a cause taken away (what_if.h says
 * what that means), or one of the ideals of the published method. */
#pragma once

#include "plan/explain/usual.h"

typedef enum sl_what_if_change {
    SL_CHANGE_AS_IT_WAS,
    SL_CHANGE_WITHOUT_KIND,   /* what: kind */
    SL_CHANGE_WITHOUT_WORKER, /* position */
    SL_CHANGE_WITHOUT_SLOW_WORKERS,
    SL_CHANGE_WITHOUT_REPLICA, /* replica */
    SL_CHANGE_WITHOUT_STAGE,   /* pipeline rank */
    SL_CHANGE_WITHOUT_CUT,
    SL_CHANGE_WITHOUT_LENGTHS,
    SL_CHANGE_WITHOUT_LINKS,       /* all transfers take their median */
    SL_CHANGE_WITHOUT_LINK,        /* position that receives * 2 + backward */
    SL_CHANGE_WITHOUT_COLLECTIVES, /* all take their median */
    SL_CHANGE_NO_LINKS_AT_ALL,     /* transfers take no time */
    SL_CHANGE_NO_COLLECTIVES_AT_ALL,
    SL_CHANGE_IDEAL,     /* published: everything is ideal */
    SL_CHANGE_ONLY_KIND, /* but for this kind; stage; replica */
    SL_CHANGE_ONLY_STAGE,
    SL_CHANGE_ONLY_REPLICA,
    SL_CHANGE_IDEAL_CHOSEN, /* only the chosen workers are ideal; only this pipeline rank */
    SL_CHANGE_IDEAL_STAGE
} sl_what_if_change;

/* What the changes refer to. */
typedef struct sl_what_if_case {
    const sl_hybrid_usual *usual;
    int graph;
    int what;                           /* kind, stage, replica, position, link */
    const unsigned char *slow, *chosen; /* [positions] */
} sl_what_if_case;

/** ns. Never fails. */
sl_time sl_what_if_time(sl_what_if_change change, const sl_what_if_case *c, const sl_hybrid_node *node);

/** What it would take on a usual worker. Never fails. */
sl_time sl_what_if_expected(const sl_what_if_case *c, const sl_hybrid_node *node);

static inline int sl_what_if_is_transfer(const sl_hybrid_node *node) {
    return sl_traced_kinds[node->kind].role == SL_ROLE_TRANSFER;
}
