/* What the programs of this folder share: their work, and their command line.
 *
 *   PROGRAM SHAPE MILLISECONDS FILE [burn]     while FILE exists, the ranks of its lines "RANK FACTOR" work
 * FACTOR times as long
 *
 * Work is sleep, or with `burn` a fixed amount of computing. A program ends when it is ended. */
#pragma once

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, size, burns;
static double total, rounds_per_ms; /* total: what keeps results in use */

static double spin(double rounds) {
    double x = 1;
    for (long i = 0; i < (long)rounds; i++)
        x = x * 1.0000001 + 1e-9;
    return x;
}

static double thread_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void compute(double ms) {
    struct timespec time = {.tv_sec = (time_t)(ms / 1e3), .tv_nsec = (long)(ms * 1e6) % 1000000000};
    if (burns)
        total += 1e-30 * spin(ms * rounds_per_ms);
    else
        nanosleep(&time, NULL);
}

/* A step of the program; `ms`: of work. */
typedef struct shape {
    const char *name;
    void (*run)(int step, double ms);
} shape;

static double factor_in(const char *name) {
    double factor = 1, value;
    int who;
    FILE *file = fopen(name, "r");
    while (file && fscanf(file, "%d %lf", &who, &value) == 2)
        factor = who == rank ? value : factor;
    if (file)
        fclose(file);
    return factor;
}

/* After MPI's start; returns only the exit code of a wrong command line. */
static int repeat(int argc, char **argv, const shape *shapes, size_t count) {
    size_t which = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 4 || size < 2 || size > 8)
        return 2;
    while (which < count && strcmp(shapes[which].name, argv[1]) != 0)
        which++;
    if (which == count)
        return 2;
    burns = argc == 5;
    double ms = atof(argv[2]), begun = thread_ms();
    total += 1e-30 * spin(2e7);
    rounds_per_ms = 2e7 / (thread_ms() - begun);
    for (int step = 0;; step++)
        shapes[which].run(step, ms * factor_in(argv[3]));
}
