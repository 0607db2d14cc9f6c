#include "plan/trace/event_time.h"

#include <math.h>
#include <stdlib.h>

int sl_event_time(const json_t *value, sl_time *time) {
    char *end = NULL;
    const char *text = json_string_value(value);
    double us = text ? strtod(text, &end) : json_number_value(value);
    if ((text ? end == text || *end : !json_is_number(value)) || !(us > -1e12 && us < 2.2e15))
        return 0;
    double whole = floor(us);
    *time = (sl_time)whole * 1000 + (sl_time)lround((us - whole) * 1000);
    return 1;
}
