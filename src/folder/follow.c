#include "folder/follow.h"
#include "base/clock.h"
#include "base/event.h"
#include "base/file.h"
#include "base/memory.h"
#include "launch/run_folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX (4u << 20)       /* bytes of a file per step */
#define MAX_TEXT (64u << 20) /* of a file read as a whole */
#define GROWN (10 * SL_SECOND)
#define RECENT_S 60 /* without locks: a run that wrote this recently counts as active */

static const struct {
    const char *name, *missing; /* the consequence of its absence; NULL: none */
    int is_json;
} files[SL_FOLDER_FILES] = {
    [SL_FOLDER_METRICS] = {.name = "metrics.jsonl"},
    [SL_FOLDER_EVENTS] = {.name = "events.jsonl"},
    [SL_FOLDER_DECISIONS] = {.name = "decisions.txt"},
    [SL_FOLDER_RUN] = {.name = "run.yaml"},
    [SL_FOLDER_PROFILE] = {"profile.yaml",
                           "it is written at a run's end; without it no iteration is predicted again", 0},
    [SL_FOLDER_SUMMARY] = {"summary.json", "it is written at a run's end", 1},
    [SL_FOLDER_WATCH] = {"watch.json", "ranks, links and iterations are not known", 1},
    [SL_FOLDER_REPORT] = {"report.json", NULL, 1},
};

const char *sl_folder_file_name(sl_folder_file file) {
    return files[file].name;
}

/* 0: it exists. */
static int look_at(const sl_folder *f, sl_folder_file file, char path[4200], struct stat *found) {
    snprintf(path, 4200, "%s/%s", f->path, files[file].name);
    return stat(path, found);
}

static int is_there(const sl_folder *f, sl_folder_file file) {
    char path[4200];
    struct stat found;
    return look_at(f, file, path, &found) == 0;
}

sl_status sl_folder_open(const char *path, const sl_folder_follower *follower, sl_folder **result) {
    struct stat found;
    char name[4200];
    sl_folder *f;
    if (!path[0])
        return sl_error(SL_EINVAL, "the path of a run's folder is empty");
    if (stat(path, &found) == 0 && !S_ISDIR(found.st_mode))
        return sl_error(SL_EINVAL, "%s is not a folder; give the folder of a run or a watch", path);
    SL_TRY(sl_alloc(&f, 1, sizeof *f));
    f->follower = *follower;
    f->point = f->exit_code = -1;
    sl_status status = sl_copy_text(&f->path, path);
    for (int i = 0; i < SL_FOLDER_LINES && status == SL_OK; i++) {
        (void)look_at(f, (sl_folder_file)i, name, &found);
        status = sl_lines_open(name, &f->lines[i]);
    }
    if (status != SL_OK)
        sl_folder_close(f);
    else
        *result = f;
    return status;
}

void sl_folder_close(sl_folder *f) {
    if (!f)
        return;
    for (int i = 0; i < SL_FOLDER_LINES; i++)
        sl_lines_close(&f->lines[i]);
    SL_FREE(f->path, f);
}

/* ---- growing files ---- */

static sl_status take_iteration(void *context, const char *line, size_t length) {
    sl_folder *f = context;
    sl_row_iteration row;
    sl_status status = sl_row_iteration_read(line, length, &row);
    SL_THEN(status, f->follower.iteration(f->follower.context, &row));
    json_decref(row.object);
    return status;
}

static void forget(sl_folder *f, sl_folder_file file) {
    if (f->follower.restarted)
        f->follower.restarted(f->follower.context, file);
}

static void forget_iterations(void *context) {
    sl_folder *f = context;
    f->point = -1;
    f->whole[SL_FOLDER_RUN].file.st_ino = 0; /* handed out again, since they belong to the iterations */
    f->whole[SL_FOLDER_WATCH].file.st_ino = 0;
    forget(f, SL_FOLDER_METRICS);
}

/* A new start after an end, a failure or a warning continues the run. */
static void take_state(sl_folder *f, const sl_row_event *row) {
    static const struct {
        sl_event_kind kind;
        sl_folder_state state;
    } states[] = {{SL_EVENT_END, SL_FOLDER_ENDED},     {SL_EVENT_FAILED, SL_FOLDER_FAILED},
                  {SL_EVENT_WARNED, SL_FOLDER_WARNED}, {SL_EVENT_RESTART, SL_FOLDER_RESTARTING},
                  {SL_EVENT_START, SL_FOLDER_OPEN},    {SL_EVENT_RESUMED, SL_FOLDER_OPEN}};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        /* a command that saved on a warning reports its end as a failure after it */
        if (strcmp(row->kind, sl_event_names[states[i].kind].name) != 0 ||
            (states[i].state == SL_FOLDER_FAILED && f->said == SL_FOLDER_WARNED))
            continue;
        f->said = states[i].state;
        snprintf(f->said_why, sizeof f->said_why, "%s", row->why);
    }
}

static sl_status take_event(void *context, const char *line, size_t length) {
    sl_folder *f = context;
    sl_row_event row;
    sl_status status = sl_row_event_read(line, length, &row);
    SL_THEN(status, f->follower.event(f->follower.context, &row));
    if (status == SL_OK)
        take_state(f, &row);
    json_decref(row.object);
    return status;
}

