/* libslackline_transport: two or three ranks, as threads or processes, with real delegates. */
#include "check.h"

#include "base/clock.h"
#include "base/memory.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <slackline/transport.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 3
static const unsigned char key[32] = {7, 8, 9};
static const int64_t second = 1000000000;

#define works(call)                                                                                          \
    do {                                                                                                     \
        if ((call) != SLACKLINE_TRANSPORT_OK)                                                                \
            fail_msg("%s: %s", #call, slackline_transport_error());                                          \
    } while (0)

#define fails(call, status, part)                                                                            \
    do {                                                                                                     \
        assert_int_equal((call), (status));                                                                  \
        assert_says(slackline_transport_error(), (part));                                                    \
    } while (0)

static slackline_transport_options options_of(int rank, int ranks) {
    slackline_transport_options options;
    slackline_transport_defaults(&options);
    options.rank = rank;
    options.ranks = ranks;
    options.key = key;
    options.program = SL_DELEGATE;
    return options;
}

/* Gathers the blocks and starts all, each in its own thread, because a start waits for the others. */
typedef struct opening {
    slackline_transport *transport;
    const char *blocks;
    slackline_transport_status status;
    char text[256];
} opening;

static void *open_one(void *object) {
    opening *o = object;
    o->status = slackline_transport_start(o->transport, o->blocks, 20 * second);
    snprintf(o->text, sizeof o->text, "%s", slackline_transport_error());
    return NULL;
}

static void open_all(const slackline_transport_options *options, int ranks, slackline_transport **t) {
    pthread_t thread[RANKS];
    opening o[RANKS];
    char *blocks = NULL;
    for (int r = 0; r < ranks; r++) {
        size_t bytes = 0;
        works(slackline_transport_prepare(&options[r], &t[r]));
        const void *block = slackline_transport_block(t[r], &bytes);
        blocks = realloc(blocks, bytes * (size_t)ranks);
        memcpy(blocks + bytes * (size_t)r, block, bytes);
    }
    for (int r = 0; r < ranks; r++) {
        o[r] = (opening){.transport = t[r], .blocks = blocks};
        assert_int_equal(pthread_create(&thread[r], NULL, open_one, &o[r]), 0);
    }
    for (int r = 0; r < ranks; r++) {
        pthread_join(thread[r], NULL);
        if (o[r].status != SLACKLINE_TRANSPORT_OK)
            fail_msg("rank %d: %s", r, o[r].text);
    }
    free(blocks);
}

static void close_all(slackline_transport **t, int ranks) {
    for (int r = 0; r < ranks; r++)
        slackline_transport_close(t[r], 5 * second);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no delegate is left */
    assert_int_equal(errno, ECHILD);
}

static unsigned char byte_of(unsigned seed, size_t at) {
    return (unsigned char)((at * 2654435761u + seed * 40503u) >> 11);
}

static void fill(unsigned char *data, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++)
        data[i] = byte_of(seed, i);
}

static void check_bytes(const unsigned char *data, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != byte_of(seed, i))
            fail_msg("message %u: byte %zu of %zu is wrong", seed, i, bytes);
}

/* ---- messages ---- */

#define MESSAGES 120
#define LARGEST 300000

typedef struct flow { /* of one direction and channel */
    size_t bytes[MESSAGES];
    unsigned char *in[MESSAGES], *out[MESSAGES];
    slackline_message *received[MESSAGES], *sent[MESSAGES];
} flow;

static size_t draw_size(unsigned *seed, size_t piece) {
    switch (rand_r(seed) % 6) {
    case 0:
        return 0;
    case 1:
        return 1 + (size_t)rand_r(seed) % 64;
    case 2: /* around the ends of pieces */
        return piece * (size_t)(rand_r(seed) % 4 + 1) + (size_t)(rand_r(seed) % 3) - 1;
    default:
        return (size_t)rand_r(seed) % LARGEST;
    }
}

