#include "separate_device.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Linked with --wrap, the cpu is opened by another name. */
#ifdef SEPARATE_DEVICE_WRAPS
sl_status __real_sl_device_open_cpu(int threads, sl_device **device);
sl_status __wrap_sl_device_open_cpu(int threads, sl_device **device);
#define OPEN_CPU __real_sl_device_open_cpu

sl_status __wrap_sl_device_open_cpu(int threads, sl_device **device) {
    return separate_device_open(threads, device);
}
#else
#define OPEN_CPU sl_device_open_cpu
#endif

enum { REGIONS = 8 };

/* Addresses that nobody can use, and the memory that the device's functions use for them. */
typedef struct region {
    char *start, *real;
    size_t bytes;
} region;

/* A copy between the two memories that has not been finished. */
typedef struct pending {
    struct pending *next;
    long number;
    int to_host;
    void *host;
    size_t bytes;
    char content[]; /* what goes to the host; what the host must still have */
} pending;

typedef struct separate {
    sl_device device; /* first: a device is cast to this */
    sl_device *cpu;
    region region[REGIONS];
    pthread_mutex_t mutex; /* guards the rest */
    pending *first, **last;
    long copies; /* so far */
    long marked[SL_DEVICE_MARKS];
} separate;

static void refuse(const char *what, const void *array) {
    fprintf(stderr, "separate device: %s (%p)\n", what, array);
    fflush(stderr);
    _exit(99);
}

/* NULL: not the device's. */
static void *real_of(const separate *s, const void *array) {
    const char *at = array;
    for (int i = 0; i < REGIONS; i++)
        if (at >= s->region[i].start && at < s->region[i].start + s->region[i].bytes)
            return s->region[i].real + (at - s->region[i].start);
    return NULL;
}

static void *of_device(sl_device *device, const void *array, const char *function) {
    void *real = real_of((separate *)device, array);
    char what[128];
    snprintf(what, sizeof what, "%s has an array that is not the device's", function);
    if (array && !real)
        refuse(what, array);
    return real;
}

static void must_be_host(sl_device *device, const void *array, const char *function) {
    char what[128];
    snprintf(what, sizeof what, "%s has an array of the device as the host's", function);
    if (real_of((separate *)device, array))
        refuse(what, array);
}

/* ---- memory ---- */

static sl_status memory_open(sl_device *device, size_t bytes, void *memory) {
    separate *s = (separate *)device;
    void *made = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *real = malloc(bytes);
    if (made == MAP_FAILED || !real)
        return sl_error(SL_ENOMEM, "out of memory: %zu bytes of the separate device", bytes);
    memset(real, 0xff, bytes);
    int i = 0;
    while (i < REGIONS && s->region[i].start)
        i++;
    if (i == REGIONS)
        refuse("it has too many regions", made);
    s->region[i] = (region){made, real, bytes};
    memcpy(memory, &made, sizeof made);
    return SL_OK;
}

static void memory_close(sl_device *device, void *memory) {
    separate *s = (separate *)device;
    for (int i = 0; i < REGIONS; i++)
        if (memory && s->region[i].start == memory) {
            munmap(memory, s->region[i].bytes);
            free(s->region[i].real);
            s->region[i] = (region){0};
        }
}

static sl_status pin(sl_device *device, void *host, size_t bytes) {
    (void)bytes;
    must_be_host(device, host, "pin");
    return SL_OK;
}

static void unpin(sl_device *device, void *host) {
    must_be_host(device, host, "unpin");
}

static void add_pending(separate *s, int to_host, void *host, const void *content, size_t bytes) {
    pending *p = malloc(sizeof *p + bytes);
    if (!p)
        refuse("out of memory", host);
    *p = (pending){.to_host = to_host, .host = host, .bytes = bytes};
    memcpy(p->content, content, bytes);
    pthread_mutex_lock(&s->mutex);
    p->number = s->copies++;
    *s->last = p;
    s->last = &p->next;
    pthread_mutex_unlock(&s->mutex);
}

