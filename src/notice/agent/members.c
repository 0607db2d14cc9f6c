#include "notice/agent/members.h"

#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;

enum { FIRST_FILE = 3, URL = 0, KEY, FILES }; /* descriptors of a child in addition to the standard ones */

/* The program's own environment, without what would put a probe into a validating process. */
static sl_status environment(char ***variables) {
    size_t count = 0, kept = 0;
    while (environ[count])
        count++;
    SL_TRY(sl_alloc(variables, count + 1, sizeof **variables));
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 && strncmp(environ[i], "SLACKLINE_PROBE", 15) != 0)
            (*variables)[kept++] = environ[i];
    return SL_OK;
}

/* A file in memory that holds `text`, for a child that gets its name: neither the list of processes nor the
 * environment shows its content, and it can be read again after the child executes another program. Above the
 * descriptors at which children find theirs; -1. */
static int secret_file(const char *text) {
    size_t length = strlen(text);
    int low = memfd_create("slackline", MFD_CLOEXEC);
    int file = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, FIRST_FILE + FILES);
    if (low >= 0)
        close(low);
    if (file >= 0 && write(file, text, length) != (ssize_t)length) {
        close(file);
        return -1;
    }
    return file;
}

/* This program, which is slackline: `healthcheck` is one of its commands. */
static pid_t spawn(const sl_member *m, const int file[FILES], char **variables) {
    char round[24], member[16], members[16], rank[16], pid[16], deadline[24];
    snprintf(round, sizeof round, "%lld", (long long)m->round);
    snprintf(member, sizeof member, "%d", m->member);
    snprintf(members, sizeof members, "%d", m->members);
    snprintf(rank, sizeof rank, "%d", m->rank);
    snprintf(pid, sizeof pid, "%d", m->pid);
    snprintf(deadline, sizeof deadline, "%lld", (long long)m->deadline_ms);
    const char *words[26] = {"slackline", "healthcheck", "--join",   "@/dev/fd/3", "--job",      m->job,
                             "--round",   round,         "--member", member,       "--members",  members,
                             "--rank",    rank,          "--pid",    pid,          "--deadline", deadline};
    size_t count = 18;
    if (m->links[0]) {
        words[count++] = "--links";
        words[count++] = m->links;
    }
    if (m->gemm)
        words[count++] = "--gemm";
    if (file[KEY] >= 0) {
        words[count++] = "--key";
        words[count++] = "@/dev/fd/4";
    }
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t child = -1;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", 0, 0);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", 1, 0);
    for (int i = 0; i < FILES; i++)
        if (file[i] >= 0)
            posix_spawn_file_actions_adddup2(&files, file[i], FIRST_FILE + i);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int error = posix_spawn(&child, "/proc/self/exe", &files, &attributes, (char *const *)(uintptr_t)words,
                            variables);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (error) {
        fprintf(stderr, "slackline: no validation of rank %d: %s\n", m->rank, strerror(error));
        return -1;
    }
    return child;
}

sl_status sl_members_start(sl_members *m, const sl_member *member, sl_time until) {
    char **variables;
    SL_TRY(sl_grow(&m->child, &m->capacity, m->children + 1, sizeof *m->child));
    SL_TRY(environment(&variables));
    const char *const secret[FILES] = {[URL] = member->store_url, [KEY] = member->key};
    int file[FILES] = {-1, -1}, failed = 0;
    for (int i = 0; i < FILES; i++)
        if (secret[i])
            failed |= (file[i] = secret_file(secret[i])) < 0;
    if (failed)
        fprintf(stderr, "slackline: no validation of rank %d: %s\n", member->rank, strerror(errno));
    pid_t child = failed ? -1 : spawn(member, file, variables);
    for (int i = 0; i < FILES; i++)
        if (file[i] >= 0)
            close(file[i]);
    sl_free(variables);
    if (child > 0)
        m->child[m->children++] = sl_subprocess_take(child);
    m->round = member->round;
    m->until = until;
    return SL_OK;
}

void sl_members_look(sl_members *m, sl_time now) {
    size_t kept = 0;
    for (size_t i = 0; i < m->children; i++)
        if (!sl_subprocess_wait(&m->child[i], 0, NULL))
            m->child[kept++] = m->child[i];
    m->children = kept;
    if (m->children > 0 && now >= m->until)
        sl_members_end(m);
}

void sl_members_end(sl_members *m) {
    const sl_subprocess_ending ending = {.what = "a validating process",
                                         .patience = m->patience > 0 ? m->patience : 2 * SL_SECOND};
    if (sl_subprocess_end(m->child, (int)m->children, &ending, NULL) != SL_OK)
        fprintf(stderr, "slackline: %s\n", sl_error_text());
    m->children = 0;
}

void sl_members_close(sl_members *m) {
    sl_members_end(m);
    sl_free(m->child);
    *m = (sl_members){0};
}
