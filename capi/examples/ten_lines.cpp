// A controller in ten lines: an emulated pan-tilt head swings. Ctrl-C brings the robot down gently.
#include <cmath>
#include <iostream>
#include <kilohertz.hpp>

int main(int argc, char **argv) try {
  auto robot = kilohertz::robot::load(argc > 1 ? argv[1] : "robots/pan_tilt.toml");
  robot.controller([](const kilohertz::state &state, kilohertz::command &command) {
    for (double &position : command.position()) position = 0.3 * std::sin(state.time());
  });
  if (argc > 2) robot.virtual_time(); // ten_lines ROBOT.toml virtual
  std::cout << robot.duration(5.0).run().table();
} catch (const std::exception &error) {
  std::cerr << error.what() << '\n';
  return 1;
}
