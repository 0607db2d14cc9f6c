#include "run/train/noticed.h"
#include "base/text.h"
#include "run/arrange/telling.h"

sl_status sl_noticed_add(sl_trainer *t, int replica, const sl_record *records, int count) {
    return sl_localiser_add(t->localiser, replica, records, (size_t)count);
}

/* Bound of the difference of any two ranks' clocks. */
static sl_time clock_error(const sl_trainer *t) {
    sl_time worst = 0, second = 0;
    for (int w = 0; w < t->world; w++) {
        sl_time error = t->clocks[w].error;
        second = error > worst ? worst : error > second ? error : second;
        worst = error > worst ? error : worst;
    }
    return worst + second;
}

static sl_event make_event(const sl_trainer *t, int iteration, const sl_news *news,
                           const sl_located *located) {
    const sl_suspect *s = &located->suspect;
    sl_event event = {.kind = news->kind == SL_NEWS_ONSET ? SL_EVENT_SUSPECT : SL_EVENT_VERDICT,
                      .iteration = iteration,
                      .from = s->component == SL_COMPONENT_LINK ? s->from : -1,
                      .to = s->component == SL_COMPONENT_LINK ? s->to : -1,
                      .rank = s->rank};
    sl_suspect name = *s;
    name.why[0] = 0;
    sl_suspect_text(&name, event.decided, sizeof event.decided);
    if (s->component == SL_COMPONENT_GROUP)
        sl_text_format(event.decided, sizeof event.decided, "replicas of stage %d x %.2f", (int)s->group,
                       s->measured / s->expected);
    sl_text_format(event.seen, sizeof event.seen,
                   "iterations take %.1f ms since iteration %d, %.1f ms when healthy", news->after,
                   news->first, news->before);
    sl_text_format(event.why, sizeof event.why, "%s%s", s->why,
                   s->component == SL_COMPONENT_DEVICE && t->run->parallel.tensor > 1
                       ? "; its tensor ranks wait for each other, so it may be any of them"
                       : "");
    return event;
}

sl_status sl_noticed_end(sl_trainer *t, int iteration, sl_time time) {
    sl_news news;
    int changed = t->swaps != t->noticed_swaps || t->delegates != t->noticed_delegates, trouble = 0;
    t->noticed_swaps = t->swaps;
    t->noticed_delegates = t->delegates;
    for (int r = 0; r < t->run->parallel.data; r++)
        trouble |= t->replica[r].decision.troubled;
    SL_TRY(sl_localiser_end(t->localiser, iteration, time, clock_error(t), changed, trouble, &news));
    for (int i = 0; i < news.count && news.kind != SL_NEWS_NONE; i++) {
        sl_event event = make_event(t, iteration, &news, &news.located[i]);
        SL_TRY(sl_telling_event(t, &event, news.located[i].replica));
    }
    return SL_OK;
}
