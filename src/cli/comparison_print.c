/* Cells as JSON and CSV. */
#include "cli/comparison.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

double sl_cell_gap(const sl_cell *cell) {
    return cell->bound > 0 ? (double)(cell->makespan - cell->bound) / (double)cell->bound : 0;
}

int sl_cell_is_best(const sl_comparison *c, int value, int schedule) {
    const sl_cell *cells = &c->cell[value * c->schedules], *cell = &cells[schedule];
    for (int k = 0; k < c->schedules; k++)
        if (!cells[k].error && cells[k].makespan < cell->makespan)
            return 0;
    return !cell->error;
}

const char *sl_cell_found_by(const sl_comparison *c, int value, int schedule) {
    const sl_cell *cell = &c->cell[value * c->schedules + schedule];
    if (cell->error || strcmp(cell->planned, c->schedule[schedule].name) == 0)
        return NULL;
    return strcmp(cell->planned, "optimal") == 0 ? "search" : cell->planned;
}

/* ---- JSON ---- */

static json_t *value_json(const sl_sweep *sweep, int value) {
    if (!sweep->key)
        return json_null();
    if (!sweep->is_numeric)
        return json_string(sweep->value[value]);
    int whole = strspn(sweep->value[value], "-0123456789") == strlen(sweep->value[value]);
    return whole && fabs(sweep->number[value]) < 1e15 ? json_integer((json_int_t)sweep->number[value])
                                                      : json_real(sweep->number[value]);
}

/* A cell without a plan has null for every number. */
static json_t *number(const sl_cell *cell, double value) {
    return cell->error ? json_null() : json_real(value);
}

static json_t *row_json(const sl_comparison *c, int value, int schedule) {
    const sl_cell *cell = &c->cell[value * c->schedules + schedule];
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:s, s:s?, s:o, s:o, s:o, s:s?}", "schedule", c->schedule[schedule].text,
        "value", value_json(&c->sweep, value), "makespan_ms", number(cell, sl_to_ms(cell->makespan)),
        "bubble", number(cell, cell->bubble), "peak_memory", number(cell, cell->peak_memory), "placement",
        sl_placement_name(cell->placement), "planned", cell->error ? NULL : cell->planned, "span_ms",
        number(cell, sl_to_ms(cell->span)), "lower_bound_ms", number(cell, sl_to_ms(cell->bound)), "gap",
        number(cell, sl_cell_gap(cell)), "error", cell->error);
}

static sl_status print_json(const sl_comparison *c, FILE *out) {
    json_t *object = json_object(), *rows = json_array();
    int failed = json_object_set_new(object, "rows", rows) != 0;
    for (int value = 0; value < c->sweep.values; value++)
        for (int k = 0; k < c->schedules && !failed; k++)
            failed = json_array_append_new(rows, row_json(c, value, k)) != 0;
    if (!failed) /* 15 digits: 0.1 stays 0.1 */
        failed = json_dumpf(object, out, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) != 0;
    json_decref(object);
    fputc('\n', out);
    return failed ? sl_error(SL_ENOMEM, "out of memory for the comparison's JSON") : SL_OK;
}

/* ---- CSV (RFC 4180) ---- */

static void put_field(FILE *out, const char *text) {
    int quoted = strpbrk(text, ",\"\r\n") != NULL;
    if (quoted)
        fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    if (quoted)
        fputc('"', out);
}

static sl_status print_csv(const sl_comparison *c, FILE *out) {
    fputs(
        "schedule,value,makespan_ms,bubble,peak_memory,placement,planned,span_ms,lower_bound_ms,gap,error\n",
        out);
    for (int i = 0; i < c->sweep.values * c->schedules; i++) {
        const sl_cell *cell = &c->cell[i];
        put_field(out, c->schedule[i % c->schedules].text);
        fputc(',', out);
        put_field(out, c->sweep.key ? c->sweep.value[i / c->schedules] : "");
        if (cell->error) {
            fprintf(out, ",,,,%s,,,,,", sl_placement_name(cell->placement));
            put_field(out, cell->error);
            fputc('\n', out);
        } else {
            fprintf(out, ",%.15g,%.15g,%.15g,%s,%s,%.15g,%.15g,%.15g,\n", sl_to_ms(cell->makespan),
                    cell->bubble, cell->peak_memory, sl_placement_name(cell->placement), cell->planned,
                    sl_to_ms(cell->span), sl_to_ms(cell->bound), sl_cell_gap(cell));
        }
    }
    return ferror(out) ? sl_error_errno(SL_ESYS, "the comparison cannot be written") : SL_OK;
}

/* ---- the choice ---- */

sl_status sl_comparison_print(const sl_comparison *c, const char *format, int width, FILE *out) {
    switch (format[0]) {
    case 'j':
        return print_json(c, out);
    case 'c':
        return print_csv(c, out);
    case 's':
        return sl_comparison_svg(c, NULL, out);
    default:
        return sl_comparison_text(c, width, out);
    }
}
