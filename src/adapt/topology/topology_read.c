/* The cluster file (docs/formats.md) through config tables. */
#include "adapt/topology/topology.h"
#include "adapt/topology/topology_volume.h"
#include "base/config.h"
#include "base/memory.h"
#include "plan/pipeline/kind.h"
#include "plan/pipeline/problem_read.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Hosts of a cluster file by name: one name, or several as prefix[first-last]suffix. */
/* Names of hosts, and ranges of them. */

#define LONGEST 200

/* The host of this name, or -1. */
static int sl_names_find(const sl_cluster *c, const char *name) {
    for (int i = 0; i < c->hosts; i++)
        if (c->name[i] && strcmp(c->name[i], name) == 0)
            return i;
    return -1;
}

static int digits(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!isdigit((unsigned char)text[i]))
            return 0;
    return length > 0 && length < 9;
}

/* Calls `each` for every name in `node` (a scalar), in order; at most SL_MAX_CLUSTER. SL_EINVAL names file,
 * line and key of `where`. */
static sl_status sl_names_expand(const sl_yaml *where, const sl_yaml *node,
                                 sl_status (*each)(const sl_yaml *, const char *, void *), void *object) {
    const char *text;
    if (node->kind != SL_YAML_SCALAR)
        return sl_yaml_error(where, "must be a name of a host, such as node3 or node[0-7]");
    text = node->text;
    if (strlen(text) == 0 || strlen(text) > LONGEST)
        return sl_yaml_error(where, "has a name of %zu characters; 1 to %d", strlen(text), LONGEST);
    const char *open = strchr(text, '['), *dash = open ? strchr(open, '-') : NULL,
               *close = open ? strchr(open, ']') : NULL;
    if (!open && !strchr(text, ']'))
        return each(where, text, object);
    if (!open || !dash || !close || close < dash || strchr(close, '[') || strchr(close + 1, ']') ||
        !digits(open + 1, (size_t)(dash - open - 1)) || !digits(dash + 1, (size_t)(close - dash - 1)))
        return sl_yaml_error(where, "has '%.60s'; a range of hosts is written node[0-7]", text);
    int width = open[1] == '0' ? (int)(dash - open - 1) : 1; /* node[00-15] */
    long first = strtol(open + 1, NULL, 10), last = strtol(dash + 1, NULL, 10);
    if (last < first || last - first >= SL_MAX_CLUSTER)
        return sl_yaml_error(where, "has '%.60s'; a range goes up, by at most %d hosts", text,
                             SL_MAX_CLUSTER);
    for (long i = first; i <= last; i++) {
        char name[LONGEST + 32];
        snprintf(name, sizeof name, "%.*s%0*ld%s", (int)(open - text), text, width, i, close + 1);
        SL_TRY(each(where, name, object));
    }
    return SL_OK;
}

typedef struct collection {
    const sl_cluster *cluster;
    int *host, *count;
    unsigned char seen[SL_MAX_CLUSTER];
} collection;

static sl_status collect(const sl_yaml *where, const char *name, void *object) {
    collection *c = object;
    int host = sl_names_find(c->cluster, name);
    if (host < 0)
        return sl_yaml_error(where, "names '%.60s', which is not among the hosts", name);
    if (c->seen[host])
        return sl_yaml_error(where, "names '%.60s' twice", name);
    c->seen[host] = 1;
    c->host[(*c->count)++] = host;
    return SL_OK;
}

/* A list of names, or one: their hosts into host[capacity], *count of them. `all` ("*") allowed: every host.
 * SL_EINVAL: unknown, twice, too many. */
static sl_status sl_names_hosts(const sl_cluster *c, const sl_yaml *where, const sl_yaml *node, int *host,
                                int *count) {
    collection all = {.cluster = c, .host = host, .count = count};
    *count = 0;
    if (node->kind == SL_YAML_MAP)
        return sl_yaml_error(where, "must be a host or a list of hosts");
    if (node->kind == SL_YAML_SCALAR && strcmp(node->text, "*") == 0) {
        for (int i = 0; i < c->hosts; i++)
            host[(*count)++] = i;
        return SL_OK;
    }
    if (node->kind == SL_YAML_SCALAR)
        return sl_names_expand(where, node, collect, &all);
    for (int i = 0; i < node->children; i++)
        SL_TRY(sl_names_expand(where, node->child[i], collect, &all));
    return *count > 0 ? SL_OK : sl_yaml_error(where, "has no hosts");
}

