#include "launch/hosts.h"
#include "base/file.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SLOTS_MAX 100000

void sl_launch_hosts_free(sl_launch_hosts *hosts) {
    sl_roster_free(hosts);
}

/* `where` is "file:line" or the list itself. */
static sl_status add(sl_launch_hosts *hosts, const char *where, const char *name, size_t length, int slots) {
    if (length == 0)
        return sl_error(SL_EINVAL, "%s: a host without a name", where);
    if (length >= sizeof hosts->host->name)
        return sl_error(SL_EINVAL, "%s: the name of a host is longer than %zu", where,
                        sizeof hosts->host->name - 1);
    if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@") < length)
        return sl_error(SL_EINVAL, "%s: '%.*s' is not a host name", where, (int)length, name);
    for (int i = 0; i < hosts->count; i++) {
        sl_launch_host *host = &hosts->host[i];
        if (strlen(host->name) == length && memcmp(host->name, name, length) == 0) {
            host->slots = host->slots + slots > SLOTS_MAX ? SLOTS_MAX : host->slots + slots;
            return SL_OK;
        }
    }
    SL_TRY(sl_grow(&hosts->host, &hosts->capacity, (size_t)hosts->count + 1, sizeof *hosts->host));
    sl_launch_host *host = &hosts->host[hosts->count++];
    *host = (sl_launch_host){.slots = slots};
    memcpy(host->name, name, length);
    return SL_OK;
}

static sl_status read_slots(const char *where, const char *text, size_t length, int *slots) {
    char number[16] = "";
    if (length > 0 && length < sizeof number)
        memcpy(number, text, length);
    char *end;
    long value = strtol(number, &end, 10);
    if (number[0] < '0' || number[0] > '9' || *end || value < 1 || value > SLOTS_MAX)
        return sl_error(SL_EINVAL, "%s: '%.*s' is not a number of slots", where, (int)length, text);
    *slots = (int)value;
    return SL_OK;
}

/* name or name:slots */
static sl_status add_entry(sl_launch_hosts *hosts, const char *where, const char *entry, size_t length,
                           int slots) {
    const char *colon = memchr(entry, ':', length);
    size_t name = colon ? (size_t)(colon - entry) : length;
    if (colon)
        SL_TRY(read_slots(where, colon + 1, length - name - 1, &slots));
    return add(hosts, where, entry, name, slots);
}

/* A line of a hostfile: name[:slots] [slots=N] [max_slots=N] */
static sl_status read_line(sl_launch_hosts *hosts, const char *where, const char *line, size_t length) {
    const char *const blank = " \t\r";
    const char *end = line + length, *comment = memchr(line, '#', length), *host = NULL;
    size_t host_length = 0;
    int slots = 1;
    if (comment)
        end = comment;
    for (const char *at = line; at < end;) {
        if (strchr(blank, *at)) {
            at++;
            continue;
        }
        const char *word = at;
        while (at < end && !strchr(blank, *at))
            at++;
        size_t size = (size_t)(at - word);
        if (!host) {
            host = word;
            host_length = size;
        } else if (size > 6 && strncmp(word, "slots=", 6) == 0) {
            SL_TRY(read_slots(where, word + 6, size - 6, &slots));
        } else if (size < 10 ||
                   (strncmp(word, "max_slots=", 10) != 0 && strncmp(word, "max-slots=", 10) != 0)) {
            return sl_error(SL_EINVAL, "%s: '%.*s' is not known; a line is: host slots=N", where, (int)size,
                            word);
        }
    }
    return host ? add_entry(hosts, where, host, host_length, slots) : SL_OK;
}

static sl_status read_file(const char *path, sl_launch_hosts *hosts) {
    char *text;
    size_t size;
    SL_TRY(sl_file_read_max(path, 1 << 20, &text, &size));
    sl_status status = SL_OK;
    if (strlen(text) != size)
        status = sl_error(SL_EINVAL, "%s: is not text", path);
    int number = 1;
    for (const char *line = text; *line && status == SL_OK; number++) {
        char where[4200];
        size_t length = strcspn(line, "\n");
        snprintf(where, sizeof where, "%.4000s:%d", path, number);
        status = read_line(hosts, where, line, length);
        line += length + (line[length] == '\n');
    }
    sl_free(text);
    if (status == SL_OK && hosts->count == 0)
        status = sl_error(SL_EINVAL, "%s: names no host", path);
    return status;
}

static sl_status read_list(const char *text, sl_launch_hosts *hosts) {
    char where[300];
    snprintf(where, sizeof where, "hosts '%.250s'", text);
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        SL_TRY(add_entry(hosts, where, at, length, 1));
        at += length;
        if (!*at)
            return SL_OK;
    }
}

sl_status sl_launch_hosts_read(const char *text, sl_launch_hosts *hosts) {
    struct stat status;
    *hosts = sl_roster_empty();
    if (strchr(text, '/') || (stat(text, &status) == 0 && S_ISREG(status.st_mode)))
        return read_file(text, hosts);
    return read_list(text, hosts);
}

sl_status sl_launch_hosts_text(const sl_launch_hosts *hosts, char **text) {
    size_t size = 1, used = 0;
    for (int i = 0; i < hosts->count; i++)
        size += strlen(hosts->host[i].name) + 16;
    SL_TRY(sl_alloc(text, size, 1));
    for (int i = 0; i < hosts->count; i++) {
        const sl_launch_host *host = &hosts->host[i];
        if (sl_roster_uses(host))
            used += (size_t)snprintf(*text + used, size - used, "%s%s:%d", used ? "," : "", host->name,
                                     host->slots);
    }
    return SL_OK;
}
