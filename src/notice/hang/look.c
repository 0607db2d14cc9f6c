#include "notice/hang/look.h"
#include "base/memory.h"
#include "notice/hang/sample.h"
#include "notice/record/call.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACE_AGAIN (5 * SL_SECOND) /* a running thread moves on */
enum { ENDED_KEPT = 1024, COLLECTIVES = 256, READ = 1024, NATIVE_MAX = 8 };

/* One thread's slot of a gate, as last seen. */
typedef struct seen_thread {
    uint64_t word;
    sl_time since;  /* unchanged */
    sl_time placed; /* when its frames were sampled; 0: not since the change */
    char state, doing[96], frames[SL_HANG_FRAMES];
} seen_thread;

typedef struct seen_process {
    char gate_name[SL_FILE_NAME];
    sl_gate *gate;
    uint64_t calls; /* on channels that other ranks count, too */
    sl_time moved;  /* when these last changed */
    int pid;        /* here; -1: of another namespace */
    int ended, world;
    seen_thread thread[SL_GATE_THREADS];
} seen_process;

struct sl_hang_look {
    char *folder, *host;
    struct timespec changed;
    int scans;
    uint64_t space; /* inode of this process's pid namespace */
    seen_process **process;
    size_t processes, capacity;
};

sl_status sl_hang_look_open(const char *folder, const char *host, sl_hang_look **look) {
    struct stat about;
    sl_hang_look *l;
    sl_status status;
    *look = NULL;
    SL_TRY(sl_alloc(&l, 1, sizeof *l));
    l->space = stat("/proc/self/ns/pid", &about) == 0 ? (uint64_t)about.st_ino : 0;
    SL_TRY_GOTO(err_close, status, sl_copy_text(&l->folder, folder));
    SL_TRY_GOTO(err_close, status, sl_copy_text(&l->host, host));
    *look = l;
    return SL_OK;
err_close:
    sl_hang_look_close(l);
    return status;
}

static void drop(sl_hang_look *l, size_t which) {
    munmap(l->process[which]->gate, sizeof(sl_gate));
    sl_free(l->process[which]);
    l->process[which] = l->process[--l->processes];
}

void sl_hang_look_close(sl_hang_look *l) {
    if (!l)
        return;
    while (l->processes > 0)
        drop(l, 0);
    SL_FREE(l->process, l->folder, l->host);
    sl_free(l);
}

/* ---- processes ---- */

static int ends_with(const char *text, const char *end) {
    size_t length = strlen(text), size = strlen(end);
    return length > size && strcmp(text + length - size, end) == 0;
}

static int is_known(const sl_hang_look *l, const char *name) {
    for (size_t i = 0; i < l->processes; i++)
        if (strcmp(l->process[i]->gate_name, name) == 0)
            return 1;
    return 0;
}

/* Another process of the rank has come, so the one that ended belongs to an earlier program. */
static void forget_ended(sl_hang_look *l, int rank) {
    size_t ended = 0;
    for (size_t i = l->processes; i-- > 0;) {
        ended += l->process[i]->ended != 0;
        if (l->process[i]->ended && (l->process[i]->gate->rank == rank || ended > ENDED_KEPT))
            drop(l, i);
    }
}

static void found(sl_hang_look *l, const char *name, sl_time now) {
    char versions[160];
    size_t bytes;
    if (!ends_with(name, ".gate") || strlen(name) >= SL_FILE_NAME || is_known(l, name))
        return;
    sl_gate *gate = sl_folder_map(l->folder, name, 0, sizeof *gate, &bytes);
    if (!gate)
        return;
    seen_process *p = NULL;
    if (sl_gate_read(gate, bytes, versions, sizeof versions) != SL_FILE_OURS || gate->rank < 0 ||
        sl_grow(&l->process, &l->capacity, l->processes + 1, sizeof *l->process) != SL_OK ||
        sl_alloc(&p, 1, sizeof *p) != SL_OK) {
        munmap(gate, bytes);
        return;
    }
    forget_ended(l, gate->rank);
    snprintf(p->gate_name, sizeof p->gate_name, "%s", name);
    p->gate = gate;
    p->moved = now;
    p->pid = gate->head.process.space == l->space || !gate->head.process.space ? gate->head.process.pid : -1;
    l->process[l->processes++] = p;
}

/* A folder in which nothing has changed is not read again; a change in the same tick of its clock may hide.
 */
