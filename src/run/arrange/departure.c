#include "run/arrange/departure.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/arrange/rank_state.h"
#include "run/file/roster.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define END_ESTIMATE SL_SECOND /* of the end of an attempt, until one was measured */
#define MEASURED 3             /* iterations of an attempt that show how much longer its first took */

struct sl_departure {
    char never[256];  /* leader: why this run can leave no host; empty: it can */
    sl_roster roster; /* leader */
    sl_time begun[4]; /* leader, wall clock: start of each of the first iterations of the attempt */
};

/* ---- positions ---- */

static sl_status own_host(char *host, size_t size) {
    return gethostname(host, size - 1) == 0 ? SL_OK
                                            : sl_error_errno(SL_ESYS, "this host has no name that fits");
}

/* Shares the names of the roster: each rank looks for its own host among them. */
static sl_status share_names(sl_trainer *t, sl_roster *names) {
    int count = t->state->departure->roster.count;
    SL_TRY(sl_group_broadcast(t->groups.world, t->leader, &count, sizeof count));
    if (sl_trainer_leads(t)) {
        names->host = t->state->departure->roster.host;
        memcpy(names->local, t->state->departure->roster.local, sizeof names->local);
    } else {
        SL_TRY(sl_grow(&names->host, &names->capacity, (size_t)count, sizeof *names->host));
    }
    names->count = count;
    SL_TRY(sl_group_broadcast(t->groups.world, t->leader, names->local, sizeof names->local));
    return sl_group_broadcast(t->groups.world, t->leader, names->host, (size_t)count * sizeof *names->host);
}

static sl_status find_own(sl_trainer *t, sl_process_host *mine) {
    sl_roster names = sl_roster_empty();
    sl_status status = own_host(mine->host, sizeof mine->host);
    SL_THEN(status, share_names(t, &names));
    if (status == SL_OK)
        mine->entry = sl_roster_here(&names, mine->host);
    if (mine->entry >= 0)
        memcpy(mine->listed, names.host[mine->entry].name, sizeof mine->listed);
    if (!sl_trainer_leads(t))
        sl_roster_free(&names);
    return status;
}

static sl_status report_hosts(sl_trainer *t) {
    sl_process_host mine = {.entry = -1}, *all;
    size_t world = (size_t)t->world;
    SL_TRY(find_own(t, &mine));
    SL_TRY(sl_alloc(&t->state->process_host, world, sizeof *t->state->process_host));
    SL_TRY(sl_alloc(&all, world, sizeof *all));
    sl_status status =
        sl_group_gather_all(t->groups.world, &mine, sizeof mine, all, world * sizeof *all, NULL);
    for (int w = 0; w < t->world && status == SL_OK; w++)
        t->state->process_host[t->home[w]] = all[w];
    sl_free(all);
    return status;
}

/* The leader. */
static void read_roster(sl_trainer *t) {
    sl_departure *d = t->state->departure;
    const char *never = "";
    sl_status status = t->site->again ? sl_roster_read(t->site->folder, &d->roster) : SL_ENONE;
    if (!t->site->again)
        never = "nothing restarts the ranks (they were not started by `slackline train` itself)";
    else if (status == SL_ENONE)
        never = "the run has no list of hosts (key hosts, or --hosts)";
    else if (status != SL_OK)
        never = sl_error_text();
    else if (!sl_run_saves(t->run))
        never = "the run writes no checkpoints (key checkpoint.every)";
    snprintf(d->never, sizeof d->never, "%s", never);
    if (never[0])
        sl_roster_free(&d->roster);
}

sl_status sl_departure_open(sl_trainer *t) {
    SL_TRY(sl_alloc(&t->state->departure, 1, sizeof *t->state->departure));
    t->state->departure->roster = sl_roster_empty();
    if (sl_trainer_leads(t))
        read_roster(t);
    return report_hosts(t);
}

void sl_departure_close(sl_trainer *t) {
    if (t->state->departure)
        sl_roster_free(&t->state->departure->roster);
    SL_FREE(t->state->departure, t->state->process_host);
}