/* Making and freeing a bare cluster. */

static sl_status check_shape(int tensor, int data, int pipeline, int microbatches) {
    if (tensor < 1 || data < 1 || pipeline < 1 || tensor > SL_MAX_CLUSTER || data > SL_MAX_CLUSTER ||
        pipeline > SL_MAX_RANKS || (long long)tensor * data > SL_MAX_CLUSTER ||
        (long long)tensor * data * pipeline > SL_MAX_CLUSTER)
        return sl_error(SL_EINVAL, "tensor %d x data %d x pipeline %d: 1 to %d positions, %d stages at most",
                        tensor, data, pipeline, SL_MAX_CLUSTER, SL_MAX_RANKS);
    if (microbatches < 1 || microbatches > SL_MAX_MICROBATCHES || 3LL * microbatches * pipeline > SL_MAX_OPS)
        return sl_error(SL_EINVAL, "%d microbatches of %d stages are out of 1 to %d ops", microbatches,
                        pipeline, SL_MAX_OPS);
    return SL_OK;
}

static sl_status make_arrays(sl_cluster *c) {
    size_t n = (size_t)c->hosts, stages = (size_t)c->pipeline;
    SL_TRY(sl_alloc(&c->name, n, sizeof *c->name));
    SL_TRY(sl_alloc(&c->speed, n, sizeof *c->speed));
    SL_TRY(sl_alloc(&c->latency, n * n, sizeof *c->latency));
    SL_TRY(sl_alloc(&c->pace, n * n, sizeof *c->pace));
    SL_TRY(sl_alloc(&c->present, n, sizeof *c->present));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        SL_TRY(sl_alloc(&c->time[kind], stages, sizeof *c->time[kind]));
    SL_TRY(sl_alloc(&c->gradient, stages, sizeof *c->gradient));
    SL_TRY(sl_alloc(&c->sums[0], stages, sizeof *c->sums[0]));
    SL_TRY(sl_alloc(&c->sums[1], stages, sizeof *c->sums[1]));
    return sl_copy_text(&c->schedule, "1f1b");
}

sl_status sl_cluster_make(int tensor, int data, int pipeline, int microbatches, sl_cluster *c) {
    *c = (sl_cluster){0};
    SL_TRY(check_shape(tensor, data, pipeline, microbatches));
    c->tensor = tensor;
    c->data = data;
    c->pipeline = pipeline;
    c->hosts = tensor * data * pipeline;
    c->microbatches = microbatches;
    SL_TRY(make_arrays(c));
    for (int i = 0; i < c->hosts; i++) {
        char name[32];
        snprintf(name, sizeof name, "node%d", i);
        SL_TRY(sl_copy_text(&c->name[i], name));
        c->speed[i] = 1;
        c->present[i] = i;
    }
    return SL_OK;
}

void sl_cluster_free(sl_cluster *c) {
    for (int i = 0; i < c->hosts && c->name; i++)
        sl_free(c->name[i]);
    SL_FREE(c->name, c->speed, c->latency, c->pace, c->present);
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        sl_free(c->time[kind]);
    SL_FREE(c->gradient, c->sums[0], c->sums[1], c->schedule);
    *c = (sl_cluster){0};
}

