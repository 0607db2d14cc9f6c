#include "base/memory.h"
#include "run/file/roster.h"
#include "run/file/run_inside.h"

#include <string.h>
#include <unistd.h>

#define AT(field) offsetof(fault_item, field)
#define FAULT(field) offsetof(sl_fault, field)

int sl_fault_is_active(const sl_fault *f, int iteration) {
    return iteration >= f->first && iteration < f->end &&
           (f->every == 0 || (iteration - f->first) % f->every < f->lasts);
}

/* ---- keys ---- */

/* An item of the file; the fault comes first, so that its fields are at their own offsets. */
typedef struct fault_item {
    sl_fault fault;
    int one_way, iteration, nic;
    int link[2], replicas[2];
} fault_item;
_Static_assert(offsetof(fault_item, fault) == 0, "FAULT() is an offset in fault_item, too");

static sl_status parse_pair(const sl_yaml *node, int least, int *pair) {
    if (node->kind != SL_YAML_LIST || node->children != 2)
        return sl_yaml_error(node, "must be a list of two numbers");
    for (int i = 0; i < 2; i++) {
        int64_t value;
        if (sl_yaml_int(node->child[i], least, INT32_MAX, &value) != SL_OK)
            return sl_yaml_error(node, "must hold whole numbers of at least %d, got '%s'", least,
                                 node->child[i]->text ? node->child[i]->text : "?");
        pair[i] = (int)value;
    }
    return SL_OK;
}

static sl_status parse_iterations(const sl_yaml *node, void *object) {
    fault_item *item = object;
    int pair[2] = {0, 0};
    SL_TRY(parse_pair(node, 0, pair));
    if (pair[1] <= pair[0])
        return sl_yaml_error(node, "must be [first, end) with first < end");
    item->fault.first = pair[0];
    item->fault.end = pair[1];
    return SL_OK;
}

static sl_status parse_link(const sl_yaml *node, void *object) {
    return parse_pair(node, 0, ((fault_item *)object)->link);
}

static sl_status parse_replicas(const sl_yaml *node, void *object) {
    fault_item *item = object;
    SL_TRY(parse_pair(node, 0, item->replicas));
    return item->replicas[0] != item->replicas[1] ? SL_OK : sl_yaml_error(node, "must be two replicas");
}

static sl_status parse_fault_host(const sl_yaml *node, void *object) {
    const char *name;
    SL_TRY(sl_yaml_text(node, &name));
    return *name ? sl_copy_text(&((fault_item *)object)->fault.host, name)
                 : sl_yaml_error(node, "must be the name of a host");
}

/* A key is a line. */
/* clang-format off */
static const sl_key fault_keys[] = {
    {.name = "iterations", .type = SL_KEY_CUSTOM, .parse = parse_iterations, .help = "[first, end)"},
    {.name = "every", .type = SL_KEY_INT, .standard = "0", .offset = FAULT(every), .minimum = 0, .maximum = 1e9, .help = "with for: again and again, as a device that throttles; a spell begins with the first of its iterations and whenever so many more have passed; 0: all the time"},
    {.name = "for", .type = SL_KEY_INT, .standard = "0", .offset = FAULT(lasts), .minimum = 0, .maximum = 1e9, .help = "iterations that such a spell lasts, less than every"},
    {.name = "iteration", .type = SL_KEY_INT, .standard = "-1", .offset = AT(iteration), .minimum = -1, .maximum = 1e9, .help = "with kill: when"},
    {.name = "link", .type = SL_KEY_CUSTOM, .parse = parse_link, .help = "[rank, rank] of the pipeline, both directions unless one_way"},
    {.name = "replicas", .type = SL_KEY_CUSTOM, .parse = parse_replicas, .help = "[replica, replica] with rank: a link, that between this pipeline rank of the two, which carries their sums of gradients; both directions unless one_way"},
    {.name = "nic", .type = SL_KEY_INT, .standard = "-1", .offset = AT(nic), .minimum = -1, .maximum = SL_MAX_RANKS, .help = "the network card of this pipeline rank is slow: all that it sends and receives, messages of the pipeline and sums over replicas"},
    {.name = "one_way", .type = SL_KEY_BOOL, .standard = "false", .offset = AT(one_way), .help = "only from the first to the second"},
    {.name = "latency_ms", .type = SL_KEY_REAL, .standard = "0", .offset = FAULT(latency_ms), .minimum = 0, .maximum = 60000, .help = "added to the link, or to every message that passes the card, ms"},
    {.name = "bandwidth_gbps", .type = SL_KEY_REAL, .standard = "0", .offset = FAULT(bandwidth_gbps), .minimum = 0, .maximum = 1e6, .help = "replaces the link's, 1e9 bit/s; of a card: what all its messages share, per direction"},
    {.name = "per_queue", .type = SL_KEY_BOOL, .standard = "false", .offset = FAULT(per_queue), .help = "that bandwidth is of each delegate's queue, as where every flow is limited, not of the link"},
    {.name = "rank", .type = SL_KEY_INT, .standard = "-1", .offset = FAULT(rank), .minimum = -1, .maximum = SL_MAX_RANKS, .help = "a slow pipeline rank; with replicas: the rank whose link it is"},
    {.name = "host", .type = SL_KEY_CUSTOM, .parse = parse_fault_host, .help = "a host by its own name, by that in the list of hosts, or by its number in that list: with slowdown all ranks on it are slow; with latency_ms or bandwidth_gbps its network card is, which messages to and from other hosts pass; with link or replicas: that is slow only while one of its ends is on this host"},
    {.name = "slowdown", .type = SL_KEY_REAL, .standard = "1", .offset = FAULT(slowdown), .minimum = 1, .maximum = 1000, .help = "its ops take this many times their pace"},
    {.name = "kill", .type = SL_KEY_INT, .standard = "-1", .offset = FAULT(kill), .minimum = -1, .maximum = SL_MAX_RANKS, .help = "this pipeline rank dies (SIGKILL), once: not again when the run continues"},
    {.name = "replica", .type = SL_KEY_INT, .standard = "-1", .offset = FAULT(replica), .minimum = -1, .maximum = SL_MAX_RANKS, .help = "only in this replica; absent: in every replica, with kill in replica 0"},
    {.name = "tensor", .type = SL_KEY_INT, .standard = "-1", .offset = FAULT(tensor), .minimum = -1, .maximum = SL_MAX_RANKS, .help = "only at this tensor rank; absent: at every one, with kill at 0"},
    {0}};
