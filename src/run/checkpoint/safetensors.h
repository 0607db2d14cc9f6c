/* The safetensors format (https://github.com/huggingface/safetensors): eight bytes with the length of the
 * header (little-endian), the header (a JSON object: name -> dtype, shape, data_offsets; and __metadata__),
 * then the data, little-endian and row by row.
 *
 * A file to read may come from any source and hold anything: its header is fully checked before the first
 * value is read (length, JSON, duplicate names, shapes that overflow, offsets outside the file, overlaps,
 * holes, sizes that do not fit the shape), as in the format's own reader. It is read by pread, not mapped: a
 * file that shrinks meanwhile, or a failing disk, is then an error and no SIGBUS.
 *
 * A file written here has the xxh64 of each tensor in __metadata__, as "xxh64.NAME": data read of such a
 * tensor are checked against it, byte for byte. Other readers ignore it. */
#pragma once

#include "base/status.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SL_TENSOR_DIMENSIONS 8
#define SL_TENSOR_CHECKSUM "xxh64." /* prefix of a name in __metadata__ */

/* Types that can be read as f32, and any other. */
typedef enum sl_dtype { SL_DTYPE_F32, SL_DTYPE_F16, SL_DTYPE_BF16, SL_DTYPE_OTHER } sl_dtype;

typedef struct sl_tensor {
    const char *name;
    sl_dtype dtype;
    char dtype_name[12];
    int dimensions; /* 0: a single number */
    int64_t shape[SL_TENSOR_DIMENSIONS];
    size_t count;        /* elements */
    uint64_t begin, end; /* bytes of the file, from its beginning */
    int sealed;          /* the header has its checksum, and reading checks it */
    uint64_t checksum;   /* xxh64 of its bytes, if sealed */
} sl_tensor;

typedef struct sl_safetensors sl_safetensors;

/** Opens a file and checks its header; SL_EINVAL names the path and the error. Close with
 * sl_safetensors_close. */
sl_status sl_safetensors_open(const char *path, sl_safetensors **file);
void sl_safetensors_close(sl_safetensors *file);

/** xxh64 of the header as it was read: all bytes before the data. */
uint64_t sl_safetensors_header(const sl_safetensors *file);

/** The tensors in byte order of their names; owned by the file. */
int sl_safetensors_count(const sl_safetensors *file);
const sl_tensor *sl_safetensors_tensor(const sl_safetensors *file, int index);
/** NULL: no tensor of that name. */
const sl_tensor *sl_safetensors_find(const sl_safetensors *file, const char *name);

/** Elements [first, first + count) of a tensor of this file as f32 (F16 and BF16 are widened exactly). A
 * sealed tensor is read completely, to check the elements taken. SL_EINVAL: another dtype, a range outside
 * the tensor, bytes with another checksum, or the file cannot be read. */
sl_status sl_safetensors_read(const sl_safetensors *file, const sl_tensor *tensor, size_t first, size_t count,
                              float *out);

/* A tensor to write: f32, in the order given. */
typedef struct sl_tensor_source {
    char name[96];
    int dimensions; /* 1 or 2 */
    int64_t shape[2];
    const float *data;
} sl_tensor_source;

/* A file as written: reading it back must give the same. */
typedef struct sl_file_seal {
    uint64_t size, checksum; /* bytes; xxh64 */
    uint64_t header;         /* safetensors: xxh64 of all bytes before the data; else 0 */
} sl_file_seal;

/** Writes a new file and syncs it to disk; space is reserved first, so that a full disk is detected before
 * writing. `stop` (NULL: never): when it becomes nonzero, writing ends with SL_ENONE. SL_ESYS names the
 * path; the partial file is removed. May run concurrently with other threads that do not change the data. */
sl_status sl_safetensors_write(const char *path, const sl_tensor_source *tensors, int count,
                               const atomic_int *stop, sl_file_seal *seal);
