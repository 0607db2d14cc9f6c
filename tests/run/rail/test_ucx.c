/* labels: long */
/* Rails over UCX: what crosses them is what was put, alone and beside TCP, whatever breaks and whoever dies.
 */
#include "check.h"
#include "run/rail/conveyance.h"
#include "run/rail/proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static void add_ucx_rail(conveyance *v, const char *address) {
    int r = v->config[0].rails;
    add_rail(v, address);
    v->config[0].rail[r].kind = v->config[1].rail[r].kind = SL_RAIL_UCX;
    v->config[0].silence = v->config[1].silence = 10 * SL_SECOND; /* a busy machine is not a dead path */
}

#ifndef SL_UCX

int main(void) {
    conveyance v;
    begin(&v, 1, 1, 1);
    add_ucx_rail(&v, "127.0.0.1");
    for (int end = 0; end < 2; end++)
        assert_fails(sl_endpoint_open(v.loop, &v.config[end], &v.endpoint[end]), SL_EINVAL, "built without");
    finish(&v);
    (void)carry, (void)must_have_carried_all, (void)reopen_endpoint; /* of no use then */
    printf("skipped: built without UCX (libucx-dev); such a rail is refused\n");
    return 77;
}

#else

static void must_have_been_calm(const conveyance *v) {
    for (int r = 0; r < v->config[0].rails; r++)
        assert_int_equal(v->heard[0].rail_ups[r], 1);
    assert_int_equal(v->heard[0].count[SL_HAPPENED_RAIL_DOWN] + v->heard[1].count[SL_HAPPENED_RAIL_DOWN], 0);
}

/* It is over only when every rail had its part. */
static sl_status hold_until_all_are_up(conveyance *v) {
    v->hold = sl_endpoint_rails_up(v->endpoint[0]) < v->config[0].rails ||
              sl_endpoint_rails_up(v->endpoint[1]) < v->config[0].rails;
    return SL_OK;
}

/* `over_ucx`: digits, 1: a UCX rail, 0: a TCP one. */
static void everything_arrives(const char *over_ucx, uint64_t count, uint32_t slots, size_t largest) {
    conveyance v;
    begin(&v, count, slots, largest);
    for (; *over_ucx; over_ucx++)
        *over_ucx == '1' ? add_ucx_rail(&v, "127.0.0.1") : add_rail(&v, "127.0.0.1");
    v.hold = 1;
    v.step = hold_until_all_are_up;
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    must_have_carried_all(&v);
    must_have_been_calm(&v);
    finish(&v);
}

static void messages_of_any_size_cross_a_ucx_rail(void **state) {
    (void)state;
    everything_arrives("1", 600, 8, 700000);
}

static void messages_are_striped_over_ucx_and_tcp(void **state) {
    (void)state;
    everything_arrives("10", 300, 4, 3000000);
}

static void messages_are_striped_over_two_ucx_rails(void **state) {
    (void)state;
    everything_arrives("11", 300, 4, 3000000);
}

static void one_place_is_enough(void **state) {
    (void)state;
    everything_arrives("1", 200, 1, 600000);
}

/* ---- what goes where */

/* A man in the middle of the rail's address sees the handshake and nothing of the messages. */
static void frames_go_over_ucx_not_over_the_socket(void **state) {
    (void)state;
    conveyance v;
    proxy middle;
    begin(&v, 50, 8, 500000);
    add_ucx_rail(&v, "127.0.0.1");
    proxy_start(&middle, v.config[1].rail[0].port);
    v.config[0].rail[0].port = middle.port;
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    must_have_carried_all(&v);
    must_have_been_calm(&v);
    assert_in_range(atomic_load(&middle.forwarded), 144, 4096);
    finish(&v);
    proxy_end(&middle);
}

/* ---- strangers */

static sl_status stop_when_lost(conveyance *v) {
    if (atomic_load(&v->memory[0]->lost))
        sl_loop_stop(v->loop);
    return SL_OK;
}

static void another_key_is_refused(void **state) {
    (void)state;
    conveyance v;
    begin(&v, 1, 2, 100);
    add_ucx_rail(&v, "127.0.0.1");
    v.config[0].key[31] ^= 1;
    v.config[0].outage = 3 * SL_SECOND;
    v.step = stop_when_lost;
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    assert_int_equal(v.heard[0].count[SL_HAPPENED_RAIL_UP] + v.heard[1].count[SL_HAPPENED_RAIL_UP], 0);
    assert_says(v.heard[1].last[SL_HAPPENED_STRANGER], "does not know the run's key");
    assert_true(*v.memory[0]->reason);
    finish(&v);
}