sl_status sl_cluster_check(const sl_cluster *c, const char *where) {
    double speed = 1e3, latency = 0, pace = 0, gradient = 0, total = 0;
    for (int i = 0; i < c->hosts; i++)
        speed = fmin(speed, c->speed[i]);
    for (size_t i = 0; i < (size_t)c->hosts * (size_t)c->hosts; i++) {
        latency = fmax(latency, c->latency[i]);
        pace = fmax(pace, c->pace[i]);
    }
    double sum = 2.0 * (c->tensor - 1) * (latency + c->sum / c->tensor * pace),
           hop = latency + c->activation * pace;
    double longest = hop;
    for (int p = 0; p < c->pipeline; p++) {
        gradient = fmax(gradient, c->gradient[p]);
        for (int kind = 0; kind < SL_OP_KINDS; kind++) {
            double op = (double)c->time[kind][p] / speed +
                        (kind == SL_W ? 0 : c->sums[kind != SL_F][p]) * (c->tensor > 1 ? sum : 0);
            longest = fmax(longest, op);
            total += c->microbatches * (op + hop);
        }
    }
    double ring = sl_sum_steps(c) * (latency + gradient / c->data * pace);
    longest = fmax(longest, ring);
    if (longest > 2 * SL_MAX_OP_MS * 1e6)
        return sl_error(SL_EINVAL, "%s has an op, message or ring that may take %.3g ms; at most %g", where,
                        longest / 1e6, 2 * SL_MAX_OP_MS);
    if (total + ring > SL_MAX_TOTAL_MS * 1e6 / 2)
        return sl_error(SL_EINVAL, "%s may take %.3g ms per iteration; at most %g", where,
                        (total + ring) / 1e6, SL_MAX_TOTAL_MS / 2);
    return SL_OK;
}

typedef struct topology_request {
    int tensor, data, pipeline, microbatches, size;
    char *schedule;
} topology_request;

typedef struct cluster_link_item {
    double latency_ms, bandwidth_gbps;
    int one_way;
} cluster_link_item;

typedef struct host_item {
    double speed;
} host_item;

#define AT(field) offsetof(topology_request, field)
#define LINK(field) offsetof(cluster_link_item, field)
/* clang-format off */
static const sl_key parallel_keys[] = {
    {.name = "tensor", .type = SL_KEY_INT, .standard = "1", .offset = AT(tensor), .minimum = 1, .maximum = SL_MAX_CLUSTER, .help = "tensor ranks of a stage, each on a host of its own; 1 where they share one"},
    {.name = "data", .type = SL_KEY_INT, .standard = "1", .offset = AT(data), .minimum = 1, .maximum = SL_MAX_CLUSTER, .help = "replicas"},
    {.name = "pipeline", .type = SL_KEY_INT, .standard = "1", .offset = AT(pipeline), .minimum = 1, .maximum = SL_MAX_RANKS, .help = "stages, one a pipeline rank"},
    {0}};
static const sl_key batch_keys[] = {
    {.name = "microbatches", .type = SL_KEY_INT, .required = 1, .offset = AT(microbatches), .minimum = 1, .maximum = SL_MAX_MICROBATCHES, .help = "of a replica and iteration"},
    {.name = "size", .type = SL_KEY_INT, .standard = "1", .offset = AT(size), .minimum = 1, .maximum = 1000000, .help = "sequences of a microbatch, for the volumes of `model`"},
    {0}};
static const sl_key host_keys[] = {
    {.name = "name", .type = SL_KEY_CUSTOM, .required = 1, .help = "a host, or several: node[0-7]. What holds one position: a machine, or one device of it"},
    {.name = "speed", .type = SL_KEY_REAL, .standard = "1", .offset = offsetof(host_item, speed), .minimum = 1e-3, .maximum = 1e3, .help = "times_ms are at speed 1; at 0.5 ops take twice as long"},
    {0}};
#define LINK_KEYS \
    {.name = "latency_ms", .type = SL_KEY_REAL, .standard = "0", .offset = LINK(latency_ms), .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "ms"}, \
    {.name = "bandwidth_gbps", .type = SL_KEY_REAL, .required = 1, .offset = LINK(bandwidth_gbps), .minimum = 1e-6, .maximum = 1e9, .help = "1e9 bit/s, as it is now: of a congested link what is left of it"}
static const sl_key default_keys[] = {LINK_KEYS, {0}};
static const sl_key group_keys[] = {
    {.name = "hosts", .type = SL_KEY_CUSTOM, .required = 1, .help = "links between any two of these hosts, such as those of a rack or of a machine's devices"},
    LINK_KEYS, {0}};
