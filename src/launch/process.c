#include "launch/process.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct living_process {
    pid_t pid, parent;
    int marked; /* to be signalled */
} living_process;

/* The parent of a living process; 0 if it has ended (or is a zombie), or cannot be read. */
static pid_t parent_of(pid_t pid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    if (size <= 0)
        return 0;
    text[size] = 0;
    const char *after = strrchr(text, ')'); /* the name before it may contain anything */
    char state;
    int parent;
    if (!after || sscanf(after + 1, " %c %d", &state, &parent) != 2 || state == 'Z' || state == 'X')
        return 0;
    return (pid_t)parent;
}

static int has_variable(pid_t pid, const char *line) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    char *content;
    size_t size;
    if (sl_file_read(path, &content, &size) != SL_OK)
        return 0;
    int found = 0;
    for (size_t at = 0; at < size && !found; at += strlen(content + at) + 1)
        found = strcmp(content + at, line) == 0;
    sl_free(content);
    return found;
}

/* Every process id in /proc. */
static int list(living_process **processes) {
    DIR *all = opendir("/proc");
    if (!all)
        return -1;
    size_t capacity = 0;
    int count = 0;
    *processes = NULL;
    for (struct dirent *entry; (entry = readdir(all));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        if (sl_grow(processes, &capacity, (size_t)count + 1, sizeof **processes) != SL_OK)
            break; /* the callers come back until none is left */
        (*processes)[count++] = (living_process){.pid = (pid_t)atoi(entry->d_name)};
    }
    closedir(all);
    return count;
}

static void mark_descendants(living_process *processes, int count, pid_t ancestor) {
    for (int changed = 1; changed;) {
        changed = 0;
        for (int i = 0; i < count; i++) {
            if (processes[i].marked || processes[i].parent == 0)
                continue;
            int descends = processes[i].parent == ancestor;
            for (int j = 0; j < count && !descends; j++)
                descends = processes[j].marked && processes[j].pid == processes[i].parent;
            processes[i].marked = descends;
            changed |= descends;
        }
    }
}

/* Whether a process still matches, after a pidfd holds it: its number may have been reused, and a descendant
 * may have been inherited meanwhile. */
static int is_meant(const living_process *process, pid_t ancestor, const char *line) {
    const pid_t parent = parent_of(process->pid);
    return line ? parent && has_variable(process->pid, line)
                : parent == process->parent || parent == ancestor;
}

/* Those of the list that are marked. */
static int signal_all(const living_process *processes, int count, pid_t ancestor, const char *line,
                      int signal) {
    int living = 0;
    for (int i = 0; i < count; i++) {
        int process = processes[i].marked ? (int)syscall(SYS_pidfd_open, processes[i].pid, 0) : -1;
        if (process < 0)
            continue;
        const int meant = is_meant(&processes[i], ancestor, line);
        if (meant && signal)
            syscall(SYS_pidfd_send_signal, process, signal, NULL, 0);
        living += meant;
        close(process);
    }
    return living;
}

int sl_process_signal_descendants(pid_t ancestor, pid_t except, int signal) {
    living_process *processes;
    int count = list(&processes);
    if (count < 0)
        return -1;
    for (int i = 0; i < count; i++)
        processes[i].parent = parent_of(processes[i].pid);
    mark_descendants(processes, count, ancestor);
    for (int i = 0; i < count; i++)
        processes[i].marked &= processes[i].pid != except;
    int living = signal_all(processes, count, ancestor, NULL, signal);
    sl_free(processes);
    return living;
}

int sl_process_signal_marked(const char *line, int signal) {
    living_process *processes;
    int count = list(&processes);
    if (count < 0)
        return -1;
    for (int i = 0; i < count; i++)
        processes[i].marked = processes[i].pid != getpid() && has_variable(processes[i].pid, line);
    int living = signal_all(processes, count, 0, line, signal);
    sl_free(processes);
    return living;
}

int sl_process_signal_run(const char *directory, int signal) {
    char line[512];
    int length = snprintf(line, sizeof line, "%s=%s", SL_LAUNCH_VARIABLE, directory);
    return length < 0 || (size_t)length >= sizeof line ? 0 : sl_process_signal_marked(line, signal);
}

void sl_process_end_run(const char *directory) {
    sl_time deadline = sl_now() + 5 * SL_SECOND;
    while (sl_process_signal_run(directory, SIGKILL) > 0) {
        sl_time now = sl_now();
        if (now >= deadline)
            break;
        sl_clock_sleep_until(sl_clock_real(), now + 10 * SL_MS);
    }
}
