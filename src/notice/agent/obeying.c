#include "base/memory.h"
#include "base/time.h"
#include "notice/agent/agent_inside.h"
#include "notice/message/clocks.h"
#include "notice/validate/evidence.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* How long a process wanted a processor and had none, from the system (/proc/PID/task/TID/schedstat): what
 * co-located load or a quota took from it, but neither waiting for others nor slow computing. */

static sl_time starved_thread(int pid, const char *thread) {
    char path[320];
    int64_t ran, waited = -1;
    snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, thread);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    if (fscanf(file, "%" SCNd64 " %" SCNd64, &ran, &waited) != 2 || waited < 0)
        waited = -1;
    fclose(file);
    return waited;
}

/* For the thread of process `pid` that starved longest since it began, ns; -1: the system gives no value. */
static sl_time sl_starved(int pid) {
    char path[64];
    sl_time most = -1;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *threads = opendir(path);
    for (struct dirent *entry; threads && (entry = readdir(threads));) {
        sl_time waited = entry->d_name[0] == '.' ? -1 : starved_thread(pid, entry->d_name);
        most = waited > most ? waited : most;
    }
    if (threads)
        closedir(threads);
    return most;
}

#define PROFILE_MAX (1 << 17)  /* records of one rank in a profile */
#define PROFILE_LATE SL_SECOND /* after its window a profile is sent as it is */
#define ORDER_LONGEST (3600 * SL_SECOND)
#define LINKS_LONGEST 4096

void sl_agent_set_timing(sl_agent *a, sl_timing timing) {
    if (a->control)
        atomic_store_explicit(&a->control->timing, (uint32_t)timing, memory_order_relaxed);
}

/* ---- profiles ---- */

sl_status sl_agent_keep(sl_agent *a, sl_watched_process *p, const sl_call *call) {
    if (call->start >= a->profile.to)
        p->passed = 1;
    if (call->start >= a->profile.to || call->end <= a->profile.from || p->complete ||
        p->calls >= PROFILE_MAX)
        return SL_OK;
    SL_TRY(sl_grow(&p->call, &p->capacity, p->calls + 1, sizeof *p->call));
    p->call[p->calls] = *call;
    p->call[p->calls++].rank = p->rank;
    return SL_OK;
}

static void end_profile(sl_agent *a) {
    if (a->profile.round)
        sl_agent_set_timing(a, SL_TIMING_ON);
    a->profile.round = 0;
    for (size_t i = 0; i < a->processes; i++) {
        sl_watched_process *p = &a->process[i];
        sl_free(p->call);
        p->call = NULL;
        p->calls = p->capacity = p->sent = 0;
        p->passed = p->complete = 0;
    }
}

/* For the quotas of a process's control groups, ns; -1: none. */
static sl_time stopped(int pid) {
    double quota;
    return sl_quota_stopped(pid, &quota);
}

/* The share of the time since the profile was ordered that has gone from `before` to `after`; -1: unknown. */
static double share_of(const sl_watched_process *p, sl_time before, sl_time after, sl_time now) {
    if (before < 0 || after < before || now <= p->starved_at)
        return -1;
    return (double)(after - before) / (double)(now - p->starved_at);
}

static sl_status send_profile_of(sl_agent *a, sl_watched_process *p, sl_time now) {
    uint64_t calls, lost;
    double starved = p->ended ? -1 : share_of(p, p->starved, sl_starved(p->pid), now);
    double quotas = p->ended ? -1 : share_of(p, p->stopped, stopped(p->pid), now);
    sl_rings_counts(a->rings, &calls, &lost);
    while (!p->complete) {
        size_t count = p->calls - p->sent < SL_AGENT_PART ? p->calls - p->sent : SL_AGENT_PART;
        sl_message_head head = {.kind = SL_MESSAGE_CALLS,
                                .count = (uint32_t)count,
                                .round = a->profile.round,
                                .rank = p->rank,
                                .look = p->sent + count == p->calls,
                                .starved = starved,
                                .stopped = quotas,
                                .lost = (int64_t)lost};
        sl_status status =
            sl_message_append(a->config.store, SL_LOG_PROFILES, &head, a->config.node, p->call + p->sent,
                              count * sizeof *p->call, sl_log_keeps(SL_KEEP_PROFILES, a->world));
        if (status != SL_OK)
            return status;
        p->sent += count;
        p->complete = head.look;
    }
    return SL_OK;
}

