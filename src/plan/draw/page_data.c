#include "plan/draw/page_data.h"
#include "base/memory.h"
#include "plan/draw/escape.h"
#include "plan/draw/lanes.h"

#include <limits.h>

/* A chart on the page: the start of its rows, ops, messages and collectives. */
typedef struct message_half {
    const sl_page_chart *c;
    const sl_timeline *t;
    int *first; /* [ranks] first span; NULL without a program */
    sl_lanes lanes;
    int *entry; /* [transfers] op of the page; -1: none */
    int row, op, transfer, collective;
} message_half;

typedef struct page_pair {
    message_half half[2];
    int halves;
    FILE *out;
} page_pair;

/* ---- columns ---- */

#define NONE LLONG_MIN /* printed as null */

typedef struct column {
    const char *name;
    long long (*value)(const message_half *h, int row);
} column;

/* Converts an entry of a half's own numbering to that of the page. */
static long long entry_of(const message_half *h, int32_t entry) {
    return entry == SL_NO_CAUSE   ? NONE
           : entry < 0            ? entry - h->transfer
           : entry >= h->t->spans ? h->collective + entry - h->t->spans
                                  : h->op + entry;
}

/* Ops are followed by the messages on their lanes. */
static const sl_transfer *ride_of(const message_half *h, int i) {
    return i < h->t->spans ? NULL : &h->t->transfer[h->lanes.ride[i - h->t->spans].transfer];
}

static const sl_op *op_of(const message_half *h, int i) {
    return i < h->t->spans ? &h->t->span[i].op : &ride_of(h, i)->op;
}

static const sl_step *step_of(const message_half *h, int i) {
    const int rank = i < h->t->spans ? h->t->span[i].rank : -1;
    return rank >= 0 && h->first ? &h->c->program->rank[rank].step[i - h->first[rank]] : NULL;
}

static long long message_of(const message_half *h, int message) {
    return message < 0 ? NONE : h->transfer + message;
}

/* clang-format off */
static long long op_rank(const message_half *h, int i) {
    return h->row + (i < h->t->spans ? h->t->span[i].rank : h->t->ranks + h->lanes.ride[i - h->t->spans].lane);
}
static long long op_kind(const message_half *h, int i) { return op_of(h, i)->kind; }
static long long op_stage(const message_half *h, int i) { return op_of(h, i)->stage; }
static long long op_microbatch(const message_half *h, int i) { return op_of(h, i)->microbatch; }
static long long op_part(const message_half *h, int i) { return op_of(h, i)->part; }
static long long op_paired(const message_half *h, int i) { return i < h->t->spans && op_of(h, i)->paired; }
static long long op_start(const message_half *h, int i) { return i < h->t->spans ? h->t->span[i].start : ride_of(h, i)->start; }
static long long op_end(const message_half *h, int i) { return i < h->t->spans ? h->t->span[i].end : ride_of(h, i)->arrive; }
static long long op_cause(const message_half *h, int i) { return h->c->cause && i < h->t->spans ? entry_of(h, h->c->cause[i]) : NONE; }
static long long op_receive(const message_half *h, int i) { return step_of(h, i) ? message_of(h, step_of(h, i)->receive) : NONE; }
static long long op_send(const message_half *h, int i) { return step_of(h, i) ? message_of(h, step_of(h, i)->send) : NONE; }

static long long transfer_from(const message_half *h, int i) { return h->row + h->t->transfer[i].from; }
static long long transfer_to(const message_half *h, int i) { return h->row + h->t->transfer[i].to; }
static long long transfer_op(const message_half *h, int i) {
    const sl_message *message = &h->c->program->message[i];
    return h->op + h->first[message->from] + message->producer;
}
static long long transfer_start(const message_half *h, int i) { return h->t->transfer[i].start; }
static long long transfer_end(const message_half *h, int i) { return h->t->transfer[i].end; }
static long long transfer_arrive(const message_half *h, int i) { return h->t->transfer[i].arrive; }