static void scan(sl_hang_look *l, sl_time now) {
    struct stat about;
    if (stat(l->folder, &about) != 0)
        return;
    if (about.st_mtim.tv_sec != l->changed.tv_sec || about.st_mtim.tv_nsec != l->changed.tv_nsec)
        l->scans = 2;
    l->changed = about.st_mtim;
    DIR *directory = l->scans > 0 && l->scans-- ? opendir(l->folder) : NULL;
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        found(l, entry->d_name, now);
    if (directory)
        closedir(directory);
}

static int has_ended(const sl_hang_look *l, const seen_process *p) {
    char path[64];
    int held = p->gate->head.process.locked ? sl_folder_held(l->folder, p->gate_name) : -1;
    if (held >= 0)
        return !held;
    snprintf(path, sizeof path, "/proc/%d", p->pid);
    return p->pid > 0 && access(path, F_OK) != 0;
}

/* Calls of this rank alone do not count: a loop of MPI_Test is no progress. */
static uint64_t count_calls(const sl_gate *gate) {
    uint64_t calls = 0;
    uint32_t channels = atomic_load(&gate->channels);
    for (uint32_t i = 0; i < channels && i < SL_GATE_CHANNELS; i++)
        if (atomic_load_explicit(&gate->channel[i].ready, memory_order_acquire) &&
            gate->channel[i].key.kind != SL_CHANNEL_LOCAL)
            calls += atomic_load_explicit(&gate->channel[i].announced, memory_order_relaxed);
    return calls;
}

static void look_at_threads(seen_process *p, sl_time now) {
    uint32_t threads = atomic_load(&p->gate->threads);
    for (uint32_t i = 0; i < threads && i < SL_GATE_THREADS; i++) {
        uint64_t word = atomic_load_explicit(&p->gate->thread[i].word, memory_order_acquire);
        if (word == p->thread[i].word && p->thread[i].since)
            continue;
        p->thread[i] = (seen_thread){.word = word, .since = now};
    }
}

sl_time sl_hang_look_step(sl_hang_look *l, sl_time now) {
    sl_time longest = 0;
    scan(l, now);
    for (size_t i = 0; i < l->processes; i++) {
        seen_process *p = l->process[i];
        if (p->ended)
            continue;
        p->ended = has_ended(l, p);
        uint64_t calls = count_calls(p->gate);
        if (calls != p->calls)
            p->moved = now;
        p->calls = calls;
        look_at_threads(p, now);
        if (!p->ended && now - p->moved > longest)
            longest = now - p->moved;
    }
    return longest;
}

int sl_hang_look_lives(const sl_hang_look *l) {
    for (size_t i = 0; i < l->processes; i++)
        if (!l->process[i]->ended)
            return 1;
    return 0;
}

/* ---- a process as a rank ---- */

static sl_status add_channels(const sl_gate *gate, sl_hang_rank *r) {
    uint32_t channels = atomic_load(&gate->channels);
    channels = channels < SL_GATE_CHANNELS ? channels : SL_GATE_CHANNELS;
    SL_TRY(sl_alloc(&r->channel, (size_t)channels + 1, sizeof *r->channel));
    for (uint32_t i = 0; i < channels; i++) {
        const sl_gate_channel *c = &gate->channel[i];
        if (atomic_load_explicit(&c->ready, memory_order_acquire) && c->key.kind != SL_CHANNEL_LOCAL)
            r->channel[r->channels++] =
                (sl_hang_channel){c->key, atomic_load(&c->announced),
                                  c->key.kind == SL_CHANNEL_WILD ? atomic_load(&c->due) : 0};
    }
    return SL_OK;
}

static void name_call(uint32_t number, char *name) {
    snprintf(name, SL_HANG_CALL, "%s", number ? sl_call_name((int)number) : "");
}

static sl_status add_waits(const sl_gate *gate, const sl_gate_thread *t, sl_hang_thread *thread) {
    uint32_t count = atomic_load(&t->count);
    count = count < SL_GATE_ENTRIES ? count : SL_GATE_ENTRIES;
    SL_TRY(sl_alloc(&thread->wait, (size_t)count + 1, sizeof *thread->wait));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t channel = atomic_load(&t->entry[i].channel);
        uint64_t number = atomic_load(&t->entry[i].number);
        if (channel < SL_GATE_CHANNELS && gate->channel[channel].key.kind != SL_CHANNEL_LOCAL)
            thread->wait[thread->waits++] = (sl_hang_wait){gate->channel[channel].key, number & ~SL_GATE_NEED,
                                                           (number & SL_GATE_NEED) != 0};
    }
    return SL_OK;
}

