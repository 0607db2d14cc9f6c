/* A stream of server-sent events (text/event-stream) to any number of readers. What is sent is kept once, for
 * all of them, as far as it fits into a bounded memory; each reader has a place in it and takes what comes
 * behind at its own speed. A reader who comes, or who has fallen behind what is kept, gets everything as it
 * is now (event `state`, made by `whole`) and goes on from there; one who comes back and says where he was
 * (Last-Event-ID) goes on from there where that is still kept. So a slow reader costs one text at most, and
 * holds nobody. Readers who hear nothing for 10 s get a comment, so that both sides see a lost connection. */
#pragma once

#include "base/status.h"
#include "http/server.h"

typedef struct sl_stream_config {
    /* Everything as it is now, as a text without line ends, made by malloc; NULL: no memory. It contains
     * what was sent up to now, and may itself send or renew. */
    char *(*whole)(void *context);
    void *context;
    size_t most; /* bytes of what is kept */
    int readers; /* most at a time; more are told to come later (503) */
} sl_stream_config;

sl_status sl_event_stream_open(const sl_stream_config *config, sl_event_stream **stream);
/** After its server. NULL does nothing. */
void sl_event_stream_close(sl_event_stream *stream);

/** Says `text` (without line ends) as event `change` to all readers. Where there is no memory for it, readers
 * get everything instead. */
void sl_event_stream_send(sl_event_stream *stream, const char *text);

/** What was said before no longer holds: all readers get everything. */
void sl_event_stream_renew(sl_event_stream *stream);

struct MHD_Connection;
/** For the server: a response for the next reader; NULL with *busy 1 when there are too many. `last`: his
 * Last-Event-ID or NULL. */
struct MHD_Response *sl_event_stream_answer(sl_event_stream *stream, struct MHD_Connection *connection,
                                            const char *last, int *busy);
/** For the server: wakes readers who have something to take; nonzero when there are such. */
int sl_event_stream_wake(sl_event_stream *stream);
/** For the server that ends: the stream is over for everybody, and nobody is left waiting. */
void sl_event_stream_release(sl_event_stream *stream);
