#include "run/binding/run_groups.h"

sl_status sl_groups_open(const sl_run *run, sl_group *world, int leader, sl_groups *groups) {
    int rank = sl_group_rank(world);
    sl_run_position position = sl_run_position_of(run, rank);
    int replicas = run->parallel.data, tensors = run->parallel.tensor;
    *groups = (sl_groups){.position = position, .leader = leader, .world = world};
    SL_TRY(sl_group_split(world, position.replica * tensors + position.tensor, rank, SL_WAIT_LONG,
                          &groups->pipeline));
    SL_TRY(sl_group_split(world, sl_run_first_rank(run, position.pipeline) * tensors + position.tensor, rank,
                          SL_WAIT_SHORT, &groups->data));
    return sl_group_split(world, position.pipeline * replicas + position.replica, rank, SL_WAIT_SHORT,
                          &groups->tensor);
}

void sl_groups_close(sl_groups *groups) {
    sl_group_close(groups->tensor);
    sl_group_close(groups->data);
    sl_group_close(groups->pipeline);
    *groups = (sl_groups){0};
}

sl_status sl_groups_end(sl_groups *groups) {
    sl_group **each[] = {&groups->tensor, &groups->data, &groups->pipeline};
    for (int i = 0; i < 3; i++) {
        sl_group *group = *each[i];
        *each[i] = NULL;
        SL_TRY(sl_group_end(group));
    }
    *groups = (sl_groups){0};
    return SL_OK;
}