static void post_flow(slackline_transport **t, flow *f, int from, int to, int channel, unsigned *seed,
                      size_t piece) {
    for (int i = 0; i < MESSAGES; i++) {
        f->bytes[i] = draw_size(seed, piece);
        f->in[i] = malloc(f->bytes[i] + 1);
        f->out[i] = malloc(f->bytes[i] + 1);
        f->in[i][f->bytes[i]] = 99;
        fill(f->out[i], f->bytes[i], (unsigned)(i + 1000 * channel));
    }
    for (int i = 0; i < MESSAGES; i++) {
        int late = rand_r(seed) % 2; /* the receive is posted after the send */
        if (late)
            works(slackline_transport_send(t[from], to, channel, f->out[i], f->bytes[i], &f->sent[i]));
        works(slackline_transport_receive(t[to], from, channel, f->in[i], f->bytes[i], &f->received[i]));
        if (!late)
            works(slackline_transport_send(t[from], to, channel, f->out[i], f->bytes[i], &f->sent[i]));
    }
}

static void await_flow(flow *f, int channel) {
    for (int i = MESSAGES - 1; i >= 0; i--) {
        works(slackline_transport_wait(f->received[i], 60 * second));
        works(slackline_transport_wait(f->sent[i], 60 * second));
        assert_true(slackline_transport_completed(f->received[i]) > 0);
        check_bytes(f->in[i], f->bytes[i], (unsigned)(i + 1000 * channel));
        assert_int_equal(f->in[i][f->bytes[i]], 99);
        slackline_transport_release(f->received[i]);
        slackline_transport_release(f->sent[i]);
        free(f->in[i]);
        free(f->out[i]);
    }
}

static unsigned a_seed(void) {
    const char *given = getenv("SL_SEED");
    unsigned seed = given ? (unsigned)atoi(given) : (unsigned)getpid();
    printf("SL_SEED=%u\n", seed);
    return seed;
}

/* Kills `kills` delegates of the transports while messages are under way. */
static void kill_some(slackline_transport **t, int ranks, int kills, unsigned *seed) {
    int pids[64];
    for (int i = 0; i < kills; i++) {
        int count = slackline_transport_delegates(t[rand_r(seed) % ranks], pids, 64);
        if (count > 0)
            kill(pids[rand_r(seed) % (count < 64 ? count : 64)], SIGKILL);
        usleep(4000);
    }
}

static void exchange(const slackline_transport_options *options, int ranks, int kills) {
    slackline_transport *t[RANKS];
    unsigned seed = a_seed();
    int flows = 0, channels = options[0].channels;
    flow *f = calloc((size_t)(ranks * ranks * channels), sizeof *f);
    open_all(options, ranks, t);
    for (int from = 0; from < ranks; from++)
        for (int to = 0; to < ranks; to++)
            for (int c = 0; c < channels && to != from; c++)
                post_flow(t, &f[flows++], from, to, c, &seed, options[0].piece_bytes);
    kill_some(t, ranks, kills, &seed);
    flows = 0;
    for (int from = 0; from < ranks; from++)
        for (int to = 0; to < ranks; to++)
            for (int c = 0; c < channels && to != from; c++)
                await_flow(&f[flows++], c);
    free(f);
    close_all(t, ranks);
}

static void messages_of_any_size_arrive_with_their_bytes_and_in_order(void **state) {
    (void)state;
    slackline_transport_options options[RANKS];
    for (int r = 0; r < RANKS; r++) {
        options[r] = options_of(r, RANKS);
        options[r].channels = 2;
        options[r].delegates = 2;
        options[r].piece_bytes = 16384;
        options[r].slots = 3;
    }
    exchange(options, RANKS, 0);
}