/* clang-format on */

void sl_run_visit_fault_keys(sl_key_visit visit, void *context) {
    sl_config_visit(fault_keys, "faults[].", visit, context);
}

/* ---- one item by itself ---- */

/* What the keys of an item name together. */
typedef struct named {
    int link, between, rank, nic, host, kill; /* each 0 or 1 */
    int network;                              /* a link or a card: messages are slow, not ops */
} named;

static named what_is_named(const fault_item *item) {
    const sl_fault *f = &item->fault;
    named n = {.link = item->link[0] >= 0,
               .between = item->replicas[0] >= 0,
               .nic = item->nic >= 0,
               .kill = f->kill >= 0};
    n.rank = f->rank >= 0 && !n.between;
    n.host = f->host && !n.link && !n.between;
    n.network = n.link || n.between || n.nic || (n.host && (f->latency_ms > 0 || f->bandwidth_gbps > 0));
    return n;
}

/* A key that does not apply to the named component. */
static sl_status refuse_key(const sl_yaml *node, const char *key, const char *why) {
    const sl_yaml *found = sl_yaml_find(node, key);
    return found ? sl_yaml_error(found, "%s", why) : SL_OK;
}

/* Checks the required keys of a slow link or card. */
static sl_status check_network(const sl_yaml *node, const fault_item *item, const named *n) {
    const sl_fault *fault = &item->fault;
    if (fault->latency_ms <= 0 && fault->bandwidth_gbps <= 0)
        return sl_yaml_error(node, "needs latency_ms or bandwidth_gbps with link, replicas or nic");
    if (fault->slowdown > 1)
        return sl_yaml_error(node, "has a slowdown, but %s; a slow device is a fault of its own",
                             n->between || n->link ? "with link or replicas it is a link that is slow"
                                                   : "with latency or bandwidth it is a card that is slow");
    if (n->nic || n->host) {
        SL_TRY(refuse_key(node, "one_way", "belongs to link and replicas; a card is slow both ways"));
        SL_TRY(refuse_key(node, "per_queue", "belongs to link; a card is one for all its messages"));
    }
    if (n->host) {
        SL_TRY(refuse_key(node, "replica", "does not go with a host's network card, which is of all on it"));
        SL_TRY(refuse_key(node, "tensor", "does not go with a host's network card, which is of all on it"));
    }
    if (!n->between)
        return SL_OK;
    if (fault->rank < 0)
        return sl_yaml_error(node, "needs 'rank' with 'replicas'");
    return fault->replica >= 0 ? sl_yaml_error(node, "has both replica and replicas") : SL_OK;
}

