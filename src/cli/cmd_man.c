/* slackline man: manual pages in roff, from the descriptions of the commands (command.h). */
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

/* Paragraphs; those that begin with a blank are shown as they are. */
static void put_paragraphs(FILE *out, const char *heading, const char *text) {
    int length, is_first = 1;
    for (const char *line; (line = sl_help_line(&text, &length)) != NULL; is_first = 0) {
        if (is_first)
            fprintf(out, ".SH %s\n", heading);
        else
            fputs(*line == ' ' ? "" : ".PP\n", out);
        fputs(*line == ' ' ? ".nf\n" : "", out);
        put_part(out, line, (size_t)length);
        fputs(*line == ' ' ? "\n.fi\n" : "\n", out);
    }
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

static void put_subheading(FILE *out, const char *text) {
    fputs(".SS ", out);
    put_text(out, text);
}

static void put_title(FILE *out, const char *name) {
    fputs(".TH SLACKLINE", out);
    if (*name)
        fputs("\\-", out);
    put_capitals(out, name);
    fprintf(out, " 1 \"%s\" \"slackline %s\" \"User Commands\"\n.nh\n.ad l\n", sl_version_date(), SL_VERSION);
}

/* ---- parts of a page ---- */

static void put_synopsis(FILE *out, const sl_command *command) {
    char text[SL_HELP_ROOM];
    const size_t start = strlen("slackline ") + strlen(command->name);
    fputs(".SH SYNOPSIS\n", out);
    for (int form = 0; sl_help_usage(command, form, text); form++) {
        fputs(".SY slackline\\ ", out);
        put_text(out, command->name);
        if (text[start])
            put_text(out, text + start + 1);
        fputs(".YS\n", out);
    }
}

static void put_value(FILE *out, const sl_value *value) {
    fputs(".TP\n\\fB", out);
    put_part(out, value->name, strlen(value->name));
    fputs("\\fR\n", out);
    put_text(out, value->help);
}

/* Values that have meanings. */
static void put_values(FILE *out, const sl_option *option) {
    char room[SL_VALUE_ROOM];
    sl_value value;
    int i = 0;
    for (; sl_option_value(option, i, &value, room) && value.help; i++) {
        fputs(i == 0 ? ".RS\n" : "", out);
        put_value(out, &value);
    }
    fputs(i > 0 ? ".RE\n" : "", out);
}

static void put_options(FILE *out, const sl_command *command) {
    char text[SL_HELP_ROOM], room[SL_VALUE_ROOM];
    sl_value value;
    fputs(".SH OPTIONS\n", out);
    for (const sl_option *o = command->options; o->name; o++) {
        if (!sl_help_shows(o))
            continue;
        if (o->heading)
            put_subheading(out, o->heading);
        fputs(".TP\n", out);
        put_head(out, text, (size_t)sl_help_head(o, text));
        sl_help_meaning(o, text);
        put_text(out, text);
        put_values(out, o);
    }
    fputs(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nthis in short\n", out);
    if (command->list_title)
        put_subheading(out, command->list_title);
    for (int i = 0; command->list_title && command->list(i, &value, room); i++)
        put_value(out, &value);
}

static void put_examples(FILE *out, const char *text) {
    int length;
    fputs(".SH EXAMPLES\n.nf\n", out);
    for (const char *line; (line = sl_help_line(&text, &length)) != NULL;) {
        put_part(out, line, (size_t)length);
        fputc('\n', out);
    }
    fputs(".fi\n", out);
}

static void put_see_also(FILE *out, const char *name) {
    int some = 0;
    fputs(".SH SEE ALSO\n", out);
    if (*name)
        some = fputs("\\fBslackline\\fR(1)", out) >= 0;
    for (const sl_command *const *c = sl_commands; *c; c++)
        if ((*c)->summary && strcmp((*c)->name, name) != 0) {
            fputs(some ? ",\n\\fBslackline\\-" : "\\fBslackline\\-", out);
            put_part(out, (*c)->name, strlen((*c)->name));
            fputs("\\fR(1)", out);
            some = 1;
        }
    fputc('\n', out);
}

/* ---- pages ---- */

static void write_page(const sl_command *command, FILE *out) {
    put_title(out, command->name);
    fputs(".SH NAME\nslackline\\-", out);
    put_part(out, command->name, strlen(command->name));
    fputs(" \\- ", out);
    put_text(out, command->summary ? command->summary : "");
    put_synopsis(out, command);
    put_paragraphs(out, "DESCRIPTION", command->about);
    put_options(out, command);
    put_paragraphs(out, "NOTES", command->notes);
    put_paragraphs(out, "EXIT STATUS", command->exit_code);
    put_examples(out, command->example);
    put_see_also(out, command->name);
}

static sl_status put_first_title(const void *context, FILE *out) {
    (void)context;
    put_title(out, "");
    return SL_OK;
}

static sl_status put_commands(const void *context, FILE *out) {
    (void)context;
    for (const sl_command *const *c = sl_commands; *c; c++)
        if ((*c)->summary)
            put_value(out, &(sl_value){(*c)->name, (*c)->summary});
    return SL_OK;
}

static sl_status write_first_page(FILE *out) {
    static const sl_page_mark marks[] = {{"@TITLE@", put_first_title}, {"@COMMANDS@", put_commands}};
    SL_TRY(sl_page_fill(sl_man_page, marks, sizeof marks / sizeof *marks, NULL, out));
    put_see_also(out, "");
    return SL_OK;
}

/* `command` NULL: the first page; `path` NULL: to standard output. */
static sl_status make_page(const sl_command *command, const char *path) {
    sl_leaving page;
    SL_TRY(sl_leaving_open(path, &page));
    if (!command)
        return sl_leaving_close(&page, write_first_page(page.out));
    write_page(command, page.out);
    return sl_leaving_close(&page, SL_OK);
}

static sl_status write_all(const char *folder) {
    char path[PATH_MAX];
    SL_TRY(sl_directory_make(folder));
    snprintf(path, sizeof path, "%.3900s/slackline.1", folder);
    SL_TRY(make_page(NULL, path));
    for (const sl_command *const *c = sl_commands; *c; c++) {
        snprintf(path, sizeof path, "%.3900s/slackline-%s.1", folder, (*c)->name);
        if ((*c)->summary)
            SL_TRY(make_page(*c, path));
    }
    return SL_OK;
}

typedef struct man_options {
    const char *folder, *name;
} man_options;

static const sl_option options[] = {
    SL_OPTION("out", TEXT, man_options, folder, "DIR",
              "write all pages there: slackline.1, slackline-plan.1, ...", .completes = SL_COMPLETES_FOLDER),
    SL_OPTION("", ONCE, man_options, name, "COMMAND", NULL, .words = "one command at a time",
              .completes = SL_COMPLETES_COMMAND),
    SL_OPTIONS_END};

static int man(int argc, char **argv) {
    man_options a = {0};
    sl_status status = sl_command_options(argc, argv, &a);
    if (status != SL_OK)
        return sl_plan_request_end(status);
    const char *folder = a.folder, *name = a.name;
    const sl_command *command = name ? sl_command_find(name) : NULL;
    if (folder && !*folder)
        return sl_plan_request_end(
            sl_error(SL_EINVAL, "man: a value is missing after '--out'; see slackline man --help"));
    if (name && folder)
        return sl_plan_request_end(sl_error(SL_EINVAL, "man: --out writes all pages; omit COMMAND"));
    if (name && !command)
        return sl_command_refuse(name);
    return sl_plan_request_end(folder ? write_all(folder) : make_page(command, NULL));
}

const sl_command sl_command_man = {
    .name = "man",
    .summary = "manual pages with the text of --help",
    .about = "Prints the manual page of slackline or of one of its commands, as roff, with the text of "
             "COMMAND --help. Installed packages contain all pages: man slackline-plan.",
    .options = options,
    .example = "slackline man plan | man -l -",
    .run = man};
