#include "adapt/topology/topology.h"
#include "base/memory.h"
#include "library/library_handles.h"
#include "plan/family/family.h"

#include <stdio.h>
#include <string.h>

#define LONGEST 1e12 /* ns of an op or a latency */
#define LARGEST 1e15 /* bytes */

struct slackline_cluster {
    sl_cluster cluster;
    unsigned char *full; /* [stages] B was set explicitly */
};

/* ---- making ---- */

SL_PUBLIC void slackline_cluster_free(slackline_cluster *cluster) {
    if (!cluster)
        return;
    sl_cluster_free(&cluster->cluster);
    SL_FREE(cluster->full, cluster);
}

/* Passes the new cluster to the caller if `status` is SL_OK. */
static slackline_status give(sl_status status, slackline_cluster *made, slackline_cluster **cluster) {
    if (status != SL_OK)
        goto err_free;
    SL_TRY_GOTO(err_free, status, sl_alloc(&made->full, (size_t)made->cluster.pipeline, 1));
    for (int stage = 0; stage < made->cluster.pipeline; stage++) {
        sl_time *const *time = made->cluster.time;
        made->full[stage] = time[SL_B][stage] != time[SL_I][stage] + time[SL_W][stage];
    }
    *cluster = made;
    return SLACKLINE_OK;
err_free:
    *cluster = NULL;
    slackline_cluster_free(made);
    return sl_library_status(status);
}

SL_PUBLIC slackline_status slackline_cluster_make(int tensor, int data, int pipeline, int microbatches,
                                                  slackline_cluster **cluster) {
    slackline_cluster *made = NULL;
    sl_status status = sl_alloc(&made, 1, sizeof *made);
    SL_THEN(status, sl_cluster_make(tensor, data, pipeline, microbatches, &made->cluster));
    return give(status, made, cluster);
}

static slackline_status from_document(sl_status status, sl_document *document,
                                      const slackline_problem *profile, slackline_cluster **cluster) {
    slackline_cluster *made = NULL;
    SL_THEN(status, sl_alloc(&made, 1, sizeof *made));
    SL_THEN(status, sl_cluster_read(document, profile ? &profile->problem : NULL, &made->cluster));
    sl_document_close(document);
    return give(status, made, cluster);
}

SL_PUBLIC slackline_status slackline_cluster_read(const char *file, const slackline_problem *profile,
                                                  slackline_cluster **cluster) {
    SL_PLAIN_NUMBERS;
    sl_document document = {0};
    return from_document(sl_document_read(file, &document), &document, profile, cluster);
}

SL_PUBLIC slackline_status slackline_cluster_parse(const char *name, const char *text,
                                                   const slackline_problem *profile,
                                                   slackline_cluster **cluster) {
    SL_PLAIN_NUMBERS;
    sl_document document = {0};
    return from_document(sl_document_parse(name, text, &document), &document, profile, cluster);
}

/* ---- reading ---- */

SL_PUBLIC int slackline_cluster_hosts(const slackline_cluster *cluster) {
    return cluster->cluster.hosts;
}

SL_PUBLIC const char *slackline_cluster_host(const slackline_cluster *cluster, int host) {
    return host >= 0 && host < cluster->cluster.hosts ? cluster->cluster.name[host] : NULL;
}

SL_PUBLIC int slackline_cluster_position(const slackline_cluster *cluster, int tensor, int replica,
                                         int stage) {
    const sl_cluster *c = &cluster->cluster;
    if (tensor < 0 || tensor >= c->tensor || replica < 0 || replica >= c->data || stage < 0 ||
        stage >= c->pipeline)
        return -1;
    return sl_position(c, tensor, replica, stage);
}

/* ---- filling in ---- */

static sl_status check_index(const char *what, int index, int count) {
    return index >= 0 && index < count
               ? SL_OK
               : sl_error(SL_EINVAL, "there is no %s %d; they count from 0 to %d", what, index, count - 1);
}

