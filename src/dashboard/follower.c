#include "dashboard/follower.h"
#include "base/memory.h"
#include "base/yaml.h"
#include "dashboard/dashboard_watch.h"
#include "folder/follow.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct sl_follower {
    sl_folder *folder;
    sl_board *board;
    pthread_mutex_t *lock;
};

/* ---- growing files ---- */

static sl_status take_iteration(void *context, const sl_row_iteration *row) {
    sl_follower *f = context;
    const sl_board_row drawn = {.iteration = row->iteration,
                                .time = (float)row->time,
                                .predicted = NAN,
                                .loss = NAN,
                                .schedule = -1,
                                .phase = -1};
    pthread_mutex_lock(f->lock);
    sl_status status =
        f->folder->is_watch ? sl_board_add_row(f->board, &drawn) : sl_board_iteration(f->board, row);
    pthread_mutex_unlock(f->lock);
    return status;
}

static sl_status take_event(void *context, const sl_row_event *row) {
    sl_follower *f = context;
    pthread_mutex_lock(f->lock);
    sl_status status = sl_board_event(f->board, row);
    pthread_mutex_unlock(f->lock);
    return status;
}

static sl_status take_decision(void *context, const char *line, size_t length) {
    sl_follower *f = context;
    pthread_mutex_lock(f->lock);
    sl_status status = sl_board_line(f->board, line, length);
    pthread_mutex_unlock(f->lock);
    return status;
}

static void forget(void *context, sl_folder_file file) {
    sl_follower *f = context;
    sl_board *b = f->board;
    pthread_mutex_lock(f->lock);
    if (file == SL_FOLDER_EVENTS)
        sl_board_forget_events(b);
    else if (file == SL_FOLDER_DECISIONS)
        sl_board_forget_lines(b);
    else
        sl_board_forget_iterations(b);
    if (b->is_cluster != f->folder->is_watch)
        b->pipeline = b->data = b->tensor = 0;
    b->is_cluster = f->folder->is_watch;
    pthread_mutex_unlock(f->lock);
}

/* ---- run.yaml, watch.json, report.json ---- */

static int number_at(const sl_yaml *map, const char *section, const char *key, int otherwise) {
    int64_t number;
    const sl_yaml *node = sl_yaml_find(section ? sl_yaml_find(map, section) : map, key);
    return node && sl_yaml_int(node, 0, 1 << 30, &number) == SL_OK ? (int)number : otherwise;
}

static void text_at(const sl_yaml *map, const char *section, const char *key, char *text, size_t size) {
    const char *said;
    const sl_yaml *node = sl_yaml_find(section ? sl_yaml_find(map, section) : map, key);
    snprintf(text, size, "%s", node && sl_yaml_text(node, &said) == SL_OK ? said : "");
}

static sl_status take_run(sl_board *b, const sl_yaml *root) {
    int on;
    const sl_yaml *adapt = sl_yaml_find(root, "adapt");
    b->pipeline = number_at(root, "parallel", "pipeline", 0);
    b->data = number_at(root, "parallel", "data", 1);
    b->tensor = number_at(root, "parallel", "tensor", 1);
    b->microbatches = number_at(root, "batch", "microbatches", 0);
    b->iterations = number_at(root, NULL, "iterations", 0);
    b->adapt = adapt && sl_yaml_bool(adapt, &on) == SL_OK ? on : -1;
    text_at(root, "parallel", "placement", b->placement, sizeof b->placement);
    text_at(root, "model", "kind", b->model, sizeof b->model);
    b->version++;
    b->renewed = 1;
    return b->pipeline > 0 && b->pipeline < 1 << 16 && b->data < 1 << 16
               ? sl_board_need_ranks(b, (size_t)b->pipeline * (size_t)(b->data > 0 ? b->data : 1))
               : SL_OK;
}

/* Command-line settings are above the file as `# --set KEY=VALUE`; the text is modified. */
static void set_all(char *text, sl_document *document) {
    static const char mark[] = "# --set ";
    for (char *line = text, *next; *line == '#'; line = next) {
        char *end = line + strcspn(line, "\n");
        next = *end ? end + 1 : end;
        *end = 0;
        if (strncmp(line, mark, sizeof mark - 1) == 0)
            (void)sl_document_set(document, line + sizeof mark - 1); /* train accepted it */
    }
}

/* If a run file is unreadable, the iterations give the layout. */
static sl_status read_run(sl_board *b, char *text) {
    sl_document document = {0};
    sl_status status;
    SL_TRY_GOTO(done, status, sl_document_parse("run.yaml", text, &document));
    if (document.root && document.root->kind == SL_YAML_MAP) {
        set_all(text, &document);
        status = take_run(b, document.root);
    } else {
        status = sl_error(SL_EINVAL, "run.yaml is not a run file");
    }
done:
    sl_document_close(&document);
    return status;
}

static sl_status take_text(void *context, sl_folder_file file, char *text, json_t *object) {
    sl_follower *f = context;
    sl_status status = SL_OK;
    pthread_mutex_lock(f->lock);
    if (file == SL_FOLDER_RUN)
        status = read_run(f->board, text);
    else if (file == SL_FOLDER_WATCH && object)
        status = sl_watched_take(f->board, object);
    else if (object)
        sl_watched_outcome(f->board, object);
    pthread_mutex_unlock(f->lock);
    return status;
}

