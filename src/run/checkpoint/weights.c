#include "run/checkpoint/weights.h"
#include "base/file.h"
#include "base/memory.h"
#include "run/checkpoint/checksum.h"

#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

#define INDEX_MAX ((size_t)64 << 20)

struct sl_weights {
    char *path;
    sl_safetensors **file;
    int files;
    size_t capacity;
    const char *prefix; /* as sl_weights_check was given it */
};

static sl_status add_file(sl_weights *w, const char *folder, const char *name) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s%s%s", folder, folder[0] ? "/" : "", name) >= (int)sizeof path)
        return sl_error(SL_EINVAL, "%s: the path is too long", folder);
    SL_TRY(sl_grow(&w->file, &w->capacity, (size_t)w->files + 1, sizeof *w->file));
    SL_TRY(sl_safetensors_open(path, &w->file[w->files]));
    w->files++;
    return SL_OK;
}

static const sl_tensor *find_exactly(const sl_weights *w, const char *name, const sl_safetensors **file) {
    for (int i = 0; i < w->files; i++) {
        const sl_tensor *t = sl_safetensors_find(w->file[i], name);
        if (t) {
            *file = w->file[i];
            return t;
        }
    }
    return NULL;
}

static const sl_tensor *find(const sl_weights *w, const char *name, const sl_safetensors **file) {
    char longer[512];
    const sl_tensor *t = find_exactly(w, name, file);
    if (t || !w->prefix || snprintf(longer, sizeof longer, "%s%s", w->prefix, name) >= (int)sizeof longer)
        return t;
    return find_exactly(w, longer, file);
}

/* A name must not lead out of the folder. */
static int is_plain(const char *name) {
    return name[0] && name[0] != '.' && !strchr(name, '/');
}

/* ---- opening ---- */

static sl_status open_empty(const char *path, sl_weights **weights) {
    SL_TRY(sl_alloc(weights, 1, sizeof **weights));
    return sl_copy_text(&(*weights)->path, path);
}

static sl_status add_sealed(sl_weights *w, const char *folder, const sl_checkpoint_file *file) {
    uint64_t size, checksum;
    char path[4096];
    SL_TRY(add_file(w, folder, file->name));
    if (file->header && sl_safetensors_header(w->file[w->files - 1]) == file->header)
        return SL_OK;
    snprintf(path, sizeof path, "%s/%s", folder, file->name);
    if (file->header)
        return sl_error(SL_EINVAL, "%s: its header was changed", path);
    SL_TRY(sl_checksum_file(path, &size, &checksum));
    return checksum == file->checksum ? SL_OK : sl_error(SL_EINVAL, "%s: was changed", path);
}

sl_status sl_weights_open_checkpoint(const char *path, const sl_checkpoint_state *state,
                                     sl_weights **weights) {
    sl_status status = open_empty(path, weights);
    for (int i = 0; i < state->files && status == SL_OK; i++) {
        const char *ending = strrchr(state->file[i].name, '.');
        if (ending && strcmp(ending, ".safetensors") == 0)
            status = add_sealed(*weights, path, &state->file[i]);
    }
    if (status != SL_OK) {
        sl_weights_close(*weights);
        *weights = NULL;
    }
    return status;
}

static int was_added(const json_t *map, const char *until, const char *file) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, name, value) {
        if (strcmp(name, until) == 0)
            return 0;
        if (strcmp(json_string_value(value), file) == 0)
            return 1;
    }
    return 0;
}

static sl_status add_indexed(sl_weights *w, const char *folder, const char *index, const json_t *root) {
    json_t *map = json_object_get(root, "weight_map"), *value;
    const char *name;
    const sl_safetensors *file;
    if (!json_is_object(map) || json_object_size(map) == 0)
        return sl_error(SL_EINVAL, "%s: has no weight_map", index);
    json_object_foreach(map, name, value) {
        if (!json_is_string(value) || !is_plain(json_string_value(value)))
            return sl_error(SL_EINVAL, "%s: '%s' is in no file of this folder", index, name);
        if (!was_added(map, name, json_string_value(value)))
            SL_TRY(add_file(w, folder, json_string_value(value)));
    }
    json_object_foreach(map, name, value) if (!find_exactly(w, name, &file)) return sl_error(
        SL_EINVAL, "%s: '%s' is not in %s", index, name, json_string_value(value));
    return SL_OK;
}

static sl_status read_index(sl_weights *w, const char *folder, const char *index) {
    char *text;
    size_t size;
    json_error_t error;
    SL_TRY(sl_file_read_max(index, INDEX_MAX, &text, &size));
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    sl_free(text);
    if (!root)
        return sl_error(SL_EINVAL, "%s:%d: is not JSON", index, error.line);
    sl_status status = add_indexed(w, folder, index, root);
    json_decref(root);
    return status;
}

static sl_status check_twice(const sl_weights *w) {
    for (int i = 0; i < w->files; i++)
        for (int k = 0; k < sl_safetensors_count(w->file[i]); k++)
            for (int other = 0; other < i; other++) {
                const char *name = sl_safetensors_tensor(w->file[i], k)->name;
                if (sl_safetensors_find(w->file[other], name))
                    return sl_error(SL_EINVAL, "%s: tensor '%s' is in two files", w->path, name);
            }
    return SL_OK;
}

