/* labels: long */
/* Ranks on different hosts: TCP over the loopback interface between processes that give different host names.
 */
#include "run/message.h"
#include "run/rail/proxy.h"

#include "run/transport/network.h"
#include "run/transport/peer.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#define MESSAGES 6
#define ITERATIONS 50
#define LARGEST 300000 /* more than a socket takes at once */

typedef struct pair {
    sl_transport_address address[2];
    int socket[2];
} pair;

/* Both listen before either connects, as in a run. */
static void listen_both(pair *p, const char *where) {
    for (int r = 0; r < 2; r++) {
        assert_ok(sl_transport_listen(where, &p->address[r], &p->socket[r]));
        assert_string_equal(p->address[r].address, where);
        assert_true(p->address[r].port > 0);
        snprintf(p->address[r].host, sizeof p->address[r].host, "host%d", r);
    }
}

static sl_transport_config config_of(const pair *p, int rank, size_t message_bytes, int slots) {
    return (sl_transport_config){.rank = rank,
                                 .ranks = 2,
                                 .clock = sl_clock_real(),
                                 .addresses = p->address,
                                 .key = {42, 7},
                                 .message_bytes = message_bytes,
                                 .slots = slots};
}

static size_t size_of(int from, uint32_t iteration, uint32_t index) {
    uint8_t kind = content(from, 1 - from, iteration, index, 0);
    return kind < 30 ? 0 : kind < 200 ? kind : LARGEST - kind;
}

/* Both directions at once, larger than the sockets' buffers; waits in reverse order. */
static void exchange_with(const pair *p, int rank, const char *const *rails, int count, const int *sockets) {
    static uint8_t in[MESSAGES][LARGEST], out[MESSAGES][LARGEST];
    sl_transport_config config = config_of(p, rank, LARGEST, MESSAGES);
    int peer = 1 - rank;
    sl_transport *t;
    config.rails = rails;
    config.rail_count = count;
    config.rail_sockets = sockets;
    MUST(sl_transport_open(&config, p->socket[rank], 20 * SL_SECOND, &t) == SL_OK);
    sl_transport_emulate(t, peer, (sl_link_emulation){.latency = 500000});
    for (uint32_t k = 0; k < ITERATIONS; k++) {
        sl_time deadline = sl_clock_now(config.clock) + 60 * SL_SECOND, arrived;
        sl_sent sent;
        for (uint32_t i = 0; i < MESSAGES; i++) {
            MUST(sl_transport_receive(t, peer, k, i, in[i], size_of(peer, k, i)) == SL_OK);
            fill(out[i], size_of(rank, k, i), rank, peer, k, i);
            MUST(sl_transport_send(t, peer, k, i, out[i], size_of(rank, k, i), sl_clock_now(config.clock)) ==
                 SL_OK);
        }
        for (uint32_t i = MESSAGES; i-- > 0;) {
            MUST(sl_transport_wait(t, peer, k, i, deadline, &arrived) == SL_OK);
            MUST(is_filled(in[i], size_of(peer, k, i), peer, rank, k, i));
            MUST(arrived <= sl_clock_now(config.clock));
            MUST(sl_transport_wait_sent(t, peer, k, i, deadline, &sent) == SL_OK);
            MUST(sent.due == sent.end + 500000 || sent.due > sent.end + 500000);
            MUST(sent.arrive >= sent.due); /* one host, so one clock */
        }
    }
    sl_transport_close(t);
    _exit(0);
}

static void exchange(const pair *p, int rank) {
    close(p->socket[1 - rank]);
    exchange_with(p, rank, NULL, 0, NULL);
}

static void messages_cross_the_wire_whole(const char *where) {
    pair p;
    pid_t child[2];
    listen_both(&p, where);
    for (int r = 0; r < 2; r++)
        if ((child[r] = fork()) == 0)
            exchange(&p, r);
    for (int r = 0; r < 2; r++) {
        close(p.socket[r]);
        check_child(child[r]);
    }
}

static void messages_cross_ipv4_whole(void **state) {
    (void)state;
    messages_cross_the_wire_whole("127.0.0.1");
}

