#include "notice/probe/choose.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "notice/probe/probe.h"

/* Rows of the table become a pair of names each; see mpi_table.h. */
/* clang-format off */
#define SL_JOIN(a, b) a##b
#define SL_CAT(a, b) SL_JOIN(a, b)
#define SL_QUOTE_(x) #x
#define SL_QUOTE(x) SL_QUOTE_(x)
#define SL_BOTH(name) SL_ONE(SL_QUOTE(SL_CAT(MPI_, SL_S(name)))) SL_ONE(SL_QUOTE(SL_CAT(PMPI_, SL_S(name))))
#define SL_CALL(name, ...) SL_BOTH(name)
#define SL_TAKE(name, ...) SL_BOTH(name)
#define SL_EXCHANGE(name, ...) SL_BOTH(name)
#define SL_WINDOW(name, ...) SL_BOTH(name)
#define SL_FILE_CALL(name, ...) SL_BOTH(name)
#define SL_BRACKET(name, ...) SL_BOTH(name)
#define SL_POST(name, ...) SL_BOTH(name)
#define SL_INIT(name, ...) SL_BOTH(name)
#define SL_CREATE(name, ...) SL_BOTH(name)
#define SL_HAND(name, ...) SL_BOTH(name)
#define SL_GROUP(name, iname, ...) SL_BOTH(name) SL_BOTH(iname)

static const char *const names[] = {
#define SL_ONE(name) name,
#define SL_S(name) name
#include "notice/probe/mpi_table.h"
#undef SL_S
#define SL_S(name) name##_c
#define SL_LARGE
#include "notice/probe/mpi_table.h"
#undef SL_LARGE
#undef SL_S
#undef SL_ONE
};
#define COUNT (sizeof names / sizeof names[0])

/* The target of each name. Written once, by the first caller (under the lock of pthread_once); an address is
 * written whole, and before that every call goes through `sl_probe_first`. */
void sl_probe_first(void) __attribute__((visibility("hidden")));
void *sl_probe_slots[COUNT] __attribute__((visibility("hidden"))) = {[0 ... COUNT - 1] = (void *)&sl_probe_first};
void *sl_probe_target(uint64_t index) __attribute__((visibility("hidden"), used));

/* The names that programs call. Arguments are where the caller put them, so a name only jumps; its index in
 * the table is in a register that no call uses for an argument. The first call saves the arguments, has the
 * slots filled and continues. All in one statement: its order is the table's. */
#if defined __x86_64__
#define SL_ONE(name) \
    ".globl " name "\n.type " name ",@function\n" name ":\nendbr64\nmovl $sl_index,%eax\n" \
    "jmp *sl_probe_slots+8*sl_index(%rip)\n.size " name ",.-" name "\n.set sl_index,sl_index+1\n"
#define SL_FIRST \
    ".globl sl_probe_first\n.hidden sl_probe_first\n.type sl_probe_first,@function\nsl_probe_first:\nendbr64\n" \
    "push %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\nsub $8,%rsp\nmov %rax,%rdi\n" \
    "call sl_probe_target\nadd $8,%rsp\npop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\njmp *%rax\n"
#elif defined __aarch64__
#define SL_ONE(name) \
    ".globl " name "\n.type " name ",%function\n" name ":\nhint #34\nmov w17,#sl_index\nadrp x16,sl_probe_slots+8*sl_index\n" \
    "ldr x16,[x16,:lo12:sl_probe_slots+8*sl_index]\nbr x16\n.size " name ",.-" name "\n.set sl_index,sl_index+1\n"
#define SL_FIRST \
    ".globl sl_probe_first\n.hidden sl_probe_first\n.type sl_probe_first,%function\nsl_probe_first:\nhint #34\n" \
    "stp x29,x30,[sp,#-80]!\nstp x0,x1,[sp,#16]\nstp x2,x3,[sp,#32]\nstp x4,x5,[sp,#48]\nstp x6,x7,[sp,#64]\nmov x0,x17\n" \
    "bl sl_probe_target\nmov x16,x0\nldp x0,x1,[sp,#16]\nldp x2,x3,[sp,#32]\nldp x4,x5,[sp,#48]\nldp x6,x7,[sp,#64]\n" \
    "ldp x29,x30,[sp],#80\nbr x16\n"
#else
#error "the probe knows x86-64 and aarch64"
#endif

__asm__(".text\n" SL_FIRST ".set sl_index,0\n"
#define SL_S(name) name
#include "notice/probe/mpi_table.h"
#undef SL_S
#define SL_S(name) name##_c
#define SL_LARGE
#include "notice/probe/mpi_table.h"
#undef SL_LARGE
#undef SL_S
);
/* clang-format on */

static sl_mpi_family family_of(const char *version) {
    if (strncmp(version, "Open MPI", 8) == 0)
        return SL_FAMILY_OPENMPI;
    if (strstr(version, "MPICH") || strstr(version, "MVAPICH") || strstr(version, "Intel(R) MPI"))
        return SL_FAMILY_MPICH;
    return SL_FAMILY_NONE;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *const *wrappers; /* NULL: straight to the library */

static void choose(void) {
    char version[16384] = ""; /* MPI_MAX_LIBRARY_VERSION_STRING is 8192 at most */
    int length = 0;
    int (*ask)(char *, int *) = (int (*)(char *, int *))(uintptr_t)sl_probe_real("MPI_Get_library_version");
    if (!ask || !sl_probe_on() || ask(version, &length) != 0)
        return;
    sl_mpi_family family = family_of(version);
    if (family == SL_FAMILY_NONE)
        sl_probe_say("MPI calls are not recorded: unknown library: %.60s", version);
    else
        wrappers = family == SL_FAMILY_OPENMPI ? sl_wrappers_openmpi : sl_wrappers_mpich;
}

void *sl_probe_target(uint64_t index) {
    int kept = errno;
    pthread_once(&once, choose);
    void *target = wrappers ? wrappers[index] : sl_probe_real_or_error(names[index]);
    __atomic_store_n(&sl_probe_slots[index], target, __ATOMIC_RELEASE);
    errno = kept;
    return target;
}
