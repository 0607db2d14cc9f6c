#include "base/build.h"
#include "base/clock.h"
#include "base/subprocess.h"
#include "launch/hosts.h"
#include "launch/selftest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

enum { AT_ONCE = 32 };

/* A test past its own limit has this long to end the processes it started. */
#define ENDING (30 * SL_SECOND)

/* The test of one host runs in its own process; its results come through a pipe: the output of the self-test,
 * ssh's messages, and after a '!' why the attempt failed. */
typedef struct one_test {
    sl_subprocess process;
    int words;
} one_test;

/* In the child: the attempt's output is the pipe. */
static _Noreturn void test_host(const sl_launch_host *host, char *program, uint64_t seed,
                                const sl_launch_folder *folder, const sl_launch_signals *signals,
                                sl_time limit, int words) {
    char number[32], where[sizeof host->name + 8], log[PATH_MAX + sizeof host->name + 16];
    snprintf(number, sizeof number, "%" PRIu64, seed);
    snprintf(where, sizeof where, "%s:1", host->name);
    snprintf(log, sizeof log, "%s/mpirun.%s.log", folder->path, host->name);
    char option[] = "--self-test", started[] = SL_BUILD_OPTION, build[SL_BUILD_WORDS];
    sl_build_words(build);
    char *const argv[] = {program, option, number, started, build, NULL};
    sl_launch_config config = {
        .directory = folder->path, .ranks = 1, .worker = argv, .hosts = where, .grace = SL_SECOND};
    sl_attempt_result attempt = {.signals = signals, .log = log, .limit = limit};
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* its reaper then ends what runs */
    dup2(words, STDOUT_FILENO);
    dup2(words, STDERR_FILENO); /* what ssh says */
    if (sl_launch_attempt(&config, folder, &attempt) != SL_OK)
        dprintf(words, "!%s\n", sl_error_text());
    _exit(0);
}

static sl_status start_test(const sl_launch_host *host, char *program, uint64_t seed,
                            const sl_launch_folder *folder, const sl_launch_signals *signals, sl_time limit,
                            one_test *test) {
    int files[2];
    fflush(NULL);
    if (pipe2(files, O_CLOEXEC) != 0)
        return sl_error_errno(SL_ESYS, "host %s cannot be tested", host->name);
    pid_t pid = fork();
    if (pid == 0) {
        close(files[0]);
        test_host(host, program, seed, folder, signals, limit, files[1]);
    }
    close(files[1]);
    test->words = files[0];
    if (pid < 0) {
        close(files[0]);
        return sl_error_errno(SL_ESYS, "host %s cannot be tested", host->name);
    }
    test->process = sl_subprocess_take(pid);
    return SL_OK;
}

/* Sleeps until that child has ended. A signal to this command is passed on to the tests, which then end soon.
 * SL_ESYS: it is left behind. */
static sl_status wait_for(one_test *tests, int count, int which, const sl_launch_signals *signals,
                          sl_time deadline, int *heard) {
    sigset_t awaited = signals->heard;
    *heard = 0;
    sigaddset(&awaited, SIGCHLD);
    for (;;) {
        if (sl_subprocess_wait(&tests[which].process, 0, NULL))
            return SL_OK;
        if (sl_now() >= deadline)
            return sl_subprocess_end(&tests[which].process, 1,
                                     &(sl_subprocess_ending){.what = "the test of a host"}, NULL);
        struct timespec turn = {.tv_nsec =
                                    200000000}; /* a child's end may be reported together with another's */
        int signal = sigtimedwait(&awaited, NULL, &turn);
        if (signal <= 0 || signal == SIGCHLD)
            continue;
        *heard = signal;
        for (int i = which; i < count; i++)
            sl_subprocess_signal(&tests[i].process, SIGTERM);
    }
}

static void read_words(int file, char *words, size_t size) {
    size_t used = 0;
    for (ssize_t got; used + 1 < size && (got = read(file, words + used, size - 1 - used)) > 0;)
        used += (size_t)got;
    words[used] = 0;
}

/* Start of the first line that starts with `start`; NULL: none does. */
static const char *find_line(const char *words, const char *start) {
    while (*words && strncmp(words, start, strlen(start)) != 0) {
        words += strcspn(words, "\n");
        words += *words == '\n';
    }
    return *words ? words : NULL;
}

/* ssh's message is more informative than mpirun's long banners, of which only the first sentence is kept. */
static void keep_reason(sl_launch_host *host, const char *words) {
    const char *reason = find_line(words, "!");
    words += strspn(words, "\r\n");
    size_t length = strcspn(words, "\r\n");
    if (reason && reason == words) {
        const char *sentence = strstr(++words, ". ");
        length = strcspn(words, "\n");
        if (sentence && (size_t)(sentence - words) < length)
            length = (size_t)(sentence - words);
    }
    snprintf(host->why, sizeof host->why, "%.*s", length < 250 ? (int)length : 250, words);
    if (length == 0)
        snprintf(host->why, sizeof host->why, "it does not answer");
}

static void check_answer(sl_launch_host *host, const char *words, uint64_t seed) {
    char expected[64];
    sl_self_test_words(seed, sl_self_test(seed), expected, sizeof expected);
    const char *answer = find_line(words, SL_SELF_TEST_WORDS);
    host->why[0] = 0;
    if (!answer)
        keep_reason(host, words);
    else if (strncmp(answer, expected, strlen(expected)) != 0)
        snprintf(host->why, sizeof host->why, "its self-test gives '%.*s', not '%.80s'",
                 (int)(strcspn(answer, "\n") % 80), answer, expected);
}

static int is_meant(const sl_launch_host *host, sl_launch_which which) {
    if ((host->slow[0] != 0) != (which == SL_LAUNCH_LEFT_ONES))
        return 0;
    return which != SL_LAUNCH_LOST || host->why[0];
}

/* Chooses at most AT_ONCE of the hosts; *at is set after the last of them. */
static int choose(const sl_launch_hosts *hosts, sl_launch_which which, int *at, sl_launch_host **chosen) {
    int count = 0;
    for (; *at < hosts->count && count < AT_ONCE; ++*at)
        if (is_meant(&hosts->host[*at], which))
            chosen[count++] = &hosts->host[*at];
    return count;
}

sl_status sl_launch_hosts_test(sl_launch_hosts *hosts, sl_launch_which which, char *program,
                               const sl_launch_folder *folder, const sl_launch_signals *signals,
                               sl_time limit, int *signal) {
    one_test tests[AT_ONCE];
    sl_launch_host *chosen[AT_ONCE];
    uint64_t seed;
    *signal = 0;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        return sl_error_errno(SL_ESYS, "no seed for the test of hosts");
    for (int at = 0, count; !*signal && (count = choose(hosts, which, &at, chosen)) > 0;) {
        int begun = 0;
        sl_time deadline = sl_now() + limit + ENDING;
        sl_status status = SL_OK;
        while (begun < count && status == SL_OK) {
            status = start_test(chosen[begun], program, seed, folder, signals, limit, &tests[begun]);
            begun += status == SL_OK;
        }
        for (int i = 0; i < begun; i++) {
            char words[2048];
            int heard;
            if (wait_for(tests, begun, i, signals, deadline, &heard) == SL_OK)
                read_words(tests[i].words, words, sizeof words);
            else
                snprintf(words, sizeof words, "%s", sl_error_text());
            *signal = heard ? heard : *signal;
            close(tests[i].words);
            if (!*signal)
                check_answer(chosen[i], words, seed);
        }
        SL_TRY(status);
    }
    return SL_OK;
}
