/* The hosts of a cluster file: their names, speeds, devices and links. The one reader of these keys:
 * `topology` gives every device a position (topology_read.c), `choose` works by hosts
 * (choose/model/devices.h). */
#pragma once

#include "adapt/topology/topology.h"
#include "base/config.h"

/* `device:`, rates of a device of speed 1, in the units of its keys. */
typedef struct sl_device_rates {
    double tflops, efficiency, memory_gb_per_s, memory_gb, overhead_us, host_memory_gb, host_gb_per_s,
        host_memory_gb_per_s;
} sl_device_rates;

typedef struct sl_cluster_host {
    char *name;
    double speed, memory_gb; /* of each device, as given for the host; 0: not given */
    int first, devices;      /* devices first .. first + devices - 1 of the cluster */
} sl_cluster_host;

typedef struct sl_cluster_hosts {
    int count, devices; /* hosts; devices of all of them */
    sl_cluster_host *host;
    size_t capacity;
    double *latency; /* [from * count + to] ns; from equals to: between devices of a host */
    double *pace;    /* likewise, ns per byte */
} sl_cluster_hosts;

#define SL_MAX_HOST_DEVICES 1024
#define SL_MAX_CLUSTER_DEVICES 65536

/** `hosts:` of a cluster file with `positions` devices; 0: any number, up to SL_MAX_CLUSTER hosts. Free with
 * sl_cluster_hosts_free, also on error. SL_EINVAL names file, line and key. */
sl_status sl_cluster_hosts_read(const sl_yaml *list, int positions, sl_cluster_hosts *hosts);
/** `links:`, after the hosts. */
sl_status sl_cluster_links_read(const sl_yaml *map, sl_cluster_hosts *hosts);
/** `device:`. */
sl_status sl_device_rates_read(const sl_yaml *map, sl_device_rates *rates);
void sl_cluster_hosts_free(sl_cluster_hosts *hosts);

/** The devices that a list of names gives in order, device[hosts->devices]: a host of one device, one device
 * of a host (node0/3), or all devices of a host; ranges of each. SL_EINVAL: unknown, twice. */
sl_status sl_cluster_hosts_devices(const sl_cluster_hosts *hosts, const sl_yaml *list, int *device,
                                   int *count);
/** Name of a device: node0, or node0/3 if its host has several. Free with sl_free. */
sl_status sl_cluster_hosts_name(const sl_cluster_hosts *hosts, int device, char **name);
/** The host of a device. Never fails. */
int sl_cluster_hosts_of(const sl_cluster_hosts *hosts, int device);

extern const sl_key sl_cluster_host_keys[], sl_cluster_links_keys[], sl_device_rate_keys[];

/** Hosts, links and rates of a whole cluster file whose other keys, which only `topology` needs, may be
 * there. `device` must be. (topology_read.c, which knows all keys.) */
sl_status sl_cluster_hosts_read_file(const sl_document *document, sl_cluster_hosts *hosts,
                                     sl_device_rates *rates);
