#include "dashboard/telling.h"
#include "base/memory.h"
#include "report/thin.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void put_number(FILE *out, double value) {
    if (isfinite(value))
        fprintf(out, "%.6g", value);
    else
        fputs("null", out);
}

/* Bytes that are no UTF-8 become question marks: the text may come from any file. */
static void put_text(FILE *out, const char *text) {
    json_t *string = json_string(text);
    if (!string) {
        char *copy = strdup(text);
        for (char *c = copy; c && *c; c++)
            if ((unsigned char)*c >= 0x80)
                *c = '?';
        string = copy ? json_string(copy) : NULL;
        free(copy);
    }
    char *said = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    fputs(said ? said : "\"\"", out);
    free(said);
    json_decref(string);
}

static void put_texts(FILE *out, const char *key, char *const *text, size_t first, size_t count) {
    fprintf(out, ",\"%s\":[", key);
    for (size_t i = first; i < count; i++) {
        fputs(i > first ? "," : "", out);
        put_text(out, text[i]);
    }
    fputc(']', out);
}

/* ---- scalars ---- */

static void put_field(FILE *out, const char *key, double value) {
    fprintf(out, ",\"%s\":", key);
    put_number(out, value);
}

static void put_word(FILE *out, const char *key, const char *text) {
    fprintf(out, ",\"%s\":", key);
    put_text(out, text);
}

static const char *name_of(const sl_board *b, int index) {
    return index >= 0 ? b->name[index] : "";
}

static void put_setup(FILE *out, const sl_board *b) {
    fprintf(out,
            ",\"setup\":{\"pipeline\":%d,\"data\":%d,\"tensor\":%d,\"microbatches\":%d,\"iterations\":%d,"
            "\"adapt\":%d",
            b->pipeline, b->data, b->tensor, b->microbatches, b->iterations, b->adapt);
    put_word(out, "placement", b->placement);
    put_word(out, "model", b->model);
    put_word(out, "program", b->program);
    fputc('}', out);
}

static void put_head(FILE *out, const sl_board *b) {
    fprintf(out, ",\"head\":{\"iteration\":%" PRId64 ",\"delegates\":%d,\"late\":%d,\"slow\":%d",
            b->iteration, b->delegates, b->late, b->slow);
    put_field(out, "time", b->time);
    put_field(out, "predicted", b->predicted);
    put_field(out, "healthy", b->healthy);
    put_field(out, "level", b->level);
    put_field(out, "loss", b->loss);
    put_field(out, "validation", b->validation);
    put_field(out, "tokens", b->tokens);
    put_field(out, "caught", b->caught);
    put_word(out, "schedule", name_of(b, b->schedule));
    put_word(out, "phase", name_of(b, b->phase));
    put_word(out, "unread", b->unread);
    fprintf(out,
            ",\"since\":%" PRId64 ",\"onset\":%" PRId64 ",\"onsets\":%" PRId64 ",\"reliefs\":%" PRId64
            ",\"swaps\":%" PRId64 ",\"restarts\":%" PRId64 ",\"nodes\":%d,\"period\":%d,\"connected\":%d,"
            "\"calls\":%" PRId64 ",\"lost\":%" PRId64 ",\"holds\":%d,\"damaged\":%" PRId64 "}",
            b->schedule_since, b->onset, b->onsets, b->reliefs, b->swaps, b->restarts, b->nodes, b->period,
            b->connected, b->calls, b->lost, b->holds, b->damaged);
}

static void put_blames(FILE *out, const sl_board *b) {
    fputs(",\"suspects\":[", out);
    for (size_t i = 0; i < b->blames; i++) {
        const sl_board_blame *w = &b->blame[i];
        fprintf(out,
                "%s{\"verdict\":%d,\"rank\":%d,\"from\":%d,\"to\":%d,\"both\":%d,\"replica\":%d,"
                "\"iteration\":%" PRId64,
                i ? "," : "", w->verdict, w->rank, w->from, w->to, w->both, w->replica, w->iteration);
        put_word(out, "component", w->component);
        put_word(out, "text", w->text);
        fputc('}', out);
    }
    fputc(']', out);
}

static void put_scalars(FILE *out, const sl_board *b) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    fprintf(out, "{\"at\":%" PRId64 ",\"state\":\"%s\"", (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000,
            sl_board_state_name(b->state));
    put_word(out, "why", b->why);
    put_head(out, b);
    put_blames(out, b);
}

/* ---- lists ---- */

static void put_row(FILE *out, const sl_board_row *r) {
    fprintf(out, "[%" PRId64 ",", r->iteration);
    put_number(out, (double)r->time);
    fputc(',', out);
    put_number(out, (double)r->predicted);
    fputc(',', out);
    put_number(out, r->loss);
    fprintf(out, ",%d,%d,%d]", r->schedule, r->phase, r->late);
}

static void put_rows(FILE *out, const sl_board *b, size_t first, const size_t *index, size_t count) {
    fputs(",\"rows\":[", out);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? "," : "", out);
        put_row(out, &b->row[index ? index[i] : first + i]);
    }
    fputc(']', out);
}

