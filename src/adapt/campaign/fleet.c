#include "adapt/campaign/fleet.h"
#include "base/memory.h"
#include "base/numbers.h"

#include <math.h>
#include <string.h>

const sl_fleet_strategy sl_fleet_strategies[SL_FLEET_STRATEGIES] = {
    {"wait", 0, 0, 0},   {"spares", 1, 0, 0},       {"check", 1, 1, 0},
    {"notice", 1, 0, 1}, {"check+notice", 1, 1, 1},
};

enum { SPARES = 1, BOTH = 4 }; /* of these */

double sl_fleet_young(double save, double mean) {
    return sqrt(2 * save * mean);
}

double sl_fleet_daly(double save, double mean) {
    const double part = save / (2 * mean);
    if (part >= 1)
        return mean;
    return sqrt(2 * save * mean) * (1 + sqrt(part) / 3 + part / 9) - save;
}

void sl_fleet_free(sl_fleet *f) {
    for (size_t i = 0; i < f->words; i++)
        sl_free(f->word[i].word);
    SL_FREE(f->fault, f->cause, f->word);
    *f = (sl_fleet){0};
}

/* ---- runs ---- */

/* The faults of every run, drawn once for all strategies and variations. */
typedef struct fleet_runs {
    sl_fleet_fault **fault; /* [runs] */
    size_t *faults;
    long long changes;
} fleet_runs;

static sl_status draw_runs(const sl_fleet *f, fleet_runs *r) {
    SL_TRY(sl_alloc(&r->fault, (size_t)f->runs, sizeof *r->fault));
    SL_TRY(sl_alloc(&r->faults, (size_t)f->runs, sizeof *r->faults));
    size_t all = 0;
    for (int i = 0; i < f->runs; i++) {
        SL_TRY(sl_fleet_draw(f, i, &r->fault[i], &r->faults[i]));
        all += r->faults[i];
        if (all > 20 * (size_t)SL_FLEET_FAULTS)
            return sl_error(SL_EINVAL, "fleet: %d runs have more than %d faults together", f->runs,
                            20 * SL_FLEET_FAULTS);
    }
    return SL_OK;
}

static void free_runs(const sl_fleet *f, fleet_runs *r) {
    for (int i = 0; i < f->runs && r->fault; i++)
        sl_free(r->fault[i]);
    SL_FREE(r->fault, r->faults);
}

static void add_outcome(sl_fleet_row *row, const sl_fleet_outcome *o, int runs, double *squares) {
    const double wall = (double)o->wall, share = (double)o->part[SL_FLEET_USEFUL] / wall;
    for (int i = 0; i < SL_FLEET_PARTS; i++)
        row->part[i] += (double)o->part[i] / wall / runs;
    *squares += share * share / runs;
    row->wall += wall / runs;
    row->stops += (double)o->stops / runs;
    row->starts += (double)o->starts / runs;
    row->replaced += (double)o->replaced / runs;
    row->done += o->is_done;
}

static sl_status play_row(const sl_fleet *f, int strategy, fleet_runs *r, sl_fleet_row *row) {
    double squares = 0;
    *row = (sl_fleet_row){.name = sl_fleet_strategies[strategy].name};
    for (int i = 0; i < f->runs; i++) {
        sl_fleet_outcome outcome;
        SL_TRY(sl_fleet_play(f, &sl_fleet_strategies[strategy], i, r->fault[i], r->faults[i], &outcome));
        add_outcome(row, &outcome, f->runs, &squares);
        r->changes += 2 * (long long)r->faults[i];
    }
    if (f->runs > 1)
        row->error = 2 * sqrt(fmax(0, squares - row->part[0] * row->part[0]) / (f->runs - 1));
    return SL_OK;
}

static sl_status play_point(const sl_fleet *f, fleet_runs *r, sl_fleet_point *point) {
    sl_fleet_row row;
    point->spares = f->spares;
    point->every = f->every;
    for (int i = 0; i < SL_FLEET_STRATEGIES; i++) {
        SL_TRY(play_row(f, i, r, &row));
        point->goodput[i] = row.part[SL_FLEET_USEFUL];
        point->error[i] = row.error;
    }
    return SL_OK;
}

/* ---- the checkpoint interval ---- */

