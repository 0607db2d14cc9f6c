#include "notice/probe/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RECORDS 16384 /* 1 MiB per thread; set by SLACKLINE_PROBE_RECORDS */

__thread sl_probe_thread sl_probe_self __attribute__((tls_model("initial-exec"), visibility("hidden")));
sl_control *sl_probe_control __attribute__((visibility("hidden")));
sl_gate *sl_probe_gate __attribute__((visibility("hidden")));

/* The process. `lock` guards the members after it: taken when a thread makes its first record or ends, and at
 * fork. */
static struct {
    pthread_mutex_t lock;
    pthread_once_t once;
    pthread_key_t key;
    int usable, threads;
    sl_process_id self; /* id 0: not known yet (the start, and a child of fork) */
    pid_t root;         /* this process, when it was the first in this folder; a child of fork is another */
    int rank, size, family;
    sl_gate *gate; /* made, perhaps not yet open */
    int gateless;  /* none will be made: it failed, or a parent of this process has one */
    struct ring_list {
        struct ring_list *next;
        sl_ring_file *file;
        size_t bytes;
        uint32_t records;
        int taken;
    } * rings;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT, .rank = -1, .size = -1};

/* Reads or writes all of a short text; a signal only delays it. */
static size_t read_text(int file, char *text, size_t size) {
    size_t used = 0;
    for (ssize_t count; used < size - 1; used += (size_t)count)
        if ((count = read(file, text + used, size - 1 - used)) == 0)
            break;
        else if (count < 0 && errno == EINTR)
            count = 0;
        else if (count < 0)
            break;
    text[used] = 0;
    return used;
}

static void write_text(int file, const char *text) {
    for (size_t left = strlen(text); left > 0;) {
        ssize_t count = write(file, text, left);
        if (count == 0 || (count < 0 && errno != EINTR))
            return;
        text += count > 0 ? count : 0;
        left -= count > 0 ? (size_t)count : 0;
    }
}

void sl_probe_say(const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    int kept = errno;
    char line[sizeof text + 16];
    snprintf(line, sizeof line, "slackline: %s\n", text);
    write_text(STDERR_FILENO, line);
    errno = kept;
}

static const char *folder(void) {
    const char *name = secure_getenv("SLACKLINE_PROBE");
    return name && *name ? name : NULL;
}

/* The control word of the folder: made complete under a name of this process's own, then renamed by the first
 * process, so it is never seen incomplete. NULL: the error was reported. */
static sl_control *open_control(void) {
    char made[SL_FILE_NAME], text[128] = "is not a file of slackline's";
    size_t bytes;
    sl_control *control = sl_folder_map(folder(), "control", 1, 8, &bytes);
    if (!control && errno == ENOENT) {
        const char *timing = secure_getenv("SLACKLINE_PROBE_TIMING");
        snprintf(made, sizeof made, "control.%016llx", (unsigned long long)process.self.id);
        if ((control = sl_folder_make(folder(), made, bytes = sizeof *control))) {
            atomic_store_explicit(&control->timing,
                                  timing && strcmp(timing, "off") == 0      ? SL_TIMING_OFF
                                  : timing && strcmp(timing, "device") == 0 ? SL_TIMING_DEVICE
                                                                            : SL_TIMING_ON,
                                  memory_order_relaxed);
            sl_file_head_write(&control->head, SL_CONTROL_MAGIC, SL_PROBE_LAYOUT, &process.self);
            if (sl_folder_publish(folder(), made, "control") != 0) {
                int error = errno;
                munmap(control, bytes);
                errno = error;
                control = error == EEXIST ? sl_folder_map(folder(), "control", 1, 8, &bytes) : NULL;
            }
        }
    }
    if (!control) {
        sl_probe_say("nothing is recorded: %s: %s", folder(), strerror(errno));
        return NULL;
    }
    sl_probe_file kind =
        sl_file_head_read(&control->head, bytes, SL_CONTROL_MAGIC, SL_PROBE_LAYOUT, text, sizeof text);
    if (kind == SL_FILE_OURS && bytes >= sizeof *control)
        return control;
    sl_probe_say("nothing is recorded in process %d: %s/control is %s", (int)getpid(), folder(), text);
    munmap(control, bytes);
    return NULL;
}

