#include "notice/control/agent.h"

#include "base/clock.h"
#include "base/memory.h"
#include "notice/control/call_log.h"
#include "notice/control/clocks.h"
#include "notice/control/holds.h"
#include "notice/control/members.h"
#include "notice/control/messages.h"
#include "notice/control/rings.h"
#include "notice/control/track.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK (100 * SL_MS)     /* between two looks at the folder */
#define SLOWEST (50 * SL_MS)   /* between two steps, while nothing urges */
#define FASTEST (2 * SL_MS)    /* when rings fill quickly */
#define HOLDING (SL_MS / 2)    /* while the job is held */
#define READ_MOST (1 << 20)    /* calls of one step */
#define PROFILE_MOST (1 << 17) /* records of one rank in a profile */
#define PROFILE_LATE SL_SECOND /* after its window a profile is sent as it is */
#define PART 2048              /* records of a message */
#define PENDING_MOST (1 << 15) /* blocks kept while the store is lost */
#define ORDER_LONGEST (3600 * SL_SECOND)

typedef struct process {
    int pid, rank, size;
    int ended;
    sl_track *track;
    char affinity[128];
    sl_call *call; /* of the profile that is being taken */
    size_t calls, capacity, sent;
    int passed; /* a call behind the window was seen */
    int told;   /* the last part is sent */
} process;

struct sl_agent {
    sl_agent_config config;
    char identity[160], host[128];
    sl_rings *rings;
    sl_call_log *log; /* NULL: none */
    sl_control *control;
    process *process;
    size_t processes, capacity;
    sl_message_block *pending; /* [pendings] */
    size_t pendings, pending_room;
    sl_store_position orders;
    int caught_up; /* orders of before this agent are passed over */
    struct {
        int64_t round; /* 0: none */
        sl_time from, to;
    } profile;
    sl_holds holds;
    sl_members members;
    sl_time hold_until;
    sl_time next_look, next_beat, pace;
};

/* ---- opening and closing ---- */

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
    a->pace = SLOWEST;
    sl_clock_identity(a->identity, sizeof a->identity);
    if (gethostname(a->host, sizeof a->host - 1) != 0)
        a->host[0] = 0;
    sl_status status = sl_rings_open(config->folder, &a->rings);
    if (status == SL_OK && config->record)
        status = sl_call_log_open(config->record, &a->log);
    if (status != SL_OK) {
        sl_agent_close(a);
        return status;
    }
    *agent = a;
    return SL_OK;
}

static void set_timing(sl_agent *a, sl_timing timing) {
    if (a->control)
        atomic_store_explicit(&a->control->timing, (uint32_t)timing, memory_order_relaxed);
}

void sl_agent_close(sl_agent *a) {
    if (!a)
        return;
    sl_holds_close(&a->holds);
    sl_members_close(&a->members);
    if (a->profile.round)
        set_timing(a, SL_TIMING_ON);
    if (a->control)
        munmap(a->control, sizeof *a->control);
    for (size_t i = 0; i < a->processes; i++) {
        sl_track_close(a->process[i].track);
        sl_free(a->process[i].call);
    }
    sl_free(a->process);
    sl_free(a->pending);
    sl_call_log_close(a->log);
    sl_rings_close(a->rings);
    sl_free(a);
}

int sl_agent_saw_calls(const sl_agent *a) {
    return a->processes > 0;
}

/* ---- processes and their calls ---- */

static void find_control(sl_agent *a) {
    char path[4200];
    struct stat about;
    snprintf(path, sizeof path, "%s/control", a->config.folder);
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return;
    void *memory = MAP_FAILED;
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size >= (off_t)sizeof(sl_control))
        memory = mmap(NULL, sizeof(sl_control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED)
        return;
    sl_control *control = memory;
    if (control->magic == SL_CONTROL_MAGIC && control->version == SL_PROBE_VERSION)
        a->control = control;
    else
        munmap(memory, sizeof(sl_control));
}

static void read_affinity(process *p) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/status", p->pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Cpus_allowed_list: %127s", p->affinity) == 1)
            break;
    if (file)
        fclose(file);
}

/* The rank of a process without MPI: launchers of NCCL programs say it in the environment. */
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

static void identify(process *p, const sl_ring_source *source, const sl_call *call) {
    if (source->rank >= 0) {
        p->rank = source->rank;
        p->size = source->size;
    } else if (p->rank < 0) {
        p->rank = rank_by_environment(p->pid, "RANK");
        p->size = rank_by_environment(p->pid, "WORLD_SIZE");
        if (p->rank < 0)
            p->rank = call->rank >= 0 ? call->rank : 0;
    }
    if (p->size <= p->rank)
        p->size = p->rank + 1;
}

