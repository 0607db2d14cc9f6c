#include "report/folder.h"
#include "base/file.h"
#include "base/memory.h"
#include "launch/folder.h"
#include "report/folder_inside.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_TEXT (64u << 20) /* of a file that is read as a whole */

sl_status sl_told_note(sl_told *t, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    SL_TRY(sl_grow(&t->note, &t->room[SL_TOLD_NOTES], t->notes + 1, sizeof *t->note));
    SL_TRY(sl_copy_text(&t->note[t->notes], text));
    t->notes++;
    return SL_OK;
}

/* ---- fields ---- */

double sl_told_number(const json_t *object, const char *key, double most) {
    const json_t *value = json_object_get(object, key);
    double number = json_is_number(value) ? json_number_value(value) : NAN;
    return isfinite(number) && fabs(number) <= most ? number : NAN;
}

int sl_told_count(const json_t *object, const char *key, int otherwise) {
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
    SL_TRY(sl_grow(&t->name, &t->room[SL_TOLD_NAMES], t->names + 1, sizeof *t->name));
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
    SL_TRY(sl_grow(&t->link, &t->room[SL_TOLD_LINKS], t->links + 1, sizeof *t->link));
    t->link[t->links] = *link;
    *index = (int32_t)t->links++;
    return SL_OK;
}

static sl_status take_links(sl_told *t, const json_t *links) {
    size_t i;
    json_t *one;
    json_array_foreach(links, i, one) {
        sl_told_link link = {sl_told_count(one, "from", -1), sl_told_count(one, "to", -1),
                             sl_told_count(one, "replica", -1)};
        sl_told_sample sample = {.row = (int32_t)t->iterations,
                                 .latency = (float)sl_told_number(one, "latency_ms", 1e12),
                                 .transfer = (float)sl_told_number(one, "transfer_ms", 1e12)};
        if (link.from < 0 || link.to < 0 || isnan(sample.latency) || isnan(sample.transfer))
            continue;
        SL_TRY(link_of(t, &link, i, &sample.link));
        SL_TRY(sl_grow(&t->sample, &t->room[SL_TOLD_SAMPLES], t->samples + 1, sizeof *t->sample));
        t->sample[t->samples++] = sample;
    }
    return SL_OK;
}

