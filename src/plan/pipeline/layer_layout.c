#include "plan/pipeline/layer_layout.h"
#include "base/memory.h"
#include "plan/pipeline/problem.h"

#include <ctype.h>
#include <string.h>

/* Layers, and the bars between stages. */
#define MAX_TEXT (65536 + SL_MAX_STAGES)

/* ---- reading: as megatron-core does, whose two passes replace text ---- */

typedef struct layout_text {
    char *text;
    size_t length, room;
} layout_text;

static sl_status add_times(layout_text *t, const char *text, size_t length, long times) {
    if (length == 0 || times == 0)
        return SL_OK;
    if (times > MAX_TEXT || t->length + length * (size_t)times > MAX_TEXT)
        return sl_error(SL_EINVAL, "the layout has more than %d layers and stages", MAX_TEXT);
    SL_TRY(sl_grow(&t->text, &t->room, t->length + length * (size_t)times + 1, 1));
    for (long i = 0; i < times; i++, t->length += length)
        memcpy(t->text + t->length, text, length);
    t->text[t->length] = 0;
    return SL_OK;
}

/* The n of *n at *at, which moves past it; -1: there is none. */
static long take_times(const char **at) {
    const char *p = *at;
    long times = 0;
    if (p[0] != '*' || !isdigit((unsigned char)p[1]))
        return -1;
    for (p++; isdigit((unsigned char)*p); p++)
        times = times > MAX_TEXT ? times : times * 10 + (*p - '0');
    *at = p;
    return times;
}

/* (xy)*n becomes n times xy, without commas. */
static sl_status repeat_groups(const char *text, layout_text *t) {
    for (const char *at = text; *at;) {
        const char *end = *at == '(' ? strchr(at, ')') : NULL, *after = end ? end + 1 : NULL;
        long times = end && end > at + 1 ? take_times(&after) : -1;
        if (times >= 0) {
            SL_TRY(add_times(t, at + 1, (size_t)(end - at - 1), times));
            at = after;
        } else {
            SL_TRY(add_times(t, at, 1, 1));
            at++;
        }
    }
    return SL_OK;
}

/* x*n becomes n times x. */
static sl_status repeat_letters(const char *text, layout_text *t) {
    for (const char *at = text; *at;) {
        const char *after = at + 1;
        long times = take_times(&after);
        SL_TRY(add_times(t, at, 1, times < 0 ? 1 : times));
        at = after;
    }
    return SL_OK;
}

static sl_status take_stages(const char *text, sl_layer_layout *layout) {
    size_t bars = 0, length = strlen(text);
    for (const char *at = text; *at; at++)
        bars += *at == '|';
    if (bars >= SL_MAX_STAGES)
        return sl_error(SL_EINVAL, "the layout has %zu stages; at most %d", bars + 1, SL_MAX_STAGES);
    SL_TRY(sl_alloc(&layout->first, bars + 2, sizeof *layout->first));
    SL_TRY(sl_alloc(&layout->letter, length + 1, 1));
    layout->stages = 1;
    for (const char *at = text; *at; at++) {
        if (*at == '|')
            layout->first[layout->stages++] = layout->layers;
        else if (strchr(SL_LAYOUT_LETTERS, *at))
            layout->letter[layout->layers++] = *at;
        else
            return sl_error(SL_EINVAL, "the layout has '%c' in stage %d; known: E, t, m, L, | and *n",
                            isprint((unsigned char)*at) ? *at : '?', layout->stages - 1);
    }
    layout->first[layout->stages] = layout->layers;
    return SL_OK;
}

/* What megatron-core asks of a layout, and that each stage has layers. */
static sl_status check_layout(const sl_layer_layout *l) {
    const char *letter = l->letter, *first_mtp = strchr(letter, 'm'), *last_mtp = strrchr(letter, 'm');
    for (int stage = 0; stage < l->stages; stage++)
        if (l->first[stage] == l->first[stage + 1])
            return sl_error(SL_EINVAL, "the layout has no layer in stage %d", stage);
    if (letter[0] != 'E' || strrchr(letter, 'E') != letter)
        return sl_error(SL_EINVAL, "the layout must begin with its only E");
    if (letter[l->layers - 1] != 'L' || strchr(letter, 'L') != letter + l->layers - 1)
        return sl_error(SL_EINVAL, "the layout must end with its only L");
    if (first_mtp && strrchr(letter, 't') > first_mtp)
        return sl_error(SL_EINVAL, "the layout has a t after an m");
    for (int stage = 1; first_mtp && stage < l->stages; stage++)
        if (l->first[stage] > first_mtp - letter && l->first[stage] <= last_mtp - letter)
            return sl_error(SL_EINVAL, "the layout has m in several stages");
    return SL_OK;
}

sl_status sl_layer_layout_parse(const char *text, sl_layer_layout *layout) {
    layout_text plain = {0}, groups = {0}, all = {0};
    sl_status status = SL_OK;
    *layout = (sl_layer_layout){0};
    for (const char *at = text; *at && status == SL_OK; at++)
        status = *at == ',' ? SL_OK : add_times(&plain, at, 1, 1);
    SL_THEN(status, repeat_groups(plain.text ? plain.text : "", &groups));
    SL_THEN(status, repeat_letters(groups.text ? groups.text : "", &all));
    SL_THEN(status, take_stages(all.text ? all.text : "", layout));
    SL_THEN(status, check_layout(layout));
    SL_FREE(plain.text, groups.text, all.text);
    return status;
}

void sl_layer_layout_free(sl_layer_layout *layout) {
    SL_FREE(layout->first, layout->letter);
    *layout = (sl_layer_layout){0};
}

/* ---- writing ---- */

static int is_alike(const char *letter, const int *first, int a, int b) {
    int layers = first[a + 1] - first[a];
    return layers == first[b + 1] - first[b] &&
           memcmp(letter + first[a], letter + first[b], (size_t)layers) == 0;
}

static void write_stage(const char *letter, const int *first, int stage, FILE *out) {
    for (int layer = first[stage], run; layer < first[stage + 1]; layer += run) {
        for (run = 1; layer + run < first[stage + 1] && letter[layer + run] == letter[layer]; run++)
            ;
        if (run > 3)
            fprintf(out, "%c*%d", letter[layer], run);
        else
            fprintf(out, "%.*s", run, letter + layer);
    }
}

void sl_layer_layout_write(const char *letter, const int *first, int stages, FILE *out) {
    for (int stage = 0, run; stage < stages; stage += run) {
        for (run = 1; stage + run < stages && is_alike(letter, first, stage, stage + run); run++)
            ;
        run -= stage + run == stages && run > 1; /* no bar follows the last stage */
        if (run > 2)
            fputc('(', out);
        write_stage(letter, first, stage, out);
        if (run > 2)
            fprintf(out, "|)*%d", run);
        else
            run = 1;
        if (run == 1 && stage + 1 < stages)
            fputc('|', out);
    }
}
