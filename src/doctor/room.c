/* Available processors, memory, shared memory, files and addresses, and their limits. */
#include "doctor/doctor.h"

#include "base/file.h"
#include "base/memory.h"
#include "notice/validate/readings.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MIB (1024.0 * 1024.0)
#define MIN_SHARED 32.0 /* MiB: launch/directory.c uses at least this */
/* The examples start with 64; a run is refused below what it needs (launch/limits.h). */
#define MIN_FILES 256
#define MIN_SPACE 2048.0 /* MiB: the examples start with 1024 */
#define MIN_MEMORY 512.0 /* MiB: the largest of the examples, train-hybrid.yaml, takes 300 */

/* A short system file; "" if there is none. */
static void read_small(const char *folder, const char *name, char *text, size_t size) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s%s", folder, name);
    FILE *file = fopen(path, "re");
    size_t got = file ? fread(text, 1, size - 1, file) : 0;
    text[got] = 0;
    if (file)
        fclose(file);
}

static double cpu_of(const char *folder) {
    char text[128], period[64];
    read_small(folder, "/cpu.max", text, sizeof text);
    if (*text)
        return sl_read_cpu_max(text);
    read_small(folder, "/cpu.cfs_quota_us", text, sizeof text);
    read_small(folder, "/cpu.cfs_period_us", period, sizeof period);
    return *text && *period ? sl_read_cfs_quota(text, period) : 0;
}

/* MiB. Version 1 has a number near 2^63 for no limit. */
static double memory_of(const char *folder) {
    char text[64];
    read_small(folder, "/memory.max", text, sizeof text);
    if (!*text)
        read_small(folder, "/memory.limit_in_bytes", text, sizeof text);
    double bytes = strtod(text, NULL);
    return bytes > 0 && bytes < 1e18 ? bytes / MIB : 0;
}

/* The lowest limit of this process's group and those above it; 0: no limit. */
static double min_of(const char *controller, double (*limit_of)(const char *folder)) {
    char *cgroup = NULL, *mounts = NULL, folder[PATH_MAX];
    size_t size, mount = 0;
    double least = 0;
    int there = sl_file_read("/proc/self/cgroup", &cgroup, &size) == SL_OK &&
                sl_file_read("/proc/self/mountinfo", &mounts, &size) == SL_OK &&
                sl_read_group(cgroup, mounts, controller, folder, sizeof folder, &mount);
    while (there) {
        double limit = limit_of(folder);
        if (limit > 0 && (least == 0 || limit < least))
            least = limit;
        char *slash = strrchr(folder, '/');
        there = slash && (size_t)(slash - folder) >= mount && slash != folder;
        if (there)
            *slash = 0;
    }
    SL_FREE(cgroup, mounts);
    return least;
}

/* Of both versions of control groups. */
static double limit_by(const char *controller, double (*limit_of)(const char *folder)) {
    double one = min_of(controller, limit_of), two = min_of("", limit_of);
    return one == 0 || (two > 0 && two < one) ? two : one;
}

static void look_at_processors(sl_doctor *d) {
    cpu_set_t set;
    int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    double quota = limit_by("cpu", cpu_of);
    if (quota > 0 && quota < usable)
        sl_finding_report(d, "processors", SL_LIMITED,
                          "when the share is used up all threads stop for the rest of each period: "
                          "iterations jitter and links look slow",
                          "raise the group's cpu.max (containers: --cpus), or start fewer ranks and threads",
                          "%d of %ld, %.3g of their time (control group)", usable, all, quota);
    else
        sl_finding_add(d, "processors", SL_PRESENT, "%d of %ld, no quota", usable, all);
}

/* MiB of a line of /proc/meminfo. */
static double memory_line(const char *text, const char *title) {
    const char *at = strstr(text, title);
    return at ? strtod(at + strlen(title), NULL) / 1024 : 0;
}

static void look_at_memory(sl_doctor *d) {
    char text[4096], more[96] = "";
    read_small("/proc", "/meminfo", text, sizeof text);
    double all = memory_line(text, "MemTotal:"), free_now = memory_line(text, "MemAvailable:");
    double limit = limit_by("memory", memory_of);
    if (all <= 0) {
        sl_finding_add(d, "memory", SL_PRESENT, "how much is not known");
        return;
    }
    if (limit > 0 && limit < all)
        snprintf(more, sizeof more, ", limit of the control group %.0f MiB", limit);
    int little = free_now < MIN_MEMORY || (limit > 0 && limit < MIN_MEMORY);
    sl_finding_report(d, "memory", little ? SL_LIMITED : SL_PRESENT,
                      little ? "ranks may be killed for lack of memory: the examples of train take up to 300 "
                               "MiB, other models more"
                             : "",
                      little ? "raise the limit (containers: --memory)" : "", "%.0f MiB, %.0f available%s",
                      all, free_now, more);
}

