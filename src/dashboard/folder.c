#include "dashboard/folder.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/yaml.h"
#include "dashboard/lines.h"
#include "dashboard/watched.h"
#include "launch/folder.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MOST (4u << 20)      /* bytes of a file in a step */
#define MOST_TEXT (1u << 20) /* of a small file that is read as a whole */
#define MOST_WATCH (64u << 20)
#define GROWN (10 * SL_SECOND)
#define RECENT_S 60 /* without locks: a run that has written since then goes on */

struct sl_folder {
    char *path;
    sl_lines metrics, events, decisions;
    struct stat run, report, watch;     /* of those files as they were read; st_ino 0: not */
    int bad_run, bad_report, bad_watch; /* they are there, and cannot be read */
    sl_board *board;                    /* of the step */
    pthread_mutex_t *lock;
    char last[32]; /* of the events that tell how far a run is: start, resumed, restart, failed, end */
    char why[400]; /* of that one */
    int behind;    /* there was more than a step reads */
    int steps;     /* 0: nothing was read yet */
    sl_time grown; /* until then somebody counts as at work, because the files grew */
    int told;      /* anything of a run was there */
    int exit_code; /* of report.json; -1: not there */
};

static sl_status path_of(const sl_folder *f, const char *name, char **path) {
    size_t size = strlen(f->path) + strlen(name) + 2;
    SL_TRY(sl_alloc(path, size, 1));
    snprintf(*path, size, "%s/%s", f->path, name);
    return SL_OK;
}

static sl_status open_lines(const sl_folder *f, const char *name, sl_lines *lines) {
    char *path;
    SL_TRY(path_of(f, name, &path));
    sl_status status = sl_lines_open(path, lines);
    sl_free(path);
    return status;
}

sl_status sl_folder_open(const char *path, sl_folder **result) {
    struct stat file;
    sl_folder *f;
    if (!path[0])
        return sl_error(SL_EINVAL, "dashboard: the path of a run's folder is empty");
    if (stat(path, &file) == 0 && !S_ISDIR(file.st_mode))
        return sl_error(SL_EINVAL, "dashboard: %s is no folder; give the folder of a run", path);
    SL_TRY(sl_alloc(&f, 1, sizeof *f));
    f->exit_code = -1;
    sl_status status = sl_copy_text(&f->path, path);
    if (status == SL_OK)
        status = open_lines(f, "metrics.jsonl", &f->metrics);
    if (status == SL_OK)
        status = open_lines(f, "events.jsonl", &f->events);
    if (status == SL_OK)
        status = open_lines(f, "decisions.txt", &f->decisions);
    if (status != SL_OK) {
        sl_folder_close(f);
        return status;
    }
    *result = f;
    return SL_OK;
}

void sl_folder_close(sl_folder *f) {
    if (!f)
        return;
    sl_lines_close(&f->metrics);
    sl_lines_close(&f->events);
    sl_lines_close(&f->decisions);
    sl_free(f->path);
    sl_free(f);
}

/* ---- what grows ---- */

static sl_status take_metrics(void *context, const char *line, size_t length) {
    sl_folder *f = context;
    pthread_mutex_lock(f->lock);
    sl_status status = sl_board_metrics(f->board, line, length);
    pthread_mutex_unlock(f->lock);
    return status;
}

static void forget_metrics(void *context) {
    sl_folder *f = context;
    pthread_mutex_lock(f->lock);
    sl_board_forget_iterations(f->board);
    pthread_mutex_unlock(f->lock);
    f->run.st_ino = 0; /* it says how many ranks there are */
}

static void note_stage(sl_folder *f, const char *kind, const char *line, size_t length) {
    static const char *const stages[] = {"start", "resumed", "restart", "warned", "failed", "end", NULL};
    for (int i = 0; stages[i]; i++)
        if (strcmp(kind, stages[i]) == 0) {
            json_t *o = json_loadb(line, length, 0, NULL);
            snprintf(f->last, sizeof f->last, "%s", kind);
            snprintf(f->why, sizeof f->why, "%s", sl_board_text(o, "why"));
            json_decref(o);
        }
}

static sl_status take_event(void *context, const char *line, size_t length) {
    sl_folder *f = context;
    char kind[32];
    pthread_mutex_lock(f->lock);
    sl_status status = sl_board_event(f->board, line, length, kind);
    pthread_mutex_unlock(f->lock);
    if (status == SL_OK)
        note_stage(f, kind, line, length);
    return status;
}

static void forget_events(void *context) {
    sl_folder *f = context;
    f->last[0] = f->why[0] = 0;
    pthread_mutex_lock(f->lock);
    sl_board_forget_events(f->board);
    pthread_mutex_unlock(f->lock);
}

