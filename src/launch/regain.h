/* The lost hosts of an elastic run, while it runs in a smaller layout: every `test_every` they are tested in
 * a process of their own, and when the run could have a larger layout with those that pass, its ranks are
 * asked to save themselves and to end. Only after a new iteration of this attempt, so that a host that comes
 * and goes cannot keep the run from training. */
#pragma once

#include "base/subprocess.h"
#include "launch/living.h"

typedef struct sl_regain {
    sl_living *living;
    const sl_launch_signals *signals;
    int reached; /* the last iteration before this attempt */
    /* Filled by the side's open. */
    sl_loop *loop;
    void (*grow)(void *attempt);
    void *attempt;
    sl_subprocess process; /* of the test under way */
    int answers;           /* its pipe: a byte for each host; -1: none */
    char *passed;          /* [hosts.count] */
    size_t heard;
} sl_regain;

/** For an attempt of `regain->living`, which is reduced. The first three members of `regain` are filled. */
sl_attempt_side sl_regain_side(sl_regain *regain);
