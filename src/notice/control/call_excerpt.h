/* One iteration of the last profile, call by call, for viewers: the first ranks, and at most so many calls. */
#pragma once

#include "base/status.h"
#include "notice/record/call.h"

enum { SL_EXCERPT_RANKS = 64, SL_EXCERPT_CALLS = 3000 };

typedef struct sl_excerpt_call {
    int rank;       /* of the world */
    int call;       /* sl_call_name */
    int64_t start;  /* ns since the excerpt's start */
    int64_t length; /* ns */
} sl_excerpt_call;

typedef struct sl_call_excerpt {
    sl_excerpt_call *call; /* [calls]; NULL: no profile has arrived */
    size_t calls, left_out;
    int64_t length;    /* ns */
    int64_t iteration; /* the last one when it was taken */
    int slow;          /* of slow iterations */
} sl_call_excerpt;

/** All zero is empty. */
void sl_call_excerpt_close(sl_call_excerpt *excerpt);

/** Takes those of `call`[calls], with ranks of the world, that lie in `length` ns from the start of a call of the
 * lowest rank in the middle of the profile: a call that begins before or ends after it is cut. A profile without
 * times leaves the former excerpt. SL_ENOMEM. */
sl_status sl_call_excerpt_take(sl_call_excerpt *excerpt, const sl_call *call, size_t calls, int64_t length,
                               int64_t iteration, int slow);
