/* Completion for bash. Words that hold = are parted by readline, so a value may stand behind a = of its own.
 */
#include "cli/completion.h"

#include <string.h>

static const char begin[] =
    "_slackline() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
    "    local i equal= earlier= options= words= files= keys= key=\n"
    "    COMPREPLY=()\n"
    "    if [[ $word == = ]]; then\n"
    "        word= equal=$((COMP_CWORD-1))\n"
    "    elif [[ $before == = ]] && ((COMP_CWORD > 2)); then\n"
    "        before=${COMP_WORDS[COMP_CWORD-2]} equal=$((COMP_CWORD-2))\n"
    "    fi\n"
    "    if [[ -n $equal ]] && ((equal > 1)); then\n"
    "        earlier=${COMP_WORDS[equal-1]}\n"
    "        [[ $earlier != = ]] || earlier=${COMP_WORDS[equal-2]}\n"
    "        [[ $keyed != *\" $earlier \"* ]] || key=$before before=$earlier\n"
    "    fi\n";

/* Behind --set: a key of the file's, or behind its = one of its values. An item of a list has any number. */
static const char keys[] =
    "    if [[ -n $keys && -z $key && $word == *=* ]]; then\n"
    "        key=${word%%=*}\n"
    "        mapfile -t COMPREPLY < <(compgen -P \"$key=\" -W \"$(_slackline_values $keys "
    "\"$key\")\" -- \"${word#*=}\")\n"
    "        return\n"
    "    elif [[ -n $keys && -n $key ]]; then\n"
    "        words=$(_slackline_values $keys \"$key\")\n"
    "        [[ -n $words ]] || return\n"
    "    elif [[ -n $keys ]]; then\n"
    "        words=$(_slackline_keys $keys)\n"
    "        [[ ! $word =~ \\.([0-9]+)(\\.|$) ]] || words=${words//.0./.${BASH_REMATCH[1]}.}\n"
    "        compopt -o nospace 2>/dev/null\n"
    "    fi\n";

static const char end[] = "    if [[ $word == -* && $files != yes ]]; then\n"
                          "        words=$options\n"
                          "    fi\n"
                          "    if [[ -n $words ]]; then\n"
                          "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
                          "    elif [[ -n $files ]]; then\n"
                          "        compopt -o filenames 2>/dev/null\n"
                          "        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
                          "    fi\n"
                          "}\n"
                          "complete -F _slackline slackline\n";

/* The pattern of an option: `-o|--output`. */
static void print_names(const sl_help_option *o, FILE *out) {
    if (o->letter)
        fprintf(out, "-%c%s", o->letter, *o->name ? "|" : "");
    if (*o->name)
        fprintf(out, "--%s", o->name);
}

static void print_options(const sl_completed *one, FILE *out) {
    sl_help_option o;
    fputs("        options='", out);
    for (int at = -1; sl_help_next_option(&one->help, &at, &o);) {
        if (*o.name)
            fprintf(out, "--%s ", o.name);
        if (o.letter)
            fprintf(out, "-%c ", o.letter);
    }
    fputs("--help'\n", out);
}

/* What follows an option that takes something: its values, files, or whatever is typed. */
static void print_arguments(const sl_completion *all, const sl_completed *one, FILE *out) {
    sl_help_option o;
    fputs("        case $before in\n", out);
    for (int at = -1; sl_help_next_option(&one->help, &at, &o);) {
        if (o.kind == SL_HELP_NOTHING)
            continue;
        fputs("        ", out);
        print_names(&o, out);
        const char *table = sl_completion_keys_of(all->table, one->command->name, &o);
        if (table)
            fprintf(out, ") keys=%s options= ;;\n", table);
        else if (*o.values)
            fprintf(out, ") words='%s' options=$words ;;\n", o.values);
        else if (o.kind == SL_HELP_FILE || o.kind == SL_HELP_FOLDER)
            fputs(") files=yes ;;\n", out);
        else
            fputs(") return ;;\n", out);
    }
    fputs("        *) ", out);
    if (one->place == SL_HELP_FILE || one->place == SL_HELP_PROGRAM)
        fputs("files=place ;;\n", out);
    else if (one->place == SL_HELP_WORDS)
        fprintf(out, "words='%s' ;;\n", one->values);
    else if (one->place == SL_HELP_COMMAND)
        fputs("words=$commands ;;\n", out);
    else
        fputs("words=$options ;;\n", out);
    fputs("        esac ;;\n", out);
}

