/* The frames of a CPython interpreter, read from outside (process_vm_readv) as debuggers do. Its structures
 * differ between versions; a version without a row in `layouts` has no frames here. The process may change
 * them meanwhile: every read may fail, every chain has an end, and what was read is only text. */
#include "notice/hang/sample.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAX_THREADS = 4096, MAX_FRAMES = 64, MAX_TEXT = 512, MAX_LINES = 1 << 16, SHOWN = 6 };

#define NO_CFRAME UINT16_MAX /* the thread points at its frame itself */
#define OWNED_BY_C 3         /* a frame of the interpreter, without code */

/* Offsets in bytes; names as in CPython's headers. */
typedef struct python_layout {
    uint32_t version; /* major << 8 | minor */
    uint16_t interpreters, threads, thread_next, thread_cframe, thread_id, cframe_frame;
    uint16_t frame_code, frame_previous, frame_instruction, frame_owner;
    uint16_t code_file, code_name, code_first_line, code_lines, code_bytes;
    uint16_t text_length, text_state, text_bytes, bytes_size, bytes_value;
} python_layout;

static const python_layout layouts[] = {
    {.version = 0x030b,
     .interpreters = 40,
     .threads = 16,
     .thread_next = 8,
     .thread_cframe = 56,
     .thread_id = 160,
     .cframe_frame = 8,
     .frame_code = 32,
     .frame_previous = 48,
     .frame_instruction = 56,
     .frame_owner = 69,
     .code_file = 112,
     .code_name = 128,
     .code_first_line = 72,
     .code_lines = 136,
     .code_bytes = 184,
     .text_length = 16,
     .text_state = 32,
     .text_bytes = 48,
     .bytes_size = 16,
     .bytes_value = 32},
    {.version = 0x030c,
     .interpreters = 40,
     .threads = 72,
     .thread_next = 8,
     .thread_cframe = 56,
     .thread_id = 144,
     .cframe_frame = 0,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 70,
     .code_file = 112,
     .code_name = 128,
     .code_first_line = 68,
     .code_lines = 136,
     .code_bytes = 192,
     .text_length = 16,
     .text_state = 32,
     .text_bytes = 40,
     .bytes_size = 16,
     .bytes_value = 32},
    {.version = 0x030d,
     .interpreters = 632,
     .threads = 7344,
     .thread_next = 8,
     .thread_cframe = 72,
     .thread_id = 160,
     .cframe_frame = NO_CFRAME,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 70,
     .code_file = 112,
     .code_name = 128,
     .code_first_line = 68,
     .code_lines = 136,
     .code_bytes = 200,
     .text_length = 16,
     .text_state = 32,
     .text_bytes = 40,
     .bytes_size = 16,
     .bytes_value = 32},
};

static int read_memory(int pid, uint64_t at, void *to, size_t size) {
    struct iovec here = {to, size}, there = {(void *)(uintptr_t)at, size};
    return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)size;
}

static uint64_t pointer_at(int pid, uint64_t at) {
    uint64_t value = 0;
    return at && read_memory(pid, at, &value, sizeof value) ? value : 0;
}

/* ---- the interpreter in the process ---- */

/* Values of two dynamic symbols of an ELF file in memory; 0: it has none of that name. */
static void find_symbols(const unsigned char *file, size_t size, uint64_t *runtime, uint64_t *version) {
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)file;
    if (size < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_shentsize != sizeof(Elf64_Shdr) ||
        head->e_shoff > size || (size - head->e_shoff) / sizeof(Elf64_Shdr) < head->e_shnum)
        return;
    const Elf64_Shdr *section = (const Elf64_Shdr *)(const void *)(file + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++) {
        if (section[i].sh_type != SHT_DYNSYM || section[i].sh_link >= head->e_shnum)
            continue;
        const Elf64_Shdr *texts = &section[section[i].sh_link];
        if (section[i].sh_offset > size || section[i].sh_size > size - section[i].sh_offset ||
            texts->sh_offset > size || texts->sh_size > size - texts->sh_offset)
            return;
        const Elf64_Sym *symbol = (const Elf64_Sym *)(const void *)(file + section[i].sh_offset);
        const char *text = (const char *)file + texts->sh_offset;
        for (size_t k = 0; k < section[i].sh_size / sizeof *symbol; k++) {
            size_t left = symbol[k].st_name < texts->sh_size ? texts->sh_size - symbol[k].st_name : 0;
            if (left > 10 && strncmp(text + symbol[k].st_name, "_PyRuntime", left) == 0)
                *runtime = symbol[k].st_value;
            if (left > 10 && strncmp(text + symbol[k].st_name, "Py_Version", left) == 0)
                *version = symbol[k].st_value;
        }
    }
}