static const sl_key list_keys[] = {
    {.name = "between", .type = SL_KEY_CUSTOM, .required = 1, .help = "[a, b]: links between any of a and any of b, each a host, node[0-7], a list of such, or '*': all hosts"},
    {.name = "one_way", .type = SL_KEY_BOOL, .standard = "false", .offset = LINK(one_way), .help = "only from the first to the second"},
    LINK_KEYS, {0}};
static const sl_key links_keys[] = {
    {.name = "default", .type = SL_KEY_CUSTOM, .section = default_keys, .help = "every link that neither groups nor list name; required unless there is one host"},
    {.name = "groups", .type = SL_KEY_CUSTOM, .is_list = 1, .section = group_keys, .help = "a later group replaces an earlier one"},
    {.name = "list", .type = SL_KEY_CUSTOM, .is_list = 1, .section = list_keys, .help = "links that differ, after the groups; a later item replaces an earlier one"},
    {0}};
static const sl_key cluster_keys[] = {
    {.name = "parallel", .type = SL_KEY_SECTION, .required = 1, .section = parallel_keys},
    {.name = "batch", .type = SL_KEY_SECTION, .required = 1, .section = batch_keys},
    {.name = "times_ms", .type = SL_KEY_CUSTOM, .section = sl_time_keys, .help = "op times without the sums of tensor ranks, a number or one per stage; required unless --profile gives them"},
    {.name = "schedule", .type = SL_KEY_TEXT, .standard = "1f1b", .offset = AT(schedule), .help = "family (of plan --schedule) whose order is replayed"},
    {.name = "hosts", .type = SL_KEY_CUSTOM, .required = 1, .is_list = 1, .section = host_keys, .help = "a list of names or maps: as many hosts as there are positions (tensor * data * pipeline)"},
    {.name = "links", .type = SL_KEY_CUSTOM, .required = 1, .section = links_keys, .help = "between all hosts"},
    {.name = "present", .type = SL_KEY_CUSTOM, .help = "the hosts' names by position: tensor rank fastest, then replica, then stage; default: the order of hosts"},
    {.name = "model", .type = SL_KEY_CUSTOM, .section = sl_volume_model_keys, .help = "a transformer, from which the volumes follow"},
    {.name = "volumes", .type = SL_KEY_CUSTOM, .section = sl_volume_keys, .help = "instead of model: the volumes"},
    {0}};
/* clang-format on */

void sl_cluster_visit_keys(sl_key_visit visit, void *context) {
    sl_config_visit(cluster_keys, "", visit, context);
}

typedef struct naming {
    sl_cluster *cluster;
    double speed;
    int count;
} naming;

static sl_status add_host(const sl_yaml *where, const char *name, void *object) {
    naming *n = object;
    if (n->count == n->cluster->hosts)
        return sl_yaml_error(where, "has more hosts than the %d positions of 'parallel'", n->cluster->hosts);
    for (int i = 0; i < n->count; i++)
        if (strcmp(n->cluster->name[i], name) == 0)
            return sl_yaml_error(where, "names '%.60s' twice", name);
    if (strcmp(name, "*") == 0)
        return sl_yaml_error(where, "a host must not be named '*', which means all hosts");
    sl_free(n->cluster->name[n->count]);
    n->cluster->name[n->count] = NULL;
    SL_TRY(sl_copy_text(&n->cluster->name[n->count], name));
    n->cluster->speed[n->count++] = n->speed;
    return SL_OK;
}

static sl_status read_hosts(const sl_yaml *list, sl_cluster *c) {
    naming n = {.cluster = c};
    if (list->kind != SL_YAML_LIST)
        return sl_yaml_error(list, "must be a list of names or of {name, speed}");
    for (int i = 0; i < list->children; i++) {
        const sl_yaml *item = list->child[i];
        host_item host = {.speed = 1};
        if (item->kind == SL_YAML_MAP)
            SL_TRY(sl_config_read(item, "hosts", host_keys, &host));
        n.speed = host.speed;
        const sl_yaml *name = item->kind == SL_YAML_MAP ? sl_yaml_find(item, "name") : item;
        SL_TRY(sl_names_expand(name->key ? name : list, name, add_host, &n));
    }
    if (n.count < c->hosts)
        return sl_yaml_error(list, "has %d hosts for the %d positions of 'parallel'", n.count, c->hosts);
    return SL_OK;
}

