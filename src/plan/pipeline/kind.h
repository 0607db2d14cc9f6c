/* The kind of a given file: problems, runs, clusters, campaigns and models are all YAML, and their examples
 * are in one folder. */
#pragma once

#include "base/yaml.h"

typedef enum sl_file_kind {
    SL_FILE_PROBLEM,
    SL_FILE_RUN,
    SL_FILE_CLUSTER,
    SL_FILE_CAMPAIGN,
    SL_FILE_MODEL
} sl_file_kind;

/** SL_EINVAL, with the line: `root` has the key that marks another kind and not that of `wanted`. Else SL_OK,
 * whatever is wrong with it. */
sl_status sl_file_kind_check(const sl_yaml *root, sl_file_kind wanted);
