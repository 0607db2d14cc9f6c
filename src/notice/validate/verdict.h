/* The verdict from the measurements of a validation. Pure.
 *
 * A device or a direction of a link is slow when it is worse than expected by more than 10% beyond the
 * variation of its kind: expected / measured > 1.1 + 2 cv (inverted for latency, which must also differ by
 * 0.1 ms, the cost of a late wake-up). cv is the median coefficient of variation of the kind's members, or
 * the spread of the better half of them if that is larger (with one repeat at least 10%). Every sample must
 * show it: the best one must also be worse than expected by 10%, because a slow component is slow each time,
 * and one that waited by chance is not.
 *
 * The expected value comes from a given healthy reference, else it is the median of the kind (for an even
 * number the better of the two in the middle: half of a kind may be slow). Without a reference, a kind with
 * fewer than three devices or links gives no suspect: it gives "cannot tell" if its members disagree, and
 * nothing if they agree. A device whose control group was stopped for more than 10% of the time is slow
 * whatever the others do. Suspects are named by ranks of the program. */
#pragma once

#include "base/status.h"
#include "notice/detect/suspect.h"
#include "notice/gpu/gpu.h"
#include "notice/validate/causes.h"

#define SL_GEMM_SIZE 512 /* rows and columns of the matrices that test a device */

typedef struct sl_measured_device {
    int rank, host; /* host: index */
    int samples;    /* 0: not tested */
    double gflops;  /* median of the samples */
    double best;    /* of them; 0: same as the median */
    double cv;      /* of the samples; 0 with one */
    sl_evidence evidence;
    int gpus_tested; /* of the rank, by any member */
    double expected; /* filled by the verdict; 0: nothing to compare with */
    int slow;        /* filled by the verdict */
} sl_measured_device;

typedef enum sl_wire_state {
    SL_WIRE_TESTED,
    SL_WIRE_REFUSED, /* no connection: `why` */
    SL_WIRE_LOST     /* connected, but nothing arrived in this direction */
} sl_wire_state;

/* One direction of a link. Both directions of a link are adjacent. */
typedef struct sl_measured_link {
    int from, to, from_host, to_host;
    sl_wire_state state;
    int samples;       /* of gb_per_s; 0: unknown */
    double latency_ms; /* of the link, equal in both directions; < 0: unknown */
    double gb_per_s, latency_cv, bandwidth_cv;
    double best_ms, best_gb_per_s; /* of the samples; 0: same as the median */
    int limited;                   /* the true rate may be lower */
    char why[96];
    sl_link_evidence from_evidence, to_evidence;
    double expected_latency_ms, expected_gb_per_s; /* filled by the verdict; 0: nothing to compare with */
    int slow;                                      /* filled by the verdict */
} sl_measured_link;

typedef struct sl_measured_gpu {
    int rank, host;
    sl_gpu_result test;
    double expected[SL_GPU_RATES]; /* filled by the verdict; 0: nothing to compare with */
    int slow; /* filled by the verdict: its link with the host, results, and memory included */
} sl_measured_gpu;

/* The measurements of a kind's members, and their variation. */
typedef struct sl_kind {
    int members;     /* devices, or links (not directions) */
    double median;   /* of this validation; 0: no measurement */
    double expected; /* 0: unknown */
    double cv;       /* variation of the kind's measurements */
    double factor;   /* a member is slow from this factor */
    int given;       /* expected comes from a reference */
} sl_kind;

enum { SL_LINKS_NEAR, SL_LINKS_FAR, SL_LINK_KINDS }; /* within a host; between hosts */

typedef struct sl_kinds {
    sl_kind device;
    sl_kind latency[SL_LINK_KINDS], bandwidth[SL_LINK_KINDS]; /* ms, GB/s */
} sl_kinds;

/* An earlier healthy result; 0: unknown. */
typedef struct sl_reference {
    double gflops, latency_ms[SL_LINK_KINDS], gb_per_s[SL_LINK_KINDS];
    char gpu[96]; /* name of its GPUs; "": none */
    double gpu_rate[SL_GPU_RATES];
} sl_reference;

/* A process that did not arrive, or was lost. */
typedef struct sl_absent {
    int member, rank; /* rank -1: never received */
} sl_absent;

typedef struct sl_validation {
    sl_measured_device *device;
    int devices;
    sl_measured_link *link;
    int links; /* directions */
    sl_measured_gpu *gpu;
    int gpus;
    const char *const *host; /* names, for the texts */
    int hosts;
    const sl_absent *missing;
    int missings;
    int repeats;
} sl_validation;

typedef struct sl_verdicts {
    sl_suspect *suspect;
    int count;
    size_t room;
    sl_kinds kinds;
} sl_verdicts;

/** Fills `verdicts`, and expected and slow in `measured`. `reference` may be NULL. SL_ENOMEM. Free with
 * sl_verdicts_free, also on error. */
sl_status sl_verdict(sl_validation *measured, const sl_reference *reference, sl_verdicts *verdicts);
void sl_verdicts_free(sl_verdicts *verdicts);

/** Median and coefficient of variation (standard deviation over mean, n - 1) of `value[count]`, which it
 * sorts; both 0 for none. */
void sl_spread(double *value, int count, double *median, double *cv);
