/* Wrong use of the C interface: every call is refused with an error, and the robot still comes down. */
#include <kilohertz.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                     \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #condition, khz_last_error()); \
      exit(1);                                                                                \
    }                                                                                         \
  } while (0)

static bool error_has(const char *text) { return strstr(khz_last_error(), text) != NULL; }

static const char *LEG =
    "[bus.leg]\nlink = \"emulated\"\n[[servo]]\nname = \"hip\"\nbus = \"leg\"\nid = 1\n[[servo]]\nname = \"knee\"\nbus = \"leg\"\nid = 2\n"
    "[controller]\nname = \"hold\"\n[parameters.from_file]\nvalue = 0.25\nmin = 0.0\nmax = 1.0\n";

/* In virtual time, so that a slow machine is no fault. */
static khz_robot *endless(void) {
  khz_robot *robot = khz_robot_parse(LEG, "leg.toml");
  EXPECT(robot != NULL);
  EXPECT(khz_robot_set_log(robot, NULL) == KHZ_OK);
  EXPECT(khz_robot_set_virtual_time(robot, true) == KHZ_OK);
  return robot;
}

static khz_robot *leg(void) {
  khz_robot *robot = endless();
  EXPECT(khz_robot_set_duration(robot, 0.5) == KHZ_OK);
  return robot;
}

static void null_everywhere(void) {
  double number;
  uint8_t id;
  khz_target target = {0};
  EXPECT(khz_robot_load(NULL) == NULL && khz_last_status() == KHZ_INVALID && error_has("path is NULL"));
  EXPECT(khz_robot_parse(NULL, "x") == NULL && khz_robot_parse("", NULL) == NULL);
  EXPECT(khz_robot_name(NULL) == NULL && isnan(khz_robot_rate_hz(NULL)) && !khz_robot_has_imu(NULL));
  EXPECT(khz_robot_warnings(NULL) == NULL && khz_robot_servo_count(NULL) == 0 && khz_robot_servo_name(NULL, 0) == NULL);
  EXPECT(khz_robot_servo(NULL, "hip") == -1 && khz_robot_limits(NULL, 0, &number, &number) == KHZ_INVALID);
  EXPECT(khz_robot_set_controller(NULL, NULL, NULL, NULL) == KHZ_INVALID && khz_robot_set_duration(NULL, 1.0) == KHZ_INVALID);
  EXPECT(khz_robot_set_virtual_time(NULL, true) == KHZ_INVALID && khz_robot_set_log(NULL, NULL) == KHZ_INVALID);
  EXPECT(khz_robot_set_decisions(NULL, 50, 0, 2) == KHZ_INVALID);
  EXPECT(khz_robot_set_seed(NULL, 1) == KHZ_INVALID && khz_robot_parameter(NULL, "x") == -1);
  EXPECT(khz_robot_add_parameter(NULL, "x", KHZ_FLOAT, 0, 0, 1, NULL, NULL) == -1 && khz_robot_add_record(NULL, "x", NULL, 0) == -1);
  EXPECT(khz_robot_start(NULL) == NULL && khz_robot_run(NULL) == NULL && error_has("robot is NULL"));
  EXPECT(khz_run_stop(NULL) == KHZ_INVALID && !khz_run_is_over(NULL) && khz_run_arm(NULL) == KHZ_INVALID);
  EXPECT(khz_run_wait(NULL) == KHZ_INVALID && khz_run_summary(NULL) == NULL && khz_run_table(NULL) == NULL);
  EXPECT(khz_run_end(NULL) == NULL && khz_run_report(NULL, "x") == KHZ_INVALID && khz_run_parameters(NULL) == NULL);
  EXPECT(khz_run_get_parameter(NULL, "x", &number) == KHZ_INVALID && khz_run_set_parameter(NULL, "x", 0.0) == KHZ_INVALID);
  EXPECT(khz_run_targets(NULL, "x", 5) == NULL && khz_targets_now_ns(NULL) == 0 && khz_targets_send(NULL, NULL, 1) == KHZ_INVALID);
  EXPECT(khz_targets_hold(NULL, 1.0) == KHZ_INVALID && khz_targets_release(NULL) == KHZ_INVALID && khz_targets_status(NULL) == NULL);
  khz_targets_free(NULL);
  EXPECT(khz_desk_open(NULL) == NULL && khz_desk_scan(NULL, 0, 1, 0.1, &id, 1) == -1);
  EXPECT(khz_desk_query(NULL, 0, 0.1, NULL) == KHZ_INVALID && khz_desk_stop(NULL, 0, 0.1, NULL) == KHZ_INVALID);
  EXPECT(khz_desk_position(NULL, 0, &target, NAN, 0.1, NULL) == KHZ_INVALID);
  EXPECT(khz_state_fault_text(NULL, 0, NULL, 0) == 0 && !khz_state_record(NULL, 0, NULL, 0));
  khz_robot_free(NULL);
  khz_run_free(NULL);
  khz_desk_free(NULL);
  khz_string_free(NULL);
}

