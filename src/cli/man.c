/* slackline man: manual pages in roff, from the help texts (help.h). */
#include "base/file.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/planning.h"
#include "cli/version.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 4096 }; /* of a paragraph */

static const char usage[] =
    "Usage: slackline man [COMMAND] [--out DIR]\n"
    "\n"
    "Prints the manual page of slackline or of one of its commands, as roff; it says what COMMAND --help\n"
    "says. An installation has them all: man slackline-plan.\n"
    "\n"
    "  --out DIR  write all pages there: slackline.1, slackline-plan.1, ...\n"
    "\n"
    "Example: slackline man plan | man -l -\n";

/* ---- roff ---- */

/* As the terminal had it: roff makes other signs of some. None of roff's words at the beginning of a line. */
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

/* A text with lines that stand further right is shown as it is. */
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

/* `-o, --output FILE`: what is typed in bold, what stands for something else slanted. */
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

/* Blanks within brackets do not part what belongs together. */
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

/* Paragraphs of a kind in blocks [from, to), under a heading where there is one. */
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
    sl_status status = sl_help_read(command, &help);
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

static void write_first_page(FILE *out) {
    put_title(out, "");
    fputs(
        ".SH NAME\nslackline \\- keeps pipeline\\-parallel training fast when links turn slow\n"
        ".SH SYNOPSIS\n.SY slackline\n\\fICOMMAND\\fR ...\n.YS\n.SY slackline\nhelp [\\fICOMMAND\\fR]\n.YS\n"
        ".SY slackline\n\\-\\-version\n.YS\n"
        ".SH DESCRIPTION\nslackline plans pipeline schedules that leave slack where it is needed, trains "
        "with them, notices slow links and devices, also in programs that know nothing of it, and adapts "
        "between two iterations.\n.PP\nEach command has a page of its own.\n.SH COMMANDS\n",
        out);
    for (const sl_subcommand *c = sl_subcommands; c->name; c++)
        if (c->help) {
            fputs(".TP\n\\fB", out);
            put_part(out, c->name, strlen(c->name));
            fputs("\\fR\n", out);
            put_text(out, c->help);
        }
    fputs(".SH OPTIONS\n.TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nthe commands in short\n"
          ".TP\n\\fB\\-\\-version\\fR\nthe version, and how the command was built\n"
          ".SH EXIT STATUS\n0 done, 1 a valid request without an answer or a run that failed, 2 a wrong "
          "request. Results go to standard output, everything else to standard error.\n"
          ".SH EXAMPLES\n.nf\nslackline plan examples/four\\-ranks.yaml\n.fi\n",
          out);
    put_see_also(out, "");
}

/* `command` NULL: the first page. Free with free. */
static sl_status make_page(const sl_subcommand *command, char **text, size_t *size) {
    FILE *out = open_memstream(text, size);
    sl_status status = SL_OK;
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for a page");
    if (command)
        status = write_page(command, out);
    else
        write_first_page(out);
    return fclose(out) == 0 || status != SL_OK ? status : sl_error(SL_ENOMEM, "out of memory for a page");
}

static sl_status write_file(const sl_subcommand *command, const char *folder) {
    char path[PATH_MAX], *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%.3900s/slackline%s%s.1", folder, command ? "-" : "",
             command ? command->name : "");
    sl_status status = make_page(command, &text, &size);
    SL_THEN(status, sl_file_write(path, text, size));
    free(text);
    return status;
}

static sl_status write_all(const char *folder) {
    SL_TRY(sl_directory_make(folder));
    SL_TRY(write_file(NULL, folder));
    for (const sl_subcommand *c = sl_subcommands; c->name; c++)
        if (c->help)
            SL_TRY(write_file(c, folder));
    return SL_OK;
}

static sl_status print(const sl_subcommand *command) {
    char *text = NULL;
    size_t size = 0;
    sl_status status = make_page(command, &text, &size);
    if (status == SL_OK)
        fwrite(text, 1, size, stdout); /* main looks whether it has arrived */
    free(text);
    return status;
}

typedef struct asked {
    const char *folder, *name;
} asked;

static const sl_option options[] = {SL_OPTION("out", TEXT, asked, folder),
                                    SL_OPTION("", ONCE, asked, name, .words = "one command at a time"),
                                    SL_OPTIONS_END};

int sl_command_man(int argc, char **argv) {
    asked a = {0};
    sl_options o = {.command = "man", .table = options, .argc = argc, .argv = argv, .usage = usage};
    sl_status status = sl_options_take(&o, &a);
    if (status != SL_OK || o.help)
        return sl_planning_end(status);
    const char *folder = a.folder, *name = a.name;
    const sl_subcommand *command = name ? sl_subcommand_find(name) : NULL;
    if (folder && !*folder)
        return sl_planning_end(
            sl_error(SL_EINVAL, "man: a value is missing after '--out'; see slackline man --help"));
    if (name && folder)
        return sl_planning_end(sl_error(SL_EINVAL, "man: --out writes all pages; no COMMAND then"));
    if (name && !command)
        return sl_subcommand_refuse(name);
    return sl_planning_end(folder ? write_all(folder) : print(command));
}
