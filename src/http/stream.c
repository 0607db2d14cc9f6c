#include "http/stream.h"
#include "base/clock.h"
#include "base/memory.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BEAT (10 * SL_SECOND)
enum { BLOCK = 32768 };

/* A text that several readers may be reading; freed with the last one. */
typedef struct said {
    int users;
    uint64_t number;
    size_t size;
    char text[];
} said;

typedef struct stream_client {
    sl_event_stream *stream;
    struct stream_client *next;
    struct MHD_Connection *connection;
    uint64_t heard; /* number of the last message given to it; 0: none */
    int begun;      /* it has had the full state, or came back in time */
    said *now;      /* the text it is reading; NULL: none */
    size_t taken;   /* bytes of it */
    int asleep;     /* suspended */
    sl_time beat;   /* when it was last given something */
} stream_client;

struct sl_event_stream {
    sl_stream_config config;
    unsigned epoch; /* so that numbers of an earlier server are not mistaken for ours */
    uint64_t last;  /* number of the newest message */
    said **kept;    /* the newest messages, ascending, without gaps */
    size_t count, room, bytes;
    said *whole; /* the full state as of message `number`; NULL: not made */
    stream_client *first;
    int readers;
    int ending; /* remaining readers are notified that the stream ends */
};

static void let_go(said *one) {
    if (one && --one->users == 0)
        free(one);
}

static said *make(const sl_event_stream *s, const char *event, const char *text, uint64_t number) {
    size_t size = strlen(text) + 96;
    said *one = malloc(sizeof *one + size);
    if (!one)
        return NULL;
    int length = snprintf(one->text, size, "id: %08x-%" PRIu64 "\nevent: %s\ndata: %s\n\n", s->epoch, number,
                          event, text);
    one->users = 1;
    one->number = number;
    one->size = (size_t)length;
    return one;
}

sl_status sl_event_stream_open(const sl_stream_config *config, sl_event_stream **stream) {
    SL_TRY(sl_alloc(stream, 1, sizeof **stream));
    (*stream)->config = *config;
    if (getrandom(&(*stream)->epoch, sizeof(*stream)->epoch, 0) != (ssize_t)sizeof(*stream)->epoch)
        (*stream)->epoch = (unsigned)sl_now();
    return SL_OK;
}

static void drop_oldest(sl_event_stream *s, size_t count) {
    for (size_t i = 0; i < count; i++) {
        s->bytes -= s->kept[i]->size;
        let_go(s->kept[i]);
    }
    s->count -= count;
    if (s->count)
        memmove(s->kept, s->kept + count, s->count * sizeof *s->kept);
}

void sl_event_stream_close(sl_event_stream *s) {
    if (!s)
        return;
    drop_oldest(s, s->count);
    let_go(s->whole);
    SL_FREE(s->kept, s);
}

void sl_event_stream_send(sl_event_stream *s, const char *text) {
    s->last++;
    said *one = make(s, "change", text, s->last);
    if (!one || sl_grow(&s->kept, &s->room, s->count + 1, sizeof(said *)) != SL_OK) {
        let_go(one);
        drop_oldest(s, s->count); /* no gap may remain */
        return;
    }
    s->kept[s->count++] = one;
    s->bytes += one->size;
    size_t old = 0, over = s->bytes;
    while (old < s->count && over > s->config.most)
        over -= s->kept[old++]->size;
    drop_oldest(s, old);
}

void sl_event_stream_renew(sl_event_stream *s) {
    s->last++;
    drop_oldest(s, s->count);
}

/* ---- a reader ---- */

/* The message of that number; NULL: no longer kept, or not yet sent. */
static said *find(const sl_event_stream *s, uint64_t number) {
    uint64_t first = s->last - s->count + 1;
    return s->count && number >= first && number <= s->last ? s->kept[number - first] : NULL;
}

static said *everything(sl_event_stream *s) {
    if (!s->whole || s->whole->number != s->last) {
        char *text = s->config.whole(s->config.context);
        let_go(s->whole);
        s->whole = text ? make(s, "state", text, s->last) : NULL;
        free(text);
    }
    return s->whole;
}

/* The reader's next text; NULL: nothing now. */
static said *next_of(stream_client *r) {
    sl_event_stream *s = r->stream;
    if (r->begun && r->heard == s->last)
        return NULL;
    said *one = r->begun ? find(s, r->heard + 1) : NULL;
    if (!one)
        one = everything(s);
    if (!one)
        return NULL;
    r->begun = 1;
    r->heard = one->number;
    one->users++;
    return one;
}

static ssize_t read_more(void *context, uint64_t position, char *buffer, size_t most) {
    stream_client *r = context;
    static const char beat[] = ":\n\n";
    (void)position;
    if (r->stream->ending)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (!r->now) {
        r->now = next_of(r);
        r->taken = 0;
    }
    if (!r->now && sl_now() - r->beat >= BEAT && most >= sizeof beat - 1) {
        r->beat = sl_now();
        memcpy(buffer, beat, sizeof beat - 1);
        return sizeof beat - 1;
    }
    if (!r->now) { /* woken when there is a message */
        r->asleep = 1;
        MHD_suspend_connection(r->connection);
        return 0;
    }
    size_t left = r->now->size - r->taken, size = left < most ? left : most;
    memcpy(buffer, r->now->text + r->taken, size);
    r->taken += size;
    r->beat = sl_now();
    if (r->taken == r->now->size) {
        let_go(r->now);
        r->now = NULL;
    }
    return (ssize_t)size;
}

static void on_gone(void *context) {
    stream_client *r = context;
    for (stream_client **at = &r->stream->first; *at; at = &(*at)->next)
        if (*at == r) {
            *at = r->next;
            break;
        }
    r->stream->readers--;
    let_go(r->now);
    sl_free(r);
}

/* It was here before and knows everything up to a message that is still known. */
static void resume(stream_client *r, const char *last) {
    unsigned epoch;
    uint64_t number;
    const sl_event_stream *s = r->stream;
    if (!last || sscanf(last, "%8x-%" SCNu64, &epoch, &number) != 2 || epoch != s->epoch ||
        number > s->last || number + s->count < s->last)
        return;
    r->begun = 1;
    r->heard = number;
}

struct MHD_Response *sl_event_stream_answer(sl_event_stream *s, struct MHD_Connection *connection,
                                            const char *last, int *busy) {
    stream_client *r;
    *busy = s->readers >= s->config.readers;
    if (*busy || sl_alloc(&r, 1, sizeof *r) != SL_OK)
        return NULL;
    *r = (stream_client){.stream = s, .connection = connection, .beat = sl_now()};
    resume(r, last);
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_more, r, on_gone);
    if (!response) {
        sl_free(r);
        return NULL;
    }
    r->next = s->first;
    s->first = r;
    s->readers++;
    return response;
}

int sl_event_stream_wake(sl_event_stream *s) {
    int woken = 0;
    sl_time time = sl_now();
    for (stream_client *r = s->first; r; r = r->next)
        if (r->asleep && (!r->begun || r->heard != s->last || time - r->beat >= BEAT)) {
            r->asleep = 0;
            MHD_resume_connection(r->connection);
            woken = 1;
        }
    return woken;
}

void sl_event_stream_release(sl_event_stream *s) {
    s->ending = 1;
    for (stream_client *r = s->first; r; r = r->next)
        if (r->asleep) {
            r->asleep = 0;
            MHD_resume_connection(r->connection);
        }
}
