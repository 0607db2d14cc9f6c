/* One strategy from change to change. A job waits for hosts, starts (checks them, then restarts), or runs.
 * While it runs, work is kept at each checkpoint: the parts of its time since the last one are apart, and
 * become rework if the job stops. All times are whole ns, so that the parts add up to the job's time exactly.
 *
 * The job replaces slow hosts that it has noticed when the time that slow hosts have cost since its start
 * reaches the cost of a checkpoint, a check and a restart: the rule of the ladder (adapt/ladder) for one
 * strategy, which at worst loses twice as much as the best decision in hindsight. */
#include "adapt/campaign/fleet.h"
#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct fleet_change {
    sl_time time;
    int host, kind, step; /* step: +1 a fault begins, -1 ends */
} fleet_change;

typedef enum job_state { WAITING, STARTING, RUNNING, DONE } job_state;

typedef struct fleet_host {
    int count[SL_FLEET_KINDS]; /* faults that last */
    int faults, slows;         /* of all kinds, of slow ones */
    int grade;                 /* while hosts are chosen */
    int is_home;               /* the job began on it */
    int is_used, is_chosen;    /* the job is on it; chosen for its next start */
    int is_known;              /* that it is slow */
    sl_time noticed;           /* when the running job will have noticed it; 0: not slow, or known */
} fleet_host;

typedef struct fleet_job {
    const sl_fleet *fleet;
    const sl_fleet_strategy *strategy;
    fleet_change *change;
    size_t changes, next;
    fleet_host *host;
    int *order;                /* [hosts] in order of preference */
    int level[SL_FLEET_KINDS]; /* slow kinds by their factor, from 1; 0 for others */
    int used[SL_FLEET_KINDS];  /* hosts of the job with such a fault */
    int usable;                /* hosts that a start could use */
    double factor;             /* of the job's time */
    job_state state;
    sl_time now, checked, ready;   /* of a start: ends of its check and of the restart */
    int is_hit;                    /* a host of the job has failed */
    sl_time done, piece;           /* work: kept; since the last checkpoint */
    sl_time saving;                /* left of the checkpoint under way; 0: none */
    int replaces;                  /* after this checkpoint, slow hosts are replaced */
    sl_time lost;                  /* by slow hosts since the start */
    sl_time since[SL_FLEET_PARTS]; /* since the last checkpoint */
    sl_fleet_outcome *out;
} fleet_job;

/* ---- changes ---- */

static int by_time(const void *one, const void *other) {
    const fleet_change *a = one, *b = other;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->step != b->step)
        return a->step - b->step;
    return a->host != b->host ? a->host - b->host : a->kind - b->kind;
}

static sl_status list_changes(fleet_job *j, const sl_fleet_fault *fault, size_t faults) {
    SL_TRY(sl_alloc(&j->change, 2 * faults, sizeof *j->change));
    for (size_t i = 0; i < faults; i++) {
        const sl_fleet_fault *f = &fault[i];
        if (f->first >= j->fleet->duration)
            continue;
        j->change[j->changes++] = (fleet_change){f->first, f->host, (int)f->kind, 1};
        if (f->until < j->fleet->duration)
            j->change[j->changes++] = (fleet_change){f->until, f->host, (int)f->kind, -1};
    }
    if (j->changes)
        qsort(j->change, j->changes, sizeof *j->change, by_time);
    return SL_OK;
}

static int is_slow(const fleet_host *h) {
    return h->slows > 0;
}

static int is_usable(const fleet_job *j, const fleet_host *h) {
    return h->count[SL_FLEET_STOP] <= 0 && h->count[SL_FLEET_AWAY] <= 0 && (j->strategy->swaps || h->is_home);
}

static void find_factor(fleet_job *j) {
    j->factor = 1;
    for (int k = SL_FLEET_SLOW; k < SL_FLEET_KINDS; k++)
        if (j->used[k] > 0)
            j->factor = fmax(j->factor, j->fleet->slow[k]);
    if (!(j->factor > 1))
        j->lost = 0;
}

