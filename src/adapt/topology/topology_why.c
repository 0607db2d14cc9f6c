/* Why an arrangement is better than the present one, in lines for users. */
#include "adapt/topology/topology_inside.h"
#include "adapt/topology/topology_volume.h"
#include "base/memory.h"
#include "base/numbers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINKS 8   /* reported one by one */
#define CONGESTED 1.5 /* times the maximum of the fastest quarter of the present ring's links */
#define SLOW 0.9      /* of the median speed */

typedef struct explanation {
    const sl_cluster *c;
    const sl_topology *r;
    char **line;
    int lines;
    size_t room;
    int *now, *then; /* [hosts] the position of each */
} explanation;

static sl_status explain(explanation *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static sl_status explain(explanation *t, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    SL_TRY(sl_grow(&t->line, &t->room, (size_t)t->lines + 1, sizeof *t->line));
    return sl_copy_text(&t->line[t->lines++], text);
}

/* The number of stages, and of (stage, replica) pairs, with slow hosts. */
static void count_slow(const sl_cluster *c, const int *position, double limit, int *hosts, int *stages,
                       char *which, size_t size) {
    unsigned char stage[SL_MAX_RANKS] = {0};
    *hosts = *stages = 0;
    which[0] = 0;
    for (int host = 0; host < c->hosts; host++)
        if (c->speed[host] < limit) {
            (*hosts)++;
            stage[sl_position_stage(c, position[host])] = 1;
        }
    for (int p = 0; p < c->pipeline; p++) {
        if (stage[p] && *stages < 12)
            snprintf(which + strlen(which), size - strlen(which), "%s%d", *stages ? ", " : "", p);
        *stages += stage[p];
    }
}

static sl_status explain_slow(explanation *t) {
    const sl_cluster *c = t->c;
    double *speed;
    char now[128], then[128];
    int hosts, stages, after;
    SL_TRY(sl_alloc(&speed, (size_t)c->hosts, sizeof *speed));
    memcpy(speed, c->speed, (size_t)c->hosts * sizeof *speed);
    qsort(speed, (size_t)c->hosts, sizeof *speed, sl_ascending_numbers);
    double limit = SLOW * speed[c->hosts / 2];
    sl_free(speed);
    count_slow(c, t->now, limit, &hosts, &stages, now, sizeof now);
    count_slow(c, t->then, limit, &hosts, &after, then, sizeof then);
    if (hosts == 0)
        return SL_OK;
    int same = strcmp(now, then) == 0 && stages == after;
    return explain(t, "%d slow host%s%s in stage%s %s%s%s%s", hosts, hosts == 1 ? "" : "s",
                   same ? " stay" : " were", stages == 1 ? "" : "s", now,
                   same         ? ""
                   : after == 1 ? "; now in stage "
                                : "; now in stages ",
                   same ? "" : then, same || after >= stages ? "" : ": fewer stages wait for them");
}

typedef enum link_use { USE_NONE, USE_TENSOR, USE_DATA, USE_PIPELINE } link_use;

static int neighbours(int a, int b, int size) {
    return (a + 1) % size == b || (b + 1) % size == a;
}

static link_use use_of(const sl_cluster *c, int a, int b) {
    int t = sl_position_tensor(c, a), d = sl_position_replica(c, a), p = sl_position_stage(c, a);
    int u = sl_position_tensor(c, b), e = sl_position_replica(c, b), q = sl_position_stage(c, b);
    if (p == q && d == e)
        return neighbours(t, u, c->tensor) ? USE_TENSOR : USE_NONE;
    if (p == q && t == u)
        return neighbours(d, e, c->data) ? USE_DATA : USE_NONE;
    return t == u && d == e && abs(p - q) == 1 ? USE_PIPELINE : USE_NONE;
}

static void describe(const sl_cluster *c, int a, int b, char *text, size_t size) {
    int d = sl_position_replica(c, a), p = sl_position_stage(c, a), q = sl_position_stage(c, b);
    switch (use_of(c, a, b)) {
    case USE_TENSOR:
        snprintf(text, size, "the sums of stage %d, replica %d (%.4g MB per iteration)", p, d,
                 sl_volume_tensor(c, p) / 1e6);
        break;
    case USE_DATA:
        snprintf(text, size, "the ring of stage %d (%.4g MB per iteration)", p, sl_volume_data(c, p) / 1e6);
        break;
    case USE_PIPELINE:
        snprintf(text, size, "messages between stages %d and %d of replica %d (%.4g MB per iteration)",
                 p < q ? p : q, p < q ? q : p, d, sl_volume_pipeline(c) / 1e6);
        break;
    default:
        snprintf(text, size, "nothing");
    }
}

static double step(const sl_cluster *c, int from, int to, double bytes) {
    size_t i = (size_t)from * (size_t)c->hosts + (size_t)to;
    return c->latency[i] + bytes * c->pace[i];
}

/* Links of the present rings that take longer than most, and their fate. */
static sl_status explain_links(explanation *t) {
    const sl_cluster *c = t->c;
    double *cost;
    if (c->data < 2)
        return SL_OK;
    SL_TRY(sl_alloc(&cost, 2 * (size_t)c->hosts, sizeof *cost));
    for (int at = 0; at < c->hosts; at++) {
        int p = sl_position_stage(c, at);
        int to = sl_position(c, sl_position_tensor(c, at), (sl_position_replica(c, at) + 1) % c->data, p);
        cost[at] = cost[c->hosts + at] = step(c, c->present[at], c->present[to], c->gradient[p] / c->data);
    }
    qsort(cost, (size_t)c->hosts, sizeof *cost, sl_ascending_numbers);
    double usual = cost[c->hosts / 4];
    sl_status status = SL_OK;
    int announced = 0, more = 0;
    for (int at = 0; at < c->hosts && status == SL_OK; at++) {
        int to = sl_position(c, sl_position_tensor(c, at), (sl_position_replica(c, at) + 1) % c->data,
                             sl_position_stage(c, at));
        int a = c->present[at], b = c->present[to];
        if (!(usual > 0 && cost[c->hosts + at] > CONGESTED * usual) || (c->data == 2 && at > to))
            continue;
        if (announced++ >= MAX_LINKS) {
            more++;
            continue;
        }
        char before[160], after[160];
        describe(c, at, to, before, sizeof before);
        describe(c, t->then[a], t->then[b], after, sizeof after);
        int stays = strcmp(before, after) == 0;
        status = explain(t, "link %.60s-%.60s (%.3g times as slow as usual) %s %s%s%s", c->name[a],
                         c->name[b], cost[c->hosts + at] / usual, stays ? "still carries" : "carried", before,
                         stays ? "" : "; now ", stays ? "" : after);
    }
    if (status == SL_OK && more > 0)
        status = explain(t, "and %d more slow links of rings", more);
    sl_free(cost);
    return status;
}

static sl_status explain_late(explanation *t, sl_rank_map *s, const char *which, const int *host) {
    const sl_cluster *c = t->c;
    int replica = 0, stage = 0;
    sl_rank_map_set(s, host);
    sl_time time = sl_rank_map_time(s, &replica, &stage);
    return explain(
        t,
        "%s, %.6g ms: replica %d has done stage %d after %.6g ms; then the ring of that stage takes %.6g ms",
        which, sl_to_ms(time), replica, stage, sl_to_ms(s->end[replica * c->pipeline + stage]),
        sl_to_ms(s->ring[stage]));
}

static sl_status explain_all(explanation *t) {
    const sl_cluster *c = t->c;
    sl_best best = {0};
    sl_frame frame = {0};
    sl_rank_map rank_map = {0};
    int better = t->r->time < t->r->present;
    sl_status status;
    SL_TRY_GOTO(done, status, sl_best_make(c, &best));
    SL_TRY_GOTO(done, status, sl_frame_make(c, &frame));
    SL_TRY_GOTO(done, status, sl_rank_map_make(c, &best, &frame, c->present, 1, &rank_map));
    SL_TRY_GOTO(done, status, explain_late(t, &rank_map, "present", c->present));
    if (better)
        SL_TRY_GOTO(done, status, explain_late(t, &rank_map, "proposed", t->r->host));
    SL_TRY_GOTO(done, status, explain_slow(t));
    SL_TRY_GOTO(done, status, explain_links(t));
    if (!better)
        status = explain(t, t->r->proven ? "no arrangement is shorter than the present one"
                                         : "none that is shorter than the present one was found");
done:
    sl_rank_map_free(&rank_map);
    sl_frame_free(&frame);
    sl_best_free(&best);
    return status;
}

sl_status sl_topology_why(const sl_cluster *c, const sl_topology *r, char ***lines, int *count) {
    explanation t = {.c = c, .r = r};
    SL_TRY(sl_alloc(&t.now, 2 * (size_t)c->hosts, sizeof *t.now));
    t.then = t.now + c->hosts;
    for (int i = 0; i < c->hosts; i++) {
        t.now[c->present[i]] = i;
        t.then[r->host[i]] = i;
    }
    sl_status status = explain_all(&t);
    sl_free(t.now);
    *lines = t.line;
    *count = t.lines;
    return status;
}
