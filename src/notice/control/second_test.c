#include "notice/control/second_test.h"

#include "base/json.h"
#include "base/text.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BEYOND 1.1      /* as a validation's (notice/validate/expect.c), with one repeat and its assumed */
#define ONCE 1.3        /* variation, too */
#define LATENCY_MIN 0.1 /* ms */

/* What one of the two tests found of a component: better is larger or smaller, as the figure goes. */
typedef struct figure {
    double value, healthy; /* 0: unknown */
    const char *unit;
    int more_is_slower; /* it is a time */
} figure;

static double number(const json_t *row, const char *key) {
    const double value = json_number_value(json_object_get(row, key));
    return isfinite(value) && value > 0 ? value : 0;
}

static int flag(const json_t *row, const char *key) {
    return json_is_true(json_object_get(row, key));
}

static int rank_in(const json_t *row, const char *key) {
    return (int)sl_json_int(row, key, -1);
}

static int node(int rank, const int *node_of, int ranks) {
    return rank >= 0 && rank < ranks ? node_of[rank] : -1;
}

static double times_slow(const figure *f) {
    if (f->value <= 0 || f->healthy <= 0)
        return 0;
    return f->more_is_slower ? f->value / f->healthy : f->healthy / f->value;
}

/* ---- links ---- */

static const json_t *link_row(const json_t *report, int from, int to) {
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(report, "links"), i, row) {
        if (rank_in(row, "from") == from && rank_in(row, "to") == to)
            return row;
    }
    return NULL;
}

static int is_kind(const json_t *row, const json_t *other) {
    return strcmp(sl_json_text(row, "kind", ""), sl_json_text(other, "kind", "")) == 0;
}

/* Both directions of its link were healthy. */
static int is_healthy_link(const json_t *first, const json_t *row) {
    const json_t *back = link_row(first, rank_in(row, "to"), rank_in(row, "from"));
    return row && back && !flag(row, "slow") && !flag(back, "slow") && number(row, "gb_per_s") > 0 &&
           number(back, "gb_per_s") > 0;
}

/* Whether the direction is what a verdict names: the link, or a slow one of a host. */
static int names_link(const json_t *row, const sl_suspect *v, const int *node_of, int ranks) {
    const int from = rank_in(row, "from"), to = rank_in(row, "to");
    if (v->component == SL_COMPONENT_LINK)
        return from == v->from && to == v->to;
    const int host = v->component == SL_COMPONENT_HOST ? node(v->rank, node_of, ranks) : -1;
    const int here = node(from, node_of, ranks), there = node(to, node_of, ranks);
    return host >= 0 && here != there && (here == host || there == host) && flag(row, "slow");
}

/* Rate, unless the latency is what was slow. */
static figure link_figure(const json_t *row, int latency) {
    return latency ? (figure){number(row, "latency_ms"), number(row, "expected_latency_ms"), "ms", 1}
                   : (figure){number(row, "gb_per_s"), number(row, "expected_gb_per_s"), "GB/s", 0};
}

static int by_latency(const json_t *row, const sl_suspect *v) {
    if (v->component == SL_COMPONENT_LINK)
        return v->measured > v->expected;
    const figure rate = link_figure(row, 0), latency = link_figure(row, 1);
    return times_slow(&latency) > times_slow(&rate);
}

static int is_lost(const json_t *row) {
    return strcmp(sl_json_text(row, "state", ""), "nothing arrived") == 0;
}

/* The worst of the links in `second` that were healthy in `first`. */
static double healthy_link_again(const json_t *first, const json_t *second, const json_t *like, int latency) {
    size_t i;
    const json_t *row;
    double worst = 0;
    json_array_foreach(json_object_get(second, "links"), i, row) {
        const double value = link_figure(row, latency).value;
        if (is_kind(row, like) && value > 0 &&
            is_healthy_link(first, link_row(first, rank_in(row, "from"), rank_in(row, "to"))) &&
            (worst <= 0 || (latency ? value > worst : value < worst)))
            worst = value;
    }
    return worst;
}

static double beyond(const json_t *second, const char *kind, const char *key) {
    const double factor = number(json_object_get(json_object_get(second, "kinds"), kind), key);
    return factor > BEYOND ? factor : ONCE;
}

static int is_slow_again(const figure *was, const figure *is, double factor) {
    const double again = times_slow(is);
    return again > factor && again * again >= times_slow(was);
}

