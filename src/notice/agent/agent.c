#include "base/memory.h"
#include "notice/agent/agent_inside.h"
#include "notice/message/clocks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOOK (100 * SL_MS)    /* between two looks at the folder */
#define SLOWEST (50 * SL_MS)  /* between two steps, while nothing urges */
#define FASTEST (2 * SL_MS)   /* when rings fill quickly */
#define HOLDING (SL_MS / 2)   /* while the job is held */
#define READ_MAX (1 << 20)    /* calls of one step */
#define PENDING_MAX (1 << 15) /* blocks kept while the store is lost */

/* ---- opening and closing ---- */

static void close_process(sl_watched_process *p) {
    sl_track_close(p->track);
    sl_free(p->call);
}

sl_status sl_agent_open(const sl_agent_config *config, sl_agent **agent) {
    sl_agent *a;
    *agent = NULL;
    if (!config->folder || !config->node || !config->store || !config->job ||
        strlen(config->node) >= SL_NODE_NAME)
        return sl_error(SL_EINVAL, "an agent needs a folder, a store, a job and a name of less than %d bytes",
                        SL_NODE_NAME);
    SL_TRY(sl_alloc(&a, 1, sizeof *a));
    a->config = *config;
    a->holds.folder = config->folder;
    a->pace = FASTEST; /* until it is known how many calls there are */
    sl_clock_identity(a->identity, sizeof a->identity);
    if (gethostname(a->host, sizeof a->host - 1) != 0)
        a->host[0] = 0;
    sl_status status;
    SL_TRY_GOTO(err_close, status, sl_rings_open(config->folder, &a->rings));
    if (config->record)
        SL_TRY_GOTO(err_close, status, sl_call_log_open(config->record, &a->log));
    *agent = a;
    return SL_OK;
err_close:
    sl_agent_close(a);
    return status;
}

void sl_agent_close(sl_agent *a) {
    if (!a)
        return;
    sl_holds_close(&a->holds);
    sl_members_close(&a->members);
    if (a->profile.round)
        sl_agent_set_timing(a, SL_TIMING_ON);
    if (a->control)
        munmap(a->control, sizeof *a->control);
    for (size_t i = 0; i < a->processes; i++)
        close_process(&a->process[i]);
    SL_FREE(a->process, a->pending);
    sl_call_log_close(a->log);
    sl_rings_close(a->rings);
    sl_free(a);
}

int sl_agent_saw_calls(const sl_agent *a) {
    return a->saw_calls;
}

const char *sl_agent_trouble(const sl_agent *a) {
    return a->trouble;
}

/* ---- processes and their calls ---- */

static void find_control(sl_agent *a) {
    char versions[160];
    size_t bytes;
    sl_control *control = sl_folder_map(a->config.folder, "control", 1, 8, &bytes);
    if (!control)
        return;
    sl_probe_file kind = sl_file_head_read(&control->head, bytes, SL_CONTROL_MAGIC, SL_PROBE_LAYOUT, versions,
                                           sizeof versions);
    if (kind == SL_FILE_OURS && bytes >= sizeof *control) {
        a->control = control;
        return;
    }
    if (kind == SL_FILE_OTHER)
        snprintf(a->trouble, sizeof a->trouble, "calls of the program are not read: its probe is %s",
                 versions);
    munmap(control, bytes);
}

static void read_affinity(sl_watched_process *p) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/status", p->pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Cpus_allowed_list: %127s", p->affinity) == 1)
            break;
    if (file)
        fclose(file);
}

/* The rank of a process without MPI: launchers of NCCL programs set it in the environment. */
static int rank_by_environment(int pid, const char *name) {
    char path[64], text[65536];
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    size_t size = fread(text, 1, sizeof text - 1, file), length = strlen(name);
    fclose(file);
    text[size] = 0;
    for (const char *at = text; at < text + size; at += strlen(at) + 1)
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return atoi(at + length + 1);
    return -1;
}

/* A rank in a ring or in the environment is the program's claim: beyond the limits it is ignored. */
static int is_rank(int rank) {
    return rank >= 0 && rank < SL_MAX_WATCHED_RANKS;
}

