#include "base/yaml.h"
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* No honest file reaches these limits, which bound recursion, time and memory below. */
#define DEEPEST 64                  /* nesting */
#define MAX_KEYS 4096               /* of one map: each is compared with all earlier ones */
#define MAX_NODES 10000000          /* of a file */
#define MAX_BYTES ((size_t)1 << 28) /* of a file */

static void node_free(sl_yaml *node) {
    if (!node)
        return;
    for (int i = 0; i < node->children; i++)
        node_free(node->child[i]);
    SL_FREE(node->child, node->key, node->text, node);
}

static sl_status node_make(sl_yaml_kind kind, const char *file, int line, sl_yaml **node) {
    SL_TRY(sl_alloc(node, 1, sizeof **node));
    (*node)->kind = kind;
    (*node)->file = file;
    (*node)->line = line;
    return SL_OK;
}

/* Takes ownership of the child, also on failure. */
static sl_status node_append(sl_yaml *parent, sl_yaml *child) {
    size_t capacity = (size_t)parent->children;
    if ((parent->children & (parent->children - 1)) == 0 ||
        parent->children < 8) { /* full at powers of two */
        sl_status status =
            sl_grow(&parent->child, &capacity, (size_t)parent->children + 1, sizeof *parent->child);
        if (status != SL_OK) {
            node_free(child);
            return status;
        }
    }
    parent->child[parent->children++] = child;
    return SL_OK;
}

const sl_yaml *sl_yaml_find(const sl_yaml *map, const char *key) {
    for (int i = 0; map && map->kind == SL_YAML_MAP && i < map->children; i++)
        if (strcmp(map->child[i]->key, key) == 0)
            return map->child[i];
    return NULL;
}

/* ---- from libyaml's events to nodes ---- */

typedef struct yaml_reader {
    yaml_parser_t parser;
    yaml_event_t event;
    int has_event;
    const char *file;
    const char *text; /* the parsed text */
    size_t size;
    int nodes;
} yaml_reader;

/* Encoding errors only have an offset. */
static size_t error_line(const yaml_reader *r) {
    size_t line = 1, end = r->parser.problem_offset < r->size ? r->parser.problem_offset : r->size;
    if (r->parser.error != YAML_READER_ERROR)
        return r->parser.problem_mark.line + 1;
    for (size_t i = 0; i < end; i++)
        line += r->text[i] == '\n';
    return line;
}

static sl_status next_event(yaml_reader *r) {
    if (r->has_event)
        yaml_event_delete(&r->event);
    r->has_event = 0;
    if (!yaml_parser_parse(&r->parser, &r->event))
        return sl_error(SL_EINVAL, "%s:%zu: invalid YAML: %s%s%s", r->file, error_line(r),
                        r->parser.problem ? r->parser.problem : "unreadable", r->parser.context ? ", " : "",
                        r->parser.context ? r->parser.context : "");
    r->has_event = 1;
    return SL_OK;
}

static int event_line(const yaml_reader *r) {
    return (int)r->event.start_mark.line + 1;
}

static sl_status read_node(yaml_reader *r, int depth, sl_yaml **out);

/* A tag would change the type of a value; an anchor is for an alias. */
static sl_status refuse_decoration(const yaml_reader *r) {
    const yaml_char_t *tag = NULL, *anchor = NULL;
    if (r->event.type == YAML_SCALAR_EVENT) {
        tag = r->event.data.scalar.tag;
        anchor = r->event.data.scalar.anchor;
    } else if (r->event.type == YAML_SEQUENCE_START_EVENT) {
        tag = r->event.data.sequence_start.tag;
        anchor = r->event.data.sequence_start.anchor;
    } else if (r->event.type == YAML_MAPPING_START_EVENT) {
        tag = r->event.data.mapping_start.tag;
        anchor = r->event.data.mapping_start.anchor;
    } else {
        return sl_error(SL_EINVAL, "%s:%d: aliases are not read", r->file, event_line(r));
    }
    if (!tag && !anchor)
        return SL_OK;
    return sl_error(SL_EINVAL, "%s:%d: %s ('%.60s') are not read", r->file, event_line(r),
                    tag ? "tags" : "anchors", (const char *)(tag ? tag : anchor));
}

