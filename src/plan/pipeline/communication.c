/* `communication:`: the regime in which messages travel, alone or with its communicators. */
#include "base/memory.h"
#include "plan/pipeline/problem_read.h"

#include <stddef.h>

typedef struct communication_request {
    int regime, communicators, receive_buffers;
    double eager_kb, receive_memory;
} communication_request;

const char *const sl_regime_names[] = {"decoupled", "inorder", "batched", "fifo", NULL};
const char *const sl_communicators_names[] = {"pipeline", "pair", "direction", "kind", NULL};

#define AT(field) offsetof(communication_request, field)
/* clang-format off */
const sl_key sl_communication_keys[] = {
    {.name = "regime", .type = SL_KEY_CHOICE, .standard = "decoupled", .offset = AT(regime), .choices = sl_regime_names, .help = "sends hold a rank: never, in `queue` slots, or until all that a boundary between two ops issues has arrived; fifo: never, but the messages of a communicator wait for each other"},
    {.name = "communicators", .type = SL_KEY_CHOICE, .standard = "pipeline", .offset = AT(communicators), .choices = sl_communicators_names, .help = "fifo: one for all messages, per pair of ranks, per direction of a pair, or per direction and kind (F, B)"},
    {.name = "eager_kb", .type = SL_KEY_REAL, .standard = "0", .offset = AT(eager_kb), .minimum = 0, .maximum = 1e9, .help = "fifo: size up to which a message does not wait for its receive, 1e3 bytes; links then need bandwidth_gbps and message_mb"},
    {.name = "receive_buffers", .type = SL_KEY_INT, .standard = "0", .offset = AT(receive_buffers), .minimum = 0, .maximum = 1e6, .help = "fifo: most receives of a rank that are issued and whose op has not ended; 0: any number, else at least 2"},
    {.name = "receive_memory", .type = SL_KEY_REAL, .standard = "0", .offset = AT(receive_memory), .minimum = 0, .maximum = SL_MAX_MEMORY, .help = "fifo: memory of a receive buffer; all receive_buffers are permanent use, like memory.fixed"},
    {0}};
/* clang-format on */

/* A link that messages use has a size, because placements connect neighbors only. */
static sl_status check_sizes(const sl_yaml *node, const sl_problem *p) {
    for (int stage = 0; stage < p->stages; stage++) {
        int next = sl_problem_next(p, stage), from = sl_problem_rank(p, stage),
            to = next >= 0 ? sl_problem_rank(p, next) : from;
        for (int back = 0; back < 2 && from != to; back++)
            if (p->link[back ? to * p->ranks + from : from * p->ranks + to].bytes <= 0)
                return sl_yaml_error(node, "has eager_kb, but link %d-%d lacks bandwidth_gbps and message_mb",
                                     back ? to : from, back ? from : to);
    }
    return SL_OK;
}

/* The buffers of a rank are permanent use. */
static sl_status reserve_buffers(const sl_yaml *node, double each, sl_problem *p) {
    double all = each * p->receive_buffers;
    if (each > 0 && p->receive_buffers == 0)
        return sl_yaml_error(node, "has receive_memory, which needs receive_buffers");
    if (each > 0 && p->layers)
        return sl_yaml_error(
            node, "has receive_memory, which belongs in 'layers' (weights) where stages are cut from layers");
    if (each > 0 && !p->fixed)
        SL_TRY(sl_alloc(&p->fixed, (size_t)p->ranks, sizeof *p->fixed));
    for (int rank = 0; each > 0 && rank < p->ranks; rank++) {
        p->fixed[rank] += all;
        if (p->limit && p->limit[rank] < all)
            return sl_yaml_error(node, "takes %g for receive buffers on rank %d, over its limit of %g", all,
                                 rank, p->limit[rank]);
        if (p->limit)
            p->limit[rank] -= all;
    }
    return SL_OK;
}

sl_status sl_read_communication(const sl_yaml *node, sl_problem *p) {
    communication_request r = {0};
    if (node->kind == SL_YAML_SCALAR)
        SL_TRY(sl_config_read_value(node, &sl_communication_keys[0], &r));
    else
        SL_TRY(sl_config_read(node, "communication", sl_communication_keys, &r));
    p->communication = (sl_regime)r.regime;
    p->communicators = (sl_communicators)r.communicators;
    p->eager = r.eager_kb * 1e3;
    p->receive_buffers = r.receive_buffers;
    for (const sl_key *key = &sl_communication_keys[1]; key->name && r.regime != SL_FIFO; key++)
        if (sl_yaml_find(node, key->name))
            return sl_yaml_error(node, "has %s, which only regime fifo has", key->name);
    if (p->receive_buffers == 1)
        return sl_yaml_error(node, "has receive_buffers 1, but a pair of ops may need two messages");
    SL_TRY(reserve_buffers(node, r.receive_memory, p));
    return p->eager > 0 ? check_sizes(node, p) : SL_OK;
}

void sl_write_communication(const sl_problem *p, FILE *out) {
    if (p->communication != SL_FIFO)
        fprintf(out, "  communication: %s\n", sl_regime_names[p->communication]);
    else
        fprintf(out,
                "  communication: {regime: fifo, communicators: %s, eager_kb: %.17g, receive_buffers: %d}\n",
                sl_communicators_names[p->communicators], p->eager / 1e3, p->receive_buffers);
}