static sl_status take_decision(void *context, const char *line, size_t length) {
    sl_folder *f = context;
    pthread_mutex_lock(f->lock);
    sl_status status = sl_board_line(f->board, line, length);
    pthread_mutex_unlock(f->lock);
    return status;
}

static void forget_decisions(void *context) {
    sl_folder *f = context;
    pthread_mutex_lock(f->lock);
    sl_board_forget_lines(f->board);
    pthread_mutex_unlock(f->lock);
}

/* ---- what is written once ---- */

/* 1: the file is there and another than `before`, which it becomes. */
static int is_other(const char *path, struct stat *before) {
    struct stat now;
    if (stat(path, &now) != 0 || !S_ISREG(now.st_mode)) {
        before->st_ino = 0;
        return 0;
    }
    int other = now.st_ino != before->st_ino || now.st_mtim.tv_sec != before->st_mtim.tv_sec ||
                now.st_mtim.tv_nsec != before->st_mtim.tv_nsec || now.st_size != before->st_size;
    *before = now;
    return other;
}

static int number_at(const sl_node *map, const char *section, const char *key, int otherwise) {
    int64_t number;
    const sl_node *at = section && map ? sl_node_find(map, section) : map;
    const sl_node *node = at && at->kind == SL_NODE_MAP ? sl_node_find(at, key) : NULL;
    return node && sl_node_int(node, 0, 1 << 30, &number) == SL_OK ? (int)number : otherwise;
}

static void text_at(const sl_node *map, const char *section, const char *key, char *text, size_t size) {
    const char *said;
    const sl_node *at = section && map ? sl_node_find(map, section) : map;
    const sl_node *node = at && at->kind == SL_NODE_MAP ? sl_node_find(at, key) : NULL;
    snprintf(text, size, "%s", node && sl_node_text(node, &said) == SL_OK ? said : "");
}

static sl_status take_run(sl_board *b, const sl_node *root) {
    int on;
    const sl_node *adapt = sl_node_find(root, "adapt");
    b->pipeline = number_at(root, "parallel", "pipeline", 0);
    b->data = number_at(root, "parallel", "data", 1);
    b->tensor = number_at(root, "parallel", "tensor", 1);
    b->microbatches = number_at(root, "batch", "microbatches", 0);
    b->iterations = number_at(root, NULL, "iterations", 0);
    b->adapt = adapt && sl_node_bool(adapt, &on) == SL_OK ? on : -1;
    text_at(root, "parallel", "placement", b->placement, sizeof b->placement);
    text_at(root, "model", "kind", b->model, sizeof b->model);
    b->version++;
    b->renewed = 1;
    return b->pipeline > 0 && b->pipeline < 1 << 16 && b->data < 1 << 16
               ? sl_board_need_ranks(b, (size_t)b->pipeline * (size_t)(b->data > 0 ? b->data : 1))
               : SL_OK;
}

/* What was set on the command line stands above the file as `# --set KEY=VALUE`; the text is changed. */
static void set_all(char *text, sl_document *document) {
    static const char mark[] = "# --set ";
    for (char *line = text, *next; *line == '#'; line = next) {
        char *end = line + strcspn(line, "\n");
        next = *end ? end + 1 : end;
        *end = 0;
        if (strncmp(line, mark, sizeof mark - 1) == 0)
            (void)sl_document_set(document, line + sizeof mark - 1); /* train took it */
    }
}

/* A run file that cannot be read leaves the layout to what the iterations tell. */
static sl_status read_run(sl_folder *f) {
    char *path, *text = NULL;
    size_t size;
    sl_document document = {0};
    SL_TRY(path_of(f, "run.yaml", &path));
    sl_status status = SL_OK;
    int other = is_other(path, &f->run);
    if (other) {
        f->bad_run = sl_file_read_most(path, MOST_TEXT, &text, &size) != SL_OK ||
                     sl_document_parse("run.yaml", text, &document) != SL_OK || !document.root ||
                     document.root->kind != SL_NODE_MAP;
    }
    if (other && !f->bad_run) {
        set_all(text, &document);
        pthread_mutex_lock(f->lock);
        status = take_run(f->board, document.root);
        pthread_mutex_unlock(f->lock);
    }
    f->bad_run &= f->run.st_ino != 0;
    sl_document_close(&document);
    sl_free(text);
    sl_free(path);
    return status;
}

