#include "adapt/orchestrator/asked.h"
#include "adapt/model/model_alike.h"
#include "adapt/orchestrator/orchestrator_inside.h"
#include "base/memory.h"
#include "base/random.h"

#include <string.h>

enum { TIMES = 4096, PLANS = 256 }; /* direct-mapped by digest; a newer answer replaces the old one */

struct sl_asked {
    struct {
        sl_question question;
        sl_time time;
    } time[TIMES];
    struct {
        sl_question question;
        sl_shared_plan *plan;
    } plan[PLANS];
};

sl_question sl_question_about(const sl_problem *problem) {
    sl_question question;
    sl_model_digest(problem, question.word);
    return question;
}

void sl_question_add(sl_question *q, uint64_t word) {
    q->word[0] = sl_random_mix(q->word[0] ^ word) + SL_RANDOM_STEP;
    q->word[1] = sl_random_mix(q->word[1] + word * SL_RANDOM_STEP) ^ q->word[0];
}

sl_status sl_asked_open(sl_asked **asked) {
    return sl_alloc(asked, 1, sizeof **asked);
}

void sl_asked_close(sl_asked *asked) {
    for (int i = 0; asked && i < PLANS; i++)
        sl_plans_drop(&asked->plan[i].plan);
    sl_free(asked);
}

static int is_same(const sl_question *a, const sl_question *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

int sl_asked_time(const sl_asked *asked, const sl_question *question, sl_time *time) {
    size_t at = question->word[0] % TIMES;
    *time = asked->time[at].time;
    return is_same(&asked->time[at].question, question);
}

void sl_asked_keep_time(sl_asked *asked, const sl_question *question, sl_time time) {
    size_t at = question->word[0] % TIMES;
    asked->time[at].question = *question;
    asked->time[at].time = time;
}

sl_shared_plan *sl_asked_plan(const sl_asked *asked, const sl_question *question) {
    size_t at = question->word[0] % PLANS;
    return is_same(&asked->plan[at].question, question) ? asked->plan[at].plan : NULL;
}

void sl_asked_keep_plan(sl_asked *asked, const sl_question *question, sl_shared_plan *plan) {
    size_t at = question->word[0] % PLANS;
    sl_plans_drop(&asked->plan[at].plan);
    asked->plan[at].question = *question;
    asked->plan[at].plan = sl_plans_keep(plan);
}
