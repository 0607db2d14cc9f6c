#include "base/memory.h"
#include "library/library_orchestrator.h"

#include <string.h>

/* ---- answers ---- */

SL_PUBLIC int slackline_orchestrator_event(slackline_orchestrator *orchestrator, slackline_event *event) {
    SL_PLAIN_NUMBERS;
    sl_event next;
    if (sl_library_need(orchestrator, "orchestrator") != SL_OK || sl_library_need(event, "event") != SL_OK ||
        !sl_orchestrator_event(orchestrator->inner, &next))
        return 0;
    *event = (slackline_event){.kind = sl_event_names[next.kind].name,
                               .time_ns = next.time,
                               .iteration = next.iteration,
                               .from = next.from,
                               .to = next.to,
                               .rank = next.rank,
                               .replica = next.has_replica ? next.replica : -1};
    _Static_assert(sizeof event->seen == sizeof next.seen && sizeof event->decided == sizeof next.decided &&
                       sizeof event->why == sizeof next.why,
                   "texts of an event");
    memcpy(event->seen, next.seen, sizeof next.seen);
    memcpy(event->decided, next.decided, sizeof next.decided);
    memcpy(event->why, next.why, sizeof next.why);
    return 1;
}

static slackline_layout public_layout(const sl_job_layout *layout) {
    return (slackline_layout){
        .process = layout->process, .split = layout->split, .delegates = layout->delegates};
}

_Static_assert((int)SLACKLINE_DO_PLAN == (int)SL_DO_PLAN && (int)SLACKLINE_DO_PATH == (int)SL_DO_PATH &&
                   (int)SLACKLINE_DO_LAYOUT == (int)SL_DO_LAYOUT &&
                   (int)SLACKLINE_DO_LEAVE == (int)SL_DO_LEAVE &&
                   (int)SLACKLINE_DO_NETWORK == (int)SL_DO_NETWORK,
               "actions");

SL_PUBLIC int slackline_orchestrator_action(slackline_orchestrator *o, slackline_action *action) {
    SL_PLAIN_NUMBERS;
    sl_orchestrator_action next;
    if (sl_library_need(o, "orchestrator") != SL_OK || sl_library_need(action, "action") != SL_OK ||
        !sl_orchestrator_next(o->inner, &next))
        return 0;
    o->under_way = next;
    *action = (slackline_action){.what = (slackline_do)next.what,
                                 .id = next.id,
                                 .undo = next.undo,
                                 .strategy = next.what == SL_DO_NETWORK ? -1 : (int)next.strategy,
                                 .replica = next.what == SL_DO_PLAN ? next.replica : -1,
                                 .layout = public_layout(&next.layout),
                                 .host = next.host,
                                 .cost_ns = next.cost,
                                 .loss = next.loss,
                                 .expected = next.expected,
                                 .incident = next.incidents,
                                 .incidents = next.count};
    return 1;
}

SL_PUBLIC slackline_status slackline_orchestrator_carried_out(slackline_orchestrator *o, int id,
                                                              int64_t now_ns, slackline_outcome outcome,
                                                              int64_t took_ns) {
    SL_PLAIN_NUMBERS;
    SL_LIBRARY_TRY(sl_library_need(o, "orchestrator"));
    SL_LIBRARY_TRY(sl_library_between("now_ns", now_ns, -SL_LIBRARY_LATEST, SL_LIBRARY_LATEST));
    SL_LIBRARY_TRY(sl_library_between("outcome", outcome, SLACKLINE_DONE, SLACKLINE_ADVISED));
    SL_LIBRARY_TRY(sl_library_between("took_ns", took_ns, 0, SL_LIBRARY_DURATION));
    if (o->under_way.what == SL_DO_NOTHING || o->under_way.id != id)
        return sl_library_status(sl_error(SL_EINVAL, "action %d is not under way", id));
    SL_LIBRARY_TRY(sl_orchestrator_carried_out(o->inner, id, now_ns, (sl_outcome)outcome, took_ns));
    if (o->under_way.what == SL_DO_LAYOUT && outcome == SLACKLINE_DONE)
        sl_library_forget(o);
    o->under_way.what = SL_DO_NOTHING;
    return SLACKLINE_OK;
}

/* ---- questions ---- */

static slackline_status plan_of(const slackline_orchestrator *o, int replica, slackline_plan **plan) {
    const sl_orchestrator_action *a = &o->under_way;
    const int moves = a->what == SL_DO_LAYOUT,
              swaps = a->what == SL_DO_PLAN && (a->replica == replica || a->replica < 0);
    const sl_plan *run = swaps   ? a->plan
                         : moves ? a->plans[replica]
                                 : sl_orchestrator_plan(o->inner, replica);
    sl_problem on =
        sl_library_shape(o, replica, o->last[replica] && !moves ? o->last[replica] : o->expected[replica]);
    if (moves)
        on.microbatches = a->layout.split[replica];
    return sl_library_plan_of(&on, &run->order, run->schedule, plan);
}

SL_PUBLIC slackline_status slackline_orchestrator_plan(const slackline_orchestrator *orchestrator,
                                                       int replica, slackline_plan **plan) {
    SL_PLAIN_NUMBERS;
    SL_LIBRARY_TRY(sl_library_need(plan, "plan"));
    *plan = NULL;
    SL_LIBRARY_TRY(sl_library_replica(orchestrator, replica));
    return plan_of(orchestrator, replica, plan);
}

SL_PUBLIC int slackline_orchestrator_adapted(const slackline_orchestrator *orchestrator, int replica) {
    sl_status status = sl_library_replica(orchestrator, replica);
    return status == SL_ENONE ? 0 /* its schedule is unknown */
           : status == SL_OK  ? sl_orchestrator_adapted(orchestrator->inner, replica)
                              : -1;
}