/* Of many, those that show all peaks; without memory for that the last ones. */
static void put_drawn_rows(FILE *out, const sl_board *b) {
    double *time = NULL;
    size_t *index = NULL;
    if (b->rows > SL_TELLING_ROWS && sl_alloc(&time, b->rows, sizeof *time) == SL_OK &&
        sl_alloc(&index, b->rows, sizeof *index) == SL_OK) {
        for (size_t i = 0; i < b->rows; i++)
            time[i] = (double)b->row[i].time;
        put_rows(out, b, 0, index, sl_thin(time, b->rows, SL_TELLING_ROWS, index));
    } else {
        size_t first = b->rows > SL_TELLING_ROWS ? b->rows - SL_TELLING_ROWS : 0;
        put_rows(out, b, first, NULL, b->rows - first);
    }
    SL_FREE(time, index);
}

static void put_events(FILE *out, const sl_board *b, size_t first) {
    fputs(",\"events\":[", out);
    for (size_t i = first; i < b->events; i++)
        fprintf(out, "%s%s", i > first ? "," : "", b->event[i]); /* is JSON */
    fputc(']', out);
}

static void put_rank(FILE *out, const sl_board *b, size_t i) {
    const sl_board_rank *r = &b->rank[i];
    fprintf(out, "[%zu,", i);
    put_number(out, (double)r->time.now);
    fputc(',', out);
    put_number(out, (double)r->time.usual);
    fprintf(out, ",%d,%d,%d]", (int)sl_board_rank_health(b, r), r->host, r->pid);
}

static void put_link(FILE *out, const sl_board *b, size_t i) {
    const sl_board_link *l = &b->link[i];
    fprintf(out, "[%zu,%d,%d,%d,", i, l->from, l->to, l->replica);
    put_number(out, (double)l->latency);
    fputc(',', out);
    put_number(out, (double)l->transfer);
    fputc(',', out);
    put_number(out, (double)l->time.now);
    fputc(',', out);
    put_number(out, (double)l->time.usual);
    fprintf(out, ",%d,%" PRId64 ",%" PRId64 "]", (int)sl_board_link_health(l), l->messages, l->bytes);
}

static void put_ranks(FILE *out, const sl_board *b, int all) {
    int some = 0;
    fputs(",\"ranks\":[", out);
    for (size_t i = 0; i < b->ranks; i++)
        if (all || b->rank[i].changed) {
            fputs(some++ ? "," : "", out);
            put_rank(out, b, i);
        }
    fputc(']', out);
}

static void put_links(FILE *out, const sl_board *b, int all) {
    int some = 0;
    fputs(",\"links\":[", out);
    for (size_t i = 0; i < b->links; i++)
        if (all || b->link[i].changed) {
            fputs(some++ ? "," : "", out);
            put_link(out, b, i);
        }
    fputc(']', out);
}

/* ---- all of it ---- */

static char *finish(FILE *out, char **text) {
    fputc('}', out);
    if (fclose(out) == 0)
        return *text;
    free(*text);
    return NULL;
}

char *sl_telling_whole(const sl_board *b) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    put_scalars(out, b);
    fprintf(out, ",\"version\":\"%s\",\"cluster\":%d", SL_VERSION, b->is_cluster);
    put_word(out, "source", b->source);
    put_setup(out, b);
    put_texts(out, "names", b->name, 0, b->names);
    put_texts(out, "hosts", b->host, 0, b->hosts);
    put_drawn_rows(out, b);
    put_events(out, b, b->events > SL_TELLING_EVENTS ? b->events - SL_TELLING_EVENTS : 0);
    put_texts(out, "lines", b->line, b->lines > SL_TELLING_LINES ? b->lines - SL_TELLING_LINES : 0, b->lines);
    put_ranks(out, b, 1);
    put_links(out, b, 1);
    return finish(out, &text);
}

static int mark_told(sl_board *b) {
    int some = 0;
    for (size_t i = 0; i < b->ranks; i++) {
        sl_board_rank *r = &b->rank[i];
        some |= r->changed;
        if (r->changed) {
            r->time.told = r->time.now;
            r->told_health = (int)sl_board_rank_health(b, r);
        }
        r->changed = 0;
    }
    for (size_t i = 0; i < b->links; i++) {
        sl_board_link *l = &b->link[i];
        some |= l->changed;
        if (l->changed) {
            l->time.told = l->time.now;
            l->told_health = (int)sl_board_link_health(l);
        }
        l->changed = 0;
    }
    b->row_told = b->rows;
    b->event_told = b->events;
    b->line_told = b->lines;
    return some;
}

static int anything(const sl_board *b, int64_t version) {
    if (b->version != version)
        return 1;
    for (size_t i = 0; i < b->ranks; i++)
        if (b->rank[i].changed)
            return 1;
    for (size_t i = 0; i < b->links; i++)
        if (b->link[i].changed)
            return 1;
    return 0;
}

char *sl_telling_change(sl_board *b, int64_t *version, int *renewed) {
    char *text = NULL;
    size_t size = 0;
    *renewed = b->renewed || b->rows - b->row_told > SL_TELLING_ROWS;
    if (*renewed) {
        b->renewed = 0;
        *version = b->version;
        mark_told(b);
        return NULL;
    }
    if (!anything(b, *version))
        return NULL;
    *version = b->version;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    put_scalars(out, b);
    put_texts(out, "names", b->name, 0, b->names);
    put_rows(out, b, b->row_told, NULL, b->rows - b->row_told);
    put_events(out, b, b->event_told);
    put_texts(out, "lines", b->line, b->line_told, b->lines);
    put_ranks(out, b, 0);
    put_links(out, b, 0);
    mark_told(b);
    return finish(out, &text);
}
