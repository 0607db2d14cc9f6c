#include "notice/control/controller_inside.h"

#include "base/memory.h"
#include "base/text.h"
#include "notice/control/carried.h"
#include "notice/control/narrow.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WEIGHED = 256 }; /* ranks */

/* Replicas of one another do the same: the ranks that could take work from the first slow device. */
static int count_alike(const sl_status_view *view, const sl_call_profile *p) {
    int rank = -1, alike = 0;
    for (int i = view->verdicts; i-- > 0;)
        if (view->verdict[i].component == SL_COMPONENT_DEVICE ||
            view->verdict[i].component == SL_COMPONENT_HOST)
            rank = view->verdict[i].rank;
    for (int i = 0; p && rank >= 0 && rank < p->ranks && i < p->ranks; i++)
        alike += p->rank[i].kind == p->rank[rank].kind;
    return alike;
}

/* Bytes of messages from one rank to another in the reference. */
static double sent(const sl_call_profile *p, int from, int to) {
    double bytes = 0;
    for (size_t g = 0; g < p->groups; g++)
        if (p->group[g].message && p->group[g].size == 2 && p->group[g].member[0] == from &&
            p->group[g].member[1] == to)
            bytes +=
                (double)p->group[g].bytes * (double)(p->group[g].transfer.count + p->group[g].exposed.count);
    return bytes;
}

/* Of all pairs of ranks, the least; for jobs in which looking at all of them takes no time. */
static double min_sent(const sl_call_profile *p) {
    double least = INFINITY;
    for (int from = 0; from < p->ranks; from++)
        for (int to = 0; to < p->ranks; to++)
            if (from != to)
                least = fmin(least, sent(p, from, to));
    return least;
}

/* Whether other ranks at a slow link would send less over it. */
static double weigh_link(const sl_status_view *view, const sl_call_profile *p) {
    for (int i = 0; p && p->ranks >= 3 && p->ranks <= WEIGHED && i < view->verdicts; i++) {
        const sl_suspect *s = &view->verdict[i];
        double bytes = s->component == SL_COMPONENT_LINK ? sent(p, s->from, s->to) : 0;
        if (bytes > 0)
            return min_sent(p) / bytes;
    }
    return -1;
}

/* If neither calls nor tests show anything, the slow phase may be the program's normal behavior, and its
 * profile is kept. If the tests found something, it is not. */
static void report_verdicts(sl_control_core *c, const char *decided, const char *why) {
    char all[400];
    int unknown = c->view.verdicts == 1 && c->view.verdict[0].component == SL_COMPONENT_UNKNOWN;
    snprintf(all, sizeof all, "%s%s", why,
             sl_references_conclude(c, !unknown)
                 ? "; the profile is the reference until healthy iterations are seen"
                 : "");
    c->view.alike = count_alike(&c->view, sl_references_last(c).healthy);
    c->view.lightest = weigh_link(&c->view, sl_references_last(c).healthy);
    for (int i = 0; i < c->view.verdicts; i++)
        sl_control_report_suspect(c, SL_EVENT_VERDICT, &c->view.verdict[i], decided, all);
}

static void undecided(sl_control_core *c, const char *why) {
    sl_suspect *s = &c->view.verdict[0];
    *s = (sl_suspect){.component = SL_COMPONENT_UNKNOWN, .rank = -1, .from = -1, .to = -1};
    sl_text_format(s->why, sizeof s->why, "%s", why);
    c->view.verdicts = 1;
}

/* Tests will follow as soon as the job may be held again; what it was compared with proves too little to name
 * something before that. */
static void postpone(sl_control_core *c) {
    char profile[200], why[300];
    sl_suspects_text(c->view.suspect, c->view.suspects, profile, sizeof profile);
    snprintf(why, sizeof why,
             "compared with iterations that may have been slow already, the profile shows: %s", profile);
    undecided(c, why);
}

void sl_control_verdict_by_profile(sl_control_core *c) {
    c->view.verdicts = c->view.suspects;
    memcpy(c->view.verdict, c->view.suspect, sizeof c->view.verdict);
    if (c->view.verdicts == 0)
        undecided(c, c->reason[0] ? c->reason : "no profile came");
    else if (sl_references_last(c).doubtful && sl_holding_postponed(c))
        postpone(c);
    sl_validating_end(c);
    report_verdicts(c, "by the profile alone", c->reason);
}

static int read_verdicts(sl_control_core *c, const json_t *verdicts) {
    size_t i;
    const json_t *one;
    int count = 0;
    json_array_foreach(verdicts, i, one) {
        if (count < SL_STATUS_SUSPECTS && sl_suspect_from_json(one, &c->view.verdict[count]) == SL_OK)
            count++;
    }
    return count;
}

static sl_status read_directions(const json_t *links, sl_tested_direction **direction, int *count) {
    size_t i;
    const json_t *one;
    *count = 0;
    SL_TRY(sl_alloc(direction, json_array_size(links) + 1, sizeof **direction));
    json_array_foreach(links, i, one)(*direction)[(*count)++] =
        (sl_tested_direction){.from = (int)sl_json_int(one, "from", -1),
                              .to = (int)sl_json_int(one, "to", -1),
                              .latency_ms = json_number_value(json_object_get(one, "latency_ms")),
                              .gb_per_s = json_number_value(json_object_get(one, "gb_per_s")),
                              .cv = json_number_value(json_object_get(one, "bandwidth_cv"))};
    return SL_OK;
}

/* The index of a verdict without an answer: about a link, or that nothing is slow; -1: something was found,
 * and no link is in doubt. */