sl_status sl_agent_send_profiles(sl_agent *a, sl_time now) {
    if (!a->profile.round || now < a->profile.to)
        return SL_OK;
    int left = 0;
    for (size_t i = 0; i < a->processes; i++) {
        sl_watched_process *p = &a->process[i];
        if (p->complete || (p->ended && p->calls == 0))
            continue;
        if (!p->passed && !p->ended && now < a->profile.to + PROFILE_LATE) {
            left++;
            continue;
        }
        sl_status status = send_profile_of(a, p, now);
        if (status == SL_ENOMEM)
            return status;
        left += status != SL_OK;
    }
    if (!left || now > a->profile.to + 10 * PROFILE_LATE)
        end_profile(a);
    return SL_OK;
}

/* ---- orders ---- */

/* Whether an order is for this node, not too late, and not for an absurd time; sets its end. */
static int in_time(const sl_agent *a, const json_t *order, sl_time now, sl_time longest, sl_time *until) {
    const json_t *times = json_object_get(order, "until");
    *until = sl_json_int(times, a->config.node, a->identity[0] ? sl_json_int(times, a->identity, 0) : 0);
    return *until > now && *until - now <= longest;
}

/* An order beyond its limits is none. */
static sl_status refuse(sl_agent *a) {
    sl_store_refuse(a->config.store);
    return SL_OK;
}

static sl_status order_profile(sl_agent *a, const json_t *order, sl_time now) {
    sl_time until;
    if (!sl_json_within(order, "length", 1, ORDER_LONGEST))
        return refuse(a);
    if (!in_time(a, order, now, ORDER_LONGEST, &until))
        return SL_OK;
    end_profile(a);
    a->profile.round = sl_json_int(order, "round", 0);
    a->profile.to = until;
    a->profile.from = until - sl_json_int(order, "length", 0);
    for (size_t i = 0; i < a->processes; i++) {
        a->process[i].starved = a->process[i].ended ? -1 : sl_starved(a->process[i].pid);
        a->process[i].stopped = a->process[i].ended ? -1 : stopped(a->process[i].pid);
        a->process[i].starved_at = now;
    }
    sl_agent_set_timing(a, SL_TIMING_DEVICE);
    return SL_OK;
}

static sl_status order_hold(sl_agent *a, const json_t *order, sl_time now) {
    sl_time until;
    sl_process_id *process;
    size_t processes = 0;
    sl_message_head head = {
        .kind = SL_MESSAGE_VIEW, .round = sl_json_int(order, "round", 0), .rank = -1, .look = 0};
    if (!in_time(a, order, now, SL_HOLD_LONGEST, &until))
        return SL_OK;
    SL_TRY(sl_alloc(&process, a->processes + 1, sizeof *process));
    for (size_t i = 0; i < a->processes; i++)
        if (!a->process[i].ended)
            process[processes++] = a->process[i].process;
    sl_status status =
        sl_holds_begin(&a->holds, head.round, process, processes, until, head.trouble, sizeof head.trouble);
    sl_free(process);
    SL_TRY(status);
    a->hold_until = until;
    if (head.trouble[0])
        return sl_message_append(a->config.store, SL_LOG_VIEWS, &head, a->config.node, NULL, 0,
                                 sl_log_keeps(SL_KEEP_VIEWS, a->world));
    return sl_holds_look(&a->holds, a->config.store, a->config.node, 0,
                         sl_log_keeps(SL_KEEP_VIEWS, a->world));
}

static sl_status order_look(sl_agent *a, const json_t *order) {
    if (!a->holds.round || sl_json_int(order, "round", 0) != a->holds.round)
        return SL_OK;
    if (!sl_json_within(order, "look", 0, INT32_MAX) ||
        sl_holds_raise(&a->holds, json_object_get(order, "raises")) != 0)
        return refuse(a);
    return sl_holds_look(&a->holds, a->config.store, a->config.node, (int)sl_json_int(order, "look", 0),
                         sl_log_keeps(SL_KEEP_VIEWS, a->world));
}

/* The process that a row names, if it is one of this node's; NULL. */
static const sl_watched_process *process_named(const sl_agent *a, const json_t *row) {
    for (size_t i = 0; i < a->processes; i++) {
        const sl_watched_process *p = &a->process[i];
        if (!p->ended && sl_json_within(row, "rank", p->rank, p->rank) &&
            sl_json_within(row, "pid", p->pid, p->pid))
            return p;
    }
    return NULL;
}

