/* All tables of readers, and what readers share. */
#include "fuzz.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const fuzz_reader *fuzz_table(int number) {
    const fuzz_reader *const all[] = {
        fuzz_wire,   fuzz_store, fuzz_http,         fuzz_control,   fuzz_validate, fuzz_talk,   fuzz_node,
        fuzz_shared, fuzz_plans, fuzz_orchestrator, fuzz_job_trace, fuzz_folders,  fuzz_launch, fuzz_hang};
    return number < (int)(sizeof all / sizeof *all) ? all[number] : NULL;
}

const fuzz_reader *fuzz_find(const char *name) {
    for (int i = 0; fuzz_table(i); i++)
        for (const fuzz_reader *r = fuzz_table(i); r->name; r++)
            if (strcmp(r->name, name) == 0)
                return r;
    return NULL;
}

static void take_file(const char *path, void (*take)(void *, const char *, const uint8_t *, size_t),
                      void *object) {
    FILE *file = fopen(path, "re");
    uint8_t *bytes = malloc(1 << 20);
    if (!file || !bytes)
        abort();
    size_t size = fread(bytes, 1, 1 << 20, file);
    take(object, strrchr(path, '/') + 1, bytes, size);
    fclose(file);
    free(bytes);
}

void fuzz_examples(const fuzz_reader *reader,
                   void (*take)(void *object, const char *name, const uint8_t *data, size_t size),
                   void *object) {
    char patterns[1024] = "", *save;
    snprintf(patterns, sizeof patterns, "%s", reader->files ? reader->files : "");
    for (char *one = strtok_r(patterns, " ", &save); one; one = strtok_r(NULL, " ", &save)) {
        char pattern[2048];
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/%s", SL_SOURCE, one);
        if (glob(pattern, 0, NULL, &found) != 0) {
            fprintf(stderr, "%s: no file %s\n", reader->name, pattern);
            abort();
        }
        for (size_t i = 0; i < found.gl_pathc; i++)
            take_file(found.gl_pathv[i], take, object);
        globfree(&found);
    }
    for (int number = 0, more = reader->example != NULL; more; number++) {
        char name[32], *bytes = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&bytes, &size);
        more = reader->example(number, out);
        fclose(out);
        snprintf(name, sizeof name, "example-%d", number);
        if (more)
            take(object, name, (const uint8_t *)bytes, size);
        free(bytes);
    }
}

char *fuzz_text(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text)
        abort();
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    return text;
}

int fuzz_file(const uint8_t *data, size_t size, char path[64]) {
    int file = memfd_create("bytes", MFD_CLOEXEC);
    snprintf(path, 64, "/proc/self/fd/%d", file);
    if (file < 0 || write(file, data, size) != (ssize_t)size || lseek(file, 0, SEEK_SET) != 0)
        abort();
    return file;
}

uint64_t fuzz_take(const uint8_t **data, size_t *size, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i<bytes && * size> 0; i++, ++*data, --*size)
        value |= (uint64_t) * *data << 8 * i;
    return value;
}

int fuzz_say(FILE *out, const char *text) {
    fputs(text, out);
    return 1;
}

const char *fuzz_place(char folder[64]) {
    if (!folder[0]) {
        snprintf(folder, 64, "/dev/shm/slackline-fuzz-XXXXXX");
        fuzz_must(mkdtemp(folder));
    }
    return folder;
}