static void wrong_files_and_values(void) {
  EXPECT(khz_robot_load("nowhere.toml") == NULL && khz_last_status() == KHZ_ERROR && error_has("nowhere.toml"));
  EXPECT(khz_robot_parse("[bus.a]\nlink = \"no such\"\n", "broken.toml") == NULL && khz_last_status() == KHZ_CONFIG);
  EXPECT(error_has("broken.toml"));
  EXPECT(khz_robot_parse("\xff", "x") == NULL && khz_last_status() == KHZ_INVALID && error_has("UTF-8"));
  khz_robot *robot = leg();
  double min = 0.0;
  double max = 0.0;
  EXPECT(khz_robot_servo(robot, "knee") == 1 && khz_robot_servo(robot, "ear") == -1 && error_has("`hip`, `knee`"));
  EXPECT(khz_robot_servo_name(robot, 2) == NULL && error_has("out of range"));
  EXPECT(khz_robot_limits(robot, 9, &min, &max) == KHZ_INVALID && khz_robot_limits(robot, 0, NULL, &max) == KHZ_INVALID);
  EXPECT(khz_robot_set_duration(robot, -1.0) == KHZ_INVALID && khz_robot_set_duration(robot, NAN) == KHZ_INVALID);
  EXPECT(khz_robot_set_duration(robot, 0.0) == KHZ_INVALID && khz_robot_set_duration(robot, INFINITY) == KHZ_INVALID);
  EXPECT(khz_robot_set_decisions(robot, 0.0, 0, 2) == KHZ_INVALID && khz_robot_set_decisions(robot, NAN, 0, 2) == KHZ_INVALID);
  EXPECT(khz_robot_set_decisions(robot, 50.0, 1000000, 2) == KHZ_INVALID && error_has("delay_ticks"));
  EXPECT(khz_robot_add_parameter(robot, "x", (khz_kind)3, 0, 0, 1, NULL, NULL) == -1 && error_has("kind is 3"));
  EXPECT(khz_robot_add_parameter(robot, "x", KHZ_INTEGER, 0.5, 0, 1, NULL, NULL) == -1 && error_has("whole"));
  EXPECT(khz_robot_parameter(robot, "from_file") == 0 && khz_robot_parameter(robot, "x") == -1 && error_has("[parameters]"));
  EXPECT(khz_robot_add_record(robot, "empty", NULL, 1) == -1 && error_has("no fields"));
  khz_robot_free(robot);
}

struct within {
  khz_robot *robot;
  khz_run *run;
  int calls;
  khz_status refused[6];
};

static const char *calls_what_blocks(const khz_state *state, khz_command *command, void *user) {
  struct within *within = user;
  (void)command;
  double value;
  if (state->time > 0.4 && within->calls == 0) {
    within->calls = 1;
    within->refused[0] = khz_run_wait(NULL);
    within->refused[1] = khz_robot_set_duration(within->robot, 1.0);
    within->refused[2] = khz_run_get_parameter(NULL, "x", &value);
    khz_robot_free(within->robot);
    within->refused[3] = khz_last_status();
    within->refused[4] = khz_robot_start(within->robot) == NULL ? khz_last_status() : KHZ_OK;
    within->refused[5] = khz_state_record(state, 0, NULL, 1) || khz_state_record(state, -1, NULL, 1) ? KHZ_OK : KHZ_IN_CONTROLLER;
  }
  return NULL;
}