SL_PUBLIC slackline_status slackline_orchestrator_layout(const slackline_orchestrator *orchestrator,
                                                         slackline_layout *layout) {
    SL_LIBRARY_TRY(sl_library_need(orchestrator, "orchestrator"));
    SL_LIBRARY_TRY(sl_library_need(layout, "layout"));
    *layout = public_layout(sl_orchestrator_layout(orchestrator->inner));
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_orchestrator_forecast(slackline_orchestrator *orchestrator, int replica,
                                                           int64_t *time_ns) {
    SL_PLAIN_NUMBERS;
    SL_LIBRARY_TRY(sl_library_replica(orchestrator, replica));
    SL_LIBRARY_TRY(sl_library_need(time_ns, "time_ns"));
    return sl_library_status(sl_orchestrator_forecast(orchestrator->inner, replica, time_ns));
}

SL_PUBLIC slackline_status slackline_orchestrator_question(slackline_orchestrator *orchestrator, int replica,
                                                           slackline_problem **problem) {
    SL_PLAIN_NUMBERS;
    SL_LIBRARY_TRY(sl_library_need(problem, "problem"));
    *problem = NULL;
    SL_LIBRARY_TRY(sl_library_replica(orchestrator, replica));
    SL_LIBRARY_TRY(sl_alloc(problem, 1, sizeof **problem));
    sl_status status = sl_orchestrator_question(orchestrator->inner, replica, &(*problem)->problem);
    if (status == SL_OK)
        status = sl_library_mark(*problem);
    else
        (*problem)->problem = (sl_problem){0};
    if (status != SL_OK) {
        slackline_problem_free(*problem);
        *problem = NULL;
    }
    return sl_library_status(status);
}

static slackline_incident public_incident(const sl_incident_view *i) {
    slackline_incident to = {.id = i->id,
                             .verdict = i->verdict,
                             .slow = {.part = (slackline_part)i->part.kind,
                                      .a = i->part.a,
                                      .b = i->part.b,
                                      .host = i->host,
                                      .slowdown = i->part.slowdown,
                                      .latency_ns = {i->part.latency[0], i->part.latency[1]},
                                      .ns_per_byte = {i->part.pace[0], i->part.pace[1]}},
                             .stage = i->stage,
                             .since = i->since,
                             .loss = i->loss,
                             .growth = i->growth};
    _Static_assert(sizeof to.seen == sizeof i->seen, "text of an incident");
    memcpy(to.seen, i->seen, sizeof to.seen);
    return to;
}

SL_PUBLIC int slackline_orchestrator_incidents(const slackline_orchestrator *orchestrator,
                                               slackline_incident *incident, int most) {
    SL_PLAIN_NUMBERS;
    int count = 0;
    if (sl_library_need(orchestrator, "orchestrator") != SL_OK ||
        (most > 0 && sl_library_need(incident, "incident") != SL_OK))
        return 0;
    const sl_incident_view *views = sl_orchestrator_incidents(orchestrator->inner, &count);
    for (int i = 0; i < count && i < most; i++)
        incident[i] = public_incident(&views[i]);
    return count;
}

SL_PUBLIC int slackline_orchestrator_troubled(const slackline_orchestrator *orchestrator) {
    return sl_library_need(orchestrator, "orchestrator") == SL_OK &&
           sl_orchestrator_troubled(orchestrator->inner);
}

SL_PUBLIC const char *slackline_orchestrator_decisions(slackline_orchestrator *orchestrator) {
    SL_PLAIN_NUMBERS;
    return sl_library_need(orchestrator, "orchestrator") == SL_OK
               ? sl_orchestrator_decisions(orchestrator->inner)
               : NULL;
}

/* ---- simulations, a resume ---- */

SL_PUBLIC int slackline_orchestrator_idle(const slackline_orchestrator *orchestrator, int64_t each_ns) {
    if (sl_library_need(orchestrator, "orchestrator") != SL_OK ||
        sl_library_between("each_ns", each_ns, 0, SL_LIBRARY_DURATION) != SL_OK)
        return 0;
    return sl_orchestrator_idle(orchestrator->inner, each_ns);
}

SL_PUBLIC slackline_status slackline_orchestrator_skip(slackline_orchestrator *o, int iterations,
                                                       int64_t now_ns) {
    SL_PLAIN_NUMBERS;
    SL_LIBRARY_TRY(sl_library_need(o, "orchestrator"));
    SL_LIBRARY_TRY(sl_library_between("iterations", iterations, 0, INT32_MAX));
    SL_LIBRARY_TRY(sl_library_between("now_ns", now_ns, -SL_LIBRARY_LATEST, SL_LIBRARY_LATEST));
    return sl_library_status(sl_orchestrator_skip(o->inner, iterations, now_ns));
}

SL_PUBLIC slackline_status slackline_orchestrator_save(const slackline_orchestrator *orchestrator,
                                                       char **text, size_t *size) {
    SL_PLAIN_NUMBERS;
    SL_LIBRARY_TRY(sl_library_need(text, "text"));
    *text = NULL;
    SL_LIBRARY_TRY(sl_library_need(orchestrator, "orchestrator"));
    SL_LIBRARY_TRY(sl_orchestrator_save(orchestrator->inner, text));
    if (size)
        *size = strlen(*text);
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_orchestrator_load(slackline_orchestrator *orchestrator,
                                                       const char *text) {
    SL_PLAIN_NUMBERS;
    SL_LIBRARY_TRY(sl_library_need(orchestrator, "orchestrator"));
    SL_LIBRARY_TRY(sl_library_need(text, "text"));
    return sl_library_status(sl_orchestrator_load(orchestrator->inner, text));
}
