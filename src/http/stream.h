/* A stream of server-sent events (text/event-stream) to any number of readers. Messages are stored once for
 * all readers, in a bounded memory; each reader has a position in it and reads on at its own speed. A new
 * reader, or one whose position is no longer stored, gets the full present state (event `state`, made by
 * `whole`) and continues from there. A reader that reconnects with its position (Last-Event-ID) continues
 * there if it is still stored. So a slow reader costs at most one text and delays no other. After 10 s
 * without a message, readers get a comment, so that both sides detect a lost connection. */
#pragma once

#include "base/status.h"
#include <stddef.h>

typedef struct sl_event_stream sl_event_stream;

typedef struct sl_stream_config {
    /* The full present state as a text without line ends, made by malloc; NULL: no memory. It includes
     * everything sent so far, and may itself send or renew. */
    char *(*whole)(void *context);
    void *context;
    size_t most; /* bytes of kept messages */
    int readers; /* maximum at a time; more are asked to retry later (503) */
} sl_stream_config;

sl_status sl_event_stream_open(const sl_stream_config *config, sl_event_stream **stream);
/** Call it after its server is closed. NULL does nothing. */
void sl_event_stream_close(sl_event_stream *stream);

/** Sends `text` (without line ends) as event `change` to all readers. If memory for it is lacking, readers
 * get the full state instead. */
void sl_event_stream_send(sl_event_stream *stream, const char *text);

/** Earlier messages are obsolete: all readers get the full state. */
void sl_event_stream_renew(sl_event_stream *stream);

struct MHD_Connection;
/** For the server: a response for the next reader; NULL with *busy 1 if there are too many. `last`: its
 * Last-Event-ID or NULL. */
struct MHD_Response *sl_event_stream_answer(sl_event_stream *stream, struct MHD_Connection *connection,
                                            const char *last, int *busy);
/** For the server: wakes readers with unread messages; nonzero if there are any. */
int sl_event_stream_wake(sl_event_stream *stream);
/** For the server at its end: ends the stream for all readers, including waiting ones. */
void sl_event_stream_release(sl_event_stream *stream);