static sl_status open_path(sl_weights *w, const char *path) {
    char index[4096];
    struct stat found;
    if (stat(path, &found) != 0)
        return sl_error_errno(SL_EINVAL, "%s: cannot be read", path);
    if (!S_ISDIR(found.st_mode))
        return add_file(w, "", path);
    if (snprintf(index, sizeof index, "%s/model.safetensors.index.json", path) >= (int)sizeof index)
        return sl_error(SL_EINVAL, "%s: the path is too long", path);
    if (stat(index, &found) == 0)
        return read_index(w, path, index);
    snprintf(index, sizeof index, "%s/model.safetensors", path);
    if (stat(index, &found) == 0)
        return add_file(w, path, "model.safetensors");
    return sl_error(SL_EINVAL, "%s: has neither model.safetensors nor model.safetensors.index.json", path);
}

sl_status sl_weights_open(const char *path, sl_weights **weights) {
    sl_status status = open_empty(path, weights);
    SL_THEN(status, open_path(*weights, path));
    SL_THEN(status, check_twice(*weights));
    if (status != SL_OK) {
        sl_weights_close(*weights);
        *weights = NULL;
    }
    return status;
}

void sl_weights_close(sl_weights *w) {
    if (!w)
        return;
    for (int i = 0; i < w->files; i++)
        sl_safetensors_close(w->file[i]);
    SL_FREE(w->file, w->path, w);
}

/* ---- checking and reading ---- */

static void say_shape(const sl_tensor *t, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < t->dimensions && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

static int has_shape(const sl_tensor *t, int rows, int columns) {
    return rows ? t->dimensions == 2 && t->shape[0] == rows && t->shape[1] == columns
                : t->dimensions == 1 && t->shape[0] == columns;
}

static sl_status refuse_shape(const char *path, const sl_tensor *t, int rows, int columns) {
    char has[192], needs[64];
    say_shape(t, has, sizeof has);
    if (rows)
        snprintf(needs, sizeof needs, "[%d, %d]", rows, columns);
    else
        snprintf(needs, sizeof needs, "[%d]", columns);
    return sl_error(SL_EINVAL, "%s: tensor '%s' has shape %s, the model needs %s", path, t->name, has, needs);
}

static sl_status check_needs(const sl_weights *w, const sl_weight_need *needs, int count) {
    const char *missing = NULL;
    const sl_safetensors *file;
    int absent = 0;
    for (int i = 0; i < count; i++) {
        const sl_tensor *t = find(w, needs[i].name, &file);
        if (!t) {
            missing = absent++ ? missing : needs[i].name;
            continue;
        }
        if (!has_shape(t, needs[i].rows, needs[i].columns))
            return refuse_shape(w->path, t, needs[i].rows, needs[i].columns);
        if (t->dtype == SL_DTYPE_OTHER)
            return sl_error(SL_EINVAL, "%s: tensor '%s' has dtype %s; F32, F16 and BF16 are read", w->path,
                            t->name, t->dtype_name);
    }
    if (absent > 1)
        return sl_error(SL_EINVAL, "%s: lacks tensor '%s' and %d more of the model's %d", w->path, missing,
                        absent - 1, count);
    return absent ? sl_error(SL_EINVAL, "%s: lacks tensor '%s'", w->path, missing) : SL_OK;
}

static int is_needed(const sl_weight_need *needs, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(needs[i].name, name) == 0)
            return 1;
    return 0;
}

static sl_status check_extra(const sl_weights *w, const sl_weight_need *needs, int count,
                             const sl_weight_rules *rules) {
    const char *first = NULL;
    int extra = 0;
    size_t prefix = rules->prefix ? strlen(rules->prefix) : 0;
    for (int f = 0; f < w->files; f++)
        for (int i = 0; i < sl_safetensors_count(w->file[f]); i++) {
            const char *name = sl_safetensors_tensor(w->file[f], i)->name, *plain = name;
            if (prefix && strncmp(name, rules->prefix, prefix) == 0)
                plain += prefix;
            if (is_needed(needs, count, plain) || (rules->passed_over && rules->passed_over(plain)))
                continue;
            first = extra++ ? first : name;
        }
    if (extra > 1)
        return sl_error(SL_EINVAL, "%s: has tensor '%s' and %d more that the model does not know", w->path,
                        first, extra - 1);
    return extra ? sl_error(SL_EINVAL, "%s: has tensor '%s', which the model does not know", w->path, first)
                 : SL_OK;
}

sl_status sl_weights_check(sl_weights *w, const sl_weight_need *needs, int count,
                           const sl_weight_rules *rules) {
    w->prefix = rules->prefix;
    SL_TRY(check_needs(w, needs, count));
    return check_extra(w, needs, count, rules);
}

int sl_weights_has(const sl_weights *w, const char *name) {
    const sl_safetensors *file;
    return find(w, name, &file) != NULL;
}

sl_status sl_weights_read(const sl_weights *w, const char *name, int rows, int columns, size_t first,
                          size_t count, float *out) {
    const sl_safetensors *file;
    const sl_tensor *t = find(w, name, &file);
    if (!t)
        return sl_error(SL_EINVAL, "%s: lacks tensor '%s'", w->path, name);
    if (!has_shape(t, rows, columns))
        return refuse_shape(w->path, t, rows, columns);
    return sl_safetensors_read(file, t, first, count, out);
}
