/* network.auth: frames. Whoever can change the packets of an authenticated connection, and knows the
 * protocol, changes messages unnoticed without proofs, and breaks the connection with them. */
#include "run/rail/conveyance.h"
#include "run/rail/proxy.h"

#include "run/rail/frame_proof.h"
#include <sys/socket.h>

/* ---- the proofs of one connection ---- */

typedef struct connection {
    sl_handshake end[2];
    sl_frame_proofs *proofs[2];
} connection;

static const char *answer(void *object, const sl_hello *said, sl_hello *own) {
    (void)object;
    *own = *said;
    return NULL;
}

static void connect_ends(connection *c) {
    static const uint8_t key[32] = {7, 7, 7};
    sl_hello hello = {.from = 3, .to = 5, .slots = 4, .proves = 1};
    sl_handshake_result result[2] = {SL_HANDSHAKE_ON, SL_HANDSHAKE_ON};
    const char *why;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    assert_ok(sl_handshake_initiate(&c->end[0], key, &hello));
    c->end[1] = (sl_handshake){.answer = answer};
    memcpy(c->end[1].key, key, sizeof key);
    for (int i = 0; i < 10; i++)
        for (int e = 0; e < 2; e++)
            if (result[e] == SL_HANDSHAKE_ON)
                result[e] = sl_handshake_move(&c->end[e], pair[e], &why);
    for (int e = 0; e < 2; e++) {
        assert_int_equal(result[e], SL_HANDSHAKE_DONE);
        assert_ok(sl_frame_proofs_open(&c->end[e], &c->proofs[e]));
        close(pair[e]);
    }
}

static void disconnect_ends(connection *c) {
    sl_frame_proofs_close(c->proofs[0]);
    sl_frame_proofs_close(c->proofs[1]);
}

typedef struct proven {
    uint8_t head[SL_WIRE_BYTES], proof[SL_PROOF_BYTES];
    char payload[40];
    size_t bytes;
} proven;

static void prove(connection *c, int end, sl_wire_kind kind, uint64_t message, proven *made) {
    memset(made, 0, sizeof *made);
    sl_wire frame = {.kind = kind, .chunk = {.message = message}};
    if (kind == SL_WIRE_CHUNK) {
        frame.chunk.total = frame.chunk.bytes = sizeof made->payload;
        made->bytes = sizeof made->payload;
        snprintf(made->payload, sizeof made->payload, "message %d", (int)message);
        frame.payload_checksum = sl_frame_checksum(made->payload, made->bytes);
    }
    sl_frame_encode(&frame, made->head);
    assert_ok(sl_frame_prove(c->proofs[end], made->head, made->payload, made->bytes, made->proof));
}

static int is_believed(connection *c, int end, const proven *p) {
    return sl_frame_is_proven(c->proofs[end], p->head, p->proof) &&
           (p->bytes == 0 || sl_payload_is_proven(c->proofs[end], p->payload, p->bytes, p->proof));
}

static void frames_are_believed_in_their_order_and_control_frames_may_overtake(void **state) {
    (void)state;
    connection c;
    proven chunk[3], beat[2], ack;
    connect_ends(&c);
    for (int i = 0; i < 3; i++)
        prove(&c, 0, SL_WIRE_CHUNK, (uint64_t)i, &chunk[i]);
    prove(&c, 0, SL_WIRE_BEAT, 0, &beat[0]);
    prove(&c, 0, SL_WIRE_BEAT, 0, &beat[1]);
    prove(&c, 1, SL_WIRE_ACK, 0, &ack);
    assert_true(is_believed(&c, 1, &beat[0]));
    assert_true(is_believed(&c, 1, &chunk[0]));
    assert_true(is_believed(&c, 0, &ack));
    assert_true(is_believed(&c, 1, &chunk[1]));
    assert_true(is_believed(&c, 1, &beat[1]));
    assert_true(is_believed(&c, 1, &chunk[2]));
    disconnect_ends(&c);
}

