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

#define DEEPEST 64 /* nesting that no honest file reaches; recursion below stays bounded */

static void node_free(sl_node *node) {
    if (!node)
        return;
    for (int i = 0; i < node->children; i++)
        node_free(node->child[i]);
    sl_free(node->child);
    sl_free(node->key);
    sl_free(node->text);
    sl_free(node);
}

static sl_status node_make(sl_node_kind kind, const char *file, int line, sl_node **node) {
    SL_TRY(sl_alloc(node, 1, sizeof **node));
    (*node)->kind = kind;
    (*node)->file = file;
    (*node)->line = line;
    return SL_OK;
}

/* Takes the child over, also on failure. */
static sl_status node_append(sl_node *parent, sl_node *child) {
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

const sl_node *sl_node_find(const sl_node *map, const char *key) {
    for (int i = 0; map && map->kind == SL_NODE_MAP && i < map->children; i++)
        if (strcmp(map->child[i]->key, key) == 0)
            return map->child[i];
    return NULL;
}

/* ---- from libyaml's events to nodes ---- */

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    int has_event;
    const char *file;
} reader;

static sl_status next_event(reader *r) {
    if (r->has_event)
        yaml_event_delete(&r->event);
    r->has_event = 0;
    if (!yaml_parser_parse(&r->parser, &r->event))
        return sl_error(SL_EINVAL, "%s:%zu: no YAML: %s%s%s", r->file, r->parser.problem_mark.line + 1,
                        r->parser.problem ? r->parser.problem : "unreadable", r->parser.context ? ", " : "",
                        r->parser.context ? r->parser.context : "");
    r->has_event = 1;
    return SL_OK;
}

static int event_line(const reader *r) {
    return (int)r->event.start_mark.line + 1;
}

static sl_status read_node(reader *r, int depth, sl_node **out);

static sl_status read_scalar(reader *r, sl_node *node) {
    size_t length = r->event.data.scalar.length;
    if (memchr(r->event.data.scalar.value, 0, length))
        return sl_error(SL_EINVAL, "%s:%d: a text must not hold a zero byte", r->file, node->line);
    node->quoted = r->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return sl_copy_text(&node->text, (const char *)r->event.data.scalar.value);
}

static sl_status read_pair(reader *r, int depth, sl_node *map) {
    if (r->event.type != YAML_SCALAR_EVENT)
        return sl_error(SL_EINVAL, "%s:%d: a key must be a plain text", r->file, event_line(r));
    const char *name = (const char *)r->event.data.scalar.value;
    if (sl_node_find(map, name))
        return sl_error(SL_EINVAL, "%s:%d: key '%s' stands twice", r->file, event_line(r), name);
    int line = event_line(r);
    char *key;
    SL_TRY(sl_copy_text(&key, name));
    sl_node *child = NULL;
    sl_status status = next_event(r);
    if (status == SL_OK)
        status = read_node(r, depth + 1, &child);
    if (status != SL_OK) {
        sl_free(key);
        node_free(child);
        return status;
    }
    child->key = key;
    child->line = line;
    return node_append(map, child);
}

static sl_status read_children(reader *r, int depth, sl_node *node) {
    yaml_event_type_t end = node->kind == SL_NODE_MAP ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    for (;;) {
        SL_TRY(next_event(r));
        if (r->event.type == end)
            return SL_OK;
        if (node->kind == SL_NODE_MAP) {
            SL_TRY(read_pair(r, depth, node));
        } else {
            sl_node *child = NULL;
            sl_status status = read_node(r, depth + 1, &child);
            if (status != SL_OK) {
                node_free(child);
                return status;
            }
            SL_TRY(node_append(node, child));
        }
    }
}

static sl_status read_node(reader *r, int depth, sl_node **out) {
    if (depth > DEEPEST)
        return sl_error(SL_EINVAL, "%s:%d: nested deeper than %d", r->file, event_line(r), DEEPEST);
    switch (r->event.type) {
    case YAML_SCALAR_EVENT:
        SL_TRY(node_make(SL_NODE_SCALAR, r->file, event_line(r), out));
        return read_scalar(r, *out);
    case YAML_SEQUENCE_START_EVENT:
        SL_TRY(node_make(SL_NODE_LIST, r->file, event_line(r), out));
        return read_children(r, depth, *out);
    case YAML_MAPPING_START_EVENT:
        SL_TRY(node_make(SL_NODE_MAP, r->file, event_line(r), out));
        return read_children(r, depth, *out);
    default:
        return sl_error(SL_EINVAL, "%s:%d: aliases are not read", r->file, event_line(r));
    }
}

static sl_status read_stream(reader *r, sl_node **root) {
    SL_TRY(next_event(r)); /* stream start */
    SL_TRY(next_event(r));
    if (r->event.type == YAML_STREAM_END_EVENT)
        return sl_error(SL_EINVAL, "%s: the file is empty", r->file);
    SL_TRY(next_event(r)); /* behind document start */
    SL_TRY(read_node(r, 0, root));
    SL_TRY(next_event(r)); /* document end */
    SL_TRY(next_event(r));
    if (r->event.type != YAML_STREAM_END_EVENT)
        return sl_error(SL_EINVAL, "%s:%d: more than one document", r->file, event_line(r));
    return SL_OK;
}

