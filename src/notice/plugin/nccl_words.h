/* Calls and data types of NCCL by the words and numbers of its profiler interface. */
#pragma once

#include <stdint.h>

/** The recorded call ("AllReduce": SL_CALL_ncclAllReduce); SL_CALL_NOTHING: unknown, or NULL. */
int sl_nccl_call_of(const char *function);

/** The same by version 1's number. */
int sl_nccl_call_of_number(int function);

/** Bytes of an element ("ncclFloat32": 4); 0: unknown, or NULL. */
uint64_t sl_nccl_size_of(const char *data_type);

/** The same by version 1's number. */
uint64_t sl_nccl_size_of_number(int data_type);
