#include "doctor/finding.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>

const char *const sl_finding_state_names[SL_FINDING_STATES] = {"present", "limited", "absent", "broken"};

/* One line, whatever a program has said. */
static void flatten(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ')
            *text = ' ';
}

sl_finding *sl_finding_add(sl_findings *findings, const char *name, sl_finding_state state, const char *found,
                           ...) {
    static _Thread_local sl_finding nowhere; /* without memory: written, never read */
    sl_finding *one = &nowhere;
    sl_status status =
        sl_grow(&findings->list, &findings->room, (size_t)findings->count + 1, sizeof *findings->list);
    if (status == SL_OK)
        one = &findings->list[findings->count++];
    else
        findings->status = status;
    *one = (sl_finding){.state = state, .group = findings->group, .name = name};
    va_list values;
    va_start(values, found);
    vsnprintf(one->found, sizeof one->found, found, values);
    va_end(values);
    flatten(one->found);
    return one;
}

void sl_finding_explain(sl_finding *finding, const char *means, const char *remedy) {
    snprintf(finding->means, sizeof finding->means, "%s", means);
    snprintf(finding->remedy, sizeof finding->remedy, "%s", remedy);
    flatten(finding->means);
}

int sl_findings_count(const sl_findings *findings, sl_finding_state state) {
    int count = 0;
    for (int i = 0; i < findings->count; i++)
        count += findings->list[i].state == state;
    return count;
}

void sl_findings_free(sl_findings *findings) {
    sl_free(findings->list);
    *findings = (sl_findings){0};
}
