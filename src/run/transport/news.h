/* Events of the direct path, from the network thread to the compute side: a lock-free ring with one writer
 * and one reader. If it is full, new events are dropped, which costs only a log line. */
#pragma once

#include "run/transport/transport.h"
#include <stdatomic.h>

#define SL_NEWS_KEPT 128u

typedef struct sl_news {
    sl_transport_news ring[SL_NEWS_KEPT];
    _Atomic uint32_t put, taken; /* writer, reader; each releases its own and acquires the other */
} sl_news;

/** Network thread. */
void sl_news_put(sl_news *news, sl_transport_news_kind kind, int from, int to, int rail, const char *text);
/** Compute side: 0: none. */
int sl_news_take(sl_news *news, sl_transport_news *one);
