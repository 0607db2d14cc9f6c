#include "cli/leaving.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/picture.h"
#include "pack/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 1 << 18 };

/* The file of a stream; begun with its first bytes, since what comes before may take long. */
struct sl_leaving_file {
    const char *path;
    int begun;
    sl_new_file made;
    sl_packer *packer; /* NULL: not packed */
    sigset_t before;   /* the mask of signals */
    sl_status status;  /* the first failure, and its text */
    char why[512];
};

/* ---- signals ---- */

static void block_endings(sigset_t *before) {
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGHUP);
    sigprocmask(SIG_BLOCK, &ending, before);
}

static int is_ended(void) {
    sigset_t pending;
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
            sigismember(&pending, SIGHUP) == 1);
}

/* ---- the stream ---- */

static void note_failure(sl_leaving_file *f, sl_status status) {
    f->status = status;
    snprintf(f->why, sizeof f->why, "%s", sl_error_text());
}

static sl_status begin(sl_leaving_file *f) {
    if (f->begun)
        return SL_OK;
    block_endings(&f->before);
    sl_status status = sl_file_begin(f->path, &f->made);
    if (status != SL_OK) {
        sigprocmask(SIG_SETMASK, &f->before, NULL);
        return status;
    }
    f->begun = 1;
    return sl_packs(f->path) ? sl_packer_open(f->path, f->made.descriptor, &f->packer) : SL_OK;
}

static int put_plainly(int descriptor, const char *bytes, size_t size) {
    while (size > 0) {
        const ssize_t done = write(descriptor, bytes, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return errno;
        bytes += done;
        size -= (size_t)done;
    }
    return 0;
}

static sl_status put(sl_leaving_file *f, const char *bytes, size_t size) {
    SL_TRY(begin(f));
    if (is_ended())
        return sl_error(SL_ESYS, "%s: ended by a signal", f->path);
    errno = f->packer ? sl_packer_put(f->packer, bytes, size) : put_plainly(f->made.descriptor, bytes, size);
    return errno ? sl_error_errno(SL_ESYS, "%s: cannot be written", f->path) : SL_OK;
}

/* 0 is a failure to stdio. */
static ssize_t put_piece(void *cookie, const char *bytes, size_t size) {
    sl_leaving_file *f = cookie;
    const sl_status status = f->status != SL_OK ? f->status : put(f, bytes, size);
    if (status == SL_OK)
        return (ssize_t)size;
    if (f->status == SL_OK)
        note_failure(f, status);
    errno = EIO;
    return 0;
}

static sl_status open_stream(sl_leaving *leaving) {
    sl_leaving_file *f;
    SL_TRY(sl_alloc(&f, 1, sizeof *f));
    f->path = leaving->output;
    leaving->out = fopencookie(f, "w", (cookie_io_functions_t){.write = put_piece});
    if (!leaving->out) {
        sl_free(f);
        return sl_error(SL_ENOMEM, "out of memory for the output");
    }
    setvbuf(leaving->out, NULL, _IOFBF, BUFFER);
    leaving->file = f;
    return SL_OK;
}

static sl_status close_stream(sl_leaving *leaving, sl_status status) {
    sl_leaving_file *f = leaving->file;
    if (status != SL_OK && !f->begun) /* what it has is dropped */
        f->status = f->status != SL_OK ? f->status : status;
    const int failed = fclose(leaving->out) != 0;
    if (status == SL_OK && f->status == SL_OK) /* it may be empty */
        status = failed ? sl_error(SL_ENOMEM, "out of memory for the output") : begin(f);
    else if (f->why[0])
        status = sl_error(f->status, "%s", f->why);
    errno = sl_packer_close(f->packer);
    if (errno && status == SL_OK)
        status = sl_error_errno(SL_ESYS, "%s: cannot be written", f->path);
    if (f->begun) {
        status = sl_file_end(&f->made, status);
        sigprocmask(SIG_SETMASK, &f->before, NULL);
    }
    sl_free(f);
    return status;
}

/* ---- from memory ---- */

/* A pipe or a device: packed only by name. */
static sl_status write_packed(const char *path, const char *text, size_t size) {
    sl_packer *packer;
    const int descriptor = open(path, O_WRONLY | O_CLOEXEC);
    if (descriptor < 0)
        return sl_error_errno(SL_ESYS, "%s: cannot be written", path);
    sl_status status = sl_packer_open(path, descriptor, &packer);
    if (status == SL_OK) {
        const int put_error = sl_packer_put(packer, text, size), close_error = sl_packer_close(packer);
        errno = put_error ? put_error : close_error;
        status = errno ? sl_error_errno(SL_ESYS, "%s: cannot be written", path) : SL_OK;
    }
    close(descriptor);
    return status;
}

static sl_status write_file(const char *path, const char *text, size_t size) {
    sigset_t before;
    block_endings(&before);
    sl_status status = sl_packs(path) ? write_packed(path, text, size) : sl_file_write(path, text, size);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

sl_status sl_leaving_write(const char *output, const char *text, size_t size) {
    if (output && strcmp(output, "-") != 0) {
        sl_leaving leaving;
        SL_TRY(sl_leaving_open(output, &leaving));
        fwrite(text, 1, size, leaving.out);
        return sl_leaving_close(&leaving, SL_OK);
    }
    if (fwrite(text, 1, size, stdout) != size || fflush(stdout) != 0)
        return sl_error_errno(SL_ESYS, "standard output cannot be written");
    return SL_OK;
}

/* ---- both ---- */

static int can_stream(const char *output) {
    struct stat about;
    if (!output || strcmp(output, "-") == 0 || sl_picture_form(output))
        return 0;
    return stat(output, &about) != 0 || S_ISREG(about.st_mode);
}

sl_status sl_leaving_open(const char *output, sl_leaving *leaving) {
    *leaving = (sl_leaving){.output = output};
    if (can_stream(output))
        return open_stream(leaving);
    leaving->out = open_memstream(&leaving->text, &leaving->size);
    return leaving->out ? SL_OK : sl_error(SL_ENOMEM, "out of memory for the output");
}

static sl_status write_collected(const sl_leaving *leaving) {
    const char *output = leaving->output;
    if (leaving->is_svg && sl_picture_form(output))
        return sl_picture_write(output, leaving->text, leaving->size);
    return output && strcmp(output, "-") != 0 ? write_file(output, leaving->text, leaving->size)
                                              : sl_leaving_write(NULL, leaving->text, leaving->size);
}

sl_status sl_leaving_close(sl_leaving *leaving, sl_status status) {
    if (leaving->file)
        return close_stream(leaving, status);
    if (fclose(leaving->out) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for the output");
    SL_THEN(status, write_collected(leaving));
    free(leaving->text);
    return status;
}
