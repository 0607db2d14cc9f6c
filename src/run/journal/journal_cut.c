#include "run/journal/journal_cut.h"
#include "base/json.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_before(const char *line, size_t length, int first) {
    json_t *root = sl_json_object(line, length);
    const int before = sl_json_int(root, "iteration", first) < first;
    json_decref(root);
    return before;
}

/* The remaining lines move to the front within the file, so that a full disk does not stop a run from
 * resuming. */
static sl_status cut(FILE *in, int out, const char *path, int first) {
    char *line = NULL;
    size_t room = 0;
    off_t kept = 0, at = 0;
    int failed = 0;
    for (ssize_t length; !failed && (length = getline(&line, &room, in)) > 0; at += length) {
        if (line[length - 1] != '\n' || !is_before(line, (size_t)length - 1, first))
            continue;
        failed = kept < at && pwrite(out, line, (size_t)length, kept) != length;
        kept += length;
    }
    free(line);
    failed |= ferror(in) || (kept < at && ftruncate(out, kept) != 0);
    return failed ? sl_error_errno(SL_ESYS, "%s: cannot be cut", path) : SL_OK;
}

sl_status sl_journal_cut_metrics(const char *path, int first) {
    struct stat found;
    if (stat(path, &found) != 0 || !S_ISREG(found.st_mode))
        return SL_OK;
    FILE *in = fopen(path, "re");
    int out = open(path, O_WRONLY | O_CLOEXEC);
    sl_status status =
        in && out >= 0 ? cut(in, out, path, first) : sl_error_errno(SL_ESYS, "%s: cannot be cut", path);
    if (in)
        fclose(in);
    if (out >= 0)
        close(out);
    return status;
}
