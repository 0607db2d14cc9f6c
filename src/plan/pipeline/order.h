/* An order: the sequence of ops of every rank. It comes from a schedule family, from any file, or from a
 * running job, so it is not trusted: sl_order_check (and lowering) check whether it is a schedule of a
 * problem. */
#pragma once

#include "plan/pipeline/problem.h"

typedef struct sl_order {
    int ranks;
    int *count;  /* [ranks] */
    sl_op **ops; /* [ranks][count[rank]] */
} sl_order;

/** `capacity` ops per rank, all counts 0. Free with sl_order_free. */
sl_status sl_order_make(int ranks, int capacity, sl_order *order);
sl_status sl_order_copy(const sl_order *order, sl_order *copy);
void sl_order_free(sl_order *order);

/** Each op of the problem exactly once, in all its parts, on the rank of its stage; per (stage, microbatch)
 * either F,I,W or F,B; F before I or B and I before W on the rank. SL_EINVAL names rank, position and op.
 * Deadlock, links: see lower. */
sl_status sl_order_check(const sl_problem *problem, const sl_order *order);

/** The same; *rank and *position are those of the wrong op, for readers that know its origin. Position -1: an
 * op is missing on that rank; rank -1: something else, or no fault. */
sl_status sl_order_check_at(const sl_problem *problem, const sl_order *order, int *rank, int *position);

/** Whether W (or B) of every stage comes in ascending microbatches, each part separately, as bit-identical
 * sums require (design.md, rule 3). */
sl_status sl_order_check_ascending(const sl_order *order);

/** Replaces every whole op by its parts, one after the other; pairs are split. For families without parts.
 * After SL_ENOMEM the order is inconsistent and may only be freed. */
sl_status sl_order_split(const sl_problem *problem, sl_order *order);

/** Forwards before the first I or B, per rank (design.md, warm-up). */
void sl_order_warmup(const sl_order *order, int *warmup);

/** Same ops in the same sequence on every rank. */
int sl_order_equal(const sl_order *a, const sl_order *b);
