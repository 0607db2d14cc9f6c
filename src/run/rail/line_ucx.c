/* Lines over UCX: a worker per line with one endpoint, as a stream of bytes. The worker is destroyed with the
 * line, and with it every request that still refers to a slot: nothing of a closed rail outlives it.
 *
 *   MEET    by the socket: length and address of each end's worker
 *   GREET   by UCX: WORD both ways
 *   OPEN    by UCX: frames; by the socket: PARTING before the last frames, and its end */
#include "run/rail/rail_line.h"

#include <unistd.h>

#ifdef SL_UCX
#include "base/clock.h"
#include "base/memory.h"
#include "run/rail/rail_socket.h"
#include "run/rail/ucx.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#define WORD "SLUCX001" /* 8 bytes */
#define WORD_BYTES 8u
#define ADDRESS_MAX 65536u
#define SENDINGS 32u                        /* requests under way */
#define COPY 4096u                          /* bytes of one that are copied */
#define UNDER_WAY_MAX ((size_t)1024 * 1024) /* bytes, so that little is wasted on a rail that dies */
#define ROUNDS 64                           /* of progress before other callbacks run */
#define PARTING (200 * SL_MS)
#define CLOSING (100 * SL_MS)

typedef struct sl_line_ucx sl_line_ucx;

typedef struct sending {
    sl_line_ucx *line;
    size_t bytes; /* 0: free */
    uint8_t copy[COPY];
} sending;

struct sl_line_ucx {
    sl_line line;
    sl_ucx_context *context;
    const sl_ucx *ucx;
    ucp_worker_h worker;
    ucp_ep_h ep;
    int event;           /* -1: not watched */
    sl_loop_timer timer; /* 0: none */
    enum { MEET, GREET, OPEN } state;
    uint8_t *out, *in; /* addresses, with their length in front */
    size_t out_bytes, out_done, in_bytes, in_done;
    uint8_t word[WORD_BYTES];
    size_t word_done;
    char *data; /* of UCX; what has come and was not read */
    size_t data_bytes, data_used;
    int drained;         /* nothing has come since the last look */
    ucs_status_t failed; /* of endpoint or a request */
    int ended, parting;  /* the other's end of the socket */
    int wanted;          /* room */
    size_t under_way;
    sending sending[SENDINGS];
};

static sl_line_ucx *of(sl_line *line) {
    return (sl_line_ucx *)(void *)line;
}

static ssize_t fail(sl_line_ucx *u, const char *why) {
    u->line.why = why;
    errno = EIO;
    return -1;
}

static void note_failure(sl_line_ucx *u, ucs_status_t status) {
    if (u->failed == UCS_OK)
        u->failed = status;
}

/* ---- progress */

static void progress(sl_line_ucx *u) {
    for (int i = 0; i < ROUNDS && u->ucx->ucp_worker_progress(u->worker); i++)
        u->drained = 0;
}

static void on_failure(void *object, ucp_ep_h ep, ucs_status_t status) {
    (void)ep;
    note_failure(object, status);
}

static void end_sending(sending *s, ucs_status_t status) {
    s->line->under_way -= s->bytes;
    s->bytes = 0;
    if (status != UCS_OK && status != UCS_ERR_CANCELED)
        note_failure(s->line, status);
}

static void on_sent(void *request, ucs_status_t status, void *object) {
    sending *s = object;
    s->line->ucx->ucp_request_free(request);
    end_sending(s, status);
}

static sending *free_sending(sl_line_ucx *u) {
    if (u->under_way >= UNDER_WAY_MAX)
        return NULL;
    for (unsigned i = 0; i < SENDINGS; i++)
        if (u->sending[i].bytes == 0)
            return &u->sending[i];
    return NULL;
}

static void send_from(sl_line_ucx *u, sending *s, const void *data, size_t bytes) {
    ucp_request_param_t how = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                               .cb.send = on_sent,
                               .user_data = s};
    s->bytes = bytes;
    u->under_way += bytes;
    ucs_status_ptr_t request = u->ucx->ucp_stream_send_nbx(u->ep, data, bytes, &how);
    if (!UCS_PTR_IS_PTR(request))
        end_sending(s, UCS_PTR_STATUS(request));
}

/* 1: `data` holds something. */
static int has_data(sl_line_ucx *u) {
    if (u->data)
        return 1;
    ucs_status_ptr_t got = u->ucx->ucp_stream_recv_data_nb(u->ep, &u->data_bytes);
    if (got == NULL) {
        progress(u);
        got = u->ucx->ucp_stream_recv_data_nb(u->ep, &u->data_bytes);
    }
    if (got == NULL)
        u->drained = 1;
    else if (UCS_PTR_IS_ERR(got))
        note_failure(u, UCS_PTR_STATUS(got));
    else {
        u->data = got;
        u->data_used = 0;
        u->drained = 0;
    }
    return u->data != NULL;
}

