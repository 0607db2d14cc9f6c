#include "launch/worker_error.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char carried[] = "slackline-cause: ";

void sl_worker_error_send(int rank, sl_status status, const char *text) {
    fprintf(stderr, "%s%d %d %s\n", carried, rank, (int)status, text);
}

int sl_worker_error_take(const char *temporary, const char *line) {
    int rank, status, start = 0;
    if (strncmp(line, carried, sizeof carried - 1) != 0)
        return 0;
    line += sizeof carried - 1;
    return sscanf(line, "%d %d %n", &rank, &status, &start) >= 2 && start > 0 &&
           sl_worker_error_leave(temporary, rank, (sl_status)status, line + start) == SL_OK;
}

sl_status sl_worker_error_leave(const char *temporary, int rank, sl_status status, const char *text) {
    char path[512], content[1200];
    snprintf(path, sizeof path, "%s/error.%d.%d", temporary, rank, (int)getpid());
    int size =
        snprintf(content, sizeof content, "%" PRId64 " %d %d\n%.1000s", sl_now(), rank, (int)status, text);
    return sl_file_write(path, content, (size_t)size);
}

void sl_worker_exit_note(const char *temporary, int rank, int exit_code) {
    char path[512], content[32];
    snprintf(path, sizeof path, "%s/exit.%d.%d", temporary, rank, exit_code);
    int size = snprintf(content, sizeof content, "%d\n", (int)getpid());
    sl_file_write(path, content, (size_t)size); /* the process ends: a failure could not be reported */
}

int sl_worker_exit_find(const char *temporary, int exit_code) {
    int found = -1;
    DIR *all = opendir(temporary);
    if (!all)
        return found;
    for (struct dirent *entry; (entry = readdir(all));) {
        int rank, code, end = 0;
        if (sscanf(entry->d_name, "exit.%d.%d%n", &rank, &code, &end) == 2 && entry->d_name[end] == 0 &&
            code == exit_code && (found < 0 || rank < found))
            found = rank;
    }
    closedir(all);
    return found;
}

static int read_error(const char *path, sl_worker_error *error) {
    char *content;
    size_t size;
    if (sl_file_read(path, &content, &size) != SL_OK)
        return 0;
    int start = 0;
    error->found =
        sscanf(content, "%" SCNd64 " %d %d%n", &error->time, &error->rank, &error->status, &start) == 3 &&
        content[start] == '\n';
    if (error->found)
        snprintf(error->text, sizeof error->text, "%s", content + start + 1);
    sl_free(content);
    return error->found;
}

/* A consequence of another rank's end ranks last. */
static int comes_before(const sl_worker_error *a, const sl_worker_error *b) {
    int a_follows = a->status == SL_EPEER, b_follows = b->status == SL_EPEER;
    return !b->found || (a_follows != b_follows ? b_follows : a->time < b->time);
}

sl_worker_error sl_worker_error_find(const char *temporary, int rank) {
    sl_worker_error first = {0};
    DIR *all = opendir(temporary);
    if (!all)
        return first;
    for (struct dirent *entry; (entry = readdir(all));) {
        char path[1024];
        int of, process, end = 0;
        sl_worker_error error = {0};
        if (sscanf(entry->d_name, "error.%d.%d%n", &of, &process, &end) != 2 || entry->d_name[end] != 0 ||
            (rank >= 0 && of != rank))
            continue;
        snprintf(path, sizeof path, "%s/%s", temporary, entry->d_name);
        if (read_error(path, &error) && comes_before(&error, &first))
            first = error;
    }
    closedir(all);
    return first;
}