static void blocking_within_the_controller(void) {
  struct within within = {.robot = leg()};
  EXPECT(khz_robot_set_controller(within.robot, NULL, calls_what_blocks, &within) == KHZ_OK);
  khz_run *run = khz_robot_start(within.robot);
  EXPECT(run != NULL && khz_run_wait(run) == KHZ_OK && within.calls == 1);
  for (size_t i = 0; i < 6; i++) EXPECT(within.refused[i] == KHZ_IN_CONTROLLER);
  khz_run_free(run);
  khz_robot_free(within.robot);
}

static const char *stops_itself(const khz_state *state, khz_command *command, void *user) {
  khz_run **run = user;
  (void)command;
  if (state->tick > 100 && *run != NULL) {
    khz_run_stop(*run);
    khz_run_stop(*run);
    khz_run_free(*run); /* refused */
  }
  return NULL;
}

static const char *FOLLOWS =
    "[bus.leg]\nlink = \"emulated\"\n[servo_defaults]\nbus = \"leg\"\nlimits = { position = [-1, 1], velocity = 3 }\n"
    "[[servo]]\nname = \"hip\"\nid = 1\n[[servo]]\nname = \"knee\"\nid = 2\n[controller]\nname = \"targets\"\n"
    "[supervisor.reactions]\ntargets = \"warn\"\n";

static void targets_that_are_none(void) {
  khz_robot *robot = khz_robot_quadruped();
  EXPECT(robot != NULL && khz_robot_set_log(robot, NULL) == KHZ_OK && khz_robot_set_virtual_time(robot, true) == KHZ_OK);
  khz_run *run = khz_robot_start(robot);
  EXPECT(run != NULL && khz_run_targets(run, "mine", 5) == NULL && error_has("does not follow targets"));
  khz_run_free(run);
  khz_robot_free(robot);
  robot = khz_robot_parse(FOLLOWS, "arm.toml");
  EXPECT(robot != NULL && khz_robot_set_log(robot, NULL) == KHZ_OK && khz_robot_set_virtual_time(robot, true) == KHZ_OK);
  run = khz_robot_start(robot);
  EXPECT(run != NULL && khz_run_targets(run, "", 5) == NULL && khz_run_targets(run, "mine", 10) == NULL && error_has("0 to 9"));
  khz_targets *targets = khz_run_targets(run, "mine", 5);
  EXPECT(targets != NULL && khz_targets_servo_count(targets) == 2 && khz_targets_send(targets, NULL, 1) == KHZ_INVALID);
  const double still[] = {0.1, -0.1};
  const double none[] = {NAN, 0.0};
  khz_point points[2] = {{.at_ns = 0, .position = still}, {.at_ns = 1, .position = still, .velocity = still}};
  EXPECT(khz_targets_send(targets, points, 0) == KHZ_INVALID && khz_targets_send(targets, points, 257) == KHZ_INVALID);
  EXPECT(khz_targets_send(targets, points, 2) == KHZ_INVALID && error_has("velocity must be there in all points"));
  points[0].position = none;
  EXPECT(khz_targets_send(targets, points, 1) == KHZ_INVALID && error_has("not finite"));
  points[0].position = still;
  EXPECT(khz_targets_hold(targets, NAN) == KHZ_INVALID && khz_targets_hold(targets, -1.0) == KHZ_INVALID);
  do {
    points[0].at_ns = khz_targets_now_ns(targets);
    /* It is not active yet, and then that was a flood. */
  } while (khz_targets_send(targets, points, 1) == KHZ_NOT_NOW);
  char *status = khz_targets_status(targets);
  EXPECT(status != NULL && strstr(status, "\"taken\":1") != NULL && khz_targets_hold(targets, 1.0) == KHZ_OK);
  khz_string_free(status);
  EXPECT(khz_targets_release(targets) == KHZ_OK && khz_run_stop(run) == KHZ_OK && khz_run_wait(run) == KHZ_OK);
  EXPECT(khz_targets_send(targets, points, 1) == KHZ_NOT_NOW);
  khz_run_free(run);
  khz_targets_free(targets);
  khz_robot_free(robot);
}

