#include "adapt/orchestrator/history_inside.h"
#include "base/memory.h"

#include <string.h>

sl_status sl_history_open(int replicas, int ranks, int hold, sl_history *s) {
    *s = (sl_history){.replicas = replicas, .ranks = ranks, .hold = hold};
    SL_TRY(sl_alloc(&s->suspected, (size_t)replicas * (size_t)ranks, sizeof *s->suspected));
    SL_TRY(sl_alloc(&s->room, 2 * SL_ROWS, sizeof *s->room));
    SL_TRY(sl_alloc(&s->healthy, (size_t)replicas, sizeof *s->healthy));
    for (int r = 0; r < replicas; r++)
        s->healthy[r].as = r;
    for (int i = 0; i < SL_ROWS; i++) {
        SL_TRY(sl_alloc(&s->row[i].replica, (size_t)replicas, sizeof(sl_measured *)));
        SL_TRY(sl_alloc(&s->row[i].common, (size_t)replicas, sizeof *s->row[i].common));
    }
    return SL_OK;
}

void sl_baseline_clear(sl_baseline *b) {
    sl_measured_drop(b->same);
    sl_problem_free(&b->problem);
    sl_free(b->op);
    sl_free(b->link);
    sl_free(b->sum);
    *b = (sl_baseline){.as = b->as};
}

void sl_history_close(sl_history *s) {
    for (int i = 0; i < SL_ROWS; i++) {
        for (int r = 0; s->row[i].replica && r < s->replicas; r++)
            sl_measured_drop(s->row[i].replica[r]);
        sl_free(s->row[i].replica);
        sl_free(s->row[i].common);
    }
    for (int r = 0; s->healthy && r < s->replicas; r++)
        sl_baseline_clear(&s->healthy[r]);
    sl_free(s->healthy);
    sl_free(s->suspected);
    sl_free(s->room);
    *s = (sl_history){0};
}

/* The total work of a replica's ops; 0: not known of each. W is left out, as a backward in one piece or in
 * two is the same work. */
static double work_of(const sl_measured *m) {
    double sum = 0;
    for (int at = 0; m && at < SL_OP_KINDS * m->problem.stages; at++) {
        if (m->op[at].worked != m->op[at].count)
            return 0;
        sum += at / m->problem.stages == SL_W ? 0 : m->op[at].work * m->op[at].worked;
    }
    return sum;
}

/* If an iteration's work was not given, that of the replica with the most. */
static double max_work(const sl_orchestrator_iteration *it, int replicas) {
    double most = 0;
    for (int r = 0; it->replica && r < replicas; r++)
        if (it->replica[r] && (r == 0 || it->replica[r] != it->replica[r - 1]))
            most = fmax(most, work_of(it->replica[r]));
    return most;
}

static void number_version(sl_history *s, sl_row *row) {
    const sl_row *before = s->rows > 0 ? sl_history_row(s, s->rows - 1) : NULL;
    size_t size = (size_t)s->replicas * sizeof *row->replica;
    if (before && memcmp(before->replica, row->replica, size) == 0) {
        row->version = before->version;
        row->complete = before->complete;
        return;
    }
    row->version = ++s->versions;
    row->complete = 1;
    for (int r = 0; r < s->replicas; r++)
        row->complete &= row->replica[r] != NULL;
}

sl_status sl_history_add(sl_history *s, const sl_orchestrator_iteration *it) {
    sl_row *row = sl_history_row(s, s->rows);
    row->iteration = it->iteration;
    row->slow = row->named = 0;
    row->time = it->time;
    row->clock_error = it->clock_error;
    row->work = it->work > 0 ? it->work : max_work(it, s->replicas);
    for (int r = 0; r < s->replicas; r++) {
        sl_measured *next = it->replica ? sl_measured_keep(it->replica[r]) : NULL;
        sl_measured_drop(row->replica[r]);
        row->replica[r] = next;
        row->common[r] = 0;
    }
    number_version(s, row);
    s->rows++;
    sl_loads_add(&s->loads, row->work, (double)row->time);
    return SL_OK;
}

