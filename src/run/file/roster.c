#include "run/file/roster.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FORMAT "slackline-hosts-1"
#define LARGEST ((size_t)64 << 20)

sl_roster sl_roster_empty(void) {
    return (sl_roster){.move.iteration = -1, .last.iteration = -1};
}

void sl_roster_free(sl_roster *roster) {
    sl_free(roster->host);
    *roster = sl_roster_empty();
}

sl_time sl_roster_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (sl_time)now.tv_sec * SL_SECOND + now.tv_nsec;
}

/* ---- what may be used ---- */

int sl_roster_uses(const sl_roster_host *host) {
    return !host->why[0] && !host->slow[0];
}

int sl_roster_slots(const sl_roster *roster) {
    int slots = 0;
    for (int i = 0; i < roster->count; i++)
        slots += sl_roster_uses(&roster->host[i]) ? roster->host[i].slots : 0;
    return slots;
}

/* ---- names ---- */

static const char *without_user(const char *name) {
    const char *at = strchr(name, '@');
    return at ? at + 1 : name;
}

static int is_address(const char *name) {
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

int sl_roster_same(const char *one, const char *other) {
    one = without_user(one);
    other = without_user(other);
    if (strcasecmp(one, other) == 0)
        return 1;
    size_t first = strcspn(one, "."), second = strcspn(other, ".");
    return first == second && first > 0 && strncasecmp(one, other, first) == 0 &&
           (one[first] == 0 || other[second] == 0) && !is_address(one) && !is_address(other);
}

static int is_loopback(const char *name) {
    return strcasecmp(name, "localhost") == 0 || strncmp(name, "127.", 4) == 0 || strcmp(name, "::1") == 0;
}

int sl_roster_may_be(const char *entry, const char *name) {
    entry = without_user(entry);
    name = without_user(name);
    return sl_roster_same(entry, name) || is_address(entry) || is_address(name) || is_loopback(entry) ||
           is_loopback(name);
}

int sl_roster_find(const sl_roster *roster, const char *name) {
    for (int i = 0; i < roster->count; i++) /* the whole name first: a.x and a.y may both be there */
        if (strcasecmp(roster->host[i].name, name) == 0)
            return i;
    for (int i = 0; i < roster->count; i++)
        if (sl_roster_same(roster->host[i].name, name))
            return i;
    return -1;
}

/* Loopback is no evidence: every host has it. */
static int has_address(const struct ifaddrs *interfaces, const char *name) {
    char text[NI_MAXHOST];
    for (const struct ifaddrs *at = interfaces; at; at = at->ifa_next) {
        if (!at->ifa_addr || (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
            continue;
        socklen_t size =
            at->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        if (getnameinfo(at->ifa_addr, size, text, sizeof text, NULL, 0, NI_NUMERICHOST) != 0)
            continue;
        text[strcspn(text, "%")] = 0;
        if (strncmp(text, "127.", 4) != 0 && strcmp(text, "::1") != 0 && strcasecmp(text, name) == 0)
            return 1;
    }
    return 0;
}

int sl_roster_here(const sl_roster *roster, const char *self) {
    struct ifaddrs *interfaces = NULL;
    int found = sl_roster_find(roster, self);
    for (int i = 0; i < roster->count && found < 0; i++)
        if (is_loopback(without_user(roster->host[i].name)) && strcmp(roster->local, self) == 0)
            found = i;
    if (found >= 0 || getifaddrs(&interfaces) != 0)
        return found;
    for (int i = 0; i < roster->count && found < 0; i++) {
        const char *name = without_user(roster->host[i].name);
        if (is_address(name) && has_address(interfaces, name))
            found = i;
    }
    freeifaddrs(interfaces);
    return found;
}

/* ---- the file ---- */

/* ssh's message may not be UTF-8, and is cut at a number of bytes. */
static json_t *text_object(const char *text) {
    json_t *object = json_string(text);
    char plain[256];
    if (object)
        return object;
    snprintf(plain, sizeof plain, "%.255s", text);
    for (char *at = plain; *at; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    return json_string(plain);
}

static json_t *time_ms(sl_time time) {
    return json_real((double)time / 1e6);
}

static sl_time read_ms(const json_t *object, const char *key) {
    double value = json_number_value(json_object_get(object, key));
    return value > 0 && value < 9e12 ? (sl_time)(value * 1e6) : 0;
}

static void read_text(const json_t *object, const char *key, char *text, size_t size) {
    const char *value = json_string_value(json_object_get(object, key));
    snprintf(text, size, "%.*s", (int)size - 1, value ? value : "");
}

static json_t *host_object(const sl_roster_host *host) {
    json_t *object = json_pack("{s:s, s:i}", "name", host->name, "slots", host->slots);
    int failed = !object;
    if (object && host->why[0])
        failed |= json_object_set_new(object, "failed", text_object(host->why));
    if (object && host->slow[0])
        failed |= json_object_set_new(object, "left", text_object(host->slow));
    if (object && host->leave)
        failed |= json_object_set_new(object, "leave", json_true());
    if (failed)
        json_decref(object);
    return failed ? NULL : object;
}

static json_t *move_object(const sl_roster_move *move) {
    json_t *object =
        json_pack("{s:i, s:o, s:o, s:o, s:o}", "iteration", move->iteration, "why", text_object(move->why),
                  "began_unix_ms", time_ms(move->began), "ordered_unix_ms", time_ms(move->ordered),
                  "ended_unix_ms", time_ms(move->ended));
    int failed = !object;
    if (object && move->grow)
        failed |= json_object_set_new(object, "grow", json_true());
    if (object && move->layout[0])
        failed |= json_object_set_new(object, "layout", text_object(move->layout));
    if (failed)
        json_decref(object);
    return failed ? NULL : object;
}

static json_t *cost_object(const sl_roster_cost *cost) {
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o}", "iteration", cost->iteration, "save_ms",
                     time_ms(cost->save), "end_ms", time_ms(cost->end), "start_ms", time_ms(cost->start),
                     "first_ms", time_ms(cost->first), "total_ms", time_ms(cost->total));
}

static json_t *roster_object(const sl_roster *roster) {
    json_t *hosts = json_array();
    int failed = !hosts;
    for (int i = 0; i < roster->count && hosts; i++)
        failed |= json_array_append_new(hosts, host_object(&roster->host[i]));
    json_t *object = json_pack("{s:s, s:s, s:o, s:o}", "format", FORMAT, "supervisor", roster->local, "hosts",
                               hosts, "started_unix_ms", time_ms(roster->started));
    failed |= !object;
    if (object && roster->move.iteration >= 0)
        failed |= json_object_set_new(object, "move", move_object(&roster->move));
    if (object && roster->last.iteration >= 0)
        failed |= json_object_set_new(object, "last", cost_object(&roster->last));
    if (failed)
        json_decref(object);
    return failed ? NULL : object;
}

static sl_status path_of(const char *folder, char path[PATH_MAX]) {
    return snprintf(path, PATH_MAX, "%s/hosts.json", folder) < PATH_MAX
               ? SL_OK
               : sl_error(SL_EINVAL, "%s: the path is too long", folder);
}

sl_status sl_roster_write(const char *folder, const sl_roster *roster) {
    char path[PATH_MAX];
    SL_TRY(path_of(folder, path));
    json_t *object = roster_object(roster);
    char *text = object ? json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(16)) : NULL;
    json_decref(object);
    if (!text)
        return sl_error(SL_ENOMEM, "out of memory for %s", path);
    sl_status status = sl_file_write(path, text, strlen(text));
    free(text);
    return status;
}

void sl_roster_remove(const char *folder) {
    char path[PATH_MAX];
    if (path_of(folder, path) == SL_OK)
        unlink(path);
}

static sl_status read_host(const json_t *object, const char *path, sl_roster *roster) {
    sl_roster_host host = {.slots = sl_json_count(object, "slots", 0)};
    read_text(object, "name", host.name, sizeof host.name);
    read_text(object, "failed", host.why, sizeof host.why);
    read_text(object, "left", host.slow, sizeof host.slow);
    host.leave = json_is_true(json_object_get(object, "leave"));
    if (!host.name[0] || host.slots < 1)
        return sl_error(SL_EINVAL, "%s: host %d has no name or no slots", path, roster->count);
    SL_TRY(sl_grow(&roster->host, &roster->capacity, (size_t)roster->count + 1, sizeof *roster->host));
    roster->host[roster->count++] = host;
    return SL_OK;
}

static sl_status read_object(const json_t *object, const char *path, sl_roster *roster) {
    const json_t *hosts = json_object_get(object, "hosts"), *move = json_object_get(object, "move"),
                 *last = json_object_get(object, "last");
    char format[32];
    read_text(object, "format", format, sizeof format);
    if (strcmp(format, FORMAT) != 0 || !json_is_array(hosts))
        return sl_error(SL_EINVAL, "%s: is not a " FORMAT, path);
    for (size_t i = 0; i < json_array_size(hosts); i++)
        SL_TRY(read_host(json_array_get(hosts, i), path, roster));
    read_text(object, "supervisor", roster->local, sizeof roster->local);
    roster->started = read_ms(object, "started_unix_ms");
    roster->move = (sl_roster_move){.iteration = sl_json_count(move, "iteration", -1),
                                    .began = read_ms(move, "began_unix_ms"),
                                    .ordered = read_ms(move, "ordered_unix_ms"),
                                    .ended = read_ms(move, "ended_unix_ms")};
    read_text(move, "why", roster->move.why, sizeof roster->move.why);
    read_text(move, "layout", roster->move.layout, sizeof roster->move.layout);
    roster->move.grow = json_is_true(json_object_get(move, "grow"));
    roster->last = (sl_roster_cost){.iteration = sl_json_count(last, "iteration", -1),
                                    .save = read_ms(last, "save_ms"),
                                    .end = read_ms(last, "end_ms"),
                                    .start = read_ms(last, "start_ms"),
                                    .first = read_ms(last, "first_ms"),
                                    .total = read_ms(last, "total_ms")};
    return SL_OK;
}

sl_status sl_roster_read(const char *folder, sl_roster *roster) {
    char path[PATH_MAX], *text;
    size_t size;
    json_error_t error;
    *roster = sl_roster_empty();
    SL_TRY(path_of(folder, path));
    if (access(path, F_OK) != 0)
        return sl_error(SL_ENONE, "%s: is not there", path);
    SL_TRY(sl_file_read_max(path, LARGEST, &text, &size));
    json_t *object = json_loadb(text, size, 0, &error);
    sl_free(text);
    if (!object)
        return sl_error(SL_EINVAL, "%s:%d: %s", path, error.line, error.text);
    sl_status status = read_object(object, path, roster);
    json_decref(object);
    return status;
}

/* ---- growing ---- */

static sl_status growth_path(const char *folder, char path[PATH_MAX]) {
    return snprintf(path, PATH_MAX, "%s/grow", folder) < PATH_MAX
               ? SL_OK
               : sl_error(SL_EINVAL, "%s: the path is too long", folder);
}

sl_status sl_roster_order_growth(const char *folder) {
    char path[PATH_MAX];
    SL_TRY(growth_path(folder, path));
    return sl_file_renew(path, "", 0);
}

void sl_roster_cancel_growth(const char *folder) {
    char path[PATH_MAX];
    if (growth_path(folder, path) == SL_OK)
        unlink(path);
}

int sl_roster_growth_is_ordered(const char *folder) {
    char path[PATH_MAX];
    return growth_path(folder, path) == SL_OK && access(path, F_OK) == 0;
}