static void set_link(sl_cluster *c, int from, int to, const cluster_link_item *link) {
    size_t i = (size_t)from * (size_t)c->hosts + (size_t)to;
    if (from == to)
        return;
    c->latency[i] = link->latency_ms * 1e6;
    c->pace[i] = 8 / link->bandwidth_gbps; /* bits per byte / bits per ns */
}

static sl_status read_group(const sl_yaml *item, sl_cluster *c, int *host) {
    cluster_link_item link = {0};
    int count;
    SL_TRY(sl_config_read(item, "groups", group_keys, &link));
    const sl_yaml *hosts = sl_yaml_find(item, "hosts");
    SL_TRY(sl_names_hosts(c, hosts, hosts, host, &count));
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++)
            set_link(c, host[i], host[k], &link);
    return SL_OK;
}

static sl_status read_pair(const sl_yaml *item, sl_cluster *c, int *host) {
    cluster_link_item link = {0};
    int count[2], *end[2] = {host, host + c->hosts};
    SL_TRY(sl_config_read(item, "list", list_keys, &link));
    const sl_yaml *between = sl_yaml_find(item, "between");
    if (between->kind != SL_YAML_LIST || between->children != 2)
        return sl_yaml_error(between, "must be [a, b]: two hosts, or two lists of hosts");
    for (int i = 0; i < 2; i++)
        SL_TRY(sl_names_hosts(c, between, between->child[i], end[i], &count[i]));
    if (count[0] == 1 && count[1] == 1 && *end[0] == *end[1])
        return sl_yaml_error(between, "must be two different hosts");
    for (int i = 0; i < count[0]; i++)
        for (int k = 0; k < count[1]; k++) {
            set_link(c, end[0][i], end[1][k], &link);
            if (!link.one_way)
                set_link(c, end[1][k], end[0][i], &link);
        }
    return SL_OK;
}

static sl_status read_items(const sl_yaml *list, sl_cluster *c,
                            sl_status (*read)(const sl_yaml *, sl_cluster *, int *)) {
    int *host;
    if (!list)
        return SL_OK;
    if (list->kind != SL_YAML_LIST)
        return sl_yaml_error(list, "must be a list of maps");
    SL_TRY(sl_alloc(&host, 2 * (size_t)c->hosts, sizeof *host));
    sl_status status = SL_OK;
    for (int i = 0; i < list->children && status == SL_OK; i++)
        status = list->child[i]->kind == SL_YAML_MAP ? read(list->child[i], c, host)
                                                     : sl_yaml_error(list, "must be a list of maps");
    sl_free(host);
    return status;
}

static sl_status read_links(const sl_yaml *map, sl_cluster *c) {
    cluster_link_item link = {0};
    SL_TRY(sl_config_read(map, "links", links_keys, &link));
    const sl_yaml *standard = sl_yaml_find(map, "default");
    if (!standard && c->hosts > 1)
        return sl_yaml_error(map, "lacks 'default', for all other links");
    if (standard) {
        SL_TRY(sl_config_read(standard, "default", default_keys, &link));
        for (int i = 0; i < c->hosts; i++)
            for (int k = 0; k < c->hosts; k++)
                set_link(c, i, k, &link);
    }
    SL_TRY(read_items(sl_yaml_find(map, "groups"), c, read_group));
    return read_items(sl_yaml_find(map, "list"), c, read_pair);
}

static sl_status read_present(const sl_yaml *node, sl_cluster *c) {
    int count;
    if (node->kind != SL_YAML_LIST)
        return sl_yaml_error(node, "must be a list of the hosts' names by position");
    SL_TRY(sl_names_hosts(c, node, node, c->present, &count));
    return count == c->hosts
               ? SL_OK
               : sl_yaml_error(node, "must name each of the %d hosts once, got %d", c->hosts, count);
}

