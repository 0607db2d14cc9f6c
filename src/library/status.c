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
