/* From slow rows and healthy ones to suspects. Every level is the median over the rows, so that a few that
 * are neither do no harm. */
#include "base/median.h"
#include "base/memory.h"
#include "notice/detect/call_profile.h"
#include "notice/detect/row.h"

#include <string.h>

#define OP_SHARE 0.1        /* of a typical op: the least delay of a link that counts */
#define LEAST (0.2 * SL_MS) /* what threads that wake late add to a message */
#define USUAL 0.85 /* of the healthy rows: what they stay below is no news, however far from their median */
#define ALIKE 0.25 /* delays that may have one cause */
enum { ROWS_HEALTHY = 3 }; /* fewer tell nothing */

typedef struct device {
    int replica, rank, known, slow;
    double now, healthy, usual, ratio; /* ns of one op of each kind */
    double excess;                     /* ns of all ops of an iteration */
} device;

typedef struct link {
    int replica, from, to, known, slow;
    double now, healthy;
} link;

typedef struct finding {
    const sl_rows *shape;
    const sl_row *const *now, *const *healthy;
    int nows, healthies;
    double clock_error, op; /* op: a typical one's time */
    device *device;         /* [replicas * ranks] */
    link *link;             /* [replicas * ranks * ranks] */
    double *room;           /* [nows + healthies] */
    double usual;           /* of the level that was last taken: what most of its rows stay below */
    sl_located *located;
    int *count;
    char *why;
    size_t size;
} finding;

/* The median of what lies in the room; of few slow rows the least: one of them may be a spike. */
static double level_of(finding *f, int count, int least) {
    double middle = sl_median_of_numbers(f->room, count);
    if (least < ROWS_HEALTHY && count <= ROWS_HEALTHY)
        middle = f->room[0];
    f->usual = f->room[(int)(USUAL * (count - 1))];
    return middle;
}

/* Of one entry over some rows; -1: fewer than `least` have it. */
static double op_level(finding *f, const sl_row *const *row, int rows, int at, int least) {
    int n = 0;
    for (int i = 0; i < rows; i++)
        if (row[i]->op[at].count > 0)
            f->room[n++] = (double)row[i]->op[at].time;
    return n < least || n == 0 ? -1 : level_of(f, n, least);
}

static double link_level(finding *f, const sl_row *const *row, int rows, int at, int least) {
    int n = 0;
    for (int i = 0; i < rows; i++)
        if (row[i]->link[at].count > 0)
            f->room[n++] = (double)row[i]->link[at].time;
    return n < least || n == 0 ? -1 : level_of(f, n, least);
}

static double sum_level(finding *f, const sl_row *const *row, int rows, int stage, int least) {
    int n = 0;
    for (int i = 0; i < rows; i++)
        if (row[i]->summed[stage] > 0)
            f->room[n++] = (double)(row[i]->summed[stage] - row[i]->came[stage]);
    return n < least || n == 0 ? -1 : level_of(f, n, least);
}

static double time_level(const finding *f, const sl_row *const *row, int rows) {
    for (int i = 0; i < rows; i++)
        f->room[i] = (double)row[i]->time;
    return sl_median_of_numbers(f->room, rows);
}

/* ---- measuring ---- */

/* Kinds that ran in both windows, one of each: a new schedule may have others. */
static void measure_devices(finding *f) {
    const sl_rows *s = f->shape;
    double sum = 0;
    int kinds = 0;
    for (int replica = 0; replica < s->replicas; replica++)
        for (int stage = 0; stage < s->stages; stage++) {
            int at = replica * s->stages + stage, rank = f->now[f->nows - 1]->rank[at];
            if (rank < 0)
                continue;
            device *d = &f->device[replica * s->ranks + rank];
            d->replica = replica;
            d->rank = rank;
            for (int key = 0; key < SL_ROW_KEYS; key++) {
                double now = op_level(f, f->now, f->nows, at * SL_ROW_KEYS + key, 1);
                double healthy = op_level(f, f->healthy, f->healthies, at * SL_ROW_KEYS + key, ROWS_HEALTHY);
                if (healthy < 0 || now < 0)
                    continue;
                d->known = 1;
                d->now += now;
                d->healthy += healthy;
                d->usual += f->usual;
                d->excess += f->now[f->nows - 1]->op[at * SL_ROW_KEYS + key].count * (now - healthy);
                sum += healthy;
                kinds++;
            }
        }
    f->op = kinds ? sum / kinds : 0;
    for (int i = 0; i < s->replicas * s->ranks; i++) {
        device *d = &f->device[i];
        d->ratio = d->healthy > 0 ? d->now / d->healthy : 1;
        d->slow = d->known && d->ratio > SL_SUSPECT_LEAST && d->now > d->usual;
    }
}

