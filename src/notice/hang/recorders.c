#include "notice/hang/recorders.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/signals.h"
#include "notice/hang/nccl_ras.h"
#include "notice/hang/torch_dump.h"
#include "notice/hang/torch_server.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATHS = 4096, RAS_PATIENCE = 8, RAS_TRIES = 8, KEPT = 256 };
enum { DUMP_WAITS = 75 }; /* of 0.2 s: PyTorch's own watchdog waits 15 s for a dump */
#define LARGEST ((size_t)1 << 28)

typedef struct process {
    int rank, pid;
    double still_s;
    char *environment; /* of a process that has loaded PyTorch and whose recorder has not been read; else NULL
                        */
    size_t size;
    int requested; /* a dump */
} process;

struct sl_hang_recorders {
    process *process;
    size_t processes;
    int wake;
    time_t began;
    pthread_t thread;
    atomic_int done, ended; /* ended: close() does not wait for more */
    sl_hang_job torch, ras; /* the thread's until `done` */
};

/* ---- the environment of a process ---- */

/* Its value in text[PATHS]; "": not set. */
static void variable(const process *p, const char *name, char *text) {
    size_t length = strlen(name);
    text[0] = 0;
    for (const char *at = p->environment; at && at < p->environment + p->size; at += strlen(at) + 1)
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            snprintf(text, PATHS, "%s", at + length + 1);
}

static int has_loaded(int pid, const char *library) {
    char path[64], line[PATHS + 128];
    int found = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, library) != NULL;
    if (file)
        fclose(file);
    return found;
}

/* ---- dumps ---- */

/* The name of the dump of a rank by one of PyTorch's rules; 0: the rule does not apply. */
static int dump_name(const process *p, int rule, char name[PATHS]) {
    static const char *const by_name[] = {"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"};
    char value[PATHS], folder[64] = "";
    int length = 0;
    if (rule < 2) {
        variable(p, by_name[rule], value);
        if (value[0] && value[0] != '/')
            snprintf(folder, sizeof folder, "/proc/%d/cwd/", p->pid);
        length = value[0] ? snprintf(name, PATHS, "%s%s%d", folder, value, p->rank) : 0;
    } else if (rule == 2) {
        variable(p, "XDG_CACHE_HOME", value);
        const char *below = value[0] ? "" : "/.cache";
        if (!value[0])
            variable(p, "HOME", value);
        length =
            value[0] ? snprintf(name, PATHS, "%s%s/torch/comm_lib_trace_rank_%d", value, below, p->rank) : 0;
    } else if (rule == 3) {
        length = snprintf(name, PATHS, "/tmp/nccl_trace_rank_%d", p->rank);
    }
    return length > 0 && length < PATHS;
}

/* A dump that was written since the process stalled; 0: there is none. Older ones are of another job or
 * moment. */
static int find_dump(const process *p, time_t began, char name[PATHS]) {
    struct stat about;
    for (int rule = 0; rule < 4; rule++)
        if (dump_name(p, rule, name) && stat(name, &about) == 0 && S_ISREG(about.st_mode) &&
            about.st_size > 0 && (double)(began - about.st_mtime) <= p->still_s)
            return 1;
    return 0;
}

/* PyTorch reads its pipe once per second and dumps if anything is in it. */
static int write_to_pipe(const process *p) {
    char value[PATHS], name[PATHS + 32];
    struct stat about;
    variable(p, "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", value);
    if (!value[0])
        return 0;
    snprintf(name, sizeof name, "%s%d.pipe", value, p->rank);
    int file = open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return 0;
    int written = fstat(file, &about) == 0 && S_ISFIFO(about.st_mode) && write(file, "1\n", 2) == 2;
    close(file);
    return written;
}

/* Of long histories, the last calls: others wait for those. */
static void keep_last(sl_hang_job *job, int rank) {
    for (size_t i = 0; i < job->ranks; i++) {
        sl_hang_rank *r = &job->rank[i];
        if (r->rank != rank || r->collectives <= KEPT)
            continue;
        memmove(r->collective, r->collective + r->collectives - KEPT, KEPT * sizeof *r->collective);
        r->collectives = KEPT;
    }
}

/* What cannot be read counts as absent. */
static sl_status take(const char *name, const char *bytes, size_t size, const process *p, sl_hang_job *job) {
    if (sl_torch_dump_rank_of(name) != p->rank)
        return SL_OK;
    sl_status status = sl_torch_dump_add(name, bytes, size, job);
    keep_last(job, p->rank);
    return status == SL_ENOMEM ? status : SL_OK;
}

static sl_status take_file(const char *name, const process *p, sl_hang_job *job) {
    char *bytes;
    size_t size;
    if (sl_file_read_max(name, LARGEST, &bytes, &size) != SL_OK)
        return SL_OK;
    sl_status status = take(name, bytes, size, p, job);
    sl_free(bytes);
    return status;
}

static sl_status ask_server(const process *p, sl_hang_job *job) {
    char except[PATHS], socket_file[PATHS], name[64], *dump;
    size_t length;
    variable(p, "MASTER_PORT", except);
    variable(p, "TORCH_WORKER_SERVER_SOCKET", socket_file);
    SL_TRY(sl_torch_server_ask(p->pid, except, socket_file, &dump, &length));
    if (!dump)
        return SL_OK;
    snprintf(name, sizeof name, "debug server of rank %d", p->rank);
    sl_status status = take(name, dump, length, p, job);
    sl_free(dump);
    return status;
}

/* ---- the thread ---- */

static void read_environment(process *p) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", p->pid);
    if (sl_file_read(path, &p->environment, &p->size) != SL_OK)
        p->environment = NULL;
}

static void forget_environment(process *p) {
    sl_free(p->environment);
    p->environment = NULL;
}

