#include "run/device/cuda/cuda_kernels.h"

#include <string.h>

/* Memory of the card. Copies are queued between the kernels, on the same stream. */

static sl_status memory_open(sl_device *device, size_t bytes, void *memory) {
    void *made;
    sl_cuda_enter((sl_cuda *)device);
    const cudaError_t error = cudaMalloc(&made, bytes ? bytes : 1);
    if (error != cudaSuccess) {
        cudaGetLastError(); /* a launch must not find it again */
        return sl_error(SL_ENOMEM, "CUDA: %zu bytes of the card's memory: %s", bytes,
                        cudaGetErrorString(error));
    }
    memcpy(memory, &made, sizeof made);
    return SL_OK;
}

static void memory_close(sl_device *device, void *memory) {
    sl_cuda_enter((sl_cuda *)device);
    sl_cuda_keep((sl_cuda *)device, cudaFree(memory), "giving back memory");
}

static sl_status pin(sl_device *device, void *host, size_t bytes) {
    sl_cuda_enter((sl_cuda *)device);
    const cudaError_t error = cudaHostRegister(host, bytes, cudaHostRegisterDefault);
    if (error == cudaSuccess)
        return SL_OK;
    cudaGetLastError();
    return sl_error(SL_ESYS, "CUDA: pinning %zu bytes of the host's memory: %s", bytes,
                    cudaGetErrorString(error));
}

static void unpin(sl_device *device, void *host) {
    sl_cuda_enter((sl_cuda *)device);
    sl_cuda_keep((sl_cuda *)device, cudaHostUnregister(host), "unpinning memory");
}

static void copy_as(sl_device *device, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                    const char *what) {
    sl_cuda *cuda = (sl_cuda *)device;
    sl_cuda_enter(cuda);
    if (bytes)
        sl_cuda_keep(cuda, cudaMemcpyAsync(to, from, bytes, kind, cuda->stream), what);
}

static void write_to(sl_device *device, void *to, const void *host, size_t bytes) {
    copy_as(device, to, host, bytes, cudaMemcpyHostToDevice, "a copy to the card");
}

static void read_from(sl_device *device, void *host, const void *from, size_t bytes) {
    copy_as(device, host, from, bytes, cudaMemcpyDeviceToHost, "a copy from the card");
}

static void copy(sl_device *device, void *to, const void *from, size_t bytes) {
    copy_as(device, to, from, bytes, cudaMemcpyDeviceToDevice, "a copy on the card");
}

static void zero(sl_device *device, void *memory, size_t bytes) {
    sl_cuda *cuda = (sl_cuda *)device;
    sl_cuda_enter(cuda);
    if (bytes)
        sl_cuda_keep(cuda, cudaMemsetAsync(memory, 0, bytes, cuda->stream), "zeroing memory");
}

static void mark(sl_device *device, int number) {
    sl_cuda *cuda = (sl_cuda *)device;
    sl_cuda_enter(cuda);
    sl_cuda_keep(cuda, cudaEventRecord(cuda->mark[number], cuda->stream), "marking work");
}

static sl_status wait_for(sl_device *device, int number) {
    sl_cuda *cuda = (sl_cuda *)device;
    sl_cuda_enter(cuda);
    sl_cuda_keep(cuda, cudaEventSynchronize(cuda->mark[number]), "waiting for marked work");
    return sl_cuda_kept_error(cuda);
}

static sl_status finish(sl_device *device) {
    sl_cuda *cuda = (sl_cuda *)device;
    sl_cuda_enter(cuda);
    sl_cuda_keep(cuda, cudaStreamSynchronize(cuda->stream), "waiting for the card");
    return sl_cuda_kept_error(cuda);
}

void sl_cuda_fill_memory(sl_device *device) {
    device->memory_open = memory_open;
    device->memory_close = memory_close;
    device->pin = pin;
    device->unpin = unpin;
    device->write = write_to;
    device->read = read_from;
    device->copy = copy;
    device->zero = zero;
    device->mark = mark;
    device->wait = wait_for;
    device->finish = finish;
}