static void stop_from_the_controller_and_twice(void) {
  khz_run *known = NULL;
  khz_robot *robot = endless();
  EXPECT(khz_robot_set_controller(robot, NULL, stops_itself, (void *)&known) == KHZ_OK);
  khz_run *run = khz_robot_start(robot);
  EXPECT(run != NULL && khz_run_summary(run) == NULL && khz_last_status() == KHZ_NOT_NOW);
  __atomic_store_n(&known, run, __ATOMIC_SEQ_CST);
  EXPECT(khz_run_wait(run) == KHZ_OK && khz_run_is_over(run));
  EXPECT(khz_run_stop(run) == KHZ_OK && khz_run_stop(run) == KHZ_OK && khz_run_wait(run) == KHZ_OK);
  EXPECT(khz_run_arm(run) == KHZ_NOT_NOW && strstr(khz_run_summary(run), "\"ended_well\":true") != NULL);
  khz_run_free(run);
  khz_robot_free(robot);
}

static const char *finishes(const khz_state *state, khz_command *command, void *user) {
  (void)user;
  command->finish = state->time > 0.3;
  return NULL;
}

static void the_controller_finishes(void) {
  khz_robot *robot = leg();
  EXPECT(khz_robot_set_duration(robot, 1e6) == KHZ_OK && khz_robot_set_controller(robot, NULL, finishes, NULL) == KHZ_OK);
  khz_run *run = khz_robot_start(robot);
  EXPECT(khz_run_wait(run) == KHZ_OK && strcmp(khz_run_end(run), "finished") == 0);
  khz_run_free(run);
  khz_robot_free(robot);
}

static const char *gives_up(const khz_state *state, khz_command *command, void *user) {
  (void)command;
  (void)user;
  return state->time > 0.3 ? "the knee smells burnt" : NULL;
}

static const char *no_number(const khz_state *state, khz_command *command, void *user) {
  (void)user;
  if (state->time > 0.3) command->position[1] = NAN;
  return NULL;
}

static const char *unknown_mode(const khz_state *state, khz_command *command, void *user) {
  (void)user;
  if (state->time > 0.3) command->mode[0] = 17;
  return NULL;
}

static const char *not_this_one(const khz_state *state, void *user) {
  (void)state;
  (void)user;
  return "not from here";
}

static void faults_have_texts(void) {
  const struct {
    khz_start start;
    khz_update update;
    const char *text;
  } faults[] = {{NULL, gives_up, "the knee smells burnt"},
                {NULL, no_number, "knee: position is NaN; it must be a finite number"},
                {NULL, unknown_mode, "hip: mode is 17"},
                {not_this_one, gives_up, "not from here"}};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    khz_robot *robot = leg();
    EXPECT(khz_robot_set_controller(robot, faults[i].start, faults[i].update, NULL) == KHZ_OK);
    khz_run *run = khz_robot_start(robot);
    EXPECT(khz_run_wait(run) == KHZ_BROUGHT_DOWN && error_has(faults[i].text));
    EXPECT(khz_run_wait(run) == KHZ_BROUGHT_DOWN && strstr(khz_run_end(run), faults[i].text) != NULL);
    khz_run_free(run);
    khz_robot_free(robot);
  }
}

/* An index one too far, or one too few, in one of the arrays. */
struct beyond {
  size_t array;
  bool is_before;
  int calls_after;
};

static const char *writes_beyond(const khz_state *state, khz_command *command, void *user) {
  struct beyond *beyond = user;
  if (state->time < 0.3) return NULL;
  beyond->calls_after++;
  double *const arrays[] = {command->position, command->velocity, command->torque,
                            command->kp_scale, command->kd_scale, command->max_torque};
  const ptrdiff_t at = beyond->is_before ? -1 : (ptrdiff_t)command->servos;
  if (beyond->array < 6) {
    arrays[beyond->array][at] = 0.5;
  } else {
    command->mode[at] = KHZ_POSITION;
  }
  return NULL;
}

