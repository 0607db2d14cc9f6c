/* slackline demo: the run of examples/slow-link.yaml, drawn in the terminal while it trains. */
#include "base/clock.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/subprocess.h"
#include "base/terminal.h"
#include "cli/command.h"
#include "cli/plan_request.h"
#include "launch/run_folder.h"
#include "report/screens.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
extern const char sl_demo_run[]; /* examples/slow-link.yaml, made by the build */

#define DRAW_EVERY (SL_SECOND / 3)
#define SHARE 20                         /* times as long as drawing took: the ranks need the processors */
enum { ITERATIONS = 80, COLUMNS = 100 }; /* COLUMNS: without a terminal */

static const char title[] =
    "Four ranks train a small model. Link 0-1 is slow in iterations 25 to 49.";

typedef struct demo {
    const char *out;
    char folder[4096], file[4096], log[4096];
    sl_loop *loop;
    sl_subprocess train;
    sl_terminal terminal;
    size_t reported; /* events that have been printed, if there is no terminal */
} demo;

/* ---- what a run's folder shows ---- */

/* What was read of the folder; absent before the first iteration. */
typedef struct shown {
    sl_run_data data;
    sl_recorded recorded;
} shown;

static sl_status read_shown(const char *folder, shown *s) {
    *s = (shown){0};
    SL_TRY(sl_run_data_read(folder, &s->data));
    return sl_recorded_read(&s->data, &s->recorded);
}

static void free_shown(shown *s) {
    sl_recorded_free(&s->recorded);
    sl_run_data_free(&s->data);
}

/* ---- while it trains ---- */

/* The newest recorded iteration that is surely whole: one before the last; -1: none. */
static long newest(const shown *s) {
    const int last = s->data.iterations > 0 ? s->data.iteration[s->data.iterations - 1].iteration : -1;
    for (size_t i = s->recorded.iterations; i-- > 0;)
        if (s->recorded.iteration[i].iteration < last)
            return (long)i;
    return -1;
}

static sl_screens screens_of(const demo *d, const char *end) {
    return (sl_screens){.title = title,
                        .end = end,
                        .columns = d->terminal.columns ? sl_terminal_columns(&d->terminal) : COLUMNS,
                        .colour = d->terminal.columns && d->terminal.colour,
                        .iterations = ITERATIONS};
}

/* Whether the result with blank lines would not fit. */
static int is_low(void) {
    enum { RESULT_LINES = 28 };
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_row < RESULT_LINES;
}

static sl_status draw_screen(const demo *d, const shown *s) {
    sl_screens screens = screens_of(d, "\033[K\n");
    SL_TRY(sl_screens_widest(&s->recorded, &screens.widest));
    printf("\033[H");
    SL_TRY(sl_screens_iteration(&screens, &s->data, &s->recorded, s->data.iterations - 1, newest(s), stdout));
    printf("\033[J");
    fflush(stdout);
    return SL_OK;
}

static void say_news(demo *d, const shown *s) {
    const sl_screens screens = screens_of(d, "\n");
    for (; d->reported < s->data.events; d->reported++)
        if (sl_screens_has_event(&s->data.event[d->reported]))
            sl_screens_event(&screens, &s->data.event[d->reported], stdout);
    fflush(stdout);
}

static sl_status look(void *context) {
    demo *d = context;
    const sl_time began = sl_now();
    shown s;
    if (d->train.file < 0 && sl_subprocess_await(&d->train, 0)) {
        sl_loop_stop(d->loop);
        return SL_OK;
    }
    if (read_shown(d->folder, &s) == SL_OK && s.data.iterations > 0) {
        if (d->terminal.columns)
            (void)draw_screen(d, &s);
        else
            say_news(d, &s);
    }
    free_shown(&s);
    const sl_time now = sl_now(), rest = SHARE * (now - began);
    return sl_loop_at(d->loop, now + (rest > DRAW_EVERY ? rest : DRAW_EVERY), look, d, NULL);
}

static sl_status on_end(void *context, int file) {
    demo *d = context;
    (void)file;
    sl_loop_stop(d->loop);
    return SL_OK;
}

/* The run ends as it does without the demo. */
static sl_status on_signal(void *context, const siginfo_t *signal) {
    demo *d = context;
    sl_subprocess_signal(&d->train, signal->si_signo);
    return SL_OK;
}

/* ---- start and end ---- */

static sl_status start_train(demo *d) {
    char program[] = "/proc/self/exe", *argv[] = {program, "train", d->file, "--out", d->folder, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t pid = 0;
    sigemptyset(&none);
    int error = posix_spawn_file_actions_init(&files);
    if (error == 0 && (error = posix_spawnattr_init(&attributes)) == 0) {
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setpgroup(&attributes, 0); /* signals come from here alone */
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
        if ((error = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0)) == 0 &&
            (error = posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, d->log,
                                                      O_WRONLY | O_CREAT | O_TRUNC, 0666)) == 0 &&
            (error = posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO)) == 0)
            error = posix_spawn(&pid, program, &files, &attributes, argv, environ);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&files);
    }
    errno = error;
    if (error != 0)
        return sl_error_errno(SL_ESYS, "demo: slackline train cannot be started");
    d->train = sl_subprocess_take(pid);
    return SL_OK;
}