static sl_status process_of(sl_agent *a, int pid, process **found) {
    for (size_t i = 0; i < a->processes; i++)
        if (a->process[i].pid == pid) {
            *found = &a->process[i];
            return SL_OK;
        }
    SL_TRY(sl_grow(&a->process, &a->capacity, a->processes + 1, sizeof *a->process));
    process *p = &a->process[a->processes];
    *p = (process){.pid = pid, .rank = -1};
    SL_TRY(sl_track_open(&p->track));
    read_affinity(p);
    a->processes++;
    *found = p;
    a->next_beat = 0; /* the controller hears of it at once */
    return SL_OK;
}

static sl_status keep_for_profile(sl_agent *a, process *p, const sl_call *call) {
    if (call->start >= a->profile.to)
        p->passed = 1;
    if (call->start >= a->profile.to || call->end <= a->profile.from || p->told || p->calls >= PROFILE_MOST)
        return SL_OK;
    SL_TRY(sl_grow(&p->call, &p->capacity, p->calls + 1, sizeof *p->call));
    p->call[p->calls] = *call;
    p->call[p->calls++].rank = p->rank;
    return SL_OK;
}

static sl_status take_blocks(sl_agent *a, process *p) {
    sl_track_block block;
    while (sl_track_take(p->track, &block)) {
        if (a->pendings >= PENDING_MOST) { /* the store is away for long: the latest count */
            memmove(a->pending, a->pending + PENDING_MOST / 2, PENDING_MOST / 2 * sizeof *a->pending);
            a->pendings = PENDING_MOST / 2;
        }
        SL_TRY(sl_grow(&a->pending, &a->pending_room, a->pendings + 1, sizeof *a->pending));
        a->pending[a->pendings++] = (sl_message_block){.rank = p->rank,
                                                       .pid = p->pid,
                                                       .count = block.count,
                                                       .period = block.period,
                                                       .number = block.number,
                                                       .start = block.start,
                                                       .end = block.end,
                                                       .time = block.time};
    }
    return SL_OK;
}

static sl_status read_rings(sl_agent *a) {
    const sl_call *calls;
    sl_ring_source source;
    size_t count, left = READ_MOST;
    while (left > 0 && (count = sl_rings_read(a->rings, left, &source, &calls)) > 0) {
        process *p;
        left -= count < left ? count : left;
        SL_TRY(process_of(a, source.pid, &p));
        identify(p, &source, calls);
        for (size_t i = 0; i < count; i++) {
            SL_TRY(sl_track_add(p->track, &calls[i]));
            if (a->profile.round)
                SL_TRY(keep_for_profile(a, p, &calls[i]));
        }
        if (a->log)
            SL_TRY(sl_call_log_add(a->log, &source, p->rank, calls, count));
        SL_TRY(take_blocks(a, p));
    }
    return SL_OK;
}

static sl_status look_around(sl_agent *a, sl_time now) {
    if (now < a->next_look)
        return SL_OK;
    a->next_look = now + LOOK;
    if (!a->control)
        find_control(a);
    SL_TRY(sl_rings_look(a->rings));
    for (size_t i = 0; i < a->processes; i++) {
        process *p = &a->process[i];
        if (!p->ended && sl_rings_ended(a->rings, p->pid)) {
            p->ended = 1;
            a->next_beat = 0;
        }
    }
    if (a->log)
        sl_call_log_flush(a->log);
    return SL_OK;
}

/* ---- what goes to the controller ---- */

/* What cannot be sent now is sent later: the store's own errors are no errors here. */
static sl_status passing(sl_status status) {
    return status == SL_ENOMEM ? status : SL_OK;
}

static sl_status send_iterations(sl_agent *a) {
    for (size_t sent = 0; a->pendings > 0;) {
        size_t count = a->pendings < PART ? a->pendings : PART;
        sl_message_head head = {.kind = SL_MESSAGE_ITERATIONS, .count = (uint32_t)count};
        sl_status status = sl_message_append(a->config.store, SL_LOG_ITERATIONS, &head, a->config.node,
                                             a->pending, count * sizeof *a->pending, SL_KEEP_ITERATIONS);
        if (status != SL_OK)
            return passing(status);
        sent += count;
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
        const process *p = &a->process[i];
        if (!p->ended)
            json_array_append_new(ranks, json_pack("{s:i,s:i,s:i,s:i,s:s}", "rank", p->rank, "pid", p->pid,
                                                   "size", p->size, "period", sl_track_period(p->track),
                                                   "cpus", p->affinity));
    }
    return json_pack("{s:s,s:s,s:s,s:I,s:I,s:I,s:i,s:o}", "node", a->config.node, "host", a->host, "clock",
                     a->identity, "now", (json_int_t)now, "calls", (json_int_t)calls, "lost",
                     (json_int_t)lost, "validate", a->config.validate, "ranks", ranks);
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
    sl_status status = sl_store_append(a->config.store, SL_LOG_NODES, text, strlen(text), SL_KEEP_NODES);
    if (status == SL_OK)
        status = sl_store_set(a->config.store, key, text, strlen(text), SL_NODE_LASTS);
    free(text);
    return passing(status);
}