static void identify(sl_watched_process *p, const sl_ring_source *source, const sl_call *call) {
    if (is_rank(source->rank)) {
        p->rank = source->rank;
        p->size = source->size;
    } else if (p->rank < 0) {
        int rank = rank_by_environment(p->pid, "RANK");
        p->size = rank_by_environment(p->pid, "WORLD_SIZE");
        p->rank = is_rank(rank) ? rank : is_rank(call->rank) ? call->rank : 0;
    }
    if (p->size <= p->rank || p->size > SL_MAX_WATCHED_RANKS)
        p->size = p->rank + 1;
}

/* About how many nodes the job has, if all have as many ranks as this one. */
static int nodes_about(const sl_agent *a) {
    return a->processes > 0 ? a->world / (int)a->processes : 1;
}

static sl_status process_of(sl_agent *a, const sl_ring_source *source, sl_watched_process **found) {
    for (size_t i = 0; i < a->processes; i++)
        if (a->process[i].process.id == source->process.id) {
            *found = &a->process[i];
            return SL_OK;
        }
    SL_TRY(sl_grow(&a->process, &a->capacity, a->processes + 1, sizeof *a->process));
    sl_watched_process *p = &a->process[a->processes];
    *p = (sl_watched_process){.process = source->process, .pid = source->pid, .rank = -1};
    SL_TRY(sl_track_open(&p->track));
    read_affinity(p);
    a->processes++;
    a->saw_calls = 1;
    *found = p;
    a->next_beat = 0; /* the controller is notified immediately */
    return SL_OK;
}

static sl_status take_blocks(sl_agent *a, sl_watched_process *p) {
    sl_track_block block;
    while (sl_track_take(p->track, &block)) {
        if (a->pendings >= PENDING_MAX) { /* the store is away for long: the latest count */
            memmove(a->pending, a->pending + PENDING_MAX / 2, PENDING_MAX / 2 * sizeof *a->pending);
            a->pendings = PENDING_MAX / 2;
        }
        SL_TRY(sl_grow(&a->pending, &a->pending_room, a->pendings + 1, sizeof *a->pending));
        a->pending[a->pendings++] = (sl_message_block){.rank = p->rank,
                                                       .process = (int32_t)p->process.id,
                                                       .count = block.count,
                                                       .period = block.period,
                                                       .number = block.number,
                                                       .start = block.start,
                                                       .end = block.end,
                                                       .time = block.time,
                                                       .bytes = block.bytes};
    }
    return SL_OK;
}

static sl_status read_rings(sl_agent *a) {
    const sl_call *calls;
    sl_ring_source source;
    size_t count, left = READ_MAX;
    while (left > 0 && (count = sl_rings_read(a->rings, left, &source, &calls)) > 0) {
        sl_watched_process *p;
        left -= count < left ? count : left;
        SL_TRY(process_of(a, &source, &p));
        identify(p, &source, calls);
        a->world = p->size > a->world ? p->size : a->world;
        for (size_t i = 0; i < count; i++) {
            SL_TRY(sl_track_add(p->track, &calls[i]));
            if (a->profile.round)
                SL_TRY(sl_agent_keep(a, p, &calls[i]));
        }
        if (a->log)
            SL_TRY(sl_call_log_add(a->log, &source, p->rank, calls, count));
        SL_TRY(take_blocks(a, p));
    }
    return SL_OK;
}

static void end_process(sl_agent *a, uint64_t id) {
    for (size_t i = 0; i < a->processes; i++)
        if (a->process[i].process.id == id) {
            a->process[i].ended = 1;
            a->ended++;
            a->next_beat = 0;
        }
    if (a->log)
        sl_call_log_end(a->log, id);
}

/* Forgets those that have ended, except those with calls in the profile under way. */
static void forget_processes(sl_agent *a) {
    for (size_t i = a->processes; a->ended > 0 && i-- > 0;) {
        sl_watched_process *p = &a->process[i];
        if (!p->ended || (a->profile.round && p->calls > 0))
            continue;
        close_process(p);
        a->ended--;
        memmove(p, p + 1, (--a->processes - i) * sizeof *p);
    }
}

