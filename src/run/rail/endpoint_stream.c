/* One established connection: reads frames, and payloads straight into their slots; writes frames, and
 * payloads straight from their slots. */
#include "run/rail/endpoint_inside.h"

#include <errno.h>
#include <string.h>

#define ROUND ((size_t)1 << 20) /* bytes of one rail before the others get their turn */
#define WASTE 65536u            /* what is thrown away is read in such pieces */

/* ---- reading ---- */

static const char *take_frame(sl_endpoint *c, int rail) {
    const sl_wire *frame = &c->rail[rail].stream.head;
    switch (frame->kind) {
    case SL_WIRE_BEAT:
        return NULL;
    case SL_WIRE_BYE:
        sl_endpoint_rail_down(c, rail, "closed in good order");
        if (c->config.report)
            c->config.report(c->config.object, SL_HAPPENED_GOODBYE, rail, "closed in good order");
        return NULL;
    case SL_WIRE_CHUNK:
        return c->config.sends ? "it sent a chunk against the direction" : sl_endpoint_begin_chunk(c, rail);
    default:
        return c->config.sends ? sl_endpoint_hear_receiver(c, frame)
                               : "it acknowledged against the direction";
    }
}

static void end_payload(sl_endpoint *c, int rail) {
    sl_endpoint_stream *s = &c->rail[rail].stream;
    s->in_payload = 0;
    const char *wrong = sl_endpoint_end_chunk(c, rail);
    if (wrong)
        sl_endpoint_breach(c, rail, wrong);
}

static void take_head(sl_endpoint *c, int rail) {
    sl_endpoint_stream *s = &c->rail[rail].stream;
    const uint8_t *head = s->in + s->in_begin;
    if (s->proofs) {
        memcpy(s->proof, head + SL_WIRE_BYTES, SL_PROOF_BYTES);
        if (!sl_frame_is_proven(s->proofs, head, s->proof)) {
            sl_endpoint_breach(c, rail, "a frame that the other end has not proven");
            return;
        }
    }
    if (sl_frame_decode(head, &s->head) != SL_OK) {
        sl_endpoint_breach(c, rail, sl_error_text());
        return;
    }
    s->in_begin += s->head_bytes;
    const char *wrong = take_frame(c, rail);
    if (wrong) {
        sl_endpoint_breach(c, rail, wrong);
        return;
    }
    if (s->socket >= 0 && s->head.kind == SL_WIRE_CHUNK) {
        s->in_payload = 1;
        s->got = 0;
        if (s->head.chunk.bytes == 0)
            end_payload(c, rail);
    }
}

/* Uses up what was read ahead. */
static void consume(sl_endpoint *c, int rail) {
    sl_endpoint_stream *s = &c->rail[rail].stream;
    while (s->socket >= 0) {
        size_t here = s->in_end - s->in_begin;
        if (s->in_payload) {
            size_t missing = s->head.chunk.bytes - s->got, n = here < missing ? here : missing;
            if (n == 0)
                return;
            if (s->destination)
                memcpy(s->destination + s->got, s->in + s->in_begin, n);
            s->in_begin += n;
            s->got += n;
            if (s->got == s->head.chunk.bytes)
                end_payload(c, rail);
        } else if (here >= s->head_bytes) {
            take_head(c, rail);
        } else {
            return;
        }
    }
}

/* Chooses where the next bytes go: the rest of a payload, then the read-ahead buffer. Returns the bytes asked
 * for. */
static size_t aim(sl_endpoint_stream *s, uint8_t *waste, struct iovec parts[2], int *count) {
    size_t here = s->in_end - s->in_begin, wanted = 0;
    *count = 0;
    if (s->in_payload) { /* then nothing is ahead of its use */
        size_t missing = s->head.chunk.bytes - s->got;
        if (!s->destination && missing > WASTE)
            missing = WASTE;
        parts[(*count)++] = (struct iovec){
            .iov_base = s->destination ? s->destination + s->got : (char *)waste, .iov_len = missing};
        wanted = missing;
        if (missing < s->head.chunk.bytes - s->got)
            return wanted;
    }
    memmove(s->in, s->in + s->in_begin, here);
    s->in_begin = 0;
    s->in_end = here;
    parts[(*count)++] = (struct iovec){.iov_base = s->in + here, .iov_len = SL_STREAM_IN - here};
    return wanted + SL_STREAM_IN - here;
}

static void account(sl_endpoint *c, int rail, size_t n, const struct iovec *first) {
    sl_endpoint_stream *s = &c->rail[rail].stream;
    if (s->in_payload) {
        size_t payload = n < first->iov_len ? n : first->iov_len;
        s->got += payload;
        n -= payload;
        s->in_end += n;
        if (s->got == s->head.chunk.bytes)
            end_payload(c, rail);
    } else {
        s->in_end += n;
    }
    consume(c, rail);
}

