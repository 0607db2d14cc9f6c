#include "library/library_handles.h"

#include <stdlib.h>

SL_PUBLIC const char *slackline_version(void) {
    return SL_VERSION;
}

SL_PUBLIC const char *slackline_error(void) {
    return sl_error_text();
}

SL_PUBLIC void slackline_free(void *pointer) {
    free(pointer);
}

SL_PUBLIC const char *slackline_status_name(slackline_status status) {
    static const char *const names[] = {"ok", "invalid", "no answer", "no memory", "system"};
    size_t index = (size_t)status;
    return index < sizeof names / sizeof names[0] ? names[index] : "unknown";
}

slackline_status sl_library_close_text(FILE *out, sl_status status, char **text, const size_t *length,
                                       size_t *size) {
    if (out && fclose(out) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for a text");
    if (status != SL_OK) {
        free(*text);
        *text = NULL;
    } else if (size) {
        *size = *length;
    }
    return sl_library_status(status);
}

slackline_status sl_library_status(sl_status status) {
    switch (status) {
    case SL_OK:
        return SLACKLINE_OK;
    case SL_EINVAL:
        return SLACKLINE_INVALID;
    case SL_ENONE:
        return SLACKLINE_NO_ANSWER;
    case SL_ENOMEM:
        return SLACKLINE_NO_MEMORY;
    default:
        return SLACKLINE_SYSTEM;
    }
}

sl_status sl_library_need(const void *pointer, const char *what) {
    return pointer ? SL_OK : sl_error(SL_EINVAL, "%s is NULL", what);
}

sl_status sl_library_between(const char *what, int64_t value, int64_t least, int64_t most) {
    return value >= least && value <= most
               ? SL_OK
               : sl_error(SL_EINVAL, "%s must be from %lld to %lld, got %lld", what, (long long)least,
                          (long long)most, (long long)value);
}

sl_status sl_library_number(const char *what, double value, double least, double most) {
    return value >= least && value <= most
               ? SL_OK
               : sl_error(SL_EINVAL, "%s must be from %g to %g, got %g", what, least, most, value);
}