static sl_status read_scalar(yaml_reader *r, sl_yaml *node) {
    size_t length = r->event.data.scalar.length;
    if (memchr(r->event.data.scalar.value, 0, length))
        return sl_error(SL_EINVAL, "%s:%d: a text must not hold a zero byte", r->file, node->line);
    node->quoted = r->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return sl_copy_text(&node->text, (const char *)r->event.data.scalar.value);
}

static sl_status read_pair(yaml_reader *r, int depth, sl_yaml *map) {
    SL_TRY(refuse_decoration(r));
    if (r->event.type != YAML_SCALAR_EVENT)
        return sl_error(SL_EINVAL, "%s:%d: a key must be a plain text", r->file, event_line(r));
    const char *name = (const char *)r->event.data.scalar.value;
    if (memchr(name, 0, r->event.data.scalar.length))
        return sl_error(SL_EINVAL, "%s:%d: a key must not hold a zero byte", r->file, event_line(r));
    if (sl_yaml_find(map, name))
        return sl_error(SL_EINVAL, "%s:%d: duplicate key '%.60s'", r->file, event_line(r), name);
    if (map->children == MAX_KEYS)
        return sl_error(SL_EINVAL, "%s:%d: key '%.60s' is one too many; a map has at most %d", r->file,
                        event_line(r), name, MAX_KEYS);
    int line = event_line(r);
    char *key;
    SL_TRY(sl_copy_text(&key, name));
    sl_yaml *child = NULL;
    sl_status status = next_event(r);
    SL_THEN(status, read_node(r, depth + 1, &child));
    if (status != SL_OK) {
        sl_free(key);
        node_free(child);
        return status;
    }
    child->key = key;
    child->line = line;
    return node_append(map, child);
}

static sl_status read_children(yaml_reader *r, int depth, sl_yaml *node) {
    yaml_event_type_t end = node->kind == SL_YAML_MAP ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    for (;;) {
        SL_TRY(next_event(r));
        if (r->event.type == end)
            return SL_OK;
        if (node->kind == SL_YAML_MAP) {
            SL_TRY(read_pair(r, depth, node));
        } else {
            sl_yaml *child = NULL;
            sl_status status = read_node(r, depth + 1, &child);
            if (status != SL_OK) {
                node_free(child);
                return status;
            }
            SL_TRY(node_append(node, child));
        }
    }
}

static sl_status read_node(yaml_reader *r, int depth, sl_yaml **out) {
    if (depth > DEEPEST)
        return sl_error(SL_EINVAL, "%s:%d: nested deeper than %d", r->file, event_line(r), DEEPEST);
    SL_TRY(refuse_decoration(r));
    if (++r->nodes > MAX_NODES)
        return sl_error(SL_EINVAL, "%s:%d: more than %d values in a file", r->file, event_line(r), MAX_NODES);
    switch (r->event.type) {
    case YAML_SCALAR_EVENT:
        SL_TRY(node_make(SL_YAML_SCALAR, r->file, event_line(r), out));
        return read_scalar(r, *out);
    case YAML_SEQUENCE_START_EVENT:
        SL_TRY(node_make(SL_YAML_LIST, r->file, event_line(r), out));
        return read_children(r, depth, *out);
    default: /* refuse_decoration rejects everything else */
        SL_TRY(node_make(SL_YAML_MAP, r->file, event_line(r), out));
        return read_children(r, depth, *out);
    }
}

static sl_status read_stream(yaml_reader *r, sl_yaml **root) {
    SL_TRY(next_event(r)); /* stream start */
    SL_TRY(next_event(r));
    if (r->event.type == YAML_STREAM_END_EVENT)
        return sl_error(SL_EINVAL, "%s: the file is empty", r->file);
    SL_TRY(next_event(r)); /* after document start */
    SL_TRY(read_node(r, 0, root));
    SL_TRY(next_event(r)); /* document end */
    SL_TRY(next_event(r));
    if (r->event.type != YAML_STREAM_END_EVENT)
        return sl_error(SL_EINVAL, "%s:%d: more than one document", r->file, event_line(r));
    return SL_OK;
}