static void between_hosts_over_two_rails_too(void **state) {
    static const char *const hosts[] = {"a", "b"}, *const rails[] = {"127.0.0.1", "127.0.0.2"};
    (void)state;
    slackline_transport_options options[2];
    for (int r = 0; r < 2; r++) {
        options[r] = options_of(r, 2);
        options[r].hosts = hosts;
        options[r].rails = rails;
        options[r].rail_count = 2;
        options[r].piece_bytes = 40000;
    }
    exchange(options, 2, 0);
}

static void killed_delegates_lose_and_double_nothing(void **state) {
    static const char *const hosts[] = {"a", "a", "b"}, *const rails[] = {"127.0.0.1"};
    (void)state;
    slackline_transport_options options[RANKS];
    for (int r = 0; r < RANKS; r++) {
        options[r] = options_of(r, RANKS);
        options[r].hosts = hosts;
        options[r].rails = rails;
        options[r].rail_count = 1;
        options[r].delegates = 2;
        options[r].piece_bytes = 8192;
        options[r].slots = 4;
    }
    exchange(options, RANKS, 15);
}

/* ---- events ---- */

static void a_killed_delegate_is_reported_as_replaced(void **state) {
    (void)state;
    slackline_transport_options options[2] = {options_of(0, 2), options_of(1, 2)};
    slackline_transport_event event;
    slackline_transport *t[2];
    int pids[2], replaced = 0;
    open_all(options, 2, t);
    assert_int_equal(slackline_transport_delegates(t[0], pids, 2), 2);
    assert_int_equal(slackline_transport_delegates(t[0], NULL, 0), 2);
    kill(pids[0], SIGKILL);
    for (int i = 0; i < 5000 && !replaced; i++, usleep(1000))
        while (slackline_transport_next_event(t[0], &event))
            if (event.happening == SLACKLINE_TRANSPORT_REPLACED) {
                replaced = 1;
                assert_says(event.text, "signal 9");
                assert_int_equal(event.from + event.to, 1);
            }
    assert_true(replaced);
    close_all(t, 2);
}

/* ---- links that are lost ---- */

static void another_size_than_expected_loses_the_link(void **state) {
    static const size_t sent[] = {100, 100, 50000, 16384}, expected[] = {99, 101, 16384, 50000};
    (void)state;
    for (int i = 0; i < 4; i++) {
        slackline_transport_options options[2] = {options_of(0, 2), options_of(1, 2)};
        slackline_transport *t[2];
        slackline_message *in, *next;
        static char out[50000], buffer[50000];
        options[0].piece_bytes = options[1].piece_bytes = 16384;
        open_all(options, 2, t);
        works(slackline_transport_receive(t[1], 0, 0, buffer, expected[i], &in));
        works(slackline_transport_receive(t[1], 0, 0, buffer, 1, &next));
        works(slackline_transport_send(t[0], 1, 0, out, sent[i], NULL));
        fails(slackline_transport_wait(in, 10 * second), SLACKLINE_TRANSPORT_LOST, "link 0 -> 1");
        fails(slackline_transport_wait(in, 0), SLACKLINE_TRANSPORT_LOST, "bytes expected");
        fails(slackline_transport_wait(next, 10 * second), SLACKLINE_TRANSPORT_LOST, "link 0 -> 1");
        fails(slackline_transport_send(t[1], 0, 0, out, 1, NULL), SLACKLINE_TRANSPORT_LOST, "link 0 -> 1");
        slackline_transport_release(in);
        slackline_transport_release(next);
        slackline_transport_close(t[0], 0);
        slackline_transport_close(t[1], 0);
    }
}

