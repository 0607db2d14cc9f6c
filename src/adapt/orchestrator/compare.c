#include "adapt/orchestrator/compare_inside.h"
#include "base/memory.h"
#include "base/numbers.h"

#include <math.h>
#include <string.h>

#define ERRORS 4.0 /* a growth must exceed this many standard errors of the difference */

void sl_slowness_free(sl_slowness *c) {
    sl_free(c->slow);
    sl_free(c->known);
    *c = (sl_slowness){0};
}

sl_usual sl_comparing_norm(const sl_usual *norm, const sl_baseline *b, const sl_level *same) {
    if (!b->same)
        return *norm;
    return (sl_usual){.rows = same->count ? SL_HEALTHY_ROWS : 0,
                      .time = same->time,
                      .usual = same->time,
                      .work = same->work,
                      .slope = -1};
}

/* Values too far apart to be two measurements of one level. */
static int differ(double low, double high, double noise) {
    return high - low > noise && high - low > low / 2;
}

double sl_comparing_level(const sl_comparing *c, const double *values, int count, double noise) {
    double recent[3], sorted[SL_ROWS];
    int alike = 1;
    while (alike < count && values[alike] == values[0])
        alike++;
    if (alike == count)
        return values[0];
    memcpy(sorted, values, (size_t)count * sizeof *values);
    double usual = sl_median_of_numbers(sorted, count);
    if (!c->lately)
        return count <= SL_ROWS_HEALTHY_MIN ? sorted[0] : usual;
    if (count <= 3)
        return count == 2 && differ(sorted[0], sorted[1], noise) ? sorted[1] : usual;
    memcpy(recent, values + count - 3, sizeof recent);
    double now = sl_median_of_numbers(recent, 3), low = fmin(usual, now), high = fmax(usual, now);
    return differ(low, high, noise) ? now : usual;
}

int sl_comparing_rows_needed(const sl_comparing *c) {
    return c->s->hold < SL_ROWS_HEALTHY_MIN ? 1 : SL_ROWS_HEALTHY_MIN;
}

int sl_comparing_rows_wanted(const sl_comparing *c) {
    int few = c->s->hold < SL_ROWS_HEALTHY_MIN ? c->s->hold : SL_ROWS_HEALTHY_MIN;
    return c->lately ? few : c->count < 2 ? 1 : 2;
}

double sl_usual_variance(const sl_usual *n, int count) {
    return 1.57 * n->spread * n->spread * (1.0 / count + 1.0 / n->rows);
}

int sl_latest_take(sl_latest *l, int is_last, double value, double raw) {
    if (is_last)
        l->last = value;
    l->value[SL_ROWS - ++l->count] = value;
    l->raw[SL_ROWS - l->count] = raw;
    return l->count < l->most;
}

int sl_beyond_noise(double growth, double variance) {
    return growth > 0 && growth * growth > ERRORS * ERRORS * variance;
}

sl_status sl_comparing_add(const sl_comparing *c, sl_slow slow) {
    sl_slowness *out = c->out;
    SL_TRY(sl_grow(&out->slow, &out->room, out->count + 1, sizeof *out->slow));
    out->slow[out->count++] = slow;
    return SL_OK;
}

const sl_problem *sl_comparing_shape(const sl_comparing *c, int replica) {
    const sl_baseline *b = sl_history_baseline(c->s, replica);
    const sl_problem *shape = NULL;
    int differs = 0;
    for (int i = 0; i < c->versions; i++) {
        const sl_measured *m = sl_history_row(c->s, c->distinct[i])->replica[replica];
        if (!m)
            continue;
        differs |= m != b->same;
        shape = &m->problem;
    }
    return differs && (b->same || b->op) ? shape : NULL;
}

/* For a replica that does not differ. */
static int is_measured(const sl_comparing *c, int replica) {
    int rows = 0;
    for (int i = 0; i < c->count; i++)
        rows += sl_history_row(c->s, c->rows[i])->replica[replica] != NULL;
    return rows >= sl_comparing_rows_wanted(c) && sl_history_baseline(c->s, replica)->same != NULL;
}

static int is_as_before(const sl_comparing *c, int replica) {
    return replica > 0 && sl_history_baseline(c->s, replica) == sl_history_baseline(c->s, replica - 1) &&
           sl_history_alike(c->s, c->distinct, c->versions, replica, replica - 1);
}

int sl_comparing_both_show(const sl_comparing *c, int suspected, int level, int last) {
    return suspected ? level || (c->lately && last) : level && last;
}