static sl_status stop_when_lost_there(conveyance *v) {
    if (atomic_load(&v->memory[1]->lost))
        sl_loop_stop(v->loop);
    return SL_OK;
}

/* An end that takes the same rail for TCP sends frames where an address of UCX is awaited. */
static void an_end_that_does_not_speak_ucx_is_told_apart(void **state) {
    (void)state;
    conveyance v;
    begin(&v, 1, 2, 100);
    add_ucx_rail(&v, "127.0.0.1");
    v.config[0].rail[0].kind = SL_RAIL_TCP;
    v.config[1].outage = 400 * SL_MS;
    v.step = stop_when_lost_there;
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    assert_int_equal(v.heard[1].count[SL_HAPPENED_RAIL_UP], 0);
    assert_int_equal(v.taken, 0);
    assert_true(atomic_load(&v.memory[1]->lost));
    finish(&v);
}

/* ---- UCX's own connections break */

static int port_of(const struct sockaddr_in *a) {
    return ntohs(a->sin_port);
}

/* Shuts one of the TCP connections of this process that are not rails' own, but UCX's. 0: there is none. */
static int break_a_connection_of_ucx(const conveyance *v) {
    for (int file = 1023; file > 2; file--) {
        struct sockaddr_in own, other;
        socklen_t own_size = sizeof own, other_size = sizeof other;
        int is_rail = 0;
        if (getsockname(file, (struct sockaddr *)&own, &own_size) != 0 || own.sin_family != AF_INET ||
            getpeername(file, (struct sockaddr *)&other, &other_size) != 0)
            continue;
        for (int r = 0; r < v->config[1].rails; r++)
            is_rail |=
                port_of(&own) == v->config[1].rail[r].port || port_of(&other) == v->config[1].rail[r].port;
        if (!is_rail && shutdown(file, SHUT_RDWR) == 0)
            return 1;
    }
    return 0;
}

typedef struct breaks {
    uint64_t next;
    int count;
} breaks;

static sl_status break_now_and_then(conveyance *v) {
    breaks *b = v->object;
    if (v->taken >= b->next && b->count < 5 && sl_endpoint_rails_up(v->endpoint[0]) == v->config[0].rails &&
        break_a_connection_of_ucx(v)) {
        b->count++;
        b->next = v->taken + 40;
    }
    return SL_OK;
}

static void breaks_are_survived(int with_tcp) {
    conveyance v;
    breaks b = {.next = 20};
    begin(&v, 400, 4, 2000000);
    add_ucx_rail(&v, "127.0.0.1");
    if (with_tcp)
        add_rail(&v, "127.0.0.1");
    v.step = break_now_and_then;
    v.object = &b;
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    must_have_carried_all(&v);
    assert_true(b.count > 0);
    assert_true(v.heard[0].count[SL_HAPPENED_RAIL_DOWN] + v.heard[1].count[SL_HAPPENED_RAIL_DOWN] > 0);
    if (with_tcp)
        assert_int_equal(v.heard[0].rail_ups[1], 1); /* it went on all the time */
    finish(&v);
}

static void a_rail_whose_ucx_breaks_is_made_anew(void **state) {
    (void)state;
    breaks_are_survived(0);
}

static void tcp_goes_on_while_ucx_breaks(void **state) {
    (void)state;
    breaks_are_survived(1);
}

static void successors_at_both_ends_go_on(void **state) {
    (void)state;
    conveyance v;
    begin(&v, 200, 4, 500000);
    add_ucx_rail(&v, "127.0.0.1");
    v.finish_early = 1;
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    for (int i = 0; i < 6; i++) {
        v.count = 30 * (uint64_t)(i + 1);
        if (i)
            reopen_endpoint(&v, i % 2);
        if (i == 0)
            carry(&v);
        else
            assert_ok(sl_loop_run(v.loop));
    }
    must_have_carried_all(&v);
    finish(&v);
}

/* ---- the receiver as another process, which is this program with arguments */

#define SLOTS 4
#define LARGEST 2000000

typedef struct receiver {
    sl_endpoint_config config;
    sl_queue_view view;
    sl_endpoint *endpoint;
    sl_loop *loop;
} receiver;

static volatile sig_atomic_t told_to_close;

static void on_signal(int number) {
    (void)number;
    told_to_close = 1;
}