static void take_report(sl_folder *f, const json_t *o) {
    sl_board *b = f->board;
    f->exit_code = (int)sl_board_count(o, "exit_code", -1);
    b->nodes = (int)sl_board_count(o, "nodes", 0);
    const json_t *program = json_object_get(o, "program"), *word;
    size_t i, used = 0;
    b->program[0] = 0;
    json_array_foreach((json_t *)(uintptr_t)program, i, word) {
        if (used + 2 < sizeof b->program)
            used += (size_t)snprintf(b->program + used, sizeof b->program - used, "%s%s", i ? " " : "",
                                     json_string_value(word) ? json_string_value(word) : "");
    }
    b->version++;
}

/* What a watch leaves at its end; one of an earlier watch in the folder does not count. */
static sl_status read_report(sl_folder *f) {
    char *path, *text = NULL;
    size_t size;
    struct stat events;
    SL_TRY(path_of(f, "report.json", &path));
    int other = is_other(path, &f->report);
    if (f->report.st_ino == 0)
        f->exit_code = -1;
    int late = stat(f->events.path, &events) == 0 && f->report.st_ino != 0 &&
               f->report.st_mtim.tv_sec + 1 < events.st_mtim.tv_sec;
    if (late)
        f->exit_code = -1;
    if (other && !late) {
        json_t *o = sl_file_read_most(path, MOST_TEXT, &text, &size) == SL_OK
                        ? json_loadb(text, size, 0, NULL)
                        : NULL;
        f->bad_report = !json_is_object(o);
        pthread_mutex_lock(f->lock);
        if (json_is_object(o))
            take_report(f, o);
        pthread_mutex_unlock(f->lock);
        json_decref(o);
    }
    f->bad_report &= f->report.st_ino != 0 && !late;
    sl_free(text);
    sl_free(path);
    return SL_OK;
}

/* A folder is a watch's when it has watch.json and no run began there since. */
static void set_watched(sl_folder *f, int is_watched) {
    sl_board *b = f->board;
    if (b->is_cluster == is_watched)
        return;
    b->is_cluster = is_watched;
    b->pipeline = b->data = b->tensor = 0;
    sl_board_forget_iterations(b);
    f->run.st_ino = 0;
    b->renewed = 1;
}

static sl_status read_watch(sl_folder *f) {
    char *path, *text = NULL;
    size_t size;
    SL_TRY(path_of(f, "watch.json", &path));
    sl_status status = SL_OK;
    int other = is_other(path, &f->watch);
    int is_watched = f->watch.st_ino != 0 && access(f->metrics.path, F_OK) != 0;
    int readable = other && is_watched && sl_file_read_most(path, MOST_WATCH, &text, &size) == SL_OK;
    pthread_mutex_lock(f->lock);
    set_watched(f, is_watched);
    if (readable)
        status = sl_watched_take(f->board, text, size);
    pthread_mutex_unlock(f->lock);
    if (other && is_watched) {
        f->bad_watch = !readable || status == SL_EINVAL;
        f->grown = f->steps > 0 ? sl_clock_now(sl_clock_real()) + GROWN : f->grown;
    }
    f->bad_watch &= is_watched;
    sl_free(text);
    sl_free(path);
    return status == SL_ENOMEM ? status : SL_OK;
}

/* ---- how it stands ---- */

static int wrote_lately(const sl_folder *f) {
    struct stat file;
    const char *const paths[] = {f->metrics.path, f->events.path};
    for (int i = 0; i < 2; i++)
        if (stat(paths[i], &file) == 0 && time(NULL) - file.st_mtim.tv_sec < RECENT_S)
            return 1;
    return 0;
}

static void judge_living(sl_folder *f) {
    sl_board *b = f->board;
    if (!f->told)
        sl_board_set_state(b, SL_BOARD_STARTING, "a run has the folder and has written nothing yet");
    else if (strcmp(f->last, "restart") == 0)
        sl_board_set_state(b, SL_BOARD_RESTARTING, "an attempt failed and the ranks are started again: %s",
                           f->why);
    else if (strcmp(f->last, "end") == 0)
        sl_board_set_state(b, SL_BOARD_ENDED, "all iterations are done; results are being written");
    else if (b->iteration < 0 && (b->is_cluster || b->pipeline > 0))
        sl_board_set_state(b, SL_BOARD_STARTING, "no iteration is over yet");
    else
        sl_board_set_state(b, SL_BOARD_RUNNING, "%s", "");
}

