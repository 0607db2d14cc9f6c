/* Who is connected to a server, and since when: whoever takes too long to say what he wants, or to take an
 * answer, is let go, so that a few bytes now and then do not keep a place for ever. libmicrohttpd itself ends
 * connections on which nothing moves at all. A socket holds a bounded part of what is to be sent, and a peer
 * who takes nothing of it is given up by the kernel. On the server's thread. */
#ifndef SL_HTTP_VISITORS_H
#define SL_HTTP_VISITORS_H

#include <microhttpd.h>

typedef struct sl_visitor sl_visitor;

/* All zero is empty. */
typedef struct sl_visitors {
    sl_visitor *first;
    int count;
} sl_visitors;

/** For MHD_OPTION_NOTIFY_CONNECTION and MHD_OPTION_NOTIFY_COMPLETED; their context is the sl_visitors. */
void sl_visitors_notify(void *visitors, struct MHD_Connection *connection, void **mine,
                        enum MHD_ConnectionNotificationCode code);
void sl_visitors_completed(void *visitors, struct MHD_Connection *connection, void **mine,
                           enum MHD_RequestTerminationCode code);

/** His request is whole, and its answer begins now. `endless`: it is a stream, which has no end. */
void sl_visitors_asked(struct MHD_Connection *connection, int endless);

/** Ends the connections of those who have taken too long. */
void sl_visitors_tick(sl_visitors *visitors);

#endif
