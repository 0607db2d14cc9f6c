/* The writing thread. It uses the snapshot, the files and its task, and never MPI. */
#include "base/file.h"
#include "base/memory.h"
#include "run/saving/saving_inside.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH 4096

/* Opens the unfinished checkpoint; `path` has room for PATH characters. */
static sl_status open_part(const sl_saving *s, char *path) {
    return sl_checkpoint_begin(s->folder, s->iteration, path);
}

static sl_status join(char *path, const char *folder, const char *name) {
    return snprintf(path, PATH, "%s/%s", folder, name) < PATH
               ? SL_OK
               : sl_error(SL_ESYS, "%s: the path is too long", folder);
}

static sl_status write_one(sl_saving *s, const char *part, const char *kind, int stage,
                           const sl_tensor_source *tensors, int count) {
    char path[PATH];
    sl_file_seal seal;
    sl_checkpoint_file *file = &s->file[s->files];
    snprintf(file->name, sizeof file->name, "%s-%05d-of-%05d.safetensors", kind, stage + 1, s->stages);
    SL_TRY(join(path, part, file->name));
    SL_TRY(sl_safetensors_write(path, tensors, count, &s->stop, &seal));
    file->size = seal.size;
    file->checksum = seal.checksum;
    file->header = seal.header;
    s->files++;
    return SL_OK;
}

static sl_status write_stages(sl_saving *s) {
    char part[PATH];
    s->files = 0;
    SL_TRY(open_part(s, part));
    for (int i = 0; i < s->snapshot.stages; i++) {
        const sl_snapshot_stage *stage = &s->snapshot.stage[i];
        SL_TRY(write_one(s, part, "model", stage->stage, stage->weight, stage->parameters));
        SL_TRY(write_one(s, part, "optimizer", stage->stage, stage->moment, 2 * stage->parameters));
    }
    return SL_OK;
}

/* ---- of the rank that leads ---- */

static void add_file(sl_checkpoint_state *state, const char *name, sl_file_seal seal) {
    sl_checkpoint_file *file = &state->file[state->files++];
    *file = (sl_checkpoint_file){.size = seal.size, .checksum = seal.checksum};
    snprintf(file->name, sizeof file->name, "%s", name);
}

/* The files of other ranks must be here; otherwise their hosts have another folder. */
static sl_status check_files(const char *part, const sl_checkpoint_state *state) {
    char path[PATH];
    struct stat found;
    for (int i = 0; i < state->files; i++) {
        SL_TRY(join(path, part, state->file[i].name));
        if (stat(path, &found) != 0 || (uint64_t)found.st_size != state->file[i].size)
            return sl_error(SL_ESYS, "%s: differs from what was written; is the folder shared by all hosts?",
                            path);
    }
    return SL_OK;
}

static sl_status write_index(const char *part, sl_checkpoint_state *state) {
    const char **names;
    sl_file_seal seal;
    int count = 0;
    SL_TRY(sl_alloc(&names, (size_t)state->files, sizeof *names));
    for (int i = 0; i < state->files; i++)
        if (strncmp(state->file[i].name, "model-", 6) == 0)
            names[count++] = state->file[i].name;
    sl_status status = sl_describe_index(part, names, count, &seal);
    sl_free(names);
    if (status == SL_OK)
        add_file(state, "model.safetensors.index.json", seal);
    return status;
}

static sl_status publish(sl_saving *s) {
    char part[PATH], path[PATH];
    sl_file_seal seal;
    SL_TRY(open_part(s, part));
    SL_TRY(check_files(part, &s->state));
    SL_TRY(write_index(part, &s->state));
    SL_TRY(join(path, part, "config.json"));
    SL_TRY(sl_describe_model(path, &s->model, &seal));
    add_file(&s->state, "config.json", seal);
    SL_TRY(join(path, part, "state.json"));
    SL_TRY(sl_checkpoint_state_write(path, &s->state));
    SL_TRY(sl_checkpoint_publish(s->folder, s->iteration));
    return sl_checkpoint_prune(s->folder, s->run->checkpoint.keep);
}

static sl_status work(sl_saving *s) {
    switch (s->work) {
    case SL_SAVING_WRITE:
        return write_stages(s);
    case SL_SAVING_PUBLISH:
        return publish(s);
    case SL_SAVING_REMOVE:
        return sl_checkpoint_clear(s->folder);
    default:
        return SL_OK;
    }
}

/* ---- the thread ---- */

/* A limit on the size of files is an error of write(2), not a signal that ends the process; all other signals
 * are left to the main thread. Writing has lower priority than computing. */
static void settle(void) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    setpriority(PRIO_PROCESS, (id_t)gettid(), 10);
}

void *sl_saving_thread(void *saving) {
    sl_saving *s = saving;
    settle();
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->busy)
            pthread_cond_wait(&s->changed, &s->lock);
        if (s->work == SL_SAVING_END)
            break;
        pthread_mutex_unlock(&s->lock);
        s->status = work(s);
        if (s->status != SL_OK)
            snprintf(s->text, sizeof s->text, "%s", sl_error_text());
        pthread_mutex_lock(&s->lock);
        s->busy = 0;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}
