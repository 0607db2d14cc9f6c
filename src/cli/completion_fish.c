/* Completion for fish. */
#include "cli/completion.h"

#include <string.h>

enum { WORDS = 90 };

static void print_option(FILE *out, const sl_completion *all, const sl_completed *one,
                         const sl_help_option *o) {
    char words[WORDS];
    const char *table = sl_completion_keys_of(all->table, one->command->name, o);
    sl_completion_words(&one->help, o->block, words, sizeof words);
    fprintf(out, "complete -c slackline -n '__slackline_is %s'", one->command->name);
    if (o->letter)
        fprintf(out, " -s %c", o->letter);
    if (*o->name)
        fprintf(out, " -l %s", o->name);
    if (table)
        fprintf(out, " -x -a '(__slackline_keys_%s)'", table);
    else if (*o->values)
        fprintf(out, " -x -a '%s'", o->values);
    else if (o->kind == SL_HELP_FILE)
        fputs(" -r -F", out);
    else if (o->kind == SL_HELP_FOLDER)
        fputs(" -x -a '(__fish_complete_directories)'", out);
    else if (o->kind != SL_HELP_NOTHING)
        fputs(" -x", out);
    fputs(" -d ", out);
    sl_completion_quote(out, words, "\\'");
    fputc('\n', out);
}

static void print_place(FILE *out, const sl_completed *one, const char *names) {
    fprintf(out, "complete -c slackline -n '__slackline_is %s'", one->command->name);
    if (one->place == SL_HELP_FILE)
        fputs(" -F\n", out);
    else if (one->place == SL_HELP_PROGRAM)
        fputs(" -x -a '(__slackline_program)'\n", out);
    else if (one->place == SL_HELP_COMMAND)
        fprintf(out, " -f -a '%s'\n", names);
    else
        fprintf(out, " -f%s%s%s\n", *one->values ? " -a '" : "", one->values, *one->values ? "'" : "");
}

/* Each KEY= with what it means; with its values where they are known. An item of a list has any number. */
static void print_table(const sl_completion_table *table, FILE *out) {
    fprintf(out,
            "function __slackline_keys_%s\n"
            "    set -l item (string match -r '\\.(\\d+)(?:\\.|$)' -- (commandline -ct))[2]\n"
            "    test -n \"$item\"; or set item 0\n"
            "    string replace -a -- .0. .$item. \\\n",
            table->name);
    for (int k = 0; k < table->count; k++) {
        const sl_completion_key *key = &table->key[k];
        const char *value = key->values;
        do {
            size_t length = strcspn(value, " ");
            fprintf(out, "        %s=%.*s\\t", key->name, (int)length, value);
            sl_completion_quote(out, key->words, "\\'");
            fputs(" \\\n", out);
            value += length + strspn(value + length, " ");
        } while (*value);
    }
    fputs("        ;\nend\n", out);
}

void sl_completion_fish(const sl_completion *all, FILE *out) {
    const sl_completed *list = all->list;
    const int count = all->count;
    char names[1024] = "";
    for (int i = 0; i < count; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? " " : "",
                 list[i].command->name);
    fputs("# Completion of slackline for fish, made by `slackline completion fish`.\n"
          "complete -c slackline -e\n"
          "# the command that was typed; without an argument: none yet\n"
          "function __slackline_is\n"
          "    set -l words (commandline -opc)\n"
          "    test \"$words[2]\" = \"$argv[1]\"\n"
          "end\n"
          "# behind --: a program, and what belongs to it\n"
          "function __slackline_program\n"
          "    set -l words (commandline -opc)\n"
          "    set -l at (contains -i -- -- $words)\n"
          "    or return\n"
          "    set -e words[1..$at]\n"
          "    complete -C (string join -- ' ' (string escape -- $words) (commandline -ct))\n"
          "end\n",
          out);
    for (int i = 0; i < SL_COMPLETION_TABLES; i++)
        print_table(&all->table[i], out);
    for (int i = 0; i < count; i++) {
        fprintf(out, "complete -c slackline -n '__slackline_is' -f -a %s -d ", list[i].command->name);
        sl_completion_quote(out, list[i].command->help, "\\'");
        fputc('\n', out);
    }
    fprintf(out,
            "complete -c slackline -n '__slackline_is' -f -a help -d 'what a command does'\n"
            "complete -c slackline -n '__slackline_is' -l version -d 'the version, and how it was built'\n"
            "complete -c slackline -s h -l help -d 'say more'\n"
            "complete -c slackline -n '__slackline_is help' -f -a '%s'\n",
            names);
    for (int i = 0; i < count; i++) {
        sl_help_option o;
        print_place(out, &list[i], names);
        for (int at = -1; sl_help_next_option(&list[i].help, &at, &o);)
            print_option(out, all, &list[i], &o);
    }
}
