/* Making profiles; the files of call_verdict.h compare them. */
#include "notice/detect/call_profile.h"
#include "base/memory.h"
#include "notice/detect/awaited.h"
#include "notice/detect/call_role.h"

#include <stdlib.h>
#include <string.h>

#define BY(x, y)                                                                                             \
    do {                                                                                                     \
        if ((x) != (y))                                                                                      \
            return (x) < (y) ? -1 : 1;                                                                       \
    } while (0)

static void spread_add(sl_spread *s, double value) {
    s->count++;
    s->sum += value;
    s->squares += value * value;
    s->most = value > s->most ? value : s->most;
}

double sl_spread_mean(const sl_spread *s) {
    if (s->count < 4)
        return s->count ? s->sum / (double)s->count : 0;
    return (s->sum - s->most) / (double)(s->count - 1);
}

double sl_spread_error2(const sl_spread *s) {
    double n = (double)(s->count < 4 ? s->count : s->count - 1), mean = sl_spread_mean(s);
    if (n < 2)
        return mean * mean;
    double squares = s->count < 4 ? s->squares : s->squares - s->most * s->most;
    double variance = (squares - n * mean * mean) / (n - 1);
    return variance > 0 ? variance / n : 0;
}

/* The four leading bits of a number of bytes. */
static uint64_t bytes_class(uint64_t bytes) {
    int shift = 0;
    while (bytes >> shift >= 16)
        shift++;
    return bytes >> shift << shift;
}

/* ---- groups ---- */

static int order_group(const sl_call_group *a, const sl_call_group *b) {
    BY(a->call, b->call);
    BY(a->bytes, b->bytes);
    BY(a->message, b->message);
    BY(a->root, b->root);
    BY(a->size, b->size);
    for (int i = 0; i < a->size; i++)
        BY(a->member[i], b->member[i]);
    return 0;
}

static int order_groups(const void *a, const void *b) {
    return order_group(a, b);
}

const sl_call_group *sl_call_group_find(const sl_call_profile *in, const sl_call_group *group) {
    return in->groups ? bsearch(group, in->group, in->groups, sizeof *group, order_groups) : NULL;
}

int sl_call_group_has(const sl_call_group *group, int rank) {
    for (int i = 0; i < group->size; i++)
        if (group->member[i] == rank)
            return 1;
    return 0;
}

static sl_status add_waits(sl_call_group *group, const sl_call_wait *wait, size_t waits) {
    SL_TRY(sl_grow(&group->wait, &group->waits_capacity, group->waits + waits, sizeof *group->wait));
    if (waits > 0)
        memcpy(group->wait + group->waits, wait, waits * sizeof *wait);
    group->waits += waits;
    return SL_OK;
}

/* One meeting as a group of its own. */
static sl_status make_group(const sl_meetings *all, const sl_meeting *m, sl_call_group *group) {
    const sl_meeting_part *part = &all->part[m->part];
    int latest = 0;
    int64_t end = part->end;
    *group = (sl_call_group){.communicator = m->communicator,
                             .bytes = bytes_class(m->bytes),
                             .call = m->call,
                             .root = m->root,
                             .message = m->message,
                             .size = m->size};
    SL_TRY(sl_alloc(&group->member, 2 * (size_t)m->size, sizeof *group->member));
    group->last = group->member + m->size;
    for (int i = 0; i < m->size; i++) {
        group->member[i] = part[i].rank;
        latest = part[i].start > part[latest].start ? i : latest;
        end = part[i].end > end ? part[i].end : end;
    }
    group->last[latest] = 1;
    int whole;
    int64_t time = sl_meeting_transfer(all, m, &whole);
    if (time >= 0)
        spread_add(whole ? &group->transfer : &group->exposed, (double)time);
    spread_add(&group->within, (double)(end - part[latest].start));
    const sl_call_wait wait = {.received = part[1].wait, .sent = part[0].wait, .time = time > 0 ? time : 0};
    return m->message ? add_waits(group, &wait, 1) : SL_OK;
}

