/* `slackline choose PROFILE`: what other arrangements of a job would bring, by effort. */
#pragma once

#include "base/yaml.h"
#include "choose/search/effort.h"

typedef struct sl_others_request {
    const char *order_file; /* the running order; NULL: unknown */
    int is_json;
    sl_other_options options;
} sl_others_request;

/** Reads the profile, searches and prints. Errors as sl_others_find, and those of reading. */
sl_status sl_choose_others(const sl_document *profile, const sl_others_request *request);
