// A controller with a state of its own: the knees of the emulated quadruped swing together, by a parameter that may be changed while it
// runs, and what it does is recorded. In virtual time; take that line out to run it in real time.
#include <cmath>
#include <iostream>
#include <kilohertz.hpp>
#include <vector>

class squat {
public:
  explicit squat(kilohertz::robot &robot)
      : found_(robot.servos()), depth_(robot.parameter("depth", 0.1, 0.0, 0.3, "rad", "How far the knees swing")),
        swing_(robot.record("swing", {{"target", "rad"}, {"behind", "rad"}})) {
    for (const char *name : {"front_left_knee", "front_right_knee", "rear_left_knee", "rear_right_knee"}) {
      knees_.push_back(robot.servo(name));
    }
  }

  // When the robot comes under control: from where the joints are.
  void start(const kilohertz::state &state) {
    for (std::size_t i = 0; i < found_.size(); i++) found_[i] = state.position()[i];
    started_ = state.time();
  }

  void update(const kilohertz::state &state, kilohertz::command &command) {
    const double swing = state[depth_] * std::sin(3.0 * (state.time() - started_));
    for (std::size_t knee : knees_) command.position()[knee] = found_[knee] + swing;
    const std::size_t first = knees_.front();
    const double target = command.position()[first];
    state.record(swing_, {target, target - state.position()[first]});
  }

private:
  std::vector<double> found_;
  std::vector<std::size_t> knees_;
  kilohertz::parameter_id depth_;
  kilohertz::record_id swing_;
  double started_ = 0.0;
};

int main() try {
  auto robot = kilohertz::robot::quadruped();
  robot.controller(squat(robot)).duration(2.0).log("squat.tlog");
  robot.virtual_time();
  std::cout << robot.run().table();
} catch (const std::exception &error) {
  std::cerr << error.what() << '\n';
  return 1;
}
