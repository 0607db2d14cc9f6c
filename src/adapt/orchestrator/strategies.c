/* The ladder's strategies over the model: the iteration time with each of them, which gives the remaining
 * loss; and their execution if the ladder chooses one. Answers are computed once per iteration. */
#include "adapt/orchestrator/orchestrator_inside.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

#define DELEGATES_GAIN                                                                                       \
    0.01 /* least gain of delegates, as a share of an iteration; config.gain is for swaps and layouts */
#define LOSS_GAIN_MIN                                                                                        \
    0.001 /* share of a loss that a job gains which searches for better plans anyway: config.gain decides */
#define BY_TOLERANCE 0.9 /* share of a loss assumed to remain if delegates are chosen by equation 1 alone */

const char *const sl_strategy_words[SL_STRATEGY_KINDS] = {"adapt the schedule", "delegate the communication",
                                                          "re-balance microbatches", "change the topology",
                                                          "restart without the host"};
const char *const sl_strategy_keys[] = {"schedule", "delegate", "balance", "topology", "restart", NULL};

static size_t bytes_of(const sl_orchestrator *o, int processes) {
    return (size_t)(processes ? o->processes : o->config.job.replicas) * sizeof(int);
}

static void copy_layout(const sl_orchestrator *o, const sl_job_layout *from, sl_job_layout *to) {
    memcpy(to->process, from->process, bytes_of(o, 1));
    memcpy(to->split, from->split, bytes_of(o, 0));
    to->delegates = from->delegates;
}

/* ---- the iteration time of each ---- */

/* The current one, by the model. */
static sl_status present(sl_orchestrator *o) {
    sl_time running;
    if (o->strategies.present > 0)
        return SL_OK;
    if (o->strategies.rung[SL_STRATEGY_SCHEDULE] >= 0)
        return sl_model_time(o->losses.model, &o->layout, &o->strategies.present);
    SL_TRY(sl_plans_running(o, &running)); /* no strategy plans a schedule for it */
    o->strategies.present = (double)running;
    return SL_OK;
}

/* Running and best order on the measurements. */
static sl_status ask_schedule(sl_orchestrator *o, double *time) {
    sl_time running, best;
    SL_TRY(sl_plans_ask(o, &running, &best));
    *time = running > 0 ? sl_losses_believed(o) * (double)best / (double)running : INFINITY;
    return SL_OK;
}

/* Delegates carry messages in parallel to the ops: the same orders, decoupled. In a decoupled regime the
 * model counts sends as free anyway; there a link beyond the running order's tolerance (Adaptra, eq. 1) is
 * reason enough, for a fiftieth of an iteration. */
static sl_status ask_delegates(sl_orchestrator *o, double *time) {
    int delegates = o->layout.delegates;
    sl_time coupled, decoupled;
    *time = INFINITY;
    if (delegates) { /* more of them, if measurements require it; there are never fewer */
        int count;
        SL_TRY(sl_plans_delegates(o, &count));
        if (count > delegates)
            *time = sl_losses_believed(o) * (1 - 2 * DELEGATES_GAIN);
        return SL_OK;
    }
    if (!sl_plans_exceed(o))
        return SL_OK;
    SL_TRY(sl_plans_running(o, &coupled));
    o->layout.delegates = 1;
    sl_status status = sl_plans_running(o, &decoupled);
    o->layout.delegates = delegates;
    SL_TRY(status);
    double share = coupled > 0 ? (double)decoupled / (double)coupled : 1, now = sl_losses_believed(o);
    double lost = now > o->losses.healthy_time ? 1 - o->losses.healthy_time / now : 0;
    *time =
        fmin(now * fmin(share, 1 - 2 * DELEGATES_GAIN), o->losses.healthy_time / (1 - BY_TOLERANCE * lost));
    return SL_OK;
}

/* A new layout's time, scaled to measured iterations. It cannot help if a schedule alone would do as well. */
static sl_status combined_with_schedule(sl_orchestrator *o, double modelled, double *time) {
    SL_TRY(present(o));
    int better = modelled < (1 - o->config.gain) * o->strategies.present;
    *time = better ? o->losses.healthy_time * modelled / o->losses.healthy_model : INFINITY;
    return SL_OK;
}

static sl_status ask_balance(sl_orchestrator *o, double *time) {
    double balanced;
    copy_layout(o, &o->layout, &o->strategies.divided);
    SL_TRY(sl_model_divide(o->losses.model, &o->strategies.divided, &balanced));
    return combined_with_schedule(o, balanced, time);
}