static void sample(const seen_process *p, seen_thread *seen, int tid, sl_time now, int native) {
    sl_hang_thread now_there = {0};
    if (p->pid < 0 || p->ended || (seen->placed && now - seen->placed < PLACE_AGAIN))
        return;
    sl_hang_sample(p->pid, tid, native, &now_there);
    seen->placed = now;
    seen->state = now_there.state;
    snprintf(seen->doing, sizeof seen->doing, "%s", now_there.doing);
    if (now_there.frames[0])
        snprintf(seen->frames, sizeof seen->frames, "%s", now_there.frames);
}

static sl_status add_threads(seen_process *p, sl_time now, int samples, sl_hang_rank *r) {
    uint32_t threads = atomic_load(&p->gate->threads);
    threads = threads < SL_GATE_THREADS ? threads : SL_GATE_THREADS;
    SL_TRY(sl_alloc(&r->thread, (size_t)threads + 1, sizeof *r->thread));
    for (uint32_t i = 0; i < threads; i++) {
        const sl_gate_thread *t = &p->gate->thread[i];
        seen_thread *seen = &p->thread[i];
        const int state = (int)(seen->word & 0xff);
        if (state == SL_GATE_FREE || (state == SL_GATE_OUTSIDE && !atomic_load(&t->call)))
            continue;
        sl_hang_thread *thread = &r->thread[r->threads++];
        thread->inside = state == SL_GATE_INSIDE;
        thread->peer = atomic_load(&t->peer);
        thread->for_s = (double)(now - seen->since) / 1e9;
        name_call(atomic_load(&t->call), thread->call);
        if (samples)
            sample(p, seen, atomic_load(&t->kernel_id), now,
                   !thread->inside && !seen->frames[0] && i < NATIVE_MAX);
        thread->state = seen->state ? seen->state : '?';
        snprintf(thread->doing, sizeof thread->doing, "%s", seen->doing);
        snprintf(thread->frames, sizeof thread->frames, "%s", seen->frames);
        if (thread->inside)
            SL_TRY(add_waits(p->gate, t, thread));
    }
    return SL_OK;
}

/* ---- collectives: the one under way and, from the rings, those before it ---- */

static int is_collective(int call) {
    return (call >= SL_CALL_MPI_Barrier && call <= SL_CALL_MPI_Intercomm_merge) ||
           (call >= SL_CALL_ncclAllReduce && call <= SL_CALL_ncclScatter) ||
           (call >= SL_CALL_glooBarrier && call <= SL_CALL_glooScatter) ||
           (call >= SL_CALL_glooIbarrier && call <= SL_CALL_glooIscatter) ||
           (call >= SL_CALL_MPI_Win_create && call <= SL_CALL_MPI_Win_create_dynamic) ||
           call == SL_CALL_MPI_File_open;
}

/* The name of a collective: Gloo's posted and blocking ones match. */
static void name_collective(int call, char *name) {
    snprintf(name, SL_HANG_CALL, "%s", sl_call_name(call));
    if (strncmp(name, "glooI", 5) == 0) {
        memmove(name + 4, name + 5, strlen(name + 5) + 1);
        name[4] = (char)(name[4] - 'a' + 'A');
    }
}

static void add_collective(sl_hang_rank *r, size_t room, uint64_t communicator, uint64_t number, int call,
                           int root, int sized, uint64_t bytes) {
    if (r->collectives == room || number == 0)
        return;
    sl_hang_collective *c = &r->collective[r->collectives++];
    *c = (sl_hang_collective){
        .communicator = communicator, .number = number, .root = root, .sized = sized, .bytes = bytes};
    name_collective(call, c->call);
}

/* The number of the last collective in the rings: the one under way is not there yet. */
static uint64_t last_number(const sl_hang_rank *r, uint64_t communicator) {
    const sl_channel_key key = {communicator, -1, -1, -1, SL_CHANNEL_COLLECTIVE};
    const sl_hang_channel *channel = sl_hang_channel_of(r, &key);
    uint64_t number = channel ? channel->announced : 0;
    for (size_t i = 0; i < r->threads; i++)
        for (size_t w = 0; w < r->thread[i].waits; w++)
            if (!r->thread[i].wait[w].need && sl_channel_key_same(&r->thread[i].wait[w].channel, &key) &&
                number > 0)
                number--;
    return number;
}