static void messages_cross_ipv6_whole(void **state) {
    (void)state;
    int made = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int usable = made >= 0 && bind(made, (struct sockaddr *)&loopback, sizeof loopback) == 0;
    if (made >= 0)
        close(made);
    if (!usable) {
        printf("skipped: no IPv6 loopback here\n");
        skip();
    }
    messages_cross_the_wire_whole("::1");
}

static void listening_needs_an_address_of_this_host(void **state) {
    (void)state;
    sl_transport_address address;
    int made;
    char name[64];
    assert_ok(sl_transport_listen(NULL, &address, &made));
    assert_int_equal(gethostname(name, sizeof name), 0);
    assert_string_equal(address.host, name);
    close(made);
    assert_ok(sl_transport_listen("lo", &address, &made));
    assert_string_equal(address.address, "127.0.0.1");
    close(made);
    assert_fails(sl_transport_listen("nonsense0", &address, &made), SL_EINVAL, "nonsense0");
    assert_fails(sl_transport_listen("192.0.2.1", &address, &made), SL_ESYS,
                 "192.0.2.1"); /* reserved, nobody's */
    assert_int_equal(made, -1);
}

static void a_rank_with_another_key_is_refused_on_both_sides(void **state) {
    (void)state;
    pair p;
    listen_both(&p, "127.0.0.1");
    pid_t child = fork();
    if (child == 0) {
        sl_transport_config config = config_of(&p, 1, 64, 2);
        sl_transport *t;
        close(p.socket[0]);
        config.key[0] ^= 1;
        MUST(sl_transport_open(&config, p.socket[1], 400 * SL_MS, &t) == SL_EPEER);
        MUST(!missing_fact(sl_error_text(), "link 1 -> 0") && strstr(sl_error_text(), "key"));
        _exit(0);
    }
    close(p.socket[1]);
    sl_transport_config config = config_of(&p, 0, 64, 2);
    sl_transport *t;
    assert_fails(sl_transport_open(&config, p.socket[0], 600 * SL_MS, &t), SL_EPEER, "link 0 -> 1");
    assert_says(sl_error_text(), "strangers were dropped");
    assert_null(t);
    check_child(child);
}

static int connect_to(const sl_transport_address *a) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(a->port)};
    inet_pton(AF_INET, a->address, &to.sin_addr);
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(made, (struct sockaddr *)&to, sizeof to), 0);
    return made;
}

/* 100 connections stand before the peer's in the queue: more than the table holds, silent ones and talkative
 * ones. */
static void strangers_are_dropped_and_do_not_keep_the_peer_out(void **state) {
    (void)state;
    enum { STRANGERS = 100 };
    static const char garbage[] = "GET / HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nUser-Agent: a scanner\r\n\r\n";
    pair p;
    int stranger[STRANGERS];
    listen_both(&p, "127.0.0.1");
    for (int i = 0; i < STRANGERS; i++) {
        stranger[i] = connect_to(&p.address[0]);
        if (i % 2)
            assert_true(send(stranger[i], garbage, sizeof garbage, MSG_NOSIGNAL) > 0);
    }
    pid_t child = fork();
    if (child == 0) {
        sl_transport_config config = config_of(&p, 1, 64, 2);
        int in = 0;
        sl_transport *t;
        close(p.socket[0]);
        MUST(sl_transport_open(&config, p.socket[1], 20 * SL_SECOND, &t) == SL_OK);
        MUST(sl_transport_receive(t, 0, 0, 0, &in, sizeof in) == SL_OK);
        MUST(sl_transport_wait(t, 0, 0, 0, sl_clock_now(config.clock) + 20 * SL_SECOND, NULL) == SL_OK);
        MUST(in == 1234);
        sl_transport_close(t);
        _exit(0);
    }
    close(p.socket[1]);
    sl_transport_config config = config_of(&p, 0, 64, 2);
    sl_transport *t;
    int out = 1234;
    assert_ok(sl_transport_open(&config, p.socket[0], 20 * SL_SECOND, &t));
    assert_true(sl_network_strangers(t->network) >=
                STRANGERS / 2); /* all the talkative ones, and silent ones for want of room */
    assert_ok(sl_transport_send(t, 1, 0, 0, &out, sizeof out, 0));
    assert_ok(sl_transport_wait_sent(t, 1, 0, 0, sl_clock_now(config.clock) + 20 * SL_SECOND, NULL));
    check_child(child);
    sl_transport_close(t);
    for (int i = 0; i < STRANGERS; i++)
        close(stranger[i]);
}

