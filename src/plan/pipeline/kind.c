#include "plan/pipeline/kind.h"

#include <stddef.h>

/* Top-level keys that no other kind of file has. */
static const struct document_kind {
    const char *mark, *name, *alone;
    sl_file_kind kind;
} kinds[] = {
    {"pipeline", "a problem file, for slackline plan, simulate and compare", "a problem file",
     SL_FILE_PROBLEM},
    {"job", "a campaign, for slackline campaign", "a campaign", SL_FILE_CAMPAIGN},
    {"links", "a cluster file, for slackline topology and choose", "a cluster file", SL_FILE_CLUSTER},
    {"iterations", "a run file, for slackline train", "a run file", SL_FILE_RUN},
    {"optimizer", "a run file, for slackline train", "a run file", SL_FILE_RUN},
    {"layers", "a model file, for slackline choose", "a model file", SL_FILE_MODEL},
    {"attention", "a model file, for slackline choose", "a model file", SL_FILE_MODEL},
    {"precision", "a model file, for slackline choose", "a model file", SL_FILE_MODEL},
};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

sl_status sl_file_kind_check(const sl_yaml *root, sl_file_kind wanted) {
    const struct document_kind *is = NULL, *should = NULL;
    const sl_yaml *mark = NULL;
    for (int i = 0; i < KINDS; i++) {
        const sl_yaml *found = sl_yaml_find(root, kinds[i].mark);
        if (kinds[i].kind == wanted) {
            should = &kinds[i];
            if (found)
                return SL_OK;
        } else if (found && !is) {
            is = &kinds[i];
            mark = found;
        }
    }
    return is && should ? sl_yaml_error(mark, "makes this %s; %s is needed here", is->name, should->alone)
                        : SL_OK;
}
