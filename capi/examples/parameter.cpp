// A parameter and a record of one's own, the parameter changed while the robot runs, and then the servo by hand. It is emulated; on a
// real bus only the robot's file differs.
#include <chrono>
#include <cmath>
#include <iostream>
#include <kilohertz.hpp>
#include <thread>

static const char *const ONE = "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"pan\"\nbus = \"main\"\nid = 1\n";

int main() try {
  auto robot = kilohertz::robot::parse(ONE, "one.toml");
  const auto width = robot.parameter("width", 0.1, 0.0, 0.3, "rad", "How far the joint swings");
  const auto wanted = robot.record("wanted", {{"position", "rad"}});
  robot.log("parameter.tlog").controller([=](const kilohertz::state &state, kilohertz::command &command) {
    const double position = state[width] * std::sin(state.time());
    command.position()[0] = position;
    state.record(wanted, {position});
  });

  auto run = robot.start();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  run.parameter("width", 0.2); // blocks until a tick has taken it
  std::cout << "width " << run.parameter("width") << " rad\n";
  run.stop();
  run.wait();

  kilohertz::desk desk(robot);
  // position, velocity, torque, kp_scale, kd_scale, max_torque (NaN: the servo's own)
  const khz_target target = {0.3, 0.0, 0.0, 1.0, 1.0, std::nan("")};
  desk.position(0, target, 0.5, 1.0); // it stops by itself 0.5 s after the last command; an answer may take 1 s
  std::cout << desk.query(0, 1.0).voltage << " V\n";
  desk.stop(0, 1.0);
} catch (const std::exception &error) {
  std::cerr << error.what() << '\n';
  return 1;
}
