#include "run/train/fired.h"
#include "base/json.h"
#include "base/lines.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

typedef struct deaths {
    const sl_run *run;
    char *fired; /* [faults] */
} deaths;

static sl_status mark(void *context, const char *line, size_t length) {
    const deaths *d = context;
    json_t *event = sl_json_object(line, length);
    const int is_death = strcmp(sl_json_text(event, "kind", ""), "fault") == 0 &&
                         strcmp(sl_json_text(event, "decided", ""), "injected") == 0;
    const int rank = sl_json_count(event, "rank", -1), iteration = sl_json_count(event, "iteration", -1);
    for (int i = 0; i < d->run->faults && is_death; i++) {
        const sl_fault *fault = &d->run->fault[i];
        d->fired[i] |= fault->kill >= 0 && fault->kill == rank && fault->first == iteration;
    }
    json_decref(event);
    return SL_OK;
}

static void read_events(const sl_run *run, const char *folder, char *fired) {
    char path[4096];
    sl_lines lines;
    deaths d = {run, fired};
    snprintf(path, sizeof path, "%s/events.jsonl", folder);
    if (sl_lines_open(path, &lines) == SL_OK)
        (void)sl_lines_step(&lines, SIZE_MAX, mark, NULL, &d);
    sl_lines_close(&lines);
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