static void add_under_way(const seen_process *p, sl_hang_rank *r, size_t room) {
    uint32_t threads = atomic_load(&p->gate->threads);
    for (uint32_t i = 0; i < threads && i < SL_GATE_THREADS; i++) {
        const sl_gate_thread *t = &p->gate->thread[i];
        if ((p->thread[i].word & 0xff) != SL_GATE_INSIDE || atomic_load(&t->count) == 0)
            continue;
        uint64_t number = atomic_load(&t->entry[0].number);
        uint32_t channel = atomic_load(&t->entry[0].channel);
        if ((number & SL_GATE_NEED) || channel >= SL_GATE_CHANNELS ||
            p->gate->channel[channel].key.kind != SL_CHANNEL_COLLECTIVE)
            continue;
        add_collective(r, room, p->gate->channel[channel].key.communicator, number,
                       (int)atomic_load(&t->call), atomic_load(&t->peer),
                       atomic_load(&t->unit) == SL_GATE_BYTES, atomic_load(&t->amount));
    }
}

/* The last collectives of one ring, the newest first. */
static void add_recorded(sl_hang_rank *r, size_t room, const sl_call *calls, size_t count) {
    struct {
        uint64_t communicator, next;
    } known[64];
    size_t knowns = 0;
    for (size_t i = count; i-- > 0;) {
        const sl_call *c = &calls[i];
        size_t k = 0;
        if (c->kind != SL_RECORD_CALL || !is_collective(c->call) || !c->communicator)
            continue;
        while (k < knowns && known[k].communicator != c->communicator)
            k++;
        if (k == knowns) {
            if (knowns == sizeof known / sizeof *known)
                continue;
            known[knowns].communicator = c->communicator;
            known[knowns++].next = last_number(r, c->communicator);
        }
        if (known[k].next > 0)
            add_collective(r, room, c->communicator, known[k].next--, c->call, c->peer,
                           c->bytes > 0 || c->peer == SL_PEER_NONE, c->bytes);
    }
}

/* `name` as the gate's, of a thread. */
static sl_status read_ring(const sl_hang_look *l, const char *name, sl_hang_rank *r, size_t room,
                           int *world) {
    size_t bytes;
    sl_ring_file *file = sl_folder_map(l->folder, name, 0, sizeof *file + sizeof(sl_record_ring), &bytes);
    char versions[160];
    sl_record *records = NULL;
    if (!file)
        return SL_OK;
    sl_status status = sl_alloc(&records, READ, sizeof *records);
    const sl_record_ring *ring = (const sl_record_ring *)(const void *)(file + 1);
    uint32_t capacity = sl_record_ring_capacity(ring, bytes - sizeof *file);
    if (status == SL_OK && capacity &&
        sl_file_head_read(&file->head, bytes, SL_RING_FILE_MAGIC, SL_PROBE_LAYOUT, versions,
                          sizeof versions) == SL_FILE_OURS) {
        uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire), lost = 0;
        uint64_t kept = capacity < READ ? capacity : READ, position = head > kept ? head - kept : 0;
        size_t count = sl_record_read(ring, capacity, &position, records, READ, &lost);
        add_recorded(r, room, (const sl_call *)(const void *)records, count);
        *world = atomic_load_explicit(&file->size, memory_order_relaxed);
    }
    sl_free(records);
    munmap(file, bytes);
    return status;
}

/* Several threads with collectives on one communicator have no common order in the rings: then only the ones
 * under way are known. */
static sl_status add_collectives(const sl_hang_look *l, seen_process *p, sl_hang_rank *r) {
    char prefix[SL_FILE_NAME];
    sl_status status = SL_OK;
    int rings = 0;
    SL_TRY(sl_alloc(&r->collective, COLLECTIVES, sizeof *r->collective));
    add_under_way(p, r, COLLECTIVES);
    const size_t under_way = r->collectives;
    snprintf(prefix, sizeof prefix, "%.*s.", (int)(strlen(p->gate_name) - strlen(".gate")), p->gate_name);
    DIR *directory = opendir(l->folder);
    for (struct dirent *entry; directory && status == SL_OK && (entry = readdir(directory));)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && ends_with(entry->d_name, ".ring")) {
            size_t before = r->collectives;
            status = read_ring(l, entry->d_name, r, COLLECTIVES, &p->world);
            rings += r->collectives > before;
        }
    if (directory)
        closedir(directory);
    if (rings > 1)
        r->collectives = under_way;
    return status;
}