sl_status sl_follower_open(const char *path, sl_board *board, pthread_mutex_t *lock, sl_follower **follower) {
    SL_TRY(sl_alloc(follower, 1, sizeof **follower));
    **follower = (sl_follower){.board = board, .lock = lock};
    const sl_folder_follower takers = {.context = *follower,
                                       .files = 1u << SL_FOLDER_RUN | 1u << SL_FOLDER_WATCH |
                                                1u << SL_FOLDER_REPORT,
                                       .iteration = take_iteration,
                                       .event = take_event,
                                       .decision = take_decision,
                                       .text = take_text,
                                       .restarted = forget};
    return sl_folder_open(path, &takers, &(*follower)->folder);
}

void sl_follower_close(sl_follower *f) {
    if (f)
        sl_folder_close(f->folder);
    sl_free(f);
}

/* ---- state ---- */

static int has_rows(const sl_folder *f) {
    return f->is_watch || f->lines[SL_FOLDER_METRICS].number > 0 || f->lines[SL_FOLDER_EVENTS].number > 0;
}

static void set_living(const sl_folder *f, sl_board *b) {
    if (!has_rows(f))
        sl_board_set_state(b, SL_BOARD_STARTING, "a run has the folder and has written nothing yet");
    else if (f->state == SL_FOLDER_RESTARTING)
        sl_board_set_state(b, SL_BOARD_RESTARTING, "an attempt failed and the ranks are started again: %s",
                           f->why);
    else if (f->state == SL_FOLDER_ENDED)
        sl_board_set_state(b, SL_BOARD_ENDED, "all iterations are done; results are being written");
    else if (b->iteration < 0 && (b->is_cluster || b->pipeline > 0))
        sl_board_set_state(b, SL_BOARD_STARTING, "no iteration has finished yet");
    else
        sl_board_set_state(b, SL_BOARD_RUNNING, "%s", "");
}

static void set_dead(const sl_folder *f, sl_board *b) {
    if (!has_rows(f))
        sl_board_set_state(b, SL_BOARD_WAITING, "nothing of a run is in the folder yet");
    else if (f->is_watch && f->state != SL_FOLDER_OPEN)
        sl_board_set_state(b, f->state == SL_FOLDER_ENDED ? SL_BOARD_ENDED : SL_BOARD_FAILED,
                           "the watched program ended with %s", f->why);
    else if (f->state == SL_FOLDER_ENDED)
        sl_board_set_state(b, SL_BOARD_ENDED, "all iterations are done");
    else if (f->state == SL_FOLDER_FAILED)
        sl_board_set_state(b, SL_BOARD_FAILED, "%s", f->why[0] ? f->why : "it was given up");
    else if (f->state == SL_FOLDER_WARNED)
        sl_board_set_state(b, SL_BOARD_FAILED,
                           "a scheduler's warning (SIGTERM) ended it; --resume continues");
    else
        sl_board_set_state(
            b, SL_BOARD_FAILED,
            "no process works in the folder any more, and no end was recorded: killed, or its machine was "
            "lost");
}

static void say_unread(const sl_folder *f, sl_board *b) {
    char unread[sizeof b->unread] = "";
    size_t used = 0;
    for (int file = 0; file < SL_FOLDER_FILES; file++)
        if (sl_folder_is_unread(f, (sl_folder_file)file))
            used += (size_t)snprintf(unread + used, sizeof unread - used, "%s%s", used ? " " : "",
                                     sl_folder_file_name((sl_folder_file)file));
    b->version += strcmp(unread, b->unread) != 0;
    memcpy(b->unread, unread, sizeof unread);
}

static void update_state(const sl_folder *f, sl_board *b) {
    const sl_lines *metrics = &f->lines[SL_FOLDER_METRICS];
    if (f->shut && !has_rows(f))
        sl_board_set_state(b, SL_BOARD_WAITING, "the folder cannot be read: %s", strerror(f->shut));
    else if (!f->there && (b->rows > 0 || b->events > 0))
        sl_board_set_state(b, SL_BOARD_SILENT, "the folder is gone; this is its last known state");
    else if (!f->there)
        sl_board_set_state(b, SL_BOARD_WAITING, "the folder is not there yet");
    else if (f->living)
        set_living(f, b);
    else
        set_dead(f, b);
    if (b->is_cluster && (b->state == SL_BOARD_ENDED || b->state == SL_BOARD_FAILED))
        sl_watched_ended(b);
    say_unread(f, b);
    int64_t damaged = metrics->damaged + f->lines[SL_FOLDER_EVENTS].damaged;
    double caught = metrics->size > 0 ? (double)metrics->at / (double)metrics->size : 1;
    if (caught > 0.99)
        caught = 1; /* the next look reads the rest */
    if (damaged != b->damaged || fabs(caught - b->caught) > 0.001)
        b->version++;
    b->damaged = damaged;
    b->caught = caught;
}

sl_status sl_follower_step(sl_follower *f, int *more) {
    sl_status status = sl_folder_step(f->folder, more);
    pthread_mutex_lock(f->lock);
    update_state(f->folder, f->board);
    pthread_mutex_unlock(f->lock);
    return status;
}
