#include "report/read_back.h"
#include "base/memory.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

sl_status sl_run_data_note(sl_run_data *t, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    SL_TRY(sl_grow(&t->note, &t->note_room, t->notes + 1, sizeof *t->note));
    SL_TRY(sl_copy_text(&t->note[t->notes], text));
    t->notes++;
    return SL_OK;
}

/* ---- iterations ---- */

static sl_status name_of(sl_run_data *t, const char *text, int *index) {
    *index = -1;
    for (size_t i = 0; i < t->names && *text; i++)
        if (strcmp(t->name[i], text) == 0)
            *index = (int)i;
    if (!*text || *index >= 0)
        return SL_OK;
    SL_TRY(sl_grow(&t->name, &t->name_room, t->names + 1, sizeof *t->name));
    SL_TRY(sl_copy_text(&t->name[t->names], text));
    *index = (int)t->names++;
    return SL_OK;
}

/* The link at the same position of most lines is found at once. */
static sl_status link_of(sl_run_data *t, const sl_run_data_link *link, size_t guess, int32_t *index) {
    for (size_t k = 0; k < t->links; k++) {
        size_t i = (guess + k) % t->links;
        if (memcmp(&t->link[i], link, sizeof *link) == 0) {
            *index = (int32_t)i;
            return SL_OK;
        }
    }
    SL_TRY(sl_grow(&t->link, &t->link_room, t->links + 1, sizeof *t->link));
    t->link[t->links] = *link;
    *index = (int32_t)t->links++;
    return SL_OK;
}

static sl_status keep_links(sl_run_data *t, const json_t *links) {
    size_t i;
    json_t *one;
    json_array_foreach(links, i, one) {
        sl_row_link row;
        sl_run_data_sample sample = {.row = (int32_t)t->iterations};
        if (!sl_row_link_read(one, &row))
            continue;
        const sl_run_data_link link = {row.from, row.to, row.replica};
        sample.latency = (float)row.latency;
        sample.transfer = (float)row.transfer;
        SL_TRY(link_of(t, &link, i, &sample.link));
        SL_TRY(sl_grow(&t->sample, &t->sample_room, t->samples + 1, sizeof *t->sample));
        t->sample[t->samples++] = sample;
    }
    return SL_OK;
}

static sl_status keep_iteration(void *context, const sl_row_iteration *row) {
    sl_run_data *t = context;
    if (t->iterations > 0 && row->iteration <= t->iteration[t->iterations - 1].iteration)
        return SL_EINVAL;
    sl_run_data_iteration it = {.iteration = row->iteration,
                                .delegates = row->delegates,
                                .late = row->late,
                                .lossless = row->lossless,
                                .loss = row->loss,
                                .validation = row->validation,
                                .time = row->time,
                                .predicted = row->predicted};
    SL_TRY(name_of(t, row->schedule, &it.schedule));
    SL_TRY(name_of(t, row->phase, &it.phase));
    SL_TRY(sl_grow(&t->iteration, &t->iteration_room, t->iterations + 1, sizeof *t->iteration));
    SL_TRY(keep_links(t, row->links));
    t->iteration[t->iterations++] = it;
    return SL_OK;
}

long sl_run_data_find(const sl_run_data *t, int iteration) {
    size_t low = 0, high = t->iterations;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (t->iteration[middle].iteration < iteration)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->iterations && t->iteration[low].iteration == iteration ? (long)low : -1;
}