static sl_status parse(const char *file, const char *text, size_t size, sl_yaml **root) {
    yaml_reader r = {.file = file, .text = text, .size = size};
    *root = NULL;
    if (!yaml_parser_initialize(&r.parser))
        return sl_error(SL_ENOMEM, "out of memory");
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, size);
    sl_status status = read_stream(&r, root);
    if (r.has_event)
        yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    if (status != SL_OK) {
        node_free(*root);
        *root = NULL;
    }
    return status;
}

static sl_status document_fill(const char *name, const char *text, size_t size, sl_document *document) {
    SL_TRY(sl_copy_text(&document->file, name));
    SL_TRY(parse(document->file, text, size, &document->root));
    if (document->root->kind != SL_YAML_MAP)
        return sl_error(SL_EINVAL, "%s:%d: the file must be a map of keys", name, document->root->line);
    return SL_OK;
}

sl_status sl_document_parse(const char *name, const char *text, sl_document *document) {
    *document = (sl_document){0};
    return document_fill(name, text, strlen(text), document);
}

sl_status sl_document_read(const char *file, sl_document *document) {
    *document = (sl_document){0};
    char *content;
    size_t size;
    SL_TRY(sl_file_read_max(file, MAX_BYTES, &content, &size));
    sl_status status =
        document_fill(strcmp(file, "-") == 0 ? "standard input" : file, content, size, document);
    sl_free(content);
    return status;
}

void sl_document_close(sl_document *document) {
    node_free(document->root);
    sl_free(document->file);
    *document = (sl_document){0};
}

/* ---- --set ---- */

/* The node in `parent` named by `step`, created (as an empty map) if allowed. */
static sl_status descend(sl_document *document, const char *assignment, sl_yaml *parent, const char *step,
                         sl_yaml ***slot) {
    if (parent->kind == SL_YAML_LIST) {
        char *end;
        errno = 0;
        long index = strtol(step, &end, 10);
        if (*step < '0' || *step > '9' || *end || errno || index > parent->children)
            return sl_error(SL_EINVAL, "--set %s: '%s' is not an index of a list of %d", assignment, step,
                            parent->children);
        if (index == parent->children) {
            sl_yaml *made;
            SL_TRY(node_make(SL_YAML_MAP, document->file, 0, &made));
            SL_TRY(node_append(parent, made));
        }
        *slot = &parent->child[index];
        return SL_OK;
    }
    if (parent->kind != SL_YAML_MAP)
        return sl_error(SL_EINVAL, "--set %s: a value ('%s') cannot have keys", assignment, step);
    for (int i = 0; i < parent->children; i++)
        if (strcmp(parent->child[i]->key, step) == 0) {
            *slot = &parent->child[i];
            return SL_OK;
        }
    sl_yaml *made;
    SL_TRY(node_make(SL_YAML_MAP, document->file, 0, &made));
    sl_status status = sl_copy_text(&made->key, step);
    if (status != SL_OK) {
        node_free(made);
        return status;
    }
    SL_TRY(node_append(parent, made));
    *slot = &parent->child[parent->children - 1];
    return SL_OK;
}

static sl_status set_path(sl_document *document, const char *assignment, char *path, sl_yaml *value) {
    sl_yaml *parent = document->root;
    int depth = 0;
    for (char *step = path;; depth++) {
        char *dot = strchr(step, '.');
        if (depth > DEEPEST)
            return sl_error(SL_EINVAL, "--set %.60s: nested deeper than %d", assignment, DEEPEST);
        if (dot)
            *dot = 0;
        if (!*step)
            return sl_error(SL_EINVAL, "--set %s: an empty part in the key", assignment);
        sl_yaml **slot = NULL;
        SL_TRY(descend(document, assignment, parent, step, &slot));
        if (!dot) {
            value->key = (*slot)->key;
            (*slot)->key = NULL;
            node_free(*slot);
            *slot = value;
            return SL_OK;
        }
        parent = *slot;
        step = dot + 1;
    }
}

static void mark_as_set(sl_yaml *node, const char *file) {
    node->line = 0;
    node->file = file;
    for (int i = 0; i < node->children; i++)
        mark_as_set(node->child[i], file);
}

