/* The position of this process in a job, from its launcher's environment, and the folder of its node.
 *
 * `slackline watch -- mpirun ...` is outside: one process, one node, and everything it starts is its own.
 * `mpirun ... slackline watch -- PROGRAM`, srun and torchrun start one per rank: inside. Then the ranks of a
 * node share a folder, and one of them is the node's agent. */
#pragma once

#include <stddef.h>

typedef struct sl_launch_position {
    char job[80];   /* name of the job, equal on all its nodes */
    char local[16]; /* distinguishes two jobs on one node in the name of the folder; usually "" */
    char node[64];  /* host name and network namespace: unique in the job */
    int inside;     /* a launcher started this as one of its ranks */
    int rank, size; /* of the job; 0, 1 outside */
    int local_rank; /* on the node; -1: unknown */
    int several;    /* the job has other nodes */
    int again;      /* its launcher has restarted it after a failure */
} sl_launch_position;

/** `directory` is the job's, for launchers without job names. Never fails. */
void sl_launch_position_find(const char *directory, sl_launch_position *position);

/** Name of the node's folder, as sl_launch_directory_join expects it, in text[size]. */
void sl_launch_position_folder(const sl_launch_position *position, char *text, size_t size);