static int link_agrees(const json_t *first, const json_t *second, const json_t *row, const sl_suspect *v,
                       figure *is) {
    const json_t *again = link_row(second, rank_in(row, "from"), rank_in(row, "to"));
    const int latency = by_latency(row, v);
    const figure was = link_figure(row, latency);
    *is = link_figure(again, latency);
    is->healthy = healthy_link_again(first, second, row, latency);
    if (!again || is->healthy <= 0)
        return 0;
    if (is_lost(row) || is_lost(again))
        return is_lost(row) && is_lost(again);
    return is_slow_again(&was, is,
                         beyond(second, sl_json_text(row, "kind", ""),
                                latency ? "latency_factor" : "bandwidth_factor")) &&
           (!latency || is->value > is->healthy + LATENCY_MIN);
}

/* ---- devices ---- */

static const json_t *device_row(const json_t *report, const char *list, int rank, int gpu) {
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(report, list), i, row) {
        if (rank_in(row, "rank") == rank && (gpu < 0 || sl_json_int(row, "gpu", -1) == gpu))
            return row;
    }
    return NULL;
}

static int names_device(const json_t *row, const sl_suspect *v, const int *node_of, int ranks) {
    const int rank = rank_in(row, "rank");
    if (!flag(row, "slow") || rank < 0)
        return 0;
    return v->component == SL_COMPONENT_DEVICE
               ? rank == v->rank
               : v->component == SL_COMPONENT_HOST && node(rank, node_of, ranks) >= 0 &&
                     node(rank, node_of, ranks) == node(v->rank, node_of, ranks);
}

/* A processor that a quota stopped again is as slow as the first time, whatever others reach. */
static int device_agrees(const json_t *first, const json_t *second, const json_t *row, figure *is) {
    const json_t *again = device_row(second, "devices", rank_in(row, "rank"), -1), *other;
    const figure was = {number(row, "gflops"), number(row, "expected_gflops"), "GFLOP/s", 0};
    size_t i;
    *is = (figure){number(again, "gflops"), number(again, "expected_gflops"), "GFLOP/s", 0};
    if (flag(again, "slow"))
        return 1;
    json_array_foreach(json_object_get(second, "devices"), i, other) {
        const json_t *before = device_row(first, "devices", rank_in(other, "rank"), -1);
        const double value = number(other, "gflops");
        if (before && !flag(before, "slow") && value > 0 && (is->healthy <= 0 || value < is->healthy))
            is->healthy = value;
    }
    return again && is_slow_again(&was, is, beyond(second, "device", "factor"));
}

/* Rates of a GPU hardly vary: the expected ones are those of the first test. A fault is a fault again. */
static int gpu_agrees(const json_t *second, const json_t *row, figure *is) {
    const json_t *again = device_row(second, "gpus", rank_in(row, "rank"), rank_in(row, "gpu")), *expected;
    const char *key;
    if (!again)
        return 0;
    json_object_foreach((json_t *)(uintptr_t)row, key, expected) {
        if (strncmp(key, "expected_", 9) != 0)
            continue;
        const figure was = {number(row, key + 9), number(row, key), "", 0},
                     now = {number(again, key + 9), number(row, key), "", 0};
        if (times_slow(&was) > BEYOND && is_slow_again(&was, &now, BEYOND)) {
            *is = now;
            return 1;
        }
    }
    return flag(again, "slow");
}

/* ---- the choice ---- */

static void add_device(sl_second_test *test, int rank) {
    for (int i = 0; i < test->devices; i++)
        if (test->device[i] == rank)
            return;
    if (test->devices < SL_SECOND_MAX)
        test->device[test->devices++] = rank;
}

static void add_link(sl_second_test *test, int from, int to) {
    for (int i = 0; i < test->links; i++)
        if ((test->from[i] == from && test->to[i] == to) || (test->from[i] == to && test->to[i] == from))
            return;
    if (test->links < SL_SECOND_MAX) {
        test->from[test->links] = from;
        test->to[test->links++] = to;
    }
}

/* A healthy link of the same kind, at one of the same ends if there is one. */
static void add_healthy_link(const json_t *first, const json_t *like, sl_second_test *test) {
    const int from = rank_in(like, "from"), to = rank_in(like, "to");
    const json_t *row, *best = NULL;
    int best_shares = 0;
    size_t i;
    json_array_foreach(json_object_get(first, "links"), i, row) {
        const int a = rank_in(row, "from"), b = rank_in(row, "to");
        const int shares = a == from || a == to || b == from || b == to;
        if (is_kind(row, like) && is_healthy_link(first, row) && (!best || shares > best_shares)) {
            best = row;
            best_shares = shares;
        }
    }
    if (best)
        add_link(test, rank_in(best, "from"), rank_in(best, "to"));
}