static void write_to(sl_device *device, void *to, const void *host, size_t bytes) {
    must_be_host(device, host, "write");
    memcpy(of_device(device, to, "write"), host, bytes);
    union {
        const void *given;
        void *kept;
    } array = {host};
    add_pending((separate *)device, 0, array.kept, host, bytes);
}

static void read_from(sl_device *device, void *host, const void *from, size_t bytes) {
    must_be_host(device, host, "read");
    memset(host, 0xff, bytes); /* before another thread's finish may copy */
    add_pending((separate *)device, 1, host, of_device(device, from, "read"), bytes);
}

static void copy(sl_device *device, void *to, const void *from, size_t bytes) {
    memcpy(of_device(device, to, "copy"), of_device(device, from, "copy"), bytes);
}

static void zero(sl_device *device, void *memory, size_t bytes) {
    memset(of_device(device, memory, "zero"), 0, bytes);
}

/* The first copies, in the order of the calls: several may concern one array of the host. */
static sl_status finish_copies(separate *s, long count) {
    pthread_mutex_lock(&s->mutex);
    while (s->first && s->first->number < count) {
        pending *p = s->first;
        s->first = p->next;
        if (p->to_host)
            memcpy(p->host, p->content, p->bytes);
        else if (memcmp(p->host, p->content, p->bytes) != 0)
            refuse("an array of the host changed between write and finish", p->host);
        free(p);
    }
    if (!s->first)
        s->last = &s->first;
    pthread_mutex_unlock(&s->mutex);
    return SL_OK;
}

static sl_status finish(sl_device *device) {
    return finish_copies((separate *)device, LONG_MAX);
}

static void mark(sl_device *device, int number) {
    separate *s = (separate *)device;
    pthread_mutex_lock(&s->mutex);
    s->marked[number] = s->copies;
    pthread_mutex_unlock(&s->mutex);
}

static sl_status wait_for(sl_device *device, int number) {
    return finish_copies((separate *)device, ((separate *)device)->marked[number]);
}

/* ---- arithmetic: the cpu's. `values` are the arguments after the device; D: an array of the device ---- */

#define D(array) of_device(device, array, __func__)
#define VALUES(...) __VA_ARGS__
#define CPU(device) (((separate *)(device))->cpu)
#define SEPARATE(name, parameters, values)                                                                   \
    static void call_##name parameters {                                                                     \
        CPU(device)->name(CPU(device), VALUES values);                                                       \
    }
#define SEPARATE_STATUS(name, parameters, values)                                                            \
    static sl_status call_##name parameters {                                                                \
        return CPU(device)->name(CPU(device), VALUES values);                                                \
    }