static void an_index_one_too_far_moves_no_other_servo(void) {
  const char *names[] = {"position", "velocity", "torque", "kp_scale", "kd_scale", "max_torque", "mode"};
  for (size_t array = 0; array < 7; array++) {
    for (int is_before = 0; is_before < 2; is_before++) {
      struct beyond beyond = {.array = array, .is_before = is_before};
      char text[80];
      /* Between two arrays it is the first whose end is named. */
      const char *name = is_before && array > 0 && array < 6 ? names[array - 1] : names[array];
      const char *where = is_before && (array == 0 || array == 6) ? "before the start" : "past the end";
      snprintf(text, sizeof text, "the controller wrote %s of `%s`", where, name);
      khz_robot *robot = leg();
      EXPECT(khz_robot_set_controller(robot, NULL, writes_beyond, &beyond) == KHZ_OK);
      khz_run *run = khz_robot_start(robot);
      EXPECT(khz_run_wait(run) == KHZ_BROUGHT_DOWN && error_has(text) && beyond.calls_after == 1);
      khz_run_free(run);
      khz_robot_free(robot);
    }
  }
}

static void what_cannot_start_says_why(void) {
  khz_robot *robot = leg();
  EXPECT(khz_robot_set_controller(robot, NULL, gives_up, NULL) == KHZ_OK);
  EXPECT(khz_robot_set_log(robot, "/") == KHZ_OK && khz_robot_start(robot) == NULL && khz_last_status() == KHZ_START);
  EXPECT(error_has("a folder"));
  EXPECT(khz_robot_set_log(robot, "/dev/full") == KHZ_OK && khz_robot_start(robot) == NULL && error_has("device"));
  khz_robot_free(robot);
  /* What no controller of the program's own would use. */
  khz_field field = {"x", NULL};
  for (int is_record = 0; is_record < 2; is_record++) {
    robot = khz_robot_quadruped();
    EXPECT(khz_robot_set_virtual_time(robot, true) == KHZ_OK && khz_robot_set_log(robot, NULL) == KHZ_OK);
    if (is_record) {
      EXPECT(khz_robot_add_record(robot, "mine", &field, 1) == 0);
    } else {
      EXPECT(khz_robot_add_parameter(robot, "mine", KHZ_FLOAT, 0.0, 0.0, 1.0, NULL, NULL) == 0);
    }
    EXPECT(khz_robot_start(robot) == NULL && khz_last_status() == KHZ_START && error_has("khz_robot_set_controller"));
    khz_robot_free(robot);
  }
}

static void a_declaration_is_checked_where_it_is_made(void) {
  khz_robot *robot = leg();
  const double big = 1e19;
  const struct {
    const char *name;
    khz_kind kind;
    double value, min, max;
    const char *text;
  } parameters[] = {{"no good", KHZ_FLOAT, 0, 0, 1, "no good"},
                    {"", KHZ_FLOAT, 0, 0, 1, "cannot name"},
                    {"9a", KHZ_FLOAT, 0, 0, 1, "9a"},
                    {"x", KHZ_FLOAT, NAN, 0, 1, "x: NaN"},
                    {"x", KHZ_FLOAT, 0, NAN, 1, "no range"},
                    {"x", KHZ_FLOAT, 0, 1, 0, "no range"},
                    {"x", KHZ_FLOAT, 5, 0, 1, "x: 5 is outside 0 to 1"},
                    {"x", KHZ_FLOAT, 0, -(double)INFINITY, (double)INFINITY, "no range"},
                    {"x", KHZ_INTEGER, 0, -big, big, "whole numbers go up to"},
                    {"x", KHZ_BOOLEAN, 2, 0, 0, "must be 0 or 1"},
                    {"x", KHZ_BOOLEAN, NAN, 0, 0, "must be 0 or 1"},
                    {"there", KHZ_FLOAT, 0, 0, 1, "two parameters are called `there`"}};
  EXPECT(khz_robot_add_parameter(robot, "there", KHZ_FLOAT, 0, 0, 1, NULL, NULL) == 1);
  for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
    const khz_kind kind = parameters[i].kind;
    EXPECT(khz_robot_add_parameter(robot, parameters[i].name, kind, parameters[i].value, parameters[i].min, parameters[i].max, NULL,
                                   NULL) == -1);
    EXPECT(khz_last_status() == KHZ_INVALID && error_has(parameters[i].text));
  }
  const khz_field good[] = {{"a", "rad"}, {"b", NULL}};
  const khz_field twins[] = {{"a", "rad"}, {"a", "rad"}};
  const khz_field unnamed[] = {{"", NULL}};
  EXPECT(khz_robot_add_record(robot, "there", good, 2) == 0);
  EXPECT(khz_robot_add_record(robot, "there", good, 2) == -1 && error_has("declared twice"));
  EXPECT(khz_robot_add_record(robot, "tick", good, 2) == -1 && error_has("tick"));
  EXPECT(khz_robot_add_record(robot, "recorder", good, 2) == -1 && khz_robot_add_record(robot, "", good, 2) == -1);
  EXPECT(khz_robot_add_record(robot, "a\n", good, 2) == -1 && khz_robot_add_record(robot, "x", unnamed, 1) == -1 && error_has("name a field"));
  EXPECT(khz_robot_add_record(robot, "x", twins, 2) == -1 && khz_last_status() == KHZ_INVALID && error_has("two fields are called `a`"));
  /* What was refused has left nothing behind. */
  EXPECT(khz_robot_add_record(robot, "x", good, 2) == 1 && khz_robot_add_parameter(robot, "x", KHZ_BOOLEAN, 1, 0, 0, NULL, NULL) == 2);
  khz_robot_free(robot);
}

