#include "launch/regain.h"
#include "base/clock.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static const sl_time limit = 30 * SL_SECOND; /* of the test of a host */
static const sl_time grace = 5 * SL_SECOND;  /* for the tests' own processes, if the attempt ends meanwhile */

enum { ANSWERS = 3 };

/* In the child. It keeps none of the attempt's files: the reaper must notice the supervisor's end. */
static _Noreturn void test_lost(const sl_regain *r, int answers) {
    sl_launch_hosts *hosts = &r->living->hosts;
    const sl_launch_folder *folder = r->living->folder;
    int signal;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(answers, ANSWERS);
    close_range(ANSWERS + 1, ~0U, 0);
    fcntl(ANSWERS, F_SETFD, FD_CLOEXEC);
    if (sl_launch_hosts_test(hosts, SL_LAUNCH_LOST, r->living->config->worker[0], folder, r->signals, limit,
                             &signal) != SL_OK ||
        signal)
        _exit(1);
    for (int i = 0; i < hosts->count; i++) {
        const char passes = !hosts->host[i].why[0];
        if (write(ANSWERS, &passes, 1) != 1)
            _exit(1);
    }
    _exit(0);
}

static sl_status begin(void *context);

static sl_status wait_for_next(sl_regain *r) {
    return sl_loop_at(r->loop, sl_now() + r->living->config->test_every, begin, r, NULL);
}

static void end_test(sl_regain *r) {
    if (r->answers >= 0) {
        sl_loop_unwatch(r->loop, r->answers);
        close(r->answers);
        r->answers = -1;
    }
    if (r->process.pid > 0 &&
        sl_subprocess_end(
            &r->process, 1,
            &(sl_subprocess_ending){.what = "the test of lost hosts", .signal = SIGTERM, .grace = grace},
            NULL) != SL_OK)
        fprintf(stderr, "slackline: %s\n", sl_error_text());
}

/* If the order cannot be written, the next test tries again. */
static void conclude(sl_regain *r) {
    sl_living *living = r->living;
    const size_t count = (size_t)living->hosts.count;
    if (r->heard != count || !sl_living_would_grow(living, r->passed))
        return;
    if (sl_roster_order_growth(living->folder->path) != SL_OK) {
        fprintf(stderr, "slackline: warning: lost hosts are back, but the run stays as it is: %s\n",
                sl_error_text());
        return;
    }
    memcpy(living->back, r->passed, count);
    r->grow(r->attempt);
}

static sl_status hear(void *context, int file) {
    sl_regain *r = context;
    char more[256];
    ssize_t got = read(file, more, sizeof more);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return SL_OK;
    if (got > 0) {
        size_t room = (size_t)r->living->hosts.count - r->heard;
        size_t taken = (size_t)got < room ? (size_t)got : room;
        memcpy(r->passed + r->heard, more, taken);
        r->heard += taken;
        if (r->heard < (size_t)r->living->hosts.count)
            return SL_OK;
    }
    end_test(r);
    conclude(r);
    return wait_for_next(r);
}

static int has_lost_some(const sl_living *living) {
    return memchr(living->lost, 1, (size_t)living->hosts.count) != NULL;
}

static sl_status begin(void *context) {
    sl_regain *r = context;
    int files[2];
    if (!has_lost_some(r->living) || sl_launch_folder_reached(r->living->folder).iteration <= r->reached)
        return wait_for_next(r);
    if (pipe2(files, O_CLOEXEC) != 0)
        return wait_for_next(r);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        test_lost(r, files[1]);
    close(files[1]);
    if (pid < 0) {
        close(files[0]);
        return wait_for_next(r);
    }
    r->process = sl_subprocess_take(pid);
    r->answers = files[0];
    r->heard = 0;
    return sl_loop_watch(r->loop, r->answers, hear, r);
}

static sl_status open_side(void *context, sl_loop *loop, void (*grow)(void *attempt), void *attempt) {
    sl_regain *r = context;
    r->loop = loop;
    r->grow = grow;
    r->attempt = attempt;
    SL_TRY(sl_alloc(&r->passed, (size_t)r->living->hosts.count, 1));
    return wait_for_next(r);
}

static void close_side(void *context) {
    sl_regain *r = context;
    end_test(r);
    sl_free(r->passed);
    r->passed = NULL;
}

sl_attempt_side sl_regain_side(sl_regain *regain) {
    regain->process = SL_SUBPROCESS_NONE;
    regain->answers = -1;
    return (sl_attempt_side){.open = open_side, .close = close_side, .context = regain};
}