/* clang-format off */
SEPARATE_STATUS(matmul_pack, (sl_device *device, sl_matmul *product, const float *b, void *packed), (product, D(b), D(packed)))
SEPARATE_STATUS(matmul, (sl_device *device, sl_matmul *product, const float *a, const void *b, const float *bias, float *c, void *scratch), (product, D(a), D(b), D(bias), D(c), D(scratch)))
SEPARATE(layernorm, (sl_device *device, int rows, int width, const float *x, const float *gain, const float *bias, float *normal, float *scale, float *y), (rows, width, D(x), D(gain), D(bias), D(normal), D(scale), D(y)))
SEPARATE(layernorm_apply, (sl_device *device, int rows, int width, const float *normal, const float *gain, const float *bias, float *y), (rows, width, D(normal), D(gain), D(bias), D(y)))
SEPARATE(layernorm_input_grad, (sl_device *device, int rows, int width, const float *dy, const float *gain, const float *normal, const float *scale, const float *residual, float *dx), (rows, width, D(dy), D(gain), D(normal), D(scale), D(residual), D(dx)))
SEPARATE(layernorm_weight_grad, (sl_device *device, int rows, int width, const float *dy, const float *normal, float *scratch, float *gain_grad, float *bias_grad), (rows, width, D(dy), D(normal), D(scratch), D(gain_grad), D(bias_grad)))
SEPARATE(bias_grad, (sl_device *device, int rows, int width, const float *dy, float *scratch, float *grad), (rows, width, D(dy), D(scratch), D(grad)))
SEPARATE(gelu, (sl_device *device, size_t count, const float *x, float *y), (count, D(x), D(y)))
SEPARATE(gelu_input_grad, (sl_device *device, size_t count, float *x, float *dy), (count, D(x), D(dy)))
SEPARATE(attention, (sl_device *device, const sl_attention_shape *shape, const float *q, const float *k, const float *v, float *out, float *lse, float *scratch), (shape, D(q), D(k), D(v), D(out), D(lse), D(scratch)))
SEPARATE(attention_grad, (sl_device *device, const sl_attention_shape *shape, const float *q, const float *k, const float *v, const float *out, const float *lse, const float *dout, float *dq, float *dk, float *dv, float *scratch), (shape, D(q), D(k), D(v), D(out), D(lse), D(dout), D(dq), D(dk), D(dv), D(scratch)))
SEPARATE(embed, (sl_device *device, int rows, int width, int first, int count, const uint16_t *token, const float *table, float *x), (rows, width, first, count, D(token), D(table), D(x)))
SEPARATE(embed_weight_grad, (sl_device *device, int rows, int width, int first, int count, const uint16_t *token, const float *dx, float *grad), (rows, width, first, count, D(token), D(dx), D(grad)))
SEPARATE(add_positions, (sl_device *device, int rows, int width, int context, const float *table, float *x), (rows, width, context, D(table), D(x)))
SEPARATE(positions_weight_grad, (sl_device *device, int rows, int width, int context, const float *dx, float *grad), (rows, width, context, D(dx), D(grad)))
SEPARATE(add_rows, (sl_device *device, int rows, int width, const float *y, const float *bias, float *x), (rows, width, D(y), D(bias), D(x)))
SEPARATE(cross_entropy, (sl_device *device, int rows, int vocabulary, float *logits, const uint16_t *target, float grad_scale, double *loss), (rows, vocabulary, D(logits), D(target), grad_scale, D(loss)))
SEPARATE(entropy_top, (sl_device *device, int rows, int columns, const float *logits, float *top), (rows, columns, D(logits), D(top)))
SEPARATE(entropy_sums, (sl_device *device, int rows, int columns, int first, float *logits, const uint16_t *target, const float *top, float *sums), (rows, columns, first, D(logits), D(target), D(top), D(sums)))
SEPARATE(entropy_grad, (sl_device *device, int rows, int columns, int first, float *logits, const uint16_t *target, const float *sums, float grad_scale, double *loss), (rows, columns, first, D(logits), D(target), D(sums), grad_scale, D(loss)))
SEPARATE(rmsnorm, (sl_device *device, int rows, int width, float epsilon, const float *x, const float *gain, float *normal, float *scale, float *y), (rows, width, epsilon, D(x), D(gain), D(normal), D(scale), D(y)))
SEPARATE(rmsnorm_apply, (sl_device *device, int rows, int width, const float *normal, const float *gain, float *y), (rows, width, D(normal), D(gain), D(y)))
SEPARATE(rmsnorm_input_grad, (sl_device *device, int rows, int width, const float *dy, const float *gain, const float *normal, const float *scale, const float *residual, float *dx), (rows, width, D(dy), D(gain), D(normal), D(scale), D(residual), D(dx)))
SEPARATE(rmsnorm_weight_grad, (sl_device *device, int rows, int width, const float *dy, const float *normal, float *scratch, float *gain_grad), (rows, width, D(dy), D(normal), D(scratch), D(gain_grad)))
SEPARATE(rope, (sl_device *device, int rows, int context, int heads, int size, int stride, int backward, const float *table, float *x), (rows, context, heads, size, stride, backward, D(table), D(x)))
SEPARATE(swiglu, (sl_device *device, size_t count, const float *gate, const float *up, float *y), (count, D(gate), D(up), D(y)))
SEPARATE(swiglu_input_grad, (sl_device *device, size_t count, float *gate, float *up, float *dy), (count, D(gate), D(up), D(dy)))
SEPARATE(add, (sl_device *device, size_t count, const float *x, float *y), (count, D(x), D(y)))
SEPARATE(add_marked, (sl_device *device, int rows, int width, const unsigned char *marked, float *from, float *to), (rows, width, D(marked), D(from), D(to)))
SEPARATE(squares, (sl_device *device, int threads, size_t count, const float *x, double *out), (threads, count, D(x), D(out)))
SEPARATE(adamw, (sl_device *device, const sl_adamw_step *step, size_t count, const float *gradient, float *weight, float *moment1, float *moment2), (step, count, D(gradient), D(weight), D(moment1), D(moment2)))
/* clang-format on */