/* Opens rank 1 in a process that sleeps for ever once it is connected. */
static pid_t start_sleeper(const pair *p) {
    pid_t child = fork();
    if (child == 0) {
        sl_transport_config config = config_of(p, 1, 64, 2);
        sl_transport *t;
        close(p->socket[0]);
        MUST(sl_transport_open(&config, p->socket[1], 20 * SL_SECOND, &t) == SL_OK);
        for (;;)
            pause();
    }
    close(p->socket[1]);
    return child;
}

static void the_death_of_a_peer_ends_waits_on_it_and_names_the_link(void **state) {
    (void)state;
    for (int sending = 0; sending < 2; sending++) {
        pair p;
        listen_both(&p, "127.0.0.1");
        pid_t child = start_sleeper(&p);
        sl_transport_config config = config_of(&p, 0, 64, 2);
        sl_transport *t;
        int how;
        char data[64] = {0};
        assert_ok(sl_transport_open(&config, p.socket[0], 20 * SL_SECOND, &t));
        if (fork() == 0) { /* kills it while we wait below */
            sl_clock_sleep_until(config.clock, sl_clock_now(config.clock) + 50 * SL_MS);
            kill(child, SIGKILL);
            _exit(0);
        }
        if (sending) {
            sl_transport_emulate(t, 1, (sl_link_emulation){.latency = 3600 * SL_SECOND});
            assert_ok(sl_transport_send(t, 1, 0, 0, data, sizeof data, sl_clock_now(config.clock)));
            assert_fails(sl_transport_wait_sent(t, 1, 0, 0, SL_TIME_NEVER, NULL), SL_EPEER, "link 0 -> 1");
        } else {
            assert_ok(sl_transport_receive(t, 1, 0, 0, data, sizeof data));
            assert_fails(sl_transport_wait(t, 1, 0, 0, SL_TIME_NEVER, NULL), SL_EPEER, "link 1 -> 0");
        }
        assert_says(sl_error_text(), "rank 1");
        assert_fails(sl_transport_send(t, 1, 0, 1, data, 1, 0), SL_EPEER, "link 0 -> 1");
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_int_equal(wait(&how) > 0, 1);
        sl_transport_close(t);
    }
}

/* What arrived before the peer left is delivered; the next wait says that it has left. */
static void an_orderly_close_loses_nothing_that_was_acknowledged(void **state) {
    (void)state;
    pair p;
    listen_both(&p, "127.0.0.1");
    pid_t child = fork();
    if (child == 0) {
        sl_transport_config config = config_of(&p, 1, 8, 4);
        uint64_t out[2] = {5, 6};
        sl_transport *t;
        close(p.socket[0]);
        MUST(sl_transport_open(&config, p.socket[1], 20 * SL_SECOND, &t) == SL_OK);
        for (uint32_t i = 0; i < 2; i++)
            MUST(sl_transport_send(t, 0, 0, i, &out[i], 8, 0) == SL_OK);
        for (uint32_t i = 0; i < 2; i++)
            MUST(sl_transport_wait_sent(t, 0, 0, i, sl_clock_now(config.clock) + 20 * SL_SECOND, NULL) ==
                 SL_OK);
        sl_transport_close(t);
        _exit(0);
    }
    close(p.socket[1]);
    sl_transport_config config = config_of(&p, 0, 8, 4);
    uint64_t in[3] = {0};
    sl_transport *t;
    assert_ok(sl_transport_open(&config, p.socket[0], 20 * SL_SECOND, &t));
    check_child(child); /* it is gone before we look */
    for (uint32_t i = 0; i < 3; i++)
        assert_ok(sl_transport_receive(t, 1, 0, i, &in[i], 8));
    for (uint32_t i = 0; i < 2; i++)
        assert_ok(sl_transport_wait(t, 1, 0, i, SL_TIME_NEVER, NULL));
    assert_int_equal(in[0], 5);
    assert_int_equal(in[1], 6);
    assert_fails(sl_transport_wait(t, 1, 0, 2, SL_TIME_NEVER, NULL), SL_EPEER, "closed its transport");
    sl_transport_close(t);
}

