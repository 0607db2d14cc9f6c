#include "library/handles.h"

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
