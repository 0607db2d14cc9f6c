#include "notice/detect/meeting.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "notice/detect/awaited.h"
#include "notice/detect/call_role.h"

#include <stdlib.h>

enum { SAMPLE = 128, REACH = 128 }; /* pairs that assess a shift; shifts to each side of the guess */
#define NEVER 1e300

/* A call that takes part in something, ready to be matched. */
typedef struct piece {
    uint64_t communicator, bytes;
    int32_t call, role, peer, tag;
    sl_meeting_part part;
} piece;

typedef struct pieces {
    piece *at;
    size_t count, capacity;
} pieces;

/* ---- from records to pieces ---- */

static int order_calls(const void *a, const void *b) {
    const sl_call *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : 0; /* the Wait before what it completed */
}

/* The Wait or Test that saw a completion: the nearest one around it among the rank's calls, which are sorted
 * by end. */
static const sl_call *seen_by(const sl_call *call, size_t first, size_t last, size_t at) {
    const int64_t slack = 2000;
    const sl_call *best = NULL;
    for (size_t i = at; i-- > first && call[i].end >= call[at].end - slack;)
        if (call[i].kind == SL_RECORD_CALL && call[i].thread == call[at].thread &&
            sl_call_role_of(call[i].call) >= SL_ROLE_WAIT) {
            best = &call[i];
            break;
        }
    for (size_t i = at + 1; i < last && call[i].start <= call[at].end && !best; i++)
        if (call[i].kind == SL_RECORD_CALL && call[i].thread == call[at].thread &&
            sl_call_role_of(call[i].call) >= SL_ROLE_WAIT)
            best = &call[i];
    return best;
}

static piece make_piece(const sl_call *call, size_t first, size_t last, size_t at) {
    const sl_call *c = &call[at];
    piece p = {.communicator = c->communicator,
               .bytes = c->bytes,
               .call = c->call,
               .role = (int32_t)sl_call_role_of(c->call),
               .peer = c->peer,
               .tag = c->tag,
               .part = {.rank = c->rank,
                        .start = c->start,
                        .waiting = c->start,
                        .end = c->end,
                        .device = c->kind == SL_RECORD_COMPLETION ? c->device : -1,
                        .thread = c->thread,
                        .call = c->start,
                        .others = INT64_MIN}};
    if (p.part.device >= 0) /* its start on the device: it was enqueued long before */
        p.part.start = p.part.waiting = p.part.call = c->end - c->device;
    int exchange = sl_call_is_exchange(c->call);
    if (exchange && c->kind == SL_RECORD_COMPLETION)
        p.role = SL_ROLE_RECEIVE;
    if (c->kind == SL_RECORD_COMPLETION && !exchange && !sl_call_is_nccl(c->call)) {
        const sl_call *wait = seen_by(call, first, last, at);
        p.part.polled = !wait || (sl_call_role_of(wait->call) == SL_ROLE_TEST && wait->start == wait->end);
        p.part.waiting = p.part.polled ? c->end : wait->start > c->start ? wait->start : c->start;
        p.part.call = wait ? wait->start : c->end;
    }
    return p;
}

/* Whether a record shows what its call did. A host's times of NCCL's calls show only when something was
 * enqueued; they replace missing device times. */
static int is_timed(const sl_call *c, int device_times) {
    sl_call_role role = sl_call_role_of(c->call);
    if (c->end <= 0 || c->end < c->start || role == SL_ROLE_OTHER || role >= SL_ROLE_WAIT ||
        c->communicator == 0)
        return 0;
    if (sl_call_is_nccl(c->call))
        return device_times ? c->kind == SL_RECORD_COMPLETION && c->device >= 0 : c->kind == SL_RECORD_CALL;
    if (sl_call_is_exchange(c->call))
        return 1;
    return c->kind == (sl_call_only_posts(c->call) ? SL_RECORD_COMPLETION : SL_RECORD_CALL);
}

static sl_status collect(const sl_call *sorted, size_t calls, pieces *all) {
    int device_times = 0;
    for (size_t i = 0; i < calls && !device_times; i++)
        device_times = sorted[i].kind == SL_RECORD_COMPLETION && sorted[i].device >= 0 &&
                       sl_call_is_nccl(sorted[i].call) && sl_call_role_of(sorted[i].call) != SL_ROLE_OTHER;
    for (size_t first = 0, last; first < calls; first = last) {
        for (last = first; last < calls && sorted[last].rank == sorted[first].rank; last++)
            ;
        for (size_t i = first; i < last; i++) {
            if (!is_timed(&sorted[i], device_times))
                continue;
            SL_TRY(sl_grow(&all->at, &all->capacity, all->count + 1, sizeof *all->at));
            all->at[all->count++] = make_piece(sorted, first, last, i);
        }
    }
    return SL_OK;
}