static void free_group(sl_call_group *group) {
    SL_FREE(group->member, group->wait);
    *group = (sl_call_group){0};
}

/* On error `from` is as it was. */
static sl_status merge_group(sl_call_group *into, sl_call_group *from) {
    SL_TRY(add_waits(into, from->wait, from->waits));
    for (int i = 0; i < into->size; i++)
        into->last[i] += from->last[i];
    if (from->transfer.count)
        spread_add(&into->transfer, from->transfer.sum);
    else if (from->exposed.count)
        spread_add(&into->exposed, from->exposed.sum);
    spread_add(&into->within, from->within.sum);
    free_group(from);
    return SL_OK;
}

static sl_status make_groups(const sl_meetings *all, sl_call_profile *p) {
    SL_TRY(sl_alloc(&p->group, all->meetings, sizeof *p->group));
    for (size_t i = 0; i < all->meetings; i++) {
        sl_call_group *group = &p->group[p->groups++]; /* to be freed on error, too */
        SL_TRY(make_group(all, &all->meeting[i], group));
    }
    if (p->groups == 0)
        return SL_OK;
    qsort(p->group, p->groups, sizeof *p->group, order_groups);
    size_t kept = 1;
    for (size_t i = 1; i < p->groups; i++)
        if (order_group(&p->group[kept - 1], &p->group[i]) == 0) {
            SL_TRY(merge_group(&p->group[kept - 1], &p->group[i]));
        } else {
            sl_call_group moved = p->group[i];
            p->group[i] = (sl_call_group){0};
            p->group[kept++] = moved;
        }
    p->groups = kept;
    p->waits = all->waits;
    return SL_OK;
}

static void note_members(const sl_meetings *all, sl_call_profile *p) {
    for (size_t i = 0; i < all->meetings; i++)
        for (int m = 0; m < all->meeting[i].size; m++) {
            const sl_meeting_part *part = &all->part[all->meeting[i].part + (size_t)m];
            p->rank[part->rank].messages |=
                all->meeting[i].message && !sl_call_is_proxy(all->meeting[i].call);
        }
}

/* ---- computing ---- */

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdull;
    return x ^ x >> 32;
}

/* A wait's tag is how many requests it completed; Test calls come as often as they like. */
static uint64_t name_of(const sl_call *c) {
    return mix(mix(c->call, c->communicator), (uint64_t)(uint32_t)c->peer);
}

static int order_calls(const void *a, const void *b) {
    const sl_call *x = a, *y = b;
    BY(x->rank, y->rank);
    BY(x->thread, y->thread);
    BY(x->start, y->start);
    BY(x->end, y->end);
    return 0;
}

static int order_gaps(const void *a, const void *b) {
    const sl_call_gap *x = a, *y = b;
    BY(x->before, y->before);
    BY(x->after, y->after);
    BY(x->blurred, y->blurred);
    BY(x->bytes, y->bytes);
    return 0;
}

static int order_volumes(const void *a, const void *b) {
    const sl_call_volume *x = a, *y = b;
    BY(x->call, y->call);
    return 0;
}

static void merge_gaps(sl_call_rank *r) {
    size_t kept = 0;
    qsort(r->gap, r->gaps, sizeof *r->gap, order_gaps);
    for (size_t i = 0; i < r->gaps; i++)
        if (kept > 0 && order_gaps(&r->gap[kept - 1], &r->gap[i]) == 0)
            spread_add(&r->gap[kept - 1].time, r->gap[i].time.sum);
        else
            r->gap[kept++] = r->gap[i];
    r->gaps = kept;
}

