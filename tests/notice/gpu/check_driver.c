/* Compiled, never run: the declarations of NVIDIA's driver and management library against the real headers. A
 * row that differs is an error of the compiler. */
#define __CUDA_API_VERSION_INTERNAL /* also declares the versions that are used */
#include <cuda.h>
#include <stddef.h>

#define SL_CHECK_CUDA
typedef CUcontext SL_CU_CONTEXT;
typedef CUmodule SL_CU_MODULE;
typedef CUfunction SL_CU_FUNCTION;
typedef CUstream SL_CU_STREAM;
typedef CUevent SL_CU_EVENT;
typedef CUdeviceptr SL_CU_MEMORY;
typedef CUresult SL_CU_RESULT;
typedef CUdevice SL_CU_DEVICE;
typedef CUdevice_attribute SL_CU_ATTRIBUTE;
#include "notice/gpu/driver.h"
#define SL_DECLARE(name, parameters) extern CUresult CUDAAPI name parameters;
SL_CUDA_CALLS(SL_DECLARE)
#undef SL_DECLARE
_Static_assert(sizeof(CUdevice) == sizeof(int) && sizeof(CUresult) == sizeof(int) &&
                   sizeof(CUdeviceptr) == sizeof(unsigned long long),
               "types");
_Static_assert(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT == 16 &&
                   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == 75,
               "attributes");
_Static_assert(CUDA_ERROR_NO_DEVICE == 100 && CU_STREAM_NON_BLOCKING == 1, "constants");

#if __has_include(<nvml.h>)
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#define SL_CHECK_NVML
typedef nvmlDevice_t SL_NVML;
typedef nvmlPciInfo_t SL_NVML_PCI;
typedef nvmlProcessInfo_t SL_NVML_PROCESS;
typedef nvmlClockType_t SL_NVML_CLOCK;
typedef nvmlTemperatureSensors_t SL_NVML_SENSOR;
typedef nvmlMemoryErrorType_t SL_NVML_ERROR;
typedef nvmlEccCounterType_t SL_NVML_COUNTER;
#include "notice/gpu/management.h"
#define SL_DECLARE(name, parameters) extern nvmlReturn_t DECLDIR name parameters;
SL_NVML_CALLS(SL_DECLARE, SL_DECLARE)
_Static_assert(sizeof(nvmlPciInfo_t) == 68 && offsetof(nvmlPciInfo_t, busId) == 36, "the place of a GPU");
_Static_assert(sizeof(nvmlProcessInfo_t) == 24 && offsetof(nvmlProcessInfo_t, pid) == 0, "a process");
_Static_assert(NVML_CLOCK_SM == 1 && NVML_CLOCK_MEM == 2 && NVML_TEMPERATURE_GPU == 0, "clocks and sensors");
_Static_assert(NVML_MEMORY_ERROR_TYPE_UNCORRECTED == 1 && NVML_VOLATILE_ECC == 0, "errors");

#include "notice/gpu/state.h"
_Static_assert(SL_GPU_IDLE == nvmlClocksEventReasonGpuIdle &&
                   SL_GPU_POWER_CAP == nvmlClocksEventReasonSwPowerCap &&
                   SL_GPU_HW_SLOWDOWN == nvmlClocksThrottleReasonHwSlowdown &&
                   SL_GPU_SW_THERMAL == nvmlClocksEventReasonSwThermalSlowdown &&
                   SL_GPU_HW_THERMAL == nvmlClocksThrottleReasonHwThermalSlowdown &&
                   SL_GPU_POWER_BRAKE == nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
               "reasons");
#endif