/* ---- laying two sequences over each other ---- */

/* Where the data of a collective with a root goes: 1 from the root to the others, -1 to it, 0: neither. */
static int way_of(int call) {
    switch (call) {
    case SL_CALL_MPI_Bcast:
    case SL_CALL_MPI_Ibcast:
    case SL_CALL_MPI_Scatter:
    case SL_CALL_MPI_Scatterv:
    case SL_CALL_MPI_Iscatter:
    case SL_CALL_MPI_Iscatterv:
    case SL_CALL_ncclBroadcast:
    case SL_CALL_ncclBcast:
    case SL_CALL_ncclScatter:
    case SL_CALL_glooBroadcast:
    case SL_CALL_glooIbroadcast:
    case SL_CALL_glooScatter:
    case SL_CALL_glooIscatter:
        return 1;
    case SL_CALL_MPI_Reduce:
    case SL_CALL_MPI_Ireduce:
    case SL_CALL_MPI_Gather:
    case SL_CALL_MPI_Gatherv:
    case SL_CALL_MPI_Igather:
    case SL_CALL_MPI_Igatherv:
    case SL_CALL_ncclReduce:
    case SL_CALL_ncclGather:
    case SL_CALL_glooReduce:
    case SL_CALL_glooIreduce:
    case SL_CALL_glooGather:
    case SL_CALL_glooIgather:
        return -1;
    default:
        return 0;
    }
}

static double lag(int64_t end, int64_t start) {
    return end < start ? (double)(start - end) : 0;
}

/* Who receives cannot end before its giver has begun. */
static double rooted_contradiction(const piece *a, const piece *b) {
    if (a->call != b->call || a->peer != b->peer || a->bytes == 0 || b->bytes == 0)
        return 0;
    const piece *root = a->peer == a->part.rank ? a : b->peer == b->part.rank ? b : NULL;
    const piece *other = root == a ? b : a;
    const int way = root ? way_of(a->call) : 0;
    return way > 0   ? lag(other->part.end, root->part.start)
           : way < 0 ? lag(root->part.end, other->part.start)
                     : 0;
}

/* How far a pair contradicts itself: one member left before the other came. */
static double contradiction(const piece *a, const piece *b) {
    double c = 0;
    if (a->role == SL_ROLE_SEND || a->role == SL_ROLE_COLLECTIVE)
        c += lag(b->part.end, a->part.start);
    if (a->role == SL_ROLE_COLLECTIVE)
        c += lag(a->part.end, b->part.start);
    return a->role == SL_ROLE_ROOTED ? rooted_contradiction(a, b) : c;
}

/* Cost of aligning b[i + shift] with a[i]; NEVER if they cannot belong together. A pair that contradicts
 * itself by more than the clock error costs as much as the whole window: in a program that runs in step,
 * every message of a slow link arrives just before the next one is sent, so the closest pairs are impossible
 * ones. One that contradicts itself by less costs nothing for it: with clocks that far apart, the messages of
 * one direction seem to arrive before they were sent. Laid a period later instead, they would seem to take
 * that long, and the shifts around a circle of ranks would no longer add up to none. */
static double cost_of(const piece *a, size_t as, const piece *b, size_t bs, long shift, double clock_error) {
    long first = shift < 0 ? -shift : 0;
    long last = (long)bs - shift < (long)as ? (long)bs - shift : (long)as;
    long pairs = last - first, least = (long)(as < bs ? as : bs);
    if (pairs <= 0 || 2 * pairs < least)
        return NEVER;
    long step = pairs > SAMPLE ? pairs / SAMPLE : 1;
    double distance[2 * SAMPLE + 1], sum = 0, against = 0;
    int count = 0, unlike = 0, impossible = 0;
    for (long i = first; i < last && count < 2 * SAMPLE; i += step) {
        const piece *x = &a[i], *y = &b[i + shift];
        unlike += x->role != SL_ROLE_SEND && x->call != y->call;
        double contradicts = contradiction(x, y);
        against += contradicts > clock_error ? contradicts - clock_error : 0;
        impossible += contradicts > clock_error;
        int64_t from = x->role == SL_ROLE_SEND ? x->part.start : x->part.end;
        distance[count++] = (double)(y->part.end - from);
    }
    if (10 * unlike > count)
        return NEVER;
    qsort(distance, (size_t)count, sizeof *distance, sl_ascending_numbers);
    double middle = distance[count / 2];
    for (int i = 0; i < count; i++)
        sum += distance[i] < middle ? middle - distance[i] : distance[i] - middle;
    double missing = 1 - (double)pairs / (double)least;
    double window = (double)(a[as - 1].part.end - a[0].part.start);
    return sum / count + 0.1 * (middle < 0 ? -middle : middle) + 10 * against / count +
           missing * window / (double)as * 0.1 + window * impossible / count;
}

