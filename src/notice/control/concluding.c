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

static sl_suspect unknown_because(const char *why) {
    sl_suspect s = {.component = SL_COMPONENT_UNKNOWN, .rank = -1, .from = -1, .to = -1};
    sl_text_format(s.why, sizeof s.why, "%s", why);
    return s;
}

static void undecided(sl_control_core *c, const char *why) {
    c->view.verdict[0] = unknown_because(why);
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

/* ---- by tests ---- */

/* What the first test found, narrowed by the profile. */
typedef struct conclusion {
    sl_suspect verdict[SL_STATUS_SUSPECTS];
    int count;
    int carried;  /* index of the verdict that rests on what healthy calls carried; -1: none */
    int *node_of; /* [world] */
    char *tested; /* [world] */
    sl_narrow_facts facts;
} conclusion;

static void read_verdicts(const json_t *verdicts, conclusion *f) {
    size_t i;
    const json_t *one;
    json_array_foreach(verdicts, i, one) {
        if (f->count < SL_STATUS_SUSPECTS && sl_suspect_from_json(one, &f->verdict[f->count]) == SL_OK)
            f->count++;
    }
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
static int open_verdict(const conclusion *f) {
    int unknown = 0;
    for (int i = 0; i < f->count; i++) {
        const sl_suspect *v = &f->verdict[i];
        if (v->component == SL_COMPONENT_UNKNOWN && v->from >= 0)
            return i;
        unknown += v->component == SL_COMPONENT_UNKNOWN;
    }
    return unknown > 0 && unknown == f->count ? 0 : -1;
}

/* The direction between two nodes that does worse in these tests than healthy calls did. */
static int find_carried(sl_control_core *c, const json_t *report, const conclusion *f, sl_suspect *found) {
    sl_tested_direction *direction;
    int count;
    const sl_profile_comparison last = sl_references_last(c);
    if (!last.healthy || !last.slow)
        return 0;
    if (read_directions(json_object_get(report, "links"), &direction, &count) != SL_OK) {
        c->failed = SL_ENOMEM;
        return 0;
    }
    const int slow = sl_carried_compare(last.healthy, last.slow, sl_nodes_clock_error(&c->nodes), direction,
                                        count, f->node_of, f->facts.ranks, found);
    sl_free(direction);
    return slow;
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

static void close_conclusion(conclusion *f) {
    SL_FREE(f->node_of, f->tested);
}

/* Contention of a host is that of the ranks that the profile names. If tests have nothing to compare a link
 * with, and the calls named none, it is compared with what healthy calls carried. */
static sl_status open_conclusion(sl_control_core *c, conclusion *f) {
    const json_t *first = sl_validating_result(c, NULL);
    const int world = sl_nodes_world(&c->nodes);
    const sl_profile_comparison last = sl_references_last(c);
    sl_status status;
    *f = (conclusion){.carried = -1};
    SL_TRY_GOTO(failed, status, sl_alloc(&f->node_of, (size_t)world, sizeof *f->node_of));
    SL_TRY_GOTO(failed, status, sl_alloc(&f->tested, (size_t)world + 1, 1));
    for (int rank = 0; rank < world; rank++) {
        const sl_job_node *node = sl_nodes_of_rank(&c->nodes, rank, NULL);
        f->node_of[rank] = node ? (int)(node - c->nodes.node) : -1;
    }
    note_tested(first, f->tested, world);
    f->facts = (sl_narrow_facts){.taken = last.taken,
                                 .lost = last.lost,
                                 .starved = last.starved,
                                 .stopped = last.stopped,
                                 .transfers = last.transfers,
                                 .missing = sl_control_missing(c),
                                 .gpu = calls_nccl(last.slow),
                                 .tested = f->tested,
                                 .node_of = f->node_of,
                                 .ranks = world};
    read_verdicts(json_object_get(first, "verdicts"), f);
    if (f->count == 0) {
        char profile[200], why[256];
        sl_suspects_text(c->view.suspect, c->view.suspects, profile, sizeof profile);
        snprintf(why, sizeof why, "the tests found nothing slow; by the profile: %s", profile);
        f->verdict[f->count++] = unknown_because(why);
    }
    f->count = sl_verdict_narrow(f->verdict, f->count, SL_STATUS_SUSPECTS, c->view.suspect, c->view.suspects,
                                 &f->facts);
    const int open = open_verdict(f);
    if (open >= 0 && find_carried(c, first, f, &f->verdict[open]))
        f->carried = open;
    return SL_OK;
failed:
    close_conclusion(f);
    c->failed = status;
    return status;
}

static int rests_on_tests(const sl_control_core *c, const conclusion *f, int i) {
    return sl_verdict_rests_on_tests(&f->verdict[i], c->view.suspect, c->view.suspects, &f->facts);
}

int sl_control_doubts(sl_control_core *c, sl_second_test *test) {
    conclusion f;
    *test = (sl_second_test){0};
    if (open_conclusion(c, &f) != SL_OK)
        return 0;
    for (int i = 0; i < f.count; i++)
        if (rests_on_tests(c, &f, i))
            sl_second_test_add(sl_validating_result(c, NULL), &f.verdict[i], f.node_of, f.facts.ranks, test);
    close_conclusion(&f);
    return test->links + test->devices > 0;
}

/* What only the first test named stays if the second one agrees. */
static void ask_second(sl_control_core *c, conclusion *f) {
    const json_t *first = sl_validating_result(c, NULL), *second = sl_validating_second(c);
    const char *profile = c->view.suspects > 0 ? c->view.suspect[0].why : "";
    for (int i = 0; i < f->count; i++) {
        sl_suspect *v = &f->verdict[i], again;
        if (!rests_on_tests(c, f, i))
            continue;
        if (i == f->carried) {
            const int agrees =
                second && find_carried(c, second, f, &again) && again.from == v->from && again.to == v->to;
            sl_second_test_conclude(agrees, second != NULL, "", profile, v);
        } else
            sl_second_test_decide(first, second, profile, f->node_of, f->facts.ranks, v);
    }
    f->count = sl_verdict_drop_unknown(f->verdict, f->count);
}

void sl_control_verdict_by_validation(sl_control_core *c) {
    int released;
    conclusion f;
    if (!sl_validating_result(c, &released) || open_conclusion(c, &f) != SL_OK) { /* no test was possible */
        sl_control_verdict_by_profile(c);
        return;
    }
    ask_second(c, &f);
    memcpy(c->view.verdict, f.verdict, sizeof c->view.verdict);
    c->view.verdicts = f.count;
    close_conclusion(&f);
    sl_validating_end(c);
    report_verdicts(c, "by validation",
                    released ? "tested partly while the program ran" : "tested while held");
}
