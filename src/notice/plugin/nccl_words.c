#include "notice/plugin/nccl_words.h"

#include <stddef.h>
#include <string.h>

#include "notice/record/call.h"

static const struct {
    const char *name;
    int call;
} calls[] = {
    {"AllReduce", SL_CALL_ncclAllReduce},
    {"AllGather", SL_CALL_ncclAllGather},
    {"ReduceScatter", SL_CALL_ncclReduceScatter},
    {"Broadcast", SL_CALL_ncclBroadcast},
    {"Reduce", SL_CALL_ncclReduce},
    {"Send", SL_CALL_ncclSend},
    {"Recv", SL_CALL_ncclRecv},
    {"AlltoAll", SL_CALL_ncclAlltoAll},
    {"AllToAll", SL_CALL_ncclAlltoAll},
    {"Gather", SL_CALL_ncclGather},
    {"Scatter", SL_CALL_ncclScatter},
};

int sl_nccl_call_of(const char *function) {
    for (size_t i = 0; function && i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, function) == 0)
            return calls[i].call;
    return SL_CALL_NOTHING;
}

/* ncclFunc_t of NCCL 2.23 */
int sl_nccl_call_of_number(int function) {
    static const int numbered[] = {SL_CALL_ncclBroadcast,     SL_CALL_ncclReduce,    SL_CALL_ncclAllGather,
                                   SL_CALL_ncclReduceScatter, SL_CALL_ncclAllReduce, SL_CALL_NOTHING,
                                   SL_CALL_ncclSend,          SL_CALL_ncclRecv};
    return function >= 0 && (size_t)function < sizeof numbered / sizeof *numbered ? numbered[function]
                                                                                  : SL_CALL_NOTHING;
}

/* ncclDataType_t, in the order of its numbers */
static const struct {
    const char *name;
    uint64_t size;
} types[] = {
    {"ncclInt8", 1},    {"ncclUint8", 1},    {"ncclInt32", 4},      {"ncclUint32", 4},
    {"ncclInt64", 8},   {"ncclUint64", 8},   {"ncclFloat16", 2},    {"ncclFloat32", 4},
    {"ncclFloat64", 8}, {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1},
};

uint64_t sl_nccl_size_of(const char *data_type) {
    for (size_t i = 0; data_type && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, data_type) == 0)
            return types[i].size;
    return 0;
}

uint64_t sl_nccl_size_of_number(int data_type) {
    return data_type >= 0 && (size_t)data_type < sizeof types / sizeof *types ? types[data_type].size : 0;
}
