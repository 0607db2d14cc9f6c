/* Readers of outside bytes, as targets of a fuzzer: a table of them per file, which says how each is given
 * bytes. A reader calls the tree's own functions; what it accepts must hold, or it aborts.
 *
 * Two programs have all tables: fuzz (fuzz.c), built with clang and -DSL_FUZZ=ON, mutates its inputs guided
 * by coverage, and fuzz_replay (replay.c), part of every build, reads the examples and some random changes of
 * them. tests/fuzz/test_readers.py complains about a reader of the tree that no table has. */
#ifndef SL_TESTS_FUZZ_H
#define SL_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct fuzz_reader {
    const char *name;
    const char *functions; /* of the tree that read here, separated by blanks */
    const char *files;     /* examples: patterns of paths in the source tree, separated by blanks; NULL */
    /* Writes example `number`; 0: there are no more. NULL: none but files. */
    int (*example)(int number, FILE *out);
    const char *words; /* for the mutations, separated by blanks; NULL */
    /* 1: it was accepted, at least in part. Each reader accepts one example or more. */
    int (*read)(const uint8_t *data, size_t size);
} fuzz_reader;

/* The tables, each ended by a reader without a name. */
extern const fuzz_reader fuzz_wire[], fuzz_store[], fuzz_http[], fuzz_control[], fuzz_validate[], fuzz_talk[],
    fuzz_node[], fuzz_shared[], fuzz_plans[], fuzz_orchestrator[], fuzz_job_trace[], fuzz_folders[],
    fuzz_launch[], fuzz_hang[];

/** A table by its number; NULL: there are no more. */
const fuzz_reader *fuzz_table(int number);
const fuzz_reader *fuzz_find(const char *name);

/** Calls `take` with every example of a reader: its bytes and a name. */
void fuzz_examples(const fuzz_reader *reader,
                   void (*take)(void *object, const char *name, const uint8_t *data, size_t size),
                   void *object);

/* ---- for the readers ---- */

/** A copy with a zero behind it, so that a read beyond its end is seen. Free with free. */
char *fuzz_text(const uint8_t *data, size_t size);
/** A file in memory of these bytes; its path. Close what is returned. */
int fuzz_file(const uint8_t *data, size_t size, char path[64]);
/** An unsigned number of `bytes` bytes off the front; missing bytes are 0. */
uint64_t fuzz_take(const uint8_t **data, size_t *size, int bytes);
/** Makes a folder in memory, once: its name, in `folder`, which begins empty. */
const char *fuzz_place(char folder[64]);
/** Writes all of `text`. */
int fuzz_say(FILE *out, const char *text);

/** Aborts with a sentence. */
#define fuzz_must(what)                                                                                      \
    do {                                                                                                     \
        if (!(what)) {                                                                                       \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);                        \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

#endif