static void merge_volumes(sl_call_rank *r) {
    size_t kept = 0;
    qsort(r->volume, r->volumes, sizeof *r->volume, order_volumes);
    for (size_t i = 0; i < r->volumes; i++)
        if (kept > 0 && r->volume[kept - 1].call == r->volume[i].call) {
            r->volume[kept - 1].bytes += r->volume[i].bytes;
            r->volume[kept - 1].count += r->volume[i].count;
        } else {
            r->volume[kept++] = r->volume[i];
        }
    r->volumes = kept;
}

/* Not the order, for windows begin anywhere: each kind of call with its bytes once. */
static uint64_t kind_of(const sl_call *c, size_t calls) {
    uint64_t seen[256], kind = 0;
    int kinds = 0;
    for (size_t i = 0; i < calls; i++) {
        uint64_t name = mix(c[i].call, bytes_class(c[i].bytes));
        int known = 0;
        for (int k = 0; k < kinds && !known; k++)
            known = seen[k] == name;
        if (known || kinds == 256)
            continue;
        seen[kinds++] = name;
        kind ^= mix(name, 1);
    }
    return kind;
}

/* Calls of one thread of a rank, in order. `computes`: what is between them is computing. */
static sl_status make_rank(const sl_call *c, size_t calls, int computes, sl_call_rank *r) {
    SL_TRY(sl_alloc(&r->gap, calls, sizeof *r->gap));
    SL_TRY(sl_alloc(&r->volume, calls, sizeof *r->volume));
    int64_t end = c[0].end;
    for (size_t i = 0; i < calls; i++) {
        if (c[i].bytes > 0)
            r->volume[r->volumes++] =
                (sl_call_volume){.call = name_of(&c[i]), .bytes = (double)c[i].bytes, .count = 1};
        if (i > 0 && !computes)
            end = c[i].end > end ? c[i].end : end;
        if (i == 0 || !computes)
            continue;
        double time = c[i].start > end ? (double)(c[i].start - end) : 0;
        sl_call_gap gap = {.before = name_of(&c[i - 1]),
                           .after = name_of(&c[i]),
                           .bytes = bytes_class(c[i].bytes ? c[i].bytes : c[i - 1].bytes),
                           .blurred = sl_call_role_of(c[i].call) == SL_ROLE_TEST && c[i].start == c[i].end};
        spread_add(&gap.time, time);
        r->gap[r->gaps++] = gap;
        *(gap.blurred ? &r->blurred : &r->computing) += time;
        end = c[i].end > end ? c[i].end : end;
    }
    r->span = (double)(end - c[0].start);
    r->first[0] = c[0].start;
    r->first[1] = c[0].end;
    r->kind = kind_of(c, calls);
    merge_gaps(r);
    merge_volumes(r);
    return SL_OK;
}

/* What a rank's device did, if its NCCL calls were timed there: the host enqueues them ahead. */
static int is_on_device(const sl_call *c) {
    return c->kind == SL_RECORD_COMPLETION && c->device >= 0 && sl_call_is_nccl(c->call) &&
           !sl_call_is_proxy(c->call) && sl_call_role_of(c->call) != SL_ROLE_OTHER;
}

/* By which calls a rank's computing is measured. */
typedef enum measured_by { BY_HOST, BY_DEVICE, BY_NOTHING } measured_by;

/* By the calls of its device, if there are any. If only NCCL's messages were timed (its versions
 * before 2.25), nothing shows when its device computed. */
static void find_measures(const sl_call *call, size_t calls, int ranks, char *by) {
    for (size_t i = 0; i < calls; i++)
        if (call[i].rank < 0 || call[i].rank >= ranks)
            continue;
        else if (is_on_device(&call[i]))
            by[call[i].rank] = BY_DEVICE;
        else if (sl_call_is_proxy(call[i].call) && by[call[i].rank] == BY_HOST)
            by[call[i].rank] = BY_NOTHING;
}