/* A provisional interval does for the time between stops, which hardly depends on it. */
static sl_status find_interval(sl_fleet *f, fleet_runs *r, sl_fleet_result *result) {
    const sl_time given = f->every;
    sl_fleet_row row;
    if (!given)
        f->every = 3600 * SL_SECOND;
    SL_TRY(play_row(f, SPARES, r, &row));
    if (row.stops > 0)
        result->between_stops = row.wall * (1 - row.part[SL_FLEET_WAITING]) / row.stops;
    if (row.stops > 0 && f->save > 0 && result->between_stops > 0) {
        result->young = (sl_time)sl_fleet_young((double)f->save, result->between_stops);
        result->daly = (sl_time)sl_fleet_daly((double)f->save, result->between_stops);
    }
    if (!given)
        f->every = result->daly ? sl_later(result->daly, 1) : f->save ? f->duration : 60 * SL_SECOND;
    result->every = f->every;
    return SL_OK;
}

static int add_interval(sl_time *list, int count, double every) {
    if (count == SL_FLEET_POINTS || every < 1 || every > 1e18)
        return count;
    int at = count;
    for (; at > 0 && list[at - 1] > (sl_time)every; at--)
        list[at] = list[at - 1];
    list[at] = (sl_time)every;
    return count + 1;
}

/* Those of the file; else Young's, Daly's, and from an eighth of it to eight times as long. */
static int list_intervals(const sl_fleet *f, const sl_fleet_result *result, sl_time *list) {
    int count = 0;
    for (int i = 0; i < f->every_points; i++)
        count = add_interval(list, count, (double)f->try_every[i]);
    if (f->every_points || !result->daly)
        return count;
    for (double factor = 0.125; factor <= 8; factor *= 2)
        count = add_interval(list, count, (double)result->daly * factor);
    return result->young == result->daly ? count : add_interval(list, count, (double)result->young);
}

static sl_status vary_interval(const sl_fleet *f, fleet_runs *r, sl_fleet_result *result) {
    sl_time list[SL_FLEET_POINTS];
    const int count = list_intervals(f, result, list);
    for (int i = 0; i < count; i++) {
        sl_fleet one = *f;
        one.every = list[i];
        SL_TRY(play_point(&one, r, &result->interval[i]));
        if (result->interval[i].goodput[BOTH] > result->interval[result->best_interval].goodput[BOTH])
            result->best_interval = i;
    }
    result->intervals = count;
    return SL_OK;
}

/* ---- spares ---- */

/* Those of the file; else none, one, and by half more up to a quarter of the hosts. */
static int list_spares(const sl_fleet *f, int *list) {
    int count = 0;
    for (int i = 0; i < f->spare_points; i++)
        list[count++] = f->try_spares[i];
    if (f->spare_points)
        return count;
    for (int spares = 0; spares <= f->hosts / 4 && count < SL_FLEET_POINTS;
         spares = sl_larger(spares + 1, spares + spares / 2))
        list[count++] = spares;
    return count;
}

static double work_of(const sl_fleet *f, const sl_fleet_point *point) {
    return point->goodput[BOTH] * (f->hosts - point->spares);
}

static sl_status vary_spares(const sl_fleet *f, fleet_runs *r, sl_fleet_result *result) {
    int list[SL_FLEET_POINTS];
    const int count = list_spares(f, list);
    for (int i = 0; i < count; i++) {
        sl_fleet one = *f;
        one.spares = list[i];
        SL_TRY(play_point(&one, r, &result->spare[i]));
        if (work_of(f, &result->spare[i]) > work_of(f, &result->spare[result->best_spares]))
            result->best_spares = i;
    }
    result->spares = count;
    return SL_OK;
}

static sl_status run(sl_fleet *f, fleet_runs *r, sl_fleet_result *result) {
    SL_TRY(draw_runs(f, r));
    SL_TRY(find_interval(f, r, result));
    for (int i = 0; i < SL_FLEET_STRATEGIES; i++)
        SL_TRY(play_row(f, i, r, &result->row[i]));
    SL_TRY(vary_spares(f, r, result));
    return vary_interval(f, r, result);
}

sl_status sl_fleet_run(const sl_fleet *fleet, sl_fleet_result *result) {
    sl_fleet f = *fleet; /* the interval is set here; all else stays the caller's */
    fleet_runs r = {0};
    memset(result, 0, sizeof *result);
    sl_status status = run(&f, &r, result);
    result->changes = r.changes;
    free_runs(&f, &r);
    return status;
}
