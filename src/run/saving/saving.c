#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/model/transformer.h"
#include "run/saving/saving_inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#define SPARE 1000000u /* bytes: headers, index, state, and the run's other output meanwhile */

/* ---- opening and closing ---- */

static sl_status start_thread(sl_saving *s) {
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&s->thread, NULL, sl_saving_thread, s) != 0)
        return sl_error(SL_ESYS, "no thread for checkpoints can be started");
    s->started = 1;
    return SL_OK;
}

sl_status sl_saving_move(sl_saving *s, sl_binding *binding, const sl_groups *groups) {
    if (!s)
        return SL_OK;
    s->binding = binding;
    s->group = groups->world;
    s->leader = groups->leader;
    s->leads = sl_groups_lead(groups);
    sl_snapshot_free(&s->snapshot);
    SL_TRY(sl_snapshot_make(binding, &s->snapshot));
    s->writes = s->snapshot.stages > 0;
    return SL_OK;
}

sl_status sl_saving_open(const sl_run *run, const char *folder, int first, sl_binding *binding,
                         const sl_groups *groups, sl_saving **saving) {
    sl_saving *s;
    *saving = NULL;
    if (run->checkpoint.every == 0)
        return SL_OK;
    SL_TRY(sl_alloc(&s, 1, sizeof *s));
    *saving = s;
    s->run = run;
    s->stages = sl_run_model_stages(run);
    s->tried = s->whole = first;
    s->model = sl_identity_model(binding);
    snprintf(s->run_folder, sizeof s->run_folder, "%s", folder);
    if (snprintf(s->folder, sizeof s->folder, "%s/checkpoints", folder) >= (int)sizeof s->folder)
        return sl_error(SL_EINVAL, "%s: the path is too long", folder);
    SL_TRY(sl_saving_move(s, binding, groups));
    SL_TRY(sl_alloc(&s->file, 2 * (size_t)s->stages, sizeof *s->file));
    if (s->leads) { /* all files of all ranks, index and config */
        s->state.stages = s->stages;
        s->state.keys = sl_identity_keys(run, binding, s->state.key);
        SL_TRY(sl_alloc(&s->state.file, 2 * (size_t)s->stages + 2, sizeof *s->state.file));
    }
    return start_thread(s);
}

void sl_saving_close(sl_saving *s) {
    if (!s)
        return;
    if (s->started) {
        atomic_store_explicit(&s->stop, 1, memory_order_relaxed);
        pthread_mutex_lock(&s->lock);
        while (s->busy)
            pthread_cond_wait(&s->changed, &s->lock);
        s->work = SL_SAVING_END;
        s->busy = 1;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
        pthread_mutex_destroy(&s->lock);
        pthread_cond_destroy(&s->changed);
    }
    sl_snapshot_free(&s->snapshot);
    sl_checkpoint_state_free(&s->state);
    SL_FREE(s->file, s);
}

/* ---- the thread's task ---- */

