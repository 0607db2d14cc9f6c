#include "notice/hang/diagnosis_inside.h"
#include "notice/record/call.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sl_hang_add_text(sl_hang_text *t, const char *format, ...) {
    va_list more;
    va_start(more, format);
    int length = t->used < t->size ? vsnprintf(t->text + t->used, t->size - t->used, format, more) : 0;
    va_end(more);
    t->used += length > 0 ? (size_t)length : 0;
    if (t->used >= t->size) { /* a word is not cut */
        t->used = t->size;
        char *blank = strrchr(t->text, ' ');
        if (blank && t->size - (size_t)(blank - t->text) > 4)
            memcpy(blank, " ...", 5);
    }
}

void sl_hang_say_ranks(sl_hang_text *t, const unsigned char *chosen, int size) {
    int count = 0, said = 0;
    for (int i = 0; i < size; i++)
        count += chosen[i] != 0;
    sl_hang_add_text(t, count == 1 ? "rank " : "ranks ");
    for (int i = 0; i < size && said < 8; i++) {
        int last = i;
        if (!chosen[i])
            continue;
        while (last + 1 < size && chosen[last + 1])
            last++;
        sl_hang_add_text(t,
                         last > i + 1 ? "%s%d-%d"
                         : last > i   ? "%s%d,%d"
                                      : "%s%d",
                         said++ ? "," : "", i, last);
        i = last;
    }
    if (said == 8)
        sl_hang_add_text(t, " and others");
}

/* Communicators have no names: the order in which the first member made them. */
static int order_of(const sl_hang_graph *g, uint64_t communicator) {
    for (int i = 0; i < g->size; i++) {
        const sl_hang_rank *r = g->node[i].rank;
        int order = 0;
        for (size_t c = 0; r && c < r->channels; c++) {
            order += r->channel[c].key.kind == SL_CHANNEL_COLLECTIVE;
            if (r->channel[c].key.kind == SL_CHANNEL_COLLECTIVE &&
                r->channel[c].key.communicator == communicator)
                return order;
        }
    }
    return 0;
}

void sl_hang_say_members(sl_hang_text *t, const sl_hang_graph *g, uint64_t communicator) {
    unsigned char chosen[64] = {0};
    int members = 0, most = g->size < 64 ? g->size : 64;
    for (int i = 0; i < g->size; i++) {
        int is = sl_hang_is_member(g, i, communicator);
        members += is;
        if (i < most)
            chosen[i] = (unsigned char)is;
    }
    const int order = order_of(g, communicator);
    sl_hang_add_text(t, order > 1 ? "of communicator %d, " : "of ", order);
    if (members == g->size)
        sl_hang_add_text(t, "all ranks");
    else
        sl_hang_say_ranks(t, chosen, most);
}

const char *sl_hang_wait_call(const sl_hang_graph *g, int rank, const sl_hang_wait *wait) {
    const sl_hang_node *n = &g->node[rank];
    if (wait->need && wait->channel.kind == SL_CHANNEL_COLLECTIVE) {
        const sl_hang_collective *c =
            sl_hang_collective_of(n->rank, wait->channel.communicator, wait->number);
        if (c)
            return c->call;
    }
    return n->thread->call;
}

void sl_hang_say_wait(sl_hang_text *t, const sl_hang_graph *g, const sl_hang_wait *wait, const char *call) {
    const sl_channel_key *k = &wait->channel;
    if (k->kind == SL_CHANNEL_COLLECTIVE) {
        sl_hang_add_text(t, "%s (collective %" PRIu64 " ", call, wait->number);
        sl_hang_say_members(t, g, k->communicator);
        sl_hang_add_text(t, ")");
    } else if (k->kind == SL_CHANNEL_WINDOW)
        sl_hang_say_window(t, wait);
    else if (k->kind == SL_CHANNEL_WILD && k->source < 0) {
        sl_hang_add_text(t, "a message from any rank");
        if (k->tag >= 0)
            sl_hang_add_text(t, " (tag %d)", k->tag);
    } else {
        if (g->job->from_dumps) /* which does not know how many came before */
            sl_hang_add_text(t, "a message from rank %d to rank %d", k->source, k->destination);
        else
            sl_hang_add_text(t, "message %" PRIu64 " from rank %d to rank %d", wait->number, k->source,
                             k->destination);
        if (k->tag >= 0)
            sl_hang_add_text(t, " (tag %d)", k->tag);
    }
}

static const sl_hang_thread *busiest(const sl_hang_rank *r) {
    const sl_hang_thread *found = NULL;
    for (size_t i = 0; i < r->threads; i++) /* one that runs, else the longest unchanged */
        if (!found ||
            (r->thread[i].state == 'R' && !r->thread[i].inside && (found->state != 'R' || found->inside)))
            found = &r->thread[i];
    return found;
}

void sl_hang_say_doing(sl_hang_text *t, const sl_hang_graph *g, int rank) {
    const sl_hang_node *n = &g->node[rank];
    const sl_hang_rank *r = n->rank;
    const sl_hang_thread *thread = n->thread ? n->thread : r ? busiest(r) : NULL;
    if (!r) {
        sl_hang_add_text(t, "has made no call yet, or is not watched");
        return;
    }
    if (r->ended) {
        sl_hang_add_text(t, "has ended%s", r->finished ? "" : " without MPI_Finalize");
        return;
    }
    if (r->finished)
        sl_hang_add_text(t, "has reached its end (MPI_Finalize or exit)");
    else if (g->job->from_dumps && thread && thread->doing[0])
        sl_hang_add_text(t, "%s", thread->doing);
    else if (g->job->from_dumps)
        sl_hang_add_text(t,
                         !thread || !thread->call[0] ? "has entered nothing"
                         : thread->inside            ? "has entered %s and not left it"
                                                     : "has left %s and entered nothing since",
                         thread ? thread->call : "");
    else if (!thread)
        sl_hang_add_text(t, "is not in a call");
    else if (n->thread && n->on) {
        sl_hang_add_text(t, "is in ");
        if (strcmp(sl_hang_wait_call(g, rank, n->on), thread->call) != 0 ||
            n->on->channel.kind != SL_CHANNEL_COLLECTIVE)
            sl_hang_add_text(t, "%s for ", thread->call);
        sl_hang_say_wait(t, g, n->on, sl_hang_wait_call(g, rank, n->on));
    } else if (thread->inside == 1 && thread->state != 'T' && thread->state != 't')
        sl_hang_add_text(t, "is in %s", thread->call);
    else
        sl_hang_add_text(t, "%s%s%s%s", thread->doing[0] ? thread->doing : "is not in a call",
                         thread->call[0] ? (thread->inside == 1 ? " in " : " after ") : "", thread->call, "");
    if (thread && thread->frames[0])
        sl_hang_add_text(t, ", at %s", thread->frames);
}
