/* Combines the results of a validation and a profile. Pure.
 *
 * The calls of the slow iterations show what holds the program up; tests show why. So a rank that computes
 * longer is in the verdict whatever the tests find, and what tests find elsewhere is not: the program is not
 * slow because of it.
 *
 * If the devices of a host test healthy but its processors are under load, tests show only contention, which
 * all ranks of the host share. The profile shows which of them suffers. So the verdict names the devices of
 * this host that the profile suspects, unless it suspects all or none of them. Co-located load is the cause
 * only if it took most of the missing processor time (`taken`), and without suspects only if the device's
 * rank or the host's ranks together lost half of the time that an iteration takes longer (`lost`, `missing`).
 * A rank that is not scheduled while it is in a call loses time that no computation shows: where the profile
 * explains nothing and the tests found nothing else, what its device starved counts (`starved`).
 *
 * A quota throttles the products of a test, which need the processor all the time, more than the program. So
 * it is the cause if it stopped the program, too (`stopped`): for most of what a suspect computes longer, or,
 * without suspects, for half of the time that is missing.
 *
 * A link that only tests find slow is not what slows the program if its transfers take as long as when
 * healthy. Otherwise what only tests name is tested again (second_test.h).
 *
 * Fewer than three links of a kind cannot be assessed: for two nodes, the tests show only that one direction
 * is slower than the other. If the profile also finds that direction slower, the verdict names it. */
#pragma once

#include "notice/detect/suspect.h"

enum {
    SL_TESTED_DEVICE = 1,
    SL_TESTED_LINKS = 2,
    SL_HOLDS_GPU = 4 /* that was not tested */,
    SL_TESTED_GPU = 8
};

/* What is known apart from the suspects. */
typedef struct sl_narrow_facts {
    const double *taken;   /* [suspects] sl_call_profile_taken of each */
    const double *lost;    /* [ranks] as of sl_call_profile_weigh; NULL: unknown */
    const double *starved; /* [ranks] as of sl_call_profile_starved; NULL: unknown */
    const double *stopped; /* [ranks] as of sl_call_profile_stopped; NULL: unknown */
    int transfers;         /* as of sl_call_profile_weigh; -1: unknown */
    double missing;        /* share of an iteration by which it takes longer than when healthy; 0: unknown */
    const char *tested;    /* [ranks] what was tested of each: SL_TESTED_...; NULL: nothing */
    int gpu;               /* all ranks compute on GPUs */
    const int *node_of;    /* [ranks] index of each rank's node */
    int ranks;
} sl_narrow_facts;

/** Narrows verdict[count], which has room for `most`, SL_STATUS_SUSPECTS at most. Returns the new count. */
int sl_verdict_narrow(sl_suspect *verdict, int count, int most, const sl_suspect *suspect, int suspects,
                      const sl_narrow_facts *facts);

/** Whether nothing but the tests speaks for a verdict that was narrowed: neither a suspect of the profile,
 * nor the time that ranks lost to contention or quotas. Such a verdict needs a second test (second_test.h).
 */
int sl_verdict_rests_on_tests(const sl_suspect *verdict, const sl_suspect *suspect, int suspects,
                              const sl_narrow_facts *facts);

/** One answer that nothing is known is enough, and none with something that is. Returns the new count. */
int sl_verdict_drop_unknown(sl_suspect *verdict, int count);
