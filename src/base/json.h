/* Fields of JSON objects from other programs: an absent field or one of another type gives a default, not an
 * error. An object that is NULL has no fields. */
#pragma once

#include "base/time.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/** The object in text[size] (free with json_decref); NULL: not an object. */
json_t *sl_json_object(const char *text, size_t size);

/** A finite number of absolute value at most `most`, else NaN. */
double sl_json_number(const json_t *object, const char *key, double most);
/** The same of a value by itself. */
double sl_json_value(const json_t *value, double most);

/** An integer; `otherwise` if there is none. */
int64_t sl_json_int(const json_t *object, const char *key, int64_t otherwise);
/** Whether the field is an integer from `least` to `most`. */
int sl_json_within(const json_t *object, const char *key, int64_t least, int64_t most);
/** An integer from 0 to INT_MAX - 1; `otherwise` if there is none. */
int sl_json_count(const json_t *object, const char *key, int otherwise);

/** For writing: a number, or null if it is not finite. */
json_t *sl_json_finite(double value);

/* Numbers of long lists, as jansson writes them with 15 digits, in a fraction of its time. Room for either:
 */
#define SL_JSON_NUMBER 40

/** A time in ms: 0.1, 12.0. Returns the length. */
int sl_json_ms(sl_time time, char text[SL_JSON_NUMBER]);
/** A finite number. Returns the length. */
int sl_json_real(double value, char text[SL_JSON_NUMBER]);

/** A text; `otherwise` if there is none. */
const char *sl_json_text(const json_t *object, const char *key, const char *otherwise);
