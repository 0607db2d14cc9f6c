/* slackline topology: assigns hosts to positions. */
#include "adapt/topology/topology.h"
#include "adapt/topology/topology_volume.h"
#include "base/clock.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/plan_request.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_CELLS 64 /* of an arrangement as text */
#define MAX_MOVES 40

typedef struct topology_options {
    const char *file, *profile;
    sl_texts set;
    int is_json;
    sl_topology_options options;
    sl_document document;
    sl_cluster cluster;
    sl_topology result;
    char **why;
    int whys;
    double seconds;
} topology_options;

static const sl_option options[] = {
    SL_OPTION("profile", TEXT, topology_options, profile, "FILE",
              "op times from a run's profile.yaml, as measured by its first replica",
              .completes = SL_COMPLETES_FILE),
    SL_OPTION_SEED(topology_options, options.seed, "the search: the same seed gives the same answer"),
    SL_OPTION("effort", REAL, topology_options, options.effort, "X",
              "search effort, 0.01 to 1000; 1: about one second for 1,024 hosts", .least = 0.01, .most = 1000,
              .standard = "1"),
    SL_OPTION("set", TEXTS, topology_options, set, "KEY=VALUE",
              "change a key of CLUSTER: links.list.0.bandwidth_gbps=10", .keys = sl_cluster_visit_keys),
    SL_OPTION_TEXT_OR_JSON(topology_options, is_json),
    SL_OPTION("", ONCE, topology_options, file, "CLUSTER", NULL, .words = "give one CLUSTER file",
              .completes = SL_COMPLETES_FILE, .required = 1),
    SL_OPTIONS_END};

static sl_status read_profile(const topology_options *a, sl_cluster *cluster) {
    sl_document document = {0};
    sl_problem profile = {0};
    sl_status status = sl_document_read(a->profile, &document);
    SL_THEN(status, sl_problem_read(&document, &profile));
    SL_THEN(status, sl_cluster_read(&a->document, &profile, cluster));
    sl_problem_free(&profile);
    sl_document_close(&document);
    return status;
}

static sl_status search(topology_options *a) {
    sl_time begin = sl_now();
    SL_TRY(sl_topology_search(&a->cluster, &a->options, &a->result));
    a->seconds = (double)(sl_now() - begin) / 1e9;
    return sl_topology_why(&a->cluster, &a->result, &a->why, &a->whys);
}

static double gap(const sl_topology *r) {
    return r->bound > 0 ? (double)(r->time - r->bound) / (double)r->bound : 0;
}

static double gain(const sl_topology *r) {
    return r->present > 0 ? 1 - (double)r->time / (double)r->present : 0;
}

/* Position of every host in an arrangement; position[hosts] by host. */
static void invert(const sl_cluster *c, const int *host, int *position) {
    for (int i = 0; i < c->hosts; i++)
        position[host[i]] = i;
}

static int other_weights(const sl_cluster *c, int from, int to) {
    return sl_position_stage(c, from) != sl_position_stage(c, to) ||
           sl_position_tensor(c, from) != sl_position_tensor(c, to);
}

static json_t *position_json(const sl_cluster *c, int position) {
    return json_pack("{s:i,s:i,s:i}", "tensor", sl_position_tensor(c, position), "data",
                     sl_position_replica(c, position), "pipeline", sl_position_stage(c, position));
}

static json_t *arrangement(const sl_cluster *c, const int *host) {
    json_t *list = json_array();
    for (int i = 0; i < c->hosts; i++) {
        json_t *item = position_json(c, i);
        json_object_set_new(item, "host", json_string(c->name[host[i]]));
        json_array_append_new(list, item);
    }
    return list;
}

static double weights_moved(const sl_cluster *c, const int *from, const int *to) {
    double bytes = 0;
    for (int h = 0; h < c->hosts; h++)
        if (other_weights(c, from[h], to[h]))
            bytes += c->gradient[sl_position_stage(c, to[h])];
    return bytes;
}

static void print_json(const topology_options *a, const int *from, const int *to) {
    const sl_cluster *c = &a->cluster;
    const sl_topology *r = &a->result;
    json_t *moves = json_array(), *why = json_array(), *data = json_array(), *tensor = json_array();
    for (int h = 0; h < c->hosts; h++)
        if (from[h] != to[h])
            json_array_append_new(moves, json_pack("{s:s,s:o,s:o,s:b}", "host", c->name[h], "from",
                                                   position_json(c, from[h]), "to", position_json(c, to[h]),
                                                   "weights", other_weights(c, from[h], to[h])));
    for (int i = 0; i < a->whys; i++)
        json_array_append_new(why, json_string(a->why[i]));
    for (int p = 0; p < c->pipeline; p++) {
        json_array_append_new(data, json_real(sl_volume_data(c, p) / 1e6));
        json_array_append_new(tensor, json_real(sl_volume_tensor(c, p) / 1e6));
    }
    json_t *all = json_pack(
        "{s:s,s:i,s:{s:i,s:i,s:i},s:s,s:f,s:f,s:f,s:f,s:f,s:b,s:b,s:o,s:o,s:f,s:{s:f,s:o,s:o},s:o,s:f}",
        "format", "slackline-topology-1", "hosts", c->hosts, "parallel", "tensor", c->tensor, "data", c->data,
        "pipeline", c->pipeline, "schedule", c->schedule, "present_ms", sl_to_ms(r->present), "iteration_ms",
        sl_to_ms(r->time), "gain", gain(r), "lower_bound_ms", sl_to_ms(r->bound), "gap", gap(r), "proven",
        r->proven, "exact", r->exact, "arrangement", arrangement(c, r->host), "moves", moves, "weights_mb",
        weights_moved(c, from, to) / 1e6, "volumes_mb", "pipeline", sl_volume_pipeline(c) / 1e6, "data", data,
        "tensor", tensor, "why", why, "solve_ms", 1e3 * a->seconds);
    json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
    printf("\n");
    json_decref(all);
}

