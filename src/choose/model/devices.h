/* The devices of a cluster: where `choose` may put ranks. Read from a cluster file, the same that
 * `topology` reads: hosts and links, with the number, rates and memory of a host's devices. */
#pragma once

#include "base/config.h"
#include "plan/pipeline/problem.h"

/* Devices of the same speed and memory, with equal numbers per host, are of one kind. (sl_device is the
 * trainer's, run/device/device.h.) */
typedef struct sl_cluster_device {
    int host;      /* of the file */
    double speed;  /* 1; 0.5: takes twice as long */
    double memory; /* bytes; 0: unknown, no limit */
} sl_cluster_device;

/* What messages between stages wait for, as in a problem file. */
typedef struct sl_devices_communication {
    int given; /* by the file; otherwise decoupled */
    sl_regime regime;
    int communicators;   /* fifo: sl_communicators; -1: the fewest that are as fast as the most */
    double eager;        /* fifo: bytes */
    int receive_buffers; /* fifo */
} sl_devices_communication;

typedef struct sl_devices {
    int count, hosts;
    sl_cluster_device *device; /* [count] by host, in the file's order */
    char **name;               /* [hosts] */
    double *latency; /* [from host * hosts + to host] ns; from equals to: between devices of a host */
    double *pace;    /* likewise, ns per byte */
    sl_devices_communication communication;
    double flops_per_s, bytes_per_s, overhead_s; /* of a device of speed 1 (sl_work_rates) */
    double host_memory;      /* bytes of host memory for one device's optimizer and activations; 0: none */
    double host_pace;        /* ns per byte to host memory, and as much back */
    double host_bytes_per_s; /* of a processor in host memory, for one device */
} sl_devices;

/** Reads the hosts, links and devices of a cluster file; its other keys, which only `topology` needs, may be
 * there. SL_EINVAL names file, line and key. Free with sl_devices_free, also on error. */
sl_status sl_devices_read(const sl_document *document, sl_devices *devices);
void sl_devices_free(sl_devices *devices);

/** The slowest link among the devices first[0..count-1] (indices into device): the largest latency (ns) and
 * pace (ns per byte) of any ordered pair. Both 0 for one device. Never fails. */
void sl_devices_group(const sl_devices *devices, const int *member, int count, double *latency, double *pace);
