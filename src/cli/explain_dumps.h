/* slackline explain with dumps of flight recorders, or hang.json of a watch: why the job hangs or stalls. */
#pragma once

#include "base/option.h"
#include "base/status.h"

#include <stdio.h>

/** Whether the first file is such a dump. SL_EINVAL: it cannot be read. */
sl_status sl_explain_has_dumps(const sl_texts *files, int *has);

/** Reads all of them and prints the verdict. SL_EINVAL, SL_ENOMEM. */
sl_status sl_explain_dumps(const sl_texts *files, int is_json, FILE *out);