static int open_verdict(const sl_control_core *c) {
    int unknown = 0;
    for (int i = 0; i < c->view.verdicts; i++) {
        const sl_suspect *v = &c->view.verdict[i];
        if (v->component == SL_COMPONENT_UNKNOWN && v->from >= 0)
            return i;
        unknown += v->component == SL_COMPONENT_UNKNOWN;
    }
    return unknown > 0 && unknown == c->view.verdicts ? 0 : -1;
}

/* If tests have nothing to compare a link with, and the calls named none: compares with what healthy calls
 * carried. */
static void compare_with_carried(sl_control_core *c, const int *node_of, int world) {
    sl_tested_direction *direction;
    sl_suspect found;
    int count;
    const int open = open_verdict(c);
    const sl_profile_comparison last = sl_references_last(c);
    if (open < 0 || !last.healthy || !last.slow)
        return;
    if (read_directions(json_object_get(sl_validating_result(c, NULL), "links"), &direction, &count) !=
        SL_OK) {
        c->failed = SL_ENOMEM;
        return;
    }
    if (sl_carried_compare(last.healthy, last.slow, sl_nodes_clock_error(&c->nodes), direction, count,
                           node_of, world, &found))
        c->view.verdict[open] = found;
    sl_free(direction);
}

double sl_control_missing(const sl_control_core *c) {
    const sl_status_view *v = &c->view;
    return v->healthy_ms > 0 && v->level_ms > v->healthy_ms ? 1 - v->healthy_ms / v->level_ms : 0;
}

/* tested[world]: what of each rank the processes of the validation tested. */
static void note_tested(const json_t *result, char *tested, int world) {
    const char *list[2] = {"devices", "links"};
    for (int i = 0; i < 2; i++) {
        size_t at;
        const json_t *one;
        json_array_foreach(json_object_get(result, list[i]), at, one) {
            const int rank[2] = {(int)sl_json_int(one, i == 0 ? "rank" : "from", -1),
                                 (int)sl_json_int(one, i == 0 ? "rank" : "to", -1)};
            for (int end = 0; end < 2; end++)
                if (rank[end] >= 0 && rank[end] < world)
                    tested[rank[end]] |= i == 0 ? SL_TESTED_DEVICE : SL_TESTED_LINKS;
            if (i == 0 && rank[0] >= 0 && rank[0] < world &&
                sl_json_count(json_object_get(one, "evidence"), "gpus_not_tested", 0) > 0)
                tested[rank[0]] |= SL_HOLDS_GPU;
            if (i == 0 && rank[0] >= 0 && rank[0] < world &&
                sl_json_count(json_object_get(one, "evidence"), "gpus_tested", 0) > 0)
                tested[rank[0]] |= SL_TESTED_GPU;
        }
    }
}

/* NCCL's calls are those of ranks that hold GPUs. */
static int calls_nccl(const sl_call_profile *p) {
    for (size_t g = 0; p && g < p->groups; g++)
        if (sl_call_is_nccl(p->group[g].call))
            return 1;
    return 0;
}

/* Contention of a host is that of the ranks that the profile names. */
static void narrow(sl_control_core *c) {
    int world = sl_nodes_world(&c->nodes), *node_of = NULL;
    char *tested = NULL;
    double *starved = NULL;
    if (sl_alloc(&node_of, (size_t)world, sizeof *node_of) != SL_OK ||
        sl_alloc(&tested, (size_t)world + 1, 1) != SL_OK ||
        sl_alloc(&starved, (size_t)world, sizeof *starved) != SL_OK) {
        c->failed = SL_ENOMEM;
        SL_FREE(node_of, tested, starved);
        return;
    }
    for (int rank = 0; rank < world; rank++) {
        const sl_job_node *node = sl_nodes_of_rank(&c->nodes, rank, NULL);
        node_of[rank] = node ? (int)(node - c->nodes.node) : -1;
    }
    note_tested(sl_validating_result(c, NULL), tested, world);
    const sl_profile_comparison last = sl_references_last(c);
    for (int rank = 0; rank < world; rank++)
        starved[rank] = last.slow ? sl_call_profile_starved(last.slow, last.healthy, rank) : -1;
    const sl_narrow_facts facts = {.taken = last.taken,
                                   .lost = last.lost,
                                   .starved = starved,
                                   .transfers = last.transfers,
                                   .missing = sl_control_missing(c),
                                   .gpu = calls_nccl(last.slow),
                                   .tested = tested,
                                   .node_of = node_of,
                                   .ranks = world};
    c->view.verdicts = sl_verdict_narrow(c->view.verdict, c->view.verdicts, SL_STATUS_SUSPECTS,
                                         c->view.suspect, c->view.suspects, &facts);
    compare_with_carried(c, node_of, world);
    SL_FREE(node_of, tested, starved);
}

void sl_control_verdict_by_validation(sl_control_core *c) {
    int released;
    const json_t *result = sl_validating_result(c, &released);
    if (!result) { /* no test was possible */
        sl_control_verdict_by_profile(c);
        return;
    }
    c->view.verdicts = read_verdicts(c, json_object_get(result, "verdicts"));
    if (c->view.verdicts == 0) {
        char profile[200], why[256];
        sl_suspects_text(c->view.suspect, c->view.suspects, profile, sizeof profile);
        snprintf(why, sizeof why, "the tests found nothing slow; by the profile: %s", profile);
        undecided(c, why);
    }
    narrow(c);
    sl_validating_end(c);
    report_verdicts(c, "by validation",
                    released ? "tested partly while the program ran" : "tested while held");
}