static sl_status check_slow(const sl_yaml *node, const sl_fault *fault, const named *n) {
    static const char *const words = "is of links and network cards; of all links of a rank with `nic`";
    SL_TRY(fault->latency_ms > 0 ? refuse_key(node, "latency_ms", words) : SL_OK);
    SL_TRY(fault->bandwidth_gbps > 0 ? refuse_key(node, "bandwidth_gbps", words) : SL_OK);
    if (fault->slowdown <= 1)
        return sl_yaml_error(node, "needs a slowdown above 1 with %s",
                             n->host ? "host, or latency_ms or bandwidth_gbps for its network card" : "rank");
    return SL_OK;
}

static sl_status check_spells(const sl_yaml *node, const sl_fault *fault, const named *n) {
    const int every = fault->every, lasts = fault->lasts;
    if (every == 0 && lasts == 0)
        return SL_OK;
    if (n->kill)
        return sl_yaml_error(sl_yaml_find(node, every ? "every" : "for"), "does not go with kill");
    if (every == 0 || lasts == 0)
        return sl_yaml_error(node, "needs both 'every' and 'for', or neither");
    return lasts < every
               ? SL_OK
               : sl_yaml_error(sl_yaml_find(node, "for"),
                               "of %d leaves no pause in 'every' of %d; leave both out", lasts, every);
}

static sl_status check_item(const sl_yaml *node, const fault_item *item) {
    const sl_fault *fault = &item->fault;
    const named n = what_is_named(item);
    if (n.link + n.between + n.rank + n.nic + n.host + n.kill != 1)
        return sl_yaml_error(node, "must name one of link, rank, nic, host and kill, or rank and replicas");
    if (n.kill && item->iteration < 0)
        return sl_yaml_error(node, "needs 'iteration' with kill");
    if (!n.kill && (fault->end == 0 || item->iteration >= 0))
        return sl_yaml_error(node, "needs 'iterations: [first, end]'");
    SL_TRY(check_spells(node, fault, &n));
    if (n.network)
        return check_network(node, item, &n);
    return n.kill ? SL_OK : check_slow(node, fault, &n);
}

/* ---- the list ---- */

static sl_status add_direction(sl_run *run, const fault_item *item, int backward) {
    sl_fault *fault = &run->fault[run->faults++];
    *fault = item->fault;
    fault->host = NULL;
    fault->from = item->link[backward];
    fault->to = item->link[1 - backward];
    fault->from_replica = item->replicas[backward];
    fault->to_replica = item->replicas[1 - backward];
    return item->fault.host ? sl_copy_text(&fault->host, item->fault.host) : SL_OK;
}

/* In both directions, if it is a link. */
static sl_status add_fault(sl_run *run, fault_item *item) {
    const named n = what_is_named(item);
    sl_fault *fault = &item->fault;
    if (n.kill) {
        fault->first = item->iteration;
        fault->end = item->iteration + 1;
        fault->replica = fault->replica < 0 ? 0 : fault->replica;
        fault->tensor = fault->tensor < 0 ? 0 : fault->tensor;
    }
    if (n.between) {
        item->link[0] = item->link[1] = fault->rank;
        fault->rank = -1;
    }
    fault->nic = n.nic || (n.host && n.network);
    if (n.nic)
        fault->rank = item->nic;
    SL_TRY(add_direction(run, item, 0));
    return item->link[0] >= 0 && !item->one_way ? add_direction(run, item, 1) : SL_OK;
}

static sl_status read_item(const sl_yaml *node, int number, sl_run *run) {
    fault_item item = {.link = {-1, -1}, .replicas = {-1, -1}};
    if (node->kind != SL_YAML_MAP)
        return sl_yaml_error(node, "a fault must be a map of keys");
    sl_status status = sl_config_read(node, "faults", fault_keys, &item);
    item.fault.item = number;
    SL_THEN(status, check_item(node, &item));
    SL_THEN(status, add_fault(run, &item));
    sl_free(item.fault.host);
    return status;
}

sl_status sl_run_read_faults(const sl_yaml *node, void *object) {
    sl_run *run = object;
    if (node->kind != SL_YAML_LIST)
        return sl_yaml_error(node, "must be a list");
    SL_TRY(sl_alloc(&run->fault, 2 * (size_t)node->children, sizeof *run->fault));
    for (int i = 0; i < node->children; i++)
        SL_TRY(read_item(node->child[i], i, run));
    return SL_OK;
}

void sl_run_free_faults(sl_run *run) {
    for (int i = 0; i < run->faults; i++)
        sl_free(run->fault[i].host);
    sl_free(run->fault);
}

/* ---- what is there ---- */

