/* A suspect: a component of the job that the evidence points at. Named by ranks of the program's world (or of
 * the run). The words of every part that names one: localisation, validation, events, the live view. */
#pragma once

#include "base/status.h"
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

typedef enum sl_component {
    SL_COMPONENT_UNKNOWN, /* cannot tell */
    SL_COMPONENT_DEVICE,  /* rank */
    SL_COMPONENT_LINK,    /* from -> to; both 0/1 says whether the other direction too */
    SL_COMPONENT_HOST,    /* every rank of the host of `rank` */
    SL_COMPONENT_GROUP,   /* a communication group that no single link of could be singled out in; `group` */
    SL_COMPONENT_LOAD,    /* no fault: the work of an iteration grew */
    SL_COMPONENT_STAGES   /* no fault: the stages of `rank` have got more work than the others */
} sl_component;

typedef struct sl_suspect {
    sl_component component;
    int rank;           /* device, host, stages; otherwise -1 */
    int from, to, both; /* link, or the link that nothing can be told of; otherwise -1, -1, 0 */
    uint64_t group;     /* name of the communicator; otherwise 0 */
    double measured,
        expected;   /* ms of what was compared (or GFLOP/s, GB/s in verdicts: `why` says the unit) */
    char cause[96]; /* "" when not known: "cgroup quota", "co-located load", "clock", ... */
    char why[256];  /* one line: the evidence, or why nothing can be told */
} sl_suspect;

/** "unknown", "device", "link", "host", "group", "workload", "imbalance". */
const char *sl_component_name(sl_component component);

/** Only which it is: "device of rank 3", "link 1 <-> 2", "cannot tell". */
void sl_suspect_name(const sl_suspect *suspect, char *text, size_t size);

/** A line for people: "link 1 -> 2 x 2.40 (cause): why"; cut between words (base/text.h). */
void sl_suspect_text(const sl_suspect *suspect, char *text, size_t size);

/** An object with component, rank | link and both | group, measured and expected, cause, why, those that are
 * known; a link that nothing can be told of is `about`. The caller's; NULL when there is no memory. */
json_t *sl_suspect_to_json(const sl_suspect *suspect);
/** From outside: texts that are too long are cut. SL_EINVAL. */
sl_status sl_suspect_from_json(const json_t *json, sl_suspect *suspect);