struct seen {
  ptrdiff_t indices[3];
  double values[3];
};

static const char *reads_parameters(const khz_state *state, khz_command *command, void *user) {
  struct seen *seen = user;
  (void)command;
  for (size_t i = 0; i < 3; i++) seen->values[i] = state->parameters[seen->indices[i]];
  return NULL;
}

static void an_index_stays_when_more_parameters_are_declared(void) {
  khz_robot *robot = leg();
  struct seen seen;
  seen.indices[0] = khz_robot_parameter(robot, "from_file");
  seen.indices[1] = khz_robot_add_parameter(robot, "gain", KHZ_FLOAT, 50.0, 0.0, 100.0, NULL, NULL);
  EXPECT(khz_robot_parameter(robot, "from_file") == seen.indices[0] && khz_robot_parameter(robot, "gain") == seen.indices[1]);
  /* The program's, with the value of the file. */
  seen.indices[2] = khz_robot_add_parameter(robot, "from_file", KHZ_FLOAT, 0.75, 0.0, 1.0, NULL, NULL);
  EXPECT(khz_robot_set_controller(robot, NULL, reads_parameters, &seen) == KHZ_OK);
  khz_run *run = khz_robot_start(robot);
  EXPECT(run != NULL && khz_run_wait(run) == KHZ_OK);
  EXPECT(seen.values[0] == 0.25 && seen.values[1] == 50.0 && seen.values[2] == 0.25);
  khz_run_free(run);
  khz_robot_free(robot);
}

static void a_report_needs_a_file(void) {
  khz_robot *robot = leg();
  EXPECT(khz_robot_set_controller(robot, NULL, finishes, NULL) == KHZ_OK);
  khz_run *run = khz_robot_start(robot);
  EXPECT(khz_run_wait(run) == KHZ_OK);
  EXPECT(khz_run_report(run, "/dev/full") == KHZ_ERROR && error_has("/dev/full: it is a folder, a device"));
  EXPECT(khz_run_report(run, "/tmp") == KHZ_ERROR && error_has("/tmp: it is a folder, a device"));
  khz_run_free(run);
  khz_robot_free(robot);
}

