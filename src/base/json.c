#include "base/json.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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

#define EXACT 1000000000000000 /* with fewer, all digits of a whole number are among the 15 */

static int put_whole(int64_t value, char *text) {
    char digits[24], *digit = digits + sizeof digits;
    do
        *--digit = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    const size_t length = (size_t)(digits + sizeof digits - digit);
    memcpy(text, digit, length);
    return (int)length;
}

static int put_as_jansson(double value, char *text) {
    json_t *number = json_real(value);
    size_t length =
        number ? json_dumpb(number, text, SL_JSON_NUMBER, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) : 0;
    json_decref(number);
    if (length == 0 || length > SL_JSON_NUMBER) /* no memory: the same digits in another form */
        length = (size_t)snprintf(text, SL_JSON_NUMBER, "%.14e", value);
    return (int)length;
}

int sl_json_ms(sl_time time, char text[SL_JSON_NUMBER]) {
    if (time < 0 || time >= EXACT || (time > 0 && time < 100)) /* the last: 5e-5 */
        return put_as_jansson(sl_to_ms(time), text);
    int length = put_whole(time / SL_MS, text), part = (int)(time % SL_MS);
    text[length++] = '.';
    for (int unit = (int)SL_MS / 10, first = 1; first || part > 0; unit /= 10, first = 0) {
        text[length++] = (char)('0' + part / unit);
        part %= unit;
    }
    return length;
}

int sl_json_real(double value, char text[SL_JSON_NUMBER]) {
    if (!(value > 0 && value < (double)EXACT) || value != floor(value))
        return put_as_jansson(value, text);
    int length = put_whole((int64_t)value, text);
    text[length++] = '.';
    text[length++] = '0';
    return length;
}