/* The first segment's address: 0 for a library and a position-independent program. */
static uint64_t lowest_address(const unsigned char *file, size_t size) {
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)file;
    uint64_t lowest = UINT64_MAX;
    if (size < sizeof *head || head->e_phoff > size ||
        (size - head->e_phoff) / sizeof(Elf64_Phdr) < head->e_phnum)
        return 0;
    const Elf64_Phdr *part = (const Elf64_Phdr *)(const void *)(file + head->e_phoff);
    for (int i = 0; i < head->e_phnum; i++)
        if (part[i].p_type == PT_LOAD && part[i].p_vaddr < lowest)
            lowest = part[i].p_vaddr;
    return lowest == UINT64_MAX ? 0 : lowest & ~UINT64_C(4095);
}

static int look_in_file(int pid, const char *path, uint64_t base, uint64_t *runtime, uint64_t *version) {
    char full[4200];
    struct stat about;
    uint64_t at = 0, version_at = 0;
    snprintf(full, sizeof full, "/proc/%d/root%s", pid, path); /* of a container, too */
    int file = open(full, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    void *bytes = fstat(file, &about) == 0 && about.st_size > 0
                      ? mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0)
                      : MAP_FAILED;
    close(file);
    if (bytes == MAP_FAILED)
        return 0;
    find_symbols(bytes, (size_t)about.st_size, &at, &version_at);
    base -= lowest_address(bytes, (size_t)about.st_size);
    munmap(bytes, (size_t)about.st_size);
    if (!at || !version_at)
        return 0;
    *runtime = base + at;
    *version = pointer_at(pid, base + version_at);
    return *version != 0;
}

/* The program or library with the interpreter; both may be called python3 in their paths. */
static const python_layout *find_interpreter(int pid, uint64_t *runtime) {
    char name[32], line[4200];
    uint64_t version = 0;
    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    FILE *maps = fopen(name, "re");
    while (maps && !version && fgets(line, sizeof line, maps)) {
        unsigned long long start, offset;
        int path_at = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%llx-%*x %*s %llx %*s %*s %n", &start, &offset, &path_at) < 2 || offset != 0 ||
            path_at == 0 || line[path_at] != '/')
            continue;
        const char *last = strrchr(line, '/');
        if (strstr(last, "python"))
            (void)look_in_file(pid, line + path_at, start, runtime, &version);
    }
    if (maps)
        fclose(maps);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (version >> 16 == layouts[i].version)
            return &layouts[i];
    return NULL;
}

/* ---- frames ---- */

/* A text of the interpreter, as far as it is ASCII. */
static void read_text(int pid, const python_layout *l, uint64_t at, char *text, size_t size) {
    uint32_t state = 0;
    uint64_t length = pointer_at(pid, at + l->text_length);
    text[0] = 0;
    if (!at || !read_memory(pid, at + l->text_state, &state, sizeof state) || (state & 0x60) != 0x60)
        return; /* compact and ASCII */
    uint64_t kept = length < size ? length : size - 1;
    if (!read_memory(pid, at + l->text_bytes + (length - kept), text, kept)) /* the end of a path says more */
        kept = 0;
    text[kept] = 0;
}

/* One number of the location table: six bits a byte, the lowest first. */
static unsigned number(const unsigned char *table, size_t size, size_t *at) {
    unsigned value = 0, shift = 0;
    while (*at < size && shift < 30) {
        unsigned char byte = table[(*at)++];
        value |= (unsigned)(byte & 63) << shift;
        shift += 6;
        if (!(byte & 64))
            break;
    }
    return value;
}

/* The line of the instruction `wanted` (in units of two bytes), by the location table of PEP 626 as CPython
 * 3.11 writes it (Objects/locations.md). */
