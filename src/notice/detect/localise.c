#include "notice/detect/localise.h"
#include "base/memory.h"
#include "notice/detect/change.h"
#include "notice/detect/row.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 48,    /* remembered */
    HEALTHY = 32, /* of them, that are compared with */
    LATEST = 3,   /* that tell whether something is still slow */
    VERDICT = 8,  /* slow iterations after which it is told again */
    AFTER = 12,   /* iterations in which a change of schedule may be what the detector sees */
    COLD = 1      /* first iterations that are no measure */
};

typedef enum state { FINE, SLOW, TOLD } state; /* SLOW: an onset was told; TOLD: its verdict, too */

struct sl_localiser {
    sl_rows shape;
    sl_detector *detector;
    sl_row row[ROWS]; /* by number modulo ROWS */
    int rows;         /* finished, all; the next one is at hand */
    state state;
    int since;     /* row of the onset */
    int quiet;     /* iterations in which nothing was slow any more */
    int changed;   /* row of the last change of schedule; -1 */
    double before; /* ms of the healthy iterations before the onset */
};

static void free_row(sl_row *row) {
    sl_free(row->op);
    sl_free(row->link);
    sl_free(row->rank);
    sl_free(row->came);
    sl_free(row->summed);
}

static sl_status make_row(const sl_rows *s, sl_row *row) {
    size_t replicas = (size_t)s->replicas, stages = (size_t)s->stages, ranks = (size_t)s->ranks;
    SL_TRY(sl_alloc(&row->op, replicas * stages * SL_ROW_KEYS, sizeof *row->op));
    SL_TRY(sl_alloc(&row->link, replicas * ranks * ranks, sizeof *row->link));
    SL_TRY(sl_alloc(&row->rank, replicas * stages, sizeof *row->rank));
    SL_TRY(sl_alloc(&row->came, stages, sizeof *row->came));
    return sl_alloc(&row->summed, stages, sizeof *row->summed);
}

static void clear_row(const sl_rows *s, sl_row *row) {
    size_t replicas = (size_t)s->replicas, stages = (size_t)s->stages, ranks = (size_t)s->ranks;
    memset(row->op, 0, replicas * stages * SL_ROW_KEYS * sizeof *row->op);
    memset(row->link, 0, replicas * ranks * ranks * sizeof *row->link);
    memset(row->rank, 0xff, replicas * stages * sizeof *row->rank);
    memset(row->came, 0, stages * sizeof *row->came);
    memset(row->summed, 0, stages * sizeof *row->summed);
    row->slow = 0;
}

sl_status sl_localiser_open(int ranks, int stages, int replicas, sl_localiser **localiser) {
    sl_localiser *l;
    *localiser = NULL;
    SL_TRY(sl_alloc(&l, 1, sizeof *l));
    l->shape = (sl_rows){.ranks = ranks, .stages = stages, .replicas = replicas};
    l->changed = -1;
    sl_status status = sl_detector_open(SL_CHANGE_BOCD_V, &l->detector);
    for (int i = 0; i < ROWS && status == SL_OK; i++)
        status = make_row(&l->shape, &l->row[i]);
    if (status == SL_OK) {
        clear_row(&l->shape, &l->row[0]);
        *localiser = l;
    } else {
        sl_localiser_close(l);
    }
    return status;
}

void sl_localiser_close(sl_localiser *l) {
    if (!l)
        return;
    for (int i = 0; i < ROWS; i++)
        free_row(&l->row[i]);
    sl_detector_close(l->detector);
    sl_free(l);
}

/* ---- from records to a row ---- */

/* What one entry of a row is made of. */
typedef struct sample {
    int at;
    int part;
    sl_time time;
} sample;

static int order_samples(const void *a, const void *b) {
    const sample *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->time < y->time ? -1 : x->time > y->time;
}

/* Sorted samples of one op: parts of an op count together; of whole ones the longest is left out. */
static sl_level op_level(const sample *s, int count) {
    double sum = 0;
    int whole = 0;
    for (int i = 0; i < count; i++) {
        sum += (double)s[i].time;
        whole += s[i].part == 0;
    }
    if (whole == 0)
        return (sl_level){0};
    if (whole == count && count >= 4)
        return (sl_level){(float)((sum - (double)s[count - 1].time) / (count - 1)), count};
    return (sl_level){(float)(sum / whole), whole};
}

static sl_level link_level(const sample *s, int count) {
    double middle = count % 2 ? (double)s[count / 2].time
                              : ((double)s[count / 2 - 1].time + (double)s[count / 2].time) / 2;
    return (sl_level){(float)middle, count};
}

static void fill(sample *s, int count, sl_level *level, sl_level (*of)(const sample *, int)) {
    if (count > 1)
        qsort(s, (size_t)count, sizeof *s, order_samples);
    for (int first = 0, last; first < count; first = last) {
        for (last = first; last < count && s[last].at == s[first].at; last++)
            ;
        level[s[first].at] = of(s + first, last - first);
    }
}