static sl_status hear_signals(demo *d) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return sl_loop_signals(d->loop, &set, on_signal, d);
}

/* The last line of the run's own output says why. */
static sl_status say_failure(const demo *d) {
    char *text = NULL;
    size_t size;
    const char *last = "no reason is known";
    if (sl_file_read(d->log, &text, &size) == SL_OK) {
        while (size > 0 && text[size - 1] == '\n')
            text[--size] = 0;
        last = strrchr(text, '\n') ? strrchr(text, '\n') + 1 : text;
        if (strncmp(last, "slackline: ", 11) == 0)
            last += 11;
    }
    sl_status status = sl_error(SL_ENONE, "demo: the run in %s has failed: %.700s", d->folder, last);
    sl_free(text);
    return status;
}

/* Iterations before, during and after, and what it was worth. */
static sl_status show_result(const demo *d) {
    sl_gain *gain = NULL;
    size_t gains;
    sl_adaptation adaptation;
    shown s;
    sl_status status;
    SL_TRY_GOTO(done, status, read_shown(d->folder, &s));
    SL_TRY_GOTO(done, status, sl_gain_make(&s.data, &gain, &gains));
    SL_TRY_GOTO(done, status, sl_adaptation_find(&s.data, &s.recorded, gain, gains, &adaptation));
    if (d->terminal.columns)
        printf("\033[H\033[J");
    sl_screens screens = screens_of(d, "\n");
    screens.is_tight = is_low();
    SL_TRY_GOTO(done, status, sl_screens_widest(&s.recorded, &screens.widest));
    SL_TRY_GOTO(done, status, sl_screens_result(&screens, &s.data, &s.recorded, &adaptation, stdout));
    printf("%sThe run's folder: %s; its page: %s/report.html\n", screens.is_tight ? "" : "\n", d->folder,
           d->folder);
done:
    sl_free(gain);
    free_shown(&s);
    return status;
}

static sl_status choose_folder(demo *d) {
    const int size = snprintf(d->folder, sizeof d->folder, "%s", d->out ? d->out : "runs/demo");
    if (size < 1 || (size_t)size >= sizeof d->folder - 16)
        return sl_error(SL_EINVAL, "demo: '%.200s' is not the path of a folder", d->out);
    if (sl_launch_folder_is_finished(d->folder)) {
        if (d->out)
            return sl_error(SL_EINVAL, "demo: %s holds a finished run; give another folder", d->folder);
        SL_TRY(sl_launch_folder_number(d->folder, sizeof d->folder, 0));
    }
    snprintf(d->file, sizeof d->file, "%.4070s.yaml", d->folder);
    snprintf(d->log, sizeof d->log, "%.4070s.log", d->folder);
    SL_TRY(sl_directory_make(d->folder));
    return sl_file_write(d->file, sl_demo_run, strlen(sl_demo_run));
}

static sl_status play(demo *d) {
    int status = 0;
    sl_terminal_of(STDOUT_FILENO, &d->terminal);
    SL_TRY(choose_folder(d));
    SL_TRY(sl_loop_open(&d->loop));
    SL_TRY(hear_signals(d));
    SL_TRY(start_train(d));
    printf("%s%s\n", d->terminal.columns ? "\033[H\033[J" : "", title);
    if (d->terminal.columns)
        printf("It starts. Ctrl-C ends it.\n");
    fflush(stdout);
    if (d->train.file >= 0)
        SL_TRY(sl_loop_watch(d->loop, d->train.file, on_end, d));
    SL_TRY(look(d));
    SL_TRY(sl_loop_run(d->loop));
    sl_subprocess_wait(&d->train, sl_now() + SL_SECOND, &status);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return say_failure(d);
    unlink(d->file); /* run.yaml in the folder is the same */
    unlink(d->log);
    return show_result(d);
}

static const sl_option options[] = {SL_OPTION("out", TEXT, demo, out, "DIR",
                                              "the run's folder (default: runs/demo, runs/demo-2, ...)",
                                              .completes = SL_COMPLETES_FOLDER),
                                    SL_OPTIONS_END};

static int run(int argc, char **argv) {
    demo *d;
    sl_status status = sl_alloc(&d, 1, sizeof *d);
    if (status != SL_OK)
        return sl_plan_request_end(status);
    status = sl_command_options(argc, argv, d);
    SL_THEN(status, play(d));
    if (d->train.pid)
        sl_subprocess_end(
            &d->train, 1,
            &(sl_subprocess_ending){.what = "the run", .signal = SIGTERM, .grace = 5 * SL_SECOND}, NULL);
    sl_loop_close(d->loop);
    sl_free(d);
    return sl_plan_request_end(status);
}

const sl_command sl_command_demo = {
    .name = "demo",
    .summary = "a slow link and the answer to it, live in this terminal",
    .about = "Runs examples/slow-link.yaml with slackline train: four ranks train a small model on this "
             "machine, a link "
             "between two of them gets slow, and the schedule changes. Shows the iterations op by op while "
             "they run, "
             "then what the change brought. The numbers are measured, and the run's folder stays.",
    .options = options,
    .exit_code = "0 trained, 1 failed or interrupted, 2 a wrong request.",
    .example = "slackline demo",
    .run = run};
