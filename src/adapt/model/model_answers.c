/* Cached results by fingerprint: times of replicas and searched positions. */
#include "adapt/model/model_inside.h"
#include "base/memory.h"

#define MAX_ANSWERS 65536         /* then all are dropped */
enum { MAX_ARRANGEMENTS = 1024 }; /* then the oldest is dropped */

sl_status sl_model_answers_open(sl_model_answers **answers) {
    return sl_alloc(answers, 1, sizeof **answers);
}

void sl_model_answers_close(sl_model_answers *a) {
    if (!a)
        return;
    for (int i = 0; a->arrangement && i < MAX_ARRANGEMENTS; i++)
        sl_free(a->arrangement[i].host);
    sl_free(a->arrangement);
    sl_free(a->answer);
    sl_free(a);
}

/* ---- times ---- */

static sl_answer *slot_of(sl_answer *answer, size_t slots, const sl_fingerprint *asked) {
    size_t i = (size_t)asked->word[0] & (slots - 1);
    while ((answer[i].asked.word[0] | answer[i].asked.word[1]) &&
           memcmp(&answer[i].asked, asked, sizeof *asked) != 0)
        i = (i + 1) & (slots - 1);
    return &answer[i];
}

/* Makes room for one more answer. */
static sl_status widen(sl_model_answers *a) {
    size_t slots = a->slots ? 2 * a->slots : 256;
    sl_answer *wider;
    if (a->answers >= MAX_ANSWERS) {
        memset(a->answer, 0, a->slots * sizeof *a->answer);
        a->answers = 0;
    }
    if (2 * a->answers < a->slots)
        return SL_OK;
    SL_TRY(sl_alloc(&wider, slots, sizeof *wider));
    for (size_t i = 0; i < a->slots; i++)
        if (a->answer[i].asked.word[0] | a->answer[i].asked.word[1])
            *slot_of(wider, slots, &a->answer[i].asked) = a->answer[i];
    sl_free(a->answer);
    a->answer = wider;
    a->slots = slots;
    return SL_OK;
}

sl_status sl_model_answer(sl_model_answers *a, const sl_fingerprint *asked, sl_answer **answer) {
    SL_TRY(widen(a));
    *answer = slot_of(a->answer, a->slots, asked);
    return SL_OK;
}

void sl_model_answered(sl_model_answers *a, const sl_fingerprint *asked, double time, sl_answer *answer) {
    *answer = (sl_answer){.asked = *asked, .time = time};
    a->answers++;
}

/* ---- positions ---- */

int sl_model_arrangement(const sl_model_answers *a, const sl_fingerprint *asked, const int **host) {
    int known = a->arrangements < MAX_ARRANGEMENTS ? (int)a->arrangements : MAX_ARRANGEMENTS;
    for (int i = 0; i < known; i++)
        if (memcmp(&a->arrangement[i].asked, asked, sizeof *asked) == 0) {
            *host = a->arrangement[i].host;
            return 1;
        }
    return 0;
}

sl_status sl_model_arranged(sl_model_answers *a, const sl_fingerprint *asked, int **host) {
    if (!a->arrangement)
        SL_TRY(sl_alloc(&a->arrangement, MAX_ARRANGEMENTS, sizeof *a->arrangement));
    sl_host_arrangement *oldest = &a->arrangement[a->arrangements++ % MAX_ARRANGEMENTS];
    sl_free(oldest->host);
    *oldest = (sl_host_arrangement){.asked = *asked, .host = *host};
    *host = NULL;
    return SL_OK;
}
