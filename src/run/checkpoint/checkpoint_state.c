#include "run/checkpoint/checkpoint_state.h"
#include "base/file.h"
#include "base/memory.h"
#include "run/checkpoint/checksum.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define STATE_MAX ((size_t)16 << 20)
#define SEAL_KEY "\"seal\": \""
#define SEAL_DIGITS 16
static const char no_seal[] = "0000000000000000";

void sl_checkpoint_state_free(sl_checkpoint_state *state) {
    sl_free(state->file);
    *state = (sl_checkpoint_state){0};
}

/* ---- writing ---- */

static json_t *keys_json(const sl_checkpoint_state *state) {
    json_t *keys = json_object();
    for (int i = 0; i < state->keys; i++) {
        json_t *value = json_loads(state->key[i].value, JSON_DECODE_ANY, NULL);
        if (!value || json_object_set_new(keys, state->key[i].name, value) != 0) {
            json_decref(keys);
            return NULL;
        }
    }
    return keys;
}

static json_t *files_json(const sl_checkpoint_state *state) {
    json_t *files = json_array();
    for (int i = 0; i < state->files; i++) {
        char checksum[SEAL_DIGITS + 1];
        snprintf(checksum, sizeof checksum, "%016" PRIx64, state->file[i].checksum);
        json_t *file = json_pack("{s:s, s:I, s:s}", "name", state->file[i].name, "size",
                                 (json_int_t)state->file[i].size, "xxh64", checksum);
        snprintf(checksum, sizeof checksum, "%016" PRIx64, state->file[i].header);
        if (file && state->file[i].header)
            json_object_set_new(file, "header", json_string(checksum));
        json_array_append_new(files, file);
    }
    return files;
}

/* Position of the seal's digits; NULL: not found. */
static char *find_seal(char *text) {
    char *found = NULL;
    for (char *at = text; (at = strstr(at, SEAL_KEY)) != NULL;)
        found = at += strlen(SEAL_KEY);
    return found && strlen(found) > SEAL_DIGITS && found[SEAL_DIGITS] == '"' ? found : NULL;
}

sl_status sl_checkpoint_state_write(const char *path, const sl_checkpoint_state *state) {
    json_t *root = json_pack("{s:s, s:i, s:i, s:o, s:o, s:s}", "format", SL_CHECKPOINT_FORMAT, "iteration",
                             state->iteration, "stages", state->stages, "run", keys_json(state), "files",
                             files_json(state), "seal", no_seal);
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    char *seal = text ? find_seal(text) : NULL, digits[SEAL_DIGITS + 1];
    json_decref(root);
    if (!seal) {
        free(text);
        return sl_error(SL_ENOMEM, "out of memory for %s", path);
    }
    snprintf(digits, sizeof digits, "%016" PRIx64, sl_checksum(text, strlen(text)));
    memcpy(seal, digits, SEAL_DIGITS);
    sl_status status = sl_file_write(path, text, strlen(text));
    free(text);
    return status;
}

/* ---- reading ---- */

static sl_status wrong(const char *what) {
    return sl_error(SL_EINVAL, "state.json %s", what);
}

static sl_status read_number(const json_t *root, const char *key, int least, int *out) {
    const json_t *value = json_object_get(root, key);
    if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > INT32_MAX)
        return sl_error(SL_EINVAL, "state.json has no '%s'", key);
    *out = (int)json_integer_value(value);
    return SL_OK;
}

static sl_status read_keys(json_t *map, sl_checkpoint_state *state) {
    const char *name;
    json_t *value;
    if (!json_is_object(map))
        return wrong("has no 'run'");
    json_object_foreach(map, name, value) {
        sl_checkpoint_key *key = &state->key[state->keys];
        if (state->keys >= SL_CHECKPOINT_KEYS)
            return wrong("has too many keys in 'run'");
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
        int fits = text && snprintf(key->name, sizeof key->name, "%s", name) < (int)sizeof key->name &&
                   snprintf(key->value, sizeof key->value, "%s", text) < (int)sizeof key->value;
        free(text);
        if (!fits)
            return wrong("has a key in 'run' that is too long");
        state->keys++;
    }
    return SL_OK;
}

/* Whether it is the name of a file in the folder itself, not a path out of it. */
static int is_plain(const char *name) {
    return name && name[0] && name[0] != '.' && !strchr(name, '/') &&
           strlen(name) < sizeof((sl_checkpoint_file *)0)->name;
}

static int read_checksum(const json_t *text, uint64_t *checksum) {
    const char *digits = json_string_value(text);
    if (!digits || strlen(digits) != SEAL_DIGITS || strspn(digits, "0123456789abcdef") != SEAL_DIGITS)
        return 0;
    *checksum = strtoull(digits, NULL, 16);
    return 1;
}

