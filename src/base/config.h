/* Config tables: one table of keys (name, type, default, destination, help) reads a map of a file, rejects
 * unknown keys, and gives docs/reference/ and completion. A new key is one line in a table. */
#pragma once

#include "base/yaml.h"
#include <stddef.h>
#include <stdio.h>

typedef enum sl_key_type {
    SL_KEY_INT,     /* int */
    SL_KEY_INT64,   /* int64_t, for seeds and bytes */
    SL_KEY_REAL,    /* double */
    SL_KEY_BOOL,    /* int, 0 or 1 */
    SL_KEY_TEXT,    /* char *, owned by the object; free with sl_config_free */
    SL_KEY_CHOICE,  /* int: index into `choices`, a NULL-terminated list */
    SL_KEY_SECTION, /* a map with its own table; offset is relative to the enclosing object */
    SL_KEY_CUSTOM   /* `parse` reads the node; absent optional keys are not visited; NULL: the caller reads it
                     */
} sl_key_type;

typedef struct sl_key {
    const char *name;
    sl_key_type type;
    int required;
    const char *standard; /* default as written in the file; NULL: leave the field as it is */
    size_t offset;
    double minimum, maximum;      /* numbers; both 0: any finite one (INT: any int) */
    const char *const *choices;   /* CHOICE */
    const struct sl_key *section; /* SECTION: its table; CUSTOM: optional, for the documentation only */
    int is_list;                  /* `section` describes each item; for the documentation and completion */
    sl_status (*parse)(const sl_yaml *node, void *object);
    const char *help; /* one line, with the unit */
} sl_key;

/* A table ends with an entry whose name is NULL. */

/** Reads `map` (NULL: an empty one; `where` names it in errors about missing keys) into `object` after the
 * table, defaults first. SL_EINVAL names file, line and key. TEXT fields must be NULL or owned before. */
sl_status sl_config_read(const sl_yaml *map, const char *where, const sl_key *table, void *object);

/** Reads one value into `object` after its row, for a key that holds a value or a map. Errors likewise. */
sl_status sl_config_read_value(const sl_yaml *node, const sl_key *key, void *object);

/** Frees the TEXT fields of `object` that the table names. */
void sl_config_free(const sl_key *table, void *object);

/* A key that a file may set: the path of the map that holds it ("", "pipeline.links.list[].") and its row. */
typedef void (*sl_key_visit)(const char *path, const sl_key *key, void *context);

/** Visits all keys of a table whose map is at `path`, and those of its sections, in their order. */
void sl_config_visit(const sl_key *table, const char *path, sl_key_visit visit, void *context);