static void give_work(sl_saving *s, sl_saving_work work) {
    pthread_mutex_lock(&s->lock);
    s->work = work;
    s->status = SL_OK;
    s->busy = 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static int is_busy(sl_saving *s, int wait) {
    pthread_mutex_lock(&s->lock);
    while (wait && s->busy)
        pthread_cond_wait(&s->changed, &s->lock);
    int busy = s->busy;
    pthread_mutex_unlock(&s->lock);
    return busy;
}

/* ---- the steps, on every rank ---- */

typedef struct report {
    int32_t busy, failed;
    int64_t bytes; /* of the copy */
    char why[240];
} report;

static sl_status write_event(sl_saving *s, sl_run_log *log) {
    sl_event event =
        sl_event_of(s->why[0] ? SL_EVENT_CHECKPOINT_FAILED : SL_EVENT_CHECKPOINT_WRITTEN, 0, s->iteration);
    char name[SL_CHECKPOINT_NAME];
    uint64_t bytes = 0;
    sl_checkpoint_name(s->iteration, name);
    for (int i = 0; i < s->state.files; i++)
        bytes += s->state.file[i].size;
    if (s->why[0]) {
        sl_text_format(event.decided, sizeof event.decided, "%s was abandoned, training continues", name);
        sl_text_format(event.why, sizeof event.why, "%s", s->why);
        fprintf(stderr, "slackline: warning: checkpoint %s could not be written, training continues: %s\n",
                name, s->why);
    } else {
        sl_text_format(event.decided, sizeof event.decided, "%s", name);
        sl_text_format(
            event.seen, sizeof event.seen,
            "%.3f MB in %.1f ms during training, %.1f ms of it between iterations; the copy takes up to "
            "%.3f MB per rank",
            (double)bytes / 1e6, sl_to_ms(sl_now() - s->began), sl_to_ms(s->snapped),
            (double)s->largest / 1e6);
    }
    return sl_run_log_write(log, &event);
}

static sl_status finish_phase(sl_saving *s, int whole, sl_run_log *log) {
    s->phase = SL_SAVING_NOTHING;
    if (whole) {
        s->whole = s->iteration;
        s->took = sl_now() - s->began;
    }
    return s->leads ? write_event(s, log) : SL_OK;
}

/* Leader: checks whether all files of all ranks fit on the disk, before the first byte: even a temporarily
 * full disk would lose lines of the metrics. */
static void check_room(sl_saving *s) {
    struct statvfs disk;
    if (statvfs(s->run_folder, &disk) != 0)
        return;
    uint64_t needed = 3 * sizeof(float) * (uint64_t)sl_model_count(sl_binding_config(s->binding)) + SPARE,
             there = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (there < needed)
        sl_text_format(s->why, sizeof s->why, "%.90s: %llu bytes are needed and %llu are free: %s",
                       s->run_folder, (unsigned long long)needed, (unsigned long long)there,
                       strerror(ENOSPC));
}

static sl_status begin(sl_saving *s, int done, sl_run_log *log) {
    s->due = 0;
    s->why[0] = 0;
    s->iteration = s->tried = done;
    s->began = sl_now();
    if (s->leads)
        check_room(s);
    int fits = !s->why[0];
    SL_TRY(sl_group_broadcast(s->group, s->leader, &fits, sizeof fits));
    if (!fits)
        return finish_phase(s, 0, log);
    SL_TRY(sl_snapshot_take(&s->snapshot, s->binding));
    s->snapped = sl_now() - s->began;
    s->files = 0;
    s->phase = SL_SAVING_WRITE;
    if (s->writes)
        give_work(s, SL_SAVING_WRITE);
    return SL_OK;
}

/* The leader gathers the files of all ranks; its thread continues from there. */
static sl_status begin_publish(sl_saving *s) {
    size_t *sizes, all = 0, capacity = 2 * (size_t)s->stages * sizeof *s->file;
    SL_TRY(sl_alloc(&sizes, (size_t)sl_group_size(s->group), sizeof *sizes));
    sl_status status = sl_group_gather(s->group, s->leader, s->file, (size_t)s->files * sizeof *s->file,
                                       s->state.file, capacity, sizes);
    for (int r = 0; r < sl_group_size(s->group); r++)
        all += sizes[r];
    sl_free(sizes);
    SL_TRY(status);
    s->phase = SL_SAVING_PUBLISH;
    if (!s->leads)
        return SL_OK;
    s->state.files = (int)(all / sizeof *s->file);
    s->state.iteration = s->iteration;
    give_work(s, SL_SAVING_PUBLISH);
    return SL_OK;
}

static void begin_remove(sl_saving *s, const char *why) {
    s->phase = SL_SAVING_REMOVE;
    if (!s->leads)
        return;
    sl_text_format(s->why, sizeof s->why, "%s", why);
    give_work(s, SL_SAVING_REMOVE);
}

/* All ranks see the same reports and so take the same step. `wait`: until this rank's thread is done. */
static sl_status advance(sl_saving *s, int wait, sl_run_log *log) {
    int ranks = sl_group_size(s->group), busy = 0, failed = -1;
    report mine = {.busy = is_busy(s, wait), .bytes = (int64_t)s->snapshot.bytes}, *all;
    mine.failed = !mine.busy && s->status != SL_OK;
    if (mine.failed)
        snprintf(mine.why, sizeof mine.why, "%.239s", s->text);
    SL_TRY(sl_alloc(&all, (size_t)ranks, sizeof *all));
    sl_status status =
        sl_group_gather_all(s->group, &mine, sizeof mine, all, (size_t)ranks * sizeof *all, NULL);
    for (int r = 0; r < ranks && status == SL_OK; r++) {
        busy |= all[r].busy;
        s->largest = all[r].bytes > s->largest ? all[r].bytes : s->largest;
        failed = failed < 0 && all[r].failed ? r : failed;
    }
    if (status == SL_OK && !busy) {
        s->status = SL_OK;
        if (s->phase == SL_SAVING_WRITE && failed < 0)
            status = begin_publish(s);
        else if (failed >= 0 && s->phase != SL_SAVING_REMOVE)
            begin_remove(s, all[failed].why);
        else
            status = finish_phase(s, s->phase == SL_SAVING_PUBLISH, log);
    }
    sl_free(all);
    return status;
}

sl_status sl_saving_step(sl_saving *s, int done, sl_run_log *log) {
    if (!s)
        return SL_OK;
    if (s->phase != SL_SAVING_NOTHING)
        SL_TRY(advance(s, 0, log));
    s->due |= done % s->run->checkpoint.every == 0 && s->tried != done;
    return s->due && s->phase == SL_SAVING_NOTHING ? begin(s, done, log) : SL_OK;
}

sl_status sl_saving_rest(sl_saving *s, sl_run_log *log) {
    while (s && s->phase != SL_SAVING_NOTHING)
        SL_TRY(advance(s, 1, log));
    return SL_OK;
}

sl_status sl_saving_finish(sl_saving *s, int done, sl_run_log *log) {
    if (!s)
        return SL_OK;
    SL_TRY(sl_saving_rest(s, log));
    if (s->tried == done)
        return SL_OK;
    SL_TRY(begin(s, done, log));
    return sl_saving_rest(s, log);
}

int sl_saving_whole(const sl_saving *s) {
    return s ? s->whole : -1;
}

sl_time sl_saving_took(const sl_saving *s) {
    return s ? s->took : 0;
}
