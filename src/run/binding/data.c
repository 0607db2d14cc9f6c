#include "run/binding/data.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "run/checkpoint/checksum.h"

#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct identity {
    dev_t device;
    ino_t inode;
} identity;

struct sl_data {
    uint64_t seed;
    size_t context, batch, microbatches;
    sl_data_tokens kind;
    uint32_t vocabulary;
    uint16_t *text;
    size_t tokens, capacity, training; /* the tail begins at `training` */
    size_t windows;                    /* of the training part */
    double entropy;
    identity *read;
    size_t files, file_capacity;
};

/* ---- reading ---- */

static int read_before(const sl_data *d, const struct stat *s) {
    for (size_t i = 0; i < d->files; i++)
        if (d->read[i].device == s->st_dev && d->read[i].inode == s->st_ino)
            return 1;
    return 0;
}

/* Appends the file's tokens; `size` bytes of content. */
static sl_status add_tokens(sl_data *d, const char *path, const char *content, size_t size) {
    const size_t width = d->kind == SL_DATA_UINT16 ? 2 : 1, count = size / width;
    if (size == 0)
        return sl_error(SL_EINVAL, "data file '%s' is empty", path);
    if (size % width)
        return sl_error(SL_EINVAL, "data file '%s' has %zu bytes, which is not a whole number of uint16 ids",
                        path, size);
    SL_TRY(sl_grow(&d->text, &d->capacity, d->tokens + count, sizeof *d->text));
    for (size_t i = 0; i < count; i++) {
        unsigned low = (unsigned char)content[i * width],
                 high = width == 2 ? (unsigned char)content[i * width + 1] : 0, token = low | high << 8;
        if (token >= d->vocabulary)
            return sl_error(SL_EINVAL, "data file '%s': token %u at byte %zu is outside the vocabulary of %u",
                            path, token, i * width, d->vocabulary);
        d->text[d->tokens + i] = (uint16_t)token;
    }
    d->tokens += count;
    return SL_OK;
}

static sl_status add_file(sl_data *d, const char *path) {
    struct stat s;
    char *content;
    size_t size;
    if (stat(path, &s) != 0)
        return sl_error(SL_EINVAL, "data file '%s': %s", path, strerror(errno));
    if (S_ISDIR(s.st_mode) || read_before(d, &s))
        return SL_OK;
    if (!S_ISREG(s.st_mode)) /* a device may never end; a pipe gives each rank a different part */
        return sl_error(SL_EINVAL, "data file '%s' is not a regular file", path);
    SL_TRY(sl_grow(&d->read, &d->file_capacity, d->files + 1, sizeof *d->read));
    d->read[d->files++] = (identity){s.st_dev, s.st_ino};
    SL_TRY(sl_file_read(path, &content, &size));
    sl_status status = add_tokens(d, path, content, size);
    sl_free(content);
    return status;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static sl_status add_pattern(sl_data *d, const char *pattern) {
    glob_t found;
    int result = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found);
    if (result == GLOB_NOMATCH)
        return sl_error(SL_EINVAL, "data: no file matches '%s'", pattern);
    if (result != 0)
        return sl_error(result == GLOB_NOSPACE ? SL_ENOMEM : SL_EINVAL, "data: '%s' cannot be searched: %s",
                        pattern, result == GLOB_NOSPACE ? "out of memory" : strerror(errno));
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes); /* glob sorts by locale */
    sl_status status = SL_OK;
    size_t before = d->files;
    for (size_t i = 0; i < found.gl_pathc && status == SL_OK; i++)
        status = add_file(d, found.gl_pathv[i]);
    if (status == SL_OK && d->files == before && before == 0)
        status = sl_error(SL_EINVAL, "data: '%s' matches only directories", pattern);
    globfree(&found);
    return status;
}

static sl_status cut_tail(sl_data *d, double held_out) {
    const size_t least = d->batch * d->context + 1;
    size_t tail = (size_t)((double)d->tokens * held_out);
    if (tail < least)
        tail = least;
    if (d->tokens < tail + d->context + 1)
        return sl_error(SL_EINVAL,
                        "data: %zu tokens are too few, at least %zu are needed (context %zu, batch %zu)",
                        d->tokens, tail + d->context + 1, d->context, d->batch);
    d->training = d->tokens - tail;
    d->windows = (d->training - 1) / d->context;
    return SL_OK;
}

