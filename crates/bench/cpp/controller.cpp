// The controller of the bench `cpp` in C++: runs the quadruped for as many seconds as it is told, and prints the figures.
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <kilohertz.hpp>
#include <vector>

struct swing {
  std::vector<double> found = std::vector<double>(12);

  void start(const kilohertz::state &state) {
    for (std::size_t i = 0; i < found.size(); i++) found[i] = state.position()[i];
  }

  void update(const kilohertz::state &state, kilohertz::command &command) {
    const double by = 0.05 * std::sin(3.0 * state.time());
    for (std::size_t i = 0; i < found.size(); i++) {
      command.position()[i] = found[i] + by;
      command.torque()[i] = -0.1 * state.velocity()[i];
    }
  }
};

int main(int argc, char **argv) try {
  auto robot = kilohertz::robot::quadruped();
  robot.no_log().duration(argc > 1 ? std::atof(argv[1]) : 1.0).controller(swing());
  auto run = robot.start();
  run.wait();
  std::cout << run.summary() << '\n';
} catch (const std::exception &error) {
  std::cerr << error.what() << '\n';
  return 1;
}