static void a_peer_that_closes_ends_the_waits_of_the_other(void **state) {
    (void)state;
    slackline_transport_options options[2] = {options_of(0, 2), options_of(1, 2)};
    slackline_transport *t[2];
    slackline_message *first, *second_one, *never;
    static char out[100000], in[100000], more[10];
    open_all(options, 2, t);
    fill((unsigned char *)out, sizeof out, 5);
    works(slackline_transport_receive(t[1], 0, 0, in, sizeof in, &first));
    works(slackline_transport_receive(t[1], 0, 0, more, sizeof more, &second_one));
    works(slackline_transport_send(t[0], 1, 0, out, sizeof out, NULL)); /* closing waits until it is there */
    slackline_transport_close(t[0], 5 * second);
    works(slackline_transport_wait(first, 10 * second));
    check_bytes((unsigned char *)in, sizeof in, 5);
    fails(slackline_transport_wait(second_one, 10 * second), SLACKLINE_TRANSPORT_LOST, "link 1 -> 0");
    works(slackline_transport_receive(t[1], 0, 0, more, sizeof more, &never));
    fails(slackline_transport_wait(never, 10 * second), SLACKLINE_TRANSPORT_LOST, "link 1 -> 0");
    slackline_transport_close(t[1], 5 * second); /* returns at once: nobody is there to wait for */
    fails(slackline_transport_wait(never, 0), SLACKLINE_TRANSPORT_LOST, "link 1 -> 0");
    slackline_transport_release(first);
    slackline_transport_release(second_one);
    slackline_transport_release(never);
}

static void closing_ends_the_own_messages(void **state) {
    (void)state;
    slackline_transport_options options[2] = {options_of(0, 2), options_of(1, 2)};
    slackline_transport *t[2];
    slackline_message *m;
    char buffer[8];
    open_all(options, 2, t);
    works(slackline_transport_receive(t[0], 1, 0, buffer, sizeof buffer, &m));
    fails(slackline_transport_wait(m, 0), SLACKLINE_TRANSPORT_PENDING, "under way");
    fails(slackline_transport_wait(m, 1000000), SLACKLINE_TRANSPORT_PENDING, "under way");
    close_all(t, 2);
    fails(slackline_transport_wait(m, -1), SLACKLINE_TRANSPORT_LOST, "closed");
    slackline_transport_release(m);
}

/* ---- wrong requests ---- */

#define refused(change, status, part)                                                                        \
    do {                                                                                                     \
        slackline_transport_options o = options_of(0, 2);                                                    \
        change;                                                                                              \
        fails(slackline_transport_prepare(&o, &t), (status), (part));                                        \
        assert_null(t);                                                                                      \
    } while (0)

static void wrong_options_are_refused_with_a_reason(void **state) {
    static const char *const no_rail[] = {"nowhere0"}, *const hosts[] = {"a", "b"},
                             *const no_host[] = {"a", NULL};
    slackline_transport *t = NULL;
    (void)state;
    fails(slackline_transport_prepare(NULL, &t), SLACKLINE_TRANSPORT_INVALID, "options");
    refused(o.key = NULL, SLACKLINE_TRANSPORT_INVALID, "key");
    refused(o.ranks = 1, SLACKLINE_TRANSPORT_INVALID, "ranks");
    refused(o.rank = 2, SLACKLINE_TRANSPORT_INVALID, "rank 2");
    refused(o.rank = -1, SLACKLINE_TRANSPORT_INVALID, "rank -1");
    refused(o.channels = 0, SLACKLINE_TRANSPORT_INVALID, "channels");
    refused(o.channels = 3; o.delegates = 3, SLACKLINE_TRANSPORT_INVALID, "channels");
    refused(o.piece_bytes = 1, SLACKLINE_TRANSPORT_INVALID, "pieces");
    refused(o.piece_bytes = SIZE_MAX, SLACKLINE_TRANSPORT_INVALID, "pieces");
    refused(o.slots = 0, SLACKLINE_TRANSPORT_INVALID, "slots");
    refused(o.silence_ns = 0, SLACKLINE_TRANSPORT_INVALID, "silence");
    refused(o.outage_ns = 1, SLACKLINE_TRANSPORT_INVALID, "silence");
    refused(o.rail_count = 9; o.rails = no_rail, SLACKLINE_TRANSPORT_INVALID, "rails");
    refused(o.rail_count = 1; o.rails = NULL, SLACKLINE_TRANSPORT_INVALID, "rails");
    refused(o.hosts = no_host, SLACKLINE_TRANSPORT_INVALID, "hosts[1]");
    refused(o.rail_count = 1; o.rails = no_rail; o.hosts = hosts, SLACKLINE_TRANSPORT_INVALID, "nowhere0");
    refused(o.program = "/nowhere/slackline-delegate", SLACKLINE_TRANSPORT_SYSTEM,
            "/nowhere/slackline-delegate");
    refused(o.program = "/dev/null", SLACKLINE_TRANSPORT_SYSTEM, "/dev/null");
}