static sl_status ask_topology(sl_orchestrator *o, double *time) {
    double best;
    int moved;
    sl_job_layout found = {0};
    *time = INFINITY;
    SL_TRY(sl_model_rearrange(o->losses.model, &o->layout, o->strategies.rung[SL_STRATEGY_BALANCE] >= 0,
                              &found, &best, &moved));
    if (moved) {
        copy_layout(o, &found, &o->strategies.placed);
        o->strategies.placed.delegates = o->layout.delegates;
    }
    sl_job_layout_free(&found);
    return moved ? combined_with_schedule(o, best, time) : SL_OK;
}

int sl_orchestrator_can_leave(const sl_orchestrator *o, const char *host) {
    for (size_t i = 0; i < o->kept_hosts; i++)
        if (strcmp(o->kept_host[i], host) == 0)
            return 0;
    return 1;
}

static int is_on(const sl_orchestrator *o, const sl_case *c, const char *host) {
    const sl_slow_part *part = &c->view.part;
    return (part->a >= 0 && strcmp(o->host[part->a], host) == 0) ||
           (part->kind == SL_PART_LINK && part->b >= 0 && strcmp(o->host[part->b], host) == 0);
}

/* Without the host with the largest loss; the losses of the others remain. */
static sl_status ask_restart(sl_orchestrator *o, double *time) {
    double worst = 0;
    *time = INFINITY;
    for (int i = 0; i < o->case_count; i++)
        for (int end = 0; end < 2; end++) {
            const sl_slow_part *part = &o->cases[i].view.part;
            int process = end ? (part->kind == SL_PART_LINK ? part->b : -1) : part->a;
            double sum = 0;
            if (process < 0 || !o->cases[i].seen || !sl_orchestrator_can_leave(o, o->host[process]))
                continue;
            for (int k = 0; k < o->case_count; k++)
                sum += is_on(o, &o->cases[k], o->host[process]) ? o->cases[k].view.loss : 0;
            if (sum > worst) {
                worst = sum;
                o->strategies.leave = o->host[process];
                *time = fmax(o->losses.healthy_time, sl_losses_believed(o) * (1 - sum));
            }
        }
    return SL_OK;
}

static sl_status (*const asks[SL_STRATEGY_KINDS])(sl_orchestrator *, double *) = {
    ask_schedule, ask_delegates, ask_balance, ask_topology, ask_restart};

/* ---- answers for the ladder ---- */

/* If no answer exists (no plan fits), it cannot help; running out of memory ends the observation. */
static double takes(sl_orchestrator *o, sl_strategy_kind strategy) {
    if (!o->strategies.known[strategy]) {
        o->strategies.known[strategy] = 1;
        sl_status status = asks[strategy](o, &o->strategies.takes[strategy]);
        if (status != SL_OK)
            o->strategies.takes[strategy] = INFINITY;
        if (status == SL_ENOMEM)
            o->failed = status;
    }
    return o->strategies.takes[strategy];
}

/* It gains enough over the other to be worth a change, and its cost is negligible, or below the loss while
 * waiting for the other and measuring it. */
static int is_soon_better(sl_orchestrator *o, sl_strategy_kind strategy, sl_strategy_kind than) {
    if (o->strategies.rung[strategy] < 0 || !(takes(o, strategy) < (1 - o->config.gain) * takes(o, than)))
        return 0;
    double cost = (double)sl_ladder_cost(o->ladder, o->strategies.rung[strategy]);
    double other = fmin(takes(o, than), sl_losses_believed(o));
    return cost <= (double)o->strategies.at_once || cost <= o->config.hold * (other - takes(o, strategy));
}

/* A first step must be measured before any further action, so it only delays a better one: a new layout comes
 * with plans for the slow components, and new positions come with their own split. If they gain no more than
 * the split, the split alone is used. */
static int other_does(sl_orchestrator *o, sl_strategy_kind strategy) {
    int both = o->strategies.rung[SL_STRATEGY_TOPOLOGY] >= 0 && o->strategies.rung[SL_STRATEGY_BALANCE] >= 0;
    switch (strategy) {
    case SL_STRATEGY_SCHEDULE:
    case SL_STRATEGY_DELEGATE:
        return is_soon_better(o, SL_STRATEGY_BALANCE, strategy) ||
               is_soon_better(o, SL_STRATEGY_TOPOLOGY, strategy);
    case SL_STRATEGY_BALANCE:
        return is_soon_better(o, SL_STRATEGY_TOPOLOGY, strategy);
    case SL_STRATEGY_TOPOLOGY:
        return both && takes(o, strategy) >= (1 - o->config.gain) * takes(o, SL_STRATEGY_BALANCE);
    default:
        return 0;
    }
}

static const sl_case *case_of(const sl_orchestrator *o, int id) {
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].view.id == id)
            return &o->cases[i];
    return NULL;
}

