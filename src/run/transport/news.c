#include "run/transport/news.h"

#include <stdio.h>

void sl_news_put(sl_news *news, sl_transport_news_kind kind, int from, int to, int rail, const char *text) {
    uint32_t put = atomic_load_explicit(&news->put, memory_order_relaxed);
    if (put - atomic_load_explicit(&news->taken, memory_order_acquire) == SL_NEWS_KEPT)
        return;
    sl_transport_news *one = &news->ring[put % SL_NEWS_KEPT];
    *one = (sl_transport_news){
        .kind = kind, .from = from, .to = to, .number = -1, .rail = rail, .time = sl_now()};
    snprintf(one->text, sizeof one->text, "%s", text);
    atomic_store_explicit(&news->put, put + 1, memory_order_release);
}

int sl_news_take(sl_news *news, sl_transport_news *one) {
    uint32_t taken = atomic_load_explicit(&news->taken, memory_order_relaxed);
    if (atomic_load_explicit(&news->put, memory_order_acquire) == taken)
        return 0;
    *one = news->ring[taken % SL_NEWS_KEPT];
    atomic_store_explicit(&news->taken, taken + 1, memory_order_release);
    return 1;
}