static uint32_t ring_records(void) {
    const char *text = secure_getenv("SLACKLINE_PROBE_RECORDS");
    long wanted = text ? strtol(text, NULL, 10) : RECORDS;
    uint32_t records = 64;
    while (records < wanted && records < (1u << 24))
        records *= 2;
    return records;
}

static sl_ring_file *make_ring(int thread, uint32_t records, size_t bytes) {
    char name[SL_FILE_NAME];
    sl_ring_name(&process.self, thread, name);
    sl_ring_file *file = sl_folder_make(folder(), name, bytes);
    if (!file)
        return NULL;
    file->thread = thread;
    atomic_store_explicit(&file->rank, process.rank, memory_order_relaxed);
    atomic_store_explicit(&file->size, process.size, memory_order_relaxed);
    atomic_store_explicit(&file->family, (uint32_t)process.family, memory_order_relaxed);
    snprintf(file->program, sizeof file->program, "%s", program_invocation_short_name);
    sl_record_ring_init((sl_record_ring *)(file + 1), records);
    sl_file_head_write(&file->head, SL_RING_FILE_MAGIC, SL_PROBE_LAYOUT, &process.self);
    if (sl_folder_publish(folder(), name, name) == 0)
        return file;
    munmap(file, bytes);
    return NULL;
}

/* A thread ended: its ring is free for another one. */
static void thread_ended(void *ring) {
    pthread_mutex_lock(&process.lock);
    struct ring_list *mine = ring;
    mine->taken = 0;
    atomic_store_explicit(&mine->file->closed, 1, memory_order_relaxed);
    sl_gate_part(&sl_probe_self.gate);
    sl_probe_self = (sl_probe_thread){.ring = NULL};
    pthread_mutex_unlock(&process.lock);
}

static void before_fork(void) {
    pthread_mutex_lock(&process.lock);
}

static void parent_forked(void) {
    pthread_mutex_unlock(&process.lock);
}

/* The child has the parent's rings mapped, but the parent is their only writer: the child makes its own when
 * it needs one, as another process. It unmaps the parent's, so that their locks end with the parent. It makes
 * a gate only if the parent has none: the tables refer to the parent's channels often. */
static void child_forked(void) {
    for (struct ring_list *ring = process.rings; ring; ring = ring->next)
        munmap(ring->file, ring->bytes);
    process.self.id = 0;
    process.root = 0;
    process.gateless |= process.gate != NULL;
    process.gate = sl_probe_gate = NULL;
    process.rings = NULL;
    process.threads = 0;
    sl_probe_self = (sl_probe_thread){.ring = NULL};
    pthread_mutex_unlock(&process.lock);
}

static void start_process(void) {
    int kept = errno;
    if (folder()) {
        sl_process_find(&process.self);
        sl_control *control = open_control();
        if (control && pthread_key_create(&process.key, thread_ended) == 0) {
            pthread_atfork(before_fork, parent_forked, child_forked);
            sl_probe_control = control;
            process.usable = 1;
        }
    }
    errno = kept;
}

int sl_probe_on(void) {
    pthread_once(&process.once, start_process);
    return process.usable;
}

static struct ring_list *take_ring(void) {
    struct ring_list *ring = process.rings;
    while (ring && ring->taken)
        ring = ring->next;
    if (ring || process.threads > UINT16_MAX || !(ring = calloc(1, sizeof *ring)))
        return ring;
    if (process.self.id == 0)
        sl_process_find(&process.self);
    ring->records = ring_records();
    ring->bytes = sizeof(sl_ring_file) + sl_record_ring_bytes(ring->records);
    ring->file = make_ring(process.threads, ring->records, ring->bytes);
    if (!ring->file) {
        sl_probe_say("nothing more is recorded in process %d: %s: %s", (int)getpid(), folder(),
                     strerror(errno));
        process.usable = 0;
        free(ring);
        return NULL;
    }
    process.threads++;
    ring->next = process.rings;
    process.rings = ring;
    return ring;
}

int sl_probe_attach(void) {
    if (!sl_probe_on())
        return 0;
    int kept = errno;
    pthread_mutex_lock(&process.lock);
    struct ring_list *ring = process.usable ? take_ring() : NULL;
    if (ring) {
        ring->taken = 1;
        atomic_store_explicit(&ring->file->closed, 0, memory_order_relaxed);
        sl_probe_self = (sl_probe_thread){.ring = (sl_record_ring *)(ring->file + 1),
                                          .capacity = ring->records,
                                          .thread = (uint16_t)ring->file->thread,
                                          .file = ring->file};
        pthread_setspecific(process.key, ring);
    }
    pthread_mutex_unlock(&process.lock);
    errno = kept;
    return ring != NULL;
}

void sl_probe_world(int rank, int size, int family) {
    pthread_mutex_lock(&process.lock);
    process.rank = rank;
    process.size = size;
    process.family = family;
    for (struct ring_list *ring = process.rings; ring; ring = ring->next) {
        atomic_store_explicit(&ring->file->rank, rank, memory_order_relaxed);
        atomic_store_explicit(&ring->file->size, size, memory_order_relaxed);
        atomic_store_explicit(&ring->file->family, (uint32_t)family, memory_order_relaxed);
    }
    pthread_mutex_unlock(&process.lock);
}

/* ---- the gate ---- */

static sl_gate *make_gate(int rank) {
    char name[SL_FILE_NAME];
    sl_gate_name(&process.self, name);
    sl_gate *gate = sl_folder_make(folder(), name, sizeof *gate);
    if (gate) {
        sl_gate_init(gate, rank, &process.self);
        if (sl_folder_publish(folder(), name, name) == 0)
            return gate;
        munmap(gate, sizeof *gate);
    }
    sl_probe_say("process %d cannot be held: %s: %s", (int)getpid(), folder(), strerror(errno));
    return NULL;
}

sl_gate *sl_probe_gate_new(int rank) {
    int kept = errno;
    pthread_mutex_lock(&process.lock);
    if (process.gate)
        process.gate->rank = rank; /* MPI knows better than the environment, which NCCL went by */
    else if (!process.gateless)
        process.gateless = !(process.gate = make_gate(rank));
    sl_gate *gate = process.gate;
    pthread_mutex_unlock(&process.lock);
    errno = kept;
    return gate;
}

void sl_probe_untracked(void) {
    atomic_fetch_add_explicit(&sl_probe_self.file->untracked, 1, memory_order_relaxed);
}

/* The first process in the folder is the watched command itself (mpirun, or the program). Its name there
 * stays the same after exec. */
static int claim_root(void) {
    char path[4096], text[128], mine[128];
    sl_process_id self;
    int file;
    if (snprintf(path, sizeof path, "%s/root", folder()) >= (int)sizeof path)
        return 0;
    sl_process_find(&self);
    snprintf(mine, sizeof mine, "%d %llx %llx\n", self.pid, (unsigned long long)self.space,
             (unsigned long long)self.start);
    while ((file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) < 0 && errno == EINTR)
        ;
    int first = file >= 0;
    if (first)
        write_text(file, mine);
    else {
        while ((file = open(path, O_RDONLY | O_CLOEXEC)) < 0 && errno == EINTR)
            ;
        first = file >= 0 && read_text(file, text, sizeof text) > 0 && strcmp(text, mine) == 0;
    }
    if (file >= 0)
        close(file);
    return first;
}

__attribute__((constructor)) static void loaded(void) {
    int kept = errno;
    if (folder())
        process.root = claim_root() ? getpid() : 0;
    errno = kept;
}

/* At the end of the command, if none of its processes has recorded: reports that, once. */
__attribute__((destructor)) static void unloaded(void) {
    char path[4096];
    sl_probe_gate_finish();
    if (process.root != getpid() || !folder() ||
        snprintf(path, sizeof path, "%s/control", folder()) >= (int)sizeof path || access(path, F_OK) == 0)
        return;
    sl_probe_say("no MPI or NCCL call was seen: the program is linked statically or without either "
                 "library, and ran untouched (PyTorch over Gloo is seen under: python -m slackline watch)");
}
