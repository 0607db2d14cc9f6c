/* The agent's state, shared by its files: agent.c reads the rings and says what it finds, obeying.c does what
 * the controller orders. */
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
    int pid; /* here; -1: not known */
    int rank, size;
    int ended;
    sl_track *track;
    char affinity[128];
    sl_call *call; /* of the profile that is being taken */
    size_t calls, capacity, sent;
    int passed;                  /* a call behind the window was seen */
    int told;                    /* the last part is sent */
    sl_time starved, starved_at; /* when the profile was ordered (obeying.c), and when that was */
} sl_watched_process;

struct sl_agent {
    sl_agent_config config;
    char identity[SL_CLOCK_NAME], host[128];
    sl_rings *rings;
    sl_call_log *log; /* NULL: none */
    sl_control *control;
    sl_watched_process *process;
    size_t processes, capacity, ended; /* `ended` of them are over, and kept for a profile */
    int saw_calls;
    char trouble[256]; /* why calls are not read; "" */
    sl_message_block *pending; /* [pendings] */
    size_t pendings, pending_room;
    sl_store_position orders;
    int caught_up; /* orders of before this agent are passed over */
    struct {
        int64_t round; /* 0: none */
        sl_time from, to;
    } profile;
    sl_holds holds;
    sl_members members;
    sl_time hold_until;
    sl_time next_look, next_beat, pace;
};

/** A store that is lost is no error here: what cannot be sent now is sent later. */
static inline sl_status sl_agent_passing(sl_status status) {
    return status == SL_ENOMEM ? status : SL_OK;
}

/* ---- obeying.c ---- */

/** What the probes of this node are asked to time. */
void sl_agent_set_timing(sl_agent *agent, sl_timing timing);

/** One record of a process, for the profile that is being taken. SL_ENOMEM. */
sl_status sl_agent_keep(sl_agent *agent, sl_watched_process *process, const sl_call *call);

/** Sends what is complete of the profile. SL_ENOMEM. */
sl_status sl_agent_send_profiles(sl_agent *agent, sl_time now);

/** Reads the orders and does them. SL_ENOMEM. */
sl_status sl_agent_obey(sl_agent *agent, sl_time now);
