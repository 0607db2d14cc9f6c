#include "base/json.h"

#include <limits.h>
#include <math.h>

json_t *sl_json_object(const char *text, size_t size) {
    json_t *object = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(object))
        return object;
    json_decref(object);
    return NULL;
}

double sl_json_value(const json_t *value, double most) {
    const double number = json_is_number(value) ? json_number_value(value) : NAN;
    return fabs(number) <= most ? number : NAN;
}

double sl_json_number(const json_t *object, const char *key, double most) {
    return sl_json_value(json_object_get(object, key), most);
}

int64_t sl_json_int(const json_t *object, const char *key, int64_t otherwise) {
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : otherwise;
}

int sl_json_within(const json_t *object, const char *key, int64_t least, int64_t most) {
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) && json_integer_value(value) >= least && json_integer_value(value) <= most;
}

int sl_json_count(const json_t *object, const char *key, int otherwise) {
    return sl_json_within(object, key, 0, INT_MAX - 1) ? (int)sl_json_int(object, key, 0) : otherwise;
}

const char *sl_json_text(const json_t *object, const char *key, const char *otherwise) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : otherwise;
}

json_t *sl_json_finite(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}