static int is_sound(const sl_rows *s, const sl_record *r) {
    return r->rank >= 0 && r->rank < s->ranks && r->stage >= 0 && r->stage < s->stages && r->end >= r->start;
}

static void note_reduction(sl_row *row, const sl_record *r) {
    row->came[r->stage] = r->start > row->came[r->stage] ? r->start : row->came[r->stage];
    row->summed[r->stage] = r->end > row->summed[r->stage] ? r->end : row->summed[r->stage];
}

sl_status sl_localiser_add(sl_localiser *l, int replica, const sl_record *record, size_t records) {
    const sl_rows *s = &l->shape;
    sl_row *row = &l->row[l->rows % ROWS];
    sample *op, *sent = NULL;
    int ops = 0, sends = 0;
    if (replica < 0 || replica >= s->replicas)
        return SL_OK;
    SL_TRY(sl_alloc(&op, records, sizeof *op));
    sl_status status = sl_alloc(&sent, records, sizeof *sent);
    for (size_t i = 0; i < records && status == SL_OK; i++) {
        const sl_record *r = &record[i];
        int stage = replica * s->stages + r->stage;
        if (!is_sound(s, r))
            continue;
        if (r->kind == SL_RECORD_OP && r->op < SL_OP_KINDS) {
            row->rank[stage] = r->rank;
            op[ops++] = (sample){.at = stage * SL_ROW_KEYS + 2 * r->op + (r->paired != 0),
                                 .part = r->part,
                                 .time = r->end - r->start};
        } else if (r->kind == SL_RECORD_TRANSFER && r->peer >= 0 && r->peer < s->ranks) {
            sl_time time = r->arrive - r->start;
            sent[sends++] = (sample){.at = (replica * s->ranks + r->rank) * s->ranks + r->peer,
                                     .time = time > 0 ? time : 0};
        } else if (r->kind == SL_RECORD_REDUCE) {
            note_reduction(row, r);
        }
    }
    if (status == SL_OK) {
        fill(op, ops, row->op, op_level);
        fill(sent, sends, row->link, link_level);
    }
    sl_free(op);
    sl_free(sent);
    return status;
}

/* ---- windows ---- */

/* Rows `first` to `last`, exclusive, that are remembered; at most the last `most`, and healthy ones when
 * asked for. */
static int collect(const sl_localiser *l, int first, int last, int most, int healthy, const sl_row **row) {
    int n = 0, oldest = l->rows >= ROWS ? l->rows - ROWS + 1 : 0;
    first = first > oldest ? first : oldest;
    for (int i = last - 1; i >= first && n < most; i--) {
        const sl_row *r = &l->row[i % ROWS];
        if (!healthy || (!r->slow && i >= COLD))
            row[n++] = r;
    }
    for (int i = 0; i < n / 2; i++) {
        const sl_row *swap = row[i];
        row[i] = row[n - 1 - i];
        row[n - 1 - i] = swap;
    }
    return n;
}

static int order_times(const void *a, const void *b) {
    sl_time x = *(const sl_time *)a, y = *(const sl_time *)b;
    return x < y ? -1 : x > y;
}

static double median_ms(const sl_row *const *row, int rows) {
    sl_time time[ROWS];
    if (rows == 0)
        return 0;
    for (int i = 0; i < rows; i++)
        time[i] = row[i]->time;
    qsort(time, (size_t)rows, sizeof *time, order_times);
    return sl_to_ms(time[rows / 2]);
}

/* Rows first to the last one against the healthy ones before `before`. */
static sl_status compare(sl_localiser *l, int first, int before, double clock_error, sl_news *news, char *why,
                         size_t size) {
    const sl_row *now[ROWS], *healthy[ROWS];
    int nows = collect(l, first, l->rows + 1, ROWS, 0, now);
    int healthies = collect(l, 0, before, HEALTHY, 1, healthy);
    news->before = median_ms(healthy, healthies);
    news->after = median_ms(now, nows);
    return sl_locate(&l->shape, now, nows, healthy, healthies, clock_error, news->located, &news->count, why,
                     size);
}

static void say_unknown(sl_news *news, const char *why) {
    news->count = 1;
    news->located[0] = (sl_located){
        .replica = -1, .suspect = {.component = SL_COMPONENT_UNKNOWN, .rank = -1, .from = -1, .to = -1}};
    snprintf(news->located[0].suspect.why, sizeof news->located[0].suspect.why, "%s", why);
}

/* ---- onset, verdict, end ---- */

static void mark_slow(sl_localiser *l, int first) {
    for (int i = first; i <= l->rows; i++)
        if (i > l->rows - ROWS)
            l->row[i % ROWS].slow = 1;
}

/* The first of the latest rows, without a gap, that took a tenth longer than the healthy ones; rows + 1: the
 * latest did not. */
