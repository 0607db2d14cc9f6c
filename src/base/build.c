#include "base/build.h"
#include "base/build_id.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void sl_build_words(char words[SL_BUILD_WORDS]) {
    char path[PATH_MAX] = "";
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    snprintf(words, SL_BUILD_WORDS, "%s %s", sl_build_id(), length > 0 ? path : "unknown");
}

const char *sl_build_take(int *argc, char **argv) {
    if (*argc < 3 || strcmp(argv[*argc - 2], SL_BUILD_OPTION) != 0)
        return NULL;
    *argc -= 2;
    const char *words = argv[*argc + 1];
    argv[*argc] = NULL;
    return words;
}

static int is_same(const char *one, const char *other) {
    size_t length = strcspn(one, " ");
    return length == strcspn(other, " ") && memcmp(one, other, length) == 0;
}

static const char *path_of(const char *words) {
    const char *blank = strchr(words, ' ');
    return blank ? blank + 1 : "unknown";
}

static int version_size(const char *words) {
    return (int)strcspn(words, " ");
}

sl_status sl_build_check(const char *starter) {
    char own[SL_BUILD_WORDS];
    sl_build_words(own);
    if (!starter)
        return sl_error(SL_ENONE, "%s of slackline %.*s was started without a version", path_of(own),
                        version_size(own), own);
    if (is_same(own, starter))
        return SL_OK;
    return sl_error(SL_ENONE, "slackline %.*s and %.*s do not work together: %s was started by %s",
                    version_size(own), own, version_size(starter), starter, path_of(own), path_of(starter));
}

sl_status sl_build_compare(const char *first, int rank, const char *other) {
    if (is_same(first, other))
        return SL_OK;
    return sl_error(SL_ENONE, "slackline %.*s and %.*s do not work together: rank 0 runs %s, rank %d %s",
                    version_size(first), first, version_size(other), other, path_of(first), rank,
                    path_of(other));
}