static sl_status read_file(const json_t *entry, sl_checkpoint_file *file) {
    const char *name = json_string_value(json_object_get(entry, "name"));
    const json_t *size = json_object_get(entry, "size"), *header = json_object_get(entry, "header");
    if (!is_plain(name) || !json_is_integer(size) || json_integer_value(size) < 0 ||
        !read_checksum(json_object_get(entry, "xxh64"), &file->checksum) ||
        (header && !read_checksum(header, &file->header)))
        return wrong("describes a file wrongly");
    snprintf(file->name, sizeof file->name, "%s", name);
    file->size = (uint64_t)json_integer_value(size);
    return SL_OK;
}

static sl_status read_root(const json_t *root, sl_checkpoint_state *state) {
    const char *format = json_string_value(json_object_get(root, "format"));
    const json_t *files = json_object_get(root, "files");
    if (!format || strcmp(format, SL_CHECKPOINT_FORMAT) != 0)
        return sl_error(SL_EINVAL, "state.json has format '%.40s', not " SL_CHECKPOINT_FORMAT,
                        format ? format : "");
    SL_TRY(read_number(root, "iteration", 0, &state->iteration));
    SL_TRY(read_number(root, "stages", 1, &state->stages));
    SL_TRY(read_keys(json_object_get(root, "run"), state));
    if (!json_is_array(files))
        return wrong("has no list of 'files'");
    SL_TRY(sl_alloc(&state->file, json_array_size(files), sizeof *state->file));
    for (size_t i = 0; i < json_array_size(files); i++, state->files++)
        SL_TRY(read_file(json_array_get(files, i), &state->file[i]));
    return SL_OK;
}

/* The seal first: unsealed text is not read. */
static sl_status check_seal(char *text, size_t size, uint64_t *value) {
    char digits[SEAL_DIGITS + 1], *seal = strlen(text) == size ? find_seal(text) : NULL;
    if (!seal)
        return wrong("is not a complete JSON text with a seal");
    char stated[SEAL_DIGITS];
    memcpy(stated, seal, SEAL_DIGITS);
    memcpy(seal, no_seal, SEAL_DIGITS);
    *value = sl_checksum(text, size);
    snprintf(digits, sizeof digits, "%016" PRIx64, *value);
    memcpy(seal, stated, SEAL_DIGITS);
    return memcmp(stated, digits, SEAL_DIGITS) == 0
               ? SL_OK
               : wrong("was changed: its checksum is not the one it states");
}

sl_status sl_checkpoint_state_read(const char *path, sl_checkpoint_state *state) {
    char *text;
    size_t size;
    json_t *root;
    sl_status status;
    *state = (sl_checkpoint_state){0};
    SL_TRY(sl_file_read_max(path, STATE_MAX, &text, &size));
    SL_TRY_GOTO(out, status, check_seal(text, size, &state->seal));
    root = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    status = json_is_object(root) ? read_root(root, state) : wrong("is not a JSON object");
    json_decref(root);
    if (status != SL_OK)
        sl_checkpoint_state_free(state);
out:
    sl_free(text);
    return status;
}

/* ---- may this run resume from it? ---- */

static const sl_checkpoint_key *find_key(const sl_checkpoint_key *key, int keys, const char *name) {
    for (int i = 0; i < keys; i++)
        if (strcmp(key[i].name, name) == 0)
            return &key[i];
    return NULL;
}

/* Numbers by value: 1 and 1.0 are the same. */
static int same_value(const char *a, const char *b) {
    json_t *x = json_loads(a, JSON_DECODE_ANY, NULL), *y = json_loads(b, JSON_DECODE_ANY, NULL);
    int same = json_is_number(x) && json_is_number(y) && !(json_is_integer(x) && json_is_integer(y))
                   ? json_number_value(x) == json_number_value(y)
                   : json_equal(x, y);
    json_decref(x);
    json_decref(y);
    return same;
}

sl_status sl_checkpoint_compare(const char *name, const sl_checkpoint_state *then,
                                const sl_checkpoint_key *now, int keys) {
    for (int i = 0; i < keys; i++) {
        const sl_checkpoint_key *old = find_key(then->key, then->keys, now[i].name);
        if (!old)
            return sl_error(SL_EINVAL,
                            "'%s' is %s, and %s does not mention it: the run cannot continue from there",
                            now[i].name, now[i].value, name);
        if (!same_value(old->value, now[i].value))
            return sl_error(SL_EINVAL,
                            "'%s' is %s, but %s was trained with %s: the run cannot continue from there",
                            now[i].name, now[i].value, name, old->value);
    }
    for (int i = 0; i < then->keys; i++)
        if (!find_key(now, keys, then->key[i].name))
            return sl_error(SL_EINVAL, "%s was trained with '%s' of %s, which this run does not have", name,
                            then->key[i].name, then->key[i].value);
    return SL_OK;
}