sl_status sl_document_set(sl_document *document, const char *assignment) {
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment)
        return sl_error(SL_EINVAL, "--set %s: must be KEY=VALUE", assignment);
    if (!equals[1 + strspn(equals + 1, " \t\r\n")])
        return sl_error(SL_EINVAL, "--set %s: a value is missing after the =", assignment);
    char *path;
    SL_TRY(sl_copy_text(&path, assignment));
    path[equals - assignment] = 0;
    sl_yaml *value = NULL;
    sl_status status = parse("--set", equals + 1, strlen(equals + 1), &value);
    if (status == SL_EINVAL)
        status = sl_error(status, "--set %s: the value is not valid YAML", assignment);
    if (status == SL_OK) {
        mark_as_set(value, document->file);
        status = set_path(document, assignment, path, value);
        if (status != SL_OK)
            node_free(value);
    }
    sl_free(path);
    return status;
}

sl_status sl_document_set_all(sl_document *document, const char *const *assignment, int count) {
    for (int i = 0; i < count; i++)
        SL_TRY(sl_document_set(document, assignment[i]));
    return SL_OK;
}

/* ---- scalars ---- */

sl_status sl_yaml_error(const sl_yaml *node, const char *format, ...) {
    char text[512], where[384];
    size_t name = strlen(node->file), most = sizeof where - 32; /* of a long path, the end with the name */
    const char *file = name > most ? node->file + (name - most) : node->file;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (node->line > 0)
        snprintf(where, sizeof where, "%s:%d", file, node->line);
    else
        snprintf(where, sizeof where, "%s (--set)", file);
    return node->key ? sl_error(SL_EINVAL, "%s: '%.60s' %s", where, node->key, text)
                     : sl_error(SL_EINVAL, "%s: %s", where, text);
}

/* YAML readers disagree on 010: some read eight, others ten. */
static int has_leading_zero(const char *text) {
    text += *text == '+' || *text == '-';
    return text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

static int is_decimal(const char *text) {
    return *text && strspn(text, "0123456789+-.eE") == strlen(text) && !has_leading_zero(text);
}

sl_status sl_yaml_real(const sl_yaml *node, double minimum, double maximum, double *value) {
    if (node->kind != SL_YAML_SCALAR)
        return sl_yaml_error(node, "must be a number");
    char *end = node->text;
    double read = is_decimal(node->text) && !node->quoted ? strtod(node->text, &end) : 0;
    if (end == node->text || *end || !isfinite(read))
        return sl_yaml_error(node, "must be a number%s, got '%.60s'",
                             has_leading_zero(node->text) ? " without leading zeros" : "", node->text);
    if (read < minimum || read > maximum)
        return read < minimum ? sl_yaml_error(node, "must be at least %g, got %.60s", minimum, node->text)
                              : sl_yaml_error(node, "must be at most %g, got %.60s", maximum, node->text);
    *value = read;
    return SL_OK;
}

sl_status sl_yaml_int(const sl_yaml *node, int64_t minimum, int64_t maximum, int64_t *value) {
    if (node->kind != SL_YAML_SCALAR)
        return sl_yaml_error(node, "must be a whole number");
    char *end = node->text;
    errno = 0;
    long long read = is_decimal(node->text) && !node->quoted ? strtoll(node->text, &end, 10) : 0;
    if (end == node->text || *end)
        return sl_yaml_error(node, "must be a whole number%s, got '%.60s'",
                             has_leading_zero(node->text) ? " without leading zeros" : "", node->text);
    if (errno == ERANGE || read < minimum || read > maximum)
        return sl_yaml_error(node, "must be from %lld to %lld, got %.60s", (long long)minimum,
                             (long long)maximum, node->text);
    *value = read;
    return SL_OK;
}

sl_status sl_yaml_bool(const sl_yaml *node, int *value) {
    if (node->kind == SL_YAML_SCALAR && !node->quoted && strcmp(node->text, "true") == 0)
        *value = 1;
    else if (node->kind == SL_YAML_SCALAR && !node->quoted && strcmp(node->text, "false") == 0)
        *value = 0;
    else
        return sl_yaml_error(node, "must be true or false%s%.60s",
                             node->kind == SL_YAML_SCALAR ? ", got " : "",
                             node->kind == SL_YAML_SCALAR ? node->text : "");
    return SL_OK;
}

sl_status sl_yaml_text(const sl_yaml *node, const char **value) {
    if (node->kind != SL_YAML_SCALAR)
        return sl_yaml_error(node, "must be a text");
    *value = node->text;
    return SL_OK;
}