SL_PUBLIC slackline_status slackline_cluster_set_speed(slackline_cluster *cluster, int host, double speed) {
    sl_cluster *c = &cluster->cluster;
    SL_LIBRARY_TRY(check_index("host", host, c->hosts));
    SL_LIBRARY_TRY(sl_library_number("a speed", speed, 1e-3, 1e3));
    c->speed[host] = speed;
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_cluster_set_link(slackline_cluster *cluster, int from, int to,
                                                      double latency_ns, double ns_per_byte) {
    sl_cluster *c = &cluster->cluster;
    SL_LIBRARY_TRY(check_index("host", from, c->hosts));
    SL_LIBRARY_TRY(check_index("host", to, c->hosts));
    if (from == to)
        return sl_library_status(sl_error(SL_EINVAL, "a link of host %d to itself", from));
    SL_LIBRARY_TRY(sl_library_number("the latency of a link", latency_ns, 0, LONGEST));
    SL_LIBRARY_TRY(sl_library_number("ns_per_byte", ns_per_byte, 0, 1e6));
    size_t link = (size_t)from * (size_t)c->hosts + (size_t)to;
    c->latency[link] = latency_ns;
    c->pace[link] = ns_per_byte;
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_cluster_set_time(slackline_cluster *cluster, int stage,
                                                      slackline_kind kind, int64_t time_ns) {
    sl_cluster *c = &cluster->cluster;
    SL_LIBRARY_TRY(check_index("stage", stage, c->pipeline));
    if (kind < SLACKLINE_F || kind > SLACKLINE_B)
        return sl_library_status(sl_error(SL_EINVAL, "ops of a cluster are F, I, W and B"));
    SL_LIBRARY_TRY(sl_library_number("the time of an op", (double)time_ns, 0,
                                     kind == SLACKLINE_B ? 2 * LONGEST : LONGEST));
    sl_op_kind own = kind == SLACKLINE_F   ? SL_F
                     : kind == SLACKLINE_I ? SL_I
                     : kind == SLACKLINE_W ? SL_W
                                           : SL_B;
    c->time[own][stage] = time_ns;
    if (own == SL_B)
        cluster->full[stage] = 1;
    else if (!cluster->full[stage])
        c->time[SL_B][stage] = c->time[SL_I][stage] + c->time[SL_W][stage];
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_cluster_set_activation(slackline_cluster *cluster, double bytes) {
    SL_LIBRARY_TRY(sl_library_number("the bytes of a message", bytes, 0, LARGEST));
    cluster->cluster.activation = bytes;
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_cluster_set_gradient(slackline_cluster *cluster, int stage,
                                                          double bytes) {
    SL_LIBRARY_TRY(check_index("stage", stage, cluster->cluster.pipeline));
    SL_LIBRARY_TRY(sl_library_number("the bytes of gradients", bytes, 0, LARGEST));
    cluster->cluster.gradient[stage] = bytes;
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_cluster_set_sums(slackline_cluster *cluster, int stage,
                                                      slackline_kind kind, double count, double bytes) {
    sl_cluster *c = &cluster->cluster;
    SL_LIBRARY_TRY(check_index("stage", stage, c->pipeline));
    if (kind != SLACKLINE_F && kind != SLACKLINE_I)
        return sl_library_status(sl_error(SL_EINVAL, "sums over tensor ranks are in F and in I"));
    SL_LIBRARY_TRY(sl_library_number("the number of sums", count, 0, 1e6));
    SL_LIBRARY_TRY(sl_library_number("the bytes of a sum", bytes, 0, LARGEST));
    c->sums[kind == SLACKLINE_I][stage] = count;
    c->sum = bytes;
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_cluster_set_schedule(slackline_cluster *cluster, const char *schedule) {
    char *copy = NULL;
    sl_status status = sl_family_find(schedule)
                           ? sl_copy_text(&copy, schedule)
                           : sl_error(SL_EINVAL, "unknown schedule family '%s'", schedule);
    if (status == SL_OK) {
        sl_free(cluster->cluster.schedule);
        cluster->cluster.schedule = copy;
    }
    return sl_library_status(status);
}

static sl_status set_present(sl_cluster *c, const int *host) {
    unsigned char *seen;
    sl_status status = SL_OK;
    SL_TRY(sl_alloc(&seen, (size_t)c->hosts, 1));
    for (int i = 0; i < c->hosts && status == SL_OK; i++)
        if (host[i] < 0 || host[i] >= c->hosts || seen[host[i]]++)
            status = sl_error(SL_EINVAL, "an arrangement has each of the %d hosts once", c->hosts);
    if (status == SL_OK)
        memcpy(c->present, host, (size_t)c->hosts * sizeof *host);
    sl_free(seen);
    return status;
}

SL_PUBLIC slackline_status slackline_cluster_set_present(slackline_cluster *cluster, const int *host) {
    return sl_library_status(set_present(&cluster->cluster, host));
}

/* ---- arrangements ---- */

SL_PUBLIC slackline_status slackline_topology_time(const slackline_cluster *cluster, const int *host,
                                                   int64_t *time_ns) {
    const sl_cluster *c = &cluster->cluster;
    sl_status status = sl_cluster_check(c, "the cluster");
    SL_THEN(status, sl_topology_time(c, host ? host : c->present, time_ns));
    return sl_library_status(status);
}

static sl_status say_why(const sl_cluster *c, const sl_topology *r, char **why) {
    char **lines = NULL;
    int count = 0;
    size_t size = 1, used = 0;
    sl_status status = sl_topology_why(c, r, &lines, &count);
    for (int i = 0; i < count; i++)
        size += lines[i] ? strlen(lines[i]) + 1 : 0; /* if memory ran out, the last one is NULL */
    SL_THEN(status, sl_alloc(why, size, 1));
    for (int i = 0; i < count; i++) {
        if (status == SL_OK)
            used += (size_t)snprintf(*why + used, size - used, "%s\n", lines[i]);
        sl_free(lines[i]);
    }
    sl_free(lines);
    return status;
}

static sl_status search(const sl_cluster *c, uint64_t seed, double effort, int *host,
                        slackline_topology *result, char **why) {
    sl_topology found = {0};
    sl_topology_options options = {.seed = seed, .effort = effort};
    sl_status status;
    SL_TRY(sl_library_number("effort", effort, 0.01, 1000));
    SL_TRY(sl_cluster_check(c, "the cluster"));
    SL_TRY_GOTO(done, status, sl_topology_search(c, &options, &found));
    if (why)
        SL_TRY_GOTO(done, status, say_why(c, &found, why));
    memcpy(host, found.host, (size_t)c->hosts * sizeof *host);
    *result = (slackline_topology){.time_ns = found.time,
                                   .present_ns = found.present,
                                   .bound_ns = found.bound,
                                   .proven = found.proven,
                                   .moved = found.moved,
                                   .weights_moved = found.weights_moved};
done:
    sl_topology_free(&found);
    return status;
}

SL_PUBLIC slackline_status slackline_topology_search(const slackline_cluster *cluster, uint64_t seed,
                                                     double effort, int *host, slackline_topology *result,
                                                     char **why) {
    SL_PLAIN_NUMBERS;
    if (why)
        *why = NULL;
    return sl_library_status(search(&cluster->cluster, seed, effort, host, result, why));
}