static void print_arrangement(const sl_cluster *c, const int *host) {
    for (int p = 0; p < c->pipeline; p++) {
        printf("stage %d:", p);
        for (int d = 0; d < c->data; d++)
            for (int t = 0; t < c->tensor; t++) {
                int at = sl_position(c, t, d, p);
                printf("%s%s%s", t ? "+" : "  ", c->name[host[at]], host[at] == c->present[at] ? "" : "*");
            }
        printf("\n");
    }
}

static void print_position(const sl_cluster *c, int position) {
    printf("stage %d replica %d", sl_position_stage(c, position), sl_position_replica(c, position));
    if (c->tensor > 1)
        printf(" tensor rank %d", sl_position_tensor(c, position));
}

static void print_moves(const topology_options *a, const int *from, const int *to) {
    const sl_cluster *c = &a->cluster;
    int data = 0;
    for (int h = 0; h < c->hosts && data < MAX_MOVES; h++) {
        if (from[h] == to[h])
            continue;
        data++;
        printf("  %s: ", c->name[h]);
        print_position(c, from[h]);
        printf(" -> ");
        print_position(c, to[h]);
        printf("%s\n", other_weights(c, from[h], to[h]) ? "" : " (the same weights)");
    }
    if (a->result.moved > data)
        printf("  and %d more (--format json has all)\n", a->result.moved - data);
}

static void print_text(const topology_options *a, const int *from, const int *to) {
    const sl_cluster *c = &a->cluster;
    const sl_topology *r = &a->result;
    printf("%d hosts: tensor %d x data %d x pipeline %d, %d microbatches, %s\n", c->hosts, c->tensor, c->data,
           c->pipeline, c->microbatches, c->schedule);
    printf("iteration now:     %.6g ms\n", sl_to_ms(r->present));
    if (r->moved == 0)
        printf("stay:              ");
    else
        printf("rearranged:        %.6g ms, %.3g%% less, ", sl_to_ms(r->time), 100 * gain(r));
    if (r->proven)
        printf("proven: no arrangement is shorter\n");
    else
        printf("bound %.6g ms, at most %.3g%% above the best there is\n", sl_to_ms(r->bound), 100 * gap(r));
    if (r->moved > 0)
        printf("moves:             %d hosts, %d to other weights (%.4g MB, and their optimizer's state)\n",
               r->moved, r->weights_moved, weights_moved(c, from, to) / 1e6);
    printf("\n");
    if (c->hosts <= MAX_CELLS)
        print_arrangement(c, r->host);
    if (r->moved > 0)
        printf("%s", c->hosts <= MAX_CELLS ? "moved (*):\n" : "moved:\n");
    print_moves(a, from, to);
    printf("why:\n");
    for (int i = 0; i < a->whys; i++)
        printf("  %s\n", a->why[i]);
}

static sl_status answer(topology_options *a) {
    int *from;
    if (!a->file)
        return sl_error(
            SL_EINVAL,
            "topology: give one CLUSTER file (- is standard input); see slackline topology --help");
    SL_TRY(sl_document_read(a->file, &a->document));
    SL_TRY(sl_document_set_all(&a->document, a->set.text, a->set.count));
    SL_TRY(a->profile ? read_profile(a, &a->cluster) : sl_cluster_read(&a->document, NULL, &a->cluster));
    SL_TRY(search(a));
    size_t n = (size_t)a->cluster.hosts;
    SL_TRY(sl_alloc(&from, 2 * n, sizeof *from));
    invert(&a->cluster, a->cluster.present, from);
    invert(&a->cluster, a->result.host, from + n);
    if (a->is_json)
        print_json(a, from, from + n);
    else
        print_text(a, from, from + n);
    sl_free(from);
    return SL_OK;
}

static int run(int argc, char **argv) {
    topology_options a = {0};
    sl_status status = sl_command_options(argc, argv, &a);
    SL_THEN(status, answer(&a));
    for (int i = 0; i < a.whys; i++)
        sl_free(a.why[i]);
    sl_free(a.why);
    sl_topology_free(&a.result);
    sl_cluster_free(&a.cluster);
    sl_document_close(&a.document);
    sl_free(a.set.text);
    return sl_plan_request_end(status);
}

const sl_command sl_command_topology = {
    .name = "topology",
    .summary = "assign hosts to positions, given slow links and devices",
    .about =
        "Assigns hosts to (tensor, data, pipeline) positions, given the speed of devices and the remaining "
        "capacity of links: congested links get light traffic, slow hosts are gathered in few stages. "
        "CLUSTER is a file like examples/cluster.yaml (docs/formats.md); - is standard input.",
    .options = options,
    .example = "slackline topology examples/cluster.yaml",
    .run = run};
