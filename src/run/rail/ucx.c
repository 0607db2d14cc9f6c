#ifdef SL_UCX
#include "run/rail/ucx.h"
#include "base/memory.h"

#include <dirent.h>
#include <dlfcn.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define LIBRARY "libucp.so.0"

/* A singleton, like the library itself: loaded once and never unloaded (it leaves threads and handlers), and
 * the contexts in use. */
static struct {
    pthread_mutex_t mutex;
    int loaded;
    sl_ucx ucx;
    sl_ucx_context *first;
} process = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static sl_status find_calls(void *library) {
#define FIND(name)                                                                                           \
    *(void **)&process.ucx.name = dlsym(library, #name);                                                     \
    if (!process.ucx.name)                                                                                   \
        return sl_error(SL_ESYS, "UCX (%s) has no function %s", LIBRARY, #name);
    SL_UCX_CALLS(FIND)
#undef FIND
    return SL_OK;
}

/* The rail reports its own errors in one line; UCX would also print them (to stdout). */
static void quieten(void *library) {
    ucs_status_t (*set)(const char *, const char *);
    *(void **)&set = dlsym(library, "ucs_global_opts_set_value");
    if (set && !getenv("UCX_LOG_LEVEL"))
        set("LOG_LEVEL", "fatal");
}

static sl_status say(const char *what, ucs_status_t status) {
    return sl_error(SL_ESYS, "UCX: %s: %s", what, process.ucx.ucs_status_string(status));
}

/* "eth1,mlx5_0:1": the interface and the RDMA ports of the same card. */
static void name_devices(const char *interface, char *text, size_t room) {
    char path[96];
    unsigned port = 0;
    size_t used = (size_t)snprintf(text, room, "%s", interface);
    snprintf(path, sizeof path, "/sys/class/net/%s/dev_port", interface);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%u", &port) != 1)
        port = 0;
    if (file)
        fclose(file);
    snprintf(path, sizeof path, "/sys/class/net/%s/device/infiniband", interface);
    DIR *folder = opendir(path);
    for (struct dirent *e; folder && (e = readdir(folder)) != NULL;)
        if (e->d_name[0] != '.' && used < room)
            used += (size_t)snprintf(text + used, room - used, ",%s:%u", e->d_name, port + 1);
    if (folder)
        closedir(folder);
}

static sl_status configure(ucp_config_t *config, unsigned interface) {
    char name[IF_NAMESIZE], devices[512];
    ucs_status_t status = UCS_OK;
    if (interface && if_indextoname(interface, name) && !getenv("UCX_NET_DEVICES")) {
        name_devices(name, devices, sizeof devices);
        status = process.ucx.ucp_config_modify(config, "NET_DEVICES", devices);
    }
    if (status == UCS_OK && !getenv("UCX_TLS"))
        status = process.ucx.ucp_config_modify(config, "TLS", "^shm");
    return status == UCS_OK ? SL_OK : say("its settings", status);
}

static sl_status make_context(unsigned interface, ucp_context_h *context) {
    ucp_config_t *config;
    ucp_params_t wanted = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
                           .features = UCP_FEATURE_STREAM | UCP_FEATURE_WAKEUP,
                           .mt_workers_shared = 1};
    ucs_status_t got = process.ucx.ucp_config_read(NULL, NULL, &config);
    if (got != UCS_OK)
        return say("its settings", got);
    sl_status status = configure(config, interface);
    if (status == SL_OK) {
        got = process.ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &wanted, config, context);
        if (got != UCS_OK)
            status = say("no context", got);
    }
    process.ucx.ucp_config_release(config);
    return status;
}

/* Creating a context loads the modules, which takes long the first time: better here than while rails are
 * alive. */
static sl_status load(void) {
    ucp_context_h attempt;
    if (process.loaded)
        return SL_OK;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return sl_error(SL_ESYS, "UCX is not installed here: %s", dlerror());
    SL_TRY(find_calls(library));
    quieten(library);
    SL_TRY(make_context(0, &attempt));
    process.ucx.ucp_cleanup(attempt);
    process.loaded = 1;
    return SL_OK;
}

static sl_status obtain(unsigned interface, sl_ucx_context **context) {
    SL_TRY(load());
    for (*context = process.first; *context; *context = (*context)->next)
        if ((*context)->interface == interface) {
            (*context)->users++;
            return SL_OK;
        }
    SL_TRY(sl_alloc(context, 1, sizeof **context));
    sl_ucx_context *made = *context;
    sl_status status = make_context(interface, &made->context);
    if (status != SL_OK) {
        sl_free(made);
        *context = NULL;
        return status;
    }
    made->ucx = &process.ucx;
    made->interface = interface;
    made->users = 1;
    made->next = process.first;
    process.first = made;
    return SL_OK;
}

sl_status sl_ucx_load(const sl_ucx **ucx) {
    pthread_mutex_lock(&process.mutex);
    sl_status status = load();
    pthread_mutex_unlock(&process.mutex);
    *ucx = &process.ucx;
    return status;
}

sl_status sl_ucx_obtain(unsigned interface, sl_ucx_context **context) {
    pthread_mutex_lock(&process.mutex);
    sl_status status = obtain(interface, context);
    pthread_mutex_unlock(&process.mutex);
    return status;
}

void sl_ucx_release(sl_ucx_context *context) {
    pthread_mutex_lock(&process.mutex);
    if (--context->users == 0) {
        sl_ucx_context **at = &process.first;
        while (*at != context)
            at = &(*at)->next;
        *at = context->next;
        context->ucx->ucp_cleanup(context->context);
        sl_free(context);
    }
    pthread_mutex_unlock(&process.mutex);
}
#else
typedef int sl_ucx_is_absent; /* a file of C holds something */
#endif