static void add_healthy_device(const json_t *first, int like, const int *node_of, int ranks,
                               sl_second_test *test) {
    const json_t *row;
    int best = -1, best_near = 0;
    size_t i;
    json_array_foreach(json_object_get(first, "devices"), i, row) {
        const int rank = rank_in(row, "rank");
        const int near = node(rank, node_of, ranks) == node(like, node_of, ranks);
        if (rank >= 0 && !flag(row, "slow") && (best < 0 || near > best_near)) {
            best = rank;
            best_near = near;
        }
    }
    if (best >= 0)
        add_device(test, best);
}

void sl_second_test_add(const json_t *first, const sl_suspect *v, const int *node_of, int ranks,
                        sl_second_test *test) {
    static const char *const devices[] = {"devices", "gpus"};
    const json_t *row;
    size_t i;
    json_array_foreach(json_object_get(first, "links"), i, row) {
        if (!names_link(row, v, node_of, ranks))
            continue;
        add_link(test, rank_in(row, "from"), rank_in(row, "to"));
        add_healthy_link(first, row, test);
    }
    for (int list = 0; list < 2; list++) {
        json_array_foreach(json_object_get(first, devices[list]), i, row) {
            if (!names_device(row, v, node_of, ranks))
                continue;
            add_device(test, rank_in(row, "rank"));
            add_healthy_device(first, rank_in(row, "rank"), node_of, ranks, test);
        }
    }
}

/* ---- the answer ---- */

static void say_figure(const figure *f, char *text, size_t size) {
    text[0] = 0;
    if (f->value > 0 && f->healthy > 0)
        snprintf(text, size, "%.3g%s%.3g%s%s", f->value, f->more_is_slower ? " instead of " : " of ",
                 f->healthy, f->unit[0] ? " " : "", f->unit);
}

void sl_second_test_conclude(int agrees, int tested, const char *found, const char *profile, sl_suspect *v) {
    char name[64];
    if (agrees) {
        sl_text_format(v->why, sizeof v->why, "%s; a second test agrees%s%s", v->why, found[0] ? ": " : "",
                       found);
        return;
    }
    const sl_suspect was = *v;
    sl_suspect_name(&was, name, sizeof name);
    *v = (sl_suspect){.component = SL_COMPONENT_UNKNOWN, .rank = -1, .from = -1, .to = -1};
    if (tested)
        sl_text_format(v->why, sizeof v->why, "%s%sa test found %s slower, but a second test did not%s%s%s",
                       profile, profile[0] ? "; " : "", name, found[0] ? " (" : "", found,
                       found[0] ? ")" : "");
    else
        sl_text_format(v->why, sizeof v->why,
                       "%s%sa test found %s slower, but it could not be tested a second time", profile,
                       profile[0] ? "; " : "", name);
}

/* One more component of a verdict: the words are of the first, or of one that was not slow again. */
static void count(int again, const figure *is, int *subjects, int *agrees, char found[96]) {
    if ((*subjects)++ == 0 || !again)
        say_figure(is, found, 96);
    *agrees &= again;
}

int sl_second_test_decide(const json_t *first, const json_t *second, const char *profile, const int *node_of,
                          int ranks, sl_suspect *v) {
    int subjects = 0, agrees = second != NULL;
    char found[96] = "";
    const json_t *row;
    size_t i;
    figure is = {.unit = ""};
    json_array_foreach(json_object_get(first, "links"), i, row) {
        if (names_link(row, v, node_of, ranks))
            count(link_agrees(first, second, row, v, &is), &is, &subjects, &agrees, found);
    }
    json_array_foreach(json_object_get(first, "devices"), i, row) {
        if (names_device(row, v, node_of, ranks))
            count(device_agrees(first, second, row, &is), &is, &subjects, &agrees, found);
    }
    json_array_foreach(json_object_get(first, "gpus"), i, row) {
        if (names_device(row, v, node_of, ranks))
            count(gpu_agrees(second, row, &is), &is, &subjects, &agrees, found);
    }
    agrees &= subjects > 0;
    if (agrees && v->both) { /* in the other direction, too? */
        const json_t *back = link_row(first, v->to, v->from);
        v->both = back && link_agrees(first, second, back, v, &is);
    }
    sl_second_test_conclude(agrees, second != NULL, found, profile, v);
    return agrees;
}