/* Each bit, alone, on a connection of its own: what fails once is out of step afterwards. */
static void no_bit_can_be_changed(void **state) {
    (void)state;
    for (size_t bit = 0; bit < 8 * (SL_WIRE_BYTES + SL_PROOF_BYTES + sizeof((proven *)0)->payload); bit++) {
        connection c;
        proven chunk;
        connect_ends(&c);
        prove(&c, 0, SL_WIRE_CHUNK, 1, &chunk);
        ((uint8_t *)&chunk)[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(is_believed(&c, 1, &chunk));
        disconnect_ends(&c);
    }
}

static void frames_cannot_be_repeated_left_out_swapped_or_turned_around(void **state) {
    (void)state;
    for (int how = 0; how < 5; how++) {
        connection c, other;
        proven chunk[2], theirs;
        connect_ends(&c);
        connect_ends(&other);
        prove(&c, 0, SL_WIRE_CHUNK, 0, &chunk[0]);
        prove(&c, 0, SL_WIRE_CHUNK, 1, &chunk[1]);
        prove(&other, 0, SL_WIRE_CHUNK, 0, &theirs);
        if (how == 0) {
            assert_true(is_believed(&c, 1, &chunk[0]));
            assert_false(is_believed(&c, 1, &chunk[0])); /* again */
        } else if (how == 1) {
            assert_false(is_believed(&c, 1, &chunk[1])); /* without the first */
        } else if (how == 2) {
            assert_false(is_believed(&c, 0, &chunk[0])); /* back to its author */
        } else if (how == 3) {
            assert_false(is_believed(&c, 1, &theirs)); /* of another connection with the same key */
        } else {
            memcpy(chunk[0].payload, chunk[1].payload,
                   chunk[1].bytes); /* the payload of another frame, with its proof */
            memcpy(chunk[0].proof + 16, chunk[1].proof + 16, 16);
            assert_false(is_believed(&c, 1, &chunk[0]));
        }
        disconnect_ends(&c);
        disconnect_ends(&other);
    }
}

/* ---- a man in the middle of endpoints ---- */

/* Follows the stream of the first connection and forges one chunk that it has whole, with correct checksums.
 */
typedef struct forger {
    size_t head_bytes; /* with a proof */
    size_t skip;       /* bytes before the next header */
    int forged;
} forger;

static void forge(void *object, uint8_t *data, size_t bytes) {
    forger *f = object;
    size_t at = 0;
    while (bytes - at > f->skip) {
        sl_wire frame;
        at += f->skip;
        f->skip = 0;
        if (bytes - at < f->head_bytes || sl_frame_decode(data + at, &frame) != SL_OK)
            abort(); /* messages are small and few: each write of the sender is one read here */
        size_t payload = frame.kind == SL_WIRE_CHUNK ? frame.chunk.bytes : 0;
        if (!f->forged && payload > 100 && bytes - at >= f->head_bytes + payload) {
            data[at + f->head_bytes + payload / 2] ^= 1;
            frame.payload_checksum = sl_frame_checksum(data + at + f->head_bytes, payload);
            sl_frame_encode(&frame, data + at);
            f->forged = 1;
        }
        f->skip = f->head_bytes + payload;
    }
    f->skip -= bytes - at;
}

static void begin_forgery(conveyance *v, proxy *middle, forger *f, int proves) {
    *f = (forger){.head_bytes = SL_WIRE_BYTES + (proves ? SL_PROOF_BYTES : 0), .skip = SL_HANDSHAKE_WHOLE};
    begin(v, 20, 4, 900);
    v->config[0].proves = v->config[1].proves = proves;
    add_rail(v, "127.0.0.1");
    proxy_listen_for(middle, v->config[1].rail[0].port);
    middle->forge = forge;
    middle->object = f;
    proxy_run_thread(middle);
    v->config[0].rail[0].port = middle->port;
    open_endpoint(v, 1);
    open_endpoint(v, 0);
}

static void with_proofs_a_forged_frame_breaks_the_connection_and_no_message(void **state) {
    (void)state;
    static conveyance v;
    static proxy middle;
    forger f;
    begin_forgery(&v, &middle, &f, 1);
    carry(&v);
    proxy_end(&middle);
    must_have_carried_all(&v);
    assert_true(f.forged);
    assert_int_equal(v.heard[0].rail_ups[0], 2);
    assert_non_null(strstr(v.heard[1].last[SL_HAPPENED_RAIL_DOWN], "has not proven"));
    finish(&v);
}

static sl_status stop_at_a_wrong_message(conveyance *v) {
    uint64_t put = atomic_load(&v->memory[1]->put);
    for (; v->taken < put; v->taken++) {
        const sl_slot_header *place = sl_queue_slot(&v->view[1], v->taken);
        if (!is_filled(sl_queue_payload(&v->view[1], v->taken), place->bytes, 3, 5, place->iteration,
                       place->index)) {
            v->object = v; /* found */
            sl_loop_stop(v->loop);
            return SL_OK;
        }
        sl_queue_done(&v->view[1]);
    }
    return SL_OK;
}

/* What the proofs are for, and that the forger above is one. */
static void without_proofs_a_forged_frame_is_a_wrong_message(void **state) {
    (void)state;
    static conveyance v;
    static proxy middle;
    forger f;
    begin_forgery(&v, &middle, &f, 0);
    v.object = NULL;
    v.paused = 1; /* the step below takes the messages */
    v.step = stop_at_a_wrong_message;
    carry(&v);
    proxy_end(&middle);
    assert_true(f.forged);
    assert_ptr_equal(v.object, &v);
    assert_int_equal(v.heard[0].rail_ups[0], 1);
    finish(&v);
}

static sl_status until_refused(conveyance *v) {
    v->hold = 1;
    if (v->heard[1].count[SL_HAPPENED_STRANGER] > 0)
        sl_loop_stop(v->loop);
    return SL_OK;
}

static void ends_that_disagree_do_not_connect(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        static conveyance v;
        begin(&v, 1, 4, 100);
        v.config[which].proves = 1;
        add_rail(&v, "127.0.0.1");
        open_endpoint(&v, 1);
        open_endpoint(&v, 0);
        v.step = until_refused;
        carry(&v);
        assert_int_equal(v.heard[0].count[SL_HAPPENED_RAIL_UP], 0);
        assert_non_null(strstr(v.heard[1].last[SL_HAPPENED_STRANGER], "network.auth"));
        finish(&v);
    }
}

static void two_rails_prove_large_messages(void **state) {
    (void)state;
    static conveyance v;
    begin(&v, 40, 4, 1500000);
    v.config[0].proves = v.config[1].proves = 1;
    add_rail(&v, "127.0.0.1");
    add_rail(&v, NULL);
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    must_have_carried_all(&v);
    assert_int_equal(v.heard[1].count[SL_HAPPENED_RAIL_DOWN], 0);
    finish(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_believed_in_their_order_and_control_frames_may_overtake),
        cmocka_unit_test(no_bit_can_be_changed),
        cmocka_unit_test(frames_cannot_be_repeated_left_out_swapped_or_turned_around),
        cmocka_unit_test(with_proofs_a_forged_frame_breaks_the_connection_and_no_message),
        cmocka_unit_test(without_proofs_a_forged_frame_is_a_wrong_message),
        cmocka_unit_test(ends_that_disagree_do_not_connect),
        cmocka_unit_test(two_rails_prove_large_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
