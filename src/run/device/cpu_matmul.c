#include "run/device/cpu_matmul.h"
#include "base/memory.h"
#include "run/device/cpu_bf16.h"
#include "run/device/threads.h"

#include <string.h>

/* libgomp's, which oneDNN uses. Declared here because <omp.h> belongs to a compiler, and clang's is for
 * another library. */
extern void omp_set_num_threads(int threads);
extern int omp_get_max_threads(void);

#define ROW_UNIT 16 /* a share of rows is a multiple of it: whole vectors of a transposed a */

/* Where oneDNN has no product of its own for an instruction set (AVX2), it calls its gemm, in which a row's
 * values depend on the number of rows and on the row's position. Such a product runs in tiles of this many
 * rows, the last one filled up: there each position has the same arithmetic, because a tile is a multiple of
 * all heights that the kernels have (1 to 6 rows), and the blocking follows from the same numbers. */
#define TILE 96

/* What a thread needs to run its share. */
typedef struct share {
    dnnl_stream_t stream;
    dnnl_memory_t a, b, bias, c, scratch;
} share;

struct sl_matmul {
    sl_matmul_shape shape;
    size_t chunk; /* rows of a share; the last one may have fewer */
    int shares;
    int tiled;                     /* a share is a row of tiles */
    dnnl_primitive_t primitive[2]; /* of a whole share or tile; of the last one where that is smaller */
    share *share;                  /* [shares + 1] tiled: the last one is the last tile's */
    /* Scratch: bf16 copies of a and of b, oneDNN's scratch, share by share, and a and c of the last tile. */
    size_t a_bytes, b_bytes, each, tile_at, scratch_bytes;
    /* Packed b: by sl_cpu_pack if its format is the one that oneDNN asks for, else by oneDNN. */
    sl_packing packing;
    dnnl_memory_desc_t b_form;
    dnnl_primitive_t reorder;
    dnnl_memory_t reorder_from, reorder_to;
    sl_matmul *next;
};

/* oneDNN starts no threads of its own. The number belongs to the calling thread. */
static void set_threads(void) {
    if (omp_get_max_threads() != 1)
        omp_set_num_threads(1);
}

static sl_status check(dnnl_status_t status, const char *what) {
    if (status == dnnl_success)
        return SL_OK;
    return sl_error(status == dnnl_out_of_memory ? SL_ENOMEM : SL_ESYS, "oneDNN: %s failed with status %d",
                    what, (int)status);
}

/* ---- making a product ---- */

static sl_status describe(size_t rows, size_t columns, int stride, int transpose, dnnl_data_type_t type,
                          dnnl_memory_desc_t *out) {
    const dnnl_dims_t dims = {(dnnl_dim_t)rows, (dnnl_dim_t)columns};
    const dnnl_dims_t plain = {stride, 1}, transposed = {1, stride};
    return check(dnnl_memory_desc_init_by_strides(out, 2, dims, type, transpose ? transposed : plain),
                 "a matrix description");
}

static dnnl_data_type_t type_of(const sl_matmul_shape *s) {
    return s->type == SL_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* bf16 copies have no gaps between rows, and are in multiplication order: a transposed back if stored
 * transposed, b packed. */
static int a_stride(const sl_matmul_shape *s) {
    return s->type == SL_F32 ? s->a_stride : s->inner;
}

static int a_is_transposed(const sl_matmul_shape *s) {
    return s->type == SL_F32 && s->transpose_a;
}

/* b is packed by the creator of the product, or in each run of it. */
static int b_is_packed(const sl_matmul_shape *s) {
    return s->packed || s->type == SL_BF16;
}

static sl_status describe_b(const sl_matmul *p, dnnl_memory_desc_t *out) {
    const sl_matmul_shape *s = &p->shape;
    const dnnl_dims_t dims = {s->inner, s->columns};
    if (!b_is_packed(s))
        return describe((size_t)s->inner, (size_t)s->columns, s->b_stride, s->transpose_b, dnnl_f32, out);
    if (p->b_form.ndims) { /* the first primitive has chosen */
        *out = p->b_form;
        return SL_OK;
    }
    return check(dnnl_memory_desc_init_by_tag(out, 2, dims, type_of(s), dnnl_format_tag_any),
                 "a description of packed weights");
}

static sl_status make_attributes(const sl_matmul_shape *s, dnnl_primitive_attr_t attributes) {
    SL_TRY(check(dnnl_primitive_attr_set_fpmath_mode(attributes, dnnl_fpmath_mode_strict), "strict f32"));
    SL_TRY(check(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user),
                 "the scratch mode"));
    if (!s->add)
        return SL_OK;
    dnnl_post_ops_t after;
    SL_TRY(check(dnnl_post_ops_create(&after), "post-ops"));
    dnnl_status_t status = dnnl_post_ops_append_sum(after, 1.0f);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(attributes, after);
    dnnl_post_ops_destroy(after);
    return check(status, "adding onto a product");
}

