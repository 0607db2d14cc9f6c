#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char error_text[1024] = "no error";

sl_status sl_error(sl_status status, const char *format, ...) {
    char text[sizeof error_text]; /* arguments may point into the old text */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(error_text, text, sizeof text);
    return status;
}

sl_status sl_error_errno(sl_status status, const char *format, ...) {
    int number = errno;
    char text[sizeof error_text - 128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return sl_error(status, "%s: %s", text, strerror(number));
}

const char *sl_error_text(void) {
    return error_text;
}

int sl_exit_code(sl_status status) {
    return status == SL_OK ? 0 : status == SL_EINVAL ? 2 : 1;
}
