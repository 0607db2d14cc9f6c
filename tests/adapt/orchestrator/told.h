/* Who was named: the suspects, or the verdicts, among the events of one iteration. */
#ifndef SL_TESTS_ADAPT_ORCHESTRATOR_TOLD_H
#define SL_TESTS_ADAPT_ORCHESTRATOR_TOLD_H

#include "adapt/orchestrator/orchestrator.h"
#include "notice/detect/suspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOLD_MAX = 8 };

typedef struct told_name {
    sl_component component;
    int replica;        /* -1: of several none, or not known */
    int rank, from, to; /* -1 */
    int both, stage;    /* directions of a link; of a group, -1 */
    double times;       /* as long as healthy; 0: not told */
    char what[128], why[256];
} told_name;

typedef struct told {
    sl_event_kind kind; /* SL_EVENT_SUSPECT or SL_EVENT_VERDICT */
    int iteration;      /* when */
    int first;          /* slow iteration */
    double before, after;
    int count; /* 0: nobody was */
    told_name name[TOLD_MAX];
} told;

/* A number among the facts of an event; `none` if it is absent. */
static inline double told_number(const sl_event *e, const char *key, double none) {
    char quoted[40];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(e->facts, quoted);
    return at ? strtod(at + strlen(quoted), NULL) : none;
}

static inline sl_component told_component(const sl_event *e) {
    static const sl_component all[] = {SL_COMPONENT_DEVICE, SL_COMPONENT_LINK, SL_COMPONENT_HOST,
                                       SL_COMPONENT_GROUP,  SL_COMPONENT_LOAD, SL_COMPONENT_STAGES};
    char fact[60];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        snprintf(fact, sizeof fact, "\"component\":\"%s\"", sl_component_name(all[i]));
        if (strstr(e->facts, fact))
            return all[i];
    }
    return SL_COMPONENT_UNKNOWN;
}

static inline told_name told_name_of(const sl_event *e, int replicas) {
    told_name n = {.component = told_component(e),
                   .replica = e->has_replica  ? e->replica
                              : replicas == 1 ? 0
                                              : -1,
                   .rank = e->rank,
                   .from = e->from,
                   .to = e->to,
                   .both = strstr(e->decided, "->") == NULL,
                   .stage = (int)told_number(e, "stage", -1),
                   .times = told_number(e, "slowdown", 0)};
    snprintf(n.what, sizeof n.what, "%s", e->decided);
    snprintf(n.why, sizeof n.why, "%s", e->why);
    return n;
}

/** Adds an event to what an iteration has told; events of other kinds are nothing. */
static inline void told_add(told *t, const sl_event *e, int replicas) {
    if ((e->kind != SL_EVENT_SUSPECT && e->kind != SL_EVENT_VERDICT) || t->count == TOLD_MAX)
        return;
    t->kind = e->kind;
    t->iteration = e->iteration;
    t->after = told_number(e, "iteration_ms", t->after);
    t->first = (int)told_number(e, "since", t->first);
    t->before = told_number(e, "healthy_ms", t->before);
    t->name[t->count++] = told_name_of(e, replicas);
}

#endif
