#include "base/writer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct file {
    struct file *next;
    /* the thread's */
    int descriptor; /* of a file that grows; -1: not open */
    int regular;
    off_t end;  /* of the kept bytes; `tail` is after it */
    char *tail; /* as in the file */
    size_t tail_size, tail_room;
    /* under the lock */
    int troubled; /* 0: never, 1: to be reported, 2: reported */
    char why[400];
    char path[];
} file;

typedef struct task {
    struct task *next;
    file *file;
    sl_writer_how how;
    size_t size, tail;
    char text[];
} task;

struct sl_writer {
    size_t most;
    pthread_t thread;
    pthread_mutex_t lock; /* protects all fields below */
    pthread_cond_t changed;
    file *files;
    task *first, *busy; /* busy: the thread has it */
    size_t waiting;     /* bytes of `first` and its successors */
    uint64_t done;      /* tasks */
    uint64_t given_up;  /* 1 + `done` at the time of a flush that timed out */
    int ending, left;   /* left: the thread is abandoned and frees the rest */
};

/* ---- the files, by the thread ---- */

static sl_status cannot(const file *f) {
    return sl_error_errno(SL_ESYS, "%s: cannot be written", f->path);
}

static void shut(file *f) {
    if (f->descriptor >= 0)
        close(f->descriptor);
    f->descriptor = -1;
    f->end = 0;
    f->tail_size = 0;
}

/* A file that was removed is created again, if possible; one that another process has continued is opened
 * again, at its new end. */
static int is_open(const file *f) {
    struct stat found;
    return f->descriptor >= 0 && (!f->regular || (fstat(f->descriptor, &found) == 0 && found.st_nlink > 0 &&
                                                  found.st_size == f->end + (off_t)f->tail_size));
}

static sl_status open_file(file *f, int truncates) {
    struct stat found;
    if (is_open(f) && !truncates)
        return SL_OK;
    shut(f);
    if (!truncates)
        SL_TRY(sl_file_cut_line(f->path));
    f->descriptor = open(f->path, O_WRONLY | O_CREAT | O_CLOEXEC | (truncates ? O_TRUNC : 0), 0666);
    if (f->descriptor < 0 || fstat(f->descriptor, &found) != 0)
        return cannot(f);
    f->regular = S_ISREG(found.st_mode);
    f->end = f->regular ? found.st_size : 0;
    return SL_OK;
}

static int put_all(const file *f, const char *text, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t now = f->regular ? pwrite(f->descriptor, text + done, size - done, f->end + (off_t)done)
                                 : write(f->descriptor, text + done, size - done);
        if (now < 0 && errno == EINTR)
            continue;
        if (now < 0)
            return 0;
        done += (size_t)now;
    }
    return !f->regular || ftruncate(f->descriptor, f->end + (off_t)size) == 0;
}

static sl_status grow(file *f, const task *t) {
    SL_TRY(open_file(f, t->how == SL_WRITER_OVER));
    if (!put_all(f, t->text, t->size)) {
        sl_status status = cannot(f);
        if (f->regular) /* restored, which needs no additional room */
            (void)put_all(f, f->tail, f->tail_size);
        return status;
    }
    SL_TRY(sl_grow(&f->tail, &f->tail_room, t->tail, 1));
    if (t->tail)
        memcpy(f->tail, t->text + t->size - t->tail, t->tail);
    f->tail_size = t->tail;
    f->end += (off_t)(t->size - t->tail);
    return SL_OK;
}

static sl_status perform(task *t) {
    switch (t->how) {
    case SL_WRITER_WHOLE:
        return sl_file_write(t->file->path, t->text, t->size);
    case SL_WRITER_RENEW:
        return sl_file_renew(t->file->path, t->text, t->size);
    case SL_WRITER_REMOVE:
        shut(t->file);
        return unlink(t->file->path) == 0 || errno == ENOENT ? SL_OK : cannot(t->file);
    default:
        return grow(t->file, t);
    }
}

/* ---- the thread ---- */

static void note_trouble(file *f, const char *why) {
    if (f->troubled)
        return;
    f->troubled = 1;
    snprintf(f->why, sizeof f->why, "%s", why);
}

static void release(sl_writer *w) {
    while (w->first) {
        task *t = w->first;
        w->first = t->next;
        sl_free(t);
    }
    while (w->files) {
        file *f = w->files;
        w->files = f->next;
        shut(f);
        SL_FREE(f->tail, f);
    }
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    sl_free(w);
}

