#include "report/folder.h"
#include "base/file.h"
#include "base/memory.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ITERATIONS, LINKS, SAMPLES, EVENTS, NAMES, NOTES };

#define MOST_TEXT (64u << 20) /* of a file that is read as a whole */

sl_status sl_told_note(sl_told *t, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    SL_TRY(sl_grow(&t->note, &t->room[NOTES], t->notes + 1, sizeof *t->note));
    SL_TRY(sl_copy_text(&t->note[t->notes], text));
    t->notes++;
    return SL_OK;
}

/* ---- fields ---- */

static double number_of(const json_t *object, const char *key, double most) {
    const json_t *value = json_object_get(object, key);
    double number = json_is_number(value) ? json_number_value(value) : NAN;
    return isfinite(number) && fabs(number) <= most ? number : NAN;
}

/* A count; `otherwise` where there is none. */
static int count_of(const json_t *object, const char *key, int otherwise) {
    const json_t *value = json_object_get(object, key);
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    return number >= 0 && number < INT_MAX ? (int)number : otherwise;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* The object of a line; NULL: it is none. */
static json_t *object_of(const char *line, size_t length) {
    json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(object))
        return object;
    json_decref(object);
    return NULL;
}

static sl_status name_of(sl_told *t, const char *text, int *index) {
    *index = -1;
    for (size_t i = 0; i < t->names && *text; i++)
        if (strcmp(t->name[i], text) == 0)
            *index = (int)i;
    if (!*text || *index >= 0)
        return SL_OK;
    SL_TRY(sl_grow(&t->name, &t->room[NAMES], t->names + 1, sizeof *t->name));
    SL_TRY(sl_copy_text(&t->name[t->names], text));
    *index = (int)t->names++;
    return SL_OK;
}

/* ---- metrics.jsonl ---- */

/* The link that stands at the same place of most lines is found at once. */
static sl_status link_of(sl_told *t, const sl_told_link *link, size_t guess, int32_t *index) {
    for (size_t k = 0; k < t->links; k++) {
        size_t i = (guess + k) % t->links;
        if (memcmp(&t->link[i], link, sizeof *link) == 0) {
            *index = (int32_t)i;
            return SL_OK;
        }
    }
    SL_TRY(sl_grow(&t->link, &t->room[LINKS], t->links + 1, sizeof *t->link));
    t->link[t->links] = *link;
    *index = (int32_t)t->links++;
    return SL_OK;
}

static sl_status take_links(sl_told *t, const json_t *links) {
    size_t i;
    json_t *one;
    json_array_foreach(links, i, one) {
        sl_told_link link = {count_of(one, "from", -1), count_of(one, "to", -1),
                             count_of(one, "replica", -1)};
        sl_told_sample sample = {.row = (int32_t)t->iterations,
                                 .latency = (float)number_of(one, "latency_ms", 1e12),
                                 .transfer = (float)number_of(one, "transfer_ms", 1e12)};
        if (link.from < 0 || link.to < 0 || isnan(sample.latency) || isnan(sample.transfer))
            continue;
        SL_TRY(link_of(t, &link, i, &sample.link));
        SL_TRY(sl_grow(&t->sample, &t->room[SAMPLES], t->samples + 1, sizeof *t->sample));
        t->sample[t->samples++] = sample;
    }
    return SL_OK;
}

static sl_status take_metrics(void *context, char *line, size_t length) {
    sl_told *t = context;
    json_t *o = object_of(line, length);
    sl_told_iteration it = {.iteration = count_of(o, "iteration", -1),
                            .delegates = count_of(o, "delegates", 0),
                            .late = json_is_true(json_object_get(o, "late")),
                            .loss = number_of(o, "loss", 1e30),
                            .validation = number_of(o, "validation_loss", 1e30),
                            .time = number_of(o, "time_ms", 1e12),
                            .predicted = number_of(o, "predicted_ms", 1e12)};
    int known = t->iterations == 0 || it.iteration > t->iteration[t->iterations - 1].iteration;
    sl_status status = it.iteration >= 0 && known ? SL_OK : SL_EINVAL;
    if (status == SL_OK)
        status = name_of(t, text_of(o, "schedule"), &it.schedule);
    if (status == SL_OK)
        status = name_of(t, text_of(o, "phase"), &it.phase);
    if (status == SL_OK)
        status = sl_grow(&t->iteration, &t->room[ITERATIONS], t->iterations + 1, sizeof *t->iteration);
    if (status == SL_OK)
        status = take_links(t, json_object_get(o, "links"));
    if (status == SL_OK)
        t->iteration[t->iterations++] = it;
    json_decref(o);
    return status;
}

