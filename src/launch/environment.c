#include "launch/environment.h"
#include "base/memory.h"

#include <stdint.h>
#include <string.h>

extern char **environ;

/* What would make a child take part in the parent's job. */
static int belongs_to_a_rank(const char *variable) {
    static const char *const prefix[] = {"OMPI_", "PMIX_", "PMI_", "PRTE_", "OPAL_"};
    for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
        if (strncmp(variable, prefix[i], strlen(prefix[i])) == 0)
            return 1;
    return 0;
}

static int is_replaced(const char *variable, const char *const *lines, int count) {
    size_t length = strcspn(variable, "=") + 1;
    for (int i = 0; i < count; i++)
        if (strncmp(variable, lines[i], length) == 0)
            return 1;
    return 0;
}

sl_status sl_launch_environment(const char *const *lines, int count, char ***environment) {
    size_t had = 0, kept = 0;
    while (environ[had])
        had++;
    SL_TRY(sl_alloc(environment, had + (size_t)count + 1, sizeof **environment));
    for (int i = 0; i < count; i++)
        (*environment)[kept++] = (char *)(uintptr_t)lines[i];
    for (size_t i = 0; i < had; i++)
        if (!belongs_to_a_rank(environ[i]) && !is_replaced(environ[i], lines, count))
            (*environment)[kept++] = environ[i];
    return SL_OK;
}