/* Another order or path is only for a lasting incident. */
static int must_last(const sl_orchestrator *o, sl_strategy_kind strategy, int id) {
    const sl_case *c = case_of(o, id);
    int changed = strategy == SL_STRATEGY_DELEGATE && o->iteration - o->doing.last_path < o->config.hold;
    return changed || (strategy <= SL_STRATEGY_DELEGATE && c && c->streak < o->config.hold && !c->reported);
}

static double remaining(sl_orchestrator *o, sl_strategy_kind strategy, const sl_incident *incident) {
    if (must_last(o, strategy, incident->id) || o->config.frozen || o->strategies.refused & 1u << strategy)
        return incident->loss;
    takes(o, strategy);
    if (other_does(o, strategy))
        return incident->loss;
    double now = sl_losses_believed(o), lost = 1 - o->losses.healthy_time / now;
    double least = strategy == SL_STRATEGY_DELEGATE ? fmin(DELEGATES_GAIN, o->config.gain) : o->config.gain;
    if (!(o->strategies.takes[strategy] < (1 - least) * now) || lost <= 0)
        return incident->loss; /* below the least gain of a schedule swap */
    return incident->loss * fmax(0, 1 - o->losses.healthy_time / o->strategies.takes[strategy]) / lost;
}

#define REMAINING(name, strategy)                                                                            \
    static double name(void *o, const sl_incident *i) {                                                      \
        return remaining(o, strategy, i);                                                                    \
    }
REMAINING(with_schedule, SL_STRATEGY_SCHEDULE)
REMAINING(with_delegates, SL_STRATEGY_DELEGATE)
REMAINING(with_balance, SL_STRATEGY_BALANCE)
REMAINING(with_topology, SL_STRATEGY_TOPOLOGY)
REMAINING(with_restart, SL_STRATEGY_RESTART)

/* The loss from keeping its split, not the best one, once nothing is slow any more. */
static double keeping_split(void *user, const sl_incident *incident) {
    sl_orchestrator *o = user;
    double best;
    (void)incident;
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].seen && o->cases[i].excess >= SL_LOSS_MIN * o->losses.healthy_time)
            return 0; /* another incident asks for the best one when its loss changes */
    copy_layout(o, &o->layout, &o->strategies.tried);
    if (o->strategies.rung[SL_STRATEGY_BALANCE] < 0 || present(o) != SL_OK ||
        sl_model_divide(o->losses.model, &o->strategies.tried, &best) != SL_OK)
        return 0;
    return best < o->strategies.present ? 1 - best / o->strategies.present : 0;
}

/* The loss from keeping the running orders instead of the first ones, once nothing is slow any more. */
static double keeping_schedule(void *user, const sl_incident *incident) {
    double loss;
    (void)incident;
    return sl_plans_keeping(user, &loss) == SL_OK ? loss : 0;
}

void sl_strategies_forget(sl_orchestrator *o) {
    memset(o->strategies.known, 0, sizeof o->strategies.known);
    o->strategies.present = 0;
}

/* ---- available strategies ---- */

static int possible(const sl_orchestrator *o, sl_strategy_kind strategy) {
    const sl_job *job = &o->config.job;
    if (!(o->config.can & 1u << strategy))
        return 0;
    switch (strategy) {
    case SL_STRATEGY_DELEGATE:
        return job->ranks > 1;
    case SL_STRATEGY_BALANCE: {
        int all = 0;
        for (int r = 0; r < job->replicas; r++)
            all += o->layout.split[r];
        return job->replicas > 1 && all > job->replicas && o->problem[0]->placement != SL_BIDIRECTIONAL;
    }
    case SL_STRATEGY_TOPOLOGY:
        return o->processes > 1;
    default:
        return 1;
    }
}

