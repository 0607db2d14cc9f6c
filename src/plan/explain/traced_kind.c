#include "plan/explain/traced_kind.h"

#include <ctype.h>
#include <string.h>

const sl_traced_kind sl_traced_kinds[] = {
    [SL_KIND_FORWARD] = {"forward-compute", SL_ROLE_FORWARD, 0, 0, 0},
    [SL_KIND_BACKWARD] = {"backward-compute", SL_ROLE_BACKWARD, 0, 0, 0},
    [SL_KIND_FORWARD_TRANSFER] = {"forward transfers", SL_ROLE_TRANSFER, 0, 0, 0},
    [SL_KIND_BACKWARD_TRANSFER] = {"backward transfers", SL_ROLE_TRANSFER, 0, 0, 0},
    {"backward-wgrad-compute", SL_ROLE_LOCAL, 0, 0, 0},
    {"optimizer", SL_ROLE_LOCAL, 0, 0, 0},
    {"optimizer-inner-step", SL_ROLE_LOCAL, 0, 0, 0},
    {"layernorm-grads-all-reduce", SL_ROLE_LOCAL, 0, 0, 0}, /* over tensor ranks */
    {"gc", SL_ROLE_LOCAL, 0, 0, 0},
    {"data-load", SL_ROLE_LOCAL, 0, 0, 0},
    {"data-sync", SL_ROLE_LOCAL, 0, 0, 0},
    {"forward-send", SL_ROLE_MESSAGE, 1, 0, 0},
    {"forward-recv", SL_ROLE_MESSAGE, 0, 1, 0},
    {"backward-send", SL_ROLE_MESSAGE, 2, 0, 0},
    {"backward-recv", SL_ROLE_MESSAGE, 0, 2, 0},
    {"forward-send-backward-recv", SL_ROLE_MESSAGE, 1, 2, 0},
    {"backward-send-forward-recv", SL_ROLE_MESSAGE, 2, 1, 0},
    {"forward-send-forward-recv", SL_ROLE_MESSAGE, 1, 1, 0},
    {"backward-send-backward-recv", SL_ROLE_MESSAGE, 2, 2, 0},
    {"grads-reduce-scatter", SL_ROLE_REPLICAS, 0, 0, 0},
    {"grads-reduce-scatter-nonoverlapping", SL_ROLE_REPLICAS, 0, 0, 0},
    {"grads-all-reduce", SL_ROLE_REPLICAS, 0, 0, 0},
    {"separate-grads-all-reduce", SL_ROLE_REPLICAS, 0, 0, 0},
    {"params-all-gather", SL_ROLE_REPLICAS, 0, 0, 1},
    {"params-all-gather-nonoverlapping", SL_ROLE_REPLICAS, 0, 0, 1},
    {"embedding-grads-all-reduce", SL_ROLE_ENDS, 0, 0, 0},
    {"optimizer-clip-main-grad", SL_ROLE_ALL, 0, 0, 0},
    {"forward-backward", SL_ROLE_INSIDE, 0, 0, 0},
    {"tp-reducescatter", SL_ROLE_INSIDE, 0, 0, 0},
    {"tp-allgather", SL_ROLE_INSIDE, 0, 0, 0},
    {"tp-allreduce", SL_ROLE_INSIDE, 0, 0, 0},
};
const int sl_traced_kind_count = sizeof sl_traced_kinds / sizeof *sl_traced_kinds;

static int same(const char *name, const char *known) {
    for (; *name && *known; name++, known++)
        if (tolower((unsigned char)*name) != *known && !(*name == '_' && *known == '-'))
            return 0;
    return !*name && !*known;
}

int sl_traced_kind_find(const char *name) {
    for (int i = 0; i < sl_traced_kind_count; i++)
        if (sl_traced_kinds[i].role != SL_ROLE_TRANSFER && same(name, sl_traced_kinds[i].name))
            return i;
    return -1;
}