static void measure_links(finding *f) {
    const sl_rows *s = f->shape;
    double least = OP_SHARE * f->op;
    least = least > LEAST ? least : LEAST;
    least = least > 2 * f->clock_error ? least : 2 * f->clock_error;
    for (int at = 0; at < s->replicas * s->ranks * s->ranks; at++) {
        link *l = &f->link[at];
        l->replica = at / (s->ranks * s->ranks);
        l->from = at / s->ranks % s->ranks;
        l->to = at % s->ranks;
        l->now = link_level(f, f->now, f->nows, at, 1);
        l->healthy = link_level(f, f->healthy, f->healthies, at, ROWS_HEALTHY);
        l->known = l->healthy >= 0 && l->now >= 0;
        l->slow = l->known && l->now - l->healthy > least && l->now > SL_SUSPECT_LEAST * l->healthy &&
                  l->now > f->usual;
    }
}

/* ---- saying ---- */

static sl_suspect *say(finding *f, sl_component component, int replica, double now, double healthy) {
    if (*f->count == SL_LOCATED_MOST)
        return NULL;
    sl_located *l = &f->located[(*f->count)++];
    *l = (sl_located){.replica = replica,
                      .suspect = {.component = component,
                                  .rank = -1,
                                  .from = -1,
                                  .to = -1,
                                  .measured = now / SL_MS,
                                  .expected = healthy / SL_MS}};
    return &l->suspect;
}

static const link *link_at(const finding *f, int replica, int from, int to) {
    return &f->link[(replica * f->shape->ranks + from) * f->shape->ranks + to];
}

static double delay_of(const finding *f, int replica, int a, int b) {
    const link *there = link_at(f, replica, a, b), *back = link_at(f, replica, b, a);
    double most = there->slow ? there->now - there->healthy : 0;
    return back->slow && back->now - back->healthy > most ? back->now - back->healthy : most;
}

static int is_pair(const finding *f, int replica, int a, int b) {
    return link_at(f, replica, a, b)->known || link_at(f, replica, b, a)->known;
}

/* A rank, with how many of its pairs are slow and what their delays are. */
typedef struct around {
    int pairs, slow;
    double least, most;
} around;

static around look_around(const finding *f, int replica, int rank) {
    around a = {0};
    for (int o = 0; o < f->shape->ranks; o++) {
        if (o == rank || !is_pair(f, replica, rank, o))
            continue;
        double delay = delay_of(f, replica, rank, o);
        a.pairs++;
        a.slow += delay > 0;
        a.least = delay > 0 && (a.least <= 0 || delay < a.least) ? delay : a.least;
        a.most = delay > a.most ? delay : a.most;
    }
    return a;
}

/* What takes a rank's processor away holds up all of its messages, too. */
static void say_devices(finding *f) {
    const sl_rows *s = f->shape;
    for (int i = 0; i < s->replicas * s->ranks; i++) {
        const device *d = &f->device[i];
        if (!d->slow)
            continue;
        sl_suspect *suspect = say(f, SL_COMPONENT_DEVICE, d->replica, d->now, d->healthy);
        if (!suspect)
            return;
        suspect->rank = d->rank;
        snprintf(suspect->why, sizeof suspect->why, "its ops take %.2f ms, %.2f ms when healthy",
                 suspect->measured, suspect->expected);
    }
}

static int explained(const finding *f, int replica, int rank) {
    const device *d = &f->device[replica * f->shape->ranks + rank];
    around a = look_around(f, replica, rank);
    return d->slow && a.pairs > 1 && a.slow == a.pairs && a.least > (1 - ALIKE) * a.most;
}