static sl_status parse(const char *file, const char *text, size_t size, sl_node **root) {
    reader r = {.file = file};
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
    if (document->root->kind != SL_NODE_MAP)
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
    SL_TRY(sl_file_read(file, &content, &size));
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

/* The place in `parent` that `step` names, made (as an empty map) when it may be. */
static sl_status descend(sl_document *document, const char *assignment, sl_node *parent, const char *step,
                         sl_node ***place) {
    if (parent->kind == SL_NODE_LIST) {
        char *end;
        errno = 0;
        long index = strtol(step, &end, 10);
        if (*step < '0' || *step > '9' || *end || errno || index > parent->children)
            return sl_error(SL_EINVAL, "--set %s: '%s' is no index of a list of %d", assignment, step,
                            parent->children);
        if (index == parent->children) {
            sl_node *made;
            SL_TRY(node_make(SL_NODE_MAP, document->file, 0, &made));
            SL_TRY(node_append(parent, made));
        }
        *place = &parent->child[index];
        return SL_OK;
    }
    if (parent->kind != SL_NODE_MAP)
        return sl_error(SL_EINVAL, "--set %s: nothing can stand below a value ('%s')", assignment, step);
    for (int i = 0; i < parent->children; i++)
        if (strcmp(parent->child[i]->key, step) == 0) {
            *place = &parent->child[i];
            return SL_OK;
        }
    sl_node *made;
    SL_TRY(node_make(SL_NODE_MAP, document->file, 0, &made));
    sl_status status = sl_copy_text(&made->key, step);
    if (status != SL_OK) {
        node_free(made);
        return status;
    }
    SL_TRY(node_append(parent, made));
    *place = &parent->child[parent->children - 1];
    return SL_OK;
}

static sl_status set_path(sl_document *document, const char *assignment, char *path, sl_node *value) {
    sl_node *parent = document->root;
    for (char *step = path;;) {
        char *dot = strchr(step, '.');
        if (dot)
            *dot = 0;
        if (!*step)
            return sl_error(SL_EINVAL, "--set %s: an empty part in the key", assignment);
        sl_node **place = NULL;
        SL_TRY(descend(document, assignment, parent, step, &place));
        if (!dot) {
            value->key = (*place)->key;
            (*place)->key = NULL;
            node_free(*place);
            *place = value;
            return SL_OK;
        }
        parent = *place;
        step = dot + 1;
    }
}

static void mark_as_set(sl_node *node, const char *file) {
    node->line = 0;
    node->file = file;
    for (int i = 0; i < node->children; i++)
        mark_as_set(node->child[i], file);
}

sl_status sl_document_set(sl_document *document, const char *assignment) {
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment)
        return sl_error(SL_EINVAL, "--set %s: must be KEY=VALUE", assignment);
    char *path;
    SL_TRY(sl_copy_text(&path, assignment));
    path[equals - assignment] = 0;
    sl_node *value = NULL;
    sl_status status = parse("--set", equals + 1, strlen(equals + 1), &value);
    if (status != SL_OK)
        status = sl_error(status, "--set %s: the value cannot be read", assignment);
    if (status == SL_OK) {
        mark_as_set(value, document->file);
        status = set_path(document, assignment, path, value);
        if (status != SL_OK)
            node_free(value);
    }
    sl_free(path);
    return status;
}

/* ---- scalars ---- */

sl_status sl_node_error(const sl_node *node, const char *format, ...) {
    char text[768], place[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (node->line > 0)
        snprintf(place, sizeof place, "%s:%d", node->file, node->line);
    else
        snprintf(place, sizeof place, "%s (--set)", node->file);
    return node->key ? sl_error(SL_EINVAL, "%s: '%s' %s", place, node->key, text)
                     : sl_error(SL_EINVAL, "%s: %s", place, text);
}

static int is_decimal(const char *text) {
    return *text && strspn(text, "0123456789+-.eE") == strlen(text);
}

sl_status sl_node_real(const sl_node *node, double minimum, double maximum, double *value) {
    if (node->kind != SL_NODE_SCALAR)
        return sl_node_error(node, "must be a number");
    char *end = node->text;
    double read = is_decimal(node->text) && !node->quoted ? strtod(node->text, &end) : 0;
    if (end == node->text || *end || !isfinite(read))
        return sl_node_error(node, "must be a number, got '%s'", node->text);
    if (read < minimum || read > maximum)
        return read < minimum ? sl_node_error(node, "must be at least %g, got %s", minimum, node->text)
                              : sl_node_error(node, "must be at most %g, got %s", maximum, node->text);
    *value = read;
    return SL_OK;
}

sl_status sl_node_int(const sl_node *node, int64_t minimum, int64_t maximum, int64_t *value) {
    if (node->kind != SL_NODE_SCALAR)
        return sl_node_error(node, "must be a whole number");
    char *end = node->text;
    errno = 0;
    long long read = is_decimal(node->text) && !node->quoted ? strtoll(node->text, &end, 10) : 0;
    if (end == node->text || *end)
        return sl_node_error(node, "must be a whole number, got '%s'", node->text);
    if (errno == ERANGE || read < minimum || read > maximum)
        return sl_node_error(node, "must be from %lld to %lld, got %s", (long long)minimum,
                             (long long)maximum, node->text);
    *value = read;
    return SL_OK;
}

sl_status sl_node_bool(const sl_node *node, int *value) {
    if (node->kind == SL_NODE_SCALAR && !node->quoted && strcmp(node->text, "true") == 0)
        *value = 1;
    else if (node->kind == SL_NODE_SCALAR && !node->quoted && strcmp(node->text, "false") == 0)
        *value = 0;
    else
        return sl_node_error(node, "must be true or false%s%s", node->kind == SL_NODE_SCALAR ? ", got " : "",
                             node->kind == SL_NODE_SCALAR ? node->text : "");
    return SL_OK;
}

sl_status sl_node_text(const sl_node *node, const char **value) {
    if (node->kind != SL_NODE_SCALAR)
        return sl_node_error(node, "must be a text");
    *value = node->text;
    return SL_OK;
}