long sl_told_find(const sl_told *t, int iteration) {
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

size_t sl_told_samples_from(const sl_told *t, size_t row) {
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

/* ---- events.jsonl ---- */

static void describe_place(const json_t *o, char *text, size_t size) {
    const json_t *link = json_object_get(o, "link");
    int rank = count_of(o, "rank", -1), replica = count_of(o, "replica", -1);
    size_t used = 0;
    text[0] = 0;
    if (json_array_size(link) == 2 && json_is_integer(json_array_get(link, 0)) &&
        json_is_integer(json_array_get(link, 1)))
        used = (size_t)snprintf(text, size, "link %lld to %lld", json_integer_value(json_array_get(link, 0)),
                                json_integer_value(json_array_get(link, 1)));
    else if (rank >= 0)
        used = (size_t)snprintf(text, size, "rank %d", rank);
    if (replica >= 0)
        snprintf(text + used, size - used, "%sreplica %d", used ? " of " : "", replica);
}

static sl_status take_event(void *context, char *line, size_t length) {
    sl_told *t = context;
    json_t *o = object_of(line, length);
    char where[128];
    sl_status status = *text_of(o, "kind") ? SL_OK : SL_EINVAL;
    if (status == SL_OK)
        status = sl_grow(&t->event, &t->room[EVENTS], t->events + 1, sizeof *t->event);
    if (status == SL_OK) {
        sl_told_event *e = &t->event[t->events++];
        describe_place(o, where, sizeof where);
        const double time = number_of(o, "time_s", 1e12);
        *e = (sl_told_event){.time = isnan(time) ? 0 : time, .iteration = count_of(o, "iteration", 0)};
        t->has_end |= strcmp(text_of(o, "kind"), "end") == 0;
        const char *const from[] = {text_of(o, "kind"), where, text_of(o, "seen"), text_of(o, "decided"),
                                    text_of(o, "why")};
        char **const to[] = {&e->kind, &e->where, &e->seen, &e->decided, &e->why};
        for (int i = 0; i < 5 && status == SL_OK; i++)
            status = sl_copy_text(to[i], from[i]);
    }
    json_decref(o);
    return status;
}

/* ---- files ---- */

static sl_status path_of(const sl_told *t, const char *name, char **path) {
    size_t size = strlen(t->path) + strlen(name) + 2;
    SL_TRY(sl_alloc(path, size, 1));
    snprintf(*path, size, "%s/%s", t->path, name);
    return SL_OK;
}

/* 1: a file is there; else said, `missing` being what that means (NULL: it may be absent). */
static int is_there(sl_told *t, const char *path, const char *name, const char *missing, sl_status *status) {
    struct stat file;
    int absent = stat(path, &file) != 0;
    if (!absent && S_ISREG(file.st_mode))
        return 1;
    if (absent && !missing)
        return 0;
    missing = missing ? missing : "";
    *status = sl_told_note(t, "%s is %s%s%s.", name, absent ? "missing" : "no regular file",
                           *missing ? ": " : "", missing);
    return 0;
}

sl_status sl_told_lines(sl_told *t, const char *name, sl_told_taker take, void *context, int *found) {
    char *path, *line = NULL;
    size_t room = 0;
    long number = 0, damaged = 0, first = 0, good = 0;
    int whole = 1;
    *found = 0;
    SL_TRY(path_of(t, name, &path));
    sl_status status = SL_OK;
    FILE *in = is_there(t, path, name, "", &status) ? fopen(path, "re") : NULL;
    sl_free(path);
    if (!in)
        return status;
    for (ssize_t length; status == SL_OK && (length = getline(&line, &room, in)) > 0;) {
        number++;
        whole = line[length - 1] == '\n';
        if (line[strspn(line, " \t\r\n")] == 0 && strlen(line) == (size_t)length)
            continue;
        status = take(context, line, (size_t)length);
        good += status == SL_OK;
        if (status != SL_EINVAL)
            continue;
        status = SL_OK;
        first = damaged++ == 0 ? number : first;
    }
    free(line);
    fclose(in);
    *found = good > 0;
    if (status == SL_OK && damaged == 1 && first == number && !whole)
        return sl_told_note(t, "%s ends within a line: the run is writing it, or was killed.", name);
    if (status == SL_OK && damaged > 0)
        return sl_told_note(t, "%s: %ld of %ld lines %s damaged and left out, the first is line %ld.", name,
                            damaged, number, damaged == 1 ? "is" : "are", first);
    if (status == SL_OK && number == 0)
        return sl_told_note(t, "%s is empty.", name);
    return status;
}

static sl_status read_text(sl_told *t, const char *name, const char *missing, char **text) {
    char *path;
    size_t size;
    *text = NULL;
    SL_TRY(path_of(t, name, &path));
    sl_status status = SL_OK;
    if (is_there(t, path, name, missing, &status)) {
        status = sl_file_read_most(path, MOST_TEXT, text, &size);
        if (status == SL_EINVAL)
            status = sl_told_note(t, "%s", sl_error_text());
    }
    sl_free(path);
    return status;
}

static sl_status read_summary(sl_told *t) {
    SL_TRY(read_text(t, "summary.json", "it is written at a run's end", &t->summary_text));
    if (!t->summary_text)
        return SL_OK;
    json_error_t error;
    t->summary = json_loads(t->summary_text, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(t->summary))
        return SL_OK;
    json_decref(t->summary);
    t->summary = NULL;
    return sl_told_note(t, "summary.json is damaged: line %d: %s.", error.line, error.text);
}

static sl_status read_profile(sl_told *t) {
    sl_document document = {0};
    SL_TRY(read_text(t, "profile.yaml",
                     "it is written at a run's end; without it no iteration is foretold again", &t->profile));
    if (!t->profile)
        return SL_OK;
    sl_status status = sl_document_parse("profile.yaml", t->profile, &document);
    if (status == SL_OK)
        status = sl_problem_read(&document, &t->problem);
    t->has_problem = status == SL_OK;
    if (status == SL_EINVAL)
        status = sl_told_note(t, "%s", sl_error_text());
    sl_document_close(&document);
    return status;
}

static sl_status read_all(sl_told *t, int *found) {
    int metrics, events;
    SL_TRY(sl_told_lines(t, "metrics.jsonl", take_metrics, t, &metrics));
    SL_TRY(sl_told_lines(t, "events.jsonl", take_event, t, &events));
    SL_TRY(read_text(t, "decisions.txt", NULL, &t->decisions));
    SL_TRY(read_text(t, "run.yaml", NULL, &t->run));
    SL_TRY(read_profile(t));
    SL_TRY(read_summary(t));
    *found = metrics || events || t->summary || t->has_problem;
    return SL_OK;
}

sl_status sl_told_read(const char *folder, sl_told *t) {
    struct stat file;
    int found;
    *t = (sl_told){0};
    if (stat(folder, &file) != 0)
        return sl_error_errno(SL_EINVAL, "%s: no run's folder", folder);
    if (!S_ISDIR(file.st_mode))
        return sl_error(SL_EINVAL, "%s: is no folder; report takes the folder of a run", folder);
    SL_TRY(sl_copy_text(&t->path, folder));
    SL_TRY(read_all(t, &found));
    if (!found)
        return sl_error(SL_EINVAL,
                        "%s: nothing of a run can be read here (metrics.jsonl, events.jsonl, profile.yaml, "
                        "summary.json)",
                        folder);
    return SL_OK;
}

void sl_told_free(sl_told *t) {
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
    void *const arrays[] = {t->path, t->iteration, t->link,    t->sample,       t->event, t->name,
                            t->note, t->decisions, t->profile, t->summary_text, t->run};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        sl_free(arrays[i]);
    json_decref(t->summary);
    sl_problem_free(&t->problem);
    *t = (sl_told){0};
}
