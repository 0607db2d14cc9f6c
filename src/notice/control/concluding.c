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
static void count_alike(sl_controller *c) {
    const sl_call_profile *p = c->reference;
    int rank = -1;
    c->view.alike = 0;
    for (int i = c->view.verdicts; i-- > 0;)
        if (c->view.verdict[i].component == SL_COMPONENT_DEVICE ||
            c->view.verdict[i].component == SL_COMPONENT_HOST)
            rank = c->view.verdict[i].rank;
    for (int i = 0; p && rank >= 0 && rank < p->ranks && i < p->ranks; i++)
        c->view.alike += p->rank[i].kind == p->rank[rank].kind;
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
static double least_sent(const sl_call_profile *p) {
    double least = INFINITY;
    for (int from = 0; from < p->ranks; from++)
        for (int to = 0; to < p->ranks; to++)
            if (from != to)
                least = fmin(least, sent(p, from, to));
    return least;
}

/* Whether other ranks could sit at a slow link, and send less over it. */
static void weigh_link(sl_controller *c) {
    const sl_call_profile *p = c->reference;
    c->view.lightest = -1;
    for (int i = 0; p && p->ranks >= 3 && p->ranks <= WEIGHED && i < c->view.verdicts; i++) {
        const sl_suspect *s = &c->view.verdict[i];
        double bytes = s->component == SL_COMPONENT_LINK ? sent(p, s->from, s->to) : 0;
        if (bytes <= 0)
            continue;
        c->view.lightest = least_sent(p) / bytes;
        return;
    }
}

/* If neither calls nor tests show anything, the slow phase may be the program's normal behavior, and its
 * profile is kept. If the tests found something, it is not. */
static int keep_usual(sl_controller *c) {
    int unknown = c->view.verdicts == 1 && c->view.verdict[0].component == SL_COMPONENT_UNKNOWN;
    if (!c->usual || !c->usual_is_now)
        return 0;
    if (unknown)
        return 1;
    sl_call_profile_close(c->usual);
    c->usual = NULL;
    return 0;
}

static void tell_verdicts(sl_controller *c, const char *decided, const char *why) {
    char all[400];
    snprintf(all, sizeof all, "%s%s", why, keep_usual(c) ? "; what the profile shows is kept as usual" : "");
    count_alike(c);
    weigh_link(c);
    for (int i = 0; i < c->view.verdicts; i++)
        sl_controller_tell_suspect(c, SL_EVENT_VERDICT, &c->view.verdict[i], decided, all);
}

static void cannot_tell(sl_controller *c, const char *why) {
    sl_suspect *s = &c->view.verdict[0];
    *s = (sl_suspect){.component = SL_COMPONENT_UNKNOWN, .rank = -1, .from = -1, .to = -1};
    sl_text_format(s->why, sizeof s->why, "%s", why);
    c->view.verdicts = 1;
}

void sl_controller_verdict_by_profile(sl_controller *c) {
    c->view.verdicts = c->view.suspects;
    memcpy(c->view.verdict, c->view.suspect, sizeof c->view.verdict);
    if (c->view.verdicts == 0)
        cannot_tell(c, c->reason[0] ? c->reason : "no profile came");
    sl_controller_end_validation(c);
    tell_verdicts(c, "by the profile alone", c->reason);
}

static int read_verdicts(sl_controller *c, const json_t *verdicts) {
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
static int open_verdict(const sl_controller *c) {
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
static void compare_with_carried(sl_controller *c, const int *node_of, int world) {
    sl_tested_direction *direction;
    sl_suspect found;
    int count;
    const int place = open_verdict(c);
    if (place < 0 || !c->reference || !c->slow)
        return;
    if (read_directions(json_object_get(c->validation.result, "links"), &direction, &count) != SL_OK) {
        c->failed = SL_ENOMEM;
        return;
    }
    if (sl_carried_compare(c->reference, c->slow, sl_nodes_clock_error(&c->nodes), direction, count, node_of,
                           world, &found))
        c->view.verdict[place] = found;
    sl_free(direction);
}

/* Contention of a host is that of the ranks that the profile names. */
static void narrow(sl_controller *c) {
    int world = sl_nodes_world(&c->nodes), *node_of;
    if (sl_alloc(&node_of, (size_t)world, sizeof *node_of) != SL_OK) {
        c->failed = SL_ENOMEM;
        return;
    }
    for (int rank = 0; rank < world; rank++) {
        const sl_job_node *node = sl_nodes_of_rank(&c->nodes, rank, NULL);
        node_of[rank] = node ? (int)(node - c->nodes.node) : -1;
    }
    c->view.verdicts =
        sl_verdict_narrow(c->view.verdict, c->view.verdicts, SL_STATUS_SUSPECTS, c->view.suspect, c->taken,
                          c->view.suspects, c->starved, node_of, world);
    compare_with_carried(c, node_of, world);
    sl_free(node_of);
}

void sl_controller_verdict_by_validation(sl_controller *c) {
    if (!c->validation.result) { /* no test was possible */
        sl_controller_verdict_by_profile(c);
        return;
    }
    c->view.verdicts = read_verdicts(c, json_object_get(c->validation.result, "verdicts"));
    if (c->view.verdicts == 0) {
        char profile[200], why[256];
        sl_suspects_text(c->view.suspect, c->view.suspects, profile, sizeof profile);
        snprintf(why, sizeof why, "the tests found nothing slow; by the profile: %s", profile);
        cannot_tell(c, why);
    }
    narrow(c);
    const char *why = c->validation.beside ? "tested partly while the program ran" : "tested while held";
    sl_controller_end_validation(c);
    tell_verdicts(c, "by validation", why);
}

void sl_controller_validated(sl_controller *c) {
    char seen[160];
    snprintf(seen, sizeof seen, "%zu devices and %zu links tested by %d processes in %.0f ms",
             json_array_size(json_object_get(c->validation.result, "devices")),
             json_array_size(json_object_get(c->validation.result, "links")), c->validation.members,
             sl_to_ms(c->now - c->validation.begin));
    sl_controller_tell(c, SL_EVENT_VALIDATED, seen, NULL,
                       c->validation.beside ? "the hold ended early: partly while the program ran"
                                            : "while the program was held");
    sl_controller_note(c, SL_IN_VERDICT, 0);
}
