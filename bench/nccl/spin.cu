// Work of a given time on a stream, by the clock of the GPU: several processes on one GPU behave like GPUs of their own.
#include <cuda_runtime.h>
__global__ void spin_kernel(long long ns) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
        __nanosleep(2000);
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while ((long long)(now - begin) < ns);
}
extern "C" int spin(void *stream, long long ns) {
    spin_kernel<<<1, 1, 0, (cudaStream_t)stream>>>(ns);
    return (int)cudaGetLastError();
}
