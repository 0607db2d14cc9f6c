#include "notice/agent/starved.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>

static sl_time starved_thread(int pid, const char *thread) {
    char path[320];
    int64_t ran, waited = -1;
    snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, thread);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    if (fscanf(file, "%" SCNd64 " %" SCNd64, &ran, &waited) != 2 || waited < 0)
        waited = -1;
    fclose(file);
    return waited;
}

sl_time sl_starved(int pid) {
    char path[64];
    sl_time most = -1;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *threads = opendir(path);
    for (struct dirent *entry; threads && (entry = readdir(threads));) {
        sl_time waited = entry->d_name[0] == '.' ? -1 : starved_thread(pid, entry->d_name);
        most = waited > most ? waited : most;
    }
    if (threads)
        closedir(threads);
    return most;
}