/* The ranks, replicas and tensor ranks to which a fault is limited, or between which it is. */
static sl_status check_component(const sl_yaml *node, const sl_run *run, const sl_fault *f) {
    const int ranks = run->parallel.pipeline, replicas = run->parallel.data, tensors = run->parallel.tensor;
    int replica = f->from_replica > f->to_replica ? f->from_replica : f->to_replica;
    replica = f->replica > replica ? f->replica : replica;
    int worst = f->from > f->to ? f->from : f->to;
    worst = f->rank > worst ? f->rank : worst;
    worst = f->kill > worst ? f->kill : worst;
    if (replica >= replicas)
        return sl_yaml_error(node, "a fault names replica %d, but the run has replicas 0 to %d", replica,
                             replicas - 1);
    if (f->tensor >= tensors)
        return sl_yaml_error(node, "a fault names tensor rank %d, but the run has tensor ranks 0 to %d",
                             f->tensor, tensors - 1);
    if (worst >= ranks)
        return sl_yaml_error(node, "a fault names rank %d, but the run has ranks 0 to %d", worst, ranks - 1);
    if (f->from >= 0 && f->from_replica < 0 && !sl_run_has_link(run, f->from, f->to))
        return sl_yaml_error(
            node,
            "a fault names a link of ranks that are not neighbors: with placement %s nothing is "
            "sent between ranks %d and %d",
            sl_placement_name((sl_placement)run->parallel.placement), f->from, f->to);
    if (f->nic && ranks * replicas == 1)
        return sl_yaml_error(
            node, "a fault names a network card, but with one pipeline rank and one replica nothing "
                  "is sent");
    return SL_OK;
}

/* Whether the run file itself lists its hosts; otherwise it names a hostfile, or only the launcher knows
 * them. */
static int lists_hosts(const sl_run *run) {
    for (int i = 0; i < run->hosts; i++)
        if (strchr(run->host[i], '/'))
            return 0;
    return run->hosts > 1 || (run->hosts == 1 && access(run->host[0], F_OK) != 0);
}

/* Copies the name of entry `number` of the list (without its slots). An item of the list may have several,
 * separated by commas. 0: no more. */
static int find_entry(const sl_run *run, int number, char *name, size_t size) {
    for (int i = 0; i < run->hosts; i++)
        for (const char *at = run->host[i];; at++) {
            size_t length = strcspn(at, ",");
            if (number-- == 0) {
                snprintf(name, size, "%.*s", (int)strcspn(at, ":,"), at);
                return 1;
            }
            at += length;
            if (!*at)
                break;
        }
    return 0;
}

static sl_status check_name(const sl_yaml *node, const sl_run *run, const char *name) {
    char entry[256];
    int entries = 0;
    for (; find_entry(run, entries, entry, sizeof entry); entries++)
        if (sl_roster_may_be(entry, name))
            return SL_OK;
    return sl_yaml_error(node, "of '%.100s' is not one of the run's %d hosts", name, entries);
}

/* Replaces a number by the name in the list. If the list is known, other hosts are rejected. */
static sl_status check_host(const sl_yaml *node, const sl_run *run, sl_fault *f) {
    char name[256], first[256];
    int64_t number = -1;
    int count = 0, differ = 0;
    if (!node->quoted && node->text[strspn(node->text, "0123456789")] == 0)
        SL_TRY(sl_yaml_int(node, 0, INT32_MAX, &number));
    if (number >= 0 && !lists_hosts(run))
        return sl_yaml_error(node, "of %d is a number in the list of hosts, which the run file does not have",
                             (int)number);
    if (!lists_hosts(run))
        return SL_OK;
    find_entry(run, 0, first, sizeof first);
    for (; find_entry(run, count, name, sizeof name); count++)
        differ |= strcmp(name, first) != 0; /* a host may be named again, for more slots */
    if (number >= count)
        return sl_yaml_error(node, "must be from 0 to %d, for the run's hosts", count - 1);
    if (f->nic && !differ)
        return sl_yaml_error(node,
                             "a fault names a network card, but the run has one host, and nothing leaves it");
    if (number < 0)
        return check_name(node, run, f->host);
    find_entry(run, (int)number, name, sizeof name);
    sl_free(f->host);
    f->host = NULL;
    return sl_copy_text(&f->host, name);
}

sl_status sl_run_check_faults(const sl_document *document, sl_run *run) {
    const sl_yaml *list = sl_yaml_find(document->root, "faults");
    for (int i = 0; i < run->faults; i++) {
        const sl_yaml *node = list->child[run->fault[i].item];
        SL_TRY(check_component(node, run, &run->fault[i]));
        if (run->fault[i].host)
            SL_TRY(check_host(sl_yaml_find(node, "host"), run, &run->fault[i]));
    }
    return SL_OK;
}