sl_status sl_strategies_open(sl_orchestrator *o) {
    sl_strategy strategy[SL_STRATEGY_KINDS];
    double (*const with[])(void *, const sl_incident *) = {with_schedule, with_delegates, with_balance,
                                                           with_topology, with_restart};
    /* among equal costs the first comes first: a schedule is planned for the path that messages take */
    static const int order[SL_STRATEGY_KINDS] = {SL_STRATEGY_DELEGATE, SL_STRATEGY_SCHEDULE,
                                                 SL_STRATEGY_BALANCE, SL_STRATEGY_TOPOLOGY,
                                                 SL_STRATEGY_RESTART};
    o->strategies.rungs = 0;
    for (int i = 0; i < SL_STRATEGY_KINDS; i++) {
        int s = order[i];
        o->strategies.rung[s] = -1;
        if (!possible(o, (sl_strategy_kind)s))
            continue;
        int splits = s == SL_STRATEGY_BALANCE || s == SL_STRATEGY_TOPOLOGY;
        o->strategies.kind[o->strategies.rungs] = s;
        o->strategies.rung[s] = o->strategies.rungs;
        strategy[o->strategies.rungs++] =
            (sl_strategy){.name = sl_strategy_words[s],
                          .causes = s == SL_STRATEGY_DELEGATE ? SL_CAUSE_LINK | SL_CAUSE_HOST : SL_CAUSES_ANY,
                          .cost = o->config.cost[s],
                          .undo_cost = o->config.undo[s],
                          .returns = s <= SL_STRATEGY_DELEGATE,
                          .replaces = s == SL_STRATEGY_RESTART,
                          .remaining = with[s],
                          /* positions cost nothing, but microbatches may be divided with them */
                          .keeping = splits                      ? keeping_split
                                     : s == SL_STRATEGY_SCHEDULE ? keeping_schedule
                                                                 : NULL,
                          .user = o};
    }
    sl_ladder_config config = sl_ladder_defaults();
    sl_time two = (sl_time)(2 * o->losses.healthy_time);
    /* a change that costs at most two iterations is made immediately */
    o->strategies.at_once = o->config.at_once > 0  ? o->config.at_once
                            : two > config.at_once ? two
                                                   : config.at_once;
    config.at_once = o->strategies.at_once;
    config.changed = o->config.changed > 0 ? o->config.changed : 0.2;
    config.least_gain = o->config.least_gain > 0 ? o->config.least_gain
                        : o->improve             ? LOSS_GAIN_MIN
                                                 : config.least_gain;
    config.calm = o->config.calm < 0 ? 0
                  : o->config.calm > 0
                      ? o->config.calm
                      : (sl_time)(o->config.hold * o->losses.healthy_time); /* like a schedule's return */
    config.profile_every = o->config.looks ? o->config.profile_every : 0;
    return sl_ladder_open(&config, strategy, o->strategies.rungs, &o->ladder);
}

/* ---- execution ---- */

/* Only the split is taken back; positions cost nothing. Other components may have become slow meanwhile, so
 * the best split for now is used. */
static sl_status take_back(sl_orchestrator *o) {
    double time;
    copy_layout(o, &o->layout, &o->doing.next);
    if (o->strategies.rung[SL_STRATEGY_BALANCE] < 0)
        return SL_OK;
    sl_status status = sl_model_divide(o->losses.model, &o->doing.next, &time);
    if (status == SL_ENOMEM)
        return status;
    if (status != SL_OK)
        memcpy(o->doing.next.split, o->even, bytes_of(o, 0));
    return SL_OK;
}

sl_orchestrator_action sl_strategies_action(sl_orchestrator *o, const sl_action *said) {
    size_t count;
    const sl_ladder_entry *log = sl_ladder_log(o->ladder, &count), *entry = &log[count - 1];
    int undo = said->kind == SL_ACTION_UNDO;
    return (sl_orchestrator_action){.id = ++o->doing.next_id,
                                    .undo = undo,
                                    .strategy = (sl_strategy_kind)o->strategies.kind[said->strategy],
                                    .replica = -1,
                                    .cost = entry->cost,
                                    .loss = undo ? 0 : entry->loss,
                                    .expected = undo ? 0 : entry->expected,
                                    .lost = entry->lost,
                                    .incidents = said->incidents,
                                    .count = said->count};
}

sl_status sl_strategies_act(sl_orchestrator *o, const sl_action *said) {
    sl_strategy_kind strategy = (sl_strategy_kind)o->strategies.kind[said->strategy];
    sl_orchestrator_action *a = &o->doing.action;
    int count = 0, undo = said->kind == SL_ACTION_UNDO;
    *a = sl_strategies_action(o, said);
    a->cost = sl_ladder_cost(o->ladder, said->strategy); /* also of one that has failed */
    if (!undo && a->expected >= a->loss)                 /* its reason has ended meanwhile */
        return sl_error(SL_ENONE, "%s would no longer gain anything", sl_strategy_words[strategy]);
    copy_layout(o, &o->layout, &o->doing.next);
    switch (strategy) {
    case SL_STRATEGY_SCHEDULE:
        a->what = SL_DO_PLAN;
        return undo ? sl_plans_return(o) : sl_plans_take(o);
    case SL_STRATEGY_DELEGATE:
        a->what = SL_DO_PATH;
        SL_TRY(sl_plans_delegates(o, &count));
        o->doing.next.delegates = undo                          ? o->config.delegates
                                  : count > o->layout.delegates ? count
                                                                : o->layout.delegates;
        return SL_OK;
    case SL_STRATEGY_RESTART:
        a->what = SL_DO_LEAVE;
        a->host = o->strategies.leave;
        return SL_OK;
    default:
        a->what = SL_DO_LAYOUT;
        if (undo)
            SL_TRY(take_back(o));
        else
            copy_layout(o, strategy == SL_STRATEGY_TOPOLOGY ? &o->strategies.placed : &o->strategies.divided,
                        &o->doing.next);
        return sl_plans_layout(o, &o->doing.next);
    }
}
