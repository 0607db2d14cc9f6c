#include "run/transport/wires.h"
#include "base/shared.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

size_t sl_wires_count(int ranks) {
    return 2 * (size_t)ranks * (size_t)ranks;
}

sl_status sl_wires_open(const char *directory, const char *name, size_t count, sl_wires *wires) {
    char path[4096];
    size_t bytes = count * sizeof *wires->free_at;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return sl_error(SL_EINVAL, "the directory's name is too long");
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        return sl_error_errno(SL_ESYS, "%s: cannot be made", path);
    sl_status status = sl_shared_reserve(file, bytes, path); /* all ranks ask for the same */
    SL_THEN(status, sl_shared_map(file, bytes, path, &wires->free_at));
    close(file);
    SL_TRY(status);
    wires->bytes = bytes;
    return SL_OK;
}

void sl_wires_close(sl_wires *wires) {
    if (wires->bytes > 0)
        munmap(wires->free_at, wires->bytes);
    *wires = (sl_wires){0};
}