const char *sl_departure_host(const sl_trainer *t, int home) {
    const sl_process_host *w = &t->state->process_host[home];
    return w->entry >= 0 ? w->listed : w->host;
}

int sl_departure_is_on(const sl_trainer *t, int home, const char *host) {
    const sl_process_host *w = &t->state->process_host[home];
    return sl_roster_same(w->host, host) || (w->entry >= 0 && sl_roster_same(w->listed, host));
}

/* ---- whether it is possible ---- */

int sl_departure_is_possible(const sl_trainer *t) {
    return !t->state->departure->never[0];
}

static int has_ranks(const sl_trainer *t, int entry) {
    for (int w = 0; w < t->world; w++)
        if (t->state->process_host[w].entry == entry)
            return 1;
    return 0;
}

/* The entry of the list; -1: unknown name. A rank's own name for its host also works. */
static int entry_of(const sl_trainer *t, const char *host) {
    int entry = sl_roster_find(&t->state->departure->roster, host);
    for (int w = 0; w < t->world && entry < 0; w++)
        if (sl_roster_same(t->state->process_host[w].host, host))
            entry = t->state->process_host[w].entry;
    return entry;
}

/* Slots without these hosts. A repeated entry is counted once. */
static int slots_without(const sl_trainer *t, const char *const *hosts, int count) {
    const sl_roster *roster = &t->state->departure->roster;
    int slots = sl_roster_slots(roster);
    for (int i = 0; i < count; i++) {
        int entry = entry_of(t, hosts[i]), again = 0;
        for (int before = 0; before < i; before++)
            again |= entry_of(t, hosts[before]) == entry;
        slots -= again || entry < 0 || !sl_roster_uses(&roster->host[entry]) ? 0 : roster->host[entry].slots;
    }
    return slots;
}

sl_status sl_departure_check(const sl_trainer *t, const char *const *hosts, int count) {
    const sl_departure *d = t->state->departure;
    if (d->never[0])
        return sl_error(SL_ENONE, "%s", d->never);
    for (int i = 0; i < count; i++) {
        int entry = entry_of(t, hosts[i]);
        if (entry < 0)
            return sl_error(SL_ENONE, "the run's list of hosts has no %s", hosts[i]);
        if (!sl_roster_uses(&d->roster.host[entry]))
            return sl_error(SL_ENONE, "it is left out already");
        if (!has_ranks(t, entry))
            return sl_error(SL_ENONE, "no rank is on %s", hosts[i]);
    }
    int slots = slots_without(t, hosts, count);
    if (slots < t->world)
        return sl_error(SL_ENONE, "%d ranks need as many slots, and %d are left without %s", t->world, slots,
                        count == 1 ? "it" : "them");
    return SL_OK;
}

int sl_can_leave(const sl_trainer *t, const char *host) {
    if (host)
        return sl_departure_check(t, &host, 1) == SL_OK;
    for (int w = 0; w < t->world; w++) {
        const char *any = sl_departure_host(t, w);
        if (sl_departure_check(t, &any, 1) == SL_OK)
            return 1;
    }
    return 0;
}

sl_time sl_leave_cost(const sl_trainer *t) {
    const sl_departure *d = t->state->departure;
    if (d->roster.last.iteration >= 0)
        return d->roster.last.total;
    sl_time start =
        d->begun[1] > d->roster.started && d->roster.started > 0 ? d->begun[1] - d->roster.started : 0;
    return sl_saving_took(t->saving) + END_ESTIMATE + start;
}

/* ---- leaving ---- */

static void list_hosts(const char *const *hosts, int count, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", hosts[i]);
}

/* No hosts: to grow. */
static sl_status refuse(const sl_trainer *t, int done, const char *names, const char *reason) {
    char decided[128];
    if (!names[0]) {
        fprintf(stderr, "slackline: warning: the run does not grow, training continues: %s\n", reason);
        return sl_run_log_report(t->log, SL_EVENT_GROW, done, "", "the layout stays, training continues",
                                 reason);
    }
    snprintf(decided, sizeof decided, "host %.60s is not left, training continues", names);
    fprintf(stderr, "slackline: warning: host %s is not left, training continues: %s\n", names, reason);
    return sl_run_log_report(t->log, SL_EVENT_LEAVE, done, "", decided, reason);
}

