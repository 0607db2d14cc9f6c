#include "run/train/fired.h"
#include "base/memory.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int integer(const json_t *event, const char *key) {
    const json_t *value = json_object_get(event, key);
    return json_is_integer(value) ? (int)json_integer_value(value) : -1;
}

static int says(const json_t *event, const char *key, const char *text) {
    const char *value = json_string_value(json_object_get(event, key));
    return value && strcmp(value, text) == 0;
}

static void mark(const sl_run *run, const json_t *event, char *fired) {
    if (!says(event, "kind", "fault") || !says(event, "decided", "injected"))
        return;
    for (int i = 0; i < run->faults; i++)
        if (run->fault[i].kill >= 0 && run->fault[i].kill == integer(event, "rank") &&
            run->fault[i].first == integer(event, "iteration"))
            fired[i] = 1;
}

static void read_events(const sl_run *run, const char *folder, char *fired) {
    char path[4096], *line = NULL;
    size_t capacity = 0;
    snprintf(path, sizeof path, "%s/events.jsonl", folder);
    struct stat found; /* a pipe would be waited for */
    FILE *file = stat(path, &found) == 0 && S_ISREG(found.st_mode) ? fopen(path, "re") : NULL;
    if (!file)
        return;
    for (ssize_t size; (size = getline(&line, &capacity, file)) > 0;) {
        json_t *event = json_loadb(line, (size_t)size, 0, NULL);
        if (event)
            mark(run, event, fired);
        json_decref(event);
    }
    free(line);
    fclose(file);
}

sl_status sl_fired_forget(sl_run *run, const char *folder, sl_group *group) {
    char *fired;
    if (run->faults == 0)
        return SL_OK;
    SL_TRY(sl_alloc(&fired, (size_t)run->faults, 1));
    if (sl_group_rank(group) == 0)
        read_events(run, folder, fired);
    sl_status status = sl_group_broadcast(group, 0, fired, (size_t)run->faults);
    for (int i = 0; i < run->faults && status == SL_OK; i++)
        if (fired[i])
            run->fault[i].kill = run->fault[i].first = run->fault[i].end = -1;
    sl_free(fired);
    return status;
}
