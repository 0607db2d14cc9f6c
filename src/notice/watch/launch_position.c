#include "notice/watch/launch_position.h"
#include "base/file.h"
#include "base/memory.h"

#include <ctype.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *text_of(const char *variable) {
    const char *text = getenv(variable);
    return text && *text ? text : NULL;
}

/* The first of `names` that is set to a number; -1: none. */
static int number_of(const char *const *names) {
    for (int i = 0; names[i]; i++) {
        const char *text = text_of(names[i]);
        char *end;
        long value = text ? strtol(text, &end, 10) : -1;
        if (text && *end == 0 && value >= 0 && value < INT_MAX)
            return (int)value;
    }
    return -1;
}

/* Only characters allowed in a file's name and between the colons of a key. */
static void clean(char *text) {
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && *text != '.' && *text != '-' && *text != '_')
            *text = '_';
}

/* Slurm sets SLURM_PROCID also in batch scripts, whose step has a number beyond all others, and in shells on
 * a terminal; another launcher's rank may have been started through Slurm. */
static int is_slurm_rank(void) {
    const char *step = text_of("SLURM_STEP_ID");
    return step && text_of("SLURM_JOB_ID") && text_of("SLURM_PROCID") &&
           strtoul(step, NULL, 10) < 4294967000 && !text_of("SLURM_PTY_PORT") &&
           !text_of("OMPI_COMM_WORLD_RANK") && !text_of("MPI_LOCALRANKID");
}

static uint64_t hash_of(const char *text) {
    uint64_t hash = 14695981039346656037u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

/* The value after `option` in the command line of the parent, in text[size]; "" if there is none. */
static void parent_says(const char *option, char *text, size_t size) {
    char path[64], *content;
    size_t bytes;
    int next = 0;
    text[0] = 0;
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)getppid());
    if (sl_file_read(path, &content, &bytes) != SL_OK)
        return;
    for (size_t at = 0; at < bytes; at += strlen(content + at) + 1) {
        if (next)
            snprintf(text, size, "%s", content + at);
        next = strcmp(content + at, option) == 0;
    }
    sl_free(content);
}

/* A launcher without job names: Hydra's proxies, the parents of all ranks, know one port of their mpiexec,
 * and all ranks have one folder for results. */
static void name_by_folder(const char *directory, sl_launch_position *position) {
    char path[PATH_MAX], all[PATH_MAX + 300], port[256];
    if (!realpath(directory, path))
        snprintf(path, sizeof path, "%s", directory);
    parent_says("--control-port", port, sizeof port);
    snprintf(all, sizeof all, "%s %s", path, port);
    snprintf(position->job, sizeof position->job, "folder-%016llx", (unsigned long long)hash_of(all));
    snprintf(position->local, sizeof position->local, "-%d", (int)getppid());
}

/* Open MPI restarts its job numbers with every mpirun; the address of its server makes the name unique. */
static void name_by_pmix(const char *name, sl_launch_position *position) {
    const char *uri = text_of("OMPI_MCA_orte_hnp_uri");
    snprintf(position->job, sizeof position->job, uri ? "%.50s-%08x" : "%.50s", name,
             uri ? (unsigned)hash_of(uri) : 0);
}

/* torchrun names no job unless given a name; the address where its ranks meet distinguishes two jobs, and
 * each attempt after a failure is its own job. Ranks started by hand with the same variables have only the
 * address. */
static void name_by_meeting(sl_launch_position *position) {
    const char *id = text_of("TORCHELASTIC_RUN_ID"), *host = text_of("MASTER_ADDR");
    const char *port = text_of("MASTER_PORT"), *attempt = text_of("TORCHELASTIC_RESTART_COUNT");
    char all[600];
    snprintf(all, sizeof all, "%.100s %.300s %.20s %.20s", id ? id : "", host ? host : "", port ? port : "",
             attempt ? attempt : "");
    snprintf(position->job, sizeof position->job, "torch-%016llx", (unsigned long long)hash_of(all));
}