/* The dumps that are there. Returns how many processes that were asked to dump have none yet. */
static sl_status take_dumps(sl_hang_recorders *r, int *missing) {
    char name[PATHS];
    *missing = 0;
    for (size_t i = 0; i < r->processes; i++) {
        process *p = &r->process[i];
        if (p->environment && find_dump(p, r->began, name)) {
            SL_TRY(take_file(name, p, &r->torch));
            if (sl_hang_find(&r->torch, p->rank)) /* else it is still being written */
                forget_environment(p);
        }
        *missing += p->environment && p->requested;
    }
    return SL_OK;
}

static sl_status collect_torch(sl_hang_recorders *r) {
    int missing;
    for (size_t i = 0; i < r->processes && !atomic_load(&r->ended); i++) {
        process *p = &r->process[i];
        if (!has_loaded(p->pid, "libtorch"))
            continue;
        read_environment(p);
        SL_TRY(ask_server(p, &r->torch));
        if (sl_hang_find(&r->torch, p->rank))
            forget_environment(p);
    }
    SL_TRY(take_dumps(r, &missing));
    for (size_t i = 0; i < r->processes && r->wake; i++)
        missing += r->process[i].requested = r->process[i].environment && write_to_pipe(&r->process[i]);
    for (int i = 0; i < DUMP_WAITS && missing > 0 && !atomic_load(&r->ended); i++) {
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
        SL_TRY(take_dumps(r, &missing));
    }
    return SL_OK;
}

/* Whether the process has this id in its own namespace, or here. */
static int has_id(int pid, int id) {
    char path[64], line[256];
    int found = pid == id;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        char *at = strncmp(line, "NSpid:", 6) == 0 ? line + 6 : NULL, *end;
        for (long one; at && (one = strtol(at, &end, 10), end != at); at = end)
            found |= one == id;
    }
    if (file)
        fclose(file);
    return found;
}

/* The service of another job on the node may listen at the same port: all processes of the job that are here
 * are ranks of the answer's. */
static int is_of_job(const sl_hang_recorders *r, const sl_hang_job *answer) {
    for (size_t i = 0; i < r->processes; i++) {
        int found = 0;
        for (size_t k = 0; k < answer->ranks && !found; k++)
            found = has_id(r->process[i].pid, answer->rank[k].pid);
        if (!found)
            return 0;
    }
    return 1;
}

/* One answer is for the whole job. */
static sl_status collect_ras(sl_hang_recorders *r) {
    char value[PATHS], *answer;
    size_t size, i = 0;
    while (i < r->processes && !has_loaded(r->process[i].pid, "libnccl"))
        i++;
    if (i == r->processes)
        return SL_OK;
    process *p = &r->process[i];
    forget_environment(p);
    read_environment(p);
    variable(p, "NCCL_RAS_ADDR", value);
    for (int tries = 0; tries < RAS_TRIES && !atomic_load(&r->ended); tries++) {
        if (sl_nccl_ras_ask(value[0] ? value : "localhost:28028", RAS_PATIENCE, &answer, &size) != SL_OK)
            return SL_OK;
        sl_status status = sl_torch_dump_add("NCCL's RAS service", answer, size, &r->ras);
        sl_free(answer);
        if (status == SL_ENOMEM)
            return status;
        if (status == SL_OK && is_of_job(r, &r->ras))
            return SL_OK;
        sl_hang_job_free(&r->ras);
    }
    return SL_OK;
}

/* What lacks memory stays empty. */
static void *collect(void *object) {
    sl_hang_recorders *r = object;
    sl_status status = collect_torch(r);
    if (status == SL_OK && !atomic_load(&r->ended))
        status = collect_ras(r);
    if (status != SL_OK) {
        sl_hang_job_free(&r->torch);
        sl_hang_job_free(&r->ras);
    }
    atomic_store(&r->done, 1);
    return NULL;
}

sl_status sl_hang_recorders_start(const sl_hang_job *job, int wake, sl_hang_recorders **recorders) {
    sl_hang_recorders *r;
    *recorders = NULL;
    SL_TRY(sl_alloc(&r, 1, sizeof *r));
    sl_status status;
    SL_TRY_GOTO(err_free, status, sl_alloc(&r->process, job->ranks + 1, sizeof *r->process));
    for (size_t i = 0; i < job->ranks; i++)
        if (!job->rank[i].ended && job->rank[i].pid > 0)
            r->process[r->processes++] = (process){
                .rank = job->rank[i].rank, .pid = job->rank[i].pid, .still_s = job->rank[i].still_s};
    r->wake = wake;
    r->began = time(NULL);
    if (sl_thread_start(&r->thread, collect, r) != 0) {
        status = sl_error_errno(SL_ESYS, "a thread for what PyTorch and NCCL record");
        goto err_free;
    }
    *recorders = r;
    return SL_OK;
err_free:
    sl_free(r->process);
    sl_free(r);
    return status;
}

int sl_hang_recorders_done(const sl_hang_recorders *r) {
    return atomic_load(&((sl_hang_recorders *)(uintptr_t)r)->done);
}

void sl_hang_recorders_take(sl_hang_recorders *r, sl_hang_job *torch, sl_hang_job *ras) {
    *torch = r->torch;
    *ras = r->ras;
    r->torch = r->ras = (sl_hang_job){0};
}

void sl_hang_recorders_close(sl_hang_recorders *r) {
    if (!r)
        return;
    atomic_store(&r->ended, 1);
    pthread_join(r->thread, NULL);
    sl_hang_job_free(&r->torch);
    sl_hang_job_free(&r->ras);
    for (size_t i = 0; i < r->processes; i++)
        forget_environment(&r->process[i]);
    sl_free(r->process);
    sl_free(r);
}