static long long collective_rank(const message_half *h, int i) { return h->row + h->t->collective[i].rank; }
static long long collective_kind(const message_half *h, int i) { return h->t->collective[i].op.kind; }
static long long collective_stage(const message_half *h, int i) { return h->t->collective[i].op.stage; }
static long long collective_microbatch(const message_half *h, int i) { return h->t->collective[i].op.microbatch; }
static long long collective_start(const message_half *h, int i) { return h->t->collective[i].start; }
static long long collective_end(const message_half *h, int i) { return h->t->collective[i].end; }

static int op_rows(const message_half *h) { return h->t->spans + h->lanes.rides; }
/* without a program, the op that made a message is unknown: the message is only on its lane */
static int transfer_rows(const message_half *h) { return h->c->program ? h->t->transfers : 0; }
static int collective_rows(const message_half *h) { return h->t->collectives; }

static const column op_columns[] = {
    {"rank", op_rank}, {"kind", op_kind}, {"stage", op_stage}, {"microbatch", op_microbatch}, {"start", op_start},
    {"end", op_end}, {"cause", op_cause}, {"receive", op_receive}, {"send", op_send}, {NULL, NULL},
};
static const column part_column[] = {{"part", op_part}, {NULL, NULL}}; /* rare, so left out of most pages */
static const column pair_column[] = {{"paired", op_paired}, {NULL, NULL}};
static const column transfer_columns[] = {
    {"from", transfer_from}, {"to", transfer_to}, {"op", transfer_op}, {"start", transfer_start},
    {"end", transfer_end}, {"arrive", transfer_arrive}, {NULL, NULL},
};
static const column collective_columns[] = {
    {"rank", collective_rank}, {"kind", collective_kind}, {"stage", collective_stage}, {"microbatch", collective_microbatch},
    {"start", collective_start}, {"end", collective_end}, {NULL, NULL},
};
/* clang-format on */

static void put_columns(const page_pair *p, const column *c, int (*rows)(const message_half *h),
                        const char *before) {
    for (; c->name; c++, before = ",\n ") {
        const char *between = "";
        fprintf(p->out, "%s\"%s\": [", before, c->name);
        for (int k = 0; k < p->halves; k++)
            for (int i = 0; i < rows(&p->half[k]); i++, between = ",") {
                const long long value = c->value(&p->half[k], i);
                if (value == NONE)
                    fprintf(p->out, "%snull", between);
                else
                    fprintf(p->out, "%s%lld", between, value);
            }
        fputc(']', p->out);
    }
}

/* A message on the path appears twice: between its ops, and on its lane. */
static void put_path(const page_pair *p) {
    const char *before = "";
    for (int k = 0; k < p->halves; k++) {
        const message_half *h = &p->half[k];
        for (int i = 0; h->c->path && i < h->c->path->length; i++, before = ",") {
            const int32_t entry = h->c->path->path[i];
            fprintf(p->out, "%s%lld", before, entry_of(h, entry));
            if (entry < 0 && h->entry[-1 - entry] >= 0)
                fprintf(p->out, ",%d", h->entry[-1 - entry]);
        }
    }
}

static void put_rows(const page_pair *p) {
    const char *before = "";
    fputs("\"rows\": [", p->out);
    for (int k = 0; k < p->halves; k++) {
        const message_half *h = &p->half[k];
        for (int rank = 0; rank < h->t->ranks; rank++, before = ",")
            fprintf(p->out, "%s\"%s rank %d\"", before, h->c->name, rank);
        for (int lane = 0; lane < h->lanes.lanes; lane++, before = ",")
            fprintf(p->out, "%s\"%s link %d -> %d\"", before, h->c->name, h->lanes.lane[lane]->from,
                    h->lanes.lane[lane]->to);
    }
    fputs("], \"lanes\": [", p->out);
    before = "";
    for (int k = 0; k < p->halves; k++)
        for (int row = 0; row < p->half[k].t->ranks + p->half[k].lanes.lanes; row++, before = ",")
            fprintf(p->out, "%s%d", before, row >= p->half[k].t->ranks);
    fputs("],\n", p->out);
}

/* ---- all of it ---- */

