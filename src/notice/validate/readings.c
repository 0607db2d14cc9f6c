#include "notice/validate/readings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sl_core_set_count(const sl_core_set *cores) {
    int count = 0;
    for (int core = 0; core < SL_CORES; core++)
        count += sl_core_set_has(cores, core);
    return count;
}

static const char *next_line(const char *line) {
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

/* "NAME NUMBER" on a line of its own. */
static int find_number(const char *text, const char *name, uint64_t *value) {
    size_t length = strlen(name);
    for (const char *line = text; *line; line = next_line(line))
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            return sscanf(line + length, "%" SCNu64, value) == 1;
    return 0;
}

/* Beyond 292 years the number is wrong, but it is not negative. */
static sl_time from_us(uint64_t us) {
    return (sl_time)(us * 1000 & INT64_MAX);
}

int sl_read_cpu_stat(const char *text, sl_throttling *throttling) {
    uint64_t stopped;
    *throttling = (sl_throttling){0};
    if (!find_number(text, "nr_throttled", &throttling->times))
        return 0;
    if (find_number(text, "throttled_time", &stopped))
        throttling->stopped = (sl_time)(stopped & INT64_MAX);
    else if (find_number(text, "throttled_usec", &stopped))
        throttling->stopped = from_us(stopped);
    else
        return 0;
    return 1;
}

double sl_read_cpu_max(const char *max) {
    double quota, period;
    return sscanf(max, "%lf %lf", &quota, &period) == 2 && quota > 0 && period > 0 ? quota / period : 0;
}

double sl_read_cfs_quota(const char *quota, const char *period) {
    double us = strtod(quota, NULL), of = strtod(period, NULL);
    return us > 0 && of > 0 ? us / of : 0;
}

sl_time sl_read_pressure(const char *text) {
    for (const char *line = text; *line; line = next_line(line)) {
        const char *total = strstr(line, "total=");
        uint64_t us;
        if (strncmp(line, "some ", 5) == 0 && total && total < next_line(line) &&
            sscanf(total, "total=%" SCNu64, &us) == 1)
            return from_us(us);
    }
    return -1;
}

int64_t sl_read_busy(const char *text, const sl_core_set *cores) {
    uint64_t busy = 0;
    int found = 0;
    for (const char *line = text; *line; line = next_line(line)) {
        int core;
        uint64_t user, nice, system, idle, disk, irq = 0, soft = 0, stolen = 0;
        if (sscanf(line,
                   "cpu%d %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                   " %" SCNu64,
                   &core, &user, &nice, &system, &idle, &disk, &irq, &soft, &stolen) < 6 ||
            strncmp(line, "cpu ", 4) == 0 || !sl_core_set_has(cores, core))
            continue;
        busy += user + nice + system + irq + soft + stolen;
        found = 1;
    }
    return found ? (int64_t)(busy & INT64_MAX) : -1;
}

int sl_read_process(const char *text, sl_process_reading *process) {
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    uint64_t user, system;
    int core;
    *process = (sl_process_reading){.core = -1};
    if (!open || !close || close < open || sscanf(text, "%d", &process->pid) != 1)
        return 0;
    int length = (int)(close - open - 1);
    snprintf(process->name, sizeof process->name, "%.*s", length, open + 1);
    if (sscanf(close + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64, &user,
               &system) != 2)
        return 0;
    process->ticks = user + system;
    if (sscanf(close + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %*u %*u %*d "
               "%*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*d %d",
               &core) == 1)
        process->core = core;
    return 1;
}

double sl_read_cpuinfo(const char *text, const sl_core_set *cores) {
    double sum = 0;
    int core = -1, count = 0;
    for (const char *line = text; *line; line = next_line(line)) {
        const char *colon = strchr(line, ':');
        if (!colon || colon > next_line(line))
            continue;
        if (strncmp(line, "processor", 9) == 0)
            core = atoi(colon + 1);
        else if (strncmp(line, "cpu MHz", 7) == 0 && sl_core_set_has(cores, core)) {
            sum += strtod(colon + 1, NULL);
            count++;
        }
    }
    return count ? sum / count : 0;
}

/* ---- groups ---- */

/* Whether `word` is one of the words of `list`, which commas divide and `end` ends. */
static int lists(const char *list, const char *end, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; at < end;) {
        size_t span = strcspn(at, ",");
        if (at + span > end)
            span = (size_t)(end - at);
        if (span == length && memcmp(at, word, length) == 0)
            return 1;
        at += span + 1;
    }
    return 0;
}

/* ID:CONTROLLERS:PATH; the path's begin and length. */
static const char *find_path(const char *cgroup, const char *controller, size_t *length) {
    for (const char *line = cgroup; *line; line = next_line(line)) {
        const char *first = strchr(line, ':');
        const char *second = first ? strchr(first + 1, ':') : NULL;
        if (!second || second > next_line(line))
            continue;
        if (*controller ? lists(first + 1, second, controller) : second == first + 1) {
            *length = strcspn(second + 1, "\n");
            return second + 1;
        }
    }
    return NULL;
}

/* ID PARENT DEVICE ROOT POINT OPTIONS [FIELDS] - TYPE SOURCE SUPER */
static int find_mount(const char *mounts, const char *controller, char root[512], char point[512]) {
    for (const char *line = mounts; *line; line = next_line(line)) {
        char copy[2048], type[32], super[512];
        size_t length = strcspn(line, "\n");
        if (length >= sizeof copy)
            continue;
        memcpy(copy, line, length);
        copy[length] = 0;
        const char *dash = strstr(copy, " - ");
        if (!dash || sscanf(copy, "%*d %*d %*s %511s %511s", root, point) != 2 ||
            sscanf(dash, " - %31s %*s %511s", type, super) != 2)
            continue;
        if (*controller ? strcmp(type, "cgroup") == 0 && lists(super, super + strlen(super), controller)
                        : strcmp(type, "cgroup2") == 0)
            return 1;
    }
    return 0;
}

int sl_read_group(const char *cgroup, const char *mounts, const char *controller, char *folder, size_t size,
                  size_t *mount) {
    char root[512], point[512];
    size_t length;
    const char *path = find_path(cgroup, controller, &length);
    if (!path || !find_mount(mounts, controller, root, point))
        return 0;
    /* a container sees the hierarchy from its own group on: that part of the path is the mount point */
    size_t above = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (above > 0 && strncmp(path, root, above) == 0 && (above == length || path[above] == '/')) {
        path += above;
        length -= above;
    }
    if (length == 1 && *path == '/')
        length = 0;
    *mount = strlen(point);
    int written = snprintf(folder, size, "%s%.*s", point, (int)length, path);
    return written > 0 && (size_t)written < size;
}
