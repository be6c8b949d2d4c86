// The C++ interface: views, exceptions that leave a controller, parameters, records, servos by hand.
#include <atomic>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <kilohertz.hpp>
#include <memory>
#include <optional>
#include <thread>
#include <unistd.h>

#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      std::cerr << "line " << __LINE__ << ": " #condition "; last error: " << khz_last_error() << '\n'; \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (0)

namespace {

using kilohertz::command;
using kilohertz::state;

const char *leg_text = "[bus.leg]\nlink = \"emulated\"\n[[servo]]\nname = \"hip\"\nbus = \"leg\"\nid = 1\n"
                       "[[servo]]\nname = \"knee\"\nbus = \"leg\"\nid = 2\n"
                       "[parameters.from_file]\nvalue = 0.25\nmin = 0.0\nmax = 1.0\n";

kilohertz::robot leg() {
  auto robot = kilohertz::robot::parse(leg_text, "leg.toml");
  robot.no_log().virtual_time().duration(0.5);
  return robot;
}

struct burnt : std::runtime_error {
  burnt() : std::runtime_error("the knee smells burnt") {}
};

void an_exception_of_a_controller_comes_out_of_the_run() {
  auto robot = leg();
  robot.controller([](const state &state, command &) {
    if (state.time() > 0.3) throw burnt();
  });
  auto run = robot.start();
  try {
    run.wait();
    EXPECT(false);
  } catch (const burnt &) {
  }
  EXPECT(run.end().find("the controller threw the knee smells burnt") != std::string::npos);

  robot.controller([](const state &, command &) { throw 17; });
  try {
    robot.start().wait();
    EXPECT(false);
  } catch (int thrown) {
    EXPECT(thrown == 17);
  }

  robot.controller([](const state &, command &) { throw std::runtime_error(std::string(5000, 'x')); });
  try {
    robot.start().wait();
    EXPECT(false);
  } catch (const std::runtime_error &error) {
    EXPECT(std::string(error.what()).size() == 5000);
  }
}

void an_error_is_an_exception() {
  try {
    kilohertz::robot::parse("[bus.a]\nlink = \"no such\"\n", "broken.toml");
    EXPECT(false);
  } catch (const kilohertz::error &error) {
    EXPECT(error.status() == KHZ_CONFIG && std::string(error.what()).find("broken.toml") != std::string::npos);
  }
  auto robot = leg();
  robot.controller([](const state &, command &command) { command.mode()[1] = 9; });
  try {
    robot.start().wait();
    EXPECT(false);
  } catch (const kilohertz::error &error) {
    EXPECT(error.status() == KHZ_BROUGHT_DOWN && std::string(error.what()).find("knee: mode is 9") != std::string::npos);
  }
}

// What a controller sees, of the quadruped: it has an IMU.
struct watcher {
  int starts = 0;
  std::size_t ticks = 0;
  double highest = 0.0;
  bool is_right = true;
  const double *positions = nullptr;

  void start(const state &) { starts++; }

