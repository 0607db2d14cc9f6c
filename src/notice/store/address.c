#include "notice/store/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int digit_of(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* text[length] with its %XX decoded into out[size]; 0 if it does not fit or is invalid. */
static int decode(const char *text, size_t length, char *out, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '%') {
            int high = i + 2 < length ? digit_of(text[i + 1]) : -1;
            int low = i + 2 < length ? digit_of(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return 0;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == 0 || used + 1 >= size)
            return 0;
        out[used++] = c;
    }
    out[used] = 0;
    return 1;
}

static int read_number(const char *text, size_t length, int most, int *number) {
    char copy[16], *end;
    if (length == 0 || length >= sizeof copy || digit_of(text[0]) < 0)
        return 0;
    memcpy(copy, text, length);
    copy[length] = 0;
    long value = strtol(copy, &end, 10);
    *number = (int)value;
    return *end == 0 && value >= 0 && value <= most;
}

static sl_status read_user(const char *text, size_t length, sl_store_address *a) {
    const char *colon = memchr(text, ':', length);
    size_t user = colon ? (size_t)(colon - text) : length;
    if (!colon)
        return sl_error(SL_EINVAL, "redis URL: a user needs a password: redis://USER:PASSWORD@HOST");
    if (!decode(text, user, a->user, sizeof a->user) ||
        !decode(colon + 1, length - user - 1, a->password, sizeof a->password))
        return sl_error(
            SL_EINVAL,
            "redis URL: user or password is too long, or has a '%%' not followed by two hexadecimal digits");
    a->has_password = 1;
    return SL_OK;
}

static sl_status read_host(const char *text, size_t length, sl_store_address *a) {
    const char *end = text + length, *close = length && text[0] == '[' ? memchr(text, ']', length) : NULL;
    const char *name = close ? text + 1 : text;
    const char *after = close ? close + 1 : memchr(text, ':', length);
    after = after ? after : end;
    size_t size = (size_t)((close ? close : after) - name);
    if (size == 0 || size >= sizeof a->host)
        return sl_error(SL_EINVAL, "redis URL: the host is missing or too long");
    memcpy(a->host, name, size);
    a->port = 6379;
    if (after < end && (*after != ':' ||
                        !read_number(after + 1, (size_t)(end - after) - 1, 65535, &a->port) || a->port == 0))
        return sl_error(SL_EINVAL, "redis URL: invalid port '%.*s'", (int)(end - after), after);
    return SL_OK;
}

sl_status sl_store_address_read(const char *url, sl_store_address *a) {
    memset(a, 0, sizeof *a);
    if (strncmp(url, "unix:", 5) == 0) {
        const char *path = strncmp(url + 5, "//", 2) == 0 ? url + 7 : url + 5;
        if (!*path || strlen(path) >= sizeof a->path)
            return sl_error(SL_EINVAL, "redis URL: invalid socket path '%s' (at most %zu characters)", path,
                            sizeof a->path - 1);
        snprintf(a->path, sizeof a->path, "%s", path);
        return SL_OK;
    }
    a->secure = strncmp(url, "rediss://", 9) == 0;
    if (!a->secure && strncmp(url, "redis://", 8) != 0)
        return sl_error(SL_EINVAL, "a Redis URL must begin with redis://, rediss:// or unix:");
    const char *rest = url + (a->secure ? 9 : 8);
    size_t length = strcspn(rest, "/?");
    const char *slash = rest + length, *at = memrchr(rest, '@', length);
    if (at) {
        SL_TRY(read_user(rest, (size_t)(at - rest), a));
        length -= (size_t)(at + 1 - rest);
        rest = at + 1;
    }
    SL_TRY(read_host(rest, length, a));
    if (slash[0] && slash[1] &&
        (*slash != '/' || !read_number(slash + 1, strlen(slash + 1), 1 << 20, &a->database)))
        return sl_error(SL_EINVAL, "redis URL: invalid database number '%s'", slash + 1);
    return SL_OK;
}

void sl_store_address_show(const sl_store_address *a, char *text, size_t size) {
    if (a->path[0])
        snprintf(text, size, "unix:%s", a->path);
    else
        snprintf(text, size, strchr(a->host, ':') ? "[%s]:%d" : "%s:%d", a->host, a->port);
}