/* Everything that changes now. A fault of no duration stops a job as any other. */
static void apply_changes(fleet_job *j) {
    for (; j->next < j->changes && j->change[j->next].time <= j->now; j->next++) {
        const fleet_change *c = &j->change[j->next];
        fleet_host *h = &j->host[c->host];
        j->usable -= is_usable(j, h);
        h->count[c->kind] += c->step;
        h->faults += c->step;
        h->slows += c->kind >= SL_FLEET_SLOW ? c->step : 0;
        j->usable += is_usable(j, h);
        if (h->is_used) {
            j->is_hit |= c->kind == SL_FLEET_STOP && c->step > 0;
            if (h->count[c->kind] == (c->step > 0))
                j->used[c->kind] += c->step;
        }
        if (c->kind >= SL_FLEET_SLOW && !is_slow(h)) {
            h->is_known = 0;
            h->noticed = 0;
        }
    }
    find_factor(j);
}

/* ---- hosts of the job ---- */

/* Smaller is better; negative: not usable. */
static int grade(const fleet_job *j, const fleet_host *h) {
    int level = 0;
    if (!is_usable(j, h))
        return -1;
    if (!h->faults)
        return 0;
    for (int k = SL_FLEET_SLOW; k < SL_FLEET_KINDS && h->is_known; k++)
        if (h->count[k] > 0 && j->level[k] > level)
            level = j->level[k];
    return 2 * level + (h->count[SL_FLEET_WARN] > 0);
}

/* Chooses the best hosts, those of the job first among equals. *level: that of the slowest known one. Returns
 * 0: too few are usable. */
static int choose_hosts(fleet_job *j, int *level) {
    const sl_fleet *f = j->fleet;
    unsigned grades = 0; /* bit g: there is a host of grade g */
    int need = f->hosts - f->spares;
    *level = 0;
    if (j->usable < need)
        return 0;
    for (int i = 0; i < f->hosts; i++) {
        fleet_host *h = &j->host[i];
        h->is_chosen = 0;
        h->grade = grade(j, h);
        grades |= h->grade < 0 ? 0 : 1u << h->grade;
    }
    for (int g = 0; need; g++) {
        if (!(grades >> g & 1))
            continue;
        *level = g / 2;
        for (int used = 1; need && used >= 0; used--)
            for (int i = 0; need && i < f->hosts; i++) {
                fleet_host *h = &j->host[j->order[i]];
                if (h->is_used != used || h->grade != g)
                    continue;
                h->is_chosen = 1;
                need--;
            }
    }
    return 1;
}

static void use_chosen(fleet_job *j) {
    memset(j->used, 0, sizeof j->used);
    for (int i = 0; i < j->fleet->hosts; i++) {
        fleet_host *h = &j->host[i];
        h->is_used = h->is_chosen;
        h->noticed = 0;
        for (int k = 0; k < SL_FLEET_KINDS && h->is_used && h->faults; k++)
            j->used[k] += h->count[k] > 0;
    }
    find_factor(j);
}

/* Starts the job if enough hosts are usable; `replaces`: because of slow hosts. */
static void begin(fleet_job *j, int replaces) {
    const int checks = j->strategy->checks || replaces;
    int level;
    for (int i = 0; checks && i < j->fleet->hosts; i++)
        j->host[i].is_known = is_slow(&j->host[i]);
    j->is_hit = 0;
    j->lost = 0;
    if (!choose_hosts(j, &level)) {
        j->state = WAITING;
        return;
    }
    use_chosen(j);
    j->state = STARTING;
    j->checked = j->now + (checks ? j->fleet->check : 0);
    j->ready = j->checked + j->fleet->restart;
    j->out->starts++;
    j->out->replaced += replaces;
}

/* ---- work ---- */

static void keep(fleet_job *j) {
    for (int i = 0; i < SL_FLEET_PARTS; i++)
        j->out->part[i] += j->since[i];
    memset(j->since, 0, sizeof j->since);
    j->done += j->piece;
    j->piece = 0;
    if (j->fleet->work && j->done >= j->fleet->work) {
        j->out->is_done = 1;
        j->state = DONE;
    }
}