  void update(const state &state, command &command) {
    ticks++;
    is_right &= state.servos() == 12 && state.position().size() == 12 && state.dt() == 0.001;
    is_right &= state.fault()[0] == 0 && state.doing()[0] <= KHZ_OTHER && state.fresh()[0] <= 1;
    is_right &= state.voltage()[0] > 10.0 && state.age()[0] < 0.1 && state.teleop().forward == 0.0;
    is_right &= state.imu() != nullptr && std::abs(state.imu()->attitude[0]) <= 1.0;
    // The same memory in every tick.
    is_right &= positions == nullptr || positions == state.position().data();
    positions = state.position().data();
    char text[3];
    is_right &= state.fault_text(0, {text, sizeof text}) == 4 && std::string(text) == "no" && state.fault_text(12, {text, 3}) == 0;
    for (double position : state.position()) highest = std::max(highest, std::abs(position));
    for (double &torque : command.torque()) torque = 0.0;
    if (state.time() > 0.7) command.finish();
  }
};

void a_controller_sees_the_robot() {
  auto robot = kilohertz::robot::quadruped();
  EXPECT(robot.name() == "quadruped" && robot.servos() == 12 && robot.has_imu() && robot.rate_hz() == 1000.0);
  EXPECT(robot.servo_name(robot.servo("front_left_knee")) == "front_left_knee" && robot.limits(0).first < robot.limits(0).second);
  watcher watcher;
  struct by_reference {
    struct watcher &watcher;
    void start(const state &state) { watcher.start(state); }
    void update(const state &state, command &command) { watcher.update(state, command); }
  };
  robot.controller(by_reference{watcher}).virtual_time().no_log();
  auto run = robot.start();
  run.wait();
  EXPECT(watcher.starts == 1 && watcher.ticks > 200 && watcher.is_right && watcher.highest > 0.1);
  EXPECT(run.is_over() && run.end() == "finished" && run.summary().find("\"ended_well\":true") != std::string::npos && !run.table().empty());
  // Once more, and it repeats exactly.
  const auto ticks = watcher.ticks;
  robot.start().wait();
  EXPECT(watcher.ticks == 2 * ticks && watcher.starts == 2);
}

// A busy computer must not fail a check; one that fails waits so long.
template <typename F> bool comes_true(F condition) {
  for (int i = 0; i < 100000 && !condition(); i++) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

void parameters_change_while_it_runs() {
  auto robot = kilohertz::robot::parse(leg_text, "leg.toml");
  const auto gain = robot.parameter("gain", 0.5, 0.0, 1.0, "", "Share of the gain");
  const auto steps = robot.whole_parameter("steps", 2, 0, 9);
  const auto on = robot.switch_parameter("on", false);
  const auto from_file = robot.parameter("from_file");
  const auto of_another_robot = static_cast<kilohertz::parameter_id>(4);
  std::atomic<double> seen{0.0};
  robot.no_log().virtual_time().controller([&, gain, steps, on, from_file, of_another_robot](const state &state, command &) {
    if (!std::isnan(state[of_another_robot])) throw std::out_of_range("parameter");
    seen = state[gain] + 10.0 * state[steps] + 100.0 * state[on] + 1000.0 * state[from_file];
  });
  auto run = robot.start();
  run.parameter("gain", 0.25);
  run.parameter("steps", 3.0);
  run.parameter("on", 1.0);
  EXPECT(run.parameter("gain") == 0.25 && run.parameters().find("Share of the gain") != std::string::npos);
  EXPECT(comes_true([&] { return seen == 380.25; }));
  std::thread([&] { run.stop(); }).join();
  run.wait();
}

void records_go_into_the_log(const std::string &path) {
  auto robot = leg();
  const auto mine = robot.record("mine", {{"time", "s"}, {"twice", ""}});
  int refused = 0;
  robot.log(path).controller([mine, &refused](const state &state, command &) {
    refused += !state.record(mine, {state.time(), 2.0 * state.time()});
    refused += state.record(mine, {1.0});
  });
  robot.start().wait();
  EXPECT(refused == 0);
}

void servos_by_hand() {
  auto robot = leg();
  kilohertz::desk desk(robot);
  EXPECT(desk.scan(0, 3, 0.5).size() == 2 && desk.query(1, 1.0).voltage > 10.0);
  const khz_target target = {0.1, 0.0, 0.0, 1.0, 1.0, std::nan("")};
  desk.position(0, target, std::nan(""), 1.0);
  EXPECT(desk.stop(0, 1.0).fault == 0);
}

// A run whose controller reads memory that goes when the controller does.
kilohertz::run started(double seconds, std::weak_ptr<double> &kept) {
  auto robot = leg();
  auto value = std::make_shared<double>(0.1);
  kept = value;
  robot.duration(seconds).controller([value](const state &, command &command) { command.position()[0] = *value; });
  return robot.start();
}

void a_run_that_replaces_another_frees_that_before_its_controller() {
  std::weak_ptr<double> first;
  std::weak_ptr<double> second;
  auto run = started(1e9, first);
  run = started(0.5, second);
  EXPECT(first.expired());
  run.wait();
  EXPECT(run.end() == "finished");
}

// Blocks in its first tick until it is let go.
struct stuck {
  std::shared_ptr<std::atomic<bool>> is_inside;
  std::shared_ptr<std::atomic<bool>> may_go;
  std::shared_ptr<double> mine;

  void update(const state &, command &command) {
    *is_inside = true;
    while (!*may_go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    command.position()[0] = *mine;
  }
};

void a_controller_that_returns_late_lives_until_then() {
  auto is_inside = std::make_shared<std::atomic<bool>>(false);
  auto may_go = std::make_shared<std::atomic<bool>>(false);
  std::weak_ptr<double> kept;
  {
    // By the computer's clock, of which only the controller is to bring it down.
    const std::string text = "[loop]\nmode = \"pipelined\"\n[servo_defaults]\nwatchdog_s = 30.0\n[supervisor]\nanswer_s = 60\n"
                             "missed_replies = 100000\nstale_ms = 100000\noverruns = 100000\n";
    auto robot = kilohertz::robot::parse(text + leg_text, "leg.toml");
    auto mine = std::make_shared<double>(0.1);
    kept = mine;
    robot.no_log().controller(stuck{is_inside, may_go, std::move(mine)});
    auto run = robot.start();
    EXPECT(comes_true([&] { return is_inside->load(); }));
    try {
      run.wait();
      EXPECT(false);
    } catch (const kilohertz::error &error) {
      EXPECT(error.status() == KHZ_BROUGHT_DOWN);
    }
  }
  EXPECT(!kept.expired());
  *may_go = true;
  EXPECT(comes_true([&] { return kept.expired(); }));
}

void a_run_that_its_controller_destroys_comes_down_and_keeps_the_controller() {
  static std::atomic<bool> is_known{false};
  static std::optional<kilohertz::run> run;
  std::atomic<std::uint64_t> ticks{0};
  std::atomic<bool> is_gone{false};
  std::weak_ptr<double> kept;
  {
    auto robot = leg();
    auto value = std::make_shared<double>(0.1);
    kept = value;
    robot.duration(1e9).controller([&, value](const state &, command &command) {
      command.position()[0] = *value;
      if (is_known && !is_gone) {
        run.reset();
        is_gone = true;
      }
      ticks++;
    });
    run.emplace(robot.start());
  }
  is_known = true;
  EXPECT(comes_true([&] { return is_gone.load(); }));
  // It comes down: in virtual time at once, and then it is called no more.
  EXPECT(comes_true([&] {
    const auto before = ticks.load();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return before == ticks;
  }));
  EXPECT(!run && *kept.lock() == 0.1);
}

volatile std::sig_atomic_t came = 0;

extern "C" void mine(int) { came = came + 1; }

// What the signals do that a run catches.
std::array<void (*)(int), 5> handlers() {
  std::array<void (*)(int), 5> found{};
  const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGXFSZ, SIGTTOU};
  for (std::size_t i = 0; i < found.size(); i++) {
    struct sigaction now = {};
    EXPECT(sigaction(signals[i], nullptr, &now) == 0);
    found[i] = now.sa_handler;
  }
  return found;
}

kilohertz::robot still() {
  auto robot = leg();
  robot.controller([](const state &, command &) {});
  return robot;
}

void every_run_catches_signals_and_gives_them_back() {
  std::signal(SIGINT, mine);
  auto before = handlers();
  still().run();
  EXPECT(handlers() == before && before[0] == mine);
  // What the program has set since the first run counts no more during the second than before the first.
  for (auto handler : {SIG_DFL, &mine}) {
    std::signal(SIGINT, handler);
    before = handlers();
    still().run();
    EXPECT(handlers() == before && before[0] == handler);
  }
  auto robot = leg();
  robot.duration(1e9).controller([](const state &state, command &) {
    if (state.time() > 0.4) kill(getpid(), SIGINT);
  });
  EXPECT(robot.run().end() == "stopped by the operator" && handlers() == before && came == 0);
  // Whoever stopped one run wants no next one; start() leaves signals alone.
  try {
    robot.run();
    EXPECT(false);
  } catch (const kilohertz::error &error) {
    EXPECT(error.status() == KHZ_START && std::string(error.what()).find("asked to stop") != std::string::npos);
  }
  EXPECT(handlers() == before);
  std::raise(SIGINT);
  EXPECT(came == 1);
  still().start().wait();
  EXPECT(handlers() == before);
}

} // namespace

int main(int argc, char **argv) {
  EXPECT(argc == 2);
  if (std::string(argv[1]) == "destroyed-within") {
    a_run_that_its_controller_destroys_comes_down_and_keeps_the_controller();
    std::cout << "checked\n";
    return 0;
  }
  an_exception_of_a_controller_comes_out_of_the_run();
  an_error_is_an_exception();
  a_controller_sees_the_robot();
  parameters_change_while_it_runs();
  records_go_into_the_log(argv[1]);
  servos_by_hand();
  a_run_that_replaces_another_frees_that_before_its_controller();
  a_controller_that_returns_late_lives_until_then();
  every_run_catches_signals_and_gives_them_back();
  std::cout << "checked\n";
}