static int rising_since(const sl_localiser *l) {
    const sl_row *healthy[ROWS];
    int n = collect(l, 0, l->rows, HEALTHY, 1, healthy), first = l->rows + 1;
    double level = median_ms(healthy, n);
    while (n > 0 && first - 1 > l->rows - ROWS && first - 1 >= COLD &&
           sl_to_ms(l->row[(first - 1) % ROWS].time) > (1 + SL_CHANGE_LEAST) * level)
        first--;
    return first;
}

static sl_status begin(sl_localiser *l, int first, double clock_error, sl_news *news) {
    char why[192];
    SL_TRY(compare(l, first, first, clock_error, news, why, sizeof why));
    int after_change = l->changed >= 0 && l->rows - l->changed < AFTER;
    int level =
        news->before > 0 && news->after < (1 + SL_CHANGE_LEAST) * news->before; /* it only was faster */
    if (level || (news->count == 0 && after_change))
        return SL_OK;
    if (news->count == 0)
        say_unknown(news, why);
    news->kind = SL_NEWS_ONSET;
    news->first = l->row[first % ROWS].iteration;
    l->before = news->before;
    l->since = first;
    l->state = SLOW;
    l->quiet = 0;
    mark_slow(l, first);
    return SL_OK;
}

/* Whether anything that can be compared is still slow: components, and when none was known, the time. */
static sl_status is_over(sl_localiser *l, double clock_error, int *over) {
    sl_news latest = {0};
    char why[192];
    int first = l->rows + 1 - LATEST;
    *over = 0;
    if (first < l->since)
        return SL_OK;
    SL_TRY(compare(l, first, l->since, clock_error, &latest, why, sizeof why));
    int level = latest.before > 0 && latest.after < (1 + SL_CHANGE_LEAST) * latest.before;
    int after_change = l->changed >= l->since;
    *over = latest.count == 0 && (level || after_change);
    return SL_OK;
}

/* All slow rows of this onset, but for those at its end in which nothing was slow any more. */
static sl_status tell_verdict(sl_localiser *l, int quiet, double clock_error, sl_news *news) {
    char why[192];
    int rows = l->rows;
    l->rows -= quiet;
    sl_status status = compare(l, l->since, l->since, clock_error, news, why, sizeof why);
    l->rows = rows;
    SL_TRY(status);
    if (news->count == 0)
        say_unknown(news, why);
    news->kind = SL_NEWS_VERDICT;
    news->first = l->row[l->since % ROWS].iteration;
    l->state = TOLD;
    return SL_OK;
}

static sl_status follow(sl_localiser *l, double clock_error, sl_news *news) {
    int over;
    mark_slow(l, l->rows);
    SL_TRY(is_over(l, clock_error, &over));
    if (l->state == SLOW && (over || l->rows + 1 - l->since >= VERDICT))
        SL_TRY(tell_verdict(l, over && l->rows + 1 - LATEST > l->since ? LATEST : 0, clock_error, news));
    if (over) {
        l->state = FINE;
        for (int i = l->rows + 1 - LATEST; i <= l->rows; i++)
            l->row[i % ROWS].slow = 0;
    }
    return SL_OK;
}

/* An onset while another is known is news when something else is slow now. */
static sl_status again(sl_localiser *l, int first, double clock_error, sl_news *news) {
    sl_news now = {0};
    char why[192];
    if (first < l->since + LATEST || l->state != TOLD)
        return SL_OK;
    SL_TRY(compare(l, first, l->since, clock_error, &now, why, sizeof why));
    if (now.count == 0)
        return SL_OK;
    *news = now;
    news->kind = SL_NEWS_ONSET;
    news->first = l->row[first % ROWS].iteration;
    l->since = first;
    l->state = SLOW;
    return SL_OK;
}

sl_status sl_localiser_end(sl_localiser *l, int iteration, sl_time time, sl_time clock_error, int changed,
                           int trouble, sl_news *news) {
    sl_row *row = &l->row[l->rows % ROWS];
    sl_change change = {0};
    double error = (double)clock_error;
    *news = (sl_news){0};
    row->iteration = iteration;
    row->time = time;
    l->changed = changed ? l->rows : l->changed;
    int onset = sl_detector_add(l->detector, sl_to_ms(time), &change) && change.kind == SL_CHANGE_ONSET;
    int first = (int)change.index, rising = l->state == FINE && trouble ? rising_since(l) : l->rows + 1;
    if (!onset && rising < l->rows) { /* two at least: one is a spike */
        onset = 1;
        first = rising;
    }
    if (onset && first <= l->rows - ROWS)
        first = l->rows - ROWS + 1;
    sl_status status = SL_OK;
    if (onset && l->state == FINE)
        status = begin(l, first, error, news);
    else if (l->state != FINE)
        status = follow(l, error, news);
    if (status == SL_OK && onset && news->kind == SL_NEWS_NONE && l->state == TOLD)
        status = again(l, first, error, news);
    l->rows++;
    clear_row(&l->shape, &l->row[l->rows % ROWS]);
    return status;
}