static sl_status write_order(sl_trainer *t, int done, const char *const *hosts, int count, const char *why,
                             sl_time began) {
    sl_roster *roster = &t->state->departure->roster;
    roster->move = (sl_roster_move){.iteration = done, .began = began, .ordered = sl_roster_now()};
    snprintf(roster->move.why, sizeof roster->move.why, "%s", why);
    roster->move.grow = count == 0;
    for (int i = 0; i < count; i++)
        roster->host[entry_of(t, hosts[i])].leave = 1;
    sl_status status = sl_roster_write(t->site->folder, roster);
    for (int i = 0; i < roster->count && status != SL_OK; i++)
        roster->host[i].leave = 0;
    return status;
}

/* The leader, after the checkpoint: *go is 1 if the attempt ends. */
static sl_status order(sl_trainer *t, int done, const char *const *hosts, int count, const char *why,
                       sl_time began, int *go) {
    char names[256], decided[128], text[512];
    list_hosts(hosts, count, names, sizeof names);
    *go = 0;
    if (sl_saving_whole(t->saving) != done)
        return refuse(t, done, names, "its checkpoint could not be written");
    SL_TRY(sl_run_log_flush(t->log, sl_clock_now(t->clock)));
    if (write_order(t, done, hosts, count, why, began) != SL_OK) {
        snprintf(text, sizeof text, "%s", sl_error_text());
        return refuse(t, done, names, text);
    }
    *go = 1;
    if (count > 0)
        snprintf(decided, sizeof decided, "saved after %d iterations, is started again without %.60s", done,
                 names);
    else
        snprintf(decided, sizeof decided, "saved after %d iterations, is started again in a larger layout",
                 done);
    snprintf(text, sizeof text, "the checkpoint took %.1f ms",
             sl_to_ms(t->state->departure->roster.move.ordered - began));
    return sl_run_log_report(t->log, count > 0 ? SL_EVENT_LEAVE : SL_EVENT_GROW, done, text, decided, why);
}

/* Without hosts: to grow. */
static sl_status depart(sl_trainer *t, int done, const char *const *hosts, int count, const char *why) {
    sl_time began = sl_roster_now();
    int go = 0;
    char names[256], reason[512];
    if (sl_trainer_leads(t)) {
        list_hosts(hosts, count, names, sizeof names);
        go = sl_departure_check(t, hosts, count) == SL_OK;
        snprintf(reason, sizeof reason, "%s", go ? "" : sl_error_text());
        if (!go)
            SL_TRY(refuse(t, done, names, reason));
    }
    SL_TRY(sl_group_broadcast(t->groups.world, t->leader, &go, sizeof go));
    if (!go)
        return SL_OK;
    SL_TRY(sl_saving_finish(t->saving, done, t->log));
    if (sl_trainer_leads(t))
        SL_TRY(order(t, done, hosts, count, why, began, &go));
    SL_TRY(sl_group_broadcast(t->groups.world, t->leader, &go, sizeof go));
    t->departed = go;
    return SL_OK;
}

sl_status sl_leave_hosts(sl_trainer *t, int done, const char *const *hosts, int count, const char *why) {
    return depart(t, done, hosts, count, why);
}

int sl_departure_may_grow(const sl_trainer *t) {
    return sl_departure_is_possible(t) && sl_roster_growth_is_ordered(t->site->folder);
}

sl_status sl_departure_grow(sl_trainer *t, int done) {
    return depart(t, done, NULL, 0, "lost slots are available again");
}

/* ---- what it took ---- */

static sl_time positive(sl_time time) {
    return time > 0 ? time : 0;
}

