#include "adapt/topology/topology_hosts.h"
#include "base/memory.h"
#include "choose/model/devices.h"
#include "plan/pipeline/problem_read.h"

/* Takes over names and links of `hosts`. */
static sl_status take(sl_cluster_hosts *hosts, const sl_device_rates *rates, sl_devices *d) {
    SL_TRY(sl_alloc(&d->device, (size_t)hosts->devices, sizeof *d->device));
    SL_TRY(sl_alloc(&d->name, (size_t)hosts->count, sizeof *d->name));
    d->count = hosts->devices;
    d->hosts = hosts->count;
    for (int h = 0; h < hosts->count; h++) {
        sl_cluster_host *host = &hosts->host[h];
        double memory_gb = host->memory_gb > 0 ? host->memory_gb : rates->memory_gb;
        for (int i = 0; i < host->devices; i++)
            d->device[host->first + i] =
                (sl_cluster_device){.host = h, .speed = host->speed, .memory = memory_gb * 1e9};
        d->name[h] = host->name;
        host->name = NULL;
    }
    d->latency = hosts->latency;
    d->pace = hosts->pace;
    hosts->latency = hosts->pace = NULL;
    d->flops_per_s = rates->tflops * rates->efficiency * 1e12;
    d->bytes_per_s = rates->memory_gb_per_s * 1e9;
    d->overhead_s = rates->overhead_us * 1e-6;
    d->host_memory = rates->host_memory_gb * 1e9;
    d->host_pace =
        rates->host_gb_per_s > 0 ? 1 / rates->host_gb_per_s : 0; /* s per 1e9 bytes are ns per byte */
    d->host_bytes_per_s =
        (rates->host_memory_gb_per_s > 0 ? rates->host_memory_gb_per_s : rates->host_gb_per_s) * 1e9;
    return SL_OK;
}

static sl_status read_communication(const sl_yaml *node, sl_devices_communication *c) {
    sl_problem p = {0};
    if (!node)
        return SL_OK;
    const sl_yaml *memory = sl_yaml_find(node, "receive_memory");
    if (memory)
        return sl_yaml_error(memory, "is for problem files; choose does not count receive buffers");
    SL_TRY(sl_read_communication(node, &p));
    *c = (sl_devices_communication){.given = 1,
                                    .regime = p.communication,
                                    .communicators =
                                        sl_yaml_find(node, "communicators") ? (int)p.communicators : -1,
                                    .eager = p.eager,
                                    .receive_buffers = p.receive_buffers};
    return SL_OK;
}

sl_status sl_devices_read(const sl_document *document, sl_devices *devices) {
    sl_cluster_hosts hosts;
    sl_device_rates rates;
    *devices = (sl_devices){0};
    sl_status status = sl_cluster_hosts_read_file(document, &hosts, &rates);
    SL_THEN(status, take(&hosts, &rates, devices));
    SL_THEN(status,
            read_communication(sl_yaml_find(document->root, "communication"), &devices->communication));
    sl_cluster_hosts_free(&hosts);
    return status;
}

void sl_devices_free(sl_devices *d) {
    for (int h = 0; h < d->hosts; h++)
        sl_free(d->name[h]);
    SL_FREE(d->device, d->name, d->latency, d->pace);
    *d = (sl_devices){0};
}

void sl_devices_group(const sl_devices *d, const int *member, int count, double *latency, double *pace) {
    *latency = *pace = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++) {
            size_t link =
                (size_t)d->device[member[i]].host * (size_t)d->hosts + (size_t)d->device[member[k]].host;
            if (i == k)
                continue;
            *latency = d->latency[link] > *latency ? d->latency[link] : *latency;
            *pace = d->pace[link] > *pace ? d->pace[link] : *pace;
        }
}