static void say_link(finding *f, int replica, int a, int b) {
    const link *there = link_at(f, replica, a, b), *back = link_at(f, replica, b, a);
    int first = there->slow && (!back->slow || there->now >= back->now);
    const link *l = first ? there : back;
    sl_suspect *suspect = say(f, SL_COMPONENT_LINK, replica, l->now, l->healthy);
    if (!suspect)
        return;
    suspect->from = l->from;
    suspect->to = l->to;
    suspect->both = there->slow && back->slow;
    if (suspect->both && suspect->from > suspect->to) {
        suspect->from = l->to;
        suspect->to = l->from;
    }
    snprintf(suspect->why, sizeof suspect->why, "a message takes %.2f ms, %.2f ms when healthy%s",
             suspect->measured, suspect->expected, suspect->both ? ", in both directions" : "");
}

static void say_unknown(finding *f, int replica, const char *why) {
    sl_suspect *suspect = say(f, SL_COMPONENT_UNKNOWN, replica, 0, 0);
    if (suspect)
        snprintf(suspect->why, sizeof suspect->why, "%s", why);
}

/* The rank that two or more slow links of a replica have in common, all of its own and about as slow: one
 * card or each link, nobody can tell. Three are no chance any more: its host. -1: there is none. */
static int common_rank(const finding *f, int replica, int pairs) {
    for (int rank = 0; rank < f->shape->ranks; rank++) {
        around a = look_around(f, replica, rank);
        if (a.slow == pairs && a.pairs == pairs && pairs > 1 && a.least > (1 - ALIKE) * a.most)
            return rank;
    }
    return -1;
}

static int slow_pairs(const finding *f, int replica) {
    int pairs = 0;
    for (int a = 0; a < f->shape->ranks; a++)
        for (int b = a + 1; b < f->shape->ranks; b++)
            pairs += delay_of(f, replica, a, b) > 0 && !explained(f, replica, a) && !explained(f, replica, b);
    return pairs;
}

static void say_links(finding *f, int replica) {
    int pairs = slow_pairs(f, replica), rank = common_rank(f, replica, pairs);
    char why[192];
    if (rank >= 0 && pairs == 2) {
        snprintf(why, sizeof why,
                 "both links of rank %d are as late: they, or its host or network card; a message takes "
                 "%.2f ms more",
                 rank, look_around(f, replica, rank).most / SL_MS);
        say_unknown(f, replica, why);
        return;
    }
    if (rank >= 0) {
        around a = look_around(f, replica, rank);
        sl_suspect *suspect = say(f, SL_COMPONENT_HOST, replica, 0, 0);
        if (!suspect)
            return;
        suspect->rank = rank;
        snprintf(suspect->why, sizeof suspect->why,
                 "all %d links of this rank are late by %.2f ms and more: its host or its network card",
                 pairs, a.least / SL_MS);
        return;
    }
    for (int a = 0; a < f->shape->ranks; a++)
        for (int b = a + 1; b < f->shape->ranks; b++)
            if (delay_of(f, replica, a, b) > 0 && !explained(f, replica, a) && !explained(f, replica, b))
                say_link(f, replica, a, b);
}

/* Most of what there is: then it is something that they share. */
static int say_shared(finding *f) {
    const sl_rows *s = f->shape;
    int devices = 0, slow_devices = 0, links = 0, slow_links = 0;
    char why[192];
    for (int i = 0; i < s->replicas * s->ranks; i++) {
        devices += f->device[i].known;
        slow_devices += f->device[i].slow;
    }
    for (int i = 0; i < s->replicas * s->ranks * s->ranks; i++) {
        links += f->link[i].known;
        slow_links += f->link[i].slow;
    }
    if (slow_devices > 2 && 2 * slow_devices >= devices)
        snprintf(why, sizeof why, "%d of %d devices are slow: they share what became slow, or the work grew",
                 slow_devices, devices);
    else if (links > 2 && slow_links == links)
        snprintf(why, sizeof why, "all %d links are slow: they share what became slow", links);
    else
        return 0;
    say_unknown(f, -1, why);
    return 1;
}

