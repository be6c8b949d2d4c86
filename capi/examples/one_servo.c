/* One servo by hand, without a loop: who is there, a command, its state. Here it is emulated; on a real bus only the robot's file
 * differs. Nothing watches over the robot: try it with the joint free to move. */
#define _POSIX_C_SOURCE 199309L
#include <kilohertz.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

static const char *ONE = "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"pan\"\nbus = \"main\"\nid = 1\n";

/* An answer takes some hundred microseconds; a busy computer more. */
static const double TIMEOUT = 1.0;

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, khz_last_error());
  return 1;
}

int main(void) {
  khz_robot *robot = khz_robot_parse(ONE, "one.toml");
  if (robot == NULL) return failed("robot file");
  khz_desk *desk = khz_desk_open(robot);
  if (desk == NULL) return failed("open");

  uint8_t ids[8];
  ptrdiff_t found = khz_desk_scan(desk, 0, 4, 0.05, ids, sizeof ids);
  if (found < 0) return failed("scan");
  for (ptrdiff_t i = 0; i < found; i++) printf("id %d answers\n", ids[i]);

  /* No watchdog (NaN), so that it follows although the command is not repeated. */
  khz_target target = {.position = 0.3, .kp_scale = 1.0, .kd_scale = 1.0, .max_torque = (double)NAN};
  if (khz_desk_position(desk, 0, &target, (double)NAN, TIMEOUT, NULL) != KHZ_OK) return failed("position");
  nanosleep(&(struct timespec){.tv_sec = 1}, NULL);

  khz_reply reply;
  if (khz_desk_query(desk, 0, TIMEOUT, &reply) != KHZ_OK) return failed("query");
  printf("at %.1f rad, %.0f V, fault: %s\n", reply.position, reply.voltage, reply.fault_text);
  if (khz_desk_stop(desk, 0, TIMEOUT, NULL) != KHZ_OK) return failed("stop");

  khz_desk_free(desk);
  khz_robot_free(robot);
  return 0;
}