void sl_endpoint_read(sl_endpoint *c, int rail) {
    sl_endpoint_stream *s = &c->rail[rail].stream;
    uint8_t waste[WASTE];
    for (size_t total = 0; s->socket >= 0 && total < ROUND;) {
        struct iovec parts[2];
        int count;
        size_t wanted = aim(s, waste, parts, &count);
        ssize_t n = sl_line_read(s->line, parts, count);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            sl_endpoint_rail_down(c, rail, "%s",
                                  n == 0 ? "the other end closed it, or has died" : sl_line_why(s->line));
            return;
        }
        s->heard = sl_endpoint_now();
        s->grace = 0;
        account(c, rail, (size_t)n, &parts[0]);
        total += (size_t)n;
        if ((size_t)n < wanted)
            return;
    }
}

/* ---- writing ---- */

int sl_endpoint_encode(sl_endpoint_stream *s, const sl_wire *frame, const void *payload,
                       uint8_t head[SL_STREAM_HEAD]) {
    sl_frame_encode(frame, head);
    return !s->proofs ||
           sl_frame_prove(s->proofs, head, payload, frame->chunk.bytes, head + SL_WIRE_BYTES) == SL_OK;
}

int sl_endpoint_say(sl_endpoint_stream *s, const sl_wire *frame) {
    if (s->control_begin == s->control_end)
        s->control_begin = s->control_end = 0;
    if (s->control_end + s->head_bytes > SL_STREAM_CONTROL) {
        memmove(s->control, s->control + s->control_begin, s->control_end - s->control_begin);
        s->control_end -= s->control_begin;
        s->control_begin = 0;
        if (s->control_end + s->head_bytes > SL_STREAM_CONTROL)
            return 0;
    }
    if (!sl_endpoint_encode(s, frame, NULL, s->control + s->control_end))
        return 0;
    s->control_end += s->head_bytes;
    return 1;
}

static int add_control(sl_endpoint_stream *s, struct iovec *parts, int count) {
    if (s->control_begin == s->control_end)
        return count;
    parts[count] = (struct iovec){.iov_base = s->control + s->control_begin,
                                  .iov_len = s->control_end - s->control_begin};
    return count + 1;
}

/* The payload is in the queue's slot, which lasts as long as the line. */
static int add_chunk(sl_endpoint_stream *s, struct iovec *parts, int count, unsigned *lasting) {
    size_t done = s->chunk_done;
    if (s->chunk_bytes == 0)
        return count;
    size_t head = s->head_bytes, payload = s->chunk_bytes - head;
    if (done < head)
        parts[count++] = (struct iovec){.iov_base = s->chunk_head + done, .iov_len = head - done};
    done = done < head ? 0 : done - head;
    if (done < payload) {
        *lasting |= 1u << count;
        parts[count++] =
            (struct iovec){.iov_base = (char *)(uintptr_t)s->chunk + done, .iov_len = payload - done};
    }
    return count;
}

static size_t wrote_control(sl_endpoint_stream *s, size_t n) {
    size_t part = s->control_end - s->control_begin;
    part = n < part ? n : part;
    s->control_begin += part;
    return n - part;
}

static size_t wrote_chunk(sl_endpoint_stream *s, size_t n) {
    size_t part = s->chunk_bytes - s->chunk_done;
    part = n < part ? n : part;
    s->chunk_done += part;
    if (s->chunk_done == s->chunk_bytes)
        s->chunk_bytes = s->chunk_done = 0;
    return n - part;
}

/* One gathering write. Frames are not split: a chunk already started comes before control frames, a new one
 * after them. 1: something was written. */
static ssize_t write_some(sl_endpoint_stream *s) {
    struct iovec parts[3];
    int torn = s->chunk_done > 0;
    unsigned lasting = 0;
    int count = torn ? add_control(s, parts, add_chunk(s, parts, 0, &lasting))
                     : add_chunk(s, parts, add_control(s, parts, 0), &lasting);
    ssize_t n = sl_line_write(s->line, parts, count, lasting);
    if (n <= 0)
        return n;
    size_t left = (size_t)n;
    left = torn ? wrote_chunk(s, left) : wrote_control(s, left);
    left = torn ? wrote_control(s, left) : wrote_chunk(s, left);
    return n - (ssize_t)left;
}

static void set_blocked(sl_endpoint *c, int rail, int blocked) {
    sl_endpoint_stream *s = &c->rail[rail].stream;
    if (s->blocked == blocked)
        return;
    s->blocked = blocked;
    if (sl_line_await_room(s->line, blocked) != SL_OK)
        sl_endpoint_rail_down(c, rail, "%s", sl_error_text());
}

void sl_endpoint_write(sl_endpoint *c, int rail) {
    sl_endpoint_stream *s = &c->rail[rail].stream;
    for (size_t total = 0; s->socket >= 0;) {
        if (s->chunk_bytes == 0 && c->config.sends && total < ROUND)
            sl_endpoint_next_chunk(c, rail);
        if (s->chunk_bytes == 0 && s->control_begin == s->control_end) {
            set_blocked(c, rail, total >= ROUND); /* more later: the others first */
            return;
        }
        ssize_t n = write_some(s);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            set_blocked(c, rail, 1);
            return;
        }
        if (n < 0) {
            sl_endpoint_rail_down(c, rail, "%s", sl_line_why(s->line));
            return;
        }
        s->spoke = sl_endpoint_now();
        total += (size_t)n;
    }
}