static int line_of(const unsigned char *table, size_t size, int line, int wanted) {
    int unit = 0;
    for (size_t at = 0; at < size;) {
        unsigned char head = table[at++];
        int code = head >> 3 & 15, units = (head & 7) + 1, has_line = 1;
        if (code == 13 || code == 14) {
            unsigned raw = number(table, size, &at);
            line += raw & 1 ? -(int)(raw >> 1) : (int)(raw >> 1);
        } else if (code >= 10 && code <= 12) {
            line += code - 10;
        } else if (code == 15) {
            has_line = 0;
        }
        unit += units;
        if (wanted < unit)
            return has_line ? line : -1;
        while (at < size && !(table[at] & 128))
            at++;
    }
    return -1;
}

static int read_line(int pid, const python_layout *l, uint64_t code, uint64_t instruction) {
    static const int none = -1;
    int32_t first = 0;
    uint64_t table = pointer_at(pid, code + l->code_lines);
    uint64_t size = table ? pointer_at(pid, table + l->bytes_size) : 0;
    if (!read_memory(pid, code + l->code_first_line, &first, sizeof first) || size == 0 || size > MAX_LINES ||
        instruction < code + l->code_bytes)
        return none;
    unsigned char *bytes = malloc(size);
    int line = none;
    if (bytes && read_memory(pid, table + l->bytes_value, bytes, size))
        line = line_of(bytes, size, first, (int)((instruction - code - l->code_bytes) / 2));
    free(bytes);
    return line;
}

/* Frames between the program's and the library's, which say nothing: the wrappers of slackline and PyTorch.
 */
static int is_between(const char *file) {
    static const char *const ends[] = {"slackline/seen/gloo.py", "torch/distributed/c10d_logger.py"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t length = strlen(file), size = strlen(ends[i]);
        if (length >= size && strcmp(file + length - size, ends[i]) == 0)
            return 1;
    }
    return 0;
}

/* Appends one frame; 0: there is no more room. */
static int add_frame(int pid, const python_layout *l, uint64_t frame, char *text, size_t size) {
    char file[MAX_TEXT], name[MAX_TEXT];
    unsigned char owner = OWNED_BY_C;
    if (!read_memory(pid, frame + l->frame_owner, &owner, 1) || owner >= OWNED_BY_C)
        return 1;
    uint64_t code = pointer_at(pid, frame + l->frame_code);
    read_text(pid, l, pointer_at(pid, code + l->code_name), name, 64);
    read_text(pid, l, pointer_at(pid, code + l->code_file), file, sizeof file);
    if (!name[0] || is_between(file))
        return 1;
    const char *last = strrchr(file, '/');
    size_t used = strlen(text);
    int line = read_line(pid, l, code, pointer_at(pid, frame + l->frame_instruction));
    int written = snprintf(text + used, size - used, "%s%s (%s:%d)", used ? " < " : "", name,
                           last ? last + 1 : file, line);
    if (written >= (int)(size - used))
        text[used] = 0;
    return written < (int)(size - used);
}

static int frames_of(int pid, const python_layout *l, uint64_t thread, char *text, size_t size) {
    uint64_t frame = pointer_at(pid, thread + l->thread_cframe);
    if (frame && l->cframe_frame != NO_CFRAME)
        frame = pointer_at(pid, frame + l->cframe_frame);
    int shown = 0;
    text[0] = 0;
    for (int i = 0; frame && i < MAX_FRAMES && shown < SHOWN; i++) {
        if (!add_frame(pid, l, frame, text, size))
            break;
        shown += text[0] != 0;
        frame = pointer_at(pid, frame + l->frame_previous);
    }
    return text[0] != 0;
}

int sl_hang_python_frames(int pid, int tid, char *text, size_t size) {
    uint64_t runtime = 0;
    const python_layout *l = find_interpreter(pid, &runtime);
    text[0] = 0;
    if (!l)
        return 0;
    uint64_t thread = pointer_at(pid, pointer_at(pid, runtime + l->interpreters) + l->threads);
    for (int i = 0; thread && i < MAX_THREADS; i++, thread = pointer_at(pid, thread + l->thread_next))
        if (pointer_at(pid, thread + l->thread_id) == (uint64_t)tid)
            return frames_of(pid, l, thread, text, size);
    return 0;
}
