#include "cli/completion_keys.h"
#include "adapt/campaign/campaign.h"
#include "adapt/topology/topology.h"
#include "base/memory.h"
#include "plan/pipeline/problem.h"
#include "run/file/run.h"

#include <stdlib.h>
#include <string.h>

/* A setting of a campaign whose key begins with pipeline. is one of its problem. */
static void document_campaign(FILE *out) {
    sl_campaign_document(out);
    sl_problem_document(out);
}

static const struct source {
    const char *name, *commands;
    void (*document)(FILE *out);
} sources[SL_COMPLETION_TABLES] = {{"problem", " plan simulate compare balance draw ", sl_problem_document},
                                   {"run", " train ", sl_run_document},
                                   {"cluster", " topology ", sl_cluster_document},
                                   {"campaign", " campaign ", document_campaign}};

/* ---- a row: | `key` | type | default | meaning: `value`, `value` | ---- */

enum { NAME, TYPE, DEFAULT, MEANING, CELLS };

/* 0: it is no such row. */
static int part(char *row, char *cell[CELLS]) {
    if (strncmp(row, "| ", 2) != 0)
        return 0;
    row += 2;
    for (int i = 0; i < CELLS; i++) {
        char *end = strstr(row, i + 1 < CELLS ? " | " : " |");
        if (!end)
            return 0;
        *end = 0;
        cell[i] = row;
        row = end + 3;
    }
    return 1;
}

/* `faults[].rank` as faults.0.rank: *name, without the quotes around it. */
static sl_status take_name(const char *cell, char **name) {
    SL_TRY(sl_alloc(name, strlen(cell) + 1, 1));
    char *to = *name;
    for (const char *c = cell; *c; c++) {
        if (c[0] == '[' && c[1] == ']') {
            *to++ = '.';
            *to++ = '0';
            c++;
        } else if (*c != '`') {
            *to++ = *c;
        }
    }
    return SL_OK;
}

/* What stands in quotes behind the last colon. */
static sl_status take_choices(const char *meaning, char **values) {
    const char *colon = strstr(meaning, ": `");
    for (const char *later = colon; later; later = strstr(later + 1, ": `"))
        colon = later;
    SL_TRY(sl_copy_text(values, colon ? colon + 2 : ""));
    char *to = *values;
    for (const char *c = *values; *c; c++)
        if (*c != '`' && *c != ',')
            *to++ = *c;
    *to = 0;
    return SL_OK;
}

static int is_schedule(const char *name) {
    const char *dot = strrchr(name, '.');
    return strcmp(dot ? dot + 1 : name, "schedule") == 0;
}

static sl_status take_row(char *const cell[CELLS], const char *schedules, sl_completion_key *key) {
    SL_TRY(take_name(cell[NAME], &key->name));
    if (strcmp(cell[TYPE], "choice") == 0)
        SL_TRY(take_choices(cell[MEANING], &key->values));
    else
        SL_TRY(sl_copy_text(&key->values, strcmp(cell[TYPE], "true or false") == 0 ? "true false"
                                          : is_schedule(key->name)                 ? schedules
                                                                                   : ""));
    char *colon = *key->values ? strstr(cell[MEANING], ": `") : NULL;
    if (colon)
        *colon = 0;
    return sl_copy_text(&key->words, cell[MEANING]);
}

/* ---- tables ---- */

static sl_status read_table(const struct source *source, const char *schedules, sl_completion_table *table) {
    char *text;
    size_t size, room = 0;
    *table = (sl_completion_table){.name = source->name, .commands = source->commands};
    FILE *memory = open_memstream(&text, &size);
    if (!memory)
        return sl_error(SL_ENOMEM, "out of memory for completion");
    source->document(memory);
    sl_status status = fclose(memory) == 0 ? SL_OK : sl_error(SL_ENOMEM, "out of memory for completion");
    char *rest = text, *cell[CELLS];
    for (char *row; status == SL_OK && (row = strsep(&rest, "\n")) != NULL;) {
        if (!part(row, cell))
            continue;
        status = sl_grow(&table->key, &room, (size_t)table->count + 1, sizeof *table->key);
        if (status == SL_OK) {
            table->key[table->count] = (sl_completion_key){0};
            status = take_row(cell, schedules, &table->key[table->count++]);
        }
    }
    free(text);
    return status;
}

sl_status sl_completion_keys_read(const char *schedules, sl_completion_table table[SL_COMPLETION_TABLES]) {
    memset(table, 0, SL_COMPLETION_TABLES * sizeof *table);
    for (int i = 0; i < SL_COMPLETION_TABLES; i++)
        SL_TRY(read_table(&sources[i], schedules, &table[i]));
    return SL_OK;
}

void sl_completion_keys_free(sl_completion_table table[SL_COMPLETION_TABLES]) {
    for (int i = 0; i < SL_COMPLETION_TABLES; i++) {
        for (int k = 0; k < table[i].count; k++) {
            SL_FREE(table[i].key[k].name, table[i].key[k].values, table[i].key[k].words);
        }
        sl_free(table[i].key);
    }
}

const char *sl_completion_keys_of(const sl_completion_table table[SL_COMPLETION_TABLES], const char *command,
                                  const sl_help_option *option) {
    char word[64];
    if (strncmp(option->argument, "KEY=", 4) != 0)
        return NULL;
    snprintf(word, sizeof word, " %.60s ", command);
    for (int i = 0; i < SL_COMPLETION_TABLES; i++)
        if (strstr(table[i].commands, word))
            return table[i].name;
    return NULL;
}
