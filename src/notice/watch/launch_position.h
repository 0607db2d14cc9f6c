/* Where in a job this process stands, as its launcher's environment says, and the folder of its node.
 *
 * `slackline watch -- mpirun ...` stands outside: one process, one node, whatever it starts is its own.
 * `mpirun ... slackline watch -- PROGRAM`, srun and torchrun start one a rank: inside. Then the ranks of a
 * node share a folder, and one of them is the node's agent. */
#pragma once

#include <stddef.h>

typedef struct sl_launch_position {
    char job[80];   /* name of the job, alike on all of its nodes */
    char local[16]; /* what else tells two jobs of a node apart, for the folder; mostly "" */
    char node[64];  /* host name and network namespace: unlike every other node of the job */
    int inside;     /* a launcher started this as one of its ranks */
    int rank, size; /* of the job; 0, 1 outside */
    int local_rank; /* on the node; -1: not known */
    int several;    /* the job has other nodes */
    int again;      /* its launcher has started it anew, after a failure */
} sl_launch_position;

/** `directory` is the job's, for launchers that give a job no name. Never fails. */
void sl_launch_position_find(const char *directory, sl_launch_position *place);

/** Name of the node's folder, as sl_launch_directory_join wants it, in text[size]. */
void sl_launch_position_folder(const sl_launch_position *place, char *text, size_t size);
