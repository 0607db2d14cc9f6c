/* The fuzzer. Built with clang, libFuzzer and the address and undefined-behaviour sanitizers:
 *
 *   tools/build build-fuzz -DCMAKE_C_COMPILER=clang -DSL_FUZZ=ON -- fuzz
 *   build-fuzz/tests/fuzz --list               the readers, each with the functions of the tree that it calls
 *   build-fuzz/tests/fuzz NAME --examples DIR  writes the reader's examples, and a dictionary to DIR.words
 *   build-fuzz/tests/fuzz NAME [-max_total_time=60]... [DIR]
 *
 * bench/fuzz/run.py runs all of them. */
#include "fuzz.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const fuzz_reader *reader;

static void list(void) {
    for (int i = 0; fuzz_table(i); i++)
        for (const fuzz_reader *r = fuzz_table(i); r->name; r++)
            printf("%s: %s\n", r->name, r->functions);
}

static void keep(void *folder, const char *name, const uint8_t *data, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", (const char *)folder, name);
    FILE *file = fopen(path, "we");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        exit(2);
}

static void write_examples(char *folder) {
    char path[4096], words[4096], *save;
    mkdir(folder, 0777);
    fuzz_examples(reader, keep, folder);
    snprintf(path, sizeof path, "%s.words", folder);
    FILE *file = fopen(path, "we");
    if (!file)
        exit(2);
    snprintf(words, sizeof words, "%s", reader->words ? reader->words : "");
    for (char *one = strtok_r(words, " ", &save); one; one = strtok_r(NULL, " ", &save))
        fprintf(file, "\"%s\"\n", one);
    fclose(file);
}

int LLVMFuzzerInitialize(int *count, char ***words) {
    if (*count > 1 && strcmp((*words)[1], "--list") == 0) {
        list();
        exit(0);
    }
    reader = *count > 1 ? fuzz_find((*words)[1]) : NULL;
    if (!reader) {
        fprintf(stderr, "fuzz: the first argument is a reader of --list\n");
        exit(2);
    }
    if (*count > 3 && strcmp((*words)[2], "--examples") == 0) {
        write_examples((*words)[3]);
        exit(0);
    }
    signal(SIGPIPE, SIG_IGN);
    (*words)[1] = (*words)[0];
    ++*words;
    --*count;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    reader->read(data, size);
    return 0;
}