/* No rank twice: then no more processes are started than this node has. */
static int are_members(const sl_agent *a, const json_t *members) {
    size_t i;
    const json_t *row;
    if (json_array_size(members) < 1 || json_array_size(members) > SL_MAX_WATCHED_RANKS)
        return 0;
    json_array_foreach(members, i, row) {
        if (!sl_json_within(row, "rank", 0, SL_MAX_WATCHED_RANKS - 1))
            return 0;
        int64_t rank = sl_json_int(row, "rank", -1);
        for (size_t j = 0; j < i && strcmp(sl_json_text(row, "node", ""), a->config.node) == 0; j++)
            if (sl_json_within(json_array_get(members, j), "rank", rank, rank))
                return 0;
    }
    return 1;
}

/* Ranks alone: validate would take anything else for the name of a file. */
static int are_links(const char *links) {
    return strlen(links) < LINKS_LONGEST && links[strspn(links, "0123456789-,")] == 0;
}

static sl_status order_validate(sl_agent *a, const json_t *order, sl_time now) {
    const json_t *members = json_object_get(order, "members"), *row;
    const char *links = sl_json_text(order, "links", "");
    size_t i;
    sl_time until;
    if (!a->config.validate || !a->config.store_url || !in_time(a, order, now, ORDER_LONGEST, &until))
        return SL_OK;
    if (!are_members(a, members) || !are_links(links) ||
        !sl_json_within(order, "deadline_ms", 1, ORDER_LONGEST / SL_MS))
        return refuse(a);
    sl_members_end(&a->members);
    json_array_foreach(members, i, row) {
        if (strcmp(sl_json_text(row, "node", ""), a->config.node) != 0)
            continue;
        const sl_watched_process *p = process_named(a, row);
        if (!p) /* it has ended meanwhile */
            continue;
        sl_member member = {.round = sl_json_int(order, "round", 0),
                            .member = (int)i,
                            .members = (int)json_array_size(members),
                            .rank = p->rank,
                            .pid = p->pid,
                            .gemm = sl_json_int(row, "gemm", 0) != 0,
                            .deadline_ms = sl_json_int(order, "deadline_ms", 0),
                            .links = links,
                            .store_url = a->config.store_url,
                            .key = a->config.key,
                            .job = a->config.job};
        SL_TRY(sl_members_start(&a->members, &member, until));
    }
    return SL_OK;
}

/* Whether an order for some nodes is for this one. */
static int is_named(const json_t *order, const char *node) {
    size_t i;
    const json_t *name;
    json_array_foreach(json_object_get(order, "nodes"), i, name) {
        if (json_is_string(name) && strcmp(json_string_value(name), node) == 0)
            return 1;
    }
    return 0;
}

sl_status sl_agent_carry_out(sl_agent *a, const json_t *order, sl_time now) {
    const char *kind = sl_json_text(order, "kind", "");
    int64_t round = sl_json_int(order, "round", 0);
    if (!sl_json_within(order, "round", 1, SL_MAX_NUMBER))
        return refuse(a);
    if (strcmp(kind, "profile") == 0)
        return order_profile(a, order, now);
    if (strcmp(kind, "cancel") == 0 && round == a->profile.round)
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
    else if (strcmp(kind, "clock") == 0 && is_named(order, a->config.node))
        return sl_clock_answer(a->config.store, a->config.node, round);
    return SL_OK;
}

/* Orders are the store's until its next call, which obeying one may be: so they are read out first. */
sl_status sl_agent_obey(sl_agent *a, sl_time now) {
    const sl_store_entry *entry;
    size_t count;
    do {
        sl_status status = sl_store_read(a->config.store, SL_LOG_ORDERS, &a->orders, 256, 0, &entry, &count);
        if (status != SL_OK)
            return sl_agent_passing(status);
        json_t *orders = json_array();
        for (size_t i = 0; a->caught_up && i < count; i++)
            if (json_array_append_new(orders, json_loadb(entry[i].bytes, entry[i].size, 0, NULL)) != 0)
                sl_store_refuse(a->config.store); /* no JSON */
        size_t i;
        const json_t *order;
        json_array_foreach(orders, i, order) {
            SL_THEN(status, sl_agent_passing(sl_agent_carry_out(a, order, now)));
        }
        json_decref(orders);
        SL_TRY(status);
    } while (count > 0);
    a->caught_up = 1; /* orders from before this agent are for another one */
    return SL_OK;
}
