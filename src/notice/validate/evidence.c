#include "notice/validate/evidence.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A file of /proc or /sys; these have no size. Empty text if it cannot be read. */
static const char *read_small(const char *path, char *text, size_t size) {
    size_t used = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t got; file >= 0 && used + 1 < size && (got = read(file, text + used, size - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = 0;
    if (file >= 0)
        close(file);
    return text;
}

static double read_figure(const char *path) {
    char text[64];
    return strtod(read_small(path, text, sizeof text), NULL);
}

/* ---- the processors of the program's rank ---- */

static int group_of(int pid, const char *controller, char *folder, size_t size, size_t *mount) {
    char path[64], groups[4096], *mounts;
    size_t length;
    snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
    if (sl_file_read("/proc/self/mountinfo", &mounts, &length) != SL_OK)
        return 0;
    int found =
        sl_read_group(read_small(path, groups, sizeof groups), mounts, controller, folder, size, mount);
    sl_free(mounts);
    return found;
}

static const char *const controllers[] = {"cpu", "cpuset", ""};
enum { CONTROLLERS = 3 };

static int enter(const char *folder, char *why, size_t size) {
    char path[1100];
    snprintf(path, sizeof path, "%s/cgroup.procs", folder);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    int done = file >= 0 && dprintf(file, "%d\n", (int)getpid()) > 0;
    if (!done)
        snprintf(why, size, "%.90s: %.40s", path, strerror(errno));
    if (file >= 0)
        close(file);
    return done;
}

void sl_original_group_find(sl_original_group *original) {
    size_t mount;
    for (int i = 0; i < CONTROLLERS; i++)
        if (!group_of((int)getpid(), controllers[i], original->group[i], sizeof original->group[i], &mount))
            original->group[i][0] = 0;
    if (sched_getaffinity(0, sizeof original->cores, &original->cores) != 0)
        CPU_ZERO(&original->cores);
}

int sl_join_process(int pid, char *why, size_t size) {
    sl_original_group here;
    cpu_set_t set;
    int done = 1;
    why[0] = 0;
    sl_original_group_find(&here);
    for (int i = 0; i < CONTROLLERS; i++) {
        char theirs[1024];
        size_t mount;
        if (group_of(pid, controllers[i], theirs, sizeof theirs, &mount) &&
            strcmp(theirs, here.group[i]) != 0)
            done &= enter(theirs, why, size);
    }
    if (sched_getaffinity(pid, sizeof set, &set) != 0 || sched_setaffinity(0, sizeof set, &set) != 0) {
        snprintf(why, size, "the processors of process %d: %.60s", pid, strerror(errno));
        return 0;
    }
    return done;
}

int sl_original_group_return(const sl_original_group *original) {
    sl_original_group here;
    char why[160];
    int done = 1;
    sl_original_group_find(&here);
    for (int i = 0; i < CONTROLLERS; i++)
        if (original->group[i][0] && strcmp(original->group[i], here.group[i]) != 0)
            done &= enter(original->group[i], why, sizeof why);
    return done & (sched_setaffinity(0, sizeof original->cores, &original->cores) == 0);
}

int sl_gpus_of(int pid, const char *name) {
    enum { MAX_GPUS = 64 };
    char path[64], target[256], found[MAX_GPUS][16];
    const size_t length = strlen(name);
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *files = opendir(path);
    for (struct dirent *entry; files && count < MAX_GPUS && (entry = readdir(files));) {
        const ssize_t size = readlinkat(dirfd(files), entry->d_name, target, sizeof target - 1);
        target[size > 0 ? size : 0] = 0;
        const char *number = strncmp(target, name, length) == 0 ? target + length : "";
        if (!number[0] || number[strspn(number, "0123456789")] || strlen(number) >= sizeof found[0])
            continue;
        int again = 0;
        for (int i = 0; i < count; i++)
            again |= strcmp(found[i], number) == 0;
        if (!again)
            snprintf(found[count++], sizeof found[0], "%.15s", number);
    }
    if (files)
        closedir(files);
    return count;
}

void sl_own_cores(sl_core_set *cores) {
    cpu_set_t set;
    memset(cores, 0, sizeof *cores);
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (int core = 0; core < SL_CORES && core < CPU_SETSIZE; core++)
        if (CPU_ISSET((size_t)core, &set))
            sl_core_set_add(cores, core);
}

/* ---- readings before and after ---- */

typedef struct cpu_moment {
    sl_time wall, own, stopped, pressure;
    int64_t busy;
    double heat, quota;
    sl_process_reading *process; /* in ascending order of id */
    size_t processes, room;
} cpu_moment;

struct sl_watch_cpu {
    sl_core_set cores;
    int *ours;
    int count;
    cpu_moment before, after;
    /* sums over the runs */
    sl_time wall, own, stopped, pressure;
    double busy, heat;        /* ticks; -1 when not known */
    sl_process_reading other; /* busiest of a single run, with its ticks there */
    double mhz;
    int runs;
};

static sl_time own_time(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (sl_time)time.tv_sec * SL_SECOND + time.tv_nsec;
}

/* The quota may be that of a group above. */
sl_time sl_quota_stopped(int pid, double *quota) {
    sl_time stopped = -1;
    *quota = 0;
    for (int i = 0; i < CONTROLLERS; i++) {
        char folder[1024], path[1100], text[1024], period[64];
        size_t mount;
        if (strcmp(controllers[i], "cpuset") == 0 ||
            !group_of(pid, controllers[i], folder, sizeof folder, &mount))
            continue;
        for (;;) {
            sl_throttling throttling;
            snprintf(path, sizeof path, "%s/cpu.stat", folder);
            if (sl_read_cpu_stat(read_small(path, text, sizeof text), &throttling))
                stopped = (stopped < 0 ? 0 : stopped) + throttling.stopped;
            snprintf(path, sizeof path, "%s/cpu.max", folder);
            double limit = sl_read_cpu_max(read_small(path, text, sizeof text));
            snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
            read_small(path, period, sizeof period);
            snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
            if (limit <= 0)
                limit = sl_read_cfs_quota(read_small(path, text, sizeof text), period);
            if (limit > 0 && (*quota <= 0 || limit < *quota))
                *quota = limit;
            char *slash = strrchr(folder, '/');
            if (!slash || (size_t)(slash - folder) < mount)
                break;
            *slash = 0;
        }
    }
    return stopped;
}

static int by_id(const void *left, const void *right) {
    const sl_process_reading *l = left, *r = right;
    return (l->pid > r->pid) - (l->pid < r->pid);
}

static sl_status read_processes(cpu_moment *m) {
    DIR *all = opendir("/proc");
    sl_status status = SL_OK;
    m->processes = 0;
    for (struct dirent *entry; all && status == SL_OK && (entry = readdir(all));) {
        char path[300], text[1024];
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        status = sl_grow(&m->process, &m->room, m->processes + 1, sizeof *m->process);
        if (status == SL_OK &&
            sl_read_process(read_small(path, text, sizeof text), &m->process[m->processes]))
            m->processes++;
    }
    if (all)
        closedir(all);
    if (m->processes > 1)
        qsort(m->process, m->processes, sizeof *m->process, by_id);
    return status;
}

/* How often the processors slowed themselves for heat; -1: not known. */
static double heat_of(const sl_core_set *cores) {
    double times = -1;
    for (int core = 0; core < SL_CORES; core++) {
        char path[128], text[64];
        if (!sl_core_set_has(cores, core))
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/thermal_throttle/core_throttle_count",
                 core);
        if (*read_small(path, text, sizeof text))
            times = (times < 0 ? 0 : times) + strtod(text, NULL);
    }
    return times;
}

static sl_status read_moment(const sl_watch_cpu *watch, cpu_moment *m) {
    char text[1 << 16];
    m->pressure = sl_read_pressure(read_small("/proc/pressure/cpu", text, sizeof text));
    m->stopped = sl_quota_stopped((int)getpid(), &m->quota);
    m->heat = heat_of(&watch->cores);
    m->busy = sl_read_busy(read_small("/proc/stat", text, sizeof text), &watch->cores);
    return read_processes(m);
}

sl_status sl_watch_cpu_begin(sl_watch_cpu *watch) {
    SL_TRY(read_moment(watch, &watch->before));
    watch->before.own = own_time();
    watch->before.wall = sl_now();
    return SL_OK;
}

static int is_ours(const sl_watch_cpu *watch, int pid) {
    if (pid == (int)getpid())
        return 1;
    for (int i = 0; i < watch->count; i++)
        if (watch->ours[i] == pid)
            return 1;
    return 0;
}

/* Ticks of our processes on these processors; the busiest other one. */
static double compare_processes(sl_watch_cpu *watch) {
    const cpu_moment *before = &watch->before, *after = &watch->after;
    double ours = 0;
    for (size_t i = 0; i < after->processes; i++) {
        const sl_process_reading *now = &after->process[i];
        const sl_process_reading *then =
            before->processes ? bsearch(now, before->process, before->processes, sizeof *now, by_id) : NULL;
        uint64_t ticks = now->ticks - (then && then->ticks <= now->ticks ? then->ticks : 0);
        if (!sl_core_set_has(&watch->cores, now->core))
            continue;
        if (is_ours(watch, now->pid)) {
            ours += (double)ticks;
        } else if (ticks > watch->other.ticks) {
            watch->other = *now;
            watch->other.ticks = ticks;
        }
    }
    return ours;
}

static double clock_of(const sl_core_set *cores) {
    double sum = 0;
    int count = 0;
    for (int core = 0; core < SL_CORES; core++)
        if (sl_core_set_has(cores, core)) {
            char path[128];
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", core);
            double khz = read_figure(path);
            if (khz <= 0)
                break;
            sum += khz / 1000;
            count++;
        }
    if (count)
        return sum / count;
    char *text;
    size_t size;
    if (sl_file_read("/proc/cpuinfo", &text, &size) != SL_OK)
        return 0;
    double mhz = sl_read_cpuinfo(text, cores);
    sl_free(text);
    return mhz;
}

sl_status sl_watch_cpu_end(sl_watch_cpu *watch) {
    cpu_moment *before = &watch->before, *after = &watch->after;
    after->wall = sl_now();
    after->own = own_time();
    SL_TRY(read_moment(watch, after));
    watch->wall += after->wall - before->wall;
    watch->own += after->own - before->own;
    watch->stopped += after->stopped - before->stopped;
    watch->pressure = before->pressure < 0 ? -1 : watch->pressure + after->pressure - before->pressure;
    double ours = compare_processes(watch), busy = (double)(after->busy - before->busy) - ours;
    watch->busy = before->busy < 0 ? -1 : watch->busy + (busy > 0 ? busy : 0);
    watch->heat = before->heat < 0 ? -1 : watch->heat + after->heat - before->heat;
    watch->mhz += clock_of(&watch->cores);
    watch->runs++;
    return SL_OK;
}

sl_status sl_watch_cpu_open(const sl_core_set *cores, const int *ours, int count, sl_watch_cpu **out) {
    sl_watch_cpu *watch;
    SL_TRY(sl_alloc(&watch, 1, sizeof *watch));
    sl_status status = sl_alloc(&watch->ours, (size_t)count, sizeof *watch->ours);
    if (status != SL_OK) {
        sl_free(watch);
        return status;
    }
    if (count > 0)
        memcpy(watch->ours, ours, (size_t)count * sizeof *ours);
    watch->count = count;
    watch->cores = *cores;
    *out = watch;
    return SL_OK;
}

void sl_watch_cpu_close(sl_watch_cpu *watch) {
    if (!watch)
        return;
    SL_FREE(watch->ours, watch->before.process, watch->after.process, watch);
}

/* ---- evidence ---- */

static double hottest(void) {
    double most = 0;
    for (int zone = 0; zone < 64; zone++) {
        char path[96];
        snprintf(path, sizeof path, "/sys/class/thermal/thermal_zone%d/temp", zone);
        double celsius = read_figure(path) / 1000;
        most = celsius > most ? celsius : most;
    }
    for (int chip = 0; chip < 32; chip++)
        for (int sensor = 1; sensor < 32; sensor++) {
            char path[96];
            snprintf(path, sizeof path, "/sys/class/hwmon/hwmon%d/temp%d_input", chip, sensor);
            double celsius = read_figure(path) / 1000;
            if (celsius <= 0)
                break;
            most = celsius > most ? celsius : most;
        }
    return most;
}

static double share(sl_time part, sl_time whole) {
    double s = whole > 0 ? (double)part / (double)whole : 0;
    return s < 0 ? 0 : s > 1 ? 1 : s;
}

void sl_watch_cpu_evidence(const sl_watch_cpu *watch, sl_evidence *e) {
    double seconds = (double)watch->wall / 1e9, tick = (double)sysconf(_SC_CLK_TCK);
    *e = (sl_evidence){.pressure = -1, .load = -1, .thermal = -1};
    e->cores = sl_core_set_count(&watch->cores);
    e->celsius = hottest();
    e->thermal = watch->heat;
    for (int core = 0; core < SL_CORES && e->mhz_max <= 0; core++)
        if (sl_core_set_has(&watch->cores, core)) {
            char path[128];
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", core);
            e->mhz_max = read_figure(path) / 1000;
            break;
        }
    if (watch->runs == 0 || seconds <= 0)
        return;
    e->mhz = watch->mhz / watch->runs;
    e->waited = share(watch->wall - watch->own, watch->wall);
    e->throttled = share(watch->stopped, watch->wall); /* the sum over the processors of its groups */
    e->throttled = e->throttled < e->waited ? e->throttled : e->waited;
    e->quota = watch->after.quota;
    if (watch->pressure >= 0)
        e->pressure = share(watch->pressure, watch->wall);
    if (watch->busy >= 0)
        e->load = watch->busy / tick / seconds;
    /* the busiest of one run; none below a tenth of a processor */
    double load = (double)watch->other.ticks / tick / (seconds / watch->runs);
    if (load > 0.1) {
        e->busiest = watch->other.pid;
        e->busiest_load = load;
        snprintf(e->busiest_name, sizeof e->busiest_name, "%s", watch->other.name);
    }
}
