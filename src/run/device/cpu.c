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

/* oneDNN computes with bf16 on older processors, too, by converting; that is slower than f32. */
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
                              .layernorm = sl_cpu_layernorm,
                              .layernorm_apply = sl_cpu_layernorm_apply,
                              .layernorm_input_grad = sl_cpu_layernorm_input_grad,
                              .layernorm_weight_grad = sl_cpu_layernorm_weight_grad,
                              .bias_grad = sl_cpu_bias_grad,
                              .gelu = sl_cpu_gelu,
                              .gelu_input_grad = sl_cpu_gelu_input_grad,
                              .attention_scratch = sl_cpu_attention_scratch,
                              .attention = sl_cpu_attention,
                              .attention_grad = sl_cpu_attention_grad,
                              .softmax_causal = sl_cpu_softmax_causal,
                              .softmax_causal_grad = sl_cpu_softmax_causal_grad,
                              .split_heads = sl_cpu_split_heads,
                              .join_heads = sl_cpu_join_heads,
                              .embed = sl_cpu_embed,
                              .embed_weight_grad = sl_cpu_embed_weight_grad,
                              .add_positions = sl_cpu_add_positions,
                              .positions_weight_grad = sl_cpu_positions_weight_grad,
                              .add_rows = sl_cpu_add_rows,
                              .cross_entropy = sl_cpu_cross_entropy,
                              .entropy_top = sl_cpu_entropy_top,
                              .entropy_sums = sl_cpu_entropy_sums,
                              .entropy_grad = sl_cpu_entropy_grad,
                              .rmsnorm = sl_cpu_rmsnorm,
                              .rmsnorm_apply = sl_cpu_rmsnorm_apply,
                              .rmsnorm_input_grad = sl_cpu_rmsnorm_input_grad,
                              .rmsnorm_weight_grad = sl_cpu_rmsnorm_weight_grad,
                              .rope_table = sl_cpu_rope_table,
                              .rope = sl_cpu_rope,
                              .swiglu = sl_cpu_swiglu,
                              .swiglu_input_grad = sl_cpu_swiglu_input_grad,
                              .close = close_cpu};
    if (dnnl_engine_create(&cpu->engine, dnnl_cpu, 0) != dnnl_success) {
        close_cpu(&cpu->device);
        return sl_error(SL_ESYS, "oneDNN: no cpu engine");
    }
    *device = &cpu->device;
    return SL_OK;
}
