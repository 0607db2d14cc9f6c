#include "report/gantt.h"
#include "base/memory.h"
#include "plan/draw/escape.h"
#include "plan/draw/lanes.h"
#include "plan/draw/svg.h"

/* One timeline on the page: where its rows, ops, messages and collectives begin. */
typedef struct half {
    const char *name;
    const sl_timeline *t;
    const sl_program *program; /* NULL: none */
    const int32_t *cause;      /* [spans]; NULL: not known */
    int *first;                /* [ranks] first span; NULL without a program */
    const sl_highlight *path;
    sl_lanes lanes;
    int *entry; /* [transfers] op of the page; -1: it took no time */
    int row, op, transfer, collective;
} half;

typedef struct pair {
    half half[2];
    int halves, ops; /* of both */
    FILE *out;
} pair;

/* The messages' numbers on the page, behind those of the ops. */
static sl_status find_lanes(half *h) {
    SL_TRY(sl_lanes_make(h->t, &h->lanes));
    SL_TRY(sl_alloc(&h->entry, (size_t)h->t->transfers, sizeof *h->entry));
    for (int i = 0; i < h->t->transfers; i++)
        h->entry[i] = -1;
    for (int i = 0; i < h->lanes.rides; i++)
        h->entry[h->lanes.ride[i].transfer] = h->op + h->t->spans + i;
    return SL_OK;
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
    const sl_ride *r = &h->lanes.ride[i];
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
            for (int i = 0; i < h->lanes.rides; i++, before = ",") {
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
        for (int lane = 0; lane < h->lanes.lanes; lane++, before = ",")
            fprintf(p->out, "%s\"%s link %d to %d\"", before, h->name, h->lanes.lane[lane]->from,
                    h->lanes.lane[lane]->to);
    }
    fputs("],\"lanes\":[", p->out);
    before = "";
    for (int k = 0; k < p->halves; k++)
        for (int row = 0; row < p->half[k].t->ranks + p->half[k].lanes.lanes; row++, before = ",")
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
            last->row + last->t->ranks + last->lanes.lanes, stages, (long long)begin,
            (long long)(end - begin));
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
        row += h->t->ranks + h->lanes.lanes;
        op += h->t->spans + h->lanes.rides;
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
        sl_lanes_free(&p.half[k].lanes);
        sl_free(p.half[k].entry);
        sl_free(p.half[k].first);
    }
    return status;
}

void sl_gantt_title(const char *name, const sl_timeline *t, const char *what, char *text, size_t size) {
    snprintf(text, size, "%s: ops %.6g ms, bubble %.1f %%%s%s%s", name, sl_to_ms(sl_timeline_makespan(t)),
             100 * sl_timeline_bubble(t), *what ? " (" : "", what, *what ? ")" : "");
}

sl_status sl_gantt_still(const sl_retraced *r, const char *predicted, const char *measured, FILE *out) {
    sl_svg_chart charts[2];
    return sl_draw_svg_charts(charts, sl_gantt_charts(r, predicted, measured, charts), NULL, out);
}

int sl_gantt_charts(const sl_retraced *r, const char *predicted, const char *measured, sl_svg_chart *charts) {
    int count = 0;
    if (r->has_predicted)
        charts[count++] =
            (sl_svg_chart){.timeline = &r->predicted, .title = predicted, .highlight = &r->predicted_path};
    charts[count++] = (sl_svg_chart){
        .timeline = &r->measured, .title = measured, .highlight = r->has_program ? &r->measured_path : NULL};
    return count;
}