/* Behind -- a program and its arguments, as the shell completes them anywhere. */
static void print_program(FILE *out) {
    fputs("        for ((i = 2; i < COMP_CWORD; i++)); do\n"
          "            if [[ ${COMP_WORDS[i]} == -- ]]; then\n"
          "                if ((i + 1 == COMP_CWORD)); then\n"
          "                    mapfile -t COMPREPLY < <(compgen -c -- \"$word\")\n"
          "                else\n"
          "                    compopt -o filenames 2>/dev/null\n"
          "                    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
          "                fi\n"
          "                return\n"
          "            fi\n"
          "        done\n",
          out);
}

/* Keys and their values, a function each. */
static void print_tables(const sl_completion *all, FILE *out) {
    fputs("_slackline_keys() {\n    case $1 in\n", out);
    for (int i = 0; i < SL_COMPLETION_TABLES; i++) {
        fprintf(out, "    %s) echo '", all->table[i].name);
        for (int k = 0; k < all->table[i].count; k++)
            fprintf(out, "%s%s=", k ? " " : "", all->table[i].key[k].name);
        fputs("' ;;\n", out);
    }
    fputs("    esac\n}\n_slackline_values() {\n"
          "    local key=$2\n"
          "    while [[ $key =~ ^(.*)\\.[1-9][0-9]*\\.(.*)$ ]]; do "
          "key=${BASH_REMATCH[1]}.0.${BASH_REMATCH[2]}; done\n"
          "    case $1:$key in\n",
          out);
    for (int i = 0; i < SL_COMPLETION_TABLES; i++)
        for (int k = 0; k < all->table[i].count; k++)
            if (*all->table[i].key[k].values)
                fprintf(out, "    %s:%s) echo '%s' ;;\n", all->table[i].name, all->table[i].key[k].name,
                        all->table[i].key[k].values);
    fputs("    esac\n}\n", out);
}

/* The options that take KEY=..., of any command. */
static void print_keyed(const sl_completion *all, FILE *out) {
    char seen[512] = " ", name[64];
    sl_help_option o;
    for (int i = 0; i < all->count; i++)
        for (int at = -1; sl_help_next_option(&all->list[i].help, &at, &o);) {
            snprintf(name, sizeof name, " --%s ", o.name);
            if (sl_completion_keys_of(all->table, all->list[i].command->name, &o) && !strstr(seen, name))
                snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s", name + 1);
        }
    fprintf(out, "    local keyed='%s'\n", seen);
}

void sl_completion_bash(const sl_completion *all, FILE *out) {
    const sl_completed *list = all->list;
    const int count = all->count;
    fputs("# Completion of slackline for bash, made by `slackline completion bash`.\n", out);
    print_tables(all, out);
    const char *rest = strchr(begin, '\n') + 1; /* behind the function's head */
    fwrite(begin, 1, (size_t)(rest - begin), out);
    print_keyed(all, out);
    fputs(rest, out);
    fputs("    local commands='", out);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%s", i ? " " : "", list[i].command->name);
    fputs("'\n    if ((COMP_CWORD == 1)); then\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"$commands help --help --version\" -- \"$word\")\n"
          "        return\n    fi\n    case $command in\n",
          out);
    for (int i = 0; i < count; i++) {
        fprintf(out, "    %s)\n", list[i].command->name);
        if (list[i].place == SL_HELP_PROGRAM)
            print_program(out);
        print_options(&list[i], out);
        print_arguments(all, &list[i], out);
    }
    fputs("    help) words=$commands ;;\n    esac\n", out);
    fputs(keys, out);
    fputs(end, out);
}
