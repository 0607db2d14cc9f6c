#include "plan/pipeline/csv_shape.h"
#include "base/file.h"
#include "base/memory.h"
#include "plan/pipeline/csv_read.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    int ranks, stages, microbatches;
    int *owner; /* [SL_MAX_STAGES] rank of a stage; -1: none seen */
} shape;

/* A number of at most `most`; larger ones count as that, and the reader refuses them. */
static int number_at(char **text, int most) {
    long value = strtol(*text, text, 10);
    return value > most ? most : (int)value;
}

/* All ops of a line, wherever they stand: a number, F, I, W or B, and a number. */
static void scan_line(shape *s, char *line, int rank) {
    for (char *at = line; *at;) {
        if (!isdigit((unsigned char)*at)) {
            at++;
            continue;
        }
        int stage = number_at(&at, SL_MAX_STAGES - 1);
        if (!*at || !strchr("FIWB", *at) || !isdigit((unsigned char)at[1]))
            continue;
        at++;
        int microbatch = number_at(&at, SL_MAX_MICROBATCHES - 1);
        s->owner[stage] = rank;
        s->stages = stage + 1 > s->stages ? stage + 1 : s->stages;
        s->microbatches = microbatch + 1 > s->microbatches ? microbatch + 1 : s->microbatches;
    }
}

static int fits_placement(const shape *s, const sl_problem *p) {
    for (int stage = 0; stage < s->stages; stage++)
        if (s->owner[stage] >= 0 && s->owner[stage] != sl_problem_rank(p, stage))
            return 0;
    return 1;
}

/* The first placement that fits; a linear one with two stages on a rank does not exist. */
static sl_status find_placement(const char *file, const shape *s, sl_problem *p) {
    SL_TRY(sl_problem_make(s->ranks, s->stages, s->microbatches, p));
    for (int placement = SL_LINEAR; placement < SL_PLACEMENTS; placement++) {
        p->placement = (sl_placement)placement;
        int fits = placement == SL_LINEAR          ? s->stages == s->ranks
                   : placement == SL_BIDIRECTIONAL ? s->stages == 2 * s->ranks
                                                   : s->stages % s->ranks == 0;
        if (fits && fits_placement(s, p))
            return SL_OK;
    }
    sl_problem_free(p);
    return sl_error(
        SL_EINVAL,
        "%s: no placement has %d stages on %d ranks as its lines have; known: linear, loop, wave, "
        "bidirectional",
        file, s->stages, s->ranks);
}

static sl_status scan(const char *file, char *content, shape *s, sl_problem *problem) {
    for (char *line = content; *line; s->ranks++) {
        char *end = strchr(line, '\n');
        if (end)
            *end = 0;
        scan_line(s, line, s->ranks);
        line = end ? end + 1 : line + strlen(line);
    }
    if (s->stages == 0)
        return sl_error(SL_EINVAL, "%s: holds no ops", file);
    if (s->ranks > SL_MAX_RANKS || (int64_t)s->stages * s->microbatches * 3 > SL_MAX_OPS)
        return sl_error(SL_EINVAL, "%s: %d ranks, %d stages and %d microbatches are too many", file, s->ranks,
                        s->stages, s->microbatches);
    return find_placement(file, s, problem);
}

sl_status sl_csv_shape(const char *file, sl_problem *problem) {
    char *content;
    size_t size;
    shape s = {0};
    sl_status status;
    *problem = (sl_problem){0};
    SL_TRY(sl_file_read_max(file, SL_CSV_BYTES_MAX, &content, &size));
    SL_TRY_GOTO(done, status, sl_alloc(&s.owner, SL_MAX_STAGES, sizeof *s.owner));
    memset(s.owner, -1, SL_MAX_STAGES * sizeof *s.owner);
    status = scan(file, content, &s, problem);
done:
    SL_FREE(content, s.owner);
    return status;
}
