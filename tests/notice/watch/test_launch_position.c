/* Where a process stands in a job, from what each launcher puts into the environment, and what keeps the
 * probe out of a program. */
#include "check.h"
#include "notice/watch/launch_position.h"
#include "notice/watch/watched_program.h"

#include <sys/stat.h>
#include <unistd.h>

static void set(const char *const *pairs) {
    clearenv();
    setenv("PATH", "/usr/bin:/bin", 1);
    for (; *pairs; pairs += 2)
        setenv(pairs[0], pairs[1], 1);
}

static sl_launch_position place_of(const char *const *pairs) {
    sl_launch_position place;
    set(pairs);
    sl_launch_position_find("/tmp", &place);
    return place;
}

static void a_command_without_a_launcher_is_alone(void **state) {
    (void)state;
    sl_launch_position p = place_of((const char *const[]){NULL});
    assert_false(p.inside);
    assert_false(p.several);
    assert_int_equal(p.rank, 0);
    assert_int_equal(p.size, 1);
    assert_int_equal(p.local_rank, 0);
}

static void a_batch_script_of_slurm_is_no_rank(void **state) {
    (void)state;
    sl_launch_position p =
        place_of((const char *const[]){"SLURM_JOB_ID", "12", "SLURM_PROCID", "0", "SLURM_NNODES", "4", NULL});
    assert_false(p.inside);
    p = place_of((const char *const[]){"SLURM_JOB_ID", "12", "SLURM_STEP_ID", "4294967291", "SLURM_PROCID",
                                       "0", NULL});
    assert_false(p.inside);
}

static void a_task_of_srun_is_a_rank(void **state) {
    (void)state;
    sl_launch_position p = place_of(
        (const char *const[]){"SLURM_JOB_ID", "12", "SLURM_STEP_ID", "3", "SLURM_PROCID", "5", "SLURM_NTASKS",
                              "8", "SLURM_LOCALID", "1", "SLURM_STEP_NUM_NODES", "2", NULL});
    assert_true(p.inside);
    assert_true(p.several);
    assert_int_equal(p.rank, 5);
    assert_int_equal(p.size, 8);
    assert_int_equal(p.local_rank, 1);
    assert_string_equal(p.job, "12.3");
}

static void a_rank_of_open_mpi_knows_whether_there_are_other_nodes(void **state) {
    (void)state;
    sl_launch_position p = place_of((const char *const[]){
        "PMIX_NAMESPACE", "31337", "OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "4",
        "OMPI_COMM_WORLD_LOCAL_SIZE", "4", "OMPI_COMM_WORLD_LOCAL_RANK", "3", NULL});
    assert_true(p.inside);
    assert_false(p.several);
    assert_string_equal(p.job, "31337");
    p = place_of((const char *const[]){"PMIX_NAMESPACE", "31337", "OMPI_COMM_WORLD_RANK", "3",
                                       "OMPI_COMM_WORLD_SIZE", "8", "OMPI_COMM_WORLD_LOCAL_SIZE", "4",
                                       "OMPI_COMM_WORLD_LOCAL_RANK", "3", NULL});
    assert_true(p.several);
}

static void ranks_of_a_launcher_that_names_no_job_share_a_name(void **state) {
    (void)state;
    sl_launch_position a = place_of((const char *const[]){"PMI_RANK", "0", "PMI_SIZE", "2", "MPI_LOCALNRANKS",
                                                          "2", "MPI_LOCALRANKID", "0", NULL});
    sl_launch_position b = place_of((const char *const[]){"PMI_RANK", "1", "PMI_SIZE", "2", "MPI_LOCALNRANKS",
                                                          "2", "MPI_LOCALRANKID", "1", NULL});
    char first[200], second[200];
    sl_launch_position_folder(&a, first, sizeof first);
    sl_launch_position_folder(&b, second, sizeof second);
    assert_true(a.inside);
    assert_string_equal(first, second);
    assert_string_equal(a.job, b.job);
    assert_null(strchr(first, '/'));
}