static void forget_events(void *context) {
    sl_folder *f = context;
    f->said = SL_FOLDER_OPEN;
    f->said_why[0] = 0;
    forget(f, SL_FOLDER_EVENTS);
}

static sl_status take_decision(void *context, const char *line, size_t length) {
    sl_folder *f = context;
    return f->follower.decision(f->follower.context, line, length);
}

static void forget_decisions(void *context) {
    forget(context, SL_FOLDER_DECISIONS);
}

static const struct {
    sl_lines_taker take;
    sl_lines_restarted restarted;
} takers[SL_FOLDER_LINES] = {[SL_FOLDER_METRICS] = {take_iteration, forget_iterations},
                             [SL_FOLDER_EVENTS] = {take_event, forget_events},
                             [SL_FOLDER_DECISIONS] = {take_decision, forget_decisions}};

/* ---- files replaced as a whole ---- */

/* Iterations of a watch: those after the last known one, since older ones may have been thinned out. */
static sl_status take_points(sl_folder *f, const json_t *points) {
    size_t i;
    json_t *one;
    sl_row_iteration row;
    const size_t count = json_array_size(points);
    if (sl_row_point_read(json_array_get(points, count ? count - 1 : 0), &row) && row.iteration < f->point)
        forget_iterations(f); /* another watch */
    json_array_foreach(points, i, one) {
        if (!sl_row_point_read(one, &row) || row.iteration <= f->point)
            continue;
        SL_TRY(f->follower.iteration(f->follower.context, &row));
        f->point = row.iteration;
    }
    return SL_OK;
}

static sl_status take_text(sl_folder *f, sl_folder_file file, char *text, size_t size) {
    json_error_t error;
    json_t *object = files[file].is_json ? json_loadb(text, size, JSON_REJECT_DUPLICATES, &error) : NULL;
    char damage[sizeof f->whole[0].trouble] = "";
    if (files[file].is_json && !json_is_object(object)) {
        snprintf(damage, sizeof damage, "%s is damaged: line %d: %s.", files[file].name, error.line,
                 object ? "expected an object" : error.text);
        json_decref(object);
        object = NULL;
    }
    sl_status status =
        file == SL_FOLDER_WATCH ? take_points(f, json_object_get(object, "iterations")) : SL_OK;
    SL_THEN(status, f->follower.text(f->follower.context, file, text, object));
    if (file == SL_FOLDER_REPORT)
        f->exit_code = sl_json_count(object, "exit_code", -1);
    json_decref(object);
    return damage[0] && status != SL_ENOMEM ? sl_error(SL_EINVAL, "%s", damage) : status;
}

static sl_status read_whole(sl_folder *f, sl_folder_file file) {
    sl_folder_whole *w = &f->whole[file];
    const struct stat before = w->file;
    char path[4200], *text = NULL;
    size_t size;
    const int failed = look_at(f, file, path, &w->file) != 0, absent = failed && errno == ENOENT;
    const char *missing = files[file].missing;
    if (failed || !S_ISREG(w->file.st_mode)) {
        w->file.st_ino = 0;
        w->unread = !absent;
        w->trouble[0] = 0;
        if (failed && !absent)
            snprintf(w->trouble, sizeof w->trouble, "%s cannot be read: %s.", files[file].name,
                     strerror(errno));
        else if (!absent || missing)
            snprintf(w->trouble, sizeof w->trouble, "%s is %s%s%s.", files[file].name,
                     absent ? "missing" : "no regular file", missing ? ": " : "", missing ? missing : "");
        return SL_OK;
    }
    if (!sl_file_differs(&before, &w->file))
        return SL_OK;
    if (file == SL_FOLDER_WATCH && f->steps > 0)
        f->grown = sl_now() + GROWN;
    sl_status status = sl_file_read_max(path, MAX_TEXT, &text, &size);
    SL_THEN(status, take_text(f, file, text, size));
    sl_free(text);
    w->unread = status == SL_EINVAL || status == SL_ESYS;
    snprintf(w->trouble, sizeof w->trouble, "%s", w->unread ? sl_error_text() : "");
    if (status == SL_OK || w->unread)
        return SL_OK;
    w->file.st_ino = 0; /* retried */
    return status;
}

/* report.json is written at the end of a watch; one from an earlier watch is older than the events. */
static int has_outcome(const sl_folder *f) {
    struct stat report, events;
    char path[4200];
    return look_at(f, SL_FOLDER_REPORT, path, &report) == 0 &&
           (look_at(f, SL_FOLDER_EVENTS, path, &events) != 0 ||
            report.st_mtim.tv_sec + 1 >= events.st_mtim.tv_sec);
}

/* A watch's if it has the files of one and no run started there since. */
static void see_kind(sl_folder *f) {
    const int is_watch = (is_there(f, SL_FOLDER_WATCH) || is_there(f, SL_FOLDER_REPORT)) &&
                         !is_there(f, SL_FOLDER_METRICS) && !is_there(f, SL_FOLDER_RUN);
    if (is_watch == f->is_watch)
        return;
    f->is_watch = is_watch;
    memset(f->whole, 0, sizeof f->whole);
    forget_iterations(f);
}

