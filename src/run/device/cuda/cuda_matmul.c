/* Products by cuBLASLt. Its matrices are stored by columns, so ours are its transposes: it computes
 * c' = op(b)' op(a)', and our rows are its columns.
 *
 * The algorithm of a product (tile, stages, parts that inner is cut into) is chosen once for a reference
 * number of rows and then used for every number, so that an element of a row is always summed
 * in the same way. Parts of inner are only ever summed in f32 in a step of their own, never as they happen to
 * end.
 *
 * Matrices whose rows do not begin at 16 bytes are copied, and so is all of a product of few rows, for which
 * the library has ways of its own: then neither alignment nor number can make it choose another kernel. */
#include "base/memory.h"
#include "run/device/cuda/cublas_lt.h"
#include "run/device/cuda/cuda_kernels.h"

#include <stdio.h>
#include <string.h>

enum {
    ROWS_OF_DATA = 8192,        /* the reference for products of tokens' rows */
    ROWS_OF_WEIGHTS = 1024,     /* and for gradients of weights, whose a is stored transposed */
    MIN_ROWS = 16,              /* a product of fewer is computed with so many */
    CHOICES = 8,                /* of algorithms */
    WORKSPACE_ALIGN = 256,      /* the library's condition */
    WORKSPACE_BYTES = 32 << 20, /* what an algorithm may ask for */
    PAD = 8                     /* a row of a copy, and inner and columns of bf16: multiples of this */
};

/* A matrix as cuBLASLt sees it, which is a copy if `bytes`. */
typedef struct matrix {
    int type, rows, columns, stride;
    size_t bytes;
} matrix;

/* What sl_matmul is here. */
struct sl_cuda_product {
    sl_cuda_product *next;
    sl_matmul_shape shape;
    matrix a, b, c;
    void *operation, *a_layout, *b_layout, *c_layout; /* a and b are cuBLASLt's b and a */
    sl_lt_algo algo;
    size_t bias_bytes, workspace; /* of a copy of the bias; of the algorithm */
};

static sl_status check(const sl_cuda *cuda, int status, const char *what) {
    return status ? sl_error(SL_ESYS, "cuBLASLt: %s: %s", what, cuda->blas->cublasLtGetStatusString(status))
                  : SL_OK;
}

