/* One strategy from the first iteration to the last. Faults begin and end by the trace; what the ladder is
 * told comes `notice` iterations later; what it answers is done to the setup, and costs its time. */
#include "adapt/campaign/campaign_inside.h"
#include "base/memory.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TIME ((sl_time)4000000000000000000)
/* what a live fault was told to lose, where it is no loss */
#define UNTOLD (-1.0)
#define CHANGED (-2.0)
#define MOST_ACTIONS 1000 /* between two iterations; a ladder has no reason for more */

typedef enum state {
    SLOW,    /* and nobody knows */
    NOTICED, /* the ladder knows */
    WELL     /* and nobody knows */
} state;

typedef struct live {
    int fault;
    state state;
    int since; /* iteration at which the state began */
    double told;
} live;

struct play;
typedef struct answer {
    struct play *play;
    sl_campaign_remedy remedy;
    int kept, kept_setup, kept_world; /* what keeping loses was asked for these */
    double keeping;
} answer;

typedef struct play {
    sl_simulation *s;
    const sl_campaign *c;
    sl_campaign_row *row;
    sl_ladder *ladder; /* NULL: nothing is ever done */
    unsigned remedies, follow;
    answer answer[SL_CAMPAIGN_REMEDIES];
    sl_campaign_remedy of[SL_CAMPAIGN_REMEDIES]; /* of the ladder's strategies */
    sl_time healthy, now;
    int iteration, setup, world, believed; /* worlds as they are, and as the ladder knows them */
    size_t next;                           /* fault that begins next */
    live *live;
    size_t lives, live_room;
    int *faults, *over; /* scratch: for worlds, for what is relieved */
    size_t fault_room, over_room;
    sl_status status; /* of a callback */
} play;

/* ---- the row ---- */

sl_status sl_row_add(sl_campaign_row *row, int iteration, int count, sl_time start, sl_time each) {
    sl_stretch *last = row->stretches ? &row->stretch[row->stretches - 1] : NULL;
    if (last && count && last->count && last->each == each) {
        last->count += count;
        return SL_OK;
    }
    SL_TRY(sl_grow(&row->stretch, &row->stretch_room, row->stretches + 1, sizeof *row->stretch));
    row->stretch[row->stretches++] =
        (sl_stretch){.iteration = iteration, .count = count, .start = start, .each = each};
    return SL_OK;
}

static sl_status pause_for(play *p, sl_time cost) {
    if (cost == 0)
        return SL_OK;
    if (cost > MOST_TIME - p->now)
        return sl_error(SL_EINVAL, "the job would take longer than %g s", (double)MOST_TIME / 1e9);
    SL_TRY(sl_row_add(p->row, p->iteration, 0, p->now, cost));
    p->now += cost;
    p->row->paid += cost;
    return SL_OK;
}

/* ---- what the ladder asks ---- */

static double remaining(void *user, const sl_incident *incident) {
    answer *a = user;
    play *p = a->play;
    int next;
    sl_time cost;
    double loss = incident->loss;
    if (p->status == SL_OK)
        p->status = sl_simulation_apply(p->s, p->setup, p->believed, a->remedy, p->follow, &next, &cost);
    if (p->status == SL_OK)
        p->status = sl_simulation_loss(p->s, next, p->believed, incident->id, p->healthy, &loss);
    return loss;
}

static double keeping(void *user, const sl_incident *incident) {
    answer *a = user;
    play *p = a->play;
    int next;
    sl_time with = 0, without = 0;
    (void)incident; /* the same for each that is over */
    if (a->remedy == SL_CAMPAIGN_RESTART)
        return 0;
    if (a->kept && a->kept_setup == p->setup && a->kept_world == p->believed)
        return a->keeping;
    if (p->status == SL_OK)
        p->status = sl_simulation_undo(p->s, p->setup, p->believed, a->remedy, &next);
    if (p->status == SL_OK)
        p->status = sl_simulation_time(p->s, p->setup, p->believed, &with);
    if (p->status == SL_OK)
        p->status = sl_simulation_time(p->s, next, p->believed, &without);
    a->kept = 1;
    a->kept_setup = p->setup;
    a->kept_world = p->believed;
    a->keeping = p->status == SL_OK && with > without ? 1 - (double)without / (double)with : 0;
    return a->keeping;
}

