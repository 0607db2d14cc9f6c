#include "run/device/cpu_matmul.h"
#include "base/memory.h"

#include <string.h>

/* libgomp's, which oneDNN runs on. Declared here because <omp.h> belongs to a compiler, and clang's is
 * another library's. */
extern void omp_set_num_threads(int threads);
extern int omp_get_max_threads(void);

struct sl_matmul {
    sl_matmul_shape shape;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, bias, c, scratch;
    size_t scratch_bytes;
    sl_matmul *next;
};

/* The number of threads belongs to the calling thread, and mpirun's binding would choose another (design.md,
 * rule 1). */
static void set_threads(const sl_device *device) {
    if (omp_get_max_threads() != device->threads)
        omp_set_num_threads(device->threads);
}

static sl_status check(dnnl_status_t status, const char *what) {
    if (status == dnnl_success)
        return SL_OK;
    return sl_error(status == dnnl_out_of_memory ? SL_ENOMEM : SL_ESYS, "oneDNN: %s failed with status %d",
                    what, (int)status);
}

static sl_status describe(int rows, int columns, int stride, int transpose, dnnl_memory_desc_t *out) {
    const dnnl_dims_t dims = {rows, columns};
    const dnnl_dims_t plain = {stride, 1}, transposed = {1, stride};
    return check(dnnl_memory_desc_init_by_strides(out, 2, dims, dnnl_f32, transpose ? transposed : plain),
                 "a matrix description");
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

static sl_status make_memory(const sl_cpu *cpu, const dnnl_memory_desc_t *description, dnnl_memory_t *out) {
    return check(dnnl_memory_create(out, description, cpu->engine, DNNL_MEMORY_NONE), "a memory object");
}

static sl_status make_memories(const sl_cpu *cpu, const_dnnl_primitive_desc_t kind, sl_matmul *p) {
    SL_TRY(make_memory(cpu, dnnl_primitive_desc_query_md(kind, dnnl_query_src_md, 0), &p->a));
    SL_TRY(make_memory(cpu, dnnl_primitive_desc_query_md(kind, dnnl_query_weights_md, 0), &p->b));
    SL_TRY(make_memory(cpu, dnnl_primitive_desc_query_md(kind, dnnl_query_dst_md, 0), &p->c));
    if (p->shape.bias)
        SL_TRY(make_memory(cpu, dnnl_primitive_desc_query_md(kind, dnnl_query_weights_md, 1), &p->bias));
    const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md(kind, dnnl_query_scratchpad_md, 0);
    p->scratch_bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    return p->scratch_bytes ? make_memory(cpu, scratch, &p->scratch) : SL_OK;
}

static sl_status make_primitive(const sl_cpu *cpu, const_dnnl_primitive_attr_t attributes, sl_matmul *p) {
    const sl_matmul_shape *s = &p->shape;
    dnnl_memory_desc_t a, b, c, bias;
    SL_TRY(describe(s->rows, s->inner, s->a_stride, s->transpose_a, &a));
    SL_TRY(describe(s->inner, s->columns, s->b_stride, s->transpose_b, &b));
    SL_TRY(describe(s->rows, s->columns, s->c_stride, 0, &c));
    SL_TRY(describe(1, s->columns, s->columns, 0, &bias));
    dnnl_matmul_desc_t wanted;
    SL_TRY(
        check(dnnl_matmul_desc_init(&wanted, &a, &b, s->bias ? &bias : NULL, &c), "a product's description"));
    dnnl_primitive_desc_t kind;
    SL_TRY(check(dnnl_primitive_desc_create(&kind, &wanted, attributes, cpu->engine, NULL),
                 "choosing a product"));
    sl_status status = check(dnnl_primitive_create(&p->primitive, kind), "making a product");
    if (status == SL_OK)
        status = make_memories(cpu, kind, p);
    dnnl_primitive_desc_destroy(kind);
    return status;
}

static void free_product(sl_matmul *p) {
    dnnl_memory_t memory[] = {p->a, p->b, p->bias, p->c, p->scratch};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i])
            dnnl_memory_destroy(memory[i]);
    if (p->primitive)
        dnnl_primitive_destroy(p->primitive);
    sl_free(p);
}

