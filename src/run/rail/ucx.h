/* UCX: libucp, loaded when the first such rail is opened, so that programs without such rails do not load it
 * (it starts threads and handles signals); and its contexts, one per network interface, shared by all lines
 * of the process. Only if built with UCX (SL_UCX). */
#pragma once

#include "base/status.h"
#include <ucp/api/ucp.h>

/* The functions of libucp that are used. */
/* clang-format off */
#define SL_UCX_CALLS(X) \
    X(ucp_config_read) X(ucp_config_modify) X(ucp_config_release) X(ucp_init_version) X(ucp_cleanup) \
    X(ucp_worker_create) X(ucp_worker_destroy) X(ucp_worker_get_address) X(ucp_worker_release_address) \
    X(ucp_worker_get_efd) X(ucp_worker_arm) X(ucp_worker_progress) X(ucp_ep_create) X(ucp_ep_close_nbx) \
    X(ucp_stream_send_nbx) X(ucp_stream_recv_data_nb) X(ucp_stream_data_release) \
    X(ucp_request_check_status) X(ucp_request_free) X(ucs_status_string)
/* clang-format on */

typedef struct sl_ucx {
#define SL_UCX_FIELD(name) __typeof__(name) *name;
    SL_UCX_CALLS(SL_UCX_FIELD)
#undef SL_UCX_FIELD
} sl_ucx;

typedef struct sl_ucx_context {
    ucp_context_h context;
    const sl_ucx *ucx;
    unsigned interface;
    int users;
    struct sl_ucx_context *next;
} sl_ucx_context;

/** Loads and tests UCX; later calls do nothing. SL_ESYS with UCX's message. Any thread. */
sl_status sl_ucx_load(const sl_ucx **ucx);

/** The context for traffic through `interface` (index; 0: any): its own device and its RDMA ports. Shared
 * memory is excluded because a killed process would leave its files. The variables UCX_NET_DEVICES and
 * UCX_TLS take precedence if set. Any thread; sl_ucx_release gives it back. */
sl_status sl_ucx_obtain(unsigned interface, sl_ucx_context **context);
void sl_ucx_release(sl_ucx_context *context);