/* One direction, a receiver that takes its time: the sender fills the receiver's places and the held ones,
 * and waits. */
static void a_sender_that_runs_ahead_is_held_back_and_loses_nothing(void **state) {
    (void)state;
    enum { COUNT = 400, SLOTS = 3 };
    pair p;
    listen_both(&p, "127.0.0.1");
    pid_t child = fork();
    if (child == 0) {
        static uint64_t out[COUNT];
        sl_transport_config config = config_of(&p, 1, 8, SLOTS);
        sl_transport *t;
        close(p.socket[0]);
        MUST(sl_transport_open(&config, p.socket[1], 20 * SL_SECOND, &t) == SL_OK);
        for (uint32_t k = 0; k < COUNT + SLOTS; k++) {
            sl_time deadline = sl_clock_now(config.clock) + 60 * SL_SECOND;
            if (k >= SLOTS)
                MUST(sl_transport_wait_sent(t, 0, k - SLOTS, 0, deadline, NULL) == SL_OK);
            if (k < COUNT) {
                out[k] = k * 3 + 1;
                MUST(sl_transport_send(t, 0, k, 0, &out[k], 8, 0) == SL_OK);
            }
        }
        sl_transport_close(t);
        _exit(0);
    }
    close(p.socket[1]);
    sl_transport_config config = config_of(&p, 0, 8, SLOTS);
    sl_transport *t;
    assert_ok(sl_transport_open(&config, p.socket[0], 20 * SL_SECOND, &t));
    for (uint32_t k = 0; k < COUNT; k++) {
        uint64_t in = 0;
        if (k % 50 == 0)
            sl_clock_sleep_until(config.clock, sl_clock_now(config.clock) + 5 * SL_MS);
        assert_ok(sl_transport_receive(t, 1, k, 0, &in, 8));
        assert_ok(sl_transport_wait(t, 1, k, 0, sl_clock_now(config.clock) + 60 * SL_SECOND, NULL));
        assert_int_equal(in, (uint64_t)k * 3 + 1);
    }
    check_child(child);
    sl_transport_close(t);
}

static void a_message_larger_than_agreed_cuts_the_peer_off(void **state) {
    (void)state;
    pair p;
    listen_both(&p, "127.0.0.1");
    pid_t child = fork();
    if (child == 0) {
        sl_transport_config config = config_of(&p, 1, 200, 2); /* thinks that 200 bytes are allowed */
        uint8_t out[200] = {0};
        sl_transport *t;
        close(p.socket[0]);
        MUST(sl_transport_open(&config, p.socket[1], 20 * SL_SECOND, &t) == SL_OK);
        MUST(sl_transport_send(t, 0, 0, 0, out, sizeof out, 0) == SL_OK);
        MUST(sl_transport_wait_sent(t, 0, 0, 0, SL_TIME_NEVER, NULL) == SL_EPEER);
        MUST(!missing_fact(sl_error_text(), "link 1 -> 0"));
        sl_transport_close(t);
        _exit(0);
    }
    close(p.socket[1]);
    sl_transport_config config = config_of(&p, 0, 64, 2);
    uint8_t in[64];
    sl_transport *t;
    assert_ok(sl_transport_open(&config, p.socket[0], 20 * SL_SECOND, &t));
    assert_ok(sl_transport_receive(t, 1, 0, 0, in, sizeof in));
    assert_fails(sl_transport_wait(t, 1, 0, 0, SL_TIME_NEVER, NULL), SL_EPEER,
                 "link 1 -> 0: rank 1 broke the protocol");
    check_child(child);
    sl_transport_close(t);
}