static void a_program_that_is_no_delegate_is_an_error_in_time(void **state) {
    (void)state;
    slackline_transport_options o = options_of(0, 2);
    slackline_transport *t;
    size_t bytes;
    o.program = "/bin/false";
    works(slackline_transport_prepare(&o, &t));
    const void *block = slackline_transport_block(t, &bytes);
    char *blocks = calloc(2, bytes);
    memcpy(blocks, block, bytes);
    fails(slackline_transport_start(t, blocks, second), SLACKLINE_TRANSPORT_LOST, "rank 1");
    fails(slackline_transport_start(t, blocks, second), SLACKLINE_TRANSPORT_INVALID, "before");
    slackline_transport_close(t, second);
    free(blocks);
}

static void wrong_messages_are_refused_with_a_reason(void **state) {
    (void)state;
    slackline_transport_options options[2] = {options_of(0, 2), options_of(1, 2)};
    slackline_transport *t[2];
    slackline_message *m;
    char data[4];
    works(slackline_transport_prepare(&options[0], &t[0]));
    fails(slackline_transport_send(t[0], 1, 0, data, 4, &m), SLACKLINE_TRANSPORT_INVALID, "not started");
    slackline_transport_close(t[0], second);
    open_all(options, 2, t);
    fails(slackline_transport_send(NULL, 1, 0, data, 4, &m), SLACKLINE_TRANSPORT_INVALID, "NULL");
    fails(slackline_transport_send(t[0], 0, 0, data, 4, &m), SLACKLINE_TRANSPORT_INVALID, "no link");
    fails(slackline_transport_send(t[0], 2, 0, data, 4, &m), SLACKLINE_TRANSPORT_INVALID, "no link");
    fails(slackline_transport_receive(t[0], -1, 0, data, 4, &m), SLACKLINE_TRANSPORT_INVALID, "no link");
    fails(slackline_transport_receive(t[0], 1, 1, data, 4, &m), SLACKLINE_TRANSPORT_INVALID, "channel 1");
    fails(slackline_transport_receive(t[0], 1, 0, NULL, 4, &m), SLACKLINE_TRANSPORT_INVALID, "NULL");
    fails(slackline_transport_wait(NULL, 0), SLACKLINE_TRANSPORT_INVALID, "NULL");
    assert_null(m);
    slackline_transport_release(NULL);
    slackline_transport_close(NULL, 0);
    close_all(t, 2);
}

