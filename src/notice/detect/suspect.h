/* A suspect: a component of the job that the evidence points at, in ranks of the program's world (or of the
 * run). Every part that names one uses these words: localization, validation, events, the live view. */
#pragma once

#include "base/status.h"
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

typedef enum sl_component {
    SL_COMPONENT_UNKNOWN, /* cannot tell */
    SL_COMPONENT_DEVICE,  /* rank */
    SL_COMPONENT_LINK,    /* from -> to; both 0/1: whether the other direction is slow too */
    SL_COMPONENT_HOST,    /* every rank of the host of `rank` */
    SL_COMPONENT_GROUP,   /* a communication group in which no single link can be singled out; `group` */
    SL_COMPONENT_LOAD,    /* no fault: the work of an iteration grew */
    SL_COMPONENT_STAGES   /* no fault: the stages of `rank` have more work than the others */
} sl_component;

typedef struct sl_suspect {
    sl_component component;
    int rank;           /* device, host, stages; otherwise -1 */
    int from, to, both; /* link, or the link that cannot be assessed; otherwise -1, -1, 0 */
    uint64_t group;     /* name of the communicator; otherwise 0 */
    double measured,
        expected;   /* ms of what was compared (or GFLOP/s, GB/s in verdicts: `why` gives the unit) */
    char cause[96]; /* "" if unknown: "cgroup quota", "co-located load", "clock", ... */
    char why[256];  /* one line: the evidence, or why there is no answer */
} sl_suspect;

/** "unknown", "device", "link", "host", "group", "workload", "imbalance". */
const char *sl_component_name(sl_component component);

/** The component only: "device of rank 3", "link 1-2", "cannot tell". */
void sl_suspect_name(const sl_suspect *suspect, char *text, size_t size);

/** A line for the user: "link 1 -> 2 x 2.40 (cause): why"; cut between words (base/text.h). */
void sl_suspect_text(const sl_suspect *suspect, char *text, size_t size);

/** An object with component, rank | link and both | group, measured and expected, cause, why, as far as
 * known; a link that cannot be assessed is `about`. Owned by the caller; NULL without memory. */
json_t *sl_suspect_to_json(const sl_suspect *suspect);
/** Reads external input: texts that are too long are cut. SL_EINVAL. */
sl_status sl_suspect_from_json(const json_t *json, sl_suspect *suspect);
