/* The connection of a store: one request, one answer, within a time. It is made when it is needed, and made
 * anew when it was lost: at once where the loss is seen before a request is sent, otherwise the request fails
 * (whether it was done cannot be known) and the next one connects. After a failure to connect, nothing is
 * tried for a second. */
#pragma once

#include "base/time.h"
#include "notice/store/address.h"

#include <hiredis/hiredis.h>

typedef struct sl_store_link {
    sl_store_address address;
    redisContext *redis; /* NULL: not connected */
    void *secure;        /* redisSSLContext, where the library has TLS */
    sl_time retry;       /* nothing is tried before */
    char why[256];       /* the last failure to connect */
    int answered;        /* the last request was */
} sl_store_link;

/** SL_EINVAL when `url` is wrong or asks for what the library cannot do. Does not connect. */
sl_status sl_store_link_open(const char *url, sl_store_link *link);
void sl_store_link_close(sl_store_link *link);

/** Sends words[count] and waits for the answer until `patience` from now (a connection made for it
 * included). *reply is the caller's, free with freeReplyObject; never an error of the server: that is
 * SL_EPEER too, with its words. */
sl_status sl_store_link_ask(sl_store_link *link, int count, const char **words, const size_t *sizes,
                            sl_time patience, redisReply **reply);
