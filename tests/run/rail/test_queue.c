/* Queues between two threads and between processes, one of which is killed again and again. */
#include "check.h"

#include "base/clock.h"
#include "base/random.h"
#include "run/rail/queue.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAYLOAD 1000

/* Size and content of message n are functions of n, so that any place that is not exactly right shows. */
static size_t size_of(uint64_t n) {
    return (size_t)(sl_random_mix(n) % (PAYLOAD / 8 + 1)) * 8;
}

static void fill(const sl_queue_view *view, uint64_t n) {
    sl_slot_header *header = sl_queue_slot(view, n);
    header->iteration = (uint32_t)n;
    header->index = (uint32_t)sl_random_mix(n + 1);
    header->bytes = size_of(n);
    uint64_t *payload = sl_queue_payload(view, n);
    for (size_t i = 0; i < size_of(n) / 8; i++)
        payload[i] = sl_random_mix(n * 1000 + i);
}

/* 1 when place n holds exactly message n. */
static int holds(const sl_queue_view *view, uint64_t n) {
    const sl_slot_header *header = sl_queue_slot(view, n);
    if (header->iteration != (uint32_t)n || header->index != (uint32_t)sl_random_mix(n + 1) ||
        header->bytes != size_of(n))
        return 0;
    const uint64_t *payload = sl_queue_payload(view, n);
    for (size_t i = 0; i < size_of(n) / 8; i++)
        if (payload[i] != sl_random_mix(n * 1000 + i))
            return 0;
    return 1;
}

static sl_queue *make(uint32_t slots, size_t *bytes) {
    assert_int_equal(sl_queue_size(slots, PAYLOAD, bytes), SL_OK);
    sl_queue *queue = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(queue, MAP_FAILED);
    sl_queue_format(queue, slots, PAYLOAD);
    return queue;
}

/* Puts messages until `count` are put in all, from wherever the queue stands. */
static void produce(sl_queue_view *view, uint64_t count) {
    for (;;) {
        uint64_t n = atomic_load(&view->queue->put);
        if (n == count)
            return;
        uint32_t bell = atomic_load(&view->queue->done_bell);
        if (!sl_queue_has_room(view)) {
            sl_clock_wait(sl_clock_real(), &view->queue->done_bell, bell, SL_TIME_NEVER);
            continue;
        }
        fill(view, n);
        sl_queue_put(view);
    }
}

/* Waits for message n; 1 when it is right. */
static int take(sl_queue_view *view, uint64_t n) {
    for (;;) {
        uint32_t bell = atomic_load(&view->queue->put_bell);
        if (atomic_load_explicit(&view->queue->put, memory_order_acquire) > n)
            return holds(view, n);
        sl_clock_wait(sl_clock_real(), &view->queue->put_bell, bell, SL_TIME_NEVER);
    }
}

typedef struct side {
    sl_queue_view view;
    uint64_t count;
} side;

static void *produce_all(void *argument) {
    side *s = argument;
    produce(&s->view, s->count);
    return NULL;
}

static void two_threads_hand_over_every_message_in_order(void **state) {
    (void)state;
    for (uint32_t slots = 1; slots <= 9; slots += 4) {
        size_t bytes;
        sl_queue *queue = make(slots, &bytes);
        side producer = {.count = 5000};
        sl_queue_view consumer;
        assert_int_equal(sl_queue_open(queue, bytes, &producer.view), SL_OK);
        assert_int_equal(sl_queue_open(queue, bytes, &consumer), SL_OK);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, produce_all, &producer), 0);
        uint64_t wrong = 0;
        for (uint64_t n = 0; n < producer.count; n++) {
            wrong += !take(&consumer, n);
            sl_queue_done(&consumer);
        }
        pthread_join(thread, NULL);
        assert_int_equal(wrong, 0);
        assert_int_equal(atomic_load(&queue->put), producer.count);
        munmap(queue, bytes);
    }
}

static void a_full_queue_has_no_room_until_a_place_is_done(void **state) {
    (void)state;
    size_t bytes;
    sl_queue *queue = make(2, &bytes);
    sl_queue_view view;
    assert_int_equal(sl_queue_open(queue, bytes, &view), SL_OK);
    assert_int_equal(sl_queue_has_room(&view), 1);
    sl_queue_put(&view);
    assert_int_equal(sl_queue_has_room(&view), 1);
    sl_queue_put(&view);
    assert_int_equal(sl_queue_has_room(&view), 0);
    sl_queue_done(&view);
    assert_int_equal(sl_queue_has_room(&view), 1);
    munmap(queue, bytes);
}

