#include "notice/detect/suspect.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FACTORS_MAX 10 /* a delay that has grown more is given in ms */

static const char *const names[] = {"unknown", "device", "link", "host", "group", "workload", "imbalance"};
enum { COMPONENTS = sizeof names / sizeof *names };

const char *sl_component_name(sl_component component) {
    return (unsigned)component < COMPONENTS ? names[component] : "?";
}

void sl_suspect_name(const sl_suspect *s, char *text, size_t size) {
    switch (s->component) {
    case SL_COMPONENT_DEVICE:
        snprintf(text, size, "device of rank %d", s->rank);
        return;
    case SL_COMPONENT_LINK:
        sl_text_link(text, size, s->from, s->to, s->both);
        return;
    case SL_COMPONENT_HOST:
        snprintf(text, size, "host of rank %d", s->rank);
        return;
    case SL_COMPONENT_GROUP:
        snprintf(text, size, "group %016llx", (unsigned long long)s->group);
        return;
    case SL_COMPONENT_LOAD:
        snprintf(text, size, "workload");
        return;
    case SL_COMPONENT_STAGES:
        snprintf(text, size, "imbalance: stages of rank %d", s->rank);
        return;
    case SL_COMPONENT_UNKNOWN:
        break;
    }
    snprintf(text, size, "cannot tell");
}

void sl_suspect_text(const sl_suspect *s, char *text, size_t size) {
    char name[64], ratio[32] = "";
    sl_suspect_name(s, name, sizeof name);
    int delayed =
        s->component == SL_COMPONENT_LINK && s->measured > FACTORS_MAX * s->expected; /* ms: rates fall */
    if (delayed && s->expected > 0)
        snprintf(ratio, sizeof ratio, " +%.3g ms", s->measured - s->expected);
    else if (s->component != SL_COMPONENT_UNKNOWN && s->expected > 0 && s->measured > 0)
        snprintf(ratio, sizeof ratio, " x %.2f", /* rates fall when times grow */
                 s->measured > s->expected ? s->measured / s->expected : s->expected / s->measured);
    sl_text_format(text, size, "%s%s%s%s%s%s%s", name, ratio, s->cause[0] ? " (" : "", s->cause,
                   s->cause[0] ? ")" : "", s->why[0] ? ": " : "", s->why);
}

json_t *sl_suspect_to_json(const sl_suspect *s) {
    json_t *json = json_pack("{s:s}", "component", sl_component_name(s->component));
    int failed = !json;
    if (json && s->rank >= 0)
        failed |= json_object_set_new(json, "rank", json_integer(s->rank));
    if (json && s->component == SL_COMPONENT_LINK) {
        failed |= json_object_set_new(json, "link", json_pack("[i,i]", s->from, s->to));
        failed |= json_object_set_new(json, "both", json_boolean(s->both));
    }
    if (json && s->component == SL_COMPONENT_UNKNOWN && s->from >= 0 && s->to >= 0)
        failed |= json_object_set_new(json, "about", json_pack("[i,i]", s->from, s->to));
    if (json && s->component == SL_COMPONENT_GROUP)
        failed |= json_object_set_new(json, "group", json_sprintf("%016llx", (unsigned long long)s->group));
    if (json && isfinite(s->measured) && isfinite(s->expected) && (s->measured != 0 || s->expected != 0)) {
        failed |= json_object_set_new(json, "measured", json_real(s->measured));
        failed |= json_object_set_new(json, "expected", json_real(s->expected));
    }
    if (json && s->cause[0])
        failed |= json_object_set_new(json, "cause", json_string(s->cause));
    if (json && s->why[0])
        failed |= json_object_set_new(json, "why", json_string(s->why));
    if (failed) {
        json_decref(json);
        return NULL;
    }
    return json;
}

static int read_number(const json_t *json, const char *key, double *value) {
    const json_t *found = json_object_get(json, key);
    if (!found)
        return 1;
    *value = json_number_value(found);
    return json_is_number(found) && isfinite(*value);
}

static int read_rank(const json_t *json, int *rank) {
    json_int_t value = json_integer_value(json);
    *rank = (int)value;
    return json_is_integer(json) && value >= 0 && value <= INT32_MAX;
}

static int read_text(const json_t *json, const char *key, char *text, size_t size) {
    const json_t *found = json_object_get(json, key);
    if (!found)
        return 1;
    if (!json_is_string(found))
        return 0;
    sl_text_fit(text, size, json_string_value(found));
    return 1;
}

static int read_ends(const json_t *link, sl_suspect *s) {
    return json_array_size(link) == 2 && read_rank(json_array_get(link, 0), &s->from) &&
           read_rank(json_array_get(link, 1), &s->to);
}

static int read_name(const json_t *json, sl_suspect *s) {
    const json_t *about = json_object_get(json, "about"), *group = json_object_get(json, "group");
    int used = 0;
    unsigned long long name;
    switch (s->component) {
    case SL_COMPONENT_DEVICE:
    case SL_COMPONENT_HOST:
    case SL_COMPONENT_STAGES:
        return read_rank(json_object_get(json, "rank"), &s->rank);
    case SL_COMPONENT_LINK:
        s->both = json_is_true(json_object_get(json, "both"));
        return read_ends(json_object_get(json, "link"), s);
    case SL_COMPONENT_GROUP:
        if (!json_is_string(group) || strlen(json_string_value(group)) != 16 ||
            sscanf(json_string_value(group), "%16llx%n", &name, &used) != 1 || used != 16)
            return 0;
        s->group = name;
        return 1;
    case SL_COMPONENT_LOAD:
    case SL_COMPONENT_UNKNOWN:
        return !about || read_ends(about, s);
    }
    return 1;
}

sl_status sl_suspect_from_json(const json_t *json, sl_suspect *s) {
    const char *component = json_string_value(json_object_get(json, "component"));
    int kind = COMPONENTS;
    for (int i = 0; i < COMPONENTS && component; i++)
        kind = strcmp(component, names[i]) == 0 ? i : kind;
    *s = (sl_suspect){.rank = -1, .from = -1, .to = -1};
    if (kind == COMPONENTS)
        return sl_error(SL_EINVAL, "a suspect's component is '%s'", component ? component : "missing");
    s->component = (sl_component)kind;
    if (!read_name(json, s))
        return sl_error(SL_EINVAL, "a suspect of kind '%s' names no component", component);
    if (!read_number(json, "measured", &s->measured) || !read_number(json, "expected", &s->expected) ||
        !read_text(json, "cause", s->cause, sizeof s->cause) ||
        !read_text(json, "why", s->why, sizeof s->why))
        return sl_error(SL_EINVAL, "a suspect's measured, expected, cause or why has the wrong type");
    return SL_OK;
}
