/* slackline man: manual pages in roff, from the help texts (help.h). */
#include "base/file.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/plan_request.h"
#include "cli/version.h"
#include "plan/draw/page_fill.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 4096 }; /* of a paragraph */

extern const char sl_man_page[]; /* slackline.1, made by the build */

/* ---- roff ---- */

/* As on the terminal: escapes characters that roff would change, and roff's requests at the beginning of a
 * line. */
static void put_letter(FILE *out, char c, int first) {
    static const struct {
        char letter;
        const char *written;
    } special[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"},
                   {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (c == special[i].letter) {
            fputs(special[i].written, out);
            return;
        }
    if (first && c == '.')
        fputs("\\&", out);
    fputc(c, out);
}

static void put_part(FILE *out, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        put_letter(out, text[i], i == 0);
}

static void put_text(FILE *out, const char *text) {
    put_part(out, text, strlen(text));
    fputc('\n', out);
}

/* Whether a text has indented lines: it is shown unchanged. */
static int is_display(const sl_help *help, int block) {
    const sl_help_block *b = &help->block[block];
    int indented = 0;
    for (int i = 0; i < b->count; i++)
        indented |= help->line[b->first + i][0] == ' ';
    return b->kind == SL_HELP_TEXT && indented;
}

static void put_display(FILE *out, const sl_help *help, int block) {
    const sl_help_block *b = &help->block[block];
    fputs(".nf\n", out);
    for (int i = 0; i < b->count; i++)
        put_text(out, help->line[b->first + i]);
    fputs(".fi\n", out);
}

static void put_paragraph(FILE *out, const sl_help *help, int block) {
    char words[WORDS];
    if (is_display(help, block)) {
        put_display(out, help, block);
        return;
    }
    sl_help_words(help, block, words, sizeof words);
    put_text(out, words);
}

static void put_capitals(FILE *out, const char *text) {
    for (; *text; text++)
        put_letter(out, (char)toupper((unsigned char)*text), 0);
}

/* `-o, --output FILE`: literal text in bold, placeholders in italics. */
static void put_head(FILE *out, const char *head, size_t length) {
    for (size_t at = 0; at < length;) {
        size_t size = strcspn(head + at, " ");
        size = at + size > length ? length - at : size;
        fputs(head[at] == '-' || islower((unsigned char)head[at]) ? "\\fB" : "\\fI", out);
        put_part(out, head + at, size);
        fputs("\\fR", out);
        at += size;
        if (at < length)
            fputc(' ', out);
        at += at < length;
    }
    fputc('\n', out);
}

static void put_title(FILE *out, const char *name) {
    fputs(".TH SLACKLINE", out);
    if (*name)
        fputs("\\-", out);
    put_capitals(out, name);
    fprintf(out, " 1 \"%s\" \"slackline %s\" \"User Commands\"\n.nh\n.ad l\n", sl_version_date(), SL_VERSION);
}

/* ---- parts of a page ---- */

/* Does not break lines at blanks within brackets. */
static void put_usage_words(FILE *out, const char *line) {
    int depth = 0;
    for (line += strspn(line, " "); *line; line++) {
        depth += (*line == '[') - (*line == ']');
        if (*line == ' ' && depth > 0)
            fputs("\\ ", out);
        else
            put_letter(out, *line, 0);
    }
    fputc('\n', out);
}

static void put_synopsis(FILE *out, const sl_help *help, const char *name) {
    char start[64];
    int size = snprintf(start, sizeof start, "slackline %s", name), open = 0;
    fputs(".SH SYNOPSIS\n", out);
    for (int i = 0; i < help->blocks; i++)
        for (int l = 0; help->block[i].kind == SL_HELP_USAGE && l < help->block[i].count; l++) {
            const char *line = help->line[help->block[i].first + l];
            line += l == 0 ? strlen("Usage: ") : strspn(line, " ");
            if (strncmp(line, start, (size_t)size) == 0) {
                fprintf(out, "%s.SY slackline\\ ", open ? ".YS\n" : "");
                put_part(out, name, strlen(name));
                fputc('\n', out);
                line += size;
                open = 1;
            }
            if (line[strspn(line, " ")])
                put_usage_words(out, line);
        }
    if (open)
        fputs(".YS\n", out);
}

static int last_option(const sl_help *help) {
    int last = -1;
    for (int i = 0; i < help->blocks; i++)
        if (help->block[i].kind == SL_HELP_OPTION || help->block[i].kind == SL_HELP_VALUE)
            last = i;
    return last;
}

static int first_option(const sl_help *help) {
    for (int i = 0; i < help->blocks; i++)
        if (help->block[i].kind == SL_HELP_OPTION)
            return i;
    return help->blocks;
}

static void put_entry(FILE *out, const sl_help *help, int block) {
    const char *head;
    size_t length = sl_help_head(help, block, &head);
    fputs(".TP\n", out);
    put_head(out, head, length);
    put_paragraph(out, help, block);
}

static void put_values(FILE *out, const sl_help *help, int *block) {
    fputs(".RS\n", out);
    for (; *block < help->blocks && help->block[*block].kind == SL_HELP_VALUE; ++*block) {
        const char *head;
        size_t length = sl_help_head(help, *block, &head);
        fputs(".TP\n\\fB", out);
        put_part(out, head, length);
        fputs("\\fR\n", out);
        put_paragraph(out, help, *block);
    }
    fputs(".RE\n", out);
    --*block;
}

static void put_options(FILE *out, const sl_help *help) {
    int last = last_option(help);
    fputs(".SH OPTIONS\n", out);
    for (int i = first_option(help); i <= last; i++) {
        if (help->block[i].kind == SL_HELP_OPTION)
            put_entry(out, help, i);
        else if (help->block[i].kind == SL_HELP_VALUE)
            put_values(out, help, &i);
        else {
            fputs(".PP\n", out);
            put_paragraph(out, help, i);
        }
    }
    fputs(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nthis in short\n", out);
}

/* Paragraphs of a kind in blocks [from, to), under a heading if given. */
static void put_section(FILE *out, const sl_help *help, const char *heading, sl_help_kind kind, int from,
                        int to) {
    int open = 0;
    for (int i = from; i < to; i++) {
        if (help->block[i].kind != kind)
            continue;
        if (open)
            fputs(".PP\n", out);
        else
            fprintf(out, ".SH %s\n", heading);
        put_paragraph(out, help, i);
        open = 1;
    }
}

static void put_examples(FILE *out, const sl_help *help) {
    fputs(".SH EXAMPLES\n.nf\n", out);
    for (int i = 0; i < help->blocks; i++)
        for (int l = 0; help->block[i].kind == SL_HELP_EXAMPLE && l < help->block[i].count; l++) {
            const char *line = help->line[help->block[i].first + l];
            size_t title = strlen("Example: "), blanks = strspn(line, " ");
            put_text(out, line + (l == 0 ? title : blanks < title ? blanks : title));
        }
    fputs(".fi\n", out);
}

static void put_see_also(FILE *out, const char *name) {
    int some = 0;
    fputs(".SH SEE ALSO\n", out);
    if (*name)
        some = fputs("\\fBslackline\\fR(1)", out) >= 0;
    for (const sl_subcommand *c = sl_subcommands; c->name; c++)
        if (c->help && strcmp(c->name, name) != 0) {
            fputs(some ? ",\n\\fBslackline\\-" : "\\fBslackline\\-", out);
            put_part(out, c->name, strlen(c->name));
            fputs("\\fR(1)", out);
            some = 1;
        }
    fputc('\n', out);
}

/* ---- pages ---- */

static sl_status write_page(const sl_subcommand *command, FILE *out) {
    sl_help help;
    sl_status status = sl_help_parse(command->text, &help);
    if (status == SL_OK) {
        int last = last_option(&help), first = first_option(&help);
        put_title(out, command->name);
        fputs(".SH NAME\nslackline\\-", out);
        put_part(out, command->name, strlen(command->name));
        fputs(" \\- ", out);
        put_text(out, command->help ? command->help : "");
        put_synopsis(out, &help, command->name);
        put_section(out, &help, "DESCRIPTION", SL_HELP_TEXT, 0, first);
        put_options(out, &help);
        put_section(out, &help, "NOTES", SL_HELP_TEXT, last < 0 ? help.blocks : last + 1, help.blocks);
        put_section(out, &help, "EXIT STATUS", SL_HELP_EXIT, 0, help.blocks);
        put_examples(out, &help);
        put_see_also(out, command->name);
    }
    sl_help_free(&help);
    return status;
}

static sl_status put_first_title(const void *context, FILE *out) {
    (void)context;
    put_title(out, "");
    return SL_OK;
}

static sl_status put_commands(const void *context, FILE *out) {
    (void)context;
    for (const sl_subcommand *c = sl_subcommands; c->name; c++)
        if (c->help) {
            fputs(".TP\n\\fB", out);
            put_part(out, c->name, strlen(c->name));
            fputs("\\fR\n", out);
            put_text(out, c->help);
        }
    return SL_OK;
}

static sl_status write_first_page(FILE *out) {
    static const sl_page_mark marks[] = {{"@TITLE@", put_first_title}, {"@COMMANDS@", put_commands}};
    SL_TRY(sl_page_fill(sl_man_page, marks, sizeof marks / sizeof *marks, NULL, out));
    put_see_also(out, "");
    return SL_OK;
}

/* `command` NULL: the first page; `path` NULL: to standard output. */
static sl_status make_page(const sl_subcommand *command, const char *path) {
    sl_leaving page;
    SL_TRY(sl_leaving_open(path, &page));
    return sl_leaving_close(&page, command ? write_page(command, page.out) : write_first_page(page.out));
}

static sl_status write_all(const char *folder) {
    char path[PATH_MAX];
    SL_TRY(sl_directory_make(folder));
    snprintf(path, sizeof path, "%.3900s/slackline.1", folder);
    SL_TRY(make_page(NULL, path));
    for (const sl_subcommand *c = sl_subcommands; c->name; c++) {
        snprintf(path, sizeof path, "%.3900s/slackline-%s.1", folder, c->name);
        if (c->help)
            SL_TRY(make_page(c, path));
    }
    return SL_OK;
}

typedef struct man_options {
    const char *folder, *name;
} man_options;

static const sl_option options[] = {SL_OPTION("out", TEXT, man_options, folder),
                                    SL_OPTION("", ONCE, man_options, name, .words = "one command at a time"),
                                    SL_OPTIONS_END};

int sl_command_man(int argc, char **argv) {
    man_options a = {0};
    sl_status status = sl_subcommand_options(argc, argv, options, &a);
    if (status != SL_OK)
        return sl_plan_request_end(status);
    const char *folder = a.folder, *name = a.name;
    const sl_subcommand *command = name ? sl_subcommand_find(name) : NULL;
    if (folder && !*folder)
        return sl_plan_request_end(
            sl_error(SL_EINVAL, "man: a value is missing after '--out'; see slackline man --help"));
    if (name && folder)
        return sl_plan_request_end(sl_error(SL_EINVAL, "man: --out writes all pages; no COMMAND then"));
    if (name && !command)
        return sl_subcommand_refuse(name);
    return sl_plan_request_end(folder ? write_all(folder) : make_page(command, NULL));
}
