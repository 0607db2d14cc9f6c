/* Completion for zsh, by _arguments. */
#include "cli/completion.h"

#include <string.h>

enum { WORDS = 90 };

/* Within '...[what it does]:NAME:...', brackets and colons are escaped; the single quotes around are too. */
static void print_escaped(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:\\", *text))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

static void print_action(FILE *out, const char *table, sl_help_argument kind, const char *values) {
    if (table)
        fprintf(out, "_slackline_keys_%s", table);
    else if (*values)
        fprintf(out, "(%s)", values);
    else if (kind == SL_HELP_FILE)
        fputs("_files", out);
    else if (kind == SL_HELP_FOLDER)
        fputs("_files -/", out);
    else
        fputc(' ', out);
}

static void print_name(FILE *out, const char *table, const sl_help *help, const sl_help_option *o,
                       const char *name) {
    char words[WORDS];
    sl_completion_words(help, o->block, words, sizeof words);
    fprintf(out, " \\\n            '*%s%s[", name, o->kind != SL_HELP_NOTHING && name[1] == '-' ? "=" : "");
    print_escaped(out, words);
    fputc(']', out);
    if (o->kind != SL_HELP_NOTHING) {
        fputc(':', out);
        print_escaped(out, o->argument);
        fputc(':', out);
        print_action(out, table, o->kind, o->values);
    }
    fputc('\'', out);
}

static void print_command(FILE *out, const sl_completion *all, const sl_completed *one) {
    sl_help_option o;
    fprintf(out, "    %s)\n        _arguments", one->command->name);
    for (int at = -1; sl_help_next_option(&one->help, &at, &o);) {
        char name[sizeof o.name + 2], letter[] = {'-', o.letter, 0};
        snprintf(name, sizeof name, "--%s", o.name);
        const char *table = sl_completion_keys_of(all->table, one->command->name, &o);
        if (*o.name)
            print_name(out, table, &one->help, &o, name);
        if (o.letter)
            print_name(out, table, &one->help, &o, letter);
    }
    fputs(" \\\n            '--help[say more]'", out);
    if (one->place == SL_HELP_FILE)
        fputs(" \\\n            '*:file:_files'", out);
    else if (one->place == SL_HELP_WORDS)
        fprintf(out, " \\\n            '1: :(%s)'", one->values);
    else if (one->place == SL_HELP_COMMAND)
        fputs(" \\\n            \"1:command:($names)\"", out);
    else if (one->place == SL_HELP_PROGRAM)
        fputs(" \\\n            '*::program:_normal'", out);
    fputs(" ;;\n", out);
}

/* A key of the file's, or behind its = one of its values. An item of a list has any number. */
static void print_table(const sl_completion_table *table, FILE *out) {
    fprintf(out,
            "_slackline_keys_%s() {\n"
            "    local -a keys match mbegin mend\n"
            "    local key=${PREFIX%%%%=*}\n"
            "    if [[ $PREFIX == *=* ]]; then\n"
            "        compset -P '*='\n"
            "        case ${key//.<->./.0.} in\n",
            table->name);
    for (int k = 0; k < table->count; k++)
        if (*table->key[k].values)
            fprintf(out, "        %s) compadd -- %s ;;\n", table->key[k].name, table->key[k].values);
    fputs("        esac\n        return\n    fi\n    keys=(\n", out);
    for (int k = 0; k < table->count; k++) {
        fprintf(out, "        '%s=:", table->key[k].name);
        print_escaped(out, table->key[k].words);
        fputs("'\n", out);
    }
    fputs("    )\n"
          "    [[ $PREFIX =~ '\\.([0-9]+)\\.' ]] && keys=(\"${(@)keys//.0./.$match[1].}\")\n"
          "    _describe -t keys key keys -S ''\n}\n",
          out);
}

void sl_completion_zsh(const sl_completion *all, FILE *out) {
    const sl_completed *list = all->list;
    const int count = all->count;
    fputs("#compdef slackline\n# Completion of slackline for zsh, made by `slackline completion zsh`.\n",
          out);
    for (int i = 0; i < SL_COMPLETION_TABLES; i++)
        print_table(&all->table[i], out);
    fputs("_slackline() {\n    local -a commands names\n    commands=(\n", out);
    for (int i = 0; i < count; i++) {
        fprintf(out, "        '%s:", list[i].command->name);
        print_escaped(out, list[i].command->help);
        fputs("'\n", out);
    }
    fputs("    )\n    names=(${commands%%:*})\n    if ((CURRENT == 2)); then\n"
          "        _describe -t commands command commands\n"
          "        compadd -- help --help --version\n        return\n    fi\n"
          "    local command=$words[2]\n    shift words\n    ((CURRENT--))\n    case $command in\n",
          out);
    for (int i = 0; i < count; i++)
        print_command(out, all, &list[i]);
    fputs("    help) _describe -t commands command commands ;;\n    esac\n}\n"
          "if [[ $funcstack[1] == _slackline ]]; then\n    _slackline \"$@\"\nelse\n"
          "    compdef _slackline slackline\nfi\n",
          out);
}
