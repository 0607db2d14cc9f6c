/* The cluster file (docs/formats.md) through config tables. */
#include "adapt/topology/topology.h"
#include "adapt/topology/topology_hosts.h"
#include "adapt/topology/topology_volume.h"
#include "base/config.h"
#include "base/memory.h"
#include "plan/pipeline/kind.h"
#include "plan/pipeline/problem_read.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

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

#define AT(field) offsetof(topology_request, field)
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
static const sl_key cluster_keys[] = {
    {.name = "parallel", .type = SL_KEY_SECTION, .required = 1, .section = parallel_keys},
    {.name = "batch", .type = SL_KEY_SECTION, .required = 1, .section = batch_keys},
    {.name = "times_ms", .type = SL_KEY_CUSTOM, .section = sl_time_keys, .help = "op times without the sums of tensor ranks, a number or one per stage; required unless --profile gives them"},
    {.name = "schedule", .type = SL_KEY_TEXT, .standard = "1f1b", .offset = AT(schedule), .help = "family (of plan --schedule) whose order is replayed"},
    {.name = "hosts", .type = SL_KEY_CUSTOM, .required = 1, .is_list = 1, .section = sl_cluster_host_keys, .help = "a list of names or maps: for topology as many hosts, or devices of hosts, as there are positions (tensor * data * pipeline)"},
    {.name = "links", .type = SL_KEY_CUSTOM, .required = 1, .section = sl_cluster_links_keys, .help = "between all hosts"},
    {.name = "device", .type = SL_KEY_CUSTOM, .section = sl_device_rate_keys, .help = "rates and memory of a device, for choose, which needs only hosts, links and device"},
    {.name = "communication", .type = SL_KEY_CUSTOM, .section = sl_communication_keys, .help = "for choose: what messages between stages wait for, as in a problem file, without receive_memory; default: that of the framework of --format, else decoupled. Regime fifo without communicators: choose takes the best"},
    {.name = "present", .type = SL_KEY_CUSTOM, .help = "the hosts' names by position: tensor rank fastest, then replica, then stage; default: the order of hosts. Of a host with several devices: node0/3, or node0 for all of them"},
    {.name = "model", .type = SL_KEY_CUSTOM, .section = sl_volume_model_keys, .help = "a transformer, from which the volumes follow"},
    {.name = "volumes", .type = SL_KEY_CUSTOM, .section = sl_volume_keys, .help = "instead of model: the volumes"},
    {0}};
/* clang-format on */

void sl_cluster_visit_keys(sl_key_visit visit, void *context) {
    sl_config_visit(cluster_keys, "", visit, context);
}

/* Every device at a position. */
static sl_status take_hosts(const sl_cluster_hosts *h, sl_cluster *c) {
    for (int i = 0; i < c->hosts; i++) {
        int from = sl_cluster_hosts_of(h, i);
        sl_free(c->name[i]);
        c->name[i] = NULL;
        SL_TRY(sl_cluster_hosts_name(h, i, &c->name[i]));
        c->speed[i] = h->host[from].speed;
        for (int to = 0; to < h->count; to++)
            for (int k = h->host[to].first; k < h->host[to].first + h->host[to].devices; k++) {
                size_t of = (size_t)from * (size_t)h->count + (size_t)to,
                       link = (size_t)i * (size_t)c->hosts + (size_t)k;
                c->latency[link] = i == k ? 0 : h->latency[of];
                c->pace[link] = i == k ? 0 : h->pace[of];
            }
    }
    return SL_OK;
}

static sl_status read_present(const sl_yaml *node, const sl_cluster_hosts *hosts, sl_cluster *c) {
    int count;
    if (node->kind != SL_YAML_LIST)
        return sl_yaml_error(node, "must be a list of the hosts' names by position");
    SL_TRY(sl_cluster_hosts_devices(hosts, node, c->present, &count));
    return count == c->hosts
               ? SL_OK
               : sl_yaml_error(node, "must name each of the %d hosts once, got %d", c->hosts, count);
}

static sl_status read_hosts(const sl_yaml *root, sl_cluster *c) {
    sl_cluster_hosts hosts;
    sl_device_rates rates;
    const sl_yaml *present = sl_yaml_find(root, "present"), *device = sl_yaml_find(root, "device");
    sl_status status = sl_cluster_hosts_read(sl_yaml_find(root, "hosts"), c->hosts, &hosts);
    SL_THEN(status, sl_cluster_links_read(sl_yaml_find(root, "links"), &hosts));
    SL_THEN(status, take_hosts(&hosts, c));
    if (present)
        SL_THEN(status, read_present(present, &hosts, c));
    if (device)
        SL_THEN(status, sl_device_rates_read(device, &rates));
    sl_cluster_hosts_free(&hosts);
    return status;
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
    SL_TRY(read_hosts(root, c));
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

sl_status sl_cluster_hosts_read_file(const sl_document *document, sl_cluster_hosts *hosts,
                                     sl_device_rates *rates) {
    enum { ROWS = sizeof cluster_keys / sizeof *cluster_keys };
    const sl_yaml *root = document->root;
    sl_key keys[ROWS];
    topology_request nothing = {0}; /* no such row writes */
    *hosts = (sl_cluster_hosts){0};
    SL_TRY(sl_file_kind_check(root, SL_FILE_CLUSTER));
    for (int i = 0; i < ROWS; i++) { /* the others are only for topology */
        keys[i] = cluster_keys[i];
        keys[i].required =
            keys[i].name && (strcmp(keys[i].name, "hosts") == 0 || strcmp(keys[i].name, "links") == 0 ||
                             strcmp(keys[i].name, "device") == 0);
        keys[i].type = SL_KEY_CUSTOM;
    }
    SL_TRY(sl_config_read(root, "cluster", keys, &nothing));
    SL_TRY(sl_cluster_hosts_read(sl_yaml_find(root, "hosts"), 0, hosts));
    SL_TRY(sl_cluster_links_read(sl_yaml_find(root, "links"), hosts));
    return sl_device_rates_read(sl_yaml_find(root, "device"), rates);
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
    status = sl_cluster_make(r.tensor, r.data, r.pipeline, r.microbatches, c);
    if (status == SL_EINVAL) {
        snprintf(text, sizeof text, "%s", sl_error_text());
        status = sl_yaml_error(sl_yaml_find(root, "parallel"), "%s", text);
    }
    if (status != SL_OK)
        goto done;
    sl_free(c->schedule);
    c->schedule = r.schedule;
    r.schedule = NULL;
    status = read_rest(root, profile, &r, c);
done:
    sl_free(r.schedule);
    return status;
}