static void a_forked_child_changes_nothing(void **state) {
    (void)state;
    slackline_transport_options options[2] = {options_of(0, 2), options_of(1, 2)};
    slackline_transport *t[2];
    slackline_message *in;
    char data[4] = "abc", got[4];
    int status;
    open_all(options, 2, t);
    pid_t child = fork();
    if (child == 0) {
        int refused_ = slackline_transport_send(t[0], 1, 0, data, 4, NULL) == SLACKLINE_TRANSPORT_INVALID &&
                       strstr(slackline_transport_error(), "forked") != NULL;
        slackline_transport_close(t[0], second);
        slackline_transport_close(t[1], second);
        _exit(refused_ ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    works(slackline_transport_receive(t[1], 0, 0, got, 4, &in));
    works(slackline_transport_send(t[0], 1, 0, data, 4, NULL));
    works(slackline_transport_wait(in, 10 * second));
    assert_string_equal(got, "abc");
    slackline_transport_release(in);
    close_all(t, 2);
}

/* ---- a rank that is killed ---- */

static void a_killed_peer_ends_the_waits_and_leaves_no_process(void **state) {
    (void)state;
    slackline_transport_options options[2] = {options_of(0, 2), options_of(1, 2)};
    slackline_transport *t;
    slackline_message *in;
    size_t bytes;
    int to_parent[2], to_child[2], pids[8] = {0};
    char data[4];
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    assert_int_equal(pipe(to_parent) | pipe(to_child), 0);
    works(slackline_transport_prepare(&options[0], &t));
    const void *block = slackline_transport_block(t, &bytes);
    char *blocks = calloc(2, bytes);
    memcpy(blocks, block, bytes);
    pid_t child = fork();
    if (child == 0) {
        slackline_transport *own;
        size_t size;
        if (slackline_transport_prepare(&options[1], &own) != SLACKLINE_TRANSPORT_OK)
            _exit(1);
        memcpy(blocks + bytes, slackline_transport_block(own, &size), bytes);
        if (write(to_parent[1], blocks + bytes, bytes) != (ssize_t)bytes ||
            slackline_transport_start(own, blocks, 20 * second) != SLACKLINE_TRANSPORT_OK)
            _exit(2);
        slackline_transport_delegates(own, pids, 8);
        if (write(to_parent[1], pids, sizeof pids) != (ssize_t)sizeof pids)
            _exit(3);
        pause();
        _exit(0);
    }
    assert_int_equal(read(to_parent[0], blocks + bytes, bytes), (ssize_t)bytes);
    works(slackline_transport_start(t, blocks, 20 * second));
    assert_int_equal(read(to_parent[0], pids, sizeof pids), (ssize_t)sizeof pids);
    works(slackline_transport_receive(t, 1, 0, data, sizeof data, &in));
    kill(child, SIGKILL);
    fails(slackline_transport_wait(in, 20 * second), SLACKLINE_TRANSPORT_LOST, "link 0 -> 1");
    assert_int_equal(waitpid(child, NULL, 0), child);
    for (int i = 0; i < 2; i++) { /* its delegates are ours to reap now */
        assert_true(pids[i] > 0);
        assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
    }
    slackline_transport_release(in);
    free(blocks);
    close_all(&t, 1);
}

static void a_host_is_told_by_its_text(void **state) {
    char one[80], two[80];
    (void)state;
    works(slackline_transport_host(one, sizeof one));
    works(slackline_transport_host(two, sizeof two));
    assert_string_equal(one, two);
    assert_true(strlen(one) > 36);
    fails(slackline_transport_host(one, 8), SLACKLINE_TRANSPORT_INVALID, "fit");
    fails(slackline_transport_host(NULL, 8), SLACKLINE_TRANSPORT_INVALID, "NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_any_size_arrive_with_their_bytes_and_in_order),
        cmocka_unit_test(between_hosts_over_two_rails_too),
        cmocka_unit_test(killed_delegates_lose_and_double_nothing),
        cmocka_unit_test(a_killed_delegate_is_reported_as_replaced),
        cmocka_unit_test(another_size_than_expected_loses_the_link),
        cmocka_unit_test(a_peer_that_closes_ends_the_waits_of_the_other),
        cmocka_unit_test(closing_ends_the_own_messages),
        cmocka_unit_test(wrong_options_are_refused_with_a_reason),
        cmocka_unit_test(a_program_that_is_no_delegate_is_an_error_in_time),
        cmocka_unit_test(wrong_messages_are_refused_with_a_reason),
        cmocka_unit_test(a_forked_child_changes_nothing),
        cmocka_unit_test(a_killed_peer_ends_the_waits_and_leaves_no_process),
        cmocka_unit_test(a_host_is_told_by_its_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
