/* The agent's state, shared by its files: agent.c reads the rings and reports its findings, obeying.c carries
 * out the controller's orders. */
#pragma once

#include "notice/agent/agent.h"
#include "notice/agent/call_log.h"
#include "notice/agent/holds.h"
#include "notice/agent/members.h"
#include "notice/agent/rings.h"
#include "notice/agent/track.h"
#include "notice/message/messages.h"

#define SL_AGENT_PART 2048 /* records of a message */

typedef struct sl_watched_process {
    sl_process_id process;
    int pid; /* here; -1: unknown */
    int rank, size;
    int ended;
    sl_track *track;
    char affinity[128];
    sl_call *call; /* of the profile under way */
    size_t calls, capacity, sent;
    int passed;                           /* a call after the window was seen */
    int complete;                         /* the last part was sent */
    sl_time starved, stopped, starved_at; /* when the profile was ordered (obeying.c), and the time of the
                                             order */
} sl_watched_process;

struct sl_agent {
    sl_agent_config config;
    char identity[SL_CLOCK_NAME], host[128];
    sl_rings *rings;
    sl_call_log *log; /* NULL: none */
    sl_control *control;
    sl_watched_process *process;
    size_t processes, capacity, ended; /* `ended` of them have ended, and are kept for a profile */
    int saw_calls, world;              /* world: ranks of the job, as its processes report */
    char trouble[256];                 /* why calls are not read; "" */
    sl_message_block *pending;         /* [pendings] */
    size_t pendings, pending_room;
    sl_store_position orders;
    int caught_up; /* orders from before this agent are skipped */
    struct {
        int64_t round; /* 0: none */
        sl_time from, to;
    } profile;
    sl_holds holds;
    sl_members members;
    sl_time hold_until;
    sl_time next_look, next_beat, pace;
    sl_time next_exchange; /* with the store: orders, heartbeats, iterations (sl_order_pace) */
};

/** A lost store is not an error here: what cannot be sent now is sent later. */
static inline sl_status sl_agent_passing(sl_status status) {
    return status == SL_ENOMEM ? status : SL_OK;
}

/* ---- obeying.c ---- */

/** Sets what the probes of this node time. */
void sl_agent_set_timing(sl_agent *agent, sl_timing timing);

/** Adds one record of a process to the profile under way. SL_ENOMEM. */
sl_status sl_agent_keep(sl_agent *agent, sl_watched_process *process, const sl_call *call);

/** Sends the complete parts of the profile. SL_ENOMEM. */
sl_status sl_agent_send_profiles(sl_agent *agent, sl_time now);

/** Carries out one order, which may be any JSON. SL_ENOMEM, or what the store says. */
sl_status sl_agent_carry_out(sl_agent *agent, const json_t *order, sl_time now);

/** Reads the orders and carries them out. SL_ENOMEM. */
sl_status sl_agent_obey(sl_agent *agent, sl_time now);