static sl_status read_times(const sl_yaml *root, const sl_yaml *map, sl_cluster *c) {
    if (!map)
        return sl_error(SL_EINVAL,
                        "%s:%d: 'times_ms' is missing in 'cluster' (or give a profile with --profile)",
                        root->file, root->line);
    SL_TRY(sl_check_keys(map, sl_time_keys));
    if (sl_yaml_find(map, "FB"))
        return sl_yaml_error(sl_yaml_find(map, "FB"),
                             "is for schedules that overlap two ops; none is replayed here");
    return sl_read_op_times(map, c->pipeline, "stage", c->time);
}

/* Measurements of the first replica, at the speed of its hosts. */
static sl_status take_profile(const sl_yaml *root, const sl_problem *profile, sl_cluster *c) {
    if (sl_yaml_find(root, "times_ms"))
        return sl_yaml_error(sl_yaml_find(root, "times_ms"),
                             "is also given by the profile; omit one of them");
    if (profile->placement != SL_LINEAR || profile->stages != c->pipeline || profile->parts != 1)
        return sl_yaml_error(
            sl_yaml_find(root, "parallel"),
            "has %d stages; the profile has %d in the placement %s, and it must be linear with as many",
            c->pipeline, profile->stages, sl_placement_name(profile->placement));
    if (c->tensor > 1)
        return sl_yaml_error(
            sl_yaml_find(root, "parallel"),
            "has %d tensor ranks: a profile's op times include their sums, which cannot be separated",
            c->tensor);
    if (profile->microbatches != c->microbatches)
        return sl_yaml_error(sl_yaml_find(root, "batch"), "has %d microbatches, the profile %d",
                             c->microbatches, profile->microbatches);
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        for (int stage = 0; stage < c->pipeline; stage++)
            c->time[kind][stage] = (sl_time)((double)profile->time[kind][stage] *
                                                 c->speed[c->present[sl_position(c, 0, 0, stage)]] +
                                             0.5);
    return SL_OK;
}

static sl_status check_extremes(const sl_yaml *root, const sl_cluster *c) {
    char where[512];
    snprintf(where, sizeof where, "%s:%d: 'cluster'", root->file, root->line);
    return sl_cluster_check(c, where);
}

static sl_status read_rest(const sl_yaml *root, const sl_problem *profile, const topology_request *r,
                           sl_cluster *c) {
    SL_TRY(read_hosts(sl_yaml_find(root, "hosts"), c));
    SL_TRY(read_links(sl_yaml_find(root, "links"), c));
    if (sl_yaml_find(root, "present"))
        SL_TRY(read_present(sl_yaml_find(root, "present"), c));
    SL_TRY(sl_volume_read(root, r->size, c));
    if (profile)
        SL_TRY(take_profile(root, profile, c));
    else
        SL_TRY(read_times(root, sl_yaml_find(root, "times_ms"), c));
    return check_extremes(root, c);
}

/* A problem file has the pipeline of one replica, which is not enough. */
static sl_status refuse_problem(const sl_yaml *root) {
    const sl_yaml *pipeline = root->kind == SL_YAML_MAP ? sl_yaml_find(root, "pipeline") : NULL;
    if (!pipeline)
        return SL_OK;
    return sl_yaml_error(
        pipeline,
        "makes this a problem or a profile of one replica: it lacks hosts, the links between all of "
        "them, replicas and volumes; write a cluster file and give this one with --profile");
}

sl_status sl_cluster_read(const sl_document *document, const sl_problem *profile, sl_cluster *c) {
    topology_request r = {0};
    const sl_yaml *root = document->root;
    char text[256];
    sl_status status;
    *c = (sl_cluster){0};
    SL_TRY(refuse_problem(root));
    SL_TRY(sl_file_kind_check(root, SL_FILE_CLUSTER));
    SL_TRY_GOTO(done, status, sl_config_read(root, "cluster", cluster_keys, &r));
    if (sl_cluster_make(r.tensor, r.data, r.pipeline, r.microbatches, c) != SL_OK) {
        snprintf(text, sizeof text, "%s", sl_error_text());
        SL_TRY_GOTO(done, status, sl_yaml_error(sl_yaml_find(root, "parallel"), "%s", text));
    }
    sl_free(c->schedule);
    c->schedule = r.schedule;
    r.schedule = NULL;
    status = read_rest(root, profile, &r, c);
done:
    sl_free(r.schedule);
    return status;
}