static const unsigned causes[SL_CAMPAIGN_REMEDIES] = {
    [SL_CAMPAIGN_ADAPT] = SL_CAUSES_ANY,
    [SL_CAMPAIGN_DELEGATE] = SL_CAUSE_LINK | SL_CAUSE_HOST,
    [SL_CAMPAIGN_BALANCE] = SL_CAUSE_DEVICE | SL_CAUSE_HOST | SL_CAUSE_LINK,
    [SL_CAMPAIGN_TOPOLOGY] = SL_CAUSES_ANY,
    [SL_CAMPAIGN_RESTART] = SL_CAUSES_ANY,
};

static sl_status open_ladder(play *p) {
    sl_strategy strategy[SL_CAMPAIGN_REMEDIES];
    int count = 0;
    for (int r = 0; r < SL_CAMPAIGN_REMEDIES; r++) {
        if (!(p->remedies & 1u << r))
            continue;
        p->answer[r] = (answer){.play = p, .remedy = (sl_campaign_remedy)r};
        p->of[count] = (sl_campaign_remedy)r;
        strategy[count++] = (sl_strategy){.name = sl_campaign_remedy_names[r],
                                          .causes = causes[r],
                                          .cost = p->c->cost[r],
                                          .undo_cost = p->c->undo[r],
                                          .replaces = r == SL_CAMPAIGN_RESTART,
                                          .remaining = remaining,
                                          .keeping = keeping,
                                          .user = &p->answer[r]};
        if (r <= SL_CAMPAIGN_DELEGATE && p->c->cost[r] <= p->c->ladder.at_once)
            p->follow |= 1u << r;
    }
    return sl_ladder_open(&p->c->ladder, strategy, count, &p->ladder);
}

/* ---- faults ---- */

static int64_t value_now(const play *p) {
    return p->c->by_time ? p->now : p->iteration;
}

static sl_status stop(play *p, const sl_campaign_fault *f) {
    sl_time cost = f->stop >= 0 ? f->stop : p->c->cost[SL_CAMPAIGN_RESTART];
    if (f->is_rail && p->remedies & 1u << SL_CAMPAIGN_DELEGATE)
        cost = p->s->setup[p->setup].delegated ? 0 : p->c->cost[SL_CAMPAIGN_DELEGATE];
    p->row->stops++;
    return pause_for(p, cost);
}

static sl_status begin_faults(play *p) {
    for (; p->next < p->c->faults && p->c->fault[p->next].first <= value_now(p); p->next++) {
        const sl_campaign_fault *f = &p->c->fault[p->next];
        if (f->kind == SL_FAULT_STOP) {
            SL_TRY(stop(p, f));
        } else if (f->until > value_now(p)) {
            SL_TRY(sl_grow(&p->live, &p->live_room, p->lives + 1, sizeof *p->live));
            p->live[p->lives++] = (live){.fault = (int)p->next, .state = SLOW, .since = p->iteration};
        }
    }
    return SL_OK;
}

/* What ended: unnoticed ones are gone, of noticed ones the ladder hears later. */
static void end_faults(play *p) {
    size_t kept = 0;
    for (size_t i = 0; i < p->lives; i++) {
        live *l = &p->live[i];
        if (l->state != WELL && p->c->fault[l->fault].until <= value_now(p)) {
            if (l->state == SLOW || !p->ladder)
                continue;
            l->state = WELL;
            l->since = p->iteration;
        }
        p->live[kept++] = *l;
    }
    p->lives = kept;
}