/* Those calls, of a device as of one thread. */
static size_t pick_calls(const sl_call *call, size_t calls, int ranks, const char *by, sl_call *picked) {
    size_t count = 0;
    for (size_t i = 0; i < calls; i++) {
        const sl_call *c = &call[i];
        if (c->rank < 0 || c->rank >= ranks || c->end <= 0 || c->end < c->start ||
            (by[c->rank] == BY_DEVICE ? !is_on_device(c) : c->kind != SL_RECORD_CALL))
            continue;
        picked[count] = *c;
        if (by[c->rank] == BY_DEVICE) {
            picked[count].thread = 0;
            picked[count].start = c->end - c->device;
        }
        count++;
    }
    return count;
}

/* Of each rank the thread that makes most calls is the one that computes. */
static sl_status make_ranks(const sl_call *call, size_t calls, sl_call_profile *p) {
    sl_call *sorted = NULL;
    char *by;
    sl_status status = sl_alloc(&by, (size_t)p->ranks, 1);
    SL_THEN(status, sl_alloc(&sorted, calls, sizeof *sorted));
    size_t kept = 0;
    if (status == SL_OK) {
        find_measures(call, calls, p->ranks, by);
        kept = pick_calls(call, calls, p->ranks, by, sorted);
        qsort(sorted, kept, sizeof *sorted, order_calls);
    }
    for (size_t first = 0, last; first < kept && status == SL_OK; first = last) {
        size_t best = first, most = 0;
        for (last = first; last < kept && sorted[last].rank == sorted[first].rank;) {
            size_t of = last;
            while (last < kept && sorted[last].rank == sorted[of].rank &&
                   sorted[last].thread == sorted[of].thread)
                last++;
            if (last - of > most) {
                most = last - of;
                best = of;
            }
        }
        status = make_rank(&sorted[best], most, by[sorted[first].rank] != BY_NOTHING,
                           &p->rank[sorted[first].rank]);
    }
    SL_FREE(sorted, by);
    return status;
}

/* A first call may have begun long before the window, in a hold: then it counts from the beginning of the
 * window, which is not after the first end of all. */
static void clip_windows(sl_call_profile *p) {
    int64_t begin = INT64_MAX;
    for (int r = 0; r < p->ranks; r++)
        if (p->rank[r].kind && p->rank[r].first[1] < begin)
            begin = p->rank[r].first[1];
    for (int r = 0; r < p->ranks; r++)
        if (p->rank[r].kind && p->rank[r].first[0] < begin)
            p->rank[r].span -= (double)(begin - p->rank[r].first[0]);
}

sl_status sl_call_profile_make(const sl_call *call, size_t calls, int ranks, int64_t clock_error,
                               sl_call_profile **profile) {
    sl_meetings all = {0};
    sl_call_profile *p;
    *profile = NULL;
    SL_TRY(sl_alloc(&p, 1, sizeof *p));
    p->ranks = ranks;
    sl_status status;
    SL_TRY_GOTO(err_close, status, sl_alloc(&p->rank, (size_t)ranks, sizeof *p->rank));
    for (int r = 0; r < ranks; r++)
        p->rank[r].starved = p->rank[r].stopped = -1;
    SL_TRY_GOTO(err_close, status, make_ranks(call, calls, p));
    clip_windows(p);
    SL_TRY_GOTO(err_close, status, sl_meetings_find(call, calls, ranks, clock_error, &all));
    SL_TRY_GOTO(err_close, status, make_groups(&all, p));
    note_members(&all, p);
    sl_meetings_close(&all);
    *profile = p;
    return SL_OK;
err_close:
    sl_meetings_close(&all);
    sl_call_profile_close(p);
    return status;
}

void sl_call_profile_close(sl_call_profile *p) {
    if (!p)
        return;
    for (size_t i = 0; i < p->groups; i++)
        free_group(&p->group[i]);
    for (int r = 0; p->rank && r < p->ranks; r++) {
        SL_FREE(p->rank[r].gap, p->rank[r].volume);
    }
    SL_FREE(p->group, p->rank, p);
}