static void stop(fleet_job *j) {
    for (int i = 0; i < SL_FLEET_PARTS; i++)
        j->out->part[SL_FLEET_REWORK] += j->since[i];
    memset(j->since, 0, sizeof j->since);
    j->piece = j->saving = 0;
    j->replaces = 0;
    j->out->stops++;
}

static sl_time stretched(const fleet_job *j, sl_time work) {
    return j->factor > 1 ? (sl_time)ceil((double)work * j->factor) : work;
}

/* `work` that takes `wall`. */
static void do_work(fleet_job *j, sl_time work, sl_time wall) {
    j->since[SL_FLEET_USEFUL] += work;
    j->since[SL_FLEET_SLOWER] += wall - work;
    j->lost += wall - work;
    j->piece += work;
    j->now += wall;
}

/* Whole intervals with their checkpoints, at once. */
static void do_intervals(fleet_job *j, sl_time until) {
    const sl_fleet *f = j->fleet;
    const sl_time wall = stretched(j, f->every);
    sl_time count = (until - j->now) / (wall + f->save);
    if (f->work)
        count = sl_sooner(count, (f->work - j->done) / f->every);
    if (count < 1)
        return;
    do_work(j, count * f->every, count * wall);
    j->since[SL_FLEET_SAVING] += count * f->save;
    j->now += count * f->save;
    keep(j);
}

/* Runs until then, until the work is done, or until the checkpoint before a replacement is taken. */
static void run_job(fleet_job *j, sl_time until) {
    const sl_fleet *f = j->fleet;
    while (j->now < until && j->state == RUNNING) {
        if (j->saving) {
            const sl_time step = sl_sooner(j->saving, until - j->now);
            j->since[SL_FLEET_SAVING] += step;
            j->now += step;
            j->saving -= step;
            if (!j->saving)
                keep(j);
            if (!j->saving && j->replaces)
                return;
            continue;
        }
        if (!j->piece)
            do_intervals(j, until);
        if (j->now == until || j->state == DONE)
            return;
        const sl_time left = (f->work ? sl_sooner(f->every, f->work - j->done) : f->every) - j->piece;
        const sl_time wall = stretched(j, left), step = until - j->now;
        if (wall > step) {
            const sl_time work = j->factor > 1 ? (sl_time)((double)step / j->factor) : step;
            do_work(j, sl_sooner(work, left - 1), step);
            return;
        }
        do_work(j, left, wall);
        j->saving = f->save;
        if (!j->saving)
            keep(j);
    }
}

/* ---- slow hosts of the running job ---- */

/* When the job next notices a slow host, or may replace one. */
static sl_time next_decision(fleet_job *j) {
    const sl_fleet *f = j->fleet;
    const sl_time cost = f->save + f->check + f->restart;
    sl_time at = SL_TIME_NEVER;
    int known = 0, level = 0;
    if (!j->strategy->notices || j->replaces || !(j->factor > 1))
        return at;
    for (int i = 0; i < f->hosts; i++) {
        fleet_host *h = &j->host[i];
        if (!h->is_used || !is_slow(h))
            continue;
        if (!h->is_known && !h->noticed)
            h->noticed = j->now + f->notice + (f->notice == 0 && j->now == 0);
        if (!h->is_known && h->noticed <= j->now)
            h->is_known = 1;
        for (int k = SL_FLEET_SLOW; k < SL_FLEET_KINDS && h->is_known; k++)
            if (h->count[k] > 0 && j->level[k] > known)
                known = j->level[k];
        if (!h->is_known)
            at = sl_sooner(at, h->noticed);
    }
    if (!known || !choose_hosts(j, &level) || level >= known)
        return at;
    if (j->lost >= cost)
        return j->now;
    const double wait = (double)(cost - j->lost) / (1 - 1 / j->factor);
    return wait < 4e18 ? sl_sooner(at, j->now + sl_later((sl_time)wait, SL_SECOND)) : at;
}

static void decide(fleet_job *j) {
    j->replaces = 1;
    if (!j->saving)
        j->saving = j->fleet->save;
    if (!j->saving)
        keep(j);
}

/* ---- the job ---- */

static sl_time next_change(const fleet_job *j) {
    return j->next < j->changes ? sl_sooner(j->change[j->next].time, j->fleet->duration) : j->fleet->duration;
}

