#include "run/train/cores.h"
#include "base/memory.h"

#include <hwloc.h>
#include <string.h>
#include <unistd.h>

static sl_status open_topology(hwloc_topology_t *topology) {
    if (hwloc_topology_init(topology) != 0)
        return sl_error(SL_ESYS, "hwloc: no topology");
    if (hwloc_topology_load(*topology) == 0)
        return SL_OK;
    hwloc_topology_destroy(*topology);
    return sl_error(SL_ESYS, "hwloc: this host's topology cannot be read");
}

/* The processors of this process; all of them if the system does not report it. */
static hwloc_bitmap_t own_processors(hwloc_topology_t topology) {
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (set && hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_PROCESS) != 0)
        hwloc_bitmap_copy(set, hwloc_topology_get_topology_cpuset(topology));
    return set;
}

/* The next core that has a processor in `set`, after `core`. */
static hwloc_obj_t next_core(hwloc_topology_t topology, hwloc_const_bitmap_t set, hwloc_obj_t core) {
    do
        core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core);
    while (core && !hwloc_bitmap_intersects(core->cpuset, set));
    return core;
}

sl_status sl_cores_read(sl_rank_cores *cores) {
    hwloc_topology_t topology;
    memset(cores, 0, sizeof *cores);
    if (gethostname(cores->host, sizeof cores->host - 1) != 0)
        return sl_error_errno(SL_ESYS, "this host has no name that fits");
    SL_TRY(open_topology(&topology));
    hwloc_bitmap_t set = own_processors(topology);
    for (hwloc_obj_t core = NULL; set && (core = next_core(topology, set, core)) != NULL;)
        cores->cores++;
    for (unsigned p = 0; set && p < 64 * SL_CORES_WORDS; p++)
        if (hwloc_bitmap_isset(set, p))
            cores->processors[p / 64] |= (uint64_t)1 << p % 64;
    cores->memory_nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    if (cores->cores < 1)
        cores->cores = 1;
    hwloc_bitmap_free(set);
    hwloc_topology_destroy(topology);
    return SL_OK;
}

static int share_cores(const sl_rank_cores *a, const sl_rank_cores *b) {
    if (strncmp(a->host, b->host, sizeof a->host) != 0)
        return 0;
    for (int w = 0; w < SL_CORES_WORDS; w++)
        if (a->processors[w] & b->processors[w])
            return 1;
    return 0;
}

sl_cores_share sl_cores_divide(const sl_rank_cores *all, int ranks, int rank, int threads, sl_bind bind) {
    int sharing = 0, before = 0;
    for (int r = 0; r < ranks; r++) {
        const int shared = r == rank || share_cores(&all[r], &all[rank]);
        sharing += shared;
        before += shared && r < rank;
    }
    const int fit = all[rank].cores / sharing;
    sl_cores_share share = {.threads = threads > 0 ? threads : fit > 1 ? fit : 1};
    share.first = before * share.threads;
    share.bound = bind != SL_BIND_NEVER && share.threads * sharing <= all[rank].cores &&
                  (bind == SL_BIND_ALWAYS || all[rank].memory_nodes > 1);
    return share;
}

/* Binds the process, and so every thread that it starts from now on, to cores [first, first + count) of those
 * it has. */
static sl_status bind_process(int first, int count) {
    hwloc_topology_t topology;
    SL_TRY(open_topology(&topology));
    hwloc_bitmap_t set = own_processors(topology), slice = hwloc_bitmap_alloc();
    hwloc_obj_t core = NULL;
    for (int i = 0; set && slice && i < first + count && (core = next_core(topology, set, core)) != NULL; i++)
        if (i >= first)
            hwloc_bitmap_or(slice, slice, core->cpuset);
    if (set && slice)
        hwloc_bitmap_and(slice, slice, set);
    const int done = slice && !hwloc_bitmap_iszero(slice) &&
                     hwloc_set_cpubind(topology, slice, HWLOC_CPUBIND_PROCESS) == 0;
    hwloc_bitmap_free(set);
    hwloc_bitmap_free(slice);
    hwloc_topology_destroy(topology);
    return done ? SL_OK : sl_error(SL_ESYS, "device.bind: this process cannot be bound to cores");
}

static int local_number(const sl_rank_cores *all, int rank) {
    int number = 0;
    for (int other = 0; other < rank; other++)
        number += strcmp(all[other].host, all[rank].host) == 0;
    return number;
}

sl_status sl_cores_claim(sl_group *world, sl_run *run) {
    const size_t ranks = (size_t)sl_group_size(world);
    sl_rank_cores mine, *all;
    SL_TRY(sl_cores_read(&mine));
    SL_TRY(sl_alloc(&all, ranks, sizeof *all));
    sl_status status = sl_group_gather_all(world, &mine, sizeof mine, all, ranks * sizeof mine, NULL);
    if (status == SL_OK) {
        const sl_cores_share share = sl_cores_divide(all, (int)ranks, sl_group_rank(world),
                                                     run->device.threads, (sl_bind)run->device.bind);
        run->device.threads = share.threads;
        run->device.local = local_number(all, sl_group_rank(world));
        if (share.bound)
            status = bind_process(share.first, share.threads);
    }
    sl_free(all);
    return status;
}
