/* The result of a table row: the wrapper of one call under one of its two names. Part of mpi_shim.h, for one
 * family of libraries. */

#define SL_LIST(...) __VA_ARGS__
#define SL_JOIN(a, b) a##b
#define SL_CAT(a, b) SL_JOIN(a, b)

#define SL_EXPORTED(prefix, name) SL_CAT(prefix, SL_S(name))
#define SL_FUNCTION(prefix, name) SL_CAT(SL_WRAPPER_, SL_EXPORTED(prefix, name))
#define SL_NAMED(x) SL_NAMED_(x)
#define SL_NAMED_(x) #x

#define SL_REAL(prefix, name, params) SL_PROBE_REAL(SL_NAMED(SL_EXPORTED(prefix, name)), params)

/* The beginning of wrappers: `communicator`, `members`, and `call`, which describes the call. */
#define SL_BEGIN(name, comm_, peer_, tag_)                                                                   \
    sl_communicator *communicator = communicator_of(comm_);                                                  \
    uint64_t members = (uint64_t)communicator->peers;                                                        \
    sl_call call;                                                                                            \
    int over = 0;                                                                                            \
    int32_t unit = SL_GATE_BYTES;                                                                            \
    (void)members, (void)over, (void)unit;                                                                   \
    before(&call, SL_CALL_MPI_##name, communicator, peer_, tag_);

#define SL_CALL_ONE(prefix, name, params, args, comm_, peer_, tag_, bytes_)                                  \
    static int SL_FUNCTION(prefix, name) params {                                                            \
        SL_REAL(prefix, name, params)                                                                        \
        SL_FALL_BACK(prefix, name, args, comm_)                                                              \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        SL_BEGIN(name, comm_, peer_, tag_)                                                                   \
        passage p = pass(&call, communicator, way_of(SL_CALL_MPI_##name), SL_GATE_BLOCK);                    \
        const uint64_t amount = (uint64_t)(bytes_);                                                          \
        sl_probe_describe(&call, amount, unit);                                                              \
        sl_probe_begin(&call);                                                                               \
        int result = real args;                                                                              \
        over = 1;                                                                                            \
        sl_probe_after(&call, result == 0 ? (uint64_t)(bytes_) : 0);                                         \
        leave(&p);                                                                                           \
        mind_message(&p, SL_CALL_MPI_##name, result);                                                        \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }

/* `takes`: the call has taken the message of its status. `also`: what else to record. */
#define SL_TAKING_ONE(prefix, name, params, args, comm_, peer_, tag_, bytes_, pass_, takes, also)            \
    static int SL_FUNCTION(prefix, name) params {                                                            \
        SL_REAL(prefix, name, params)                                                                        \
        SL_FALL_BACK(prefix, name, args, comm_)                                                              \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        SL_BEGIN(name, comm_, peer_, tag_)                                                                   \
        few_statuses own;                                                                                    \
        passage p = pass_;                                                                                   \
        status = status_for(&p, status, own.bytes);                                                          \
        const uint64_t amount = (uint64_t)(bytes_);                                                          \
        sl_probe_describe(&call, amount, unit);                                                              \
        sl_probe_begin(&call);                                                                               \
        int result = real args;                                                                              \
        over = 1;                                                                                            \
        sl_probe_after(&call, result == 0 ? (uint64_t)(bytes_) : 0);                                         \
        also;                                                                                                \
        if (p.wild)                                                                                          \
            matched(p.channel, communicator, (takes) && result == 0 ? status : NULL);                        \
        leave(&p);                                                                                           \
        mind_message(&p, SL_CALL_MPI_##name, result);                                                        \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }

#define SL_TAKE_ONE(prefix, name, params, args, comm_, peer_, tag_, bytes_)                                  \
    SL_TAKING_ONE(prefix, name, params, args, comm_, peer_, tag_, bytes_,                                    \
                  pass(&call, communicator, way_of(SL_CALL_MPI_##name), SL_GATE_BLOCK),                      \
                  way_of(SL_CALL_MPI_##name) == WAY_RECEIVE, (void)0)

#define SL_EXCHANGE_ONE(prefix, name, params, args, comm_, peer_, tag_, bytes_, room_)                       \
    SL_TAKING_ONE(prefix, name, params, args, comm_, peer_, tag_, bytes_,                                    \
                  pass_exchange(&call, communicator, source, receive_tag), 1,                                \
                  received_too(call, communicator, source, receive_tag, result == 0, (uint64_t)(room_)))

#define SL_POST_ONE(prefix, name, params, args, comm_, peer_, tag_, bytes_, persistent)                      \
    static int SL_FUNCTION(prefix, name) params {                                                            \
        SL_REAL(prefix, name, params)                                                                        \
        SL_FALL_BACK(prefix, name, args, comm_)                                                              \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        SL_BEGIN(name, comm_, peer_, tag_)                                                                   \
        passage p = (persistent) ? name_start(&call, communicator, way_of(SL_CALL_MPI_##name))               \
                                 : pass(&call, communicator, way_of(SL_CALL_MPI_##name), SL_GATE_POST);      \
        sl_probe_begin(&call);                                                                               \
        int result = real args;                                                                              \
        over = 1;                                                                                            \
        if (result == 0)                                                                                     \
            posted(&call, (uint64_t)(bytes_), *request, persistent, NULL, 0, &p, communicator);              \
        else {                                                                                               \
            sl_probe_after(&call, 0);                                                                        \
            if (p.wild && !(persistent))                                                                     \
                matched(p.channel, communicator, NULL);                                                      \
        }                                                                                                    \
        if (!(persistent))                                                                                   \
            leave(&p);                                                                                       \
        mind_message(&p, SL_CALL_MPI_##name, result);                                                        \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }

#define SL_CREATE_ONE(prefix, name, params, args, parent_, created_, key_)                                   \
    static int SL_FUNCTION(prefix, name) params {                                                            \
        SL_REAL(prefix, name, params)                                                                        \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        SL_BEGIN(name, parent_, SL_NO_RANK, SL_NO_TAG)                                                       \
        uint64_t numbered = (key_) == SL_NUMBERED ? next_child(communicator) : 0;                            \
        passage p = pass(&call, communicator, way_of(SL_CALL_MPI_##name), SL_GATE_BLOCK);                    \
        sl_probe_describe(&call, 0, unit);                                                                   \
        sl_probe_begin(&call);                                                                               \
        int result = real args;                                                                              \
        sl_probe_after(&call, 0);                                                                            \
        if (result == 0)                                                                                     \
            created_communicator(*(created_), key_, numbered);                                               \
        leave(&p);                                                                                           \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }

#define SL_WINDOW_ONE(prefix, name, params, args)                                                            \
    static int SL_FUNCTION(prefix, name) params {                                                            \
        SL_REAL(prefix, name, params)                                                                        \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        SL_BEGIN(name, comm, SL_NO_RANK, SL_NO_TAG)                                                          \
        uint64_t numbered = next_child(communicator);                                                        \
        passage p = pass(&call, communicator, WAY_TOGETHER, SL_GATE_BLOCK);                                  \
        sl_probe_describe(&call, 0, unit);                                                                   \
        sl_probe_begin(&call);                                                                               \
        int result = real args;                                                                              \
        sl_probe_after(&call, 0);                                                                            \
        if (result == 0)                                                                                     \
            enter_window(*win, communicator, numbered);                                                      \
        leave(&p);                                                                                           \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }

#define SL_HAND_ONE(prefix, name, params, args, body)                                                        \
    static int SL_FUNCTION(prefix, name) params {                                                            \
        SL_REAL(prefix, name, params)                                                                        \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        int result = body(real, SL_LIST args);                                                               \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }

#define SL_BRACKET_ONE(prefix, name, body)                                                                   \
    static int SL_FUNCTION(prefix, name)(void) {                                                             \
        SL_REAL(prefix, name, (void))                                                                        \
        if (!sl_probe_enter())                                                                               \
            return real();                                                                                   \
        int result = body(real);                                                                             \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }

#define SL_FILE_ONE(prefix, name, params, args)                                                              \
    static int SL_FUNCTION(prefix, name) params {                                                            \
        SL_REAL(prefix, name, params)                                                                        \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        passage p = pass_shared(file_key(file), SL_CALL_MPI_##name);                                         \
        int result = real args;                                                                              \
        leave(&p);                                                                                           \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }
