#include "notice/probe/probe.h"
#include "notice/probe/events.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RECORDS 16384 /* 1 MiB a thread; SLACKLINE_PROBE_RECORDS says otherwise */

__thread sl_probe_thread sl_probe_self __attribute__((tls_model("initial-exec"), visibility("hidden")));
sl_control *sl_probe_control __attribute__((visibility("hidden")));
sl_gate *sl_probe_gate __attribute__((visibility("hidden")));

/* The process. `lock` guards what follows it: taken when a thread makes its first record or ends, and at
 * fork. */
static struct {
    pthread_mutex_t lock;
    pthread_once_t once;
    pthread_key_t key;
    int usable, threads;
    pid_t root; /* this process, when it was the first in this folder; a child of fork is another */
    int rank, size, family;
    sl_gate *gate;                 /* made, perhaps not yet open */
    int gateless;                  /* none will be made: it failed, or a parent of this process has one */
    void (*progress)(int in_nccl); /* of the MPI library */
    struct ring_list {
        struct ring_list *next;
        sl_ring_file *file;
        int taken;
    } * rings;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT, .rank = -1, .size = -1};

void sl_probe_say(const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    int kept = errno;
    dprintf(STDERR_FILENO, "slackline: %s\n", text);
    errno = kept;
}

static const char *folder(void) {
    const char *name = getenv("SLACKLINE_PROBE");
    return name && *name ? name : NULL;
}

/* Maps `bytes` of folder/name; a new file is filled with zeroes that are really there, for a page of a full
 * file system that is missing later would end the program. NULL: errno says why. */
static void *map_file(const char *name, size_t bytes, int flags) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder(), name) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    int file = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
    if (file < 0)
        return NULL;
    void *memory = MAP_FAILED;
    int error = posix_fallocate(file, 0, (off_t)bytes);
    if (error == 0)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    else
        errno = error;
    error = errno;
    close(file);
    errno = error;
    return memory == MAP_FAILED ? NULL : memory;
}

/* The control word of the folder: made complete under a name of this process's own, then given its name by
 * whoever is first, so nobody ever sees it half made. */
static sl_control *open_control(void) {
    sl_control *control = map_file("control", sizeof(sl_control), 0);
    if (control || errno != ENOENT)
        return control;
    char name[64], from[4096], to[4096];
    snprintf(name, sizeof name, "control.%d", (int)getpid());
    if (!(control = map_file(name, sizeof(sl_control), O_CREAT | O_TRUNC)))
        return NULL;
    const char *timing = getenv("SLACKLINE_PROBE_TIMING");
    atomic_store_explicit(&control->timing,
                          timing && strcmp(timing, "off") == 0      ? SL_TIMING_OFF
                          : timing && strcmp(timing, "device") == 0 ? SL_TIMING_DEVICE
                                                                    : SL_TIMING_ON,
                          memory_order_relaxed);
    control->magic = SL_CONTROL_MAGIC;
    control->version = SL_PROBE_VERSION;
    snprintf(from, sizeof from, "%s/%s", folder(), name);
    snprintf(to, sizeof to, "%s/control", folder());
    int linked = link(from, to), error = errno;
    unlink(from);
    if (linked == 0)
        return control;
    munmap(control, sizeof *control);
    errno = error;
    return error == EEXIST ? map_file("control", sizeof(sl_control), 0) : NULL;
}

static uint32_t ring_records(void) {
    const char *text = getenv("SLACKLINE_PROBE_RECORDS");
    long wanted = text ? strtol(text, NULL, 10) : RECORDS;
    uint32_t records = 64;
    while (records < wanted && records < (1u << 24))
        records *= 2;
    return records;
}

/* A file that nobody sees before it is finished: `unfinished` gets its name. 0 or -1. */
static int publish_file(const char *unfinished, const char *name) {
    char from[4096], to[4096];
    snprintf(from, sizeof from, "%s/%s", folder(), unfinished);
    snprintf(to, sizeof to, "%s/%s", folder(), name);
    return rename(from, to);
}

static sl_ring_file *make_ring(int thread) {
    uint32_t records = ring_records();
    size_t bytes = sizeof(sl_ring_file) + sl_record_ring_bytes(records);
    char name[64], unfinished[80];
    snprintf(name, sizeof name, "%d.%d.ring", (int)getpid(), thread);
    snprintf(unfinished, sizeof unfinished, "%s.new", name);
    sl_ring_file *file = map_file(unfinished, bytes, O_CREAT | O_TRUNC);
    if (!file)
        return NULL;
    *file = (sl_ring_file){.version = SL_PROBE_VERSION, .pid = (int32_t)getpid(), .thread = thread};
    atomic_store_explicit(&file->rank, process.rank, memory_order_relaxed);
    atomic_store_explicit(&file->size, process.size, memory_order_relaxed);
    atomic_store_explicit(&file->family, (uint32_t)process.family, memory_order_relaxed);
    snprintf(file->program, sizeof file->program, "%s", program_invocation_short_name);
    sl_record_ring_init((sl_record_ring *)(file + 1), records);
    file->magic = SL_RING_FILE_MAGIC;
    if (publish_file(unfinished, name) != 0) {
        munmap(file, bytes);
        return NULL;
    }
    return file;
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

/* The child has the parent's rings mapped, but the parent is their one writer: it makes its own when it needs
 * one. A gate it only makes when the parent has none: channels of the parent's are known all over the tables.
 */
static void child_forked(void) {
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
        sl_control *control = open_control();
        if (!control)
            sl_probe_say("nothing is recorded: %s: %s", folder(), strerror(errno));
        else if (pthread_key_create(&process.key, thread_ended) == 0) {
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
    ring->file = make_ring(process.threads);
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
        sl_probe_self = (sl_probe_thread){.ring = (sl_record_ring *)(ring->file + 1), .file = ring->file};
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

static void progress(void *unused) {
    (void)unused;
    if (process.progress)
        process.progress(sl_probe_self.in_nccl);
}

static int drained(void *unused) {
    (void)unused;
    return sl_events_drained();
}

static const sl_gate_shim shim = {.progress = progress, .drained = drained};

static sl_gate *make_gate(int rank) {
    char name[64], unfinished[80];
    snprintf(name, sizeof name, "%d.gate", (int)getpid());
    snprintf(unfinished, sizeof unfinished, "%s.new", name);
    sl_gate *gate = map_file(unfinished, sizeof *gate, O_CREAT | O_TRUNC);
    if (gate) {
        sl_gate_init(gate, rank);
        if (publish_file(unfinished, name) == 0)
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

void sl_probe_gate_open(sl_gate *gate, void (*move)(int in_nccl)) {
    if (move)
        process.progress = move;
    __atomic_store_n(&sl_probe_gate, gate, __ATOMIC_RELEASE);
}

void sl_probe_gate_finish(void) {
    if (sl_probe_gate)
        sl_gate_finish(sl_probe_gate);
    process.progress = NULL;
}

sl_gate_caller *sl_probe_join(void) {
    sl_gate_join(&sl_probe_self.gate, sl_probe_gate, &shim);
    return &sl_probe_self.gate;
}

void sl_probe_untracked(void) {
    atomic_fetch_add_explicit(&sl_probe_self.file->untracked, 1, memory_order_relaxed);
}

/* The first process in the folder is the watched command itself (mpirun, or the program). */
static int claim_root(void) {
    char path[4096], text[32];
    if (snprintf(path, sizeof path, "%s/root", folder()) >= (int)sizeof path)
        return 0;
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int mine = file >= 0;
    if (mine)
        dprintf(file, "%d\n", (int)getpid());
    else if ((file = open(path, O_RDONLY | O_CLOEXEC)) >= 0) { /* the same process after exec */
        ssize_t count = read(file, text, sizeof text - 1);
        text[count > 0 ? count : 0] = 0;
        mine = atoi(text) == (int)getpid();
    }
    if (file >= 0)
        close(file);
    return mine;
}

__attribute__((constructor)) static void loaded(void) {
    int kept = errno;
    if (folder())
        process.root = claim_root() ? getpid() : 0;
    errno = kept;
}

/* At the end of the command, when no process of it has made a ring: say so, once. */
__attribute__((destructor)) static void unloaded(void) {
    sl_probe_gate_finish();
    DIR *directory = process.root == getpid() && folder() ? opendir(folder()) : NULL;
    if (!directory)
        return;
    int rings = 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        rings += strstr(entry->d_name, ".ring") != NULL;
    closedir(directory);
    if (rings == 0)
        sl_probe_say(
            "no MPI or NCCL call was seen: the program is linked statically or without either "
            "library, and ran untouched (PyTorch over Gloo is seen under: python -m slackline watch)");
}
