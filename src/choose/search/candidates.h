/* The shapes of a search on their way to a plan: each with a bound, and with a guess that orders them. Bounds
 * are computed on all processors.
 *
 * Shapes with something in host memory follow those without, which are three times fewer and much quicker to
 * plan. Host memory makes no plan shorter where memory does not bind: so those follow last for which the
 * device alone has room for twice the microbatches that a pipeline needs. None is left out. */
#pragma once

#include "choose/search/shape_plan.h"

typedef enum sl_turn {
    SL_TURN_PLAIN,  /* nothing in host memory, or it is fixed what is there */
    SL_TURN_HOSTED, /* something in host memory, where memory binds */
    SL_TURN_ROOMY   /* something in host memory without need */
} sl_turn;

typedef struct sl_candidate {
    sl_shape shape;
    sl_shape_bound bound;
    sl_turn turn;
    double guess;    /* ns: the order in which shapes of a turn are estimated; negative: without a bound */
    double estimate; /* ns of an iteration; INFINITY: not estimated, or nothing fits */
    double memory;   /* bytes, estimated */
    int planned;
} sl_candidate;

/** Bounds and guesses of *count shapes; *count becomes the number of those that fit, sorted by turn and
 * guess. *cut_short: interrupted, and those without a bound are not among them. SL_ENONE: none fits;
 * SL_ENOMEM. */
sl_status sl_candidates_bound(const sl_shape_planning *planning, int threads, sl_candidate *candidate,
                              size_t *count, int *cut_short);
