/* A YAML document as a tree of nodes that know their line, so that every complaint names file, line and key.
 * Parsing is libyaml's; aliases and anchors, tags, several documents and duplicate keys are rejected. */
#pragma once

#include "base/status.h"
#include <stdint.h>

typedef enum sl_yaml_kind { SL_YAML_SCALAR, SL_YAML_LIST, SL_YAML_MAP } sl_yaml_kind;

/* A node. */
typedef struct sl_yaml {
    sl_yaml_kind kind;
    int line;               /* 1-based; 0 for a node made by --set */
    const char *file;       /* owned by the document */
    char *key;              /* in a map: its key; else NULL */
    char *text;             /* scalar: its text */
    int quoted;             /* scalar: written in quotes, so never a number or bool */
    struct sl_yaml **child; /* list and map, in file order */
    int children;
} sl_yaml;

typedef struct sl_document {
    char *file;
    sl_yaml *root;
} sl_document;

/** Reads a file (or "-": standard input). SL_EINVAL with file and line. Close with sl_document_close, also on
 * error. */
sl_status sl_document_read(const char *file, sl_document *document);
/** The same from memory; `name` stands for the file in messages. */
sl_status sl_document_parse(const char *name, const char *text, sl_document *document);
void sl_document_close(sl_document *document);

/** Applies one `--set KEY=VALUE`: KEY is a dotted path with list indices (pipeline.links.list.0.latency_ms).
 * Missing maps on the way are created; an index one past the end appends. VALUE is parsed as YAML (flow lists
 * and maps too). */
sl_status sl_document_set(sl_document *document, const char *assignment);
/** Several, one after the other. */
sl_status sl_document_set_all(sl_document *document, const char *const *assignment, int count);

/** The child of a map with this key, or NULL. */
const sl_yaml *sl_yaml_find(const sl_yaml *map, const char *key);

/** SL_EINVAL with "file:line: 'key' message". */
sl_status sl_yaml_error(const sl_yaml *node, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Scalars, strictly: trailing characters, NaN, infinity and overflow are errors. */
sl_status sl_yaml_real(const sl_yaml *node, double minimum, double maximum, double *value);
sl_status sl_yaml_int(const sl_yaml *node, int64_t minimum, int64_t maximum, int64_t *value);
sl_status sl_yaml_bool(const sl_yaml *node, int *value);
sl_status sl_yaml_text(const sl_yaml *node, const char **value);
