#include "base/config.h"
#include "base/memory.h"
#include "base/suggest.h"

#include <float.h>
#include <limits.h>
#include <string.h>

static const sl_key *find_key(const sl_key *table, const char *name) {
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

enum { MAX_NAMES = 64, DEEPEST = 4, PATH = 128 };

/* Path of a nested key of this name: "batch.microbatches". 0: none. */
static int find_within(const sl_key *table, const char *name, int depth, char path[PATH]) {
    for (const sl_key *key = table; key->name && depth < DEEPEST; key++) {
        char rest[PATH];
        if (!key->section)
            continue;
        const sl_key *found = find_key(key->section, name);
        if (!found && !find_within(key->section, name, depth + 1, rest))
            continue;
        snprintf(path, PATH, "%s%s.%.96s", key->name, key->is_list ? "[]" : "", found ? found->name : rest);
        return 1;
    }
    return 0;
}

static sl_status refuse_unknown(const sl_yaml *child, const sl_key *table) {
    const char *names[MAX_NAMES + 1] = {NULL};
    char path[PATH];
    for (int i = 0; i < MAX_NAMES && table[i].name; i++)
        names[i] = table[i].name;
    const char *near = sl_suggest(child->key, names);
    if (!near && find_within(table, child->key, 0, path))
        near = path;
    if (near)
        return sl_yaml_error(child, "is not a known key; did you mean '%s'?", near);
    return sl_yaml_error(child, "is not a known key");
}

/* `device: cuda` means `device: {kind: cuda}`: the word is a choice of one of the keys. */
static sl_status refuse_no_map(const sl_yaml *node, const sl_key *section) {
    for (const sl_key *key = section; node->kind == SL_YAML_SCALAR && key->name; key++)
        for (int i = 0; key->type == SL_KEY_CHOICE && key->choices[i]; i++)
            if (strcmp(key->choices[i], node->text) == 0)
                return sl_yaml_error(node, "must be a map of keys; did you mean '{%s: %s}'?", key->name,
                                     node->text);
    return sl_yaml_error(node, "must be a map of keys");
}

static sl_status read_choice(const sl_yaml *node, const sl_key *key, int *field) {
    const char *text;
    SL_TRY(sl_yaml_text(node, &text));
    char known[256] = "";
    for (int i = 0; key->choices[i]; i++) {
        if (strcmp(key->choices[i], text) == 0) {
            *field = i;
            return SL_OK;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", key->choices[i]);
    }
    return sl_yaml_error(node, "must be one of %s; got '%.60s'", known, text);
}

static sl_status read_int(const sl_yaml *node, const sl_key *key, int64_t least, int64_t most,
                          int64_t *value) {
    if (key->minimum != 0 || key->maximum != 0) {
        least = (int64_t)key->minimum;
        most = key->maximum >= 9e18 ? most : (int64_t)key->maximum;
    }
    return sl_yaml_int(node, least, most, value);
}

sl_status sl_config_read_value(const sl_yaml *node, const sl_key *key, void *object) {
    void *field = (char *)object + key->offset;
    int64_t whole;
    switch (key->type) {
    case SL_KEY_INT:
        SL_TRY(read_int(node, key, INT_MIN, INT_MAX, &whole));
        *(int *)field = (int)whole;
        return SL_OK;
    case SL_KEY_INT64:
        SL_TRY(read_int(node, key, INT64_MIN, INT64_MAX, &whole));
        *(int64_t *)field = whole;
        return SL_OK;
    case SL_KEY_REAL: {
        int bounded = key->minimum != 0 || key->maximum != 0;
        return sl_yaml_real(node, bounded ? key->minimum : -DBL_MAX, bounded ? key->maximum : DBL_MAX, field);
    }
    case SL_KEY_BOOL:
        return sl_yaml_bool(node, field);
    case SL_KEY_TEXT: {
        const char *text;
        char *copy;
        SL_TRY(sl_yaml_text(node, &text));
        SL_TRY(sl_copy_text(&copy, text));
        sl_free(*(char **)field);
        *(char **)field = copy;
        return SL_OK;
    }
    case SL_KEY_CHOICE:
        return read_choice(node, key, field);
    case SL_KEY_SECTION:
        if (node->kind != SL_YAML_MAP)
            return refuse_no_map(node, key->section);
        return sl_config_read(node, node->key, key->section, field);
    case SL_KEY_CUSTOM:
        return key->parse ? key->parse(node, object) : SL_OK;
    }
    return sl_yaml_error(node, "has a table entry of an unknown type");
}

static sl_status read_default(const sl_key *key, void *object) {
    if (key->type == SL_KEY_SECTION)
        return sl_config_read(NULL, key->name, key->section, (char *)object + key->offset);
    if (!key->standard || key->type == SL_KEY_CUSTOM)
        return SL_OK;
    char name[64], text[256];
    snprintf(name, sizeof name, "%s", key->name);
    snprintf(text, sizeof text, "%s", key->standard);
    const sl_yaml node = {.kind = SL_YAML_SCALAR, .file = "default", .key = name, .text = text};
    return sl_config_read_value(&node, key, object);
}

sl_status sl_config_read(const sl_yaml *map, const char *where, const sl_key *table, void *object) {
    if (map && map->kind != SL_YAML_MAP)
        return sl_yaml_error(map, "must be a map of keys");
    for (int i = 0; map && i < map->children; i++)
        if (!find_key(table, map->child[i]->key))
            return refuse_unknown(map->child[i], table);
    for (const sl_key *key = table; key->name; key++) {
        const sl_yaml *child = sl_yaml_find(map, key->name);
        if (child) {
            SL_TRY(sl_config_read_value(child, key, object));
        } else if (key->required) {
            return map && map->line > 0 ? sl_error(SL_EINVAL, "%s:%d: '%s' is missing in '%s'", map->file,
                                                   map->line, key->name, where)
                                        : sl_error(SL_EINVAL, "%s%s'%s' is missing in '%s'",
                                                   map ? map->file : "", map ? ": " : "", key->name, where);
        } else {
            SL_TRY(read_default(key, object));
        }
    }
    return SL_OK;
}

void sl_config_free(const sl_key *table, void *object) {
    for (const sl_key *key = table; key->name; key++) {
        void *field = (char *)object + key->offset;
        if (key->type == SL_KEY_TEXT) {
            sl_free(*(char **)field);
            *(char **)field = NULL;
        } else if (key->type == SL_KEY_SECTION) {
            sl_config_free(key->section, field);
        }
    }
}

void sl_config_visit(const sl_key *table, const char *path, sl_key_visit visit, void *context) {
    for (const sl_key *key = table; key->name; key++) {
        if (key->type != SL_KEY_SECTION)
            visit(path, key, context);
        if (key->section) {
            char inner[256];
            snprintf(inner, sizeof inner, "%s%s%s.", path, key->name, key->is_list ? "[]" : "");
            sl_config_visit(key->section, inner, visit, context);
        }
    }
}
