/* The connection of a store: one request, one answer, within a time limit. It connects when needed, and
 * reconnects after a loss: immediately if the loss is seen before a request is sent; otherwise the request
 * fails (it may or may not have been done) and the next one connects. After a failure to connect, it does not
 * retry for a second. */
#pragma once

#include "base/time.h"
#include "notice/store/address.h"

#include <hiredis/hiredis.h>

typedef struct sl_store_link {
    sl_store_address address;
    redisContext *redis; /* NULL: not connected */
    void *secure;        /* redisSSLContext, if the library has TLS */
    sl_time retry;       /* no attempt before this time */
    char why[256];       /* the last failure to connect */
    int answered;        /* the last request was answered */
} sl_store_link;

/** SL_EINVAL if `url` is wrong or requires what the library lacks. Does not connect. */
sl_status sl_store_link_open(const char *url, sl_store_link *link);
void sl_store_link_close(sl_store_link *link);

/** Sends words[count] and waits for the answer until `patience` from now (including the time to connect).
 * *reply is the caller's, free with freeReplyObject; never an error of the server: that is SL_EPEER too, with
 * the server's text. */
sl_status sl_store_link_ask(sl_store_link *link, int count, const char **words, const size_t *sizes,
                            sl_time patience, redisReply **reply);