/* Rank 1 reaches rank 0 through a man in the middle who closes its connections again and again: they are made
 * anew, and nothing of it is seen but time. */
static void broken_connections_are_made_anew(void **state) {
    (void)state;
    pair p;
    pid_t child[2];
    proxy middle;
    listen_both(&p, "127.0.0.1");
    proxy_listen_for(&middle, p.address[0].port);
    for (int r = 0; r < 2; r++)
        if ((child[r] = fork()) == 0) {
            if (r == 1)
                p.address[0].port = middle.port;
            exchange(&p, r);
        }
    proxy_run_thread(&middle); /* not before the forks: a child has no threads of its parent */
    int ended = 0, how[2], closed = 0;
    uint64_t last = 0;
    while (!ended) {
        uint64_t forwarded = atomic_load(&middle.forwarded);
        sl_clock_sleep_until(sl_clock_real(), sl_clock_now(sl_clock_real()) + 2 * SL_MS);
        if (forwarded > last + 1000000) { /* by bytes: however slow the machine is, each connection helps */
            last = forwarded;
            atomic_store(&middle.command, CLOSE_ALL);
            closed++;
        }
        ended = waitpid(child[1], &how[1], WNOHANG) == child[1];
    }
    uint64_t accepted = atomic_load(&middle.accepted);
    int other = waitpid(child[0], &how[0], 0) == child[0];
    proxy_end(&middle);
    for (int r = 0; r < 2; r++)
        close(p.socket[r]);
    assert_true(other);
    for (int r = 0; r < 2; r++)
        assert_true(WIFEXITED(how[r]) && WEXITSTATUS(how[r]) == 0);
    printf("closed %d times, connected %llu times\n", closed, (unsigned long long)accepted);
    assert_true(closed > 5 && accepted > 5);
}

/* Three rails; a rank that has named fewer of them uses the first ones. */
static void messages_take_all_rails_that_both_ends_have(void **state) {
    (void)state;
    static const char *const rails[] = {"127.0.0.1", "lo", "127.0.0.1"};
    sl_transport_address address[2];
    int socket[2][SL_TRANSPORT_RAILS];
    pid_t child[2];
    for (int r = 0; r < 2; r++) {
        assert_ok(sl_transport_listen_rails(rails, 2 + r, &address[r], socket[r]));
        assert_int_equal(address[r].rails, 2 + r);
        assert_string_equal(address[r].rail[0].address, address[r].address);
        snprintf(address[r].host, sizeof address[r].host, "host%d", r);
    }
    for (int r = 0; r < 2; r++)
        if ((child[r] = fork()) == 0) {
            pair p = {.address = {address[0], address[1]}, .socket = {-1, -1}};
            for (int i = 0; i < 2 + (1 - r); i++)
                close(socket[1 - r][i]);
            exchange_with(&p, r, rails, 2 + r, socket[r]);
        }
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < 2 + r; i++)
            close(socket[r][i]);
        check_child(child[r]);
    }
    assert_fails(sl_transport_listen_rails(rails, 9, &address[0], socket[0]), SL_EINVAL, "9 rails");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_connections_are_made_anew),
        cmocka_unit_test(messages_take_all_rails_that_both_ends_have),
        cmocka_unit_test(messages_cross_ipv4_whole),
        cmocka_unit_test(messages_cross_ipv6_whole),
        cmocka_unit_test(listening_needs_an_address_of_this_host),
        cmocka_unit_test(a_rank_with_another_key_is_refused_on_both_sides),
        cmocka_unit_test(strangers_are_dropped_and_do_not_keep_the_peer_out),
        cmocka_unit_test(the_death_of_a_peer_ends_waits_on_it_and_names_the_link),
        cmocka_unit_test(a_message_larger_than_agreed_cuts_the_peer_off),
        cmocka_unit_test(an_orderly_close_loses_nothing_that_was_acknowledged),
        cmocka_unit_test(a_sender_that_runs_ahead_is_held_back_and_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
