/* Work divided among the threads of a device: libgomp's, which oneDNN also uses. Called by their own names
 * and not by a pragma, because clang's would start a second pool of another library.
 *
 * A result never depends on the number of threads: rows, blocks of fixed size or heads are divided, and each
 * of them is computed by one thread in one order. */
#pragma once

#include <stddef.h>

/** Calls work(object, thread, threads) once for each thread 0..threads-1, at the same time; returns after all
 * of them. The calling thread is one of them. threads >= 1. */
void sl_threads_run(int threads, void (*work)(void *object, int thread, int threads), void *object);

/** Items [*first, *end) of `items` that belong to a thread: as even as possible, in multiples of `unit`. */
void sl_threads_share(size_t items, size_t unit, int thread, int threads, size_t *first, size_t *end);
