/* A controller in ten lines: an emulated pan-tilt head swings. Ctrl-C brings the robot down gently. */
#include <kilohertz.h>
#include <math.h>
#include <stdio.h>

static const char *swing(const khz_state *state, khz_command *command, void *user) {
  (void)user;
  for (size_t i = 0; i < command->servos; i++) command->position[i] = 0.3 * sin(state->time);
  return NULL;
}

static int failed(void) {
  fprintf(stderr, "%s\n", khz_last_error());
  return 1;
}

int main(int argc, char **argv) {
  khz_robot *robot = khz_robot_load(argc > 1 ? argv[1] : "robots/pan_tilt.toml");
  if (robot == NULL) return failed();
  khz_robot_set_controller(robot, NULL, swing, NULL);
  if (argc > 2) khz_robot_set_virtual_time(robot, true); /* ten_lines ROBOT.toml virtual */
  khz_robot_set_duration(robot, 5.0);
  khz_run *run = khz_robot_run(robot);
  if (run == NULL || khz_run_wait(run) != KHZ_OK) return failed();
  printf("%s", khz_run_table(run));
  khz_run_free(run);
  khz_robot_free(robot);
  return 0;
}