/* Rows that one primitive multiplies, as they are stored. */
typedef struct stored_rows {
    size_t count;
    int a_stride, c_stride;
} stored_rows;

static stored_rows rows_of_c(const sl_matmul_shape *s, size_t count) {
    return (stored_rows){count, a_stride(s), s->c_stride};
}

/* The last tile, filled up: without gaps. */
static stored_rows rows_of_tile(const sl_matmul_shape *s) {
    return (stored_rows){TILE, a_is_transposed(s) ? TILE : s->inner, s->columns};
}

/* The choice of a primitive. */
static sl_status choose(const sl_cpu *cpu, sl_matmul *p, stored_rows r, dnnl_primitive_desc_t *kind) {
    const sl_matmul_shape *s = &p->shape;
    dnnl_memory_desc_t a, b, c, bias;
    dnnl_matmul_desc_t wanted;
    dnnl_primitive_attr_t attributes;
    SL_TRY(describe(r.count, (size_t)s->inner, r.a_stride, a_is_transposed(s), type_of(s), &a));
    SL_TRY(describe_b(p, &b));
    SL_TRY(describe(r.count, (size_t)s->columns, r.c_stride, 0, dnnl_f32, &c));
    SL_TRY(describe(1, (size_t)s->columns, s->columns, 0, dnnl_f32, &bias));
    SL_TRY(
        check(dnnl_matmul_desc_init(&wanted, &a, &b, s->bias ? &bias : NULL, &c), "a product's description"));
    SL_TRY(check(dnnl_primitive_attr_create(&attributes), "attributes"));
    sl_status status = make_attributes(s, attributes);
    SL_THEN(status, check(dnnl_primitive_desc_create(kind, &wanted, attributes, cpu->engine, NULL),
                          "choosing a product"));
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

static sl_status make_memory(const sl_cpu *cpu, const dnnl_memory_desc_t *description, dnnl_memory_t *out) {
    return check(dnnl_memory_create(out, description, cpu->engine, DNNL_MEMORY_NONE), "a memory object");
}

static sl_status make_share(const sl_cpu *cpu, const_dnnl_primitive_desc_t kind, sl_matmul *p, share *one) {
    const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md(kind, dnnl_query_scratchpad_md, 0);
    const size_t bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    SL_TRY(check(dnnl_stream_create(&one->stream, cpu->engine, dnnl_stream_default_flags), "a stream"));
    SL_TRY(make_memory(cpu, dnnl_primitive_desc_query_md(kind, dnnl_query_src_md, 0), &one->a));
    SL_TRY(make_memory(cpu, dnnl_primitive_desc_query_md(kind, dnnl_query_weights_md, 0), &one->b));
    SL_TRY(make_memory(cpu, dnnl_primitive_desc_query_md(kind, dnnl_query_dst_md, 0), &one->c));
    if (p->shape.bias)
        SL_TRY(make_memory(cpu, dnnl_primitive_desc_query_md(kind, dnnl_query_weights_md, 1), &one->bias));
    p->each = bytes > p->each ? bytes : p->each;
    return bytes ? make_memory(cpu, scratch, &one->scratch) : SL_OK;
}

/* Shares [first, end) run the same primitive. */
static sl_status make_primitive(const sl_cpu *cpu, sl_matmul *p, stored_rows r, int first, int end,
                                dnnl_primitive_t *primitive) {
    dnnl_primitive_desc_t kind;
    SL_TRY(choose(cpu, p, r, &kind));
    sl_status status = check(dnnl_primitive_create(primitive, kind), "making a product");
    p->b_form = *dnnl_primitive_desc_query_md(kind, dnnl_query_weights_md, 0);
    for (int i = first; i < end && status == SL_OK; i++)
        status = make_share(cpu, kind, p, &p->share[i]);
    dnnl_primitive_desc_destroy(kind);
    return status;
}

/* Whether oneDNN's packed format is that of sl_cpu_pack. */
static int is_own_form(const sl_matmul *p) {
    const dnnl_blocking_desc_t *b = &p->b_form.format_desc.blocking;
    const int bf16 = p->shape.type == SL_BF16;
    const dnnl_dim_t step = bf16 ? 32 : 16, steps = (p->shape.inner + step - 1) / step, columns = 64;
    return p->b_form.format_kind == dnnl_blocked && p->b_form.offset0 == 0 &&
           b->inner_nblks == (bf16 ? 3 : 2) && b->inner_idxs[0] == 0 && b->inner_blks[0] == 16 &&
           b->inner_idxs[1] == 1 && b->inner_blks[1] == columns &&
           (!bf16 || (b->inner_idxs[2] == 0 && b->inner_blks[2] == 2)) && b->strides[0] == step * columns &&
           b->strides[1] == step * columns * steps &&
           dnnl_memory_desc_get_size(&p->b_form) == sl_packing_bytes(&p->packing);
}

static sl_status make_packing(const sl_cpu *cpu, sl_matmul *p) {
    const sl_matmul_shape *s = &p->shape;
    p->packing = (sl_packing){.inner = (size_t)s->inner,
                              .columns = (size_t)s->columns,
                              .stride = (size_t)s->b_stride,
                              .transpose = s->transpose_b,
                              .bf16 = s->type == SL_BF16};
    if (is_own_form(p))
        return SL_OK;
    dnnl_memory_desc_t plain;
    dnnl_primitive_desc_t kind;
    SL_TRY(describe((size_t)s->inner, (size_t)s->columns, s->b_stride, s->transpose_b, dnnl_f32, &plain));
    SL_TRY(
        check(dnnl_reorder_primitive_desc_create(&kind, &plain, cpu->engine, &p->b_form, cpu->engine, NULL),
              "choosing how weights are packed"));
    sl_status status = check(dnnl_primitive_create(&p->reorder, kind), "making the packing of weights");
    dnnl_primitive_desc_destroy(kind);
    SL_TRY(status);
    SL_TRY(make_memory(cpu, &plain, &p->reorder_from));
    return make_memory(cpu, &p->b_form, &p->reorder_to);
}

static size_t aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* Whether a row's values may depend on the others. */
static sl_status look_at_kind(const sl_cpu *cpu, sl_matmul *p) {
    dnnl_primitive_desc_t kind;
    const char *name = "";
    SL_TRY(choose(cpu, p, rows_of_c(&p->shape, (size_t)p->shape.rows), &kind));
    sl_status status =
        check(dnnl_primitive_desc_query(kind, dnnl_query_impl_info_str, 0, &name), "the name of a product");
    p->tiled = p->shape.type == SL_F32 && strncmp(name, "brg", 3) != 0;
    dnnl_primitive_desc_destroy(kind);
    return status;
}

static void divide(const sl_cpu *cpu, sl_matmul *p) {
    const size_t rows = (size_t)p->shape.rows, threads = (size_t)cpu->device.threads;
    const size_t unit = p->tiled ? TILE : rows < ROW_UNIT ? rows : ROW_UNIT;
    p->chunk = (rows + threads - 1) / threads;
    p->chunk = (p->chunk + unit - 1) / unit * unit;
    p->shares = (int)((rows + p->chunk - 1) / p->chunk);
}

static sl_status make_shares(const sl_cpu *cpu, sl_matmul *p) {
    const sl_matmul_shape *s = &p->shape;
    const size_t whole = (size_t)s->rows / p->chunk, rest = (size_t)s->rows % p->chunk;
    if (whole)
        SL_TRY(make_primitive(cpu, p, rows_of_c(s, p->chunk), 0, (int)whole, &p->primitive[0]));
    return rest ? make_primitive(cpu, p, rows_of_c(s, rest), (int)whole, p->shares, &p->primitive[1]) : SL_OK;
}

/* Whole tiles are not copied; the last one has memory objects of its own, after those of the shares. */
static sl_status make_tiles(const sl_cpu *cpu, sl_matmul *p) {
    const sl_matmul_shape *s = &p->shape;
    if (s->rows >= TILE)
        SL_TRY(make_primitive(cpu, p, rows_of_c(s, TILE), 0, p->shares, &p->primitive[0]));
    return s->rows % TILE
               ? make_primitive(cpu, p, rows_of_tile(s), p->shares, p->shares + 1, &p->primitive[1])
               : SL_OK;
}

static size_t tile_bytes(int width) {
    return aligned(TILE * (size_t)width * sizeof(float));
}

static sl_status fill_product(const sl_cpu *cpu, sl_matmul *p) {
    const sl_matmul_shape *s = &p->shape;
    SL_TRY(look_at_kind(cpu, p));
    divide(cpu, p);
    SL_TRY(sl_alloc(&p->share, (size_t)p->shares + 1, sizeof *p->share));
    SL_TRY(p->tiled ? make_tiles(cpu, p) : make_shares(cpu, p));
    if (b_is_packed(s))
        SL_TRY(make_packing(cpu, p));
    if (s->type == SL_BF16) {
        p->a_bytes = aligned((size_t)s->rows * (size_t)s->inner * sizeof(uint16_t));
        p->b_bytes = s->packed ? 0 : aligned(dnnl_memory_desc_get_size(&p->b_form));
    }
    p->each = aligned(p->each);
    p->scratch_bytes = p->a_bytes + p->b_bytes + (size_t)(p->shares + p->tiled) * p->each;
    p->tile_at = p->scratch_bytes;
    if (p->tiled && s->rows % TILE)
        p->scratch_bytes += tile_bytes(s->inner) + tile_bytes(s->columns);
    return SL_OK;
}

static void free_memory(dnnl_memory_t memory) {
    if (memory)
        dnnl_memory_destroy(memory);
}

static void free_primitive(dnnl_primitive_t primitive) {
    if (primitive)
        dnnl_primitive_destroy(primitive);
}

static void free_product(sl_matmul *p) {
    for (int i = 0; p->share && i <= p->shares; i++) {
        share *one = &p->share[i];
        dnnl_memory_t memory[] = {one->a, one->b, one->bias, one->c, one->scratch};
        for (size_t m = 0; m < sizeof memory / sizeof *memory; m++)
            free_memory(memory[m]);
        if (one->stream)
            dnnl_stream_destroy(one->stream);
    }
    free_memory(p->reorder_from);
    free_memory(p->reorder_to);
    free_primitive(p->reorder);
    free_primitive(p->primitive[0]);
    free_primitive(p->primitive[1]);
    SL_FREE(p->share, p);
}

static int same(const sl_matmul_shape *x, const sl_matmul_shape *y) {
    return memcmp(x, y, sizeof *x) == 0; /* ints only: no padding */
}
_Static_assert(sizeof(sl_matmul_shape) == 12 * sizeof(int), "a shape is compared as bytes");

sl_status sl_cpu_matmul_prepare(sl_device *device, const sl_matmul_shape *shape, sl_matmul **product,
                                size_t *scratch_bytes) {
    sl_cpu *cpu = (sl_cpu *)device;
    if (shape->rows < 1 || shape->columns < 1 || shape->inner < 1)
        return sl_error(SL_EINVAL, "a matrix product of %d x %d x %d", shape->rows, shape->inner,
                        shape->columns);
    if (shape->type == SL_BF16 && !device->has_bf16)
        return sl_error(SL_EINVAL, "this processor has no bf16 arithmetic (AVX512_BF16), only %s",
                        device->isa);
    set_threads(); /* oneDNN divides the work when the product is made */
    sl_matmul *p = cpu->products;
    while (p && !same(&p->shape, shape))
        p = p->next;
    if (!p) {
        SL_TRY(sl_alloc(&p, 1, sizeof *p));
        p->shape = *shape;
        sl_status status = fill_product(cpu, p);
        if (status != SL_OK) {
            free_product(p);
            return status;
        }
        p->next = cpu->products;
        cpu->products = p;
    }
    *product = p;
    *scratch_bytes = p->scratch_bytes;
    return SL_OK;
}

/* ---- packing ---- */

typedef struct pack_work {
    const sl_matmul *product;
    const float *b;
    void *packed;
} pack_work;

static void pack_share(void *object, int thread, int threads) {
    const pack_work *w = object;
    sl_cpu_pack(&w->product->packing, thread, threads, w->b, w->packed);
}

/* oneDNN takes pointers without const; it writes only to c and the scratch. */
static void point(dnnl_memory_t memory, const void *address) {
    void *writable;
    memcpy(&writable, &address, sizeof writable);
    dnnl_memory_set_data_handle(memory, writable);
}

size_t sl_cpu_matmul_packed_bytes(const sl_matmul *p) {
    return p->shape.packed ? aligned(dnnl_memory_desc_get_size(&p->b_form)) : 0;
}

static sl_status pack(const sl_device *device, sl_matmul *p, const float *b, void *packed) {
    if (!p->reorder) {
        sl_threads_run(device->threads, pack_share, &(pack_work){p, b, packed});
        return SL_OK;
    }
    set_threads();
    point(p->reorder_from, b);
    point(p->reorder_to, packed);
    const dnnl_exec_arg_t list[] = {{DNNL_ARG_FROM, p->reorder_from}, {DNNL_ARG_TO, p->reorder_to}};
    dnnl_stream_t stream = p->share[p->share[0].stream ? 0 : p->shares].stream; /* the last tile may be all */
    SL_TRY(check(dnnl_primitive_execute(p->reorder, stream, 2, list), "packing weights"));
    return check(dnnl_stream_wait(stream), "waiting for packed weights");
}

sl_status sl_cpu_matmul_pack(sl_device *device, sl_matmul *p, const float *b, void *packed) {
    if (!p->shape.packed)
        return sl_error(SL_EINVAL, "a product whose weights are not packed");
    return pack(device, p, b, packed);
}

/* ---- running ---- */

typedef struct run_work {
    sl_matmul *product;
    const float *a, *bias;
    const void *b;
    float *c;
    char *scratch;
    int failed; /* written by any thread, only to 1, and read after all have ended */
} run_work;

/* A bf16 copy of a, its rows divided among threads. */
static void convert_share(void *object, int thread, int threads) {
    const run_work *w = object;
    const sl_matmul_shape *s = &w->product->shape;
    size_t first, end;
    sl_threads_share((size_t)s->rows, ROW_UNIT, thread, threads, &first, &end);
    (s->transpose_a ? sl_cpu_to_bf16_turned : sl_cpu_to_bf16)(
        first, end, (size_t)s->inner, (size_t)s->a_stride, w->a, (uint16_t *)(void *)w->scratch);
}

static void bind(dnnl_memory_t memory, const void *address, int argument, dnnl_exec_arg_t *list, int *count) {
    point(memory, address);
    list[(*count)++] = (dnnl_exec_arg_t){argument, memory};
}

static dnnl_status_t run_primitive(const run_work *w, int index, dnnl_primitive_t primitive, const void *a,
                                   float *c) {
    const sl_matmul *p = w->product;
    const sl_matmul_shape *s = &p->shape;
    const share *one = &p->share[index];
    const void *b = s->type == SL_BF16 && !s->packed ? (const void *)(w->scratch + p->a_bytes) : w->b;
    dnnl_exec_arg_t list[5];
    int count = 0;
    bind(one->a, a, DNNL_ARG_SRC, list, &count);
    bind(one->b, b, DNNL_ARG_WEIGHTS, list, &count);
    bind(one->c, c, DNNL_ARG_DST, list, &count);
    if (one->bias)
        bind(one->bias, w->bias, DNNL_ARG_BIAS, list, &count);
    if (one->scratch)
        bind(one->scratch, w->scratch + p->a_bytes + p->b_bytes + (size_t)index * p->each,
             DNNL_ARG_SCRATCHPAD, list, &count);
    dnnl_status_t status = dnnl_primitive_execute(primitive, one->stream, count, list);
    return status == dnnl_success ? dnnl_stream_wait(one->stream) : status;
}

static dnnl_status_t run_share(const run_work *w, int index) {
    const sl_matmul *p = w->product;
    const sl_matmul_shape *s = &p->shape;
    const size_t row = (size_t)index * p->chunk, step = a_is_transposed(s) ? 1 : (size_t)a_stride(s);
    const void *a = s->type == SL_BF16 ? (const void *)((const uint16_t *)w->scratch + row * step)
                                       : (const void *)(w->a + row * step);
    const int whole = (row + p->chunk) <= (size_t)s->rows;
    return run_primitive(w, index, p->primitive[whole ? 0 : 1], a, w->c + row * (size_t)s->c_stride);
}

/* The last tile has fewer rows: it is filled up in the scratch, where nobody reads the others. */
static dnnl_status_t run_last_tile(const run_work *w, size_t row) {
    const sl_matmul *p = w->product;
    const sl_matmul_shape *s = &p->shape;
    const size_t columns = (size_t)s->columns, inner = (size_t)s->inner, stride = (size_t)s->a_stride,
                 count = (size_t)s->rows - row;
    float *a = (float *)(void *)(w->scratch + p->tile_at),
          *c = (float *)(void *)(w->scratch + p->tile_at + tile_bytes(s->inner));
    memset(a, 0, TILE * inner * sizeof *a);
    if (s->transpose_a)
        for (size_t k = 0; k < inner; k++)
            memcpy(a + k * TILE, w->a + k * stride + row, count * sizeof *a);
    else
        for (size_t i = 0; i < count; i++)
            memcpy(a + i * inner, w->a + (row + i) * stride, inner * sizeof *a);
    memset(c, 0, TILE * columns * sizeof *c);
    for (size_t i = 0; i < count && s->add; i++)
        memcpy(c + i * columns, w->c + (row + i) * (size_t)s->c_stride, columns * sizeof *c);
    dnnl_status_t status = run_primitive(w, p->shares, p->primitive[1], a, c);
    for (size_t i = 0; i < count; i++)
        memcpy(w->c + (row + i) * (size_t)s->c_stride, c + i * columns, columns * sizeof *c);
    return status;
}

/* The tiles of a share. */
static dnnl_status_t run_tiles(const run_work *w, int index) {
    const sl_matmul *p = w->product;
    const sl_matmul_shape *s = &p->shape;
    const size_t step = s->transpose_a ? 1 : (size_t)s->a_stride, first = (size_t)index * p->chunk,
                 all = (size_t)s->rows, end = first + p->chunk < all ? first + p->chunk : all;
    dnnl_status_t status = dnnl_success;
    for (size_t row = first; row < end && status == dnnl_success; row += TILE)
        status = row + TILE > all ? run_last_tile(w, row)
                                  : run_primitive(w, index, p->primitive[0], w->a + row * step,
                                                  w->c + row * (size_t)s->c_stride);
    return status;
}

static void run_shares(void *object, int thread, int threads) {
    run_work *w = object;
    for (int i = thread; i < w->product->shares; i += threads)
        if ((w->product->tiled ? run_tiles(w, i) : run_share(w, i)) != dnnl_success)
            __atomic_store_n(&w->failed, 1, __ATOMIC_RELAXED);
}

sl_status sl_cpu_matmul(sl_device *device, sl_matmul *p, const float *a, const void *b, const float *bias,
                        float *c, void *scratch) {
    run_work w = {.product = p, .a = a, .b = b, .bias = bias, .c = c, .scratch = scratch};
    set_threads();
    if (p->shape.type == SL_BF16)
        sl_threads_run(device->threads, convert_share, &w);
    if (p->shape.type == SL_BF16 && !p->shape.packed)
        SL_TRY(pack(device, p, b, w.scratch + p->a_bytes));
    sl_threads_run(p->shares, run_shares, &w);
    return w.failed ? sl_error(SL_ESYS, "oneDNN: a product failed") : SL_OK;
}

void sl_cpu_matmul_close(sl_cpu *cpu) {
    while (cpu->products) {
        sl_matmul *next = cpu->products->next;
        free_product(cpu->products);
        cpu->products = next;
    }
    if (cpu->engine)
        dnnl_engine_destroy(cpu->engine);
}
