/* A cache of recent answers to questions that recur in every iteration while the same components are slow:
 * the time of an order on a problem, and the new plan for a problem. */
#pragma once

#include "plan/pipeline/problem.h"

struct sl_shared_plan;
typedef struct sl_asked sl_asked;

/* 128-bit digest of a question. */
typedef struct sl_question {
    uint64_t word[2];
} sl_question;

/** A question about a problem. */
sl_question sl_question_about(const sl_problem *problem);
void sl_question_add(sl_question *question, uint64_t word);

/** SL_ENOMEM. */
sl_status sl_asked_open(sl_asked **asked);
void sl_asked_close(sl_asked *asked);

/** Returns 0: not in the cache. */
int sl_asked_time(const sl_asked *asked, const sl_question *question, sl_time *time);
void sl_asked_keep_time(sl_asked *asked, const sl_question *question, sl_time time);
/** Owned by the cache; NULL: not in it. */
struct sl_shared_plan *sl_asked_plan(const sl_asked *asked, const sl_question *question);
/** Adds a reference. */
void sl_asked_keep_plan(sl_asked *asked, const sl_question *question, struct sl_shared_plan *plan);
