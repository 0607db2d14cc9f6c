/* Which fault explains what was named: a device, a link, a card, a sum, by incidents and by events. */
#include "drive_inside.h"

/* A fault counts as present for a while after its end: as long as medians remember it. */
int drive_recent(const driver *d, const job_fault *f) {
    return f->first <= d->iteration && d->iteration < f->until + d->j.config.hold + 8;
}

int drive_met(const driver *d, int a, int b) {
    return d->met[a * drive_processes(d) + b];
}

void drive_meet(driver *d) {
    const sl_job *shape = &d->j.config.job;
    const sl_job_layout *layout = sl_orchestrator_layout(d->o);
    for (int at = 0; at < drive_processes(d); at++)
        for (int t = 0; t < shape->tensor; t++)
            d->met[layout->process[at] * drive_processes(d) +
                   layout->process[at / shape->tensor * shape->tensor + t]] = 1;
}

int drive_slows_devices(const job_fault *f) {
    return f->slowdown > 1;
}
int drive_slows_links(const job_fault *f) {
    return f->latency[0] > 0 || f->latency[1] > 0 || f->pace[0] > 0 || f->pace[1] > 0;
}

/* Whether the device of a process, or of one that shares its place (tensor ranks run side by side and are
 * measured as one), is slowed by the fault. */
static int explains_device(const driver *d, const job_fault *f, int process) {
    for (int p = 0; p < drive_processes(d); p++)
        if (drive_met(d, process, p) && drive_slows_devices(f) &&
            ((f->kind == JOB_DEVICE && f->a == p) || (f->kind == JOB_HOST && job_same_host(&d->j, f->a, p))))
            return 1;
    return 0;
}

static int touches(const driver *d, const job_fault *f, int a, int b) {
    if (!drive_slows_links(f))
        return 0;
    if (f->kind == JOB_LINK)
        return (drive_met(d, f->a, a) && drive_met(d, f->b, b)) ||
               (drive_met(d, f->a, b) && drive_met(d, f->b, a));
    if (f->kind == JOB_CARD)
        return drive_met(d, f->a, a) || drive_met(d, f->a, b);
    for (int p = 0; p < drive_processes(d); p++) /* what stays within the host is not slow */
        for (int q = 0; q < drive_processes(d); q++)
            if (drive_met(d, p, a) && drive_met(d, q, b) &&
                job_same_host(&d->j, f->a, p) != job_same_host(&d->j, f->a, q))
                return 1;
    return 0;
}

/* A card is named rightly for a fault of card or host, or for one of a link when it has no other. */
static int explains_card(const driver *d, const job_fault *f, int process) {
    const sl_job *shape = &d->j.config.job;
    if (!drive_slows_links(f))
        return 0;
    if (f->kind == JOB_LINK)
        return shape->ranks * shape->replicas == 2 && touches(d, f, process, f->a == process ? f->b : f->a);
    for (int p = 0; p < drive_processes(d); p++)
        if (drive_met(d, process, p) && (f->a == p || (f->kind == JOB_HOST && job_same_host(&d->j, f->a, p))))
            return 1;
    return 0;
}

/* Any pair of processes that hold the rank in two replicas. */
static int explains_sum(const driver *d, const job_fault *f, const int *process, int rank) {
    const sl_job *shape = &d->j.config.job;
    for (int t = 0; t < shape->tensor; t++)
        for (int a = 0; a < shape->replicas; a++)
            for (int b = 0; b < shape->replicas; b++)
                if (a != b && touches(d, f, process[sl_job_position(shape, rank, a, t)],
                                      process[sl_job_position(shape, rank, b, t)]))
                    return 1;
    return 0;
}

/* Or when all links that the process has to its neighbours are slow, each by some fault. */
int drive_all_links_slow(const driver *d, int process) {
    const sl_job *shape = &d->j.config.job;
    const sl_job_layout *layout = sl_orchestrator_layout(d->o);
    int links = 0, slow = 0;
    for (int p = 0; p < drive_processes(d); p++) {
        int found = 0;
        if (drive_met(d, p, process) || !sl_job_layout_talk(shape, layout, d->j.problem[0], process, p))
            continue;
        for (int f = 0; f < d->j.faults; f++)
            found |= drive_recent(d, &d->j.fault[f]) && touches(d, &d->j.fault[f], process, p);
        links++;
        slow += found;
    }
    return links > 1 && slow == links;
}

