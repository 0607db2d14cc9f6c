#include "base/memory.h"
#include "run/device/cpu_matmul.h"

static const char *isa_name(void) {
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = {
        {dnnl_cpu_isa_sse41, "sse4.1"},
        {dnnl_cpu_isa_avx, "avx"},
        {dnnl_cpu_isa_avx2, "avx2"},
        {dnnl_cpu_isa_avx2_vnni, "avx2 vnni"},
        {dnnl_cpu_isa_avx512_core, "avx512"},
        {dnnl_cpu_isa_avx512_core_vnni, "avx512 vnni"},
        {dnnl_cpu_isa_avx512_core_bf16, "avx512 vnni bf16"},
        {dnnl_cpu_isa_avx512_core_amx, "avx512 vnni bf16 amx"},
    };
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].isa == isa)
            return names[i].name;
    return "plain";
}

/* oneDNN also computes with bf16 on older processors, by conversion; that is slower than f32. */
static int has_bf16(void) {
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

static void close_cpu(sl_device *device) {
    sl_cpu_matmul_close((sl_cpu *)device);
    sl_free(device);
}

sl_status sl_device_open_cpu(int threads, sl_device **device) {
    sl_cpu *cpu;
    if (threads < 1)
        return sl_error(SL_EINVAL, "device threads must be >= 1, got %d", threads);
    SL_TRY(sl_alloc(&cpu, 1, sizeof *cpu));
    cpu->device = (sl_device){.kind = "cpu",
                              .isa = isa_name(),
                              .threads = threads,
                              .matmul_prepare = sl_cpu_matmul_prepare,
                              .has_bf16 = has_bf16(),
                              .matmul_packed_bytes = sl_cpu_matmul_packed_bytes,
                              .matmul_pack = sl_cpu_matmul_pack,
                              .matmul = sl_cpu_matmul,
                              .attention_scratch = sl_cpu_attention_scratch,
                              .attention = sl_cpu_attention,
                              .attention_grad = sl_cpu_attention_grad,
                              .rope_table = sl_cpu_rope_table,
                              .close = close_cpu};
    sl_cpu_fill_memory(&cpu->device);
    sl_cpu_fill_divided(&cpu->device);
    sl_cpu_fill_update(&cpu->device);
    if (dnnl_engine_create(&cpu->engine, dnnl_cpu, 0) != dnnl_success) {
        close_cpu(&cpu->device);
        return sl_error(SL_ESYS, "oneDNN: no cpu engine");
    }
    *device = &cpu->device;
    return SL_OK;
}