static sl_status look(void *context) {
    receiver *r = context;
    if (told_to_close)
        sl_loop_stop(r->loop);
    SL_TRY(sl_endpoint_look(r->endpoint));
    return sl_loop_at(r->loop, sl_clock_now(sl_clock_real()) + SL_MS, look, r, NULL);
}

/* Inherited: 100 the queue, 101 and on the listening sockets. `kinds`: of the rails, 1: UCX. */
static int receive(const char *kinds) {
    size_t bytes;
    receiver r = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sl_queue_size(SLOTS, LARGEST, &bytes) != SL_OK || sl_loop_open(&r.loop) != SL_OK)
        return 1;
    sl_queue *queue = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 100, 0);
    if (queue == MAP_FAILED || sl_queue_open(queue, bytes, &r.view) != SL_OK)
        return 1;
    r.config = (sl_endpoint_config){
        .from = 3, .to = 5, .number = 1, .key = {1, 2, 3}, .queue = &r.view, .silence = 10 * SL_SECOND};
    for (; kinds[r.config.rails]; r.config.rails++) {
        sl_rail_address *rail = &r.config.rail[r.config.rails];
        rail->kind = kinds[r.config.rails] == '1' ? SL_RAIL_UCX : SL_RAIL_TCP;
        snprintf(rail->address, sizeof rail->address, "127.0.0.1");
        r.config.listening[r.config.rails] = 101 + r.config.rails;
    }
    if (sl_endpoint_open(r.loop, &r.config, &r.endpoint) != SL_OK ||
        sl_loop_at(r.loop, 0, look, &r, NULL) != SL_OK)
        return 1;
    signal(SIGUSR1, on_signal);
    int failed = sl_loop_run(r.loop) != SL_OK;
    sl_endpoint_close(r.endpoint);
    sl_loop_close(r.loop);
    return failed;
}

typedef struct far {
    int memory;
    pid_t process;
    uint64_t next; /* messages, until the next trouble */
    int deaths, stalls;
    int stalled, silences;
} far;

static void start_receiver(conveyance *v, far *f) {
    char kinds[SL_RAILS_MAX + 1] = {0};
    for (int r = 0; r < v->config[0].rails; r++)
        kinds[r] = v->config[0].rail[r].kind == SL_RAIL_UCX ? '1' : '0';
    f->process = fork();
    assert_true(f->process >= 0);
    if (f->process)
        return;
    if (dup2(f->memory, 100) < 0)
        _exit(2);
    for (int r = 0; r < v->config[0].rails; r++)
        if (dup2(v->config[1].listening[r], 101 + r) < 0)
            _exit(2);
    execl("/proc/self/exe", "test_ucx", "receive", kinds, (char *)NULL);
    _exit(2);
}

static void end_receiver(far *f) {
    kill(f->process, SIGKILL);
    assert_int_equal(waitpid(f->process, NULL, 0), f->process);
}

static void begin_far(conveyance *v, far *f, const char *over_ucx, uint64_t count, sl_time silence) {
    size_t bytes;
    *f = (far){.next = 20};
    begin(v, count, SLOTS, LARGEST);
    assert_ok(sl_queue_size(SLOTS, LARGEST, &bytes));
    f->memory = memfd_create("queue", MFD_CLOEXEC);
    assert_true(f->memory >= 0 && ftruncate(f->memory, (off_t)bytes) == 0);
    free(v->memory[1]);
    v->memory[1] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->memory, 0);
    assert_true(v->memory[1] != MAP_FAILED);
    sl_queue_format(v->memory[1], SLOTS, LARGEST);
    assert_ok(sl_queue_open(v->memory[1], bytes, &v->view[1]));
    for (; *over_ucx; over_ucx++)
        *over_ucx == '1' ? add_ucx_rail(v, "127.0.0.1") : add_rail(v, "127.0.0.1");
    v->object = f;
    v->config[0].silence = silence;
    start_receiver(v, f);
    open_endpoint(v, 0);
}

static void finish_far(conveyance *v, far *f) {
    size_t bytes;
    end_receiver(f);
    assert_ok(sl_queue_size(SLOTS, LARGEST, &bytes));
    assert_int_equal(munmap(v->memory[1], bytes), 0);
    v->memory[1] = NULL;
    close(f->memory);
    finish(v);
}

static sl_status kill_in_mid_transfer(conveyance *v) {
    far *f = v->object;
    if (v->taken >= f->next && f->deaths < 4 && v->made > v->taken) {
        end_receiver(f);
        start_receiver(v, f);
        f->deaths++;
        f->next = v->taken + 30;
    }
    return SL_OK;
}

