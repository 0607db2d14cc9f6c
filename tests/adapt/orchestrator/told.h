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

static inline told_name told_name_of(const sl_event *e, int replicas) {
    static const struct {
        sl_component component;
        const char *begin;
    } words[] = {
        {SL_COMPONENT_DEVICE, "device of rank "}, {SL_COMPONENT_LINK, "link "},
        {SL_COMPONENT_HOST, "host of rank "},     {SL_COMPONENT_GROUP, "replicas of stage "},
        {SL_COMPONENT_LOAD, "workload"},          {SL_COMPONENT_STAGES, "imbalance: stages of rank "},
        {SL_COMPONENT_UNKNOWN, "cannot tell"}};
    told_name n = {.replica = e->has_replica  ? e->replica
                              : replicas == 1 ? 0
                                              : -1,
                   .rank = e->rank,
                   .from = e->from,
                   .to = e->to,
                   .both = strstr(e->decided, "->") == NULL,
                   .stage = -1};
    const char *times = strstr(e->decided, " x ");
    int known = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(e->decided, words[i].begin, strlen(words[i].begin)) == 0) {
            known = 1;
            n.component = words[i].component;
            if (n.component == SL_COMPONENT_GROUP)
                n.stage = atoi(e->decided + strlen(words[i].begin));
        }
    if (!known) { /* nobody may take words that are new for a confession */
        fprintf(stderr, "'%s' names nothing that is known\n", e->decided);
        abort();
    }
    if (times)
        n.times = strtod(times + 3, NULL);
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
    (void)sscanf(e->seen, "iterations take %lf ms since iteration %d, %lf ms when healthy", &t->after,
                 &t->first, &t->before);
    t->name[t->count++] = told_name_of(e, replicas);
}

#endif
