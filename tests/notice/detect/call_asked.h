/* Profiles of programs on a virtual clock, compared: what is named, and assertions about it. */
#ifndef SL_TESTS_CALL_ASKED_H
#define SL_TESTS_CALL_ASKED_H

#include "call_program.h"

#include "notice/detect/call_profile.h"

#define MAX 8

typedef struct answer {
    sl_suspect suspect[MAX];
    size_t count;
    char reason[256];
} answer;

static sl_call_profile *profile(program *p, int iterations, int64_t start) {
    sl_call_profile *made;
    program_run run = program_go(p, iterations, start);
    assert_ok(sl_call_profile_make(run.call, run.calls, p->ranks, 0, &made));
    free(run.call);
    return made;
}

static answer compare(const sl_call_profile *now, const sl_call_profile *healthy) {
    answer a = {0};
    assert_ok(
        sl_call_profile_compare(now, healthy, 20 * US, a.suspect, MAX, &a.count, a.reason, sizeof a.reason));
    return a;
}

/* `now` after `before`, which is healthy unless it is NULL. */
static answer ask(program *before, program *now) {
    sl_call_profile *healthy = before ? profile(before, 12, 1000 * US) : NULL;
    sl_call_profile *slow = profile(now, 12, 9000000 * US);
    answer a = compare(slow, healthy);
    sl_call_profile_close(healthy);
    sl_call_profile_close(slow);
    return a;
}

static int shape = -1; /* that is tried; -1: there is one only */

#define assert_device(a, r)                                                                                  \
    do {                                                                                                     \
        if ((a).count != 1 || (a).suspect[0].component != SL_COMPONENT_DEVICE || (a).suspect[0].rank != (r)) \
            fail_msg("shape %d: %zu suspects, not the device of rank %d: %s", shape, (a).count, (int)(r),    \
                     (a).reason);                                                                            \
    } while (0)

#define assert_link(a, x, y)                                                                                 \
    do {                                                                                                     \
        if ((a).count != 1 || (a).suspect[0].component != SL_COMPONENT_LINK ||                               \
            !(((a).suspect[0].from == (x) && (a).suspect[0].to == (y)) ||                                    \
              ((a).suspect[0].both && (a).suspect[0].from == (y) && (a).suspect[0].to == (x))))              \
            fail_msg("shape %d: %zu suspects, not link %d to %d: %s", shape, (a).count, (int)(x), (int)(y),  \
                     (a).reason);                                                                            \
    } while (0)

#define assert_nothing(a)                                                                                    \
    do {                                                                                                     \
        if ((a).count != 0)                                                                                  \
            fail_msg("shape %d: %zu suspects where nothing is slow: %s", shape, (a).count, (a).reason);      \
        assert_true((a).reason[0] != 0);                                                                     \
    } while (0)

#define assert_unknown(a, part)                                                                              \
    do {                                                                                                     \
        if ((a).count != 1 || (a).suspect[0].component != SL_COMPONENT_UNKNOWN ||                            \
            missing_fact((a).reason, part))                                                                  \
            fail_msg("%zu suspects, not 'cannot tell': %s", (a).count, (a).reason);                          \
    } while (0)

#endif
