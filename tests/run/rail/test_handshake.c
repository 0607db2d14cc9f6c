/* The proof of the run's key: whoever has another one, or changes a bit on the way, is not let in, and does
 * not let in either. */
#include "check.h"

#include "run/rail/listener.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

static const sl_hello hello = {.from = 3, .to = 5, .number = 1, .rail = 0, .chunk_bytes = 4096, .slots = 4};

static const char *answer(void *object, const sl_hello *said, sl_hello *own) {
    (void)object;
    *own = *said;
    own->slots = 8;
    return NULL;
}

static void open_ends(sl_handshake end[2], const uint8_t key[32], const uint8_t other_key[32]) {
    assert_ok(sl_handshake_initiate(&end[0], key, &hello));
    end[1] = (sl_handshake){.answer = answer};
    memcpy(end[1].key, other_key, 32);
}

/* A wire between the ends that flips one bit of the bytes of one direction; `at` < 0: of none. */
typedef struct wire {
    int end[2], near[2]; /* sockets of the ends, and their peers */
    size_t passed[2];    /* bytes from end 0, and from end 1 */
    int from;
    long at;
    int bit;
} wire;

static void open_wire(wire *w, int from, long at, int bit) {
    *w = (wire){.from = from, .at = at, .bit = bit};
    for (int i = 0; i < 2; i++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        w->end[i] = pair[0];
        w->near[i] = pair[1];
    }
}

static void close_wire(wire *w) {
    for (int i = 0; i < 2; i++) {
        close(w->end[i]);
        close(w->near[i]);
    }
}

static void pass(wire *w) {
    uint8_t bytes[512];
    for (int from = 0; from < 2; from++) {
        ssize_t n = recv(w->near[from], bytes, sizeof bytes, 0);
        if (n <= 0)
            continue;
        long at = w->at - (long)w->passed[from];
        if (from == w->from && w->at >= 0 && at >= 0 && at < n)
            bytes[at] ^= (uint8_t)(1u << w->bit);
        w->passed[from] += (size_t)n;
        assert_int_equal(send(w->near[1 - from], bytes, (size_t)n, 0), n);
    }
}

/* Lets both ends move until nothing does. */
static void shake(sl_handshake end[2], wire *w, sl_handshake_result result[2], const char *why[2]) {
    result[0] = result[1] = SL_HANDSHAKE_ON;
    for (int i = 0; i < 10; i++) {
        for (int e = 0; e < 2; e++)
            if (result[e] == SL_HANDSHAKE_ON)
                result[e] = sl_handshake_move(&end[e], w->end[e], &why[e]);
        pass(w);
    }
}

static void who_has_the_key_is_let_in(void **state) {
    (void)state;
    sl_handshake end[2];
    sl_handshake_result result[2];
    const char *why[2];
    const uint8_t key[32] = {1, 2, 3};
    wire w;
    open_wire(&w, 0, -1, 0);
    open_ends(end, key, key);
    shake(end, &w, result, why);
    assert_true(result[0] == SL_HANDSHAKE_DONE && result[1] == SL_HANDSHAKE_DONE);
    assert_int_equal(end[0].other.slots, 8);
    assert_int_equal(end[1].other.slots, 4);
    close_wire(&w);
}

static void a_key_with_one_other_bit_proves_nothing(void **state) {
    (void)state;
    for (int bit = 0; bit < 256; bit++) {
        sl_handshake end[2];
        sl_handshake_result result[2];
        const char *why[2];
        uint8_t key[32] = {1, 2, 3}, other[32];
        wire w;
        memcpy(other, key, sizeof other);
        other[bit / 8] ^= (uint8_t)(1u << bit % 8);
        open_wire(&w, 0, -1, 0);
        open_ends(end, key, other);
        shake(end, &w, result, why);
        assert_int_equal(result[1], SL_HANDSHAKE_WRONG);
        assert_string_equal(why[1], "it does not know the run's key");
        assert_int_not_equal(result[0], SL_HANDSHAKE_DONE);
        close_wire(&w);
    }
}

/* The side that hears other bytes than were sent never finishes, whichever bit of hello or proof it is; so
 * the initiator, too, checks the other's proof. */
static void no_bit_may_change_on_the_way(void **state) {
    (void)state;
    for (int from = 0; from < 2; from++)
        for (int at = 0; at < (int)SL_HANDSHAKE_WHOLE; at++) {
            sl_handshake end[2];
            sl_handshake_result result[2];
            const char *why[2];
            const uint8_t key[32] = {9, 8, 7};
            wire w;
            open_wire(&w, from, at, at % 8);
            open_ends(end, key, key);
            shake(end, &w, result, why);
            if (result[1 - from] == SL_HANDSHAKE_DONE)
                fail_msg("byte %d of end %d may change", at, from);
            close_wire(&w);
        }
}

/* A recorded handshake, sent again: the acceptor's nonce is another one. */
static void a_recorded_proof_is_refused(void **state) {
    (void)state;
    sl_handshake end[2], again = {.answer = answer};
    sl_handshake_result result[2];
    const char *why[2];
    const uint8_t key[32] = {1, 2, 3};
    wire w;
    open_wire(&w, 0, -1, 0);
    open_ends(end, key, key);
    shake(end, &w, result, why);
    assert_int_equal(result[1], SL_HANDSHAKE_DONE);
    close_wire(&w);
    memcpy(again.key, key, sizeof again.key);
    open_wire(&w, 0, -1, 0);
    assert_int_equal(send(w.near[1], end[0].out, SL_HANDSHAKE_WHOLE, 0), SL_HANDSHAKE_WHOLE);
    assert_int_equal(sl_handshake_move(&again, w.end[1], &why[0]), SL_HANDSHAKE_WRONG);
    assert_string_equal(why[0], "it does not know the run's key");
    close_wire(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_the_key_is_let_in),
        cmocka_unit_test(a_key_with_one_other_bit_proves_nothing),
        cmocka_unit_test(no_bit_may_change_on_the_way),
        cmocka_unit_test(a_recorded_proof_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