static int by_number(const void *a, const void *b) {
    return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

static sl_status number_world(play *p, int as_believed, int *world) {
    int count = 0;
    SL_TRY(sl_grow(&p->faults, &p->fault_room, p->lives + 1, sizeof *p->faults));
    for (size_t i = 0; i < p->lives; i++)
        if (p->live[i].state != (as_believed ? SLOW : WELL))
            p->faults[count++] = p->live[i].fault;
    if (count)
        qsort(p->faults, (size_t)count, sizeof *p->faults, by_number);
    return sl_simulation_world(p->s, p->faults, count, world);
}

static sl_status loss_of(play *p, int fault, double *loss) {
    return sl_simulation_loss(p->s, p->setup, p->believed, fault, p->healthy, loss);
}

static sl_status begin_incident(play *p, live *l) {
    const sl_campaign_fault *f = &p->c->fault[l->fault];
    sl_incident incident = {.id = l->fault, .cause = f->cause};
    if (p->c->by_time)
        sl_text_format(incident.seen, sizeof incident.seen, "%.70s, since %.7g s", f->seen,
                       (double)f->first / 1e9);
    else
        sl_text_format(incident.seen, sizeof incident.seen, "%.66s, since iteration %d", f->seen,
                       (int)f->first);
    SL_TRY(loss_of(p, l->fault, &incident.loss));
    l->told = incident.loss;
    SL_TRY(sl_ladder_begins(p->ladder, p->now, &incident));
    return p->status;
}

/* What has been so for `notice` iterations is news; what is over leaves the list, into faults[]. */
static sl_status sort_news(play *p, int *begun, int *over) {
    size_t kept = 0;
    *begun = *over = 0;
    SL_TRY(sl_grow(&p->over, &p->over_room, p->lives + 1, sizeof *p->over));
    for (size_t i = 0; i < p->lives; i++) {
        live *l = &p->live[i];
        int is_news = l->state != NOTICED && p->iteration - l->since >= p->c->notice;
        if (is_news && l->state == WELL) {
            p->over[(*over)++] = l->fault;
            continue;
        }
        if (is_news) {
            l->state = NOTICED;
            l->told = UNTOLD;
            *begun = 1;
        }
        p->live[kept++] = *l;
    }
    p->lives = kept;
    return SL_OK;
}

/* Whoever is told first hears of a world in which all that is new has happened. */
static sl_status tell_news(play *p) {
    int begun, over;
    SL_TRY(sort_news(p, &begun, &over));
    if (!begun && !over)
        return SL_OK;
    SL_TRY(number_world(p, 1, &p->believed));
    for (int i = 0; i < over; i++)
        SL_TRY(sl_ladder_relieved(p->ladder, p->now, p->over[i]));
    for (size_t i = 0; i < p->lives; i++)
        if (p->live[i].state == NOTICED && p->live[i].told == UNTOLD)
            SL_TRY(begin_incident(p, &p->live[i]));
    return p->status;
}

/* What each noticed fault costs now, where that is another number than was told. */
static sl_status tell_losses(play *p) {
    for (size_t i = 0; i < p->lives; i++) {
        live *l = &p->live[i];
        double loss;
        if (l->state == SLOW)
            continue;
        SL_TRY(loss_of(p, l->fault, &loss));
        if (fabs(loss - l->told) <= 1e-12)
            continue;
        l->told = loss;
        SL_TRY(sl_ladder_changes(p->ladder, p->now, l->fault, loss));
        SL_TRY(p->status);
    }
    return SL_OK;
}

/* ---- actions ---- */

/* What was applied tells what it brought, even where that is what was foretold. */
static void forget_told(play *p, const sl_action *action) {
    for (size_t i = 0; i < p->lives; i++)
        for (int k = 0; k < action->count; k++)
            if (p->live[i].fault == action->incidents[k])
                p->live[i].told = CHANGED;
}

static sl_status act(play *p, const sl_action *action) {
    sl_time cost;
    int next;
    sl_campaign_remedy remedy = p->of[action->strategy];
    forget_told(p, action);
    if (action->kind == SL_ACTION_APPLY) {
        SL_TRY(sl_simulation_apply(p->s, p->setup, p->believed, remedy, p->follow, &next, &cost));
        p->row->applied[remedy]++;
    } else {
        SL_TRY(sl_simulation_undo(p->s, p->setup, p->believed, remedy, &next));
        cost = p->c->undo[remedy];
        p->row->undone++;
    }
    p->setup = next;
    SL_TRY(pause_for(p, cost));
    SL_TRY(sl_ladder_ended(p->ladder, p->now, cost, 1));
    SL_TRY(p->status);
    return tell_losses(p);
}

static sl_status follow_ladder(play *p) {
    SL_TRY(tell_losses(p));
    for (int i = 0; i < MOST_ACTIONS; i++) {
        sl_action action;
        SL_TRY(sl_ladder_next(p->ladder, p->now, &action));
        if (action.kind == SL_ACTION_NONE)
            return SL_OK;
        if (action.kind == SL_ACTION_PROFILE)
            SL_TRY(pause_for(p, p->c->profile));
        else
            SL_TRY(act(p, &action));
    }
    return sl_error(SL_ESYS, "the ladder asked for %d actions at iteration %d", MOST_ACTIONS, p->iteration);
}

/* ---- iterations ---- */

/* Iterations of `each` until a value (iteration or ns) is reached; at least 1. */
static void until_value(const play *p, int64_t value, sl_time each, int64_t *most) {
    int64_t left = value - value_now(p);
    if (p->c->by_time)
        left = left / each + (left % each != 0);
    if (left < *most)
        *most = left < 1 ? 1 : left;
}

static int64_t alike(const play *p, sl_time each) {
    int64_t most = p->c->iterations - p->iteration;
    if (p->next < p->c->faults)
        until_value(p, p->c->fault[p->next].first, each, &most);
    for (size_t i = 0; i < p->lives; i++) {
        const live *l = &p->live[i];
        if (l->state != WELL && p->c->fault[l->fault].until != SL_FAULT_LASTS)
            until_value(p, p->c->fault[l->fault].until, each, &most);
        int64_t left = (int64_t)l->since + p->c->notice - p->iteration;
        if (l->state != NOTICED && p->ladder && left < most)
            most = left < 1 ? 1 : left;
    }
    sl_time due = p->ladder ? sl_ladder_due(p->ladder) : SL_TIME_NEVER;
    if (due != SL_TIME_NEVER) {
        int64_t left = due > p->now ? (due - p->now) / each + ((due - p->now) % each != 0) : 1;
        most = left < most ? (left < 1 ? 1 : left) : most;
    }
    return most;
}

static sl_status iterate(play *p) {
    sl_time each;
    SL_TRY(number_world(p, 0, &p->world));
    SL_TRY(sl_simulation_time(p->s, p->setup, p->world, &each));
    if (each == SL_TIME_NEVER)
        return sl_error(SL_ENONE, "no schedule fits the memory at iteration %d", p->iteration);
    if (each < 1)
        return sl_error(SL_EINVAL, "an iteration of this job takes no time");
    int64_t count = alike(p, each);
    if (each > (MOST_TIME - p->now) / count)
        return sl_error(SL_EINVAL, "the job would take longer than %g s", (double)MOST_TIME / 1e9);
    SL_TRY(sl_row_add(p->row, p->iteration, (int)count, p->now, each));
    p->row->worst = each > p->row->worst ? each : p->row->worst;
    p->iteration += (int)count;
    p->now += count * each;
    return SL_OK;
}

static sl_status play_all(play *p, int log) {
    int none;
    SL_TRY(sl_simulation_world(p->s, NULL, 0, &none));
    p->world = p->believed = none;
    SL_TRY(sl_simulation_time(p->s, 0, none, &p->healthy));
    if (p->remedies)
        SL_TRY(open_ladder(p));
    while (p->iteration < p->c->iterations) {
        SL_TRY(begin_faults(p));
        end_faults(p);
        if (p->ladder) {
            SL_TRY(tell_news(p));
            SL_TRY(follow_ladder(p));
        }
        if (p->ladder && !log)
            sl_ladder_clear_log(p->ladder);
        SL_TRY(iterate(p));
    }
    p->row->total = p->now;
    return SL_OK;
}

static sl_status write_log(const play *p) {
    size_t size;
    char *text = NULL;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for the log");
    sl_ladder_log_print(p->ladder, out);
    sl_status status = fclose(out) == 0 ? sl_copy_text(&p->row->log, text)
                                        : sl_error(SL_ENOMEM, "out of memory for the log");
    free(text);
    return status;
}

sl_status sl_campaign_play(sl_simulation *s, const char *name, unsigned remedies, int first, int log,
                           sl_campaign_row *row) {
    play p = {.s = s, .c = s->campaign, .row = row, .remedies = remedies, .setup = first};
    snprintf(row->name, sizeof row->name, "%s", name);
    sl_status status = play_all(&p, log);
    if (status == SL_OK && log && p.ladder)
        status = write_log(&p);
    sl_ladder_close(p.ladder);
    sl_free(p.live);
    sl_free(p.faults);
    sl_free(p.over);
    return status;
}