static sl_status take_metrics(void *context, char *line, size_t length) {
    sl_told *t = context;
    json_t *o = object_of(line, length);
    sl_told_iteration it = {.iteration = sl_told_count(o, "iteration", -1),
                            .delegates = sl_told_count(o, "delegates", 0),
                            .late = json_is_true(json_object_get(o, "late")),
                            .lossless = json_is_null(json_object_get(o, "loss")),
                            .loss = sl_told_number(o, "loss", 1e30),
                            .validation = sl_told_number(o, "validation_loss", 1e30),
                            .time = sl_told_number(o, "time_ms", 1e12),
                            .predicted = sl_told_number(o, "predicted_ms", 1e12)};
    int known = t->iterations == 0 || it.iteration > t->iteration[t->iterations - 1].iteration;
    sl_status status = it.iteration >= 0 && known ? SL_OK : SL_EINVAL;
    if (status == SL_OK)
        status = name_of(t, text_of(o, "schedule"), &it.schedule);
    if (status == SL_OK)
        status = name_of(t, text_of(o, "phase"), &it.phase);
    if (status == SL_OK)
        status =
            sl_grow(&t->iteration, &t->room[SL_TOLD_ITERATIONS], t->iterations + 1, sizeof *t->iteration);
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

/* Another start after an end, a failure or a warning goes on. */
static sl_status take_state(sl_told *t, const char *kind, const char *why) {
    static const struct {
        const char *kind;
        sl_told_state state;
    } kinds[] = {{"end", SL_TOLD_ENDED},  {"failed", SL_TOLD_FAILED}, {"warned", SL_TOLD_WARNED},
                 {"start", SL_TOLD_OPEN}, {"resumed", SL_TOLD_OPEN},  {"restart", SL_TOLD_OPEN},
                 {NULL, SL_TOLD_OPEN}};
    int i = 0;
    while (kinds[i].kind && strcmp(kinds[i].kind, kind) != 0)
        i++;
    /* the command that saved itself on a warning says after it that it ended so */
    if (!kinds[i].kind || (kinds[i].state == SL_TOLD_FAILED && t->state == SL_TOLD_WARNED))
        return SL_OK;
    t->state = kinds[i].state;
    sl_free(t->why);
    return sl_copy_text(&t->why, kinds[i].state == SL_TOLD_FAILED ? why : "");
}

static void describe_place(const json_t *o, char *text, size_t size) {
    const json_t *link = json_object_get(o, "link");
    int rank = sl_told_count(o, "rank", -1), replica = sl_told_count(o, "replica", -1);
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

sl_status sl_told_take_event(void *context, char *line, size_t length) {
    sl_told *t = context;
    json_t *o = object_of(line, length);
    char where[128];
    sl_status status = *text_of(o, "kind") ? SL_OK : SL_EINVAL;
    if (status == SL_OK)
        status = sl_grow(&t->event, &t->room[SL_TOLD_EVENTS], t->events + 1, sizeof *t->event);
    if (status == SL_OK) {
        sl_told_event *e = &t->event[t->events++];
        describe_place(o, where, sizeof where);
        const double time = sl_told_number(o, "time_s", 1e12);
        *e = (sl_told_event){.time = isnan(time) ? 0 : time, .iteration = sl_told_count(o, "iteration", 0)};
        const char *const from[] = {text_of(o, "kind"), where, text_of(o, "seen"), text_of(o, "decided"),
                                    text_of(o, "why")};
        char **const to[] = {&e->kind, &e->where, &e->seen, &e->decided, &e->why};
        for (int i = 0; i < 5 && status == SL_OK; i++)
            status = sl_copy_text(to[i], from[i]);
        if (status == SL_OK)
            status = take_state(t, text_of(o, "kind"), text_of(o, "why"));
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
    if (absent && errno == ENOENT && !missing)
        return 0;
    missing = missing ? missing : "";
    if (absent && errno != ENOENT)
        *status = sl_told_note(t, "%s cannot be read: %s.", name, strerror(errno));
    else
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
    const int there = is_there(t, path, name, "", &status);
    FILE *in = there ? fopen(path, "re") : NULL;
    if (there && !in)
        status = sl_told_note(t, "%s cannot be read: %s.", name, strerror(errno));
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

sl_status sl_told_read_text(sl_told *t, const char *name, const char *missing, char **text) {
    char *path;
    size_t size;
    *text = NULL;
    SL_TRY(path_of(t, name, &path));
    sl_status status = SL_OK;
    if (is_there(t, path, name, missing, &status)) {
        status = sl_file_read_most(path, MOST_TEXT, text, &size);
        if (status == SL_EINVAL || status == SL_ESYS)
            status = sl_told_note(t, "%s", sl_error_text());
    }
    sl_free(path);
    return status;
}

sl_status sl_told_read_object(sl_told *t, const char *name, const char *missing, char **text,
                              json_t **object) {
    SL_TRY(sl_told_read_text(t, name, missing, text));
    if (!*text)
        return SL_OK;
    json_error_t error;
    *object = json_loads(*text, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(*object))
        return SL_OK;
    if (*object)
        snprintf(error.text, sizeof error.text, "an object is wanted");
    json_decref(*object);
    *object = NULL;
    return sl_told_note(t, "%s is damaged: line %d: %s.", name, error.line, error.text);
}

static sl_status read_summary(sl_told *t) {
    return sl_told_read_object(t, "summary.json", "it is written at a run's end", &t->summary_text,
                               &t->summary);
}

static sl_status read_profile(sl_told *t) {
    sl_document document = {0};
    SL_TRY(sl_told_read_text(t, "profile.yaml",
                             "it is written at a run's end; without it no iteration is foretold again",
                             &t->profile));
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

static sl_status read_run(sl_told *t, int *found) {
    int metrics, events;
    SL_TRY(sl_told_lines(t, "metrics.jsonl", take_metrics, t, &metrics));
    SL_TRY(sl_told_lines(t, "events.jsonl", sl_told_take_event, t, &events));
    SL_TRY(sl_told_read_text(t, "decisions.txt", NULL, &t->decisions));
    SL_TRY(sl_told_read_text(t, "run.yaml", NULL, &t->run));
    SL_TRY(read_profile(t));
    SL_TRY(read_summary(t));
    *found = metrics || events || t->summary || t->has_problem;
    return SL_OK;
}

/* `.` and `..` say nothing to who gets the page by mail. */
static sl_status name_folder(sl_told *t) {
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

static sl_status refuse(const sl_told *t) {
    for (size_t i = 0; i < t->notes; i++) {
        const size_t length = strlen(t->note[i]);
        if (strstr(t->note[i], "cannot be read: "))
            return sl_error(SL_EINVAL, "%s: nothing of a run can be read here: %.*s", t->path,
                            (int)(length - (t->note[i][length - 1] == '.')), t->note[i]);
    }
    return sl_error(SL_EINVAL,
                    "%s: nothing of a run can be read here (metrics.jsonl, events.jsonl, profile.yaml, "
                    "summary.json)",
                    t->path);
}

sl_status sl_told_read(const char *folder, sl_told *t) {
    struct stat file;
    int found;
    *t = (sl_told){0};
    if (stat(folder, &file) != 0)
        return sl_error_errno(SL_EINVAL, "%s: no run's folder", folder);
    if (!S_ISDIR(file.st_mode))
        return sl_error(SL_EINVAL, "%s: is no folder; report takes the folder of a run or a watch", folder);
    SL_TRY(sl_copy_text(&t->path, folder));
    SL_TRY(name_folder(t));
    SL_TRY(sl_copy_text(&t->why, ""));
    t->is_watch = sl_told_is_watch(t);
    SL_TRY(t->is_watch ? sl_told_read_watch(t, &found) : read_run(t, &found));
    if (!found)
        return refuse(t);
    if (t->state == SL_TOLD_OPEN && sl_launch_folder_is_held(folder) > 0)
        t->state = SL_TOLD_LIVING;
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
    void *const arrays[] = {t->path,    t->title,        t->why,  t->iteration, t->link,
                            t->sample,  t->event,        t->name, t->note,      t->decisions,
                            t->profile, t->summary_text, t->run};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        sl_free(arrays[i]);
    json_decref(t->summary);
    json_decref(t->watch);
    json_decref(t->outcome);
    sl_problem_free(&t->problem);
    *t = (sl_told){0};
}