static void judge_dead(sl_folder *f) {
    sl_board *b = f->board;
    if (!f->told)
        sl_board_set_state(b, SL_BOARD_WAITING, "nothing of a run is in the folder yet");
    else if (strcmp(f->last, "end") == 0)
        sl_board_set_state(b, SL_BOARD_ENDED, "all iterations are done");
    else if (strcmp(f->last, "failed") == 0)
        sl_board_set_state(b, SL_BOARD_FAILED, "%s", f->why[0] ? f->why : "it was given up");
    else if (strcmp(f->last, "warned") == 0)
        sl_board_set_state(b, SL_BOARD_FAILED, "a scheduler's warning (SIGTERM) ended it; --resume goes on");
    else if (f->exit_code >= 0)
        sl_board_set_state(b, f->exit_code == 0 ? SL_BOARD_ENDED : SL_BOARD_FAILED,
                           "the watched program ended with exit code %d", f->exit_code);
    else
        sl_board_set_state(
            b, SL_BOARD_FAILED,
            "nobody works in the folder any more, and no end was written: killed, or its machine was "
            "lost");
}

static void say_unread(const sl_folder *f) {
    sl_board *b = f->board;
    char unread[sizeof b->unread];
    snprintf(unread, sizeof unread, "%s%s%s%s%s%s", f->bad_run ? "run.yaml " : "",
             f->bad_report ? "report.json " : "", f->bad_watch ? "watch.json " : "",
             f->metrics.refused ? "metrics.jsonl " : "", f->events.refused ? "events.jsonl " : "",
             f->decisions.refused ? "decisions.txt " : "");
    unread[strlen(unread) - (unread[0] != 0)] = 0;
    b->version += strcmp(unread, b->unread) != 0;
    memcpy(b->unread, unread, sizeof unread);
}

static void judge(sl_folder *f) {
    struct stat file;
    sl_board *b = f->board;
    int there = stat(f->path, &file) == 0 && S_ISDIR(file.st_mode), shut = 0;
    if (access(f->path, there ? X_OK : F_OK) != 0 && errno != ENOENT && errno != ENOTDIR)
        shut = errno;
    int held = there ? sl_launch_folder_is_held(f->path) : 0;
    f->told = f->metrics.number > 0 || f->events.number > 0 || b->is_cluster;
    const int open = strcmp(f->last, "end") != 0 && strcmp(f->last, "failed") != 0;
    if (held < 0) /* a file system without locks */
        held = open && wrote_lately(f);
    else if (held == 0 && open) /* whose locks do not reach us, as of a run on another machine */
        held = sl_clock_now(sl_clock_real()) < f->grown;
    if (shut && !f->told)
        sl_board_set_state(b, SL_BOARD_WAITING, "the folder cannot be read: %s", strerror(shut));
    else if (!there && (b->rows > 0 || b->events > 0))
        sl_board_set_state(b, SL_BOARD_SILENT, "the folder is gone; this is what it said last");
    else if (!there)
        sl_board_set_state(b, SL_BOARD_WAITING, "the folder is not there yet");
    else if (held)
        judge_living(f);
    else
        judge_dead(f);
    if (b->is_cluster && (b->state == SL_BOARD_ENDED || b->state == SL_BOARD_FAILED))
        sl_watched_ended(b);
    say_unread(f);
    int64_t damaged = f->metrics.damaged + f->events.damaged;
    double caught = f->metrics.size > 0 ? (double)f->metrics.at / (double)f->metrics.size : 1;
    if (caught > 0.99)
        caught = 1; /* within what the next look reads */
    if (damaged != b->damaged || fabs(caught - b->caught) > 0.001)
        b->version++;
    b->damaged = damaged;
    b->caught = caught;
}

/* Where the folder is gone as a whole, what it said stays. */
static int is_gone(const sl_folder *f) {
    return access(f->path, F_OK) != 0;
}

sl_status sl_folder_step(sl_folder *f, sl_board *board, pthread_mutex_t *lock, int *more) {
    f->board = board;
    f->lock = lock;
    sl_status status = SL_OK;
    const off_t before = f->metrics.at + f->events.at;
    if (!is_gone(f)) {
        status = read_run(f);
        if (status == SL_OK)
            status = read_watch(f);
        if (status == SL_OK)
            status = sl_lines_step(&f->events, MOST, take_event, forget_events, f);
        if (status == SL_OK)
            status = sl_lines_step(&f->metrics, MOST, take_metrics, forget_metrics, f);
        if (status == SL_OK)
            status = sl_lines_step(&f->decisions, MOST, take_decision, forget_decisions, f);
        if (status == SL_OK)
            status = read_report(f);
    }
    if (f->steps++ > 0 && f->metrics.at + f->events.at > before && !f->behind)
        f->grown = sl_clock_now(sl_clock_real()) + GROWN;
    f->behind = f->metrics.at < f->metrics.size || f->events.at < f->events.size;
    pthread_mutex_lock(lock);
    judge(f);
    pthread_mutex_unlock(lock);
    *more = f->metrics.at + f->events.at != before &&
            (f->metrics.at < f->metrics.size || f->events.at < f->events.size);
    return status;
}