static void drop_data(sl_line_ucx *u) {
    if (u->data)
        u->ucx->ucp_stream_data_release(u->ep, u->data);
    u->data = NULL;
}

/* Bytes that have come, up to `room`. */
static size_t take(sl_line_ucx *u, char *to, size_t room) {
    size_t done = 0;
    while (done < room && has_data(u)) {
        size_t left = u->data_bytes - u->data_used, n = left < room - done ? left : room - done;
        memcpy(to + done, u->data + u->data_used, n);
        u->data_used += n;
        done += n;
        if (u->data_used == u->data_bytes)
            drop_data(u);
    }
    return done;
}

/* ---- introduction */

static const char *hear_address(sl_line_ucx *u) {
    for (;;) {
        uint32_t bytes = 0;
        if (u->in_done >= sizeof bytes) {
            memcpy(&bytes, u->in, sizeof bytes);
            bytes = le32toh(bytes);
            if (bytes == 0 || bytes > ADDRESS_MAX)
                return "it speaks another protocol instead of UCX";
        }
        u->in_bytes = sizeof bytes + bytes;
        if (u->in_done == u->in_bytes && bytes)
            return NULL;
        ssize_t n = recv(u->line.socket, u->in + u->in_done, u->in_bytes - u->in_done, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return NULL;
        if (n <= 0)
            return "it closed the connection before UCX had met";
        u->in_done += (size_t)n;
    }
}

static const char *say_address(sl_line_ucx *u) {
    while (u->out_done < u->out_bytes) {
        ssize_t n = send(u->line.socket, u->out + u->out_done, u->out_bytes - u->out_done,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return sl_loop_watch_writable(u->line.loop, u->line.socket, 1) == SL_OK
                       ? NULL
                       : "it cannot be waited for";
        if (n < 0)
            return "the connection broke before UCX had met";
        u->out_done += (size_t)n;
    }
    sl_loop_watch_writable(u->line.loop, u->line.socket, 0);
    return NULL;
}

static const char *meet(sl_line_ucx *u) {
    const char *wrong = say_address(u);
    if (!wrong)
        wrong = hear_address(u);
    if (wrong || u->out_done < u->out_bytes || u->in_done <= sizeof(uint32_t) || u->in_done < u->in_bytes)
        return wrong;
    ucp_ep_params_t there = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                           UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                           UCP_EP_PARAM_FIELD_ERR_HANDLER,
                             .address = (const ucp_address_t *)(const void *)(u->in + sizeof(uint32_t)),
                             .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                             .err_handler = {.cb = on_failure, .arg = u}};
    ucs_status_t status = u->ucx->ucp_ep_create(u->worker, &there, &u->ep);
    if (status != UCS_OK)
        return u->ucx->ucs_status_string(status);
    u->state = GREET;
    sending *s = free_sending(u);
    memcpy(s->copy, WORD, WORD_BYTES);
    send_from(u, s, s->copy, WORD_BYTES);
    return NULL;
}

/* The socket shows only that the other end is there. */
static void hear_socket(sl_line_ucx *u) {
    char words[16];
    ssize_t n = recv(u->line.socket, words, sizeof words, MSG_DONTWAIT);
    if (n > 0)
        u->parting = 1;
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        u->ended = 1;
}

static const char *greet(sl_line_ucx *u) {
    u->word_done += take(u, (char *)u->word + u->word_done, WORD_BYTES - u->word_done);
    if (u->word_done == WORD_BYTES) {
        u->state = OPEN;
        return memcmp(u->word, WORD, WORD_BYTES) == 0 ? NULL : "it says something else over UCX";
    }
    if (u->failed != UCS_OK)
        return u->ucx->ucs_status_string(u->failed);
    hear_socket(u);
    return u->ended ? "it closed the connection while UCX met" : NULL;
}

static int ucx_ready(sl_line *line) {
    sl_line_ucx *u = of(line);
    const char *wrong = NULL;
    if (u->state == MEET)
        wrong = meet(u);
    if (!wrong && u->state == GREET)
        wrong = greet(u);
    if (!wrong)
        return u->state == OPEN;
    fail(u, wrong);
    return -1;
}

/* ---- reading and writing */

static ssize_t ucx_read(sl_line *line, const struct iovec *parts, int count) {
    sl_line_ucx *u = of(line);
    size_t done = 0;
    hear_socket(u); /* before what it may follow */
    for (int i = 0; i < count; i++) {
        size_t n = take(u, parts[i].iov_base, parts[i].iov_len);
        done += n;
        if (n < parts[i].iov_len)
            break;
    }
    if (done)
        return (ssize_t)done;
    if (u->failed != UCS_OK)
        return fail(u, u->ucx->ucs_status_string(u->failed));
    if (u->ended)
        return 0;
    errno = EAGAIN;
    return -1;
}

/* Copies the parts from index `from` that are not lasting, as many as a request holds. */
static size_t copy_parts(sending *s, const struct iovec *parts, int count, int from, unsigned lasting) {
    size_t used = 0;
    for (int i = from; i < count && !(lasting >> i & 1) && used < COPY; i++) {
        size_t n = parts[i].iov_len < COPY - used ? parts[i].iov_len : COPY - used;
        memcpy(s->copy + used, parts[i].iov_base, n);
        used += n;
    }
    return used;
}

static ssize_t ucx_write(sl_line *line, const struct iovec *parts, int count, unsigned lasting) {
    sl_line_ucx *u = of(line);
    size_t done = 0, skipped = 0; /* of the part at i */
    for (int i = 0; i < count && u->failed == UCS_OK;) {
        sending *s = free_sending(u);
        if (!s)
            break;
        struct iovec rest[4] = {0};
        int n = 0;
        for (int k = i; k < count; k++)
            rest[n++] = parts[k];
        rest[0].iov_base = (char *)rest[0].iov_base + skipped;
        rest[0].iov_len -= skipped;
        size_t bytes = rest[0].iov_len;
        if (lasting >> i & 1)
            send_from(u, s, rest[0].iov_base, bytes);
        else {
            bytes = copy_parts(s, rest, n, 0, lasting >> i);
            send_from(u, s, s->copy, bytes);
        }
        done += bytes;
        for (skipped += bytes; i < count && skipped >= parts[i].iov_len; i++)
            skipped -= parts[i].iov_len;
    }
    if (u->failed != UCS_OK)
        return fail(u, u->ucx->ucs_status_string(u->failed));
    if (done)
        return (ssize_t)done;
    errno = EAGAIN;
    return -1;
}

static sl_status ucx_await_room(sl_line *line, int wanted) {
    of(line)->wanted = wanted;
    return SL_OK;
}

/* ---- sleeping */

static sl_status on_file(void *context, int file) {
    sl_line_ucx *u = context;
    (void)file;
    u->line.call(u->line.object, &u->line);
    return SL_OK;
}

static sl_status again(void *context) {
    sl_line_ucx *u = context;
    u->timer = 0;
    u->line.call(u->line.object, &u->line);
    return SL_OK;
}

/* UCX signals its event only after it was armed, and it can be armed only when no events are pending. */
static void ucx_settle(sl_line *line) {
    sl_line_ucx *u = of(line);
    if (u->timer)
        return;
    int moves = u->failed != UCS_OK || (u->ep && (!u->drained || u->data)) ||
                (u->wanted && free_sending(u) != NULL) || u->ucx->ucp_worker_arm(u->worker) != UCS_OK;
    if (moves && sl_loop_at(line->loop, sl_now(), again, u, &u->timer) != SL_OK)
        note_failure(u, UCS_ERR_NO_RESOURCE); /* the next beat, or silence, finds it */
    if (moves && !u->ep)
        progress(u);
}

/* ---- the end */

static void ucx_part(sl_line *line) {
    sl_line_ucx *u = of(line);
    sl_time until = sl_now() + PARTING, now;
    if (u->state != OPEN || send(line->socket, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
        return;
    while (!u->ended && !u->parting && u->failed == UCS_OK && (now = sl_now()) < until) {
        struct pollfd files[2] = {{.fd = line->socket, .events = POLLIN}, {.fd = u->event, .events = POLLIN}};
        while (has_data(u))
            drop_data(u);
        if (u->ucx->ucp_worker_arm(u->worker) == UCS_OK)
            poll(files, 2, (int)((until - now) / SL_MS) + 1);
        hear_socket(u);
    }
}

/* By force: whatever is under way is cancelled. */
static void close_endpoint(sl_line_ucx *u) {
    ucp_request_param_t how = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    sl_time until = sl_now() + CLOSING;
    drop_data(u);
    ucs_status_ptr_t request = u->ucx->ucp_ep_close_nbx(u->ep, &how);
    int waits = UCS_PTR_IS_PTR(request);
    while ((waits && u->ucx->ucp_request_check_status(request) == UCS_INPROGRESS) || u->under_way) {
        u->ucx->ucp_worker_progress(u->worker);
        if (sl_now() > until)
            break; /* the worker's end is theirs as well */
    }
    if (waits)
        u->ucx->ucp_request_free(request);
}

static void ucx_close(sl_line *line) {
    sl_line_ucx *u = of(line);
    sl_loop_forget(line->loop, u->timer);
    if (u->event >= 0)
        sl_loop_unwatch(line->loop, u->event);
    sl_loop_unwatch(line->loop, line->socket);
    if (u->ep)
        close_endpoint(u);
    if (u->worker)
        u->ucx->ucp_worker_destroy(u->worker);
    if (u->context)
        sl_ucx_release(u->context);
    shutdown(line->socket, SHUT_RDWR);
    close(line->socket);
    SL_FREE(u->out, u->in, u);
}

static const sl_line_io ucx_io = {.ready = ucx_ready,
                                  .read = ucx_read,
                                  .write = ucx_write,
                                  .await_room = ucx_await_room,
                                  .settle = ucx_settle,
                                  .part = ucx_part,
                                  .close = ucx_close};

static sl_status keep_address(sl_line_ucx *u, const ucp_address_t *address, size_t bytes) {
    uint32_t length = htole32((uint32_t)bytes);
    if (bytes == 0 || bytes > ADDRESS_MAX)
        return sl_error(SL_ESYS, "UCX: its address has %zu bytes", bytes);
    u->out_bytes = sizeof length + bytes;
    SL_TRY(sl_alloc(&u->out, 1, u->out_bytes));
    memcpy(u->out, &length, sizeof length);
    memcpy(u->out + sizeof length, address, bytes);
    return sl_alloc(&u->in, 1, sizeof length + ADDRESS_MAX);
}

static sl_status say(const sl_line_ucx *u, const char *what, ucs_status_t status) {
    return sl_error(SL_ESYS, "UCX: %s: %s", what, u->ucx->ucs_status_string(status));
}

static sl_status make_worker(sl_line_ucx *u) {
    ucp_worker_params_t wanted = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_address_t *address;
    size_t bytes;
    int event;
    ucs_status_t got = u->ucx->ucp_worker_create(u->context->context, &wanted, &u->worker);
    if (got != UCS_OK) {
        u->worker = NULL;
        return say(u, "no worker", got);
    }
    got = u->ucx->ucp_worker_get_efd(u->worker, &event);
    if (got != UCS_OK)
        return say(u, "it cannot be waited for", got);
    SL_TRY(sl_loop_watch(u->line.loop, event, on_file, u));
    u->event = event;
    got = u->ucx->ucp_worker_get_address(u->worker, &address, &bytes);
    if (got != UCS_OK)
        return say(u, "no address", got);
    sl_status status = keep_address(u, address, bytes);
    u->ucx->ucp_worker_release_address(u->worker, address);
    return status;
}

static sl_status start(sl_line_ucx *u) {
    SL_TRY(sl_ucx_obtain(sl_rail_interface(u->line.socket), &u->context));
    u->ucx = u->context->ucx;
    SL_TRY(make_worker(u));
    for (unsigned i = 0; i < SENDINGS; i++)
        u->sending[i].line = u;
    return sl_loop_watch(u->line.loop, u->line.socket, on_file, u);
}

sl_status sl_line_open_ucx(sl_loop *loop, int socket, sl_line_call call, void *object, sl_line **line) {
    sl_line_ucx *u;
    sl_status status;
    SL_TRY_GOTO(err_socket, status, sl_alloc(&u, 1, sizeof *u));
    u->line = (sl_line){.io = &ucx_io, .loop = loop, .socket = socket, .call = call, .object = object};
    u->event = -1;
    SL_TRY_GOTO(err_line, status, start(u));
    *line = &u->line;
    return SL_OK;
err_line:
    ucx_close(&u->line);
    return status;
err_socket:
    close(socket);
    return status;
}

sl_status sl_line_check(sl_rail_kind kind) {
    const sl_ucx *ucx;
    return kind == SL_RAIL_UCX ? sl_ucx_load(&ucx) : SL_OK;
}

#else /* built without */

sl_status sl_line_check(sl_rail_kind kind) {
    if (kind != SL_RAIL_UCX)
        return SL_OK;
    return sl_error(SL_EINVAL, "a rail is to go over UCX, but this slackline was built without it "
                               "(it needs libucx-dev when it is built)");
}

sl_status sl_line_open_ucx(sl_loop *loop, int socket, sl_line_call call, void *object, sl_line **line) {
    (void)loop, (void)call, (void)object, (void)line;
    close(socket);
    return sl_line_check(SL_RAIL_UCX);
}

#endif