/* From the decision to the end of the first iteration, minus the time of the next ones. */
static sl_roster_cost cost_of(const sl_roster_move *move, const sl_time *begun) {
    sl_time second = positive(begun[2] - begun[1]), third = positive(begun[3] - begun[2]);
    sl_roster_cost cost = {.iteration = move->iteration,
                           .save = positive(move->ordered - move->began),
                           .end = positive(move->ended - move->ordered),
                           .start = positive(begun[0] - move->ended),
                           .first = positive(begun[1] - begun[0] - (second < third ? second : third))};
    cost.total = cost.save + cost.end + cost.start + cost.first;
    return cost;
}

/* A full disk now is no reason to end: the next decision then uses an estimate. A change of layout is no
 * estimate of leaving a host. */
static sl_status conclude(sl_trainer *t, int next) {
    sl_roster *roster = &t->state->departure->roster;
    const int resized = roster->move.layout[0] != 0, repeated = roster->move.iteration - t->first;
    const sl_roster_cost cost = cost_of(&roster->move, t->state->departure->begun);
    sl_event event = sl_event_of(resized ? SL_EVENT_RESIZED : SL_EVENT_LEFT, 0, next - 1);
    char seen[256], decided[128];
    if (!resized)
        roster->last = cost;
    snprintf(seen, sizeof seen, "save %.1f ms, end %.1f ms, start %.1f ms, first iteration %.1f ms longer",
             sl_to_ms(cost.save), sl_to_ms(cost.end), sl_to_ms(cost.start), sl_to_ms(cost.first));
    snprintf(decided, sizeof decided, "resumes from iteration %d: %.3f s in all",
             resized ? t->first : cost.iteration, (double)cost.total / 1e9);
    if (resized) {
        const size_t used = strlen(decided);
        snprintf(decided + used, sizeof decided - used, "; %s", roster->move.layout);
        sl_event_fact(&event, "from_iteration", json_integer(t->first));
        sl_event_fact(&event, "repeated", json_integer(repeated > 0 ? repeated : 0));
    }
    sl_event_say(&event, seen, decided, roster->move.why);
    roster->move = sl_roster_empty().move;
    if (sl_roster_write(t->site->folder, roster) != SL_OK)
        fprintf(stderr, "slackline: warning: %s\n", sl_error_text());
    sl_event_fact(&event, "took_ms", json_real(sl_to_ms(cost.total)));
    sl_event_fact(&event, "phases_ms",
                  json_pack("{s:f,s:f,s:f,s:f}", "save", sl_to_ms(cost.save), "end", sl_to_ms(cost.end),
                            "start", sl_to_ms(cost.start), "first_iteration", sl_to_ms(cost.first)));
    return sl_run_log_write(t->log, &event);
}

static sl_status measure(sl_trainer *t, int next) {
    sl_departure *d = t->state->departure;
    int at = next - t->first;
    if (at > MEASURED || !sl_trainer_leads(t))
        return SL_OK;
    d->begun[at] = sl_roster_now();
    return at == MEASURED && d->roster.move.iteration >= 0 && d->roster.move.ended > 0 ? conclude(t, next)
                                                                                       : SL_OK;
}

/* ---- by hand ---- */

/* An unused host was already left by an earlier attempt or because of a failed test. */
static int is_out(const sl_trainer *t, const char *host) {
    int entry = t->state->departure->never[0] ? -1 : entry_of(t, host);
    return entry >= 0 && !sl_roster_uses(&t->state->departure->roster.host[entry]);
}

sl_status sl_departure_step(sl_trainer *t, int next) {
    SL_TRY(measure(t, next));
    for (int i = 0; i < t->run->arrangements && !t->departed; i++) {
        const char *host = t->run->arrangement[i].without;
        if (t->run->arrangement[i].iteration != next || !host)
            continue;
        int out = sl_trainer_leads(t) ? is_out(t, host) : 0;
        SL_TRY(sl_group_broadcast(t->groups.world, t->leader, &out, sizeof out));
        if (!out)
            SL_TRY(sl_leave_hosts(t, next, &host, 1, "the run file says so (arrangements)"));
    }
    return SL_OK;
}
