/* Holds of a real MPI program of four ranks, at random moments. SL_SEED is the program's and the moments'. */
#include "base/random.h"
#include "check.h"
#include "notice/control/hold_cut.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef HOLDS
#define HOLDS 50
#endif
#ifndef SL_GATE_RANKS /* built without MPI */
#define SL_GATE_RANKS ""
#endif
#define RANKS 4
#define EVENTS "3000"

static char folder[64];
static char seed_text[24];
static uint64_t state;
static sl_gate *gates[RANKS];
static sl_gate_view *views[RANKS];
static double closure[HOLDS + 1];

static uint64_t draw(void) {
    state += SL_RANDOM_STEP;
    return sl_random_mix(state);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void pause_us(uint64_t us) {
    nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

static void clean(void) {
    char path[96];
    for (int r = 0; r < RANKS; r++) {
        snprintf(path, sizeof path, "%s/gate.%d", folder, r);
        unlink(path);
        snprintf(path, sizeof path, "%s/result.%d", folder, r);
        unlink(path);
    }
}

static pid_t start_program(void) {
    clean();
    pid_t child = fork();
    if (child == 0) {
        setenv("SL_GATES", folder, 1);
        execlp("mpirun", "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca",
               "mpi_yield_when_idle", "1", "--mca", "plm", "isolated", "--mca", "btl", "self,vader", "--mca",
               "orte_tmpdir_base", folder, "--mca", "btl_vader_backing_directory", folder, "-x", "SL_GATES",
               "-n", "4", SL_GATE_RANKS, seed_text, EVENTS, (char *)NULL);
        _exit(127);
    }
    return child;
}

/* Maps the gates of a program that has just been started; 0 when it ended before. */
static int map_gates(pid_t child) {
    for (int r = 0; r < RANKS; r++) {
        char path[96];
        struct stat about;
        snprintf(path, sizeof path, "%s/gate.%d", folder, r);
        int file;
        while ((file = open(path, O_RDWR)) < 0 || fstat(file, &about) != 0 ||
               about.st_size < (off_t)sizeof(sl_gate)) {
            if (file >= 0)
                close(file);
            if (waitpid(child, NULL, WNOHANG | WNOWAIT) == child)
                return 0;
            pause_us(1000);
        }
        gates[r] = mmap(NULL, sizeof(sl_gate), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        char text[128];
        while (sl_gate_read(gates[r], sizeof(sl_gate), text, sizeof text) != SL_FILE_OURS)
            pause_us(1000);
    }
    return 1;
}

static void unmap_gates(void) {
    for (int r = 0; r < RANKS; r++)
        munmap(gates[r], sizeof(sl_gate));
}

static void results(char text[RANKS][32]) {
    for (int r = 0; r < RANKS; r++) {
        char path[96];
        snprintf(path, sizeof path, "%s/result.%d", folder, r);
        FILE *file = fopen(path, "r");
        if (!file || !fgets(text[r], 32, file))
            fail_msg("seed %s: rank %d left no result", seed_text, r);
        fclose(file);
    }
}

/* Waits for the program's end; a program that hangs is a deadlock. */
static void finish(pid_t child) {
    int status = 0;
    for (int i = 0; i < 12000; i++) {
        if (waitpid(child, &status, WNOHANG) == child) {
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                fail_msg("seed %s: the program ended with status %d", seed_text, status);
            return;
        }
        pause_us(10000);
    }
    kill(child, SIGTERM);
    waitpid(child, &status, 0);
    fail_msg("seed %s: the program does not end", seed_text);
}

static int finished(void) {
    for (int r = 0; r < RANKS; r++)
        if (atomic_load(&gates[r]->finished))
            return 1;
    return 0;
}

/* What the ranks have done so far; equal at two moments when nobody has moved. */
static uint64_t progress(void) {
    uint64_t sum = 0;
    for (int r = 0; r < RANKS; r++) {
        sl_gate_look(gates[r], views[r]);
        sum = sl_random_mix(sum ^ views[r]->calls);
        for (uint32_t i = 0; i < views[r]->threads; i++)
            sum = sl_random_mix(sum ^ views[r]->thread[i].serial);
    }
    return sum;
}

/* One hold to its end; 1 closed, 0 released, with the time to closure. */
static int hold(uint32_t number, double *ms) {
    sl_cut *cut;
    assert_ok(sl_cut_create(&cut, RANKS, (sl_cut_limits){0}));
    int64_t began = now();
    for (int r = 0; r < RANKS; r++)
        sl_gate_hold(gates[r], number, began + SL_GATE_DEADLINE);
    sl_cut_verdict verdict;
    do {
        const sl_cut_raise *raises;
        size_t count;
        for (int r = 0; r < RANKS; r++)
            sl_gate_look(gates[r], views[r]);
        assert_ok(sl_cut_step(cut, (const sl_gate_view *const *)views, now(), &verdict, &raises, &count));
        for (size_t i = 0; i < count; i++)
            sl_gate_raise(gates[raises[i].rank], &raises[i].key, raises[i].target);
        for (int r = 0; r < RANKS && count > 0; r++)
            sl_gate_wake(gates[r]);
        if (verdict == SL_CUT_MOVING)
            pause_us(50);
    } while (verdict == SL_CUT_MOVING);
    *ms = (double)(now() - began) / 1e6;
    if (verdict == SL_CUT_CLOSED && !finished()) {
        uint64_t before = progress();
        pause_us(500 + draw() % 2000);
        if (progress() != before)
            fail_msg("seed %s: a rank moved in a closed hold", seed_text);
    } else if (verdict == SL_CUT_RELEASE)
        printf("hold %u released: %s\n", number, sl_cut_reason(cut));
    for (int r = 0; r < RANKS; r++)
        sl_gate_release(gates[r]);
    sl_cut_destroy(cut);
    return verdict == SL_CUT_CLOSED;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static char expected[RANKS][32];

static void every_hold_closes_and_no_result_changes(void **unused) {
    (void)unused;
    int holds = 0, closed = 0, runs = 0;
    while (holds < HOLDS) {
        pid_t child = start_program();
        char got[RANKS][32];
        int mapped = map_gates(child);
        while (mapped && holds < HOLDS && !finished()) {
            pause_us(draw() % 5000);
            double ms;
            if (hold((uint32_t)++holds, &ms))
                closure[closed++] = ms;
        }
        finish(child);
        if (mapped)
            unmap_gates();
        results(got);
        runs++;
        for (int r = 0; r < RANKS; r++)
            assert_string_equal(got[r], expected[r]);
    }
    qsort(closure, (size_t)closed, sizeof *closure, ascending);
    printf("%d holds in %d runs, %d closed: median %.2f ms, 99 %% %.2f ms, longest %.2f ms\n", holds, runs,
           closed, closure[closed / 2], closure[closed * 99 / 100], closure[closed - 1]);
    assert_int_equal(closed, holds);
}

/* The controller is killed in the middle of a hold; the ranks look at the deadline themselves. */
static void after_a_killed_controller_all_go_on_at_the_deadline(void **unused) {
    (void)unused;
    pid_t child = start_program();
    assert_true(map_gates(child));
    pause_us(5000);
    int64_t deadline = now() + INT64_C(400000000);
    pid_t controller = fork();
    if (controller == 0) {
        for (int r = 0; r < RANKS; r++)
            sl_gate_hold(gates[r], 1, deadline);
        for (;;)
            pause();
    }
    while (atomic_load(&gates[RANKS - 1]->hold) == 0 && now() < deadline)
        pause_us(100);
    kill(controller, SIGKILL);
    waitpid(controller, NULL, 0);
    finish(child);
    assert_true(now() >= deadline);
    for (int r = 0; r < RANKS; r++) /* cleared by whoever was parked there */
        assert_true(atomic_load(&gates[r]->hold) == 0);
    unmap_gates();
    char got[RANKS][32];
    results(got);
    for (int r = 0; r < RANKS; r++)
        assert_string_equal(got[r], expected[r]);
}

static int run_unheld(void **unused) {
    (void)unused;
    finish(start_program());
    results(expected);
    return 0;
}

int main(void) {
    if (access(SL_GATE_RANKS, X_OK) != 0) {
        printf("skipped: MPI is missing\n");
        return 77;
    }
    if (system("mpirun --version > /dev/null 2>&1") != 0) {
        printf("skipped: mpirun is missing\n");
        return 77;
    }
    const char *given = getenv("SL_SEED");
    state = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    snprintf(seed_text, sizeof seed_text, "%llu", (unsigned long long)state);
    printf("seed %s\n", seed_text);
    snprintf(folder, sizeof folder, "/tmp/gates.XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    for (int r = 0; r < RANKS; r++)
        views[r] = calloc(1, sizeof *views[r]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_hold_closes_and_no_result_changes),
        cmocka_unit_test(after_a_killed_controller_all_go_on_at_the_deadline),
    };
    int failed = cmocka_run_group_tests(tests, run_unheld, NULL);
    clean();
    for (int r = 0; r < RANKS; r++)
        free(views[r]);
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 ? 1 : failed;
}