static void look_at_shared_memory(sl_doctor *d) {
    static const char folder[] = "/dev/shm";
    static const char means[] =
        "ranks share memory through files in the run's folder (DIR/tmp), which is slower "
        "on a disk";
    struct statvfs found;
    if (access(folder, W_OK | X_OK) != 0 || statvfs(folder, &found) != 0) {
        sl_finding_report(d, folder, SL_LIMITED, means, "mount a tmpfs there that this user may write",
                          "cannot be written: %s", strerror(errno));
        return;
    }
    double free_now = (double)found.f_bavail * (double)found.f_frsize / MIB,
           all = (double)found.f_blocks * (double)found.f_frsize / MIB;
    int little = free_now < MIN_SHARED;
    sl_finding_report(d, folder, little ? SL_LIMITED : SL_PRESENT, little ? means : "",
                      little ? "at least 32 MiB must be free (containers: --shm-size=1g)" : "",
                      "%.0f MiB, %.0f free", all, free_now);
}

static void look_at_temporary(sl_doctor *d) {
    static const char name[] = "temporary files",
                      means[] = "healthcheck writes there, and an mpirun of your own",
                      remedy[] = "let TMPDIR name a folder that this user may write, or unset it";
    const char *said = getenv("TMPDIR");
    char folder[PATH_MAX];
    if (sl_doctor_folder(PATH_MAX, folder, sizeof folder) != SL_OK) {
        sl_finding_report(d, name, SL_BROKEN, means, remedy, "%s", sl_error_text());
        return;
    }
    if (said && strncmp(folder, said, strlen(said)) != 0)
        sl_finding_report(d, name, SL_LIMITED, means, remedy, "TMPDIR is %.200s, where no folder can be made",
                          said);
    else
        sl_finding_add(d, name, SL_PRESENT, "%.*s", (int)(strrchr(folder, '/') - folder), folder);
    sl_path_remove(folder);
}

/* "1024", or "no limit". */
static void print_limit(rlim_t limit, double unit, char *text, size_t size) {
    if (limit == RLIM_INFINITY)
        snprintf(text, size, "no limit");
    else
        snprintf(text, size, "%.0f", (double)limit / unit);
}

static void look_at_own_limits(sl_doctor *d) {
    struct rlimit files, space;
    char soft[32], hard[32], advice[160];
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        snprintf(
            advice, sizeof advice,
            "ulimit -n %d before the command (LimitNOFILE=%d in a service): enough for %d ranks on this host",
            MIN_FILES, MIN_FILES, (MIN_FILES - 48) / 4);
        int little = files.rlim_cur != RLIM_INFINITY && files.rlim_cur < MIN_FILES;
        print_limit(files.rlim_cur, 1, soft, sizeof soft);
        print_limit(files.rlim_max, 1, hard, sizeof hard);
        sl_finding_report(d, "open files", little ? SL_LIMITED : SL_PRESENT,
                          little
                              ? "a run needs 48 and 4 for each rank of this host in each process: the limit "
                                "is raised by itself "
                                "where it may be, and a run that needs more is refused"
                              : "",
                          little ? advice : "", "%s per process, may be raised to %s", soft, hard);
    }
    if (getrlimit(RLIMIT_AS, &space) == 0) {
        int little = space.rlim_cur != RLIM_INFINITY && (double)space.rlim_cur / MIB < MIN_SPACE;
        print_limit(space.rlim_cur, MIB, soft, sizeof soft);
        sl_finding_report(
            d, "address space", little ? SL_LIMITED : SL_PRESENT,
            little ? "ranks map more than they use: MPI, oneDNN's kernels and a stack for each thread; "
                     "training may fail for lack of memory that is there"
                   : "",
            little ? "ulimit -v unlimited before the command" : "", "%s%s", soft,
            space.rlim_cur == RLIM_INFINITY ? "" : " MiB per process");
    }
}

void sl_doctor_room(sl_doctor *d) {
    look_at_processors(d);
    look_at_memory(d);
    look_at_shared_memory(d);
    look_at_temporary(d);
    look_at_own_limits(d);
}
