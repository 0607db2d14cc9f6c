#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char error_text[1024] = "no error";

/* Bytes of the UTF-8 character at `text` that a terminal shows as one; 0: a control character or not
 * UTF-8. */
static size_t printable(const unsigned char *text) {
    if (text[0] < 0x80)
        return text[0] >= 0x20 && text[0] != 0x7f;
    size_t length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc2 || text[0] > 0xf4 || (text[0] == 0xc2 && text[1] < 0xa0))
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

/* Makes an error one line, whatever names and values from files it contains. */
static void make_line(char *text) {
    for (size_t i = 0; text[i];) {
        size_t length = printable((const unsigned char *)text + i);
        if (length == 0)
            text[i] = '?';
        i += length ? length : 1;
    }
}

sl_status sl_error(sl_status status, const char *format, ...) {
    char text[sizeof error_text]; /* arguments may point into the old text */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    make_line(text);
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
    return status == SL_OK || status == SL_DONE ? 0 : status == SL_EINVAL ? 2 : 1;
}
