#include "launch/limits.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* 48: a rank with delegates and its neighbors, and mpirun with one rank; both with a margin. */
enum { FILES = 48, FILES_A_RANK = 4, FILES_USUAL = 1024, THREADS = 5, THREADS_A_RANK = 6 };

/* Max. open files of any process of a run with `ranks` ranks on this host. */
static long files_needed(int ranks) {
    return FILES + (long)FILES_A_RANK * ranks;
}

/* Raises the soft limit to `wanted` if the hard one allows it, else to the hard one; 0: it is below
 * `need`. */
static int raise_limit(int which, rlim_t need, rlim_t wanted, struct rlimit *limit) {
    if (getrlimit((__rlimit_resource_t)which, limit) != 0 || limit->rlim_cur == RLIM_INFINITY ||
        limit->rlim_cur >= need)
        return 1;
    struct rlimit raised = *limit;
    raised.rlim_cur = raised.rlim_max == RLIM_INFINITY || raised.rlim_max > wanted ? wanted : raised.rlim_max;
    if (raised.rlim_cur > limit->rlim_cur && setrlimit((__rlimit_resource_t)which, &raised) == 0)
        *limit = raised;
    return limit->rlim_cur >= need;
}

sl_status sl_limits_open_files(int ranks, const char *what) {
    struct rlimit limit;
    const rlim_t need = (rlim_t)files_needed(ranks);
    if (raise_limit(RLIMIT_NOFILE, need, need > FILES_USUAL ? need : FILES_USUAL, &limit))
        return SL_OK;
    return sl_error(
        SL_ENONE,
        "%s: each process needs up to %ld open files, and the limit is %ld (ulimit -Hn): raise it as "
        "root before the command (ulimit -n %ld), by LimitNOFILE= of a service, or docker run "
        "--ulimit nofile=%ld",
        what, (long)need, (long)limit.rlim_max, (long)need, (long)need);
}

/* ---- processes ---- */

/* The line "Threads:" of a process; 0 when it has ended. */
static long threads_of(const char *pid) {
    char path[300], line[256];
    long threads = 0;
    snprintf(path, sizeof path, "/proc/%s/status", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Threads: %ld", &threads) == 1)
            break;
    if (file)
        fclose(file);
    return threads;
}

/* Visible threads of this user: at most the number that the kernel counts. */
static long threads_of_user(void) {
    long threads = 0;
    DIR *all = opendir("/proc");
    for (const struct dirent *entry; all && (entry = readdir(all)) != NULL;) {
        struct stat about;
        if (isdigit((unsigned char)entry->d_name[0]) && fstatat(dirfd(all), entry->d_name, &about, 0) == 0 &&
            about.st_uid == getuid())
            threads += threads_of(entry->d_name);
    }
    if (all)
        closedir(all);
    return threads;
}

sl_status sl_limits_processes(int ranks, const char *what) {
    struct rlimit limit;
    if (geteuid() == 0 || getrlimit(RLIMIT_NPROC, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return SL_OK;
    const long more = THREADS + (long)THREADS_A_RANK * ranks, there = threads_of_user();
    if (raise_limit(RLIMIT_NPROC, (rlim_t)(there + more), limit.rlim_max, &limit))
        return SL_OK;
    return sl_error(
        SL_ENONE,
        "%s: need %ld processes and threads in addition to the %ld that this user has, and the limit is %ld "
        "(ulimit -Hu): raise it as root, by nproc in /etc/security/limits.conf or TasksMax= of a "
        "service",
        what, more, there, (long)limit.rlim_max);
}

/* ---- a command line ---- */

static int is_launcher(const char *program) {
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    return strcmp(name, "mpirun") == 0 || strcmp(name, "mpiexec") == 0 || strcmp(name, "orterun") == 0;
}

int sl_limits_ranks_of(char *const *command) {
    static const char *const options[] = {"-n", "-np", "--n", "--np", "-c", NULL};
    if (!command[0] || !is_launcher(command[0]))
        return 0;
    long ranks = 0;
    for (int i = 1; command[i] && command[i + 1]; i++)
        for (int k = 0; options[k] && ranks == 0; k++)
            if (strcmp(command[i], options[k]) == 0)
                ranks = strtol(command[i + 1], NULL, 10);
    return ranks > 0 && ranks <= 100000 ? (int)ranks : 0;
}