static void deaths_are_survived(const char *over_ucx) {
    conveyance v;
    far f;
    begin_far(&v, &f, over_ucx, 200, 0);
    v.step = kill_in_mid_transfer;
    carry(&v);
    must_have_carried_all(&v);
    assert_int_equal(f.deaths, 4);
    assert_true(v.heard[0].count[SL_HAPPENED_RAIL_DOWN] >= 4);
    finish_far(&v, &f);
}

static void a_killed_receiver_has_a_successor(void **state) {
    (void)state;
    deaths_are_survived("1");
}

static void a_killed_receiver_of_both_kinds_has_a_successor(void **state) {
    (void)state;
    deaths_are_survived("10");
}

/* Stops it, until its silence was noticed twice (and not something else first). */
static sl_status stall_until_it_is_left(conveyance *v) {
    far *f = v->object;
    int up = sl_endpoint_rails_up(v->endpoint[0]);
    if (f->stalled && up == 0) {
        f->silences += strstr(v->heard[0].last[SL_HAPPENED_RAIL_DOWN], "silent for ") != NULL;
        kill(f->process, SIGCONT);
        f->stalled = 0;
        f->next = v->taken + 30;
        v->hold = f->silences < 2;
    } else if (!f->stalled && up && f->silences < 2 && (v->taken >= f->next || v->taken == v->count)) {
        kill(f->process, SIGSTOP);
        f->stalled = 1;
        f->stalls++;
    }
    return SL_OK;
}

static void a_stalled_receiver_is_left_and_found_again(void **state) {
    (void)state;
    conveyance v;
    far f;
    begin_far(&v, &f, "1", 150, 0);
    v.hold = 1;
    v.step = stall_until_it_is_left;
    carry(&v);
    must_have_carried_all(&v);
    assert_int_equal(f.silences, 2);
    finish_far(&v, &f);
}

static sl_status close_at_the_end(conveyance *v) {
    far *f = v->object;
    if (v->taken == 20 && !f->deaths++)
        kill(f->process, SIGUSR1);
    if (v->heard[0].count[SL_HAPPENED_RAIL_DOWN])
        sl_loop_stop(v->loop);
    return SL_OK;
}

static void a_receiver_that_is_closed_says_goodbye(void **state) {
    (void)state;
    conveyance v;
    far f;
    begin_far(&v, &f, "1", 20, 10 * SL_SECOND);
    v.hold = 1;
    v.step = close_at_the_end;
    carry(&v);
    must_have_carried_all(&v);
    assert_int_equal(v.heard[0].count[SL_HAPPENED_GOODBYE], 1);
    assert_says(v.heard[0].last[SL_HAPPENED_RAIL_DOWN], "127.0.0.1");
    finish_far(&v, &f);
}

/* ---- */

static int files_open(void) {
    int count = 0;
    for (int file = 0; file < 1024; file++)
        count += fcntl(file, F_GETFD) >= 0;
    return count;
}

static void nothing_of_a_rail_stays_open(void **state) {
    (void)state;
    everything_arrives("11", 5, 2, 1000);
    int before = files_open();
    for (int i = 0; i < 5; i++)
        everything_arrives("11", 5, 2, 1000);
    assert_int_equal(files_open(), before);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "receive") == 0)
        return receive(argv[2]);
    /* no network devices but the system's: the same everywhere */
    setenv("UCX_TLS", "tcp,self", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_any_size_cross_a_ucx_rail),
        cmocka_unit_test(messages_are_striped_over_ucx_and_tcp),
        cmocka_unit_test(messages_are_striped_over_two_ucx_rails),
        cmocka_unit_test(one_place_is_enough),
        cmocka_unit_test(frames_go_over_ucx_not_over_the_socket),
        cmocka_unit_test(another_key_is_refused),
        cmocka_unit_test(an_end_that_does_not_speak_ucx_is_told_apart),
        cmocka_unit_test(a_rail_whose_ucx_breaks_is_made_anew),
        cmocka_unit_test(tcp_goes_on_while_ucx_breaks),
        cmocka_unit_test(a_receiver_that_is_closed_says_goodbye),
        cmocka_unit_test(successors_at_both_ends_go_on),
        cmocka_unit_test(a_killed_receiver_has_a_successor),
        cmocka_unit_test(a_killed_receiver_of_both_kinds_has_a_successor),
        cmocka_unit_test(a_stalled_receiver_is_left_and_found_again),
        cmocka_unit_test(nothing_of_a_rail_stays_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