static sl_status make_product(const sl_cpu *cpu, const sl_matmul_shape *shape, sl_matmul **out) {
    sl_matmul *p;
    dnnl_primitive_attr_t attributes;
    SL_TRY(sl_alloc(&p, 1, sizeof *p));
    p->shape = *shape;
    sl_status status = check(dnnl_primitive_attr_create(&attributes), "attributes");
    if (status == SL_OK) {
        status = make_attributes(shape, attributes);
        if (status == SL_OK)
            status = make_primitive(cpu, attributes, p);
        dnnl_primitive_attr_destroy(attributes);
    }
    if (status != SL_OK)
        free_product(p);
    else
        *out = p;
    return status;
}

static int same(const sl_matmul_shape *x, const sl_matmul_shape *y) {
    return memcmp(x, y, sizeof *x) == 0; /* ints only: no padding */
}
_Static_assert(sizeof(sl_matmul_shape) == 10 * sizeof(int), "a shape is compared as bytes");

sl_status sl_cpu_matmul_prepare(sl_device *device, const sl_matmul_shape *shape, sl_matmul **product,
                                size_t *scratch_bytes) {
    sl_cpu *cpu = (sl_cpu *)device;
    if (shape->rows < 1 || shape->columns < 1 || shape->inner < 1)
        return sl_error(SL_EINVAL, "a matrix product of %d x %d x %d", shape->rows, shape->inner,
                        shape->columns);
    set_threads(device); /* oneDNN divides the work when the product is made */
    sl_matmul *p = cpu->products;
    while (p && !same(&p->shape, shape))
        p = p->next;
    if (!p) {
        SL_TRY(make_product(cpu, shape, &p));
        p->next = cpu->products;
        cpu->products = p;
    }
    *product = p;
    *scratch_bytes = p->scratch_bytes;
    return SL_OK;
}

/* oneDNN takes pointers without const; it writes only to c and the scratch. */
static void bind(dnnl_memory_t memory, const void *address, int argument, dnnl_exec_arg_t *list, int *count) {
    void *writable;
    memcpy(&writable, &address, sizeof writable);
    dnnl_memory_set_data_handle(memory, writable);
    list[(*count)++] = (dnnl_exec_arg_t){argument, memory};
}

sl_status sl_cpu_matmul(sl_device *device, sl_matmul *p, const float *a, const float *b, const float *bias,
                        float *c, void *scratch) {
    sl_cpu *cpu = (sl_cpu *)device;
    dnnl_exec_arg_t list[5];
    int count = 0;
    set_threads(device);
    bind(p->a, a, DNNL_ARG_SRC, list, &count);
    bind(p->b, b, DNNL_ARG_WEIGHTS, list, &count);
    bind(p->c, c, DNNL_ARG_DST, list, &count);
    if (p->bias)
        bind(p->bias, bias, DNNL_ARG_BIAS, list, &count);
    if (p->scratch)
        bind(p->scratch, scratch, DNNL_ARG_SCRATCHPAD, list, &count);
    SL_TRY(check(dnnl_primitive_execute(p->primitive, cpu->stream, count, list), "a product"));
    return check(dnnl_stream_wait(cpu->stream), "waiting for a product");
}

void sl_cpu_matmul_close(sl_cpu *cpu) {
    while (cpu->products) {
        sl_matmul *next = cpu->products->next;
        free_product(cpu->products);
        cpu->products = next;
    }
    if (cpu->stream)
        dnnl_stream_destroy(cpu->stream);
    if (cpu->engine)
        dnnl_engine_destroy(cpu->engine);
}