static sl_status matmul_prepare(sl_device *device, const sl_matmul_shape *shape, sl_matmul **product,
                                size_t *scratch_bytes) {
    return CPU(device)->matmul_prepare(CPU(device), shape, product, scratch_bytes);
}

static size_t attention_scratch(const sl_device *device, const sl_attention_shape *shape) {
    const sl_device *cpu = ((const separate *)device)->cpu;
    return cpu->attention_scratch(cpu, shape);
}

/* rope_table's array is the host's. */
static void rope_table(int context, int size, double base, float *table) {
    sl_device *cpu;
    if (OPEN_CPU(1, &cpu) != SL_OK)
        refuse("no cpu", table);
    cpu->rope_table(context, size, base, table);
    cpu->close(cpu);
}

static void close_device(sl_device *device) {
    separate *s = (separate *)device;
    finish(device);
    for (int i = 0; i < REGIONS; i++)
        if (s->region[i].start)
            refuse("closed before its memory", s->region[i].start);
    s->cpu->close(s->cpu);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

sl_status separate_device_open(int threads, sl_device **device) {
    separate *s = calloc(1, sizeof *s);
    if (!s)
        return sl_error(SL_ENOMEM, "out of memory");
    sl_status status = OPEN_CPU(threads, &s->cpu);
    if (status != SL_OK) {
        free(s);
        return status;
    }
    pthread_mutex_init(&s->mutex, NULL);
    s->last = &s->first;
    s->device = (sl_device){.kind = "separate",
                            .isa = "separate",
                            .threads = s->cpu->threads,
                            .has_bf16 = s->cpu->has_bf16,
                            .memory_open = memory_open,
                            .memory_close = memory_close,
                            .pin = pin,
                            .unpin = unpin,
                            .write = write_to,
                            .read = read_from,
                            .copy = copy,
                            .zero = zero,
                            .mark = mark,
                            .wait = wait_for,
                            .finish = finish,
                            .matmul_prepare = matmul_prepare,
                            .matmul_packed_bytes = s->cpu->matmul_packed_bytes,
                            .matmul_pack = call_matmul_pack,
                            .matmul = call_matmul,
                            .layernorm = call_layernorm,
                            .layernorm_apply = call_layernorm_apply,
                            .layernorm_input_grad = call_layernorm_input_grad,
                            .layernorm_weight_grad = call_layernorm_weight_grad,
                            .bias_grad = call_bias_grad,
                            .gelu = call_gelu,
                            .gelu_input_grad = call_gelu_input_grad,
                            .attention_scratch = attention_scratch,
                            .attention = call_attention,
                            .attention_grad = call_attention_grad,
                            .embed = call_embed,
                            .embed_weight_grad = call_embed_weight_grad,
                            .add_positions = call_add_positions,
                            .positions_weight_grad = call_positions_weight_grad,
                            .add_rows = call_add_rows,
                            .cross_entropy = call_cross_entropy,
                            .entropy_top = call_entropy_top,
                            .entropy_sums = call_entropy_sums,
                            .entropy_grad = call_entropy_grad,
                            .rmsnorm = call_rmsnorm,
                            .rmsnorm_apply = call_rmsnorm_apply,
                            .rmsnorm_input_grad = call_rmsnorm_input_grad,
                            .rmsnorm_weight_grad = call_rmsnorm_weight_grad,
                            .rope_table = rope_table,
                            .rope = call_rope,
                            .swiglu = call_swiglu,
                            .swiglu_input_grad = call_swiglu_input_grad,
                            .add = call_add,
                            .add_marked = call_add_marked,
                            .squares = call_squares,
                            .adamw = call_adamw,
                            .close = close_device};
    *device = &s->device;
    return SL_OK;
}
