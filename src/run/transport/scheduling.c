#include "run/transport/scheduling.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NS 100000u

/* The kernel's struct sched_attr, version 0; glibc 2.36 has no wrapper. */
typedef struct attributes {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} attributes;
_Static_assert(sizeof(attributes) == 48, "SCHED_ATTR_SIZE_VER0");

static int obtain_fifo(void) {
    struct sched_param priority = {.sched_priority = 10};
    return pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) == 0;
}

/* Kernels before 6.12 accept the call and ignore the slice, so it is read back. */
static int obtain_slice(void) {
    attributes a = {.size = sizeof a}, back = {0};
    if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) != 0)
        return 0;
    a.size = sizeof a;
    a.policy = SCHED_OTHER;
    a.flags = 0;
    a.priority = 0;
    a.runtime = SLICE_NS;
    a.deadline = a.period = 0;
    if (syscall(SYS_sched_setattr, 0, &a, 0) != 0)
        return 0;
    return syscall(SYS_sched_getattr, 0, &back, sizeof back, 0) == 0 && back.runtime == SLICE_NS;
}

sl_transport_class sl_scheduling_for(sl_transport_class wanted, const sl_rail_address *rail, int rails) {
    for (int i = 0; i < rails; i++)
        if (rail[i].kind == SL_RAIL_UCX && wanted < SL_CLASS_SLICE)
            return SL_CLASS_SLICE;
    return wanted;
}

const char *sl_scheduling_obtain(sl_transport_class wanted) {
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    if (wanted <= SL_CLASS_FIFO && obtain_fifo())
        return "SCHED_FIFO 10";
    if (wanted <= SL_CLASS_SLICE && obtain_slice())
        return "slice 100 us";
    return "normal";
}