static int lay_over(const piece *a, size_t as, const piece *b, size_t bs, double clock_error, long *shift) {
    long from = -(long)as, to = (long)bs;
    if (as + bs > 4 * REACH) {
        size_t low = 0, high = bs;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (b[middle].part.end < a[as / 2].part.end)
                low = middle + 1;
            else
                high = middle;
        }
        from = (long)low - (long)(as / 2) - REACH;
        to = from + 2 * REACH;
    }
    double best = NEVER;
    for (long s = from; s <= to; s++) {
        double cost = cost_of(a, as, b, bs, s, clock_error);
        if (cost < best) {
            best = cost;
            *shift = s;
        }
    }
    return best < NEVER;
}

/* ---- meetings ---- */

static sl_status add_meeting(sl_meetings *all, const piece *of, int size, int message,
                             sl_meeting_part **part) {
    SL_TRY(sl_grow(&all->meeting, &all->meetings_capacity, all->meetings + 1, sizeof *all->meeting));
    SL_TRY(sl_grow(&all->part, &all->parts_capacity, all->parts + (size_t)size, sizeof *all->part));
    all->meeting[all->meetings++] = (sl_meeting){.communicator = of->communicator,
                                                 .bytes = of->bytes,
                                                 .call = of->call,
                                                 .root = message ? SL_PEER_NONE : of->peer,
                                                 .message = message,
                                                 .size = size,
                                                 .part = all->parts};
    *part = &all->part[all->parts];
    all->parts += (size_t)size;
    return SL_OK;
}

static sl_status add_message(sl_meetings *all, const piece *send, const piece *receive) {
    sl_meeting_part *part;
    SL_TRY(add_meeting(all, send, 2, 1, &part));
    part[0] = send->part;
    part[1] = receive->part;
    return SL_OK;
}

static int is_message(const piece *p) {
    return p->role == SL_ROLE_SEND || p->role == SL_ROLE_RECEIVE;
}

#define BY(x, y)                                                                                             \
    do {                                                                                                     \
        if ((x) != (y))                                                                                      \
            return (x) < (y) ? -1 : 1;                                                                       \
    } while (0)

static int source_of(const piece *p) {
    return p->role == SL_ROLE_SEND ? p->part.rank : p->peer;
}

static int destination_of(const piece *p) {
    return p->role == SL_ROLE_SEND ? p->peer : p->part.rank;
}

/* Collectives first, then messages by channel with sends before receives; in each by rank and by beginning.
 */
static int order_channels(const piece *x, const piece *y) {
    BY(is_message(x), is_message(y));
    BY(x->communicator, y->communicator);
    if (is_message(x)) {
        BY(source_of(x), source_of(y));
        BY(destination_of(x), destination_of(y));
        BY(x->tag, y->tag);
    }
    return 0;
}

static int order_pieces(const void *a, const void *b) {
    const piece *x = a, *y = b;
    int channel = order_channels(x, y);
    if (channel)
        return channel;
    if (is_message(x))
        BY(x->role, y->role);
    BY(x->part.rank, y->part.rank);
    BY(x->part.start, y->part.start);
    BY(x->part.end, y->part.end);
    return 0;
}

static sl_status match_messages(const piece *p, size_t count, double clock_error, sl_meetings *all) {
    size_t sends = 0;
    long shift = 0;
    while (sends < count && p[sends].role == SL_ROLE_SEND)
        sends++;
    const piece *receive = p + sends;
    size_t receives = count - sends;
    if (sends == 0 || receives == 0 || !lay_over(p, sends, receive, receives, clock_error, &shift))
        return SL_OK;
    for (size_t i = 0; i < sends; i++) {
        long j = (long)i + shift;
        if (j >= 0 && j < (long)receives && contradiction(&p[i], &receive[j]) <= clock_error)
            SL_TRY(add_message(all, &p[i], &receive[j]));
    }
    return SL_OK;
}