static void a_rank_of_torchrun_knows_its_place(void **state) {
    (void)state;
    sl_launch_position a = place_of((const char *const[]){"TORCHELASTIC_RUN_ID",
                                                          "none",
                                                          "RANK",
                                                          "3",
                                                          "WORLD_SIZE",
                                                          "4",
                                                          "LOCAL_RANK",
                                                          "1",
                                                          "LOCAL_WORLD_SIZE",
                                                          "2",
                                                          "MASTER_ADDR",
                                                          "10.0.0.1",
                                                          "MASTER_PORT",
                                                          "29500",
                                                          "TORCHELASTIC_RESTART_COUNT",
                                                          "0",
                                                          "SLURM_JOB_ID",
                                                          "12",
                                                          "SLURM_STEP_ID",
                                                          "3",
                                                          "SLURM_PROCID",
                                                          "1",
                                                          NULL});
    assert_true(a.inside);
    assert_true(a.several);
    assert_int_equal(a.rank, 3);
    assert_int_equal(a.size, 4);
    assert_int_equal(a.local_rank, 1);
    sl_launch_position b = place_of((const char *const[]){
        "TORCHELASTIC_RUN_ID", "none", "RANK", "0", "WORLD_SIZE", "4", "LOCAL_RANK", "0", "LOCAL_WORLD_SIZE",
        "4", "MASTER_ADDR", "10.0.0.1", "MASTER_PORT", "29500", "TORCHELASTIC_RESTART_COUNT", "0", NULL});
    assert_false(b.several);
    assert_string_equal(a.job, b.job);
    setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
    sl_launch_position_find("/tmp", &b);
    assert_string_not_equal(a.job, b.job);
    setenv("WORLD_SIZE", "many", 1);
    sl_launch_position_find("/tmp", &b);
    assert_false(b.inside);
}

static void ranks_with_the_variables_of_torch_meet(void **state) {
    (void)state;
    const char *const pairs[] = {"RANK",     "1",           "WORLD_SIZE", "2", "MASTER_ADDR",
                                 "10.0.0.1", "MASTER_PORT", "29500",      NULL};
    sl_launch_position p = place_of(pairs);
    assert_true(p.inside);
    assert_true(p.several);
    assert_int_equal(p.rank, 1);
    assert_int_equal(p.local_rank, -1);
    setenv("OMPI_COMM_WORLD_RANK", "3", 1);
    sl_launch_position_find("/tmp", &p);
    assert_int_equal(p.rank, 3); /* the launcher knows it better */
    p = place_of((const char *const[]){"RANK", "1", "WORLD_SIZE", "2", NULL}); /* may mean anything */
    assert_false(p.inside);
}

static void a_name_from_outside_makes_no_path(void **state) {
    (void)state;
    sl_launch_position p =
        place_of((const char *const[]){"PMIX_NAMESPACE", "prterun-../../x:y@1", "OMPI_COMM_WORLD_RANK", "0",
                                       "OMPI_COMM_WORLD_SIZE", "1", "OMPI_COMM_WORLD_LOCAL_SIZE", "1", NULL});
    char name[200];
    sl_launch_position_folder(&p, name, sizeof name);
    assert_null(strchr(name, '/'));
    assert_null(strchr(p.job, ':'));
}

/* ---- what keeps the probe out ---- */

typedef struct files {
    char folder[64], path[128];
} files;

static int make(void **state) {
    static files f;
    snprintf(f.folder, sizeof f.folder, "/tmp/slackline-place-XXXXXX");
    assert_non_null(mkdtemp(f.folder));
    set((const char *const[]){NULL});
    *state = &f;
    return 0;
}

static int clear(void **state) {
    files *f = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", f->folder);
    return system(command);
}

static void write_program(files *f, const char *name, const char *text) {
    snprintf(f->path, sizeof f->path, "%s/%s", f->folder, name);
    FILE *out = fopen(f->path, "w");
    fputs(text, out);
    fclose(out);
    chmod(f->path, 0755);
}

