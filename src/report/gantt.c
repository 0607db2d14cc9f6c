#include "report/gantt.h"
#include "base/memory.h"
#include "plan/draw/escape.h"
#include "plan/draw/svg.h"

#include <stdlib.h>

/* A message on its lane. */
typedef struct ride {
    int transfer, lane;
    int entry; /* its number among the page's ops */
} ride;

/* One timeline on the page: where its rows, ops, messages and collectives begin. */
typedef struct half {
    const char *name;
    const sl_timeline *t;
    const sl_program *program; /* NULL: none */
    const int32_t *cause;      /* [spans]; NULL: not known */
    int *first;                /* [ranks] first span; NULL without a program */
    const sl_highlight *path;
    ride *ride; /* [transfers] by lane, then start */
    int *entry; /* [transfers] op of the page; -1: it took no time */
    int rides, lanes;
    const sl_transfer **lane; /* [lanes] a message of each */
    int row, op, transfer, collective;
} half;

typedef struct pair {
    half half[2];
    int halves, ops; /* of both */
    FILE *out;
} pair;

/* ---- lanes ---- */

typedef struct by_link {
    const sl_transfer *t;
    int transfer;
} by_link;

static int compare_links(const void *a, const void *b) {
    const sl_transfer *x = ((const by_link *)a)->t, *y = ((const by_link *)b)->t;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->start != y->start                                              ? (x->start < y->start ? -1 : 1)
           : ((const by_link *)a)->transfer < ((const by_link *)b)->transfer ? -1
                                                                             : 1;
}

static int compare_rides(const void *a, const void *b) {
    const ride *x = a, *y = b;
    return x->lane != y->lane ? (x->lane < y->lane ? -1 : 1) : x->entry < y->entry ? -1 : x->entry > y->entry;
}

/* Messages of a link that are under way at the same time lie on lanes of their own. */
static void divide(half *h, const by_link *order, int count, sl_time *busy) {
    int first = 0;
    for (int i = 0; i < count; i++) {
        const sl_transfer *t = order[i].t;
        if (i > 0 && (t->from != order[i - 1].t->from || t->to != order[i - 1].t->to))
            first = h->lanes;
        int lane = first;
        while (lane < h->lanes && busy[lane] > t->start)
            lane++;
        h->lanes += lane == h->lanes;
        h->lane[lane] = t;
        busy[lane] = t->arrive;
        h->ride[h->rides++] = (ride){order[i].transfer, lane, i};
    }
    if (h->rides > 0)
        qsort(h->ride, (size_t)h->rides, sizeof *h->ride, compare_rides);
    for (int i = 0; i < h->rides; i++)
        h->entry[h->ride[i].transfer] = h->op + h->t->spans + i;
}

static sl_status find_lanes(half *h) {
    by_link *order;
    sl_time *busy = NULL;
    const size_t most = (size_t)h->t->transfers;
    int count = 0;
    SL_TRY(sl_alloc(&order, most, sizeof *order));
    sl_status status = sl_alloc(&busy, most, sizeof *busy);
    if (status == SL_OK)
        status = sl_alloc(&h->ride, most, sizeof *h->ride);
    if (status == SL_OK)
        status = sl_alloc(&h->entry, most, sizeof *h->entry);
    if (status == SL_OK)
        status = sl_alloc(&h->lane, most, sizeof *h->lane);
    for (int i = 0; i < h->t->transfers && status == SL_OK; i++) {
        h->entry[i] = -1;
        if (h->t->transfer[i].arrive > h->t->transfer[i].start)
            order[count++] = (by_link){&h->t->transfer[i], i};
    }
    if (status == SL_OK) {
        if (count > 0)
            qsort(order, (size_t)count, sizeof *order, compare_links);
        divide(h, order, count, busy);
    }
    sl_free(order);
    sl_free(busy);
    return status;
}

/* ---- columns of the page's data (plan/draw/html.h) ---- */

/* An entry of a half's own numbering in that of the page. */
static void put_entry(const pair *p, const half *h, int32_t entry) {
    if (entry == SL_NO_CAUSE)
        fputs("null", p->out);
    else if (entry < 0)
        fprintf(p->out, "%d", entry - h->transfer);
    else if (entry >= h->t->spans)
        fprintf(p->out, "%d", p->ops + h->collective + entry - h->t->spans);
    else
        fprintf(p->out, "%d", h->op + entry);
}

static const sl_step *step_of(const half *h, int i) {
    const int rank = h->t->span[i].rank;
    return h->program ? &h->program->rank[rank].step[i - h->first[rank]] : NULL;
}

typedef enum op_column {
    OP_ROW,
    OP_KIND,
    OP_STAGE,
    OP_MICROBATCH,
    OP_START,
    OP_END,
    OP_CAUSE,
    OP_RECEIVE,
    OP_SEND,
    OP_PAIRED,
    OP_COLUMNS
} op_column;

static const char *const op_names[OP_COLUMNS] = {"rank", "kind",  "stage",   "microbatch", "start",
                                                 "end",  "cause", "receive", "send",       "paired"};

