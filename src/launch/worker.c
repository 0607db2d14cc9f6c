#include "launch/worker.h"
#include "base/clock.h"
#include "base/file.h"
#include "launch/directory.h"
#include "launch/run_folder.h"
#include "launch/worker_error.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct guarded {
    pid_t parent;
    int file; /* pidfd; -1: the kernel has none */
} guarded;

/* PR_SET_PDEATHSIG would usually suffice, but it fires when the parent's *thread* that forked ends, and
 * mpirun may fork from a thread of a pool. */
static void *watch_parent(void *argument) {
    const guarded *g = argument;
    struct pollfd ended = {.fd = g->file,
                           .events = POLLIN}; /* -1, without pidfds: never ready, so it looks */
    while (getppid() == g->parent && poll(&ended, 1, g->file < 0 ? 100 : -1) != 1)
        ;
    kill(getpid(), SIGKILL);
    return NULL;
}

static sl_status guard(void) {
    static guarded parent; /* of the process, read by its guard during its whole lifetime */
    parent.parent = getppid();
    parent.file = (int)syscall(SYS_pidfd_open, parent.parent, 0);
    if ((parent.file < 0 && errno == ESRCH) || getppid() != parent.parent)
        return sl_error(SL_EPEER, "mpirun is gone");
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are for its other threads */
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    int failed = pthread_create(&thread, &attributes, watch_parent, &parent);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? sl_error(SL_ESYS, "the guard thread cannot be started: %s", strerror(failed)) : SL_OK;
}

static const char *rank_from_environment(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID",
                                        NULL};
    for (int i = 0; names[i]; i++)
        if (getenv(names[i]))
            return getenv(names[i]);
    return NULL;
}

static void note_exit(int exit_code, void *context) {
    (void)context;
    const char *rank = rank_from_environment(), *temporary = getenv(SL_LAUNCH_VARIABLE);
    if (rank && temporary && exit_code != 0)
        sl_worker_exit_note(temporary, atoi(rank), exit_code);
}

/* Lets a message name the process of a rank (cause.c). */
static sl_status note_process(const char *temporary) {
    const char *rank = rank_from_environment();
    if (!rank)
        return SL_OK;
    char path[512], text[32];
    snprintf(path, sizeof path, "%s/rank.%d", temporary, atoi(rank));
    int size = snprintf(text, sizeof text, "%d\n", (int)getpid());
    return sl_file_write(path, text, (size_t)size);
}

/* Equal for all ranks of a job, different between jobs that live at the same time. */
static void job_name(char *name, size_t size) {
    const char *space = getenv("PMIX_NAMESPACE"), *job = getenv("SLURM_JOB_ID"),
               *step = getenv("SLURM_STEP_ID");
    if (!space)
        space = getenv("OMPI_MCA_orte_ess_jobid");
    if (space)
        snprintf(name, size, "job-%.100s", space);
    else if (job && step)
        snprintf(name, size, "job-%.50s-%.50s", job, step);
    else
        snprintf(name, size, "process-%d", (int)getpid());
    for (char *at = name; *at; at++)
        if (*at == '/')
            *at = '-';
}

sl_status sl_launch_worker_begin(sl_launch_worker *worker) {
    memset(worker, 0, sizeof *worker);
    worker->lock = worker->folder = -1;
    const char *run = getenv(SL_LAUNCH_VARIABLE);
    if (run) {
        if (strlen(run) >= sizeof worker->temporary)
            return sl_error(SL_EINVAL, "%s: the path is too long", SL_LAUNCH_VARIABLE);
        snprintf(worker->temporary, sizeof worker->temporary, "%s", run);
        worker->supervised = 1;
        SL_TRY(guard());
        sl_launch_directory part;
        SL_TRY(sl_launch_directory_enter(worker->temporary, &part));
        worker->lock = part.lock;
        on_exit(note_exit, NULL);
        return note_process(worker->temporary);
    }
    char name[160];
    sl_launch_directory directory;
    job_name(name, sizeof name);
    sl_launch_directory_clear(NULL);
    SL_TRY(sl_launch_directory_join(name, &directory));
    memcpy(worker->temporary, directory.path, sizeof directory.path);
    worker->lock = directory.lock;
    return SL_OK;
}

static void leave(sl_launch_worker *worker) {
    sl_launch_directory directory = {.lock = worker->lock};
    memcpy(directory.path, worker->temporary, sizeof directory.path);
    sl_launch_directory_leave(&directory);
    worker->lock = -1;
    if (worker->folder >= 0)
        close(worker->folder);
    worker->folder = -1;
}

static void warnings(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGUSR1);
}

/* Blocked in all threads and fetched between two iterations, so that it interrupts no system call. */
void sl_launch_worker_expect_warning(const sl_launch_worker *worker) {
    sigset_t set;
    warnings(&set);
    if (worker->supervised)
        sigdelset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int sl_launch_worker_warned(void) {
    static const struct timespec at_once = {0};
    sigset_t set, blocked;
    warnings(&set);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (!sigismember(&blocked, SIGTERM))
        sigdelset(&set, SIGTERM);
    return sigtimedwait(&set, NULL, &at_once) > 0;
}

sl_status sl_launch_worker_own(sl_launch_worker *worker, const char *folder) {
    sl_launch_folder own;
    if (worker->supervised)
        return SL_OK;
    sl_status status = sl_launch_folder_open(folder, &own);
    if (status == SL_OK)
        worker->folder = own.lock;
    else
        sl_launch_folder_close(&own);
    return status;
}

void sl_launch_worker_end(sl_launch_worker *worker) {
    leave(worker);
}

_Noreturn void sl_launch_worker_fail(sl_launch_worker *worker, int rank, sl_status status) {
    char text[1024];
    snprintf(text, sizeof text, "%s", sl_error_text());
    const char *environment = rank_from_environment();
    if (rank < 0 && environment)
        rank = atoi(environment);
    if (status == SL_EPEER)
        sl_clock_sleep_until(sl_clock_real(), sl_now() + SL_SECOND);
    if (worker->supervised && worker->lock >= 0)
        sl_worker_error_send(rank, status, text);
    else if (!worker->supervised || sl_worker_error_leave(worker->temporary, rank, status, text) != SL_OK)
        fprintf(stderr, "slackline: rank %d: %s\n", rank, text);
    fflush(NULL);
    leave(worker);
    _exit(status == SL_OK ? 1 : sl_exit_code(status));
}
