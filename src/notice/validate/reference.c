#include "notice/validate/reference.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const sl_link_kind_name[SL_LINK_KINDS] = {"within a host", "between hosts"};

static double positive(const json_t *object, const char *key) {
    double value = json_number_value(json_object_get(object, key));
    return isfinite(value) && value > 0 ? value : 0;
}

sl_status sl_reference_read(const char *path, sl_reference *reference) {
    char *text;
    size_t size;
    json_error_t error;
    *reference = (sl_reference){0};
    SL_TRY(sl_file_read_max(path, 64 << 20, &text, &size));
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    sl_free(text);
    const char *format = json_string_value(json_object_get(json, "format"));
    sl_status status = SL_OK;
    if (!json)
        status = sl_error(SL_EINVAL, "%s:%d: %s", path, error.line, error.text);
    else if (!format || strcmp(format, SL_VALIDATION_FORMAT) != 0)
        status = sl_error(SL_EINVAL, "%s: not a report of slackline healthcheck --format json", path);
    const json_t *kinds = json_object_get(json, "kinds");
    reference->gflops = positive(json_object_get(kinds, "device"), "gflops");
    for (int i = 0; i < SL_LINK_KINDS; i++) {
        const json_t *kind = json_object_get(kinds, sl_link_kind_name[i]);
        reference->latency_ms[i] = positive(kind, "latency_ms");
        reference->gb_per_s[i] = positive(kind, "gb_per_s");
    }
    const json_t *gpu = json_object_get(kinds, "gpu");
    if (json_is_object(gpu))
        snprintf(reference->gpu, sizeof reference->gpu, "%s", sl_json_text(gpu, "name", ""));
    for (int i = 0; i < SL_GPU_RATES; i++)
        reference->gpu_rate[i] = positive(gpu, sl_gpu_rate_key[i]);
    json_decref(json);
    return status;
}
