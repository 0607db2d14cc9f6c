/* Clearances between processes of one host, and of two: each is heard once, in its iteration, and none waits
 * for a message that its link delays. */
#include "run/message.h"

#include "run/transport/peer.h"

#define MESSAGES 5
#define ITERATIONS 40
#define LATENCY (300 * SL_MS)

typedef struct pair {
    sl_transport_address address[2];
    int socket[2], remote;
    char directory[64];
} pair;

static sl_transport_config config_of(const pair *p, int rank) {
    return (sl_transport_config){.rank = rank,
                                 .ranks = 2,
                                 .clock = sl_clock_real(),
                                 .addresses = p->remote ? p->address : NULL,
                                 .directory = p->directory,
                                 .key = {42, 7},
                                 .message_bytes = 16,
                                 .clears = 1,
                                 .slots = 4 * MESSAGES}; /* of the few iterations that one may be ahead */
}

static void clear_all(sl_transport *t, int peer, uint32_t iteration) {
    for (uint32_t i = 0; i < MESSAGES; i++)
        MUST(sl_transport_clear(t, peer, iteration, i, 1000 * iteration + i) == SL_OK);
}

/* Every message of the iteration once, and nothing else. */
static void hear_all(const pair *p, sl_transport *t, int peer, uint32_t iteration) {
    unsigned heard = 0;
    while (heard != (1u << MESSAGES) - 1) {
        sl_message_name name;
        sl_time reached;
        uint32_t seen = sl_transport_changes(t);
        sl_status status = sl_transport_next_cleared(t, iteration, &name, &reached);
        if (status == SL_ENONE) {
            MUST(sl_transport_check(t, peer, 1 - peer, iteration, 0, SL_TIME_NEVER) == SL_OK);
            sl_transport_await_change(t, seen, SL_TIME_NEVER);
            continue;
        }
        MUST(status == SL_OK && name.peer == peer && name.iteration == iteration && name.index < MESSAGES);
        MUST(!(heard & 1u << name.index));
        heard |= 1u << name.index;
        if (!p->remote)
            MUST(reached == 1000 * iteration + name.index);
        else /* another host's clock means nothing here */
            MUST(reached > 1000 * ITERATIONS && reached <= sl_now());
    }
    sl_message_name name;
    MUST(sl_transport_next_cleared(t, iteration, &name, &(sl_time){0}) == SL_ENONE);
}

/* A clearance that is handed over after a slow message is heard long before it. */
static void pass_a_slow_message(const pair *p, sl_transport *t, int peer) {
    char out[16] = "slow", in[16];
    sl_time arrived, sent = sl_now();
    sl_transport_emulate(t, peer, (sl_link_emulation){.latency = LATENCY});
    MUST(sl_transport_receive(t, peer, 0, 0, in, sizeof in) == SL_OK);
    MUST(sl_transport_send(t, peer, 0, 0, out, sizeof out, sent) == SL_OK);
    clear_all(t, peer, 0);
    hear_all(p, t, peer, 0);
    MUST(sl_transport_take(t, peer, 0, 0, &arrived) == SL_ENONE);
    MUST(sl_transport_wait(t, peer, 0, 0, sl_now() + 20 * SL_SECOND, &arrived) == SL_OK);
    MUST(sl_transport_wait_sent(t, peer, 0, 0, sl_now() + 20 * SL_SECOND, NULL) == SL_OK);
    MUST(strcmp(in, "slow") == 0);
}

/* Rank 0 is an iteration ahead: what it has cleared stays until rank 1 asks for it. */
static void stay_for_their_iteration(const pair *p, sl_transport *t, int rank) {
    char note[16] = "cleared";
    if (rank == 0) {
        clear_all(t, 1, 1);
        clear_all(t, 1, 2);
        MUST(sl_transport_send(t, 1, 1, 0, note, sizeof note, sl_now()) == SL_OK);
        MUST(sl_transport_wait_sent(t, 1, 1, 0, sl_now() + 20 * SL_SECOND, NULL) == SL_OK);
        return;
    }
    MUST(sl_transport_receive(t, 0, 1, 0, note, sizeof note) == SL_OK);
    MUST(sl_transport_wait(t, 0, 1, 0, sl_now() + 20 * SL_SECOND, NULL) == SL_OK);
    hear_all(p, t, 0, 1);
    hear_all(p, t, 0, 2);
}

/* A rank that closes its transport takes what is under way along: both have heard everything. */
static void part(sl_transport *t, int peer) {
    char note[16] = "heard";
    MUST(sl_transport_receive(t, peer, ITERATIONS, 0, note, sizeof note) == SL_OK);
    MUST(sl_transport_send(t, peer, ITERATIONS, 0, "heard..........", sizeof note, sl_now()) == SL_OK);
    MUST(sl_transport_wait(t, peer, ITERATIONS, 0, sl_now() + 20 * SL_SECOND, NULL) == SL_OK);
    MUST(sl_transport_wait_sent(t, peer, ITERATIONS, 0, sl_now() + 20 * SL_SECOND, NULL) == SL_OK);
}

static void play(const pair *p, int rank) {
    sl_transport_config config = config_of(p, rank);
    sl_transport *t;
    MUST(sl_transport_open(&config, p->remote ? p->socket[rank] : -1, 20 * SL_SECOND, &t) == SL_OK);
    pass_a_slow_message(p, t, 1 - rank);
    stay_for_their_iteration(p, t, rank);
    for (uint32_t k = 3; k < ITERATIONS; k++) {
        clear_all(t, 1 - rank, k);
        hear_all(p, t, 1 - rank, k);
    }
    part(t, 1 - rank);
    sl_transport_close(t);
    _exit(0);
}

static void play_both(int remote) {
    pair p = {.remote = remote};
    pid_t child[2];
    snprintf(p.directory, sizeof p.directory, "/tmp/clearances.XXXXXX");
    assert_non_null(mkdtemp(p.directory));
    for (int r = 0; r < 2 && remote; r++) {
        assert_ok(sl_transport_listen("127.0.0.1", &p.address[r], &p.socket[r]));
        snprintf(p.address[r].host, sizeof p.address[r].host, "host%d", r);
    }
    for (int r = 0; r < 2; r++)
        if ((child[r] = fork()) == 0) {
            if (remote)
                close(p.socket[1 - r]);
            play(&p, r);
        }
    for (int r = 0; r < 2; r++) {
        if (remote)
            close(p.socket[r]);
        check_child(child[r]);
    }
    assert_int_equal(rmdir(p.directory), 0);
}

static void clearances_pass_slow_messages_on_one_host(void **unused) {
    (void)unused;
    play_both(0);
}

static void clearances_pass_slow_messages_between_hosts(void **unused) {
    (void)unused;
    play_both(1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clearances_pass_slow_messages_on_one_host),
        cmocka_unit_test(clearances_pass_slow_messages_between_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