static void extend(const sl_timeline *t, sl_time *begin, sl_time *end, int *pairs) {
    for (int i = 0; i < t->spans; i++) {
        *begin = t->span[i].start < *begin ? t->span[i].start : *begin;
        *end = t->span[i].end > *end ? t->span[i].end : *end;
        *pairs |= t->span[i].op.paired;
    }
    for (int i = 0; i < t->collectives; i++)
        *end = t->collective[i].end > *end ? t->collective[i].end : *end;
}

static void put_data(const page_pair *p, const sl_page_data *d) {
    const message_half *last = &p->half[p->halves - 1];
    sl_time begin = SL_TIME_NEVER, end = 0;
    int pairs = 0;
    for (int k = 0; k < p->halves; k++)
        extend(p->half[k].t, &begin, &end, &pairs);
    begin = begin == SL_TIME_NEVER ? 0 : begin;
    fputs("{\"format\": \"slackline-page-1\", \"title\": ", p->out);
    sl_put_json(p->out, d->title);
    if (d->schedule) {
        fputs(", \"schedule\": ", p->out);
        sl_put_json(p->out, d->schedule);
    }
    fprintf(p->out,
            ",\n\"ranks\": %d, \"stages\": %d, \"parts\": %d, \"begin_ns\": %lld, \"makespan_ns\": %lld,\n",
            last->row + last->t->ranks + last->lanes.lanes, d->stages, d->parts, (long long)begin,
            (long long)(d->makespan == SL_TIME_NEVER ? end - begin : d->makespan));
    if (last->c->name)
        put_rows(p);
    fputs("\"kinds\": [", p->out);
    for (int kind = 0; kind < SL_SPAN_KINDS; kind++)
        fprintf(p->out, "%s\"%s\"", kind ? ", " : "", sl_op_name(kind));
    fputs("],\n\"ops\": {", p->out);
    put_columns(p, op_columns, op_rows, "");
    if (d->parts > 1)
        put_columns(p, part_column, op_rows, ",\n ");
    if (pairs)
        put_columns(p, pair_column, op_rows, ",\n ");
    fputs("},\n\"transfers\": {", p->out);
    put_columns(p, transfer_columns, transfer_rows, "");
    fputs("},\n\"collectives\": {", p->out);
    put_columns(p, collective_columns, collective_rows, "");
    fputs("},\n\"path\": [", p->out);
    put_path(p);
    fputs("]}", p->out);
}

static sl_status number(page_pair *p) {
    int row = 0, op = 0, transfer = 0, collective = 0;
    for (int k = 0; k < p->halves; k++) {
        message_half *h = &p->half[k];
        const sl_program *program = h->c->program;
        h->row = row;
        h->op = op;
        h->transfer = transfer;
        h->collective = collective;
        if (h->c->name)
            SL_TRY(sl_lanes_make(h->t, &h->lanes));
        SL_TRY(sl_alloc(&h->entry, (size_t)h->t->transfers, sizeof *h->entry));
        for (int i = 0; i < h->t->transfers; i++)
            h->entry[i] = -1;
        for (int i = 0; i < h->lanes.rides; i++)
            h->entry[h->lanes.ride[i].transfer] = h->op + h->t->spans + i;
        if (program)
            SL_TRY(sl_alloc(&h->first, (size_t)h->t->ranks, sizeof *h->first));
        for (int rank = 1; rank < h->t->ranks && program; rank++)
            h->first[rank] = h->first[rank - 1] + program->rank[rank - 1].steps;
        row += h->t->ranks + h->lanes.lanes;
        op += op_rows(h);
        transfer += transfer_rows(h);
        collective += h->t->collectives;
    }
    for (int k = 0; k < p->halves; k++) /* collectives are numbered after the ops of both */
        p->half[k].collective += op;
    return SL_OK;
}

sl_status sl_page_data_write(const sl_page_data *d, FILE *out) {
    page_pair p = {.out = out, .halves = d->charts};
    for (int k = 0; k < d->charts; k++) {
        p.half[k].c = &d->chart[k];
        p.half[k].t = d->chart[k].timeline;
    }
    sl_status status = number(&p);
    if (status == SL_OK)
        put_data(&p, d);
    for (int k = 0; k < p.halves; k++) {
        sl_lanes_free(&p.half[k].lanes);
        SL_FREE(p.half[k].entry, p.half[k].first);
    }
    return status;
}