static void memory_that_holds_no_queue_is_refused(void **state) {
    (void)state;
    size_t bytes;
    sl_queue *queue = make(3, &bytes);
    sl_queue_view view;
    assert_int_equal(sl_queue_open(queue, bytes - 1, &view), SL_EPEER);
    assert_int_equal(sl_queue_open(queue, 10, &view), SL_EPEER);
    queue->slots = 4;
    assert_int_not_equal(sl_queue_open(queue, bytes, &view), SL_OK);
    queue->slots = 0;
    assert_int_not_equal(sl_queue_open(queue, bytes, &view), SL_OK);
    queue->slots = 3;
    queue->payload_bytes = UINT64_MAX - 3;
    assert_int_not_equal(sl_queue_open(queue, bytes, &view), SL_OK);
    queue->payload_bytes = PAYLOAD;
    atomic_store(&queue->done, 1); /* more done than put */
    assert_int_equal(sl_queue_open(queue, bytes, &view), SL_EPEER);
    atomic_store(&queue->done, 0);
    assert_int_equal(sl_queue_open(queue, bytes, &view), SL_OK);
    queue->magic++;
    assert_int_equal(sl_queue_open(queue, bytes, &view), SL_EPEER);
    munmap(queue, bytes);
    size_t size;
    assert_int_equal(sl_queue_size(UINT32_MAX, UINT64_MAX / 4, &size), SL_EINVAL);
    assert_int_equal(sl_queue_size(0, 1, &size), SL_EINVAL);
}

static void who_gives_up_wakes_the_other_with_the_first_reason(void **state) {
    (void)state;
    size_t bytes;
    sl_queue *queue = make(1, &bytes);
    sl_queue_view view;
    assert_int_equal(sl_queue_open(queue, bytes, &view), SL_OK);
    uint32_t put = atomic_load(&queue->put_bell), done = atomic_load(&queue->done_bell);
    sl_queue_lose(&view, "no rail for 30 s");
    sl_queue_lose(&view, "another reason");
    assert_int_equal(atomic_load(&queue->lost), 1);
    assert_string_equal(queue->reason, "no rail for 30 s");
    assert_int_not_equal(atomic_load(&queue->put_bell), put);
    assert_int_not_equal(atomic_load(&queue->done_bell), done);
    munmap(queue, bytes);
}

/* ---- processes that are killed ---- */

typedef struct ledger {
    uint64_t count;
    _Atomic uint64_t wrong;
    uint8_t seen[]; /* [count]: 1 once a consumer found message n right */
} ledger;

static void consume(sl_queue_view *view, ledger *book) {
    for (;;) {
        uint64_t n = atomic_load(&view->queue->done);
        if (n == book->count)
            return;
        if (take(view, n))
            book->seen[n] = 1;
        else
            atomic_fetch_add(&book->wrong, 1);
        sl_queue_done(view);
    }
}

static pid_t start(sl_queue *queue, size_t bytes, ledger *book, int produces) {
    fflush(NULL);
    pid_t parent = getpid(), pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sl_queue_view view;
    if (getppid() != parent || sl_queue_open(queue, bytes, &view) != SL_OK)
        _exit(1);
    if (produces)
        produce(&view, book->count);
    else
        consume(&view, book);
    _exit(0);
}

/* The side `killed` (1: producer) is killed at random moments and followed by a successor `kills` times. */
static void kill_one_side(int killed, int kills) {
    size_t bytes;
    sl_queue *queue = make(3, &bytes);
    size_t book_bytes = sizeof(ledger) + 60000;
    ledger *book = mmap(NULL, book_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(book, MAP_FAILED);
    book->count = 60000;
    const char *given = getenv("SL_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)sl_clock_now(sl_clock_real());
    printf("seed %llu\n", (unsigned long long)seed);
    pid_t other = start(queue, bytes, book, !killed), victim = start(queue, bytes, book, killed);
    int status, died = 0;
    for (int i = 0; i < kills; i++) {
        struct timespec pause = {.tv_nsec = (long)(sl_random_mix(seed + (uint64_t)i) % 2000000)};
        nanosleep(&pause, NULL);
        kill(victim, SIGKILL);
        assert_int_equal(waitpid(victim, &status, 0), victim);
        died += WIFSIGNALED(status);
        victim = start(queue, bytes, book, killed);
    }
    assert_int_equal(waitpid(victim, &status, 0), victim);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    printf("%d of %d died in the middle\n", died, kills);
    assert_int_equal(atomic_load(&book->wrong), 0);
    for (uint64_t n = 0; n < book->count; n++)
        assert_int_equal(book->seen[n], 1);
    assert_int_equal(atomic_load(&queue->put), book->count);
    assert_int_equal(atomic_load(&queue->done), book->count);
    munmap(book, book_bytes);
    munmap(queue, bytes);
}

static void the_successor_of_a_killed_producer_goes_on(void **state) {
    (void)state;
    kill_one_side(1, 40);
}

static void the_successor_of_a_killed_consumer_goes_on(void **state) {
    (void)state;
    kill_one_side(0, 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_threads_hand_over_every_message_in_order),
        cmocka_unit_test(a_full_queue_has_no_room_until_a_place_is_done),
        cmocka_unit_test(memory_that_holds_no_queue_is_refused),
        cmocka_unit_test(who_gives_up_wakes_the_other_with_the_first_reason),
        cmocka_unit_test(the_successor_of_a_killed_producer_goes_on),
        cmocka_unit_test(the_successor_of_a_killed_consumer_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
