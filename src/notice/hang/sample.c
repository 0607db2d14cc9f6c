#include "notice/hang/sample.h"
#include "base/clock.h"
#include "base/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_LIMIT (5 * SL_SECOND)
enum { FRAMES = 6 };

static void read_line(int pid, int tid, const char *name, char *line, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/%s", pid, tid, name);
    FILE *file = fopen(path, "re");
    line[0] = 0;
    if (file && fgets(line, (int)size, file))
        line[strcspn(line, "\n")] = 0;
    if (file)
        fclose(file);
}

/* ---- what it does, for the kernel ---- */

typedef struct known_call {
    long number;
    const char *words;
    int file; /* its first argument is a file, which is named */
} known_call;

static const known_call known_calls[] = {
    {SYS_futex, "waits for a lock or for another thread", 0},
    {SYS_nanosleep, "sleeps", 0},
    {SYS_clock_nanosleep, "sleeps", 0},
    {SYS_read, "reads", 1},
    {SYS_pread64, "reads", 1},
    {SYS_readv, "reads", 1},
    {SYS_write, "writes", 1},
    {SYS_pwrite64, "writes", 1},
    {SYS_writev, "writes", 1},
    {SYS_fsync, "writes to disk", 1},
    {SYS_fdatasync, "writes to disk", 1},
    {SYS_flock, "waits for the lock of", 1},
    {SYS_fcntl, "waits for the lock of", 1},
    {SYS_connect, "waits for a connection", 0},
    {SYS_accept, "waits for a connection", 0},
    {SYS_accept4, "waits for a connection", 0},
    {SYS_recvfrom, "waits for data from a socket", 0},
    {SYS_recvmsg, "waits for data from a socket", 0},
    {SYS_sendto, "waits to send on a socket", 0},
    {SYS_sendmsg, "waits to send on a socket", 0},
    {SYS_wait4, "waits for a child process", 0},
    {SYS_waitid, "waits for a child process", 0},
    {SYS_ppoll, "waits for files or sockets", 0},
    {SYS_pselect6, "waits for files or sockets", 0},
    {SYS_epoll_pwait, "waits for files or sockets", 0},
#ifdef SYS_poll
    {SYS_poll, "waits for files or sockets", 0},
    {SYS_select, "waits for files or sockets", 0},
    {SYS_epoll_wait, "waits for files or sockets", 0},
    {SYS_pause, "sleeps until a signal", 0},
#endif
};

static void name_sleep(int pid, int tid, char *doing, size_t size) {
    char line[256], path[64], file[200] = "";
    long number = -1;
    unsigned long long argument = 0;
    read_line(pid, tid, "syscall", line, sizeof line);
    if (sscanf(line, "%ld %llx", &number, &argument) >= 1)
        for (size_t i = 0; i < sizeof known_calls / sizeof *known_calls; i++) {
            const known_call *k = &known_calls[i];
            if (k->number != number)
                continue;
            snprintf(path, sizeof path, "/proc/%d/fd/%llu", pid, argument);
            ssize_t length = k->file ? readlink(path, file, sizeof file - 1) : 0;
            file[length > 0 ? length : 0] = 0;
            snprintf(doing, size, "%s%s%.60s", k->words, file[0] ? " " : "", file);
            return;
        }
    read_line(pid, tid, "wchan", line, sizeof line);
    if (line[0] && strcmp(line, "0") != 0)
        snprintf(doing, size, "sleeps in the kernel (%.60s)", line);
    else
        snprintf(doing, size, "sleeps");
}

static void name_state(int pid, int tid, sl_hang_thread *t) {
    char line[512];
    read_line(pid, tid, "stat", line, sizeof line);
    const char *after = strrchr(line, ')');
    t->state = after && after[1] ? after[2] : '?';
    switch (t->state) {
    case 'R':
        snprintf(t->doing, sizeof t->doing, "computes");
        break;
    case 'D':
        snprintf(t->doing, sizeof t->doing, "waits for a disk or a file system");
        break;
    case 'T':
        snprintf(t->doing, sizeof t->doing, "is stopped by a signal (process %d)", pid);
        break;
    case 't':
        snprintf(t->doing, sizeof t->doing, "is stopped by a debugger (process %d)", pid);
        break;
    case 'S':
        name_sleep(pid, tid, t->doing, sizeof t->doing);
        break;
    default:
        snprintf(t->doing, sizeof t->doing, "is in an unknown state");
    }
}

/* ---- native frames, by eu-stack ---- */

/* "#0  0x000055d5 spin" -> "spin". */
static const char *function_of(char *line) {
    char *name = strstr(line, "0x");
    name = line[0] == '#' && name ? strchr(name, ' ') : NULL;
    if (!name)
        return NULL;
    name++;
    name[strcspn(name, " \n")] = 0;
    return name[0] ? name : NULL;
}

static void join_frames(FILE *out, char *text, size_t size) {
    char line[1024];
    int shown = 0;
    text[0] = 0;
    while (shown < FRAMES && fgets(line, sizeof line, out)) {
        const char *name = function_of(line);
        size_t used = strlen(text);
        if (!name || strlen(name) + 4 > size - used)
            continue;
        snprintf(text + used, size - used, "%s%s", used ? " < " : "", name);
        shown++;
        if (strcmp(name, "main") == 0)
            break;
    }
}

/* Its output goes to a file in memory, so a limit of time is one wait. */
static void native_frames(int tid, char *text, size_t size) {
    char number[16];
    int out = memfd_create("stack", MFD_CLOEXEC);
    pid_t pid;
    posix_spawn_file_actions_t files;
    snprintf(number, sizeof number, "%d", tid);
    char *words[] = {(char *)"eu-stack", (char *)"-1", (char *)"-p", number, NULL};
    char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    char *environment[] = {path, NULL}; /* no DEBUGINFOD_URLS: nothing is downloaded */
    if (out < 0)
        return;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    int error = posix_spawnp(&pid, words[0], &files, NULL, words, environment);
    posix_spawn_file_actions_destroy(&files);
    if (error == 0) {
        sl_subprocess child = sl_subprocess_take(pid);
        if (!sl_subprocess_wait(&child, sl_now() + STACK_LIMIT, NULL)) {
            sl_subprocess_ending ending = {.what = "eu-stack", .signal = SIGTERM, .grace = SL_SECOND};
            (void)sl_subprocess_end(&child, 1, &ending, NULL); /* it lets the thread go */
        }
    }
    FILE *frames = fdopen(out, "r");
    if (!frames) {
        close(out);
        return;
    }
    rewind(frames);
    join_frames(frames, text, size);
    fclose(frames);
}

void sl_hang_sample(int pid, int tid, int native, sl_hang_thread *thread) {
    name_state(pid, tid, thread);
    if (sl_hang_python_frames(pid, tid, thread->frames, sizeof thread->frames))
        return;
    if (native && thread->state == 'R')
        native_frames(tid, thread->frames, sizeof thread->frames);
}