/* Identical replicas of a simulation are examined once. */
static void find_kinds(sl_comparing *c) {
    c->versions = sl_history_distinct(c->s, c->rows, c->count, c->distinct);
    for (int r = 0; r < c->s->replicas; r++) {
        if (is_as_before(c, r)) {
            c->kind[r] = c->kind[r - 1];
        } else if (sl_comparing_shape(c, r)) {
            c->first[c->kinds] = r;
            c->kind[r] = c->kinds++;
        } else {
            c->kind[r] = -1;
        }
        if (c->kind[r] >= 0)
            c->like[c->differing++] = r;
        else
            c->well += sl_history_baseline(c->s, r)->same != NULL;
    }
}

int sl_comparing_latest(const sl_comparing *c) {
    return c->count > c->most ? c->count - c->most : 0;
}

/* What is known of devices in replicas that do not differ. */
static sl_status know_well(sl_comparing *c) {
    sl_slowness *out = c->out;
    size_t ranks = (size_t)c->ranks;
    out->devices = c->well * c->ranks;
    SL_TRY(sl_grow(&out->known, &out->known_room, (size_t)c->s->replicas * ranks, 1));
    for (int r = 0, known = 0; r < c->s->replicas; r++)
        if (c->kind[r] < 0) {
            known = is_as_before(c, r) ? known : is_measured(c, r);
            memset(out->known + (size_t)r * ranks, known, ranks);
        }
    return SL_OK;
}

static sl_status compare_kinds(sl_comparing *c, int stages) {
    size_t kinds = (size_t)c->kinds, ranks = (size_t)c->ranks, count = (size_t)c->count,
           cells = kinds * count * ranks,
           all = 2 * cells + kinds * count + 3 * (size_t)c->s->replicas + 2 * ranks;
    sl_compared_device *devices;
    double *numbers = NULL;
    sl_status status;
    SL_TRY(know_well(c));
    SL_TRY(sl_alloc(&devices, kinds * ranks, sizeof *devices));
    SL_TRY_GOTO(done, status, sl_alloc(&numbers, all, sizeof *numbers));
    c->common = numbers + 2 * cells;
    SL_TRY_GOTO(done, status,
                sl_comparing_devices(c, devices, numbers, numbers + cells, c->common + kinds * count));
    c->out->common = sl_comparing_common_of_job(c);
    SL_TRY_GOTO(done, status, sl_comparing_links(c));
    if (c->s->replicas > 1)
        SL_TRY_GOTO(done, status, sl_comparing_sums(c, stages));
    for (int k = 0; k < c->kinds; k++) {
        size_t first = (size_t)k * count * ranks;
        SL_TRY_GOTO(
            done, status,
            sl_comparing_stages(c, k, devices + (size_t)k * ranks, numbers + first, numbers + cells + first));
    }
done:
    SL_FREE(numbers, devices);
    return status;
}

sl_status sl_compare(sl_history *s, const int *rows, int count, int lately, sl_slowness *out) {
    sl_comparing c = {
        .s = s, .rows = rows, .count = count, .lately = lately, .most = lately ? lately : count, .out = out};
    const sl_problem *shape = NULL;
    size_t replicas = (size_t)s->replicas;
    *out = (sl_slowness){.slow = out->slow,
                         .room = out->room,
                         .known = out->known,
                         .known_room = out->known_room,
                         .common = 1};
    if (out->known_room)
        memset(out->known, 0, out->known_room);
    for (int r = 0; r < s->replicas && !shape; r++)
        shape = sl_history_healthy(s, r);
    if (!shape || !count)
        return SL_OK;
    for (int i = 0; i < count; i++)
        c.clock_error = fmax(c.clock_error, (double)sl_history_row(s, rows[i])->clock_error);
    c.ranks = shape->ranks;
    SL_TRY(sl_alloc(&c.kind, 3 * replicas, sizeof *c.kind));
    c.first = c.kind + replicas;
    c.like = c.first + replicas;
    find_kinds(&c);
    sl_status status = compare_kinds(&c, shape->stages);
    sl_free(c.kind);
    return status;
}

const sl_slow *sl_comparison_device(const sl_slowness *c, int replica, int rank) {
    for (size_t i = 0; i < c->count; i++)
        if (c->slow[i].kind == SL_SLOW_DEVICE && c->slow[i].replica == replica && c->slow[i].rank == rank)
            return &c->slow[i];
    return NULL;
}
