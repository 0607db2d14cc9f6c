#include "fleet.h"

#include "base/event.h"
#include "base/memory.h"
#include "base/random.h"
#include "fleet_inside.h"
#include "notice/watch/advice.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START (1000 * SL_SECOND) /* of the clock */
#define LOOK (250 * SL_MS)       /* between two looks at the promises */
#define ADVISE SL_SECOND
#define KEY "the-key-of-the-simulated-job"
#define URL "unix:/the/model"
#define RELEASED_IN (2 * SL_SECOND) /* after the controller's release, all ranks run */

fleet *fleet_current;

/* ---- time and events ---- */

sl_time model_now(void) {
    return fleet_current->local;
}

void model_pass(sl_time time) {
    fleet_current->local += time;
}

static int is_before(const fleet_event *a, const fleet_event *b) {
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static void push(fleet *f, sl_time time, fleet_event_kind kind, int id) {
    if (f->events == f->event_room) {
        f->event_room = f->event_room ? 2 * f->event_room : 1024;
        f->event = realloc(f->event, f->event_room * sizeof *f->event);
        if (!f->event)
            abort();
    }
    size_t at = f->events++;
    f->event[at] = (fleet_event){.time = time, .order = f->order++, .kind = kind, .id = id};
    for (; at > 0 && is_before(&f->event[at], &f->event[(at - 1) / 2]); at = (at - 1) / 2) {
        fleet_event parent = f->event[(at - 1) / 2];
        f->event[(at - 1) / 2] = f->event[at];
        f->event[at] = parent;
    }
}

static fleet_event pop(fleet *f) {
    fleet_event first = f->event[0];
    f->event[0] = f->event[--f->events];
    for (size_t at = 0;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < f->events; child++)
            if (is_before(&f->event[child], &f->event[least]))
                least = child;
        if (least == at)
            return first;
        fleet_event other = f->event[least];
        f->event[least] = f->event[at];
        f->event[at] = other;
        at = least;
    }
}

static void rank_due(void *context, int rank, sl_time time) {
    push(context, time, FLEET_RANK, rank);
}

static uint64_t draw(fleet *f) {
    return sl_random_mix(f->random += SL_RANDOM_STEP);
}

/* ---- promises ---- */

