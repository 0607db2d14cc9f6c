/* The safetensors format (https://github.com/huggingface/safetensors): eight bytes that say how long the
 * header is (little-endian), the header (a JSON object: name -> dtype, shape, data_offsets; and
 * __metadata__), then the data, little-endian and row by row.
 *
 * A file that is read comes from outside and may hold anything: its header is checked in full before the
 * first value is read (length, JSON, names twice, shapes that overflow, offsets outside the file, overlaps,
 * holes, sizes that do not fit the shape), as the format's own reader does. It is read by pread, not mapped:
 * a file that shrinks meanwhile, or a disk that fails, is then an error and no SIGBUS.
 *
 * A file that is written here states the xxh64 of each tensor in __metadata__, as "xxh64.NAME": what is read
 * of such a tensor is checked against it, byte for byte what the caller gets. Other readers pass that over.
 */
#pragma once

#include "base/status.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SL_TENSOR_DIMENSIONS 8
#define SL_TENSOR_CHECKSUM "xxh64." /* in front of a name in __metadata__ */

/* What can be read as f32, and whatever else a file may hold beside it. */
typedef enum sl_dtype { SL_DTYPE_F32, SL_DTYPE_F16, SL_DTYPE_BF16, SL_DTYPE_OTHER } sl_dtype;

typedef struct sl_tensor {
    const char *name;
    sl_dtype dtype;
    char dtype_name[12];
    int dimensions; /* 0: a single number */
    int64_t shape[SL_TENSOR_DIMENSIONS];
    size_t count;        /* elements */
    uint64_t begin, end; /* bytes of the file, from its beginning */
    int sealed;          /* the header states its checksum, and reading checks it */
    uint64_t checksum;   /* xxh64 of its bytes, where sealed */
} sl_tensor;

typedef struct sl_safetensors sl_safetensors;

/** Opens a file and checks its header; SL_EINVAL names the path and what is wrong. Close with
 * sl_safetensors_close. */
sl_status sl_safetensors_open(const char *path, sl_safetensors **file);
void sl_safetensors_close(sl_safetensors *file);

/** xxh64 of the header as it was read: all bytes before the data. */
uint64_t sl_safetensors_header(const sl_safetensors *file);

/** The tensors in byte order of their names; owned by the file. */
int sl_safetensors_count(const sl_safetensors *file);
const sl_tensor *sl_safetensors_tensor(const sl_safetensors *file, int index);
/** NULL: it has none of that name. */
const sl_tensor *sl_safetensors_find(const sl_safetensors *file, const char *name);

/** Elements [first, first + count) of a tensor of this file as f32 (F16 and BF16 are widened, which is
 * exact). A sealed tensor is read whole, to check what is taken of it. SL_EINVAL: a dtype that is no float of
 * these, a range outside the tensor, bytes with another checksum, or the file cannot be read. */
sl_status sl_safetensors_read(const sl_safetensors *file, const sl_tensor *tensor, size_t first, size_t count,
                              float *out);

/* What is written: f32, in the order given. */
typedef struct sl_tensor_source {
    char name[96];
    int dimensions; /* 1 or 2 */
    int64_t shape[2];
    const float *data;
} sl_tensor_source;

/* A file as it was written: what reading it back must give. */
typedef struct sl_file_seal {
    uint64_t size, checksum; /* bytes; xxh64 */
    uint64_t header;         /* safetensors: xxh64 of all bytes before the data; else 0 */
} sl_file_seal;

/** Writes a new file and syncs it to the disk; room for it is reserved first, so that a full disk is known
 * before anything is written. `stop` (NULL: never): when it becomes nonzero the writing ends with SL_ENONE.
 * SL_ESYS names the path; what was written so far is removed. May run beside other threads that leave the
 * data alone. */
sl_status sl_safetensors_write(const char *path, const sl_tensor_source *tensors, int count,
                               const atomic_int *stop, sl_file_seal *seal);