/* ---- profiles ---- */

static void end_profile(sl_agent *a) {
    if (a->profile.round)
        set_timing(a, SL_TIMING_ON);
    a->profile.round = 0;
    for (size_t i = 0; i < a->processes; i++) {
        process *p = &a->process[i];
        sl_free(p->call);
        p->call = NULL;
        p->calls = p->capacity = p->sent = 0;
        p->passed = p->told = 0;
    }
}

static sl_status send_profile_of(sl_agent *a, process *p) {
    uint64_t calls, lost;
    sl_rings_counts(a->rings, &calls, &lost);
    while (!p->told) {
        size_t count = p->calls - p->sent < PART ? p->calls - p->sent : PART;
        sl_message_head head = {.kind = SL_MESSAGE_CALLS,
                                .count = (uint32_t)count,
                                .round = a->profile.round,
                                .rank = p->rank,
                                .look = p->sent + count == p->calls,
                                .lost = (int64_t)lost};
        sl_status status = sl_message_append(a->config.store, SL_LOG_PROFILES, &head, a->config.node,
                                             p->call + p->sent, count * sizeof *p->call, SL_KEEP_PROFILES);
        if (status != SL_OK)
            return status;
        p->sent += count;
        p->told = head.look;
    }
    return SL_OK;
}

static sl_status send_profiles(sl_agent *a, sl_time now) {
    if (!a->profile.round || now < a->profile.to)
        return SL_OK;
    int left = 0;
    for (size_t i = 0; i < a->processes; i++) {
        process *p = &a->process[i];
        if (p->told || (p->ended && p->calls == 0))
            continue;
        if (!p->passed && !p->ended && now < a->profile.to + PROFILE_LATE) {
            left++;
            continue;
        }
        sl_status status = send_profile_of(a, p);
        if (status == SL_ENOMEM)
            return status;
        left += status != SL_OK;
    }
    if (!left || now > a->profile.to + 10 * PROFILE_LATE)
        end_profile(a);
    return SL_OK;
}

/* ---- orders ---- */

/* An order that is for this node, not too late, and not for a time that nobody means: until when. */
static int in_time(const sl_agent *a, const json_t *order, sl_time now, sl_time longest, sl_time *until) {
    *until = sl_json_int(json_object_get(order, "until"), a->config.node, 0);
    return *until > now && *until - now <= longest;
}

static void order_profile(sl_agent *a, const json_t *order, sl_time now) {
    sl_time until;
    if (!in_time(a, order, now, ORDER_LONGEST, &until))
        return;
    end_profile(a);
    a->profile.round = sl_json_int(order, "round", 0);
    a->profile.to = until;
    a->profile.from = until - sl_json_int(order, "length", 0);
    set_timing(a, SL_TIMING_DEVICE);
}

static sl_status order_hold(sl_agent *a, const json_t *order, sl_time now) {
    sl_time until;
    int *pid;
    size_t pids = 0;
    sl_message_head head = {
        .kind = SL_MESSAGE_VIEW, .round = sl_json_int(order, "round", 0), .rank = -1, .look = 0};
    if (!in_time(a, order, now, SL_HOLD_LONGEST, &until))
        return SL_OK;
    SL_TRY(sl_alloc(&pid, a->processes + 1, sizeof *pid));
    for (size_t i = 0; i < a->processes; i++)
        if (!a->process[i].ended)
            pid[pids++] = a->process[i].pid;
    sl_status status =
        sl_holds_begin(&a->holds, head.round, pid, pids, until, head.trouble, sizeof head.trouble);
    sl_free(pid);
    SL_TRY(status);
    a->hold_until = until;
    if (head.trouble[0])
        return sl_message_append(a->config.store, SL_LOG_VIEWS, &head, a->config.node, NULL, 0,
                                 SL_KEEP_VIEWS);
    return sl_holds_look(&a->holds, a->config.store, a->config.node, 0);
}