static void broken(fleet *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void broken(fleet *f, const char *format, ...) {
    va_list values;
    if (f->result->broken++)
        return;
    int used = snprintf(f->result->why, sizeof f->result->why, "at %.3f s: ", sl_to_ms(f->now - START) / 1e3);
    va_start(values, format);
    vsnprintf(f->result->why + used, sizeof f->result->why - (size_t)used, format, values);
    va_end(values);
}

static int is_slowness(const fleet_fault *fault) {
    return fault->kind <= FLEET_SLOW_LINK;
}

static int is_recent(const fleet *f, const fleet_fault *fault) {
    sl_time now = f->now - START;
    return is_slowness(fault) && fault->begin <= now && now <= fault->end + FLEET_LATELY;
}

/* Whether something other than the job failed between `from` and now, or just before. */
static int is_disturbed(const fleet *f, sl_time from) {
    for (int i = 0; i < f->plan->faults; i++) {
        const fleet_fault *fault = &f->plan->fault[i];
        if (!is_slowness(fault) && START + fault->begin <= f->now &&
            START + fault->end + 10 * SL_SECOND >= from)
            return 1;
    }
    return 0;
}

static int slow_rank(const fleet *f, int rank) {
    for (int i = 0; i < f->plan->faults; i++) {
        const fleet_fault *fault = &f->plan->fault[i];
        if (is_recent(f, fault) &&
            ((fault->kind == FLEET_SLOW_DEVICE && fault->rank == rank) ||
             (fault->kind == FLEET_SLOW_HOST && fault->node == rank / f->plan->per_node)))
            return 1;
    }
    return 0;
}

static int slow_host(const fleet *f, int rank) {
    int first = rank / f->plan->per_node * f->plan->per_node;
    for (int r = first; r < first + f->plan->per_node && r < f->plan->ranks; r++)
        if (!slow_rank(f, r))
            return 0;
    return 1;
}

static int slow_link(const fleet *f, int from, int to) {
    for (int i = 0; i < f->plan->faults; i++) {
        const fleet_fault *fault = &f->plan->fault[i];
        if (is_recent(f, fault) && fault->kind == FLEET_SLOW_LINK && fault->from == from && fault->to == to)
            return 1;
    }
    return 0;
}

static int is_member(const job_group *g, int rank) {
    for (int i = 0; i < g->members; i++)
        if (g->member[i] == rank)
            return 1;
    return 0;
}

static int slow_group(const fleet *f, uint64_t group) {
    for (int i = 0; i < f->plan->faults; i++) {
        const fleet_fault *fault = &f->plan->fault[i];
        if (!is_recent(f, fault) || fault->kind != FLEET_SLOW_LINK)
            continue;
        if (group == JOB_MESSAGES)
            return 1;
        const job_group *g = &f->job->group[group - JOB_GROUPS];
        if (is_member(g, fault->from) && is_member(g, fault->to))
            return 1;
    }
    return 0;
}

/* 1: right, 0: an abstention, -1: it names what was never slow. */
static int judge(const fleet *f, const sl_suspect *s) {
    switch (s->component) {
    case SL_COMPONENT_DEVICE:
        return slow_rank(f, s->rank) ? 1 : -1;
    case SL_COMPONENT_HOST:
        return slow_host(f, s->rank) ? 1 : -1;
    case SL_COMPONENT_LINK:
        return slow_link(f, s->from, s->to) || (s->both && slow_link(f, s->to, s->from)) ? 1 : -1;
    case SL_COMPONENT_GROUP:
        return slow_group(f, s->group) ? 1 : -1;
    default:
        return 0;
    }
}

static void note_named(fleet *f, const sl_suspect *s) {
    for (int i = 0; i < f->plan->faults; i++) {
        const fleet_fault *fault = &f->plan->fault[i];
        int host = s->rank >= 0 ? s->rank / f->plan->per_node : -1;
        if ((fault->kind == FLEET_SLOW_DEVICE && (s->rank == fault->rank)) ||
            (fault->kind == FLEET_SLOW_HOST && host == fault->node) ||
            (fault->kind == FLEET_SLOW_LINK && ((s->from == fault->from && s->to == fault->to) ||
                                                (s->both && s->to == fault->from && s->from == fault->to))))
            f->named[i] = 1;
    }
}

static void check_verdict(fleet *f, const sl_status_view *view) {
    char text[300];
    for (int i = 0; i < view->verdicts; i++) {
        int is = judge(f, &view->verdict[i]);
        f->result->verdicts++;
        f->result->right += is > 0;
        f->result->abstained += is == 0;
        f->result->wrong += is < 0;
        if (is > 0)
            note_named(f, &view->verdict[i]);
        if (is >= 0)
            continue;
        sl_suspect_text(&view->verdict[i], text, sizeof text);
        broken(f, "a wrong culprit: %s", text);
    }
    if (f->onset && !f->result->decided)
        f->result->decided = f->now - f->onset;
    f->onset = 0;
}

static void check_held(fleet *f) {
    if (f->closed && f->job->admitted != f->closed_at)
        broken(f, "%lld calls were made within a closed cut", (long long)(f->job->admitted - f->closed_at));
}

/* The deadline of a rank's gate on the clock of the simulation. */
static sl_time deadline_of(const fleet *f, int rank) {
    return atomic_load(&f->job->rank[rank].gate->deadline) - f->job->rank[rank].offset;
}

/* Parked beyond the deadline, or though the hold was ended. */
static void check_ranks(fleet *f) {
    int should_run = 1;
    for (int c = 0; c < f->plan->controllers; c++)
        if (f->controller[c].controller) {
            const sl_status_view *view = sl_controller_status(f->controller[c].controller);
            should_run &= view->phase != SL_PHASE_HOLDING && view->phase != SL_PHASE_VALIDATING;
        }
    f->free_since = should_run ? f->free_since : f->now;
    for (int r = 0; r < f->plan->ranks; r++) {
        const job_rank *rank = &f->job->rank[r];
        if (rank->state != JOB_PARKED)
            continue;
        if (f->now > deadline_of(f, r))
            broken(f, "rank %d is parked %.3f s beyond its deadline", r,
                   sl_to_ms(f->now - deadline_of(f, r)) / 1e3);
        else if (deadline_of(f, r) > f->now + SL_GATE_DEADLINE + 100 * SL_MS)
            broken(f, "rank %d is held for %.3f s", r, sl_to_ms(deadline_of(f, r) - f->now) / 1e3);
        else if (f->now - f->free_since > RELEASED_IN && !is_disturbed(f, f->now - 8 * SL_SECOND))
            broken(f, "rank %d is still parked %.3f s after the release", r,
                   sl_to_ms(f->now - f->free_since) / 1e3);
    }
}

static void look(fleet *f) {
    check_ranks(f);
    if (f->job->admitted != f->last_admitted || f->moved == 0)
        f->moved = f->now;
    f->last_admitted = f->job->admitted;
    if (f->now - f->moved > SL_GATE_DEADLINE + 2 * SL_SECOND)
        broken(f, "no rank has made a call for %.1f s", sl_to_ms(f->now - f->moved) / 1e3);
    if (f->onset && f->now - f->onset > FLEET_VERDICT && !is_disturbed(f, f->onset - 10 * SL_SECOND))
        broken(f, "no verdict %.1f s after an onset", sl_to_ms(f->now - f->onset) / 1e3);
    push(f, f->now + LOOK, FLEET_LOOK, 0);
}

/* ---- agents and controllers ---- */

static void check_ok(fleet *f, sl_status status, const char *who) {
    if (status != SL_OK)
        broken(f, "%s: %s", who, sl_error_text());
}

static void on_advice(void *context, const sl_event *event) {
    fleet *f = context;
    if (f->show) {
        char *line = NULL;
        if (sl_event_line(event, &line) == SL_OK)
            fputs(line, stderr);
        free(line);
    }
    for (int i = 0; event->kind == SL_EVENT_ADVICE && i < f->plan->faults; i++)
        if (is_recent(f, &f->plan->fault[i]))
            return;
    if (event->kind == SL_EVENT_ADVICE)
        broken(f, "advice without a fault: %s", event->seen);
}

static void on_event(void *context, const sl_event *event) {
    fleet_controller *own = context;
    fleet *f = own->fleet;
    if (f->show) {
        char *line = NULL;
        if (sl_event_line(event, &line) == SL_OK)
            fprintf(stderr, "%.3f %d %s", sl_to_ms(f->now - START) / 1e3, (int)(own - f->controller), line);
        free(line);
    }
    if (!own->controller)
        return; /* it is being closed */
    const sl_status_view *view = sl_controller_status(own->controller);
    if (event->kind == SL_EVENT_ONSET) {
        f->result->onsets++;
        f->onset = f->now;
        if (!f->result->noticed && f->began)
            f->result->noticed = f->now - f->began;
    } else if (event->kind == SL_EVENT_RELIEF) {
        f->result->reliefs++;
        f->onset = 0;
    } else if (event->kind == SL_EVENT_TRACKED) {
        f->onset = 0; /* levels start over */
    } else if (event->kind == SL_EVENT_VERDICT) {
        own->verdict = 1; /* one event per component: judged after the step */
    } else if (event->kind == SL_EVENT_HELD) {
        f->result->holds++;
        f->closed = strstr(event->facts, "\"ranks\":0") == NULL;
        f->result->closed += f->closed;
        f->closed_at = f->job->admitted;
    } else if (event->kind == SL_EVENT_RELEASED) {
        if (f->now < deadline_of(f, 0))
            check_held(f);
        f->closed = 0;
    }
    (void)view;
}

static sl_store *open_store(fleet *f) {
    sl_store *store = NULL;
    sl_status status = sl_store_open(URL, "job", 0, &store);
    if (status == SL_OK)
        status = sl_store_seal(store, KEY);
    check_ok(f, status, "a store");
    return store;
}

static void start_agent(fleet *f, int node) {
    fleet_agent *own = &f->agent[node];
    f->actor = f->store.client = node;
    own->asked = (sl_store_position){""};
    own->answers_to = 0;
    snprintf(own->name, sizeof own->name, "n%d", node);
    own->store = open_store(f);
    const sl_agent_config config = {.folder = "/the/model",
                                    .node = own->name,
                                    .store = own->store,
                                    .store_url = URL,
                                    .key = KEY,
                                    .job = "job",
                                    .validate = 1};
    check_ok(f, sl_agent_open(&config, &own->agent), "an agent");
    own->serial++;
    push(f, f->now + (sl_time)(draw(f) % (uint64_t)(50 * SL_MS)), FLEET_AGENT,
         node + own->serial * f->job->nodes);
}

/* Killed: nothing is released, nothing tidied up. */
static void kill_agent(fleet *f, int node) {
    fleet_agent *own = &f->agent[node];
    f->actor = f->store.client = node;
    f->killing = 1;
    sl_agent_close(own->agent);
    sl_store_close(own->store);
    f->killing = 0;
    own->agent = NULL;
    own->store = NULL;
}

static void start_controller(fleet *f, int which) {
    fleet_controller *own = &f->controller[which];
    *own = (fleet_controller){.fleet = f, .serial = own->serial + 1};
    f->actor = f->store.client = which;
    f->local = f->now;
    own->store = open_store(f);
    const sl_controller_config config = {
        .store = own->store, .job = "job", .hold = f->plan->hold, .event = on_event, .context = own};
    check_ok(f, sl_controller_open(&config, &own->controller), "a controller");
    const sl_advice_config advice = {.offer = sl_advice_offer_defaults(), .report = on_advice, .context = f};
    check_ok(f, sl_advice_open(&advice, &own->advice), "advice");
    push(f, f->now + (sl_time)(draw(f) % (uint64_t)(50 * SL_MS)), FLEET_CONTROLLER, which + 2 * own->serial);
}

static void stop_controller(fleet *f, int which) {
    fleet_controller *own = &f->controller[which];
    int down = f->store.down;
    sl_controller *gone = own->controller;
    f->actor = f->store.client = which;
    f->local = f->now;
    own->controller = NULL;
    f->store.down = 1; /* killed: it cannot say so any more */
    sl_controller_close(gone);
    f->store.down = down;
    sl_store_close(own->store);
    sl_advice_close(own->advice);
    own->advice = NULL;
    own->store = NULL;
}

static void step_agent(fleet *f, int id) {
    int node = id % f->job->nodes;
    fleet_agent *own = &f->agent[node];
    sl_time next = f->now;
    if (!own->agent || own->serial != id / f->job->nodes)
        return;
    f->actor = f->store.client = node;
    f->local = f->now;
    check_ok(f, sl_agent_step(own->agent, fleet_clock(f), &next), "an agent's step");
    next -= own->offset;
    push(f, next > f->local ? next : f->local, FLEET_AGENT, id);
    if (f->local == f->now)
        job_model_retry(f->job, node, f->now);
    else
        push(f, f->local, FLEET_RETRY, node);
}

static void step_controller(fleet *f, int id) {
    int which = id % 2;
    fleet_controller *own = &f->controller[which];
    sl_time next = f->now;
    if (!own->controller || own->serial != id / 2)
        return;
    f->actor = f->store.client = which;
    f->local = f->now;
    own->verdict = 0;
    check_ok(f, sl_controller_step(own->controller, fleet_clock(f), &next), "a controller's step");
    next -= f->agent[which].offset;
    if (own->verdict)
        check_verdict(f, sl_controller_status(own->controller));
    if (own->verdict || f->now >= own->advise) {
        own->advise = f->now + ADVISE;
        if (sl_controller_in_charge(own->controller))
            check_ok(
                f, sl_advice_view(own->advice, f->now, f->now - START, sl_controller_status(own->controller)),
                "advice");
    }
    push(f, next > f->local ? next : f->local, FLEET_CONTROLLER, id);
}

/* ---- faults ---- */

static void set_slowness(fleet *f) {
    sl_time now = f->now - START;
    for (int r = 0; r < f->plan->ranks; r++)
        f->job->rank[r].slow = 1;
    for (int i = 0; i < f->plan->faults; i++) {
        const fleet_fault *fault = &f->plan->fault[i];
        int on = now >= fault->begin && now < fault->end;
        if (fault->kind == FLEET_SLOW_LINK)
            job_model_slow_link(f->job, fault->from, fault->to, on ? fault->factor : 1);
        for (int r = 0; r < f->plan->ranks && on; r++)
            if ((fault->kind == FLEET_SLOW_DEVICE && r == fault->rank) ||
                (fault->kind == FLEET_SLOW_HOST && r / f->plan->per_node == fault->node))
                f->job->rank[r].slow *= fault->factor;
        if (on && is_slowness(fault) && !f->began)
            f->began = f->now;
    }
}

static void turn_fault(fleet *f, const fleet_fault *fault, int on) {
    store_model *s = &f->store;
    switch (fault->kind) {
    case FLEET_STORE_DOWN:
    case FLEET_STORE_RESTART:
    case FLEET_STORE_EMPTY:
        s->down += on ? 1 : -1;
        if (!on && fault->kind != FLEET_STORE_DOWN)
            store_model_restart(s, fault->kind == FLEET_STORE_RESTART, f->now);
        break;
    case FLEET_STORE_LOSES:
        s->lose = on ? fault->factor : 0;
        break;
    case FLEET_STORE_LATE:
        s->delay = on ? (sl_time)(fault->factor * 1e9) : 0;
        break;
    case FLEET_STORE_FULL:
        s->full += on ? 1 : -1;
        break;
    case FLEET_STORE_TWICE:
        s->twice = on ? fault->factor : 0;
        break;
    case FLEET_NODE_CUT:
        s->cut[fault->node] = (char)on;
        break;
    case FLEET_AGENT_DIES:
        if (on && f->agent[fault->node].agent)
            kill_agent(f, fault->node);
        else if (!on && !f->agent[fault->node].agent)
            start_agent(f, fault->node);
        break;
    case FLEET_CONTROLLER_DIES:
        if (on && f->controller[fault->node].controller)
            stop_controller(f, fault->node);
        else if (!on && !f->controller[fault->node].controller)
            start_controller(f, fault->node);
        break;
    default:
        set_slowness(f);
    }
}

/* ---- the run ---- */

static void open_fleet(fleet *f) {
    const fleet_plan *p = f->plan;
    f->random = sl_random_mix(p->seed * 2 + 1);
    f->now = f->local = START;
    f->free_since = START;
    const job_model_config config = {.shape = p->shape,
                                     .ranks = p->ranks,
                                     .per_node = p->per_node,
                                     .stages = p->stages,
                                     .work = p->work,
                                     .call_room = p->ranks > 64 ? 256 : 2048,
                                     .random = &f->random,
                                     .at = rank_due,
                                     .context = f};
    f->job = job_model_open(&config);
    store_model_open(&f->store, f->job->nodes, &f->random);
    store_model_current = &f->store;
    f->agent = calloc((size_t)f->job->nodes, sizeof *f->agent);
    if (!f->agent)
        abort();
    for (int node = 0; p->clocks && node < f->job->nodes; node++) {
        f->agent[node].offset = (sl_time)(draw(f) % (uint64_t)(100000 * SL_SECOND));
        for (int r = node * p->per_node; r < p->ranks && r < (node + 1) * p->per_node; r++)
            f->job->rank[r].offset = f->agent[node].offset;
    }
    for (int node = 0; node < f->job->nodes; node++)
        start_agent(f, node);
    for (int c = 0; c < p->controllers; c++)
        start_controller(f, c);
    for (int i = 0; i < p->faults; i++) {
        push(f, START + p->fault[i].begin, FLEET_FAULT, 2 * i + 1);
        push(f, START + p->fault[i].end, FLEET_FAULT, 2 * i);
    }
    job_model_begin(f->job, START);
    push(f, START + LOOK, FLEET_LOOK, 0);
}

static void close_fleet(fleet *f) {
    for (int c = 0; c < f->plan->controllers; c++)
        if (f->controller[c].controller)
            stop_controller(f, c);
    for (int node = 0; node < f->job->nodes; node++)
        if (f->agent[node].agent)
            kill_agent(f, node);
    model_tests_close(f);
    free(f->agent);
    free(f->event);
    store_model_close(&f->store);
    job_model_close(f->job);
}

static void run_event(fleet *f, const fleet_event *event) {
    f->now = f->local = event->time;
    switch (event->kind) {
    case FLEET_RANK:
        job_model_run(f->job, event->id, f->now);
        break;
    case FLEET_AGENT:
        step_agent(f, event->id);
        break;
    case FLEET_CONTROLLER:
        step_controller(f, event->id);
        break;
    case FLEET_RETRY:
        job_model_retry(f->job, event->id, f->now);
        break;
    case FLEET_TESTED:
        model_tests_finish(f, event->id);
        break;
    case FLEET_FAULT:
        turn_fault(f, &f->plan->fault[event->id / 2], event->id % 2);
        break;
    case FLEET_LOOK:
        look(f);
        break;
    }
}

void fleet_later(fleet *f, sl_time time, fleet_event_kind kind, int id) {
    push(f, time, kind, id);
}

void fleet_run(const fleet_plan *plan, int show, fleet_result *result) {
    fleet f = {.plan = plan, .result = result, .show = show, .fluke = -1};
    *result = (fleet_result){0};
    fleet_current = &f;
    open_fleet(&f);
    while (f.event[0].time < START + plan->length && !result->broken) {
        fleet_event event = pop(&f);
        run_event(&f, &event);
    }
    result->named = 1;
    for (int i = 0; i < plan->faults; i++)
        result->named &= f.named[i] || !is_slowness(&plan->fault[i]);
    result->iterations = f.job->rank[0].iteration;
    result->requests = f.store.requests;
    close_fleet(&f);
    fleet_current = NULL;
    store_model_current = NULL;
}