static void put_message(const pair *p, const half *h, int message) {
    if (message < 0)
        fputs("null", p->out);
    else
        fprintf(p->out, "%d", h->transfer + message);
}

static void put_span(const pair *p, const half *h, int i, op_column column) {
    const sl_span *s = &h->t->span[i];
    const sl_step *step = column == OP_RECEIVE || column == OP_SEND ? step_of(h, i) : NULL;
    switch (column) {
    case OP_ROW:
        fprintf(p->out, "%d", h->row + s->rank);
        break;
    case OP_START:
    case OP_END:
        fprintf(p->out, "%lld", (long long)(column == OP_START ? s->start : s->end));
        break;
    case OP_CAUSE:
        put_entry(p, h, h->cause ? h->cause[i] : SL_NO_CAUSE);
        break;
    case OP_RECEIVE:
        put_message(p, h, step ? step->receive : -1);
        break;
    case OP_SEND:
        put_message(p, h, step ? step->send : -1);
        break;
    case OP_PAIRED:
        fputs(s->op.paired ? "1" : "0", p->out);
        break;
    default:
        fprintf(p->out, "%d",
                column == OP_KIND    ? s->op.kind
                : column == OP_STAGE ? s->op.stage
                                     : s->op.microbatch);
    }
}

static void put_ride(const pair *p, const half *h, int i, op_column column) {
    const ride *r = &h->ride[i];
    const sl_transfer *t = &h->t->transfer[r->transfer];
    switch (column) {
    case OP_ROW:
        fprintf(p->out, "%d", h->row + h->t->ranks + r->lane);
        break;
    case OP_KIND:
        fprintf(p->out, "%d", t->op.kind);
        break;
    case OP_STAGE:
        fprintf(p->out, "%d", t->op.stage);
        break;
    case OP_MICROBATCH:
        fprintf(p->out, "%d", t->op.microbatch);
        break;
    case OP_START:
        fprintf(p->out, "%lld", (long long)t->start);
        break;
    case OP_END:
        fprintf(p->out, "%lld", (long long)t->arrive);
        break;
    case OP_PAIRED:
        fputs("0", p->out);
        break;
    default:
        fputs("null", p->out);
    }
}

static void put_ops(const pair *p) {
    for (int column = 0; column < OP_COLUMNS; column++) {
        const char *before = "";
        fprintf(p->out, "%s\"%s\":[", column ? "," : "", op_names[column]);
        for (int k = 0; k < p->halves; k++) {
            const half *h = &p->half[k];
            for (int i = 0; i < h->t->spans; i++, before = ",") {
                fputs(before, p->out);
                put_span(p, h, i, (op_column)column);
            }
            for (int i = 0; i < h->rides; i++, before = ",") {
                fputs(before, p->out);
                put_ride(p, h, i, (op_column)column);
            }
        }
        fputc(']', p->out);
    }
}

/* Of measured messages without a program the op that made one is not known: they are shown on lanes alone. */
static void put_transfers(const pair *p) {
    static const char *const names[] = {"from", "to", "op", "start", "end", "arrive"};
    for (int column = 0; column < 6; column++) {
        const char *before = "";
        fprintf(p->out, "%s\"%s\":[", column ? "," : "", names[column]);
        for (int k = 0; k < p->halves; k++) {
            const half *h = &p->half[k];
            for (int i = 0; h->program && i < h->t->transfers; i++, before = ",") {
                const sl_transfer *t = &h->t->transfer[i];
                const sl_message *m = &h->program->message[i];
                const long long value[] = {
                    h->row + t->from, h->row + t->to, h->op + h->first[m->from] + m->producer,
                    t->start,         t->end,         t->arrive};
                fprintf(p->out, "%s%lld", before, value[column]);
            }
        }
        fputc(']', p->out);
    }
}

static void put_collectives(const pair *p) {
    static const char *const names[] = {"rank", "kind", "stage", "microbatch", "start", "end"};
    for (int column = 0; column < 6; column++) {
        const char *before = "";
        fprintf(p->out, "%s\"%s\":[", column ? "," : "", names[column]);
        for (int k = 0; k < p->halves; k++) {
            const half *h = &p->half[k];
            for (int i = 0; i < h->t->collectives; i++, before = ",") {
                const sl_span *s = &h->t->collective[i];
                const long long value[] = {h->row + s->rank, s->op.kind, s->op.stage,
                                           s->op.microbatch, s->start,   s->end};
                fprintf(p->out, "%s%lld", before, value[column]);
            }
        }
        fputc(']', p->out);
    }
}

/* A message on the path is there twice: as what leads from op to op, and on its lane. */
static void put_path(const pair *p) {
    const char *before = "";
    for (int k = 0; k < p->halves; k++) {
        const half *h = &p->half[k];
        for (int i = 0; h->path && i < h->path->length; i++, before = ",") {
            const int32_t entry = h->path->path[i];
            fputs(before, p->out);
            put_entry(p, h, entry);
            if (entry < 0 && h->entry[-1 - entry] >= 0)
                fprintf(p->out, ",%d", h->entry[-1 - entry]);
        }
    }
}