static void find_job(const char *directory, int slurm, sl_launch_position *position) {
    const char *pmix = text_of("PMIX_NAMESPACE"), *ess = text_of("OMPI_MCA_ess_base_jobid");
    const char *hydra = text_of("PMI_JOBID");
    if (!position->inside)
        snprintf(position->job, sizeof position->job, "%d-%llx", (int)getpid(),
                 (unsigned long long)time(NULL));
    else if (slurm)
        snprintf(position->job, sizeof position->job, "%.30s.%.10s", text_of("SLURM_JOB_ID"),
                 text_of("SLURM_STEP_ID"));
    else if (pmix || ess || hydra)
        name_by_pmix(pmix ? pmix : ess ? ess : hydra, position);
    else
        name_by_folder(directory, position);
}

/* Ranks of torchrun, which may itself be a task of Slurm or mpirun, and ranks started by hand with
 * torch.distributed's variables. */
static int is_torch_rank(int by_others) {
    return text_of("RANK") && text_of("WORLD_SIZE") &&
           (text_of("TORCHELASTIC_RUN_ID") ||
            (!by_others && text_of("MASTER_ADDR") && text_of("MASTER_PORT")));
}

static void find_torch(sl_launch_position *position) {
    static const char *const ranks[] = {"RANK", NULL}, *const sizes[] = {"WORLD_SIZE", NULL};
    static const char *const locals[] = {"LOCAL_RANK", NULL}, *const neighbours[] = {"LOCAL_WORLD_SIZE",
                                                                                     NULL};
    static const char *const attempts[] = {"TORCHELASTIC_RESTART_COUNT", NULL};
    int rank = number_of(ranks), size = number_of(sizes);
    position->inside = rank >= 0 && size > rank;
    if (!position->inside)
        return;
    position->rank = rank;
    position->size = size;
    position->local_rank = size > 1 ? number_of(locals) : 0;
    position->several = size > 1 && number_of(neighbours) < size;
    position->again = number_of(attempts) > 0;
    name_by_meeting(position);
}

static void find_node(sl_launch_position *position) {
    char host[256] = "host";
    struct stat space;
    gethostname(host, sizeof host - 1);
    unsigned long long inode = stat("/proc/self/ns/net", &space) == 0 ? (unsigned long long)space.st_ino : 0;
    snprintf(position->node, sizeof position->node, "%.40s-%llu", host, inode);
    clean(position->node);
}

void sl_launch_position_find(const char *directory, sl_launch_position *position) {
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", NULL};
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL};
    static const char *const locals[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", NULL};
    static const char *const neighbours[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", NULL};
    static const char *const slurm_rank[] = {"SLURM_PROCID", NULL}, *const slurm_size[] = {"SLURM_NTASKS",
                                                                                           NULL};
    static const char *const slurm_local[] = {"SLURM_LOCALID", NULL};
    static const char *const slurm_nodes[] = {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", NULL};
    memset(position, 0, sizeof *position);
    int slurm = is_slurm_rank();
    int rank = number_of(slurm ? slurm_rank : ranks), size = number_of(slurm ? slurm_size : sizes);
    position->inside = rank >= 0;
    position->rank = position->inside ? rank : 0;
    position->size = position->inside && size > 0 ? size : 1;
    position->local_rank = position->inside ? number_of(slurm ? slurm_local : locals) : 0;
    int here = number_of(neighbours);
    position->several =
        position->inside && (slurm ? number_of(slurm_nodes) > 1 : here < 0 || here < position->size);
    if (is_torch_rank(position->inside))
        find_torch(position);
    if (!position->job[0])
        find_job(directory, slurm, position);
    clean(position->job);
    find_node(position);
}

void sl_launch_position_folder(const sl_launch_position *position, char *text, size_t size) {
    snprintf(text, size, "watch-%.40s%s-%s", position->job, position->local, position->node);
}
