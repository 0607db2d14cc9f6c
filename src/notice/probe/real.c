/* The wrapped functions, found by name. A program linked with its library has it in the search order, after
 * the probe. If the program loads it later itself (a Python module), it is not in that order: then every
 * loaded library is searched. */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "notice/probe/probe.h"

typedef struct loaded {
    char **names;
    size_t count, room;
} loaded;

static int add_name(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    loaded *found = context;
    if (!info->dlpi_name || !*info->dlpi_name)
        return 0; /* the program itself: RTLD_NEXT has asked it */
    if (found->count == found->room) {
        size_t room = found->room ? 2 * found->room : 64;
        char **names = realloc(found->names, room * sizeof *names);
        if (!names)
            return 1;
        found->names = names;
        found->room = room;
    }
    found->names[found->count] = strdup(info->dlpi_name);
    found->count += found->names[found->count] != NULL;
    return 0;
}

/* Whether an address is in the library that contains this code. */
static int ours(void *address) {
    Dl_info there, here;
    return dladdr(address, &there) && dladdr((void *)(uintptr_t)&add_name, &here) &&
           there.dli_fbase == here.dli_fbase;
}

/* The symbol in any library that the program has loaded, ours apart. */
static void *anywhere(const char *name) {
    loaded found = {0};
    dl_iterate_phdr(add_name, &found);
    void *function = NULL;
    for (size_t i = 0; i < found.count; i++) {
        void *library = function ? NULL : dlopen(found.names[i], RTLD_LAZY | RTLD_NOLOAD);
        void *candidate = library ? dlsym(library, name) : NULL;
        if (candidate && !ours(candidate))
            function = candidate; /* and the library stays open, as long as we point into it */
        else if (library)
            dlclose(library);
        free(found.names[i]);
    }
    free(found.names);
    return function;
}

void *sl_probe_real(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    return function && !ours(function) ? function : anywhere(name);
}

void *sl_probe_variable(const char *name) {
    void *variable = dlsym(RTLD_DEFAULT, name);
    return variable ? variable : anywhere(name);
}

static int no_such_function(void) {
    return 5; /* ncclInvalidUsage; of MPI no success either */
}

void *sl_probe_real_or_error(const char *name) {
    void *function = sl_probe_real(name);
    return function ? function : (void *)(uintptr_t)&no_such_function;
}

int sl_probe_is_error(const void *function) {
    return function == (void *)(uintptr_t)&no_such_function;
}