/* Who sits there now. */
int drive_place_of(const driver *d, int rank, int replica) {
    return sl_orchestrator_layout(d->o)->process[sl_job_position(&d->j.config.job, rank, replica, 0)];
}

int drive_explains_incident(const driver *d, const job_fault *f, const sl_incident_view *v) {
    const int *now = sl_orchestrator_layout(d->o)->process;
    if (v->stage >= 0) {
        int rank = sl_problem_rank(d->j.problem[0], v->stage);
        return explains_sum(d, f, now, rank) || explains_sum(d, f, d->before, rank);
    }
    if (v->part.kind == SL_PART_DEVICE)
        return explains_device(d, f, v->part.a) && (!v->host || f->kind == JOB_HOST || d->j.faults > 1);
    if (v->part.kind == SL_PART_CARD)
        return explains_card(d, f, v->part.a);
    return v->part.b >= 0 && touches(d, f, v->part.a, v->part.b);
}

/* An event's component at a place of one replica, as processes sit or sat: any of the tensor ranks there. */
static int explains_place(const driver *d, const job_fault *f, const sl_event *e, const int *process,
                          int replica) {
    const sl_job *shape = &d->j.config.job;
    const char *sum = strstr(e->seen, "sum"), *named = strstr(e->seen, "stage ");
    int stage = sum && named ? atoi(named + strlen("stage ")) : -1;
    int device = strstr(e->seen, "ops") || strstr(e->seen, "device"),
        card = !device && strstr(e->seen, "card");
    if (stage >= 0 && stage < d->j.pipeline[0].stages)
        return explains_sum(d, f, process, sl_problem_rank(&d->j.pipeline[0], stage));
    for (int t = 0; t < shape->tensor; t++) {
        int links = e->from >= 0 && e->to >= 0;
        int at = process[sl_job_position(shape, links ? e->from : e->rank, replica, t)];
        if (links ? touches(d, f, at, process[sl_job_position(shape, e->to, replica, t)])
                  : (!card && explains_device(d, f, at)) || (!device && explains_card(d, f, at)))
            return 1;
    }
    return 0;
}

/* A place may be meant as processes sit now, sat before the last change, or in the beginning. */
int drive_explains_event(const driver *d, const job_fault *f, const sl_event *e) {
    const int *now = sl_orchestrator_layout(d->o)->process;
    for (int r = 0; r < d->j.config.job.replicas; r++)
        if ((!e->has_replica || e->replica == r) &&
            (explains_place(d, f, e, now, r) || explains_place(d, f, e, d->before, r) ||
             explains_place(d, f, e, d->home, r)))
            return 1;
    return 0;
}

/* Or in each of these senses; a device that was moved next to a slow one is not that one. */
int drive_explains_surely(const driver *d, const job_fault *f, const sl_event *e) {
    const sl_job *shape = &d->j.config.job;
    int replica = e->has_replica ? e->replica : 0;
    if (f->kind == JOB_DEVICE &&
        (sl_job_rank(shape, f->a) != e->rank || sl_job_replica(shape, f->a) != replica))
        return 0;
    return explains_place(d, f, e, sl_orchestrator_layout(d->o)->process, replica) &&
           explains_place(d, f, e, d->before, replica) && explains_place(d, f, e, d->home, replica);
}

/* Longer microbatches of one stage are told by its rank, and are no slow component. */
int drive_tells_of_work(const driver *d, const sl_event *e) {
    int grown = 0;
    for (int i = 0; i < d->j.loads; i++)
        grown |=
            d->j.load[i].first <= d->iteration && d->iteration < d->j.load[i].until + d->j.config.hold + 8;
    return grown && (strstr(e->seen, "work") || strstr(e->decided, "work") || strstr(e->why, "work"));
}

/* A card that is named because all its links are slow stands for each of them, whatever slows it. */
int drive_covers(const driver *d, const job_fault *f, const sl_incident_view *v) {
    const sl_job_layout *layout = sl_orchestrator_layout(d->o);
    int slows = 0;
    for (int p = 0; p < drive_processes(d) && v->part.kind == SL_PART_CARD; p++)
        slows |= !drive_met(d, p, v->part.a) && touches(d, f, v->part.a, p) &&
                 sl_job_layout_talk(&d->j.config.job, layout, d->j.problem[0], v->part.a, p);
    return slows && drive_all_links_slow(d, v->part.a);
}