static sl_status look_around(sl_agent *a, sl_time now) {
    if (now < a->next_look)
        return SL_OK;
    a->next_look = now + LOOK;
    if (!a->control)
        find_control(a);
    SL_TRY(sl_rings_look(a->rings));
    if (!a->trouble[0])
        snprintf(a->trouble, sizeof a->trouble, "%s", sl_rings_trouble(a->rings));
    for (uint64_t id; sl_rings_ended(a->rings, &id);)
        end_process(a, id);
    forget_processes(a);
    if (a->log)
        sl_call_log_flush(a->log);
    return SL_OK;
}

/* ---- what goes to the controller ---- */

static sl_status send_iterations(sl_agent *a) {
    while (a->pendings > 0) {
        size_t count = a->pendings < SL_AGENT_PART ? a->pendings : SL_AGENT_PART;
        sl_message_head head = {.kind = SL_MESSAGE_ITERATIONS, .count = (uint32_t)count};
        sl_status status =
            sl_message_append(a->config.store, SL_LOG_ITERATIONS, &head, a->config.node, a->pending,
                              count * sizeof *a->pending, sl_log_keeps(SL_KEEP_ITERATIONS, a->world));
        if (status != SL_OK)
            return sl_agent_passing(status);
        a->pendings -= count;
        memmove(a->pending, a->pending + count, a->pendings * sizeof *a->pending);
    }
    return SL_OK;
}

static json_t *describe(const sl_agent *a, sl_time now) {
    uint64_t calls, lost;
    sl_rings_counts(a->rings, &calls, &lost);
    json_t *ranks = json_array();
    for (size_t i = 0; i < a->processes; i++) {
        const sl_watched_process *p = &a->process[i];
        if (!p->ended)
            json_array_append_new(ranks, json_pack("{s:i,s:i,s:i,s:i,s:s}", "rank", p->rank, "pid", p->pid,
                                                   "size", p->size, "period", sl_track_period(p->track),
                                                   "cpus", p->affinity));
    }
    return json_pack("{s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:i,s:o}", "trouble", a->trouble, "node", a->config.node,
                     "host", a->host, "clock", a->identity, "now", (json_int_t)now, "calls",
                     (json_int_t)calls, "lost", (json_int_t)lost, "validate", a->config.validate, "ranks",
                     ranks);
}

static sl_status beat(sl_agent *a, sl_time now) {
    if (now < a->next_beat || !a->caught_up)
        return SL_OK;
    a->next_beat = now + SL_NODE_BEAT;
    char key[SL_NODE_NAME + 8];
    snprintf(key, sizeof key, "node:%s", a->config.node);
    json_t *said = describe(a, now);
    char *text = said ? json_dumps(said, JSON_COMPACT) : NULL;
    json_decref(said);
    if (!text)
        return sl_error(SL_ENOMEM, "out of memory for a heartbeat");
    sl_status status = sl_store_append(a->config.store, SL_LOG_NODES, text, strlen(text),
                                       sl_log_keeps(SL_KEEP_NODES, a->world));
    SL_THEN(status, sl_store_set(a->config.store, key, text, strlen(text), SL_NODE_LASTS));
    free(text);
    return sl_agent_passing(status);
}

/* ---- the step ---- */

/* Rings that fill quickly are read more often, so that nothing is overwritten. */
static void set_pace(sl_agent *a) {
    double fullest = sl_rings_fullest(a->rings);
    if (fullest > 0.5)
        a->pace = FASTEST;
    else if (fullest > 0.2)
        a->pace = a->pace / 2 > FASTEST ? a->pace / 2 : FASTEST;
    else if (fullest < 0.05 && a->pace < SLOWEST)
        a->pace = 2 * a->pace < SLOWEST ? 2 * a->pace : SLOWEST;
}

sl_status sl_agent_step(sl_agent *a, sl_time now, sl_time *next) {
    SL_TRY(look_around(a, now));
    SL_TRY(read_rings(a));
    set_pace(a);
    if (now >= a->next_exchange) {
        a->next_exchange = now + sl_order_pace(nodes_about(a));
        SL_TRY(sl_agent_obey(a, now));
        SL_TRY(beat(a, now));
        SL_TRY(send_iterations(a));
    }
    SL_TRY(sl_agent_send_profiles(a, now));
    sl_members_look(&a->members, now);
    if (a->holds.round && now > a->hold_until)
        sl_holds_end(&a->holds);
    *next = now + (a->holds.round ? HOLDING : a->pace);
    return SL_OK;
}
