#include "run/binding/gradients.h"
#include "base/file.h"
#include "run/model/parameter.h"

#include <stdio.h>

typedef struct writer {
    FILE *values, *names;
    size_t offset;
} writer;

static sl_status open_file(const char *folder, const char *name, FILE **file) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/gradients", folder) >= (int)sizeof path - 64)
        return sl_error(SL_EINVAL, "%s: the path is too long", folder);
    SL_TRY(sl_directory_make(path));
    snprintf(path, sizeof path, "%s/gradients/%s", folder, name);
    *file = fopen(path, "we");
    return *file ? SL_OK : sl_error_errno(SL_ESYS, "%s: cannot be written", path);
}

static sl_status add(void *object, const sl_parameter *tensor, const float *full) {
    writer *w = object;
    int failed = fwrite(full, sizeof *full, tensor->count, w->values) != tensor->count;
    fprintf(w->names, "%s\n{\"name\": \"%s\", \"shape\": [", w->offset ? "," : "[", tensor->name);
    if (tensor->rows)
        fprintf(w->names, "%d, ", tensor->rows);
    failed |= fprintf(w->names, "%d], \"offset\": %zu}", tensor->columns, w->offset) < 0;
    w->offset += tensor->count * sizeof *full;
    return failed ? sl_error_errno(SL_ESYS, "the gradients cannot be written") : SL_OK;
}

sl_status sl_gradients_write(sl_binding *binding, int leads, const char *folder, int iteration) {
    writer w = {0};
    char name[64];
    snprintf(name, sizeof name, "iteration-%06d.f32", iteration);
    sl_status status = SL_OK;
    if (leads)
        status = open_file(folder, name, &w.values);
    if (leads && status == SL_OK)
        status = open_file(folder, "tensors.json", &w.names);
    SL_THEN(status, sl_binding_each(binding, SL_VALUE_GRADIENT, add, &w));
    int failed = 0;
    if (w.names) {
        failed |= fprintf(w.names, "\n]\n") < 0;
        failed |= fclose(w.names) != 0;
    }
    if (w.values)
        failed |= fclose(w.values) != 0;
    if (status == SL_OK && failed)
        status = sl_error_errno(SL_ESYS, "%s/gradients: cannot be written", folder);
    return status;
}