static sl_status find_entropy(sl_data *d) {
    size_t *seen;
    SL_TRY(sl_alloc(&seen, (size_t)UINT16_MAX + 1, sizeof *seen));
    for (size_t i = 0; i < d->tokens; i++)
        seen[d->text[i]]++;
    for (size_t t = 0; t <= UINT16_MAX; t++)
        if (seen[t])
            d->entropy -= (double)seen[t] / (double)d->tokens * log((double)seen[t] / (double)d->tokens);
    sl_free(seen);
    return SL_OK;
}

static sl_status check(const sl_data_config *c) {
    if (c->pattern_count < 1)
        return sl_error(SL_EINVAL, "data: no files given");
    if (!(c->held_out > 0 && c->held_out < 1))
        return sl_error(SL_EINVAL, "data: the held-out share must be between 0 and 1, got %g", c->held_out);
    if (c->vocabulary < 0)
        return sl_error(SL_EINVAL, "data: a vocabulary of %d", c->vocabulary);
    if (c->context < 1 || c->batch < 1 || c->microbatches < 1)
        return sl_error(SL_EINVAL, "data: context %d, batch %d and microbatches %d must be >= 1", c->context,
                        c->batch, c->microbatches);
    return SL_OK;
}

sl_status sl_data_open(const sl_data_config *c, sl_data **data) {
    sl_data *d;
    sl_status status;
    SL_TRY(check(c));
    SL_TRY(sl_alloc(&d, 1, sizeof *d));
    d->seed = c->seed;
    d->context = (size_t)c->context;
    d->batch = (size_t)c->batch;
    d->microbatches = (size_t)c->microbatches;
    d->kind = c->tokens;
    d->vocabulary = c->vocabulary ? (uint32_t)c->vocabulary : UINT16_MAX + 1u;
    for (int i = 0; i < c->pattern_count; i++)
        SL_TRY_GOTO(err_close, status, add_pattern(d, c->patterns[i]));
    SL_TRY_GOTO(err_close, status, cut_tail(d, c->held_out));
    SL_TRY_GOTO(err_close, status, find_entropy(d));
    *data = d;
    return SL_OK;
err_close:
    sl_data_close(d);
    return status;
}

void sl_data_close(sl_data *d) {
    if (!d)
        return;
    SL_FREE(d->text, d->read, d);
}

/* ---- which window ---- */

/* A permutation of [0, count) without a table: four Feistel rounds on the smallest even number of bits that
 * holds count, repeated until the value falls inside (at most 4 times on average). */
static uint64_t shuffle(uint64_t key, uint64_t index, uint64_t count) {
    int half = 1;
    while (half < 31 && ((uint64_t)1 << (2 * half)) < count)
        half++;
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = index >> half, right = index & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t next = left ^ (sl_random_mix(key + round * SL_RANDOM_STEP + right) & mask);
            left = right;
            right = next;
        }
        index = left << half | right;
    } while (index >= count);
    return index;
}

size_t sl_data_window(const sl_data *d, uint64_t n) {
    const uint64_t epoch = n / d->windows, index = n % d->windows;
    const uint64_t key = sl_random_mix(sl_random_mix(d->seed + SL_RANDOM_STEP) + epoch);
    return (size_t)shuffle(key, index, d->windows) * d->context;
}

static void copy_windows(const sl_data *d, size_t row, size_t start, uint16_t *tokens, uint16_t *targets) {
    if (tokens)
        memcpy(tokens + row * d->context, d->text + start, d->context * sizeof *tokens);
    if (targets)
        memcpy(targets + row * d->context, d->text + start + 1, d->context * sizeof *targets);
}

void sl_data_batch(const sl_data *d, int64_t iteration, int microbatch, uint16_t *tokens, uint16_t *targets) {
    const uint64_t first = ((uint64_t)iteration * d->microbatches + (uint64_t)microbatch) * d->batch;
    for (size_t row = 0; row < d->batch; row++)
        copy_windows(d, row, sl_data_window(d, first + row), tokens, targets);
}

int sl_data_validation_batches(const sl_data *d) {
    return (int)((d->tokens - d->training - 1) / (d->context * d->batch));
}

void sl_data_validation_batch(const sl_data *d, int index, uint16_t *tokens, uint16_t *targets) {
    for (size_t row = 0; row < d->batch; row++)
        copy_windows(d, row, d->training + ((size_t)index * d->batch + row) * d->context, tokens, targets);
}

size_t sl_data_all_tokens(const sl_data *d) {
    return d->tokens;
}

uint64_t sl_data_checksum(const sl_data *d) {
    return sl_checksum(d->text, d->tokens * sizeof *d->text);
}

double sl_data_entropy(const sl_data *d) {
    return d->entropy;
}