static void pass(fleet_job *j, sl_fleet_part part, sl_time until) {
    if (until > j->now) {
        j->out->part[part] += until - j->now;
        j->now = until;
    }
}

static void step_running(fleet_job *j) {
    const sl_time due = next_decision(j);
    int level;
    if (due <= j->now)
        decide(j);
    if (!(j->replaces && !j->saving))
        run_job(j, due > j->now ? sl_sooner(next_change(j), due) : next_change(j));
    if (j->state != RUNNING)
        return;
    apply_changes(j);
    if (j->is_hit) {
        stop(j);
        begin(j, 0);
    } else if (j->replaces && !j->saving) {
        j->replaces = 0;
        if (choose_hosts(j, &level)) /* else the spares have failed meanwhile */
            begin(j, 1);
    }
}

static void step_starting(fleet_job *j) {
    const sl_time until = sl_sooner(j->ready, next_change(j));
    pass(j, SL_FLEET_CHECKING, sl_sooner(j->checked, until));
    pass(j, SL_FLEET_RESTARTING, until);
    apply_changes(j);
    if (j->is_hit) {
        stop(j);
        begin(j, 0);
    } else if (j->now == j->ready) {
        j->state = RUNNING;
    }
}

static void step_waiting(fleet_job *j) {
    pass(j, SL_FLEET_WAITING, next_change(j));
    apply_changes(j);
    if (j->now < j->fleet->duration)
        begin(j, 0);
}

static void play_job(fleet_job *j) {
    apply_changes(j);
    begin(j, 0);
    if (j->state == STARTING) { /* the first start is free */
        j->checked = j->ready = j->now;
        j->out->starts = 0;
    }
    while (j->now < j->fleet->duration && j->state != DONE) {
        if (j->state == RUNNING)
            step_running(j);
        else if (j->state == STARTING)
            step_starting(j);
        else
            step_waiting(j);
    }
    keep(j); /* the job would continue */
    j->out->wall = j->now;
}

/* Shuffled (Fisher, Yates) by seed and run, or as numbered. */
static void draw_placement(fleet_job *j, int run) {
    const sl_fleet *f = j->fleet;
    const uint64_t seed = sl_random_mix(~f->seed * SL_RANDOM_STEP + (uint64_t)run);
    for (int i = 0; i < f->hosts; i++)
        j->order[i] = i;
    for (int i = f->hosts - 1; i > 0 && !f->in_order; i--) {
        const uint64_t bits = sl_random_mix(seed + (uint64_t)i * SL_RANDOM_STEP);
        const int other = (int)(bits % (uint64_t)(i + 1)), one = j->order[i];
        j->order[i] = j->order[other];
        j->order[other] = one;
    }
    for (int i = 0; i < f->hosts - f->spares; i++)
        j->host[j->order[i]].is_home = j->host[j->order[i]].is_used = 1;
    j->usable = j->strategy->swaps ? f->hosts : f->hosts - f->spares;
}

static void find_levels(fleet_job *j) {
    for (int k = SL_FLEET_SLOW; k < SL_FLEET_KINDS; k++) {
        j->level[k] = 1;
        for (int other = SL_FLEET_SLOW; other < SL_FLEET_KINDS; other++)
            j->level[k] += j->fleet->slow[other] < j->fleet->slow[k];
    }
}

sl_status sl_fleet_play(const sl_fleet *f, const sl_fleet_strategy *strategy, int run,
                        const sl_fleet_fault *fault, size_t faults, sl_fleet_outcome *outcome) {
    fleet_job j = {.fleet = f, .strategy = strategy, .factor = 1, .out = outcome};
    *outcome = (sl_fleet_outcome){0};
    sl_status status = sl_alloc(&j.host, (size_t)f->hosts, sizeof *j.host);
    SL_THEN(status, sl_alloc(&j.order, (size_t)f->hosts, sizeof *j.order));
    SL_THEN(status, list_changes(&j, fault, faults));
    if (status == SL_OK) {
        find_levels(&j);
        draw_placement(&j, run);
        play_job(&j);
    }
    SL_FREE(j.change, j.host, j.order);
    return status;
}