/* The ranks of a channel with adjacent pieces: first[k] to first[k + 1]. */
static sl_status find_members(const piece *p, size_t count, int ranks, size_t **first, int *members) {
    SL_TRY(sl_alloc(first, (size_t)ranks + 1, sizeof **first));
    *members = 0;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || p[i].part.rank != p[i - 1].part.rank)
            (*first)[(*members)++] = i;
    (*first)[*members] = count;
    return SL_OK;
}

/* Position i of the longest member, with those of the others that were laid over it. */
static sl_status meet_at(const piece *p, const size_t *first, const long *shift, int members, int longest,
                         size_t i, sl_meetings *all) {
    const piece *of = &p[first[longest] + i];
    sl_meeting_part *part;
    for (int m = 0; m < members; m++) {
        long j = (long)i + shift[m];
        if (j < 0 || j >= (long)(first[m + 1] - first[m]) || p[first[m] + (size_t)j].call != of->call)
            return SL_OK;
    }
    SL_TRY(add_meeting(all, of, members, 0, &part));
    for (int m = 0; m < members; m++) {
        const piece *mine = &p[first[m] + (size_t)((long)i + shift[m])];
        sl_meeting *meeting = &all->meeting[all->meetings - 1];
        part[m] = mine->part;
        meeting->bytes = mine->bytes > meeting->bytes ? mine->bytes : meeting->bytes;
    }
    return SL_OK;
}

static sl_status match_collectives(const piece *p, size_t count, int ranks, double clock_error,
                                   sl_meetings *all) {
    size_t *first;
    long *shift = NULL;
    int members, longest = 0, kept = 1;
    SL_TRY(find_members(p, count, ranks, &first, &members));
    sl_status status = sl_alloc(&shift, (size_t)members, sizeof *shift);
    for (int m = 1; m < members; m++)
        if (first[m + 1] - first[m] > first[longest + 1] - first[longest])
            longest = m;
    size_t most = first[longest + 1] - first[longest];
    for (int m = 0; m < members && status == SL_OK; m++)
        if (m != longest)
            kept &= lay_over(p + first[longest], most, p + first[m], first[m + 1] - first[m], clock_error,
                             &shift[m]);
    if (members > 1 && kept)
        for (size_t i = 0; i < most && status == SL_OK; i++)
            status = meet_at(p, first, shift, members, longest, i, all);
    SL_FREE(shift, first);
    return status;
}

static sl_status match(const pieces *all, int ranks, double clock_error, sl_meetings *meetings) {
    sl_status status = SL_OK;
    for (size_t first = 0, last; first < all->count && status == SL_OK; first = last) {
        const piece *p = &all->at[first];
        for (last = first + 1; last < all->count && order_channels(p, &all->at[last]) == 0; last++)
            ;
        if (!is_message(p))
            status = match_collectives(p, last - first, ranks, clock_error, meetings);
        else if (source_of(p) >= 0 && destination_of(p) >= 0)
            status = match_messages(p, last - first, clock_error, meetings);
    }
    return status;
}

sl_status sl_meetings_find(const sl_call *call, size_t calls, int ranks, int64_t clock_error,
                           sl_meetings *meetings) {
    sl_call *sorted;
    pieces all = {0};
    size_t kept = 0;
    *meetings = (sl_meetings){0};
    SL_TRY(sl_alloc(&sorted, calls, sizeof *sorted));
    for (size_t i = 0; i < calls; i++)
        if ((call[i].kind == SL_RECORD_CALL || call[i].kind == SL_RECORD_COMPLETION) && call[i].rank >= 0 &&
            call[i].rank < ranks && call[i].peer < ranks)
            sorted[kept++] = call[i];
    qsort(sorted, kept, sizeof *sorted, order_calls);
    sl_status status = collect(sorted, kept, &all);
    if (status == SL_OK && all.count > 0) {
        qsort(all.at, all.count, sizeof *all.at, order_pieces);
        status = match(&all, ranks, (double)clock_error, meetings);
    }
    SL_THEN(status, sl_meetings_weigh_waits(meetings, sorted, kept));
    SL_FREE(sorted, all.at);
    return status;
}

void sl_meetings_close(sl_meetings *meetings) {
    SL_FREE(meetings->meeting, meetings->part);
    *meetings = (sl_meetings){0};
}