/* Events come before the iterations they refer to, and both before the end. */
static sl_status read_files(sl_folder *f, size_t most) {
    static const sl_folder_file lines[] = {SL_FOLDER_EVENTS, SL_FOLDER_METRICS, SL_FOLDER_DECISIONS};
    see_kind(f);
    for (int i = SL_FOLDER_LINES; i < SL_FOLDER_REPORT; i++)
        if ((f->follower.files & 1u << i) && f->is_watch == (i == SL_FOLDER_WATCH))
            SL_TRY(read_whole(f, (sl_folder_file)i));
    for (int i = 0; i < SL_FOLDER_LINES; i++)
        SL_TRY(
            sl_lines_step(&f->lines[lines[i]], most, takers[lines[i]].take, takers[lines[i]].restarted, f));
    if (f->is_watch && has_outcome(f))
        return read_whole(f, SL_FOLDER_REPORT);
    f->whole[SL_FOLDER_REPORT] = (sl_folder_whole){0};
    f->exit_code = -1;
    return SL_OK;
}

/* ---- state ---- */

static int wrote_lately(const sl_folder *f) {
    struct stat found;
    char path[4200];
    for (int i = SL_FOLDER_METRICS; i <= SL_FOLDER_EVENTS; i++)
        if (look_at(f, (sl_folder_file)i, path, &found) == 0 && time(NULL) - found.st_mtim.tv_sec < RECENT_S)
            return 1;
    return 0;
}

/* Events of a watch have other meanings than a run's. */
static void take_end(sl_folder *f) {
    f->state = !f->is_watch        ? f->said
               : f->exit_code < 0  ? SL_FOLDER_OPEN
               : f->exit_code == 0 ? SL_FOLDER_ENDED
                                   : SL_FOLDER_FAILED;
    snprintf(f->why, sizeof f->why, "%s", f->is_watch ? "" : f->said_why);
    if (f->is_watch && f->exit_code >= 0)
        snprintf(f->why, sizeof f->why, "exit code %d", f->exit_code);
}

static void update_state(sl_folder *f) {
    take_end(f);
    struct stat found;
    const int open = f->state == SL_FOLDER_OPEN || f->state == SL_FOLDER_RESTARTING;
    f->there = stat(f->path, &found) == 0 && S_ISDIR(found.st_mode);
    f->shut = 0;
    if (access(f->path, f->there ? X_OK : F_OK) != 0 && errno != ENOENT && errno != ENOTDIR)
        f->shut = errno;
    const int held = f->there ? sl_launch_folder_is_held(f->path) : 0;
    f->living = held > 0;
    if (held < 0 && open) /* a file system without locks */
        f->living = wrote_lately(f);
    else if (held == 0 && open) /* locks not visible here, as of a run on another machine */
        f->living = sl_now() < f->grown;
}

static off_t read_so_far(const sl_folder *f) {
    return f->lines[SL_FOLDER_METRICS].at + f->lines[SL_FOLDER_EVENTS].at;
}

sl_status sl_folder_step(sl_folder *f, int *more) {
    const off_t before = read_so_far(f);
    /* if the whole folder is gone, its earlier contents stay */
    sl_status status = access(f->path, F_OK) == 0 ? read_files(f, MAX) : SL_OK;
    if (f->steps++ > 0 && read_so_far(f) > before && !f->lags)
        f->grown = sl_now() + GROWN;
    f->lags = read_so_far(f) < f->lines[SL_FOLDER_METRICS].size + f->lines[SL_FOLDER_EVENTS].size;
    *more = f->lags && read_so_far(f) != before;
    update_state(f);
    return status;
}

sl_status sl_folder_read(sl_folder *f) {
    struct stat found;
    if (stat(f->path, &found) != 0)
        return sl_error_errno(SL_EINVAL, "%s: not a run's folder", f->path);
    SL_TRY(read_files(f, SIZE_MAX));
    for (int i = 0; i < SL_FOLDER_LINES; i++)
        SL_TRY(sl_lines_end(&f->lines[i], takers[i].take, f));
    update_state(f);
    return SL_OK;
}

/* ---- missing and damaged parts ---- */

void sl_folder_trouble(const sl_folder *f, sl_folder_file file, char *text, size_t size) {
    const int is_line = file < SL_FOLDER_LINES;
    /* a watch has no metrics.jsonl; decisions.txt exists only if there were decisions */
    const int may_lack = file == SL_FOLDER_DECISIONS || (file == SL_FOLDER_METRICS && f->is_watch);
    snprintf(text, size, "%s", is_line ? "" : f->whole[file].trouble);
    if (is_line && !(may_lack && !f->lines[file].refused))
        sl_lines_trouble(&f->lines[file], text, size);
}

int sl_folder_is_unread(const sl_folder *f, sl_folder_file file) {
    return file < SL_FOLDER_LINES ? f->lines[file].refused != 0 : f->whole[file].unread;
}
