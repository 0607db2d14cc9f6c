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
#include "plan/draw/gantt_text.h"
#include "report/adaptation.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
extern const char sl_demo_run[]; /* examples/slow-link.yaml, made by the build */

#define DRAW_EVERY (SL_SECOND / 3)
#define SHARE 20 /* times as long as drawing took: the ranks need the processors */
enum { ITERATIONS = 80, BAR = 40 };

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

static int is_news(const sl_run_data_event *e) {
    static const char *const kinds[] = {"fault", "onset", "swap", "relief", "return"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(e->kind, kinds[i]) == 0)
            return 1;
    return 0;
}

static void say_event(const sl_run_data_event *e, const char *end) {
    const char *text = e->decided[0] ? e->decided : e->seen;
    const int is_named = !e->where[0] || strstr(text, e->where) != NULL;
    printf("iteration %d: %s%s%s, %s%s", e->iteration, e->kind, is_named ? "" : " of ",
           is_named ? "" : e->where, text, end);
}

static sl_status draw_gantt(const demo *d, const sl_recorded *recorded, size_t index, const char *end) {
    const sl_text_options options = {.width = d->terminal.columns ? sl_terminal_columns(&d->terminal) : 100,
                                     .colour = d->terminal.columns && d->terminal.colour};
    sl_timeline timeline = {0};
    char *text = NULL, *rest = NULL;
    size_t size;
    sl_status status = sl_recorded_timeline(recorded, index, &timeline);
    FILE *memory = status == SL_OK ? open_memstream(&text, &size) : NULL;
    if (memory) {
        status = sl_draw_text(&timeline, &options, memory);
        if (fclose(memory) != 0 && status == SL_OK)
            status = sl_error(SL_ENOMEM, "out of memory for the chart");
        for (char *line = strtok_r(text, "\n", &rest); line && status == SL_OK;
             line = strtok_r(NULL, "\n", &rest))
            printf("%s%s", line, end);
    }
    free(text);
    sl_timeline_free(&timeline);
    return status;
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

static void draw_frame(const demo *d, const shown *s) {
    static const char end[] = "\033[K\n";
    const sl_run_data_iteration *last = &s->data.iteration[s->data.iterations - 1];
    const int done = (last->iteration + 1) * BAR / ITERATIONS;
    long index = newest(s);
    printf("\033[HFour ranks train a small model. From iteration 25 to 50, the link between ranks 0 and 1 is "
           "60 ms "
           "slower.%s%s",
           end, end);
    printf("iteration %2d of %d  %.*s%.*s  %.0f ms, schedule %s%s", last->iteration + 1, ITERATIONS, done,
           "########################################", BAR - done, "........................................",
           last->time, last->schedule >= 0 ? s->data.name[last->schedule] : "", end);
    for (size_t i = s->data.events; i-- > 0;)
        if (is_news(&s->data.event[i])) {
            say_event(&s->data.event[i], end);
            break;
        }
    if (index >= 0) {
        printf("%siteration %d, F forward, I and W backward, then the microbatch:%s", end,
               s->recorded.iteration[index].iteration, end);
        (void)draw_gantt(d, &s->recorded, (size_t)index, end);
    }
    printf("\033[J");
    fflush(stdout);
}

static void say_news(demo *d, const shown *s) {
    for (; d->reported < s->data.events; d->reported++)
        if (is_news(&s->data.event[d->reported]))
            say_event(&s->data.event[d->reported], "\n");
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
            draw_frame(d, &s);
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
    static const char *const names[] = {"before", "while the link is slow", "with the new schedule"};
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
    for (int k = 0; k < SL_ADAPTATION_PARTS; k++)
        if (adaptation.part[k].recorded >= 0) {
            printf("\n%s: %.0f ms per iteration\n", names[k], adaptation.part[k].time);
            SL_TRY_GOTO(done, status, draw_gantt(d, &s.recorded, (size_t)adaptation.part[k].recorded, "\n"));
        }
    putchar('\n');
    sl_adaptation_report(&s.data, &adaptation, stdout);
    printf("\n\nThe run's folder: %s; its page: %s/report.html\n", d->folder, d->folder);
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
    if (d->terminal.columns)
        printf("\033[H\033[J");
    else
        printf("Four ranks train a small model. From iteration 25 to 50, the link between ranks 0 and 1 is "
               "60 ms "
               "slower.\n");
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