/* A path through the iteration meets each op and each message at most once, so what became slow cannot cost
 * more than all of it together. When that is less than half of what was lost, something else is slow. */
static void doubt(finding *f, double lost) {
    const sl_rows *s = f->shape;
    const sl_row *last = f->now[f->nows - 1];
    double excess = 0;
    char first[96], why[192];
    for (int i = 0; i < s->replicas * s->ranks; i++)
        excess += f->device[i].slow ? f->device[i].excess : 0;
    for (int i = 0; i < s->replicas * s->ranks * s->ranks; i++)
        excess += f->link[i].slow ? last->link[i].count * (f->link[i].now - f->link[i].healthy) : 0;
    if (*f->count == 0 || excess >= 0.5 * lost)
        return;
    sl_suspect named = f->located[0].suspect;
    named.why[0] = 0;
    sl_suspect_text(&named, first, sizeof first);
    snprintf(why, sizeof why,
             "%s and all else that is slow explains %.2f of the %.2f ms that an iteration lost", first,
             excess / SL_MS, lost / SL_MS);
    *f->count = 0;
    say_unknown(f, -1, why);
}

/* Reductions are told only when nothing else is slow and one explains most of what was lost. */
static void say_reduction(finding *f, double lost) {
    for (int stage = 0; stage < f->shape->stages; stage++) {
        double healthy = sum_level(f, f->healthy, f->healthies, stage, ROWS_HEALTHY);
        double now = sum_level(f, f->now, f->nows, stage, 1);
        if (healthy < 0 || now < SL_SUSPECT_LEAST * healthy || now - healthy < 0.5 * lost ||
            now - healthy < LEAST + 2 * f->clock_error)
            continue;
        sl_suspect *suspect = say(f, SL_COMPONENT_GROUP, -1, now, healthy);
        if (!suspect)
            return;
        suspect->group = (uint64_t)stage;
        snprintf(suspect->why, sizeof suspect->why,
                 "summing stage %d's gradients over the replicas takes %.2f ms, %.2f ms when healthy", stage,
                 suspect->measured, suspect->expected);
    }
}

static void judge(finding *f) {
    double before = time_level(f, f->healthy, f->healthies), after = time_level(f, f->now, f->nows);
    measure_devices(f);
    measure_links(f);
    if (say_shared(f))
        return;
    say_devices(f);
    for (int replica = 0; replica < f->shape->replicas; replica++)
        say_links(f, replica);
    doubt(f, after - before);
    if (*f->count == 0)
        say_reduction(f, after - before);
    if (*f->count == 0)
        snprintf(f->why, f->size,
                 "no op and no message of a rank takes more than %.1f times its healthy time",
                 SL_SUSPECT_LEAST);
}

sl_status sl_locate(const sl_rows *shape, const sl_row *const *now, int nows, const sl_row *const *healthy,
                    int healthies, double clock_error, sl_located *located, int *count, char *why,
                    size_t size) {
    size_t ranks = (size_t)shape->ranks, replicas = (size_t)shape->replicas;
    finding f = {.shape = shape,
                 .now = now,
                 .nows = nows,
                 .healthy = healthy,
                 .healthies = healthies,
                 .clock_error = clock_error,
                 .located = located,
                 .count = count,
                 .why = why,
                 .size = size};
    *count = 0;
    why[0] = 0;
    if (healthies < ROWS_HEALTHY || nows < 1) {
        snprintf(why, size, "only %d healthy iterations came before: nothing to compare with", healthies);
        return SL_OK;
    }
    sl_status status = sl_alloc(&f.device, replicas * ranks, sizeof *f.device);
    if (status == SL_OK)
        status = sl_alloc(&f.link, replicas * ranks * ranks, sizeof *f.link);
    if (status == SL_OK)
        status = sl_alloc(&f.room, (size_t)(nows + healthies), sizeof *f.room);
    if (status == SL_OK)
        judge(&f);
    sl_free(f.device);
    sl_free(f.link);
    sl_free(f.room);
    return status;
}