static sl_status order_look(sl_agent *a, const json_t *order) {
    if (!a->holds.round || sl_json_int(order, "round", 0) != a->holds.round)
        return SL_OK;
    sl_holds_raise(&a->holds, json_object_get(order, "raises"));
    return sl_holds_look(&a->holds, a->config.store, a->config.node, (int)sl_json_int(order, "look", 0));
}

static sl_status order_validate(sl_agent *a, const json_t *order, sl_time now) {
    const json_t *members = json_object_get(order, "members"), *row;
    size_t i;
    sl_time until;
    if (!a->config.validate || !a->config.store_url || !in_time(a, order, now, ORDER_LONGEST, &until))
        return SL_OK;
    sl_members_end(&a->members);
    json_array_foreach(members, i, row) {
        if (strcmp(sl_json_text(row, "node", ""), a->config.node) != 0)
            continue;
        sl_member member = {.round = sl_json_int(order, "round", 0),
                            .member = (int)i,
                            .members = (int)json_array_size(members),
                            .rank = (int)sl_json_int(row, "rank", -1),
                            .pid = (int)sl_json_int(row, "pid", -1),
                            .gemm = (int)sl_json_int(row, "gemm", 0),
                            .deadline_ms = sl_json_int(order, "deadline_ms", 3000),
                            .links = sl_json_text(order, "links", ""),
                            .store_url = a->config.store_url,
                            .job = a->config.job};
        SL_TRY(sl_members_start(&a->members, &member, until));
    }
    return SL_OK;
}

static sl_status obey(sl_agent *a, const json_t *order, sl_time now) {
    const char *kind = sl_json_text(order, "kind", "");
    int64_t round = sl_json_int(order, "round", 0);
    if (strcmp(kind, "profile") == 0)
        order_profile(a, order, now);
    else if (strcmp(kind, "cancel") == 0 && round == a->profile.round)
        end_profile(a);
    else if (strcmp(kind, "hold") == 0)
        return order_hold(a, order, now);
    else if (strcmp(kind, "look") == 0)
        return order_look(a, order);
    else if (strcmp(kind, "release") == 0 && round == a->holds.round)
        sl_holds_end(&a->holds);
    else if (strcmp(kind, "validate") == 0)
        return order_validate(a, order, now);
    else if (strcmp(kind, "dismiss") == 0 && round == a->members.round)
        sl_members_end(&a->members);
    else if (strcmp(kind, "clock") == 0 && strcmp(sl_json_text(order, "node", ""), a->config.node) == 0)
        return sl_clock_answer(a->config.store, a->config.node, round);
    return SL_OK;
}

/* Orders are the store's until its next call, which obeying one may be: so they are read out first. */
static sl_status read_orders(sl_agent *a, sl_time now) {
    const sl_store_entry *entry;
    size_t count;
    do {
        sl_status status = sl_store_read(a->config.store, SL_LOG_ORDERS, &a->orders, 256, 0, &entry, &count);
        if (status != SL_OK)
            return passing(status);
        json_t *orders = json_array();
        for (size_t i = 0; a->caught_up && i < count; i++)
            json_array_append_new(orders, json_loadb(entry[i].bytes, entry[i].size, 0, NULL));
        size_t i;
        const json_t *order;
        json_array_foreach(orders, i, order) {
            if (status == SL_OK)
                status = passing(obey(a, order, now));
        }
        json_decref(orders);
        SL_TRY(status);
    } while (count > 0);
    a->caught_up = 1; /* whatever was ordered before this agent came is somebody else's */
    return SL_OK;
}

/* ---- the step ---- */

/* Rings that fill quickly are read more often, so that nothing is overwritten. */
static void set_pace(sl_agent *a) {
    double fullest = sl_rings_fullest(a->rings);
    if (fullest > 0.25 && a->pace > FASTEST)
        a->pace /= 2;
    else if (fullest < 0.05 && a->pace < SLOWEST)
        a->pace = 2 * a->pace < SLOWEST ? 2 * a->pace : SLOWEST;
}

sl_status sl_agent_step(sl_agent *a, sl_time now, sl_time *next) {
    SL_TRY(look_around(a, now));
    SL_TRY(read_rings(a));
    set_pace(a);
    SL_TRY(read_orders(a, now));
    SL_TRY(beat(a, now));
    SL_TRY(send_iterations(a));
    SL_TRY(send_profiles(a, now));
    sl_members_look(&a->members, now);
    if (a->holds.round && now > a->hold_until)
        sl_holds_end(&a->holds);
    *next = now + (a->holds.round ? HOLDING : a->pace);
    return SL_OK;
}