/* A static program, compiled here; "" where the system has no static libc. */
static void compile(files *f, const char *name, const char *options) {
    char source[128], command[512];
    snprintf(source, sizeof source, "%s/%s.c", f->folder, name);
    FILE *out = fopen(source, "w");
    fputs("int main(void) { return 0; }\n", out);
    fclose(out);
    snprintf(f->path, sizeof f->path, "%s/%s", f->folder, name);
    snprintf(command, sizeof command, "cc %s -o %s %s 2>/dev/null", options, f->path, source);
    if (system(command) != 0) {
        print_message("skipped: no program can be linked with %s\n", options);
        skip();
    }
}

static void examine(char *first, char *second, char *text, size_t size) {
    char *const command[] = {first, second, NULL};
    sl_program_examine(command, text, size);
}

static void a_dynamic_program_is_not_complained_of(void **state) {
    (void)state;
    char text[256];
    examine((char *)"sh", NULL, text, sizeof text);
    assert_string_equal(text, "");
    examine((char *)"no-such-program", NULL, text, sizeof text);
    assert_string_equal(text, "");
}

static void a_static_program_is_named(void **state) {
    char text[256];
    compile(*state, "fixed", "-static");
    examine(((files *)*state)->path, NULL, text, sizeof text);
    assert_int_equal(strstr(text, "fixed ") == NULL, 0);
    compile(*state, "pie", "-static-pie");
    examine(((files *)*state)->path, NULL, text, sizeof text);
    assert_int_equal(strstr(text, "pie ") == NULL, 0);
}

static void a_static_program_behind_a_launcher_is_named(void **state) {
    files *f = *state;
    char text[256], launcher[128];
    write_program(f, "mpirun", "#!/bin/sh\n");
    snprintf(launcher, sizeof launcher, "%s", f->path);
    compile(f, "fixed", "-static");
    char *const command[] = {launcher,       (char *)"-np", (char *)"4", (char *)"--bind-to",
                             (char *)"none", f->path,       NULL};
    assert_int_equal(sl_program_word(command), 5);
    sl_program_examine(command, text, sizeof text);
    assert_int_equal(strstr(text, "fixed ") == NULL, 0);
    char *const dynamic[] = {launcher, (char *)"-np", (char *)"4", (char *)"sh", f->path, NULL};
    sl_program_examine(dynamic, text, sizeof text); /* an argument of the program is not the program */
    assert_string_equal(text, "");
}

static void a_script_is_judged_by_its_interpreter(void **state) {
    files *f = *state;
    char text[256], line[300], fixed[128];
    write_program(f, "shell", "#!/usr/bin/env sh\nexit 0\n");
    examine(f->path, NULL, text, sizeof text);
    assert_string_equal(text, "");
    compile(f, "fixed", "-static");
    snprintf(fixed, sizeof fixed, "%s", f->path);
    snprintf(line, sizeof line, "#!%s -x\n", fixed);
    write_program(f, "script", line);
    examine(f->path, NULL, text, sizeof text);
    assert_true(*text);
}

static void a_program_with_other_rights_is_named(void **state) {
    files *f = *state;
    char text[256];
    compile(f, "rights", "");
    if (chown(f->path, 12345, (gid_t)-1) != 0) {
        print_message("skipped: only root can give a file away\n");
        skip();
    }
    chmod(f->path, 04755);
    examine(f->path, NULL, text, sizeof text);
    assert_non_null(strstr(text, "set-uid"));
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, make, clear)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_without_a_launcher_is_alone),
        cmocka_unit_test(a_batch_script_of_slurm_is_no_rank),
        cmocka_unit_test(a_task_of_srun_is_a_rank),
        cmocka_unit_test(a_rank_of_open_mpi_knows_whether_there_are_other_nodes),
        cmocka_unit_test(ranks_of_a_launcher_that_names_no_job_share_a_name),
        cmocka_unit_test(a_rank_of_torchrun_knows_its_place),
        cmocka_unit_test(ranks_with_the_variables_of_torch_meet),
        cmocka_unit_test(a_name_from_outside_makes_no_path),
        WITH(a_dynamic_program_is_not_complained_of),
        WITH(a_static_program_is_named),
        WITH(a_static_program_behind_a_launcher_is_named),
        WITH(a_script_is_judged_by_its_interpreter),
        WITH(a_program_with_other_rights_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