static size_t aligned(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

static int padded(int count) {
    return (count + PAD - 1) / PAD * PAD;
}

static matrix matrix_of(int type, int rows, int columns, int stride, int copy) {
    matrix m = {type, rows, columns, copy ? padded(columns) : stride, 0};
    if (copy)
        m.bytes =
            aligned((size_t)rows * (size_t)m.stride * (type == SL_BF16 ? sizeof(uint16_t) : sizeof(float)));
    return m;
}

/* Rows of bf16 also end at 16 bytes, with zeros after those that there are: kernels for others are slow. */
static int inner_of(const sl_matmul_shape *s) {
    return s->type == SL_BF16 ? padded(s->inner) : s->inner;
}

static int columns_of(const sl_matmul_shape *s) {
    return s->type == SL_BF16 ? padded(s->columns) : s->columns;
}

/* If both are stored transposed, for which there are few algorithms, b's copy is not. */
static int is_turned(const sl_matmul_shape *s) {
    return s->transpose_a && s->transpose_b;
}

static int is_b_transposed(const sl_matmul_shape *s) {
    return s->transpose_b && !is_turned(s);
}

static int rows_of(int rows) {
    return rows < MIN_ROWS ? MIN_ROWS : rows;
}

/* Stored with that stride. */
static matrix a_of(const sl_matmul_shape *s, int rows, int stride) {
    const int copy = s->type == SL_BF16 || stride % 4 || rows < MIN_ROWS, inner = inner_of(s);
    return s->transpose_a ? matrix_of(s->type, inner, rows_of(rows), stride, copy)
                          : matrix_of(s->type, rows_of(rows), inner, stride, copy);
}

static matrix b_of(const sl_matmul_shape *s) {
    const int copy = s->type == SL_BF16 || s->packed || s->b_stride % 4 || is_turned(s);
    return is_b_transposed(s) ? matrix_of(s->type, columns_of(s), inner_of(s), s->b_stride, copy)
                              : matrix_of(s->type, inner_of(s), columns_of(s), s->b_stride, copy);
}

static matrix c_of(const sl_matmul_shape *s, int rows) {
    const int copy = s->c_stride % 4 || rows < MIN_ROWS || columns_of(s) != s->columns;
    return matrix_of(SL_F32, rows_of(rows), columns_of(s), s->c_stride, copy);
}

static sl_status describe(const sl_cuda *cuda, const matrix *m, void **layout) {
    return check(cuda,
                 cuda->blas->cublasLtMatrixLayoutCreate(layout, m->type == SL_BF16 ? SL_LT_BF16 : SL_LT_F32,
                                                        (uint64_t)m->columns, (uint64_t)m->rows, m->stride),
                 "a matrix");
}

static sl_status set(const sl_cuda *cuda, void *operation, int key, const void *value, size_t bytes) {
    return check(cuda, cuda->blas->cublasLtMatmulDescSetAttribute(operation, key, value, bytes),
                 "a product's attribute");
}

static sl_status describe_operation(const sl_cuda *cuda, const sl_matmul_shape *s, void **operation) {
    const int compute = s->type == SL_BF16 ? SL_LT_SUM_F32 : SL_LT_STRICT_F32, epilogue = SL_LT_EPILOGUE_BIAS,
              b_transposed = is_b_transposed(s);
    SL_TRY(check(cuda, cuda->blas->cublasLtMatmulDescCreate(operation, compute, SL_LT_F32), "a product"));
    SL_TRY(set(cuda, *operation, SL_LT_TRANSPOSE_A, &b_transposed, sizeof b_transposed));
    SL_TRY(set(cuda, *operation, SL_LT_TRANSPOSE_B, &s->transpose_a, sizeof s->transpose_a));
    return s->bias ? set(cuda, *operation, SL_LT_EPILOGUE, &epilogue, sizeof epilogue) : SL_OK;
}

static sl_status prefer(const sl_cuda *cuda, void *preference, int key, uint64_t value, size_t bytes) {
    return check(cuda, cuda->blas->cublasLtMatmulPreferenceSetAttribute(preference, key, &value, bytes),
                 "a preference");
}

static void free_layout(const sl_cuda *cuda, void *layout) {
    if (layout)
        cuda->blas->cublasLtMatrixLayoutDestroy(layout);
}

/* The layouts of a and c for that many rows, whatever those of the product; to be freed also after a failure.
 */
static sl_status describe_rows(const sl_cuda *cuda, const sl_matmul_shape *s, int rows, void **a, void **c) {
    const matrix of_a = a_of(s, rows, s->transpose_a ? rows : s->a_stride), of_c = c_of(s, rows);
    *a = *c = NULL;
    SL_TRY(describe(cuda, &of_a, a));
    return describe(cuda, &of_c, c);
}

/* Whether it can run with that many rows. */
static int fits(const sl_cuda *cuda, const sl_cuda_product *p, const sl_lt_algo *algo, int rows) {
    void *a, *c;
    sl_lt_choice choice;
    const int fit = describe_rows(cuda, &p->shape, rows, &a, &c) == SL_OK &&
                    cuda->blas->cublasLtMatmulAlgoCheck(cuda->blas->handle, p->operation, p->b_layout, a, c,
                                                        c, algo, &choice) == 0;
    free_layout(cuda, c);
    free_layout(cuda, a);
    return fit;
}

static sl_status choose(const sl_cuda *cuda, sl_cuda_product *p, void *preference, void *a, void *c) {
    sl_lt_choice choice[CHOICES];
    int found = 0;
    SL_TRY(prefer(cuda, preference, SL_LT_WORKSPACE_BYTES, WORKSPACE_BYTES, sizeof(uint64_t)));
    SL_TRY(
        prefer(cuda, preference, SL_LT_REDUCTION_SCHEMES, SL_LT_REDUCTION_IN_COMPUTE_TYPE, sizeof(uint32_t)));
    for (int operand = 0; operand < 4; operand++)
        SL_TRY(prefer(cuda, preference, SL_LT_ALIGNMENT_A + operand, 16, sizeof(uint32_t)));
    /* Asked for one, as most programs do; for several, if that cannot have every number of rows. */
    for (int wanted = 1; wanted <= CHOICES; wanted += CHOICES - 1) {
        SL_TRY(check(cuda,
                     cuda->blas->cublasLtMatmulAlgoGetHeuristic(cuda->blas->handle, p->operation, p->b_layout,
                                                                a, c, c, preference, wanted, choice, &found),
                     "choosing a product's algorithm"));
        for (int i = 0; i < found; i++) {
            p->algo = choice[i].algo;
            if (choice[i].state == 0 && fits(cuda, p, &p->algo, MIN_ROWS) && fits(cuda, p, &p->algo, 1001))
                return SL_OK;
        }
    }
    return sl_error(SL_ESYS, "cuBLASLt: no algorithm for a product of %d x %d x %d", p->shape.rows,
                    p->shape.inner, p->shape.columns);
}

/* The algorithm, for the reference's rows. */
static sl_status choose_for_reference(const sl_cuda *cuda, sl_cuda_product *p) {
    void *a, *c, *preference = NULL;
    sl_status status =
        describe_rows(cuda, &p->shape, p->shape.transpose_a ? ROWS_OF_WEIGHTS : ROWS_OF_DATA, &a, &c);
    SL_THEN(status, check(cuda, cuda->blas->cublasLtMatmulPreferenceCreate(&preference), "preferences"));
    SL_THEN(status, choose(cuda, p, preference, a, c));
    if (preference)
        cuda->blas->cublasLtMatmulPreferenceDestroy(preference);
    free_layout(cuda, c);
    free_layout(cuda, a);
    return status;
}

static sl_status fill_product(const sl_cuda *cuda, sl_cuda_product *p) {
    const sl_matmul_shape *s = &p->shape;
    sl_lt_choice choice;
    p->a = a_of(s, s->rows, s->a_stride);
    p->b = b_of(s);
    p->c = c_of(s, s->rows);
    SL_TRY(describe_operation(cuda, s, &p->operation));
    SL_TRY(describe(cuda, &p->a, &p->a_layout));
    SL_TRY(describe(cuda, &p->b, &p->b_layout));
    SL_TRY(describe(cuda, &p->c, &p->c_layout));
    SL_TRY(choose_for_reference(cuda, p));
    SL_TRY(
        check(cuda,
              cuda->blas->cublasLtMatmulAlgoCheck(cuda->blas->handle, p->operation, p->b_layout, p->a_layout,
                                                  p->c_layout, p->c_layout, &p->algo, &choice),
              "a product's algorithm for its number of rows"));
    p->bias_bytes =
        s->bias && columns_of(s) != s->columns ? aligned((size_t)p->c.columns * sizeof(float)) : 0;
    p->workspace = choice.workspace ? aligned(choice.workspace) + WORKSPACE_ALIGN : 0; /* room to align it */
    return SL_OK;
}

static void free_product(const sl_cuda *cuda, sl_cuda_product *p) {
    free_layout(cuda, p->a_layout);
    free_layout(cuda, p->b_layout);
    free_layout(cuda, p->c_layout);
    if (p->operation)
        cuda->blas->cublasLtMatmulDescDestroy(p->operation);
    sl_free(p);
}

sl_status sl_cuda_matmul_prepare(sl_device *device, const sl_matmul_shape *shape, sl_matmul **product,
                                 size_t *scratch_bytes) {
    sl_cuda *cuda = (sl_cuda *)device;
    if (shape->rows < 1 || shape->columns < 1 || shape->inner < 1)
        return sl_error(SL_EINVAL, "a matrix product of %d x %d x %d", shape->rows, shape->inner,
                        shape->columns);
    sl_cuda_product *p = cuda->products;
    while (p && memcmp(&p->shape, shape, sizeof *shape) != 0) /* ints only: no padding */
        p = p->next;
    if (!p) {
        SL_TRY(sl_alloc(&p, 1, sizeof *p));
        p->shape = *shape;
        const sl_status status = fill_product(cuda, p);
        if (status != SL_OK) {
            free_product(cuda, p);
            return status;
        }
        p->next = cuda->products;
        cuda->products = p;
    }
    *product = (sl_matmul *)p;
    *scratch_bytes =
        p->a.bytes + (shape->packed ? 0 : p->b.bytes) + p->c.bytes + p->bias_bytes + p->workspace;
    return SL_OK;
}

size_t sl_cuda_matmul_packed_bytes(const sl_matmul *product) {
    const sl_cuda_product *p = (const sl_cuda_product *)product;
    return p->shape.packed ? p->b.bytes : 0;
}

/* Copies of what is stored, with zeros in what is padded. */

static void copy_a(sl_cuda *cuda, const sl_cuda_product *p, const float *a, void *out) {
    const sl_matmul_shape *s = &p->shape;
    sl_cuda_pad(cuda, s->type, s->transpose_a ? s->inner : s->rows, s->transpose_a ? s->rows : s->inner,
                s->a_stride, a, p->a.rows, p->a.stride, out);
}

static void copy_b(sl_cuda *cuda, const sl_cuda_product *p, const float *b, void *out) {
    const sl_matmul_shape *s = &p->shape;
    (is_turned(s) ? sl_cuda_pad_turned : sl_cuda_pad)(cuda, s->type, s->transpose_b ? s->columns : s->inner,
                                                      s->transpose_b ? s->inner : s->columns, s->b_stride, b,
                                                      p->b.rows, p->b.stride, out);
}

sl_status sl_cuda_matmul_pack(sl_device *device, sl_matmul *product, const float *b, void *packed) {
    const sl_cuda_product *p = (const sl_cuda_product *)product;
    if (!p->shape.packed)
        return sl_error(SL_EINVAL, "a product whose weights are not packed");
    sl_cuda_enter((sl_cuda *)device);
    copy_b((sl_cuda *)device, p, b, packed);
    return SL_OK;
}

/* The product with its algorithm's settings, and whether something before it has failed. */
static sl_status product_failed(const sl_cuda *cuda, const sl_cuda_product *p, int status) {
    const sl_matmul_shape *s = &p->shape;
    const cudaError_t before = cudaStreamQuery(cuda->stream);
    char text[128];
    int length = 0;
    for (int key = SL_LT_ALGO_ID; key < SL_LT_ALGO_SETTINGS; key++) {
        uint32_t value = 0;
        size_t bytes = key < 7 ? sizeof value : sizeof(uint16_t);
        cuda->blas->cublasLtMatmulAlgoConfigGetAttribute(&p->algo, key, &value, bytes, &bytes);
        length += snprintf(text + length, sizeof text - (size_t)length, " %u", value);
    }
    return sl_error(
        SL_ESYS,
        "cuBLASLt: a product of %d x %d x %d, transposed %d %d, bias %d, add %d, type %d, with algorithm%s "
        "and %zu bytes: %s (the stream: %s)",
        s->rows, s->inner, s->columns, s->transpose_a, s->transpose_b, s->bias, s->add, s->type, text,
        p->workspace, cuda->blas->cublasLtGetStatusString(status), cudaGetErrorString(before));
}

sl_status sl_cuda_matmul(sl_device *device, sl_matmul *product, const float *a, const void *b,
                         const float *bias, float *c, void *scratch) {
    sl_cuda *cuda = (sl_cuda *)device;
    const sl_cuda_product *p = (const sl_cuda_product *)product;
    const sl_matmul_shape *s = &p->shape;
    const float one = 1, add = s->add ? 1 : 0;
    char *a_copy = scratch, *b_copy = a_copy + p->a.bytes, *c_copy = b_copy + (s->packed ? 0 : p->b.bytes),
         *bias_copy = c_copy + p->c.bytes;
    const void *of_a = p->a.bytes ? a_copy : (const void *)a,
               *of_b = p->b.bytes && !s->packed ? (const void *)b_copy : b,
               *of_bias = p->bias_bytes ? (const void *)bias_copy : bias;
    void *of_c = p->c.bytes ? c_copy : (void *)c;
    char *workspace = bias_copy + p->bias_bytes;
    workspace += (size_t) - (uintptr_t)workspace % WORKSPACE_ALIGN;
    if (((uintptr_t)of_a | (uintptr_t)of_b | (uintptr_t)of_c | (uintptr_t)of_bias) % 16)
        return sl_error(SL_EINVAL, "a product of %d x %d x %d: a matrix does not begin at 16 bytes", s->rows,
                        s->inner, s->columns);
    sl_cuda_enter(cuda);
    if (p->a.bytes)
        copy_a(cuda, p, a, a_copy);
    if (p->b.bytes && !s->packed) /* not by addresses: packed weights may begin where scratch ends */
        copy_b(cuda, p, b, b_copy);
    if (p->c.bytes && s->add)
        sl_cuda_pad(cuda, SL_F32, s->rows, s->columns, s->c_stride, c, p->c.rows, p->c.stride, c_copy);
    if (p->bias_bytes)
        sl_cuda_pad(cuda, SL_F32, 1, s->columns, 0, bias, 1, p->c.columns, bias_copy);
    if (s->bias)
        SL_TRY(set(cuda, p->operation, SL_LT_BIAS_POINTER, &of_bias, sizeof of_bias));
    const int status = cuda->blas->cublasLtMatmul(
        cuda->blas->handle, p->operation, &one, of_b, p->b_layout, of_a, p->a_layout, &add, of_c, p->c_layout,
        of_c, p->c_layout, &p->algo, p->workspace ? workspace : NULL,
        p->workspace ? p->workspace - WORKSPACE_ALIGN : 0, cuda->stream);
    if (status)
        return product_failed(cuda, p, status);
    if (p->c.bytes)
        sl_cuda_take_product(cuda, s->rows, s->columns, p->c.stride, (float *)of_c, s->c_stride, c);
    return SL_OK;
}

void sl_cuda_matmul_close(sl_cuda *cuda) {
    while (cuda->products) {
        sl_cuda_product *next = cuda->products->next;
        free_product(cuda, cuda->products);
        cuda->products = next;
    }
}
