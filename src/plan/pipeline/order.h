/* An order: the sequence of ops of every rank. It comes from a schedule family, from any file, or from a
 * running job, so it is not trusted: sl_order_check (and lowering) check whether it is a schedule of a
 * problem. */
#pragma once

#include "plan/pipeline/problem.h"

/* An end of a message in the order in which its rank issues them, named by the op that makes the message. */
typedef struct sl_order_issue {
    int32_t stage, microbatch;
    int16_t backward, receive;
    int32_t step; /* follows the rank's first `step` ops */
} sl_order_issue;

typedef struct sl_order {
    int ranks;
    int *count;             /* [ranks] */
    sl_op **ops;            /* [ranks][count[rank]] */
    int *issues;            /* [ranks] */
    sl_order_issue **issue; /* [ranks][issues[rank]]; NULL: as PyTorch adds them (plan/lower/issue.h) */
} sl_order;

/** `capacity` ops per rank, all counts 0. Free with sl_order_free. */
sl_status sl_order_make(int ranks, int capacity, sl_order *order);
sl_status sl_order_copy(const sl_order *order, sl_order *copy);
void sl_order_free(sl_order *order);

/** Room for `capacity[rank]` issues of each rank, none yet; the present ones are dropped. SL_ENOMEM. */
sl_status sl_order_make_issues(sl_order *order, const int *capacity);
/** For a change of the ops. Never fails. */
void sl_order_drop_issues(sl_order *order);

/** Each op of the problem exactly once, in all its parts, on the rank of its stage; per (stage, microbatch)
 * either F,I,W or F,B; F before I or B and I before W on the rank, and inputs from the same rank before.
 * SL_EINVAL names rank, position and op. Deadlock, links: see lower. */
sl_status sl_order_check(const sl_problem *problem, const sl_order *order);

/** The same; *rank and *position are those of the wrong op, for readers that know its origin. Position -1: an
 * op is missing on that rank; rank -1: something else, or no fault. */
sl_status sl_order_check_at(const sl_problem *problem, const sl_order *order, int *rank, int *position);

/** Whether W (or B) of every stage comes in ascending microbatches, each part separately, as bit-identical
 * sums require (design.md, rule 3). */
sl_status sl_order_check_ascending(const sl_order *order);

/** Whether the backwards of each rank's stages end in the same order of stages in both: gradients that are
 * summed over replicas as soon as a stage has all of them are then summed in one order. Never fails. */
int sl_order_ends_alike(const sl_order *a, const sl_order *b);

/** Replaces every whole op by its parts, one after the other; pairs are split, and issues dropped. For
 * families without parts.
 * After SL_ENOMEM the order is inconsistent and may only be freed. */
sl_status sl_order_split(const sl_problem *problem, sl_order *order);

/** Forwards before the first I or B, per rank (design.md, warm-up). */
void sl_order_warmup(const sl_order *order, int *warmup);

/** Same ops and issues in the same sequence on every rank. */
int sl_order_equal(const sl_order *a, const sl_order *b);
