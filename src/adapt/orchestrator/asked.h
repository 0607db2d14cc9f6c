/* Questions that come again in every iteration while the same is slow, and their answers: what an order takes
 * on a problem, and the new plan for one. The latest are kept. */
#pragma once

#include "adapt/orchestrator/orchestrator.h"

struct sl_shared_plan;
typedef struct sl_asked sl_asked;

/* 128 bits that stand for what is asked. */
typedef struct sl_question {
    uint64_t word[2];
} sl_question;

/** About a problem. */
sl_question sl_question_about(const sl_problem *problem);
void sl_question_add(sl_question *question, uint64_t word);

/** SL_ENOMEM. */
sl_status sl_asked_open(sl_asked **asked);
void sl_asked_close(sl_asked *asked);

/** 0: nobody has asked, or it was forgotten. */
int sl_asked_time(const sl_asked *asked, const sl_question *question, sl_time *time);
void sl_asked_keep_time(sl_asked *asked, const sl_question *question, sl_time time);
/** Its own; NULL likewise. */
struct sl_shared_plan *sl_asked_plan(const sl_asked *asked, const sl_question *question);
/** One reference more. */
void sl_asked_keep_plan(sl_asked *asked, const sl_question *question, struct sl_shared_plan *plan);