int sl_history_collect(const sl_history *s, int first, int last, int most, int healthy, int *rows) {
    int n = 0, oldest = sl_history_oldest(s);
    first = first > oldest ? first : oldest;
    for (int i = last - 1; i >= first && n < most; i--)
        if (!healthy || !s->row[i % SL_ROWS].slow)
            rows[n++] = i;
    for (int i = 0; i < n / 2; i++) {
        int swap = rows[i];
        rows[i] = rows[n - 1 - i];
        rows[n - 1 - i] = swap;
    }
    return n;
}

int sl_history_unnamed(const sl_history *s, int most, int *rows) {
    int n = 0, all = sl_history_collect(s, 0, s->rows, most, 0, rows);
    for (int i = 0; i < all; i++)
        if (!s->row[rows[i] % SL_ROWS].named)
            rows[n++] = rows[i];
    return n;
}

void sl_history_untimed(sl_history *s) {
    for (int i = 0; i < SL_ROWS; i++)
        s->row[i].time = 0;
    s->iteration = (sl_usual){0};
}

static int is_measured(const sl_history *s, int row) {
    int replica = 0;
    while (replica < s->replicas && !s->row[row % SL_ROWS].replica[replica])
        replica++;
    return replica < s->replicas;
}

int sl_history_latest(const sl_history *s, int first, int last, int most, int *rows) {
    int found = 0, count = sl_history_collect(s, first, last, SL_ROWS, 0, rows);
    for (int i = count - 1; i >= 0 && found < most; i--)
        if (is_measured(s, rows[i]))
            rows[count - 1 - found++] = rows[i];
    memmove(rows, rows + count - found, (size_t)found * sizeof *rows);
    return found;
}

void sl_history_moved(sl_history *s) {
    s->since = s->quiet = s->rows;
}

int sl_history_distinct(const sl_history *s, const int *rows, int count, int *distinct) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        int version = s->row[rows[i] % SL_ROWS].version, known = 0;
        for (int k = 0; k < found && !known; k++)
            known = s->row[distinct[k] % SL_ROWS].version == version;
        if (!known)
            distinct[found++] = rows[i];
    }
    return found;
}

int sl_history_repeats(const sl_history *s, int count) {
    const sl_row *last = &s->row[(s->rows - 1) % SL_ROWS];
    if (count > s->rows || count > SL_ROWS || !last->complete)
        return 0;
    for (int i = s->rows - count; i < s->rows; i++)
        if (s->row[i % SL_ROWS].version != last->version)
            return 0;
    return 1;
}

int sl_history_alike(const sl_history *s, const int *rows, int count, int replica, int other) {
    for (int i = 0; i < count; i++) {
        sl_measured *const *row = s->row[rows[i] % SL_ROWS].replica;
        if (row[replica] != row[other] || !row[replica])
            return 0;
    }
    return count > 0;
}

const sl_problem *sl_history_healthy(const sl_history *s, int replica) {
    const sl_baseline *b = sl_history_baseline(s, replica);
    return !s->learnt ? NULL : b->same ? &b->same->problem : b->op ? &b->problem : NULL;
}

sl_measured *sl_history_same(const sl_history *s, const int *rows, int count, int replica) {
    sl_measured *same = count ? s->row[rows[0] % SL_ROWS].replica[replica] : NULL;
    for (int i = 1; i < count && same; i++)
        if (s->row[rows[i] % SL_ROWS].replica[replica] != same)
            return NULL;
    return same;
}

int sl_history_rows_of(const sl_history *s, int replica, int most, int *rows) {
    int n = 0, first = sl_history_oldest(s);
    first = first > s->since ? first : s->since;
    for (int i = s->rows - 1; i >= first && n < most; i--)
        if (s->row[i % SL_ROWS].replica[replica])
            rows[n++] = i;
    return n;
}

int sl_history_saw(const sl_history *s, int replica, int count, int kind, int stage) {
    int rows[SL_ROWS], found = sl_history_rows_of(s, replica, count < SL_ROWS ? count : SL_ROWS, rows),
                       saw = 0;
    for (int i = 0; i < found; i++)
        saw |= sl_measured_saw(s->row[rows[i] % SL_ROWS].replica[replica], kind, stage);
    return saw;
}

int sl_history_measured(const sl_history *s, int replica, int most) {
    int rows[SL_ROWS];
    return sl_history_rows_of(s, replica, most < SL_ROWS ? most : SL_ROWS, rows);
}
