/* Obstacles to the probe in a program, from the file's first bytes and its mode. */
#include "base/find.h"
#include "notice/watch/watched_program.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { DEEPEST = 4 }; /* interpreters of interpreters */

/* The file that would be run for `name`: the command line is the user's, so the search is that of their
 * shell. */
static int find(const char *name, char *path) {
    return sl_find_program(name, SL_FIND_AS_SHELL, path);
}

/* Whether a 64-bit ELF file has a program interpreter: the loader that preloads. */
static int is_dynamic(int file, const Elf64_Ehdr *head) {
    Elf64_Phdr part;
    for (int i = 0; i < head->e_phnum; i++) {
        off_t at = (off_t)(head->e_phoff + (Elf64_Off)i * head->e_phentsize);
        if (pread(file, &part, sizeof part, at) == (ssize_t)sizeof part && part.p_type == PT_INTERP)
            return 1;
    }
    return 0;
}

/* The loader of a program with more rights than its caller ignores libraries preloaded from elsewhere. */
static int has_more_rights(int file) {
    struct stat found;
    char capability[64];
    if (fstat(file, &found) != 0)
        return 0;
    return ((found.st_mode & S_ISUID) && found.st_uid != getuid()) ||
           ((found.st_mode & S_ISGID) && (found.st_mode & S_IXGRP) && found.st_gid != getgid()) ||
           (getuid() != 0 && fgetxattr(file, "security.capability", capability, sizeof capability) > 0);
}

static const char *look_at_elf(int file) {
    Elf64_Ehdr head;
    if (has_more_rights(file))
        return "runs with other rights than yours (set-uid, set-gid or capabilities)";
    if (pread(file, &head, sizeof head, 0) != (ssize_t)sizeof head)
        return NULL;
    if (head.e_ident[EI_CLASS] != ELFCLASS64)
        return "is a 32-bit program";
    return is_dynamic(file, &head) ? NULL : "is linked statically";
}

/* The interpreter in the first line of a script, in path[PATH_MAX]; `/usr/bin/env NAME` is looked through. */
static int interpreter_of(int file, char *path) {
    char line[512], *save;
    ssize_t size = pread(file, line, sizeof line - 1, 0);
    if (size < 3 || strncmp(line, "#!", 2) != 0)
        return 0;
    line[size] = 0;
    line[strcspn(line, "\n")] = 0;
    char *name = strtok_r(line + 2, " \t", &save), *next = name ? strtok_r(NULL, " \t", &save) : NULL;
    const char *last = name ? strrchr(name, '/') : NULL;
    if (name && last && strcmp(last, "/env") == 0 && next && next[0] != '-')
        name = next;
    return name && find(name, path);
}

/* The obstacle to the probe in the file at `path`, NULL: none visible. */
static const char *look_at(char path[PATH_MAX], int deep) {
    char magic[4];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    const char *found = NULL;
    int script = 0;
    if (pread(file, magic, sizeof magic, 0) == (ssize_t)sizeof magic && memcmp(magic, ELFMAG, SELFMAG) == 0)
        found = look_at_elf(file);
    else
        script = deep < DEEPEST && interpreter_of(file, path);
    close(file);
    return script ? look_at(path, deep + 1) : found;
}

static int is_launcher(const char *command) {
    static const char *const names[] = {"mpirun", "mpiexec", "orterun", "prterun", "srun"};
    const char *slash = strrchr(command, '/'), *name = slash ? slash + 1 : command;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(name, names[i], length) == 0 && (name[length] == 0 || name[length] == '.'))
            return 1;
    }
    return 0;
}

int sl_program_word(char *const *command) {
    char path[PATH_MAX];
    int which = 1;
    if (!is_launcher(command[0]))
        return 0;
    while (command[which] && (command[which][0] == '-' || !find(command[which], path)))
        which++;
    return command[which] ? which : 0;
}

void sl_program_examine(char *const *command, char *text, size_t size) {
    char path[PATH_MAX];
    int which = sl_program_word(command);
    const char *why = find(command[0], path) ? look_at(path, 0) : NULL;
    if (why)
        which = 0;
    else if (which > 0 && find(command[which], path))
        why = look_at(path, 0);
    text[0] = 0;
    if (why)
        snprintf(text, size, "%s %s", command[which], why);
}