static void put_rows(const pair *p) {
    const char *before = "";
    fputs("\"rows\":[", p->out);
    for (int k = 0; k < p->halves; k++) {
        const half *h = &p->half[k];
        for (int rank = 0; rank < h->t->ranks; rank++, before = ",")
            fprintf(p->out, "%s\"%s rank %d\"", before, h->name, rank);
        for (int lane = 0; lane < h->lanes; lane++, before = ",")
            fprintf(p->out, "%s\"%s link %d to %d\"", before, h->name, h->lane[lane]->from,
                    h->lane[lane]->to);
    }
    fputs("],\"lanes\":[", p->out);
    before = "";
    for (int k = 0; k < p->halves; k++)
        for (int row = 0; row < p->half[k].t->ranks + p->half[k].lanes; row++, before = ",")
            fprintf(p->out, "%s%d", before, row >= p->half[k].t->ranks);
    fputs("]", p->out);
}

/* ---- the whole ---- */

static void extend(const sl_timeline *t, sl_time *begin, sl_time *end) {
    for (int i = 0; i < t->spans; i++) {
        *begin = t->span[i].start < *begin ? t->span[i].start : *begin;
        *end = t->span[i].end > *end ? t->span[i].end : *end;
    }
    for (int i = 0; i < t->collectives; i++)
        *end = t->collective[i].end > *end ? t->collective[i].end : *end;
}

static void put_data(const pair *p, const sl_retraced *r, const char *title) {
    const half *last = &p->half[p->halves - 1];
    sl_time begin = SL_TIME_NEVER, end = 0;
    int stages = 0;
    for (int k = 0; k < p->halves; k++)
        extend(p->half[k].t, &begin, &end);
    for (int i = 0; i < r->measured.spans; i++)
        stages = r->measured.span[i].op.stage >= stages ? r->measured.span[i].op.stage + 1 : stages;
    begin = begin == SL_TIME_NEVER ? 0 : begin;
    fputs("{\"format\":\"slackline-page-1\",\"title\":", p->out);
    sl_put_json(p->out, title);
    fprintf(p->out, ",\"ranks\":%d,\"stages\":%d,\"parts\":1,\"begin_ns\":%lld,\"makespan_ns\":%lld,",
            last->row + last->t->ranks + last->lanes, stages, (long long)begin, (long long)(end - begin));
    put_rows(p);
    fputs(",\"kinds\":[", p->out);
    for (int kind = 0; kind < SL_SPAN_KINDS; kind++)
        fprintf(p->out, "%s\"%s\"", kind ? "," : "", sl_op_name(kind));
    fputs("],\"ops\":{", p->out);
    put_ops(p);
    fputs("},\"transfers\":{", p->out);
    put_transfers(p);
    fputs("},\"collectives\":{", p->out);
    put_collectives(p);
    fputs("},\"path\":[", p->out);
    put_path(p);
    fputs("]}", p->out);
}

static sl_status number(pair *p) {
    int row = 0, op = 0, transfer = 0, collective = 0;
    for (int k = 0; k < p->halves; k++) {
        half *h = &p->half[k];
        h->row = row;
        h->op = op;
        h->transfer = transfer;
        h->collective = collective;
        SL_TRY(find_lanes(h));
        if (h->program)
            SL_TRY(sl_alloc(&h->first, (size_t)h->t->ranks, sizeof *h->first));
        for (int rank = 1; rank < h->t->ranks && h->first; rank++)
            h->first[rank] = h->first[rank - 1] + h->program->rank[rank - 1].steps;
        row += h->t->ranks + h->lanes;
        op += h->t->spans + h->rides;
        transfer += h->program ? h->t->transfers : 0;
        collective += h->t->collectives;
    }
    p->ops = op;
    return SL_OK;
}

sl_status sl_gantt_data(const sl_retraced *r, const char *title, FILE *out) {
    pair p = {.out = out};
    const sl_program *program = r->has_program ? &r->program : NULL;
    if (r->has_predicted)
        p.half[p.halves++] = (half){.name = "predicted",
                                    .t = &r->predicted,
                                    .program = program,
                                    .cause = r->predicted_cause,
                                    .path = &r->predicted_path};
    p.half[p.halves++] = (half){.name = "measured",
                                .t = &r->measured,
                                .program = program,
                                .cause = r->cause,
                                .path = program ? &r->measured_path : NULL};
    sl_status status = number(&p);
    if (status == SL_OK)
        put_data(&p, r, title);
    for (int k = 0; k < p.halves; k++) {
        sl_free(p.half[k].ride);
        sl_free(p.half[k].entry);
        sl_free(p.half[k].lane);
        sl_free(p.half[k].first);
    }
    return status;
}

sl_status sl_gantt_still(const sl_retraced *r, const char *predicted, const char *measured, FILE *out) {
    sl_svg_chart charts[2];
    int count = 0;
    if (r->has_predicted)
        charts[count++] = (sl_svg_chart){&r->predicted, predicted, &r->predicted_path};
    charts[count++] = (sl_svg_chart){&r->measured, measured, r->has_program ? &r->measured_path : NULL};
    return sl_draw_svg_charts(charts, count, out);
}