static void parameters_of_a_run(void) {
  khz_robot *robot = endless();
  EXPECT( khz_robot_set_controller(robot, NULL, finishes, NULL) == KHZ_OK);
  EXPECT(khz_robot_add_parameter(robot, "gain", KHZ_FLOAT, 0.5, 0.0, 1.0, "Nm", "How stiff") == 1);
  khz_run *run = khz_robot_start(robot);
  double value = 0.0;
  EXPECT(khz_run_get_parameter(run, "gain", &value) == KHZ_OK && value == 0.5);
  EXPECT(khz_run_get_parameter(run, "ear", &value) == KHZ_INVALID && error_has("gain, from_file"));
  EXPECT(khz_run_set_parameter(run, "ear", 0.1) == KHZ_INVALID && khz_run_set_parameter(run, "gain", 1.5) == KHZ_INVALID);
  EXPECT(khz_run_set_parameter(run, "gain", NAN) == KHZ_INVALID && error_has("gain"));
  EXPECT(khz_run_wait(run) == KHZ_OK && khz_run_set_parameter(run, "gain", 0.1) == KHZ_INVALID && error_has("down"));
  char *all = khz_run_parameters(run);
  EXPECT(all != NULL && strstr(all, "How stiff") != NULL);
  khz_string_free(all);
  khz_run_free(run);
  khz_robot_free(robot);
}

static void a_run_that_is_only_freed_comes_down(void) {
  khz_robot *robot = endless();
  khz_run *run = khz_robot_start(robot);
  khz_robot_free(robot);
  khz_run_free(run);
}

static void servos_by_hand(void) {
  khz_robot *robot = leg();
  khz_desk *desk = khz_desk_open(robot);
  uint8_t ids[1];
  khz_reply reply;
  khz_target target = {.position = (double)INFINITY};
  EXPECT(khz_desk_scan(desk, 0, 3, 0.5, ids, 1) == 2 && ids[0] == 1 && khz_desk_scan(desk, 0, 3, 0.5, NULL, 0) == 2);
  EXPECT(khz_desk_scan(desk, 1, 3, 0.5, ids, 1) == -1 && error_has("bus 1") && khz_desk_scan(desk, 0, 3, NAN, ids, 1) == -1);
  EXPECT(khz_desk_scan(desk, 0, 3, 0.05, NULL, 1) == -1 && khz_desk_query(desk, 2, 0.1, &reply) == KHZ_INVALID && error_has("servo 2"));
  EXPECT(khz_desk_position(desk, 0, NULL, NAN, 1.0, NULL) == KHZ_INVALID);
  EXPECT(khz_desk_position(desk, 0, &target, NAN, 1.0, NULL) == KHZ_INVALID && error_has("position is inf"));
  const double watchdogs[] = {0.0, -1.0, (double)INFINITY};
  const khz_target here = {.position = 0.0, .kp_scale = 1.0, .kd_scale = 1.0, .max_torque = NAN};
  for (size_t i = 0; i < 3; i++) {
    EXPECT(khz_desk_position(desk, 0, &here, watchdogs[i], 1.0, NULL) == KHZ_INVALID && error_has("watchdog is"));
  }
  khz_target anywhere = {.position = NAN, .kp_scale = 1.0, .kd_scale = 1.0, .max_torque = NAN};
  EXPECT(khz_desk_position(desk, 0, &anywhere, 0.1, 1.0, NULL) == KHZ_INVALID && error_has("kp_scale 0"));
  anywhere.kp_scale = 0.0;
  EXPECT(khz_desk_position(desk, 0, &anywhere, 0.1, 1.0, NULL) == KHZ_OK && khz_desk_position(desk, 0, &here, NAN, 1.0, NULL) == KHZ_OK);
  EXPECT(khz_desk_query(desk, 0, -1.0, NULL) == KHZ_INVALID && khz_desk_query(desk, 0, 1.0, NULL) == KHZ_OK);
  khz_desk_free(desk);
  khz_robot_free(robot);
}

int main(void) {
  EXPECT(strcmp(khz_last_error(), "") == 0 && khz_last_status() == KHZ_OK);
  null_everywhere();
  wrong_files_and_values();
  blocking_within_the_controller();
  targets_that_are_none();
  stop_from_the_controller_and_twice();
  the_controller_finishes();
  faults_have_texts();
  an_index_one_too_far_moves_no_other_servo();
  what_cannot_start_says_why();
  a_declaration_is_checked_where_it_is_made();
  an_index_stays_when_more_parameters_are_declared();
  a_report_needs_a_file();
  parameters_of_a_run();
  a_run_that_is_only_freed_comes_down();
  servos_by_hand();
  puts("refused");
  return 0;
}
