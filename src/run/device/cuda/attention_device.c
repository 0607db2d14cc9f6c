/* Attention in the device's table: f32 in memory, arithmetic of the shape's type. */
#include "run/device/cuda/cuda_attention.h"
#include "run/device/cuda/cuda_kernels.h"

static int capability_of(const sl_device *device) {
    int major = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ((const sl_cuda *)device)->ordinal);
    return major;
}

size_t sl_cuda_attention_scratch(const sl_device *device, const sl_attention_shape *shape) {
    return sl_cuda_attention_floats(shape, capability_of(device));
}

void sl_cuda_attention(sl_device *device, const sl_attention_shape *shape, const float *q, const float *k,
                       const float *v, float *out, float *lse, float *scratch) {
    sl_cuda *cuda = (sl_cuda *)device;
    sl_cuda_keep(cuda,
                 sl_cuda_attention_forward(shape, capability_of(device), SL_F32, q, k, v, out, lse, scratch,
                                           cuda->stream),
                 "attention");
}

void sl_cuda_attention_grad(sl_device *device, const sl_attention_shape *shape, const float *q,
                            const float *k, const float *v, const float *out, const float *lse,
                            const float *dout, float *dq, float *dk, float *dv, float *scratch) {
    sl_cuda *cuda = (sl_cuda *)device;
    sl_cuda_keep(cuda,
                 sl_cuda_attention_backward(shape, capability_of(device), SL_F32, q, k, v, out, lse, dout, dq,
                                            dk, dv, scratch, cuda->stream),
                 "attention's gradient");
}