static void *write_all(void *context) {
    sl_writer *w = context;
    setpriority(PRIO_PROCESS, (id_t)gettid(), 10); /* computing has priority over writing */
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->first && !w->ending)
            pthread_cond_wait(&w->changed, &w->lock);
        if (w->ending)
            break;
        task *t = w->busy = w->first;
        w->first = t->next;
        w->waiting -= t->size;
        pthread_mutex_unlock(&w->lock);
        sl_status status = perform(t);
        pthread_mutex_lock(&w->lock);
        if (status != SL_OK)
            note_trouble(t->file, sl_error_text());
        w->busy = NULL;
        w->done++;
        pthread_cond_broadcast(&w->changed);
        sl_free(t);
    }
    int left = w->left;
    pthread_mutex_unlock(&w->lock);
    if (left)
        release(w);
    return NULL;
}

sl_status sl_writer_open(size_t most, sl_writer **writer) {
    sl_writer *w;
    pthread_condattr_t clock;
    SL_TRY(sl_alloc(&w, 1, sizeof *w));
    w->most = most;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &clock);
    pthread_condattr_destroy(&clock);
    int error =
        sl_thread_start(&w->thread, write_all, w); /* exceeding the file size limit is an error of write */
    if (error) {
        release(w);
        return sl_error(SL_ESYS, "the writing thread cannot be started: %s", strerror(error));
    }
    *writer = w;
    return SL_OK;
}

/* ---- other threads ---- */

static file *find(sl_writer *w, const char *path) {
    file *f = w->files;
    while (f && strcmp(f->path, path) != 0)
        f = f->next;
    if (f || sl_alloc(&f, 1, sizeof *f + strlen(path) + 1) != SL_OK)
        return f;
    strcpy(f->path, path);
    f->descriptor = -1;
    f->next = w->files;
    return w->files = f;
}

/* Drops a waiting text of a whole file, which a newer one replaces. */
static void forget_older(sl_writer *w, const file *f) {
    for (task **at = &w->first; *at;) {
        task *t = *at;
        if (t->file != f) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        w->waiting -= t->size;
        sl_free(t);
    }
}

static void enqueue(sl_writer *w, task *t) {
    task **end = &w->first;
    while (*end)
        end = &(*end)->next;
    *end = t;
    w->waiting += t->size;
    pthread_cond_broadcast(&w->changed);
}

void sl_writer_put(sl_writer *w, const char *path, sl_writer_how how, const char *text, size_t size,
                   size_t tail) {
    task *t = NULL;
    pthread_mutex_lock(&w->lock);
    file *f = find(w, path);
    if (f && how != SL_WRITER_APPEND)
        forget_older(w, f);
    if (f && w->waiting + size > w->most) {
        char why[400];
        snprintf(why, sizeof why, "%.300s: cannot be written fast enough: new data is lost", path);
        note_trouble(f, why);
    } else if (f && sl_alloc(&t, 1, sizeof *t + size) == SL_OK) {
        *t = (task){.file = f, .how = how, .size = size, .tail = tail};
        if (size)
            memcpy(t->text, text, size);
        enqueue(w, t);
    }
    pthread_mutex_unlock(&w->lock);
}

int sl_writer_trouble(sl_writer *w, char *text, size_t size) {
    pthread_mutex_lock(&w->lock);
    file *f = w->files;
    while (f && f->troubled != 1)
        f = f->next;
    if (f) {
        f->troubled = 2;
        snprintf(text, size, "%s", f->why);
    }
    pthread_mutex_unlock(&w->lock);
    return f != NULL;
}

int sl_writer_flush(sl_writer *w, sl_time patience) {
    pthread_mutex_lock(&w->lock);
    for (int late = w->given_up == w->done + 1; !late && (w->first || w->busy);) {
        const uint64_t done = w->done;
        const sl_time until = sl_now() + patience;
        const struct timespec at = {.tv_sec = until / SL_SECOND, .tv_nsec = until % SL_SECOND};
        while (!late && w->done == done)
            late = pthread_cond_timedwait(&w->changed, &w->lock, &at) == ETIMEDOUT && w->done == done;
    }
    const task *stuck = w->busy ? w->busy : w->first;
    if (stuck) {
        char why[400];
        snprintf(why, sizeof why, "%.300s: could not be written for %g s", stuck->file->path,
                 (double)patience / 1e9);
        note_trouble(stuck->file, why);
        w->given_up = w->done + 1;
    }
    pthread_mutex_unlock(&w->lock);
    return !stuck;
}

void sl_writer_close(sl_writer *w) {
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->ending = 1;
    w->left = w->busy != NULL;
    const int left = w->left;
    const pthread_t thread = w->thread;
    pthread_cond_broadcast(&w->changed);
    if (left)
        pthread_detach(thread);
    pthread_mutex_unlock(&w->lock);
    if (left)
        return;
    pthread_join(thread, NULL);
    release(w);
}