/* The thread whose last call was NCCL's: its device may wait in what it has enqueued. */
static sl_status add_device_waits(sl_hang_rank *r) {
    sl_hang_thread *t = NULL;
    for (size_t i = 0; i < r->threads && !t; i++)
        t = !r->thread[i].inside && strncmp(r->thread[i].call, "nccl", 4) == 0 ? &r->thread[i] : NULL;
    if (!t)
        return SL_OK;
    t->inside = SL_HANG_ON_DEVICE;
    SL_TRY(sl_alloc(&t->wait, SL_GATE_ENTRIES, sizeof *t->wait));
    for (size_t i = 0; i < r->collectives && t->waits < SL_GATE_ENTRIES; i++) {
        const sl_hang_collective *c = &r->collective[i];
        const sl_channel_key key = {c->communicator, -1, -1, -1, SL_CHANNEL_COLLECTIVE};
        const sl_hang_channel *channel = sl_hang_channel_of(r, &key);
        if (strncmp(c->call, "nccl", 4) == 0 && channel && channel->announced == c->number)
            t->wait[t->waits++] = (sl_hang_wait){key, c->number, 1};
    }
    return SL_OK;
}

/* The function of the Test family in which a thread was sampled; NULL: none. */
static const char *polls_in(const sl_hang_thread *t) {
    static const char *const tests[] = {"MPI_Testany", "MPI_Testsome", "MPI_Testall", "MPI_Test"};
    for (size_t i = 0; !t->inside && i < sizeof tests / sizeof *tests; i++)
        if (strstr(t->frames, tests[i]))
            return tests[i];
    return NULL;
}

/* Tests that complete nothing are not counted (mpi_wait.h), so where a running thread was sampled shows that
 * it polls: for receives that it has posted. Their senders may have sent already; then no rank is awaited. */
static sl_status add_polled_waits(sl_hang_rank *r) {
    sl_hang_thread *t = NULL;
    const char *name = NULL;
    for (size_t i = 0; i < r->threads && !name; i++) {
        t = &r->thread[i];
        name = polls_in(t);
    }
    if (!name)
        return SL_OK;
    t->inside = SL_HANG_POLLS;
    snprintf(t->call, sizeof t->call, "%s", name);
    SL_TRY(sl_alloc(&t->wait, SL_GATE_ENTRIES, sizeof *t->wait));
    for (size_t i = 0; i < r->channels && t->waits < SL_GATE_ENTRIES; i++) {
        const sl_hang_channel *c = &r->channel[i];
        if ((c->key.kind == SL_CHANNEL_POINT && c->key.destination == r->rank) ||
            (c->key.kind == SL_CHANNEL_WILD && c->matched < c->announced))
            t->wait[t->waits++] = (sl_hang_wait){c->key, c->announced, 1};
    }
    return SL_OK;
}

static sl_status add_rank(sl_hang_look *l, seen_process *p, sl_time now, int samples, sl_hang_job *job) {
    sl_hang_rank r = {.rank = p->gate->rank,
                      .pid = p->pid,
                      .ended = p->ended,
                      .finished = (int)atomic_load(&p->gate->finished),
                      .still_s = (double)(now - p->moved) / 1e9};
    snprintf(r.host, sizeof r.host, "%s", l->host);
    sl_status status;
    SL_TRY_GOTO(err_free, status, add_channels(p->gate, &r));
    SL_TRY_GOTO(err_free, status, add_threads(p, now, samples, &r));
    SL_TRY_GOTO(err_free, status, add_collectives(l, p, &r));
    SL_TRY_GOTO(err_free, status, add_device_waits(&r));
    SL_TRY_GOTO(err_free, status, add_polled_waits(&r));
    if (p->world > job->size)
        job->size = p->world;
    return sl_hang_add(job, &r);
err_free:
    sl_hang_rank_free(&r);
    return status;
}

sl_status sl_hang_look_ranks(sl_hang_look *l, sl_time now, int samples, sl_hang_job *job) {
    for (size_t i = 0; i < l->processes; i++)
        SL_TRY(add_rank(l, l->process[i], now, samples, job));
    return SL_OK;
}