size_t sl_run_data_samples_from(const sl_run_data *t, size_t row) {
    size_t low = 0, high = t->samples;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((size_t)t->sample[middle].row < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- events and decisions ---- */

static void describe_rank(const sl_row_event *row, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    if (row->from >= 0)
        used = (size_t)sl_text_link(text, size, row->from, row->to, row->both);
    else if (row->rank >= 0)
        used = (size_t)snprintf(text, size, "rank %d", row->rank);
    if (row->replica >= 0)
        snprintf(text + used, size - used, "%sreplica %d", used ? " of " : "", row->replica);
}

static sl_status keep_event(void *context, const sl_row_event *row) {
    sl_run_data *t = context;
    char where[128];
    SL_TRY(sl_grow(&t->event, &t->event_room, t->events + 1, sizeof *t->event));
    sl_run_data_event *e = &t->event[t->events++];
    *e = (sl_run_data_event){.time = row->time, .iteration = row->iteration > 0 ? row->iteration : 0};
    describe_rank(row, where, sizeof where);
    const char *const from[] = {row->kind, where, row->seen, row->decided, row->why};
    char **const to[] = {&e->kind, &e->where, &e->seen, &e->decided, &e->why};
    for (int i = 0; i < 5; i++)
        SL_TRY(sl_copy_text(to[i], from[i]));
    return SL_OK;
}

static sl_status keep_decision(void *context, const char *line, size_t length) {
    sl_run_data *t = context;
    SL_TRY(sl_grow(&t->decisions, &t->decisions_room, t->decisions_size + length + 2, 1));
    memcpy(t->decisions + t->decisions_size, line, length);
    t->decisions[t->decisions_size + length] = '\n'; /* the following bytes are zero */
    t->decisions_size += length + 1;
    return SL_OK;
}

/* ---- files ---- */

static sl_status keep_profile(sl_run_data *t, const char *text) {
    sl_document document = {0};
    sl_status status = sl_document_parse("profile.yaml", text, &document);
    SL_THEN(status, sl_problem_read(&document, &t->problem));
    t->has_problem = status == SL_OK;
    sl_document_close(&document);
    return status;
}

static sl_status keep_text(void *context, sl_folder_file file, char *text, json_t *object) {
    sl_run_data *t = context;
    char **const texts[SL_FOLDER_FILES] = {
        [SL_FOLDER_RUN] = &t->run, [SL_FOLDER_PROFILE] = &t->profile, [SL_FOLDER_SUMMARY] = &t->summary_text};
    json_t **const objects[SL_FOLDER_FILES] = {
        [SL_FOLDER_SUMMARY] = &t->summary, [SL_FOLDER_WATCH] = &t->watch, [SL_FOLDER_REPORT] = &t->outcome};
    if (texts[file])
        SL_TRY(sl_copy_text(texts[file], text));
    if (objects[file])
        *objects[file] = json_incref(object);
    return file == SL_FOLDER_PROFILE ? keep_profile(t, text) : SL_OK;
}

static sl_status note_all(const sl_folder *f, sl_run_data *t) {
    char text[1024];
    size_t i;
    json_t *one;
    for (int file = 0; file < SL_FOLDER_FILES; file++) {
        sl_folder_trouble(f, (sl_folder_file)file, text, sizeof text);
        if (text[0])
            SL_TRY(sl_run_data_note(t, "%s", text));
    }
    json_t *notes = json_object_get(t->outcome, "notes");
    if (!notes)
        notes = json_object_get(t->outcome, "not_told"); /* its name until version 0.1 */
    json_array_foreach(notes, i, one) if (json_is_string(one))
        SL_TRY(sl_run_data_note(t, "%s", json_string_value(one)));
    return SL_OK;
}

/* `.` and `..` mean nothing to a recipient of the page. */
static sl_status name_folder(sl_run_data *t) {
    size_t length = strlen(t->path);
    while (length > 1 && t->path[length - 1] == '/')
        t->path[--length] = 0;
    const char *slash = strrchr(t->path, '/'), *last = slash ? slash + 1 : t->path;
    const int says = strcmp(last, ".") != 0 && strcmp(last, "..") != 0;
    char *real = says ? NULL : realpath(t->path, NULL);
    sl_status status = sl_copy_text(&t->title, real ? real : t->path);
    free(real);
    return status;
}

static sl_status refuse(const sl_run_data *t) {
    for (size_t i = 0; i < t->notes; i++) {
        const size_t length = strlen(t->note[i]);
        if (strstr(t->note[i], "cannot be read: "))
            return sl_error(SL_EINVAL, "%s: no file of a run can be read here: %.*s", t->path,
                            (int)(length - (t->note[i][length - 1] == '.')), t->note[i]);
    }
    return sl_error(SL_EINVAL,
                    "%s: no file of a run can be read here (metrics.jsonl, events.jsonl, profile.yaml, "
                    "summary.json)",
                    t->path);
}

static sl_status read_folder(sl_folder *f, sl_run_data *t) {
    SL_TRY(sl_folder_read(f));
    t->is_watch = f->is_watch;
    t->state = f->state;
    t->living = f->living;
    SL_TRY(sl_copy_text(&t->why, f->why));
    SL_TRY(name_folder(t));
    SL_TRY(note_all(f, t));
    const int lines = f->lines[SL_FOLDER_METRICS].good > 0 || f->lines[SL_FOLDER_EVENTS].good > 0;
    return lines || t->summary || t->has_problem || t->watch || t->outcome ? SL_OK : refuse(t);
}

sl_status sl_run_data_read(const char *folder, sl_run_data *t) {
    const sl_folder_follower follower = {.context = t,
                                         .files = ~0u,
                                         .iteration = keep_iteration,
                                         .event = keep_event,
                                         .decision = keep_decision,
                                         .text = keep_text};
    sl_folder *f;
    *t = (sl_run_data){0};
    SL_TRY(sl_copy_text(&t->path, folder));
    SL_TRY(sl_folder_open(folder, &follower, &f));
    sl_status status = read_folder(f, t);
    sl_folder_close(f);
    return status;
}

void sl_run_data_free(sl_run_data *t) {
    for (size_t i = 0; i < t->events; i++) {
        char *const text[] = {t->event[i].kind, t->event[i].where, t->event[i].seen, t->event[i].decided,
                              t->event[i].why};
        for (int k = 0; k < 5; k++)
            sl_free(text[k]);
    }
    for (size_t i = 0; i < t->names; i++)
        sl_free(t->name[i]);
    for (size_t i = 0; i < t->notes; i++)
        sl_free(t->note[i]);
    void *const arrays[] = {t->path,    t->title,        t->why,  t->iteration, t->link,
                            t->sample,  t->event,        t->name, t->note,      t->decisions,
                            t->profile, t->summary_text, t->run};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        sl_free(arrays[i]);
    json_decref(t->summary);
    json_decref(t->watch);
    json_decref(t->outcome);
    sl_problem_free(&t->problem);
    *t = (sl_run_data){0};
}
