// Kilohertz for C++17 and later: kilohertz.h with owners, views and exceptions. What each call does is written there.
//
//   kilohertz::robot robot = kilohertz::robot::load("robots/pan_tilt.toml");
//   robot.controller([](const kilohertz::state &state, kilohertz::command &command) {
//     for (double &position : command.position()) position = 0.3 * std::sin(state.time());
//   });
//   std::cout << robot.run().table();
//
// A call that fails throws kilohertz::error. An exception that leaves a controller brings the robot down gently and is thrown again
// by run::wait() and robot::run(). The loop's rules hold for a controller in C++, too: it must not allocate, lock, print or wait.
#ifndef KILOHERTZ_HPP
#define KILOHERTZ_HPP

#include "kilohertz.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_span
#include <span>
#endif

namespace kilohertz {

#ifdef __cpp_lib_span
template <typename T> using span = std::span<T>;
#else
// What is used of std::span, before C++20.
template <typename T> class span {
public:
  constexpr span() noexcept = default;
  constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
  constexpr T *data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T *begin() const noexcept { return data_; }
  constexpr T *end() const noexcept { return data_ + size_; }
  constexpr T &operator[](std::size_t at) const { return data_[at]; }
  constexpr T &front() const { return data_[0]; }
  constexpr T &back() const { return data_[size_ - 1]; }

private:
  T *data_ = nullptr;
  std::size_t size_ = 0;
};
#endif

// What a call reported that failed.
class error : public std::runtime_error {
public:
  error(khz_status status, const std::string &text) : std::runtime_error(text), status_(status) {}
  khz_status status() const noexcept { return status_; }

private:
  khz_status status_;
};

namespace detail {

[[noreturn]] inline void fail() { throw error(khz_last_status(), khz_last_error()); }

inline void check(khz_status status) {
  if (status != KHZ_OK) fail();
}

template <typename T> T *check(T *object) {
  if (object == nullptr) fail();
  return object;
}

inline std::size_t check(std::ptrdiff_t index) {
  if (index < 0) fail();
  return static_cast<std::size_t>(index);
}

} // namespace detail

inline std::string version() { return khz_version(); }

// A record of the log that a program writes to: robot::record().
enum class record_id : std::ptrdiff_t {};

// A parameter of the controller: robot::parameter().
enum class parameter_id : std::size_t {};

// The robot as of its newest replies: a view, for the time of one call of the controller.
class state {
public:
  explicit state(const khz_state *c) noexcept : c_(c) {}

  const khz_state &c() const noexcept { return *c_; }
  std::uint64_t tick() const noexcept { return c_->tick; }
  double time() const noexcept { return c_->time; }
  double dt() const noexcept { return c_->dt; }
  double elapsed() const noexcept { return c_->elapsed; }
  std::size_t servos() const noexcept { return c_->servos; }
  span<const double> position() const noexcept { return {c_->position, c_->servos}; }
  span<const double> velocity() const noexcept { return {c_->velocity, c_->servos}; }
  span<const double> torque() const noexcept { return {c_->torque, c_->servos}; }
  span<const double> voltage() const noexcept { return {c_->voltage, c_->servos}; }
  span<const double> temperature() const noexcept { return {c_->temperature, c_->servos}; }
  span<const double> age() const noexcept { return {c_->age, c_->servos}; }
  span<const std::uint32_t> fault() const noexcept { return {c_->fault, c_->servos}; }
  span<const std::uint8_t> doing() const noexcept { return {c_->doing, c_->servos}; }
  span<const std::uint8_t> fresh() const noexcept { return {c_->fresh, c_->servos}; }
  const khz_imu *imu() const noexcept { return c_->imu; }
  const khz_teleop &teleop() const noexcept { return *c_->teleop; }

  // The value of a parameter that is in force; NaN if this robot has none of that id. As a command NaN ends the run gently.
  double operator[](parameter_id parameter) const noexcept {
    const auto at = static_cast<std::size_t>(parameter);
    return at < c_->parameter_count ? c_->parameters[at] : std::numeric_limits<double>::quiet_NaN();
  }

  // Records a sample; false: it was not.
  bool record(record_id record, std::initializer_list<double> values) const noexcept {
    return khz_state_record(c_, static_cast<std::ptrdiff_t>(record), values.begin(), values.size());
  }
  bool record(record_id record, span<const double> values) const noexcept {
    return khz_state_record(c_, static_cast<std::ptrdiff_t>(record), values.data(), values.size());
  }

  // The fault of a servo in the words of its manual, into memory of the caller.
  std::size_t fault_text(std::size_t servo, span<char> text) const noexcept {
    return khz_state_fault_text(c_, servo, text.data(), text.size());
  }

private:
  const khz_state *c_;
};

// What each servo is to do next: a view, for the time of one call of the controller.
class command {
public:
  explicit command(khz_command *c) noexcept : c_(c) {}

  khz_command &c() const noexcept { return *c_; }
  std::size_t servos() const noexcept { return c_->servos; }
  span<std::uint8_t> mode() const noexcept { return {c_->mode, c_->servos}; }
  span<double> position() const noexcept { return {c_->position, c_->servos}; }
  span<double> velocity() const noexcept { return {c_->velocity, c_->servos}; }
  span<double> torque() const noexcept { return {c_->torque, c_->servos}; }
  span<double> kp_scale() const noexcept { return {c_->kp_scale, c_->servos}; }
  span<double> kd_scale() const noexcept { return {c_->kd_scale, c_->servos}; }
  span<double> max_torque() const noexcept { return {c_->max_torque, c_->servos}; }

  // Ends the run as planned: the robot comes down gently.
  void finish() const noexcept { c_->finish = true; }

private:
  khz_command *c_;
};

namespace detail {

// A controller and what it threw. Its text is kept in memory of its own: the loop's thread need not allocate.
class called {
public:
  virtual ~called() = default;

  // What the library is given: a share of its own, which it gives back when the controller has returned for good. That may be after
  // run::wait() and after the run is gone.
  using share = std::shared_ptr<called>;

  static const char *start(const khz_state *c, void *user) noexcept {
    called *self = static_cast<share *>(user)->get();
    return self->guarded([&] { self->begin(state(c)); });
  }

  static const char *update(const khz_state *c, khz_command *c_command, void *user) noexcept {
    called *self = static_cast<share *>(user)->get();
    return self->guarded([&] {
      command next(c_command);
      self->tick(state(c), next);
    });
  }

  static void release(void *user) noexcept { delete static_cast<share *>(user); }

  // Throws what the controller threw, if it did. A controller that is left behind may throw at any time, hence the flag.
  void rethrow() const {
    if (has_thrown_.load(std::memory_order_acquire)) std::rethrow_exception(thrown_);
  }
  void forget() noexcept { has_thrown_.store(false, std::memory_order_relaxed); }

private:
  virtual void begin(const state &) {}
  virtual void tick(const state &, command &) = 0;

  template <typename F> const char *guarded(F work) noexcept {
    try {
      work();
      return nullptr;
    } catch (const std::exception &exception) {
      return keep(exception.what());
    } catch (...) {
      return keep("something that is no std::exception");
    }
  }

  const char *keep(const char *what) noexcept {
    thrown_ = std::current_exception();
    has_thrown_.store(true, std::memory_order_release);
    static const char start_of_text[] = "the controller threw ";
    std::memcpy(text_, start_of_text, sizeof start_of_text);
    std::strncat(text_, what, sizeof text_ - sizeof start_of_text);
    return text_;
  }

  std::exception_ptr thrown_;
  std::atomic<bool> has_thrown_{false};
  char text_[512];
};

template <typename F, typename = void> struct has_start : std::false_type {};
template <typename F>
struct has_start<F, std::void_t<decltype(std::declval<F &>().start(std::declval<const state &>()))>> : std::true_type {};

template <typename F, typename = void> struct has_update : std::false_type {};
template <typename F>
struct has_update<
    F, std::void_t<decltype(std::declval<F &>().update(std::declval<const state &>(), std::declval<command &>()))>>
    : std::true_type {};

template <typename F> class controller final : public called {
public:
  template <typename G> explicit controller(G &&given) : given_(std::forward<G>(given)) {}

private:
  void begin([[maybe_unused]] const state &seen) override {
    if constexpr (has_start<F>::value) given_.start(seen);
  }
  void tick(const state &seen, command &next) override {
    if constexpr (has_update<F>::value) {
      given_.update(seen, next);
    } else {
      given_(seen, next);
    }
  }

  F given_;
};

struct free_robot {
  void operator()(khz_robot *robot) const noexcept { khz_robot_free(robot); }
};
struct free_run {
  void operator()(khz_run *run) const noexcept {
    // Within the controller it cannot be freed, but stopped.
    khz_run_stop(run);
    khz_run_free(run);
  }
};
struct free_desk {
  void operator()(khz_desk *desk) const noexcept { khz_desk_free(desk); }
};
struct free_targets {
  void operator()(khz_targets *targets) const noexcept { khz_targets_free(targets); }
};
struct free_text {
  void operator()(char *text) const noexcept { khz_string_free(text); }
};

} // namespace detail

// A program that sends targets to a robot with the controller `targets`. Throws error with KHZ_NOT_NOW and the reason if one is not taken.
class targets {
public:
  khz_targets *c() const noexcept { return targets_.get(); }

  // The robot's time now, ns.
  std::int64_t now_ns() const noexcept { return khz_targets_now_ns(targets_.get()); }
  // All joints, now.
  void send(const std::vector<double> &position) const {
    if (position.size() != khz_targets_servo_count(targets_.get())) throw std::invalid_argument("a number for each servo is needed");
    const khz_point point{now_ns(), position.data(), nullptr, nullptr};
    send(&point, 1);
  }
  // A chunk; each array of a point has a number for each servo.
  void send(const khz_point *points, std::size_t count) const {
    detail::check(khz_targets_send(targets_.get(), points, count));
  }
  void hold(double seconds) const { detail::check(khz_targets_hold(targets_.get(), seconds)); }
  void release() const { detail::check(khz_targets_release(targets_.get())); }
  // How the robot stands, as JSON.
  std::string status() const {
    const std::unique_ptr<char, detail::free_text> text(detail::check(khz_targets_status(targets_.get())));
    return text.get();
  }

private:
  friend class run;
  explicit targets(khz_targets *made) : targets_(detail::check(made)) {}

  std::unique_ptr<khz_targets, detail::free_targets> targets_;
};

// A robot that runs, or has run. Destroyed, or when another is assigned to it, it brings the robot down and blocks until that is done.
// Destroyed within its own controller it cannot wait for that: the robot comes down gently, how the run ended is lost, and its
// memory and the controller are never freed.
class run {
public:
  khz_run *c() const noexcept { return run_.get(); }

  // Brings the robot down gently; returns at once. From any thread.
  void stop() const noexcept { khz_run_stop(run_.get()); }
  bool is_over() const noexcept { return khz_run_is_over(run_.get()); }
  void arm() const { detail::check(khz_run_arm(run_.get())); }
  // Sends targets under this name.
  kilohertz::targets targets(const std::string &name, int priority = 5) const {
    return kilohertz::targets(khz_run_targets(run_.get(), name.c_str(), priority));
  }

  // Blocks until the robot is down. Throws what the controller threw, or why the run did not end as planned. In pipelined mode it does
  // not wait for a controller that does not return: what that refers to must live on. The controller object itself does.
  void wait() const {
    const khz_status status = khz_run_wait(run_.get());
    if (controller_ && status == KHZ_BROUGHT_DOWN) controller_->rethrow();
    detail::check(status);
  }

  // Of a run that was waited for.
  std::string summary() const { return detail::check(khz_run_summary(run_.get())); }
  std::string table() const { return detail::check(khz_run_table(run_.get())); }
  std::string end() const { return detail::check(khz_run_end(run_.get())); }
  void report(const std::string &path) const { detail::check(khz_run_report(run_.get(), path.c_str())); }

  // The parameters as JSON.
  std::string parameters() const {
    const std::unique_ptr<char, detail::free_text> text(detail::check(khz_run_parameters(run_.get())));
    return text.get();
  }
  double parameter(const std::string &name) const {
    double value = 0.0;
    detail::check(khz_run_get_parameter(run_.get(), name.c_str(), &value));
    return value;
  }
  // Blocks until a tick has taken the change, 2 s at most.
  void parameter(const std::string &name, double value) const {
    detail::check(khz_run_set_parameter(run_.get(), name.c_str(), value));
  }

private:
  friend class robot;
  run(khz_run *c, std::shared_ptr<detail::called> controller) : controller_(std::move(controller)), run_(c) {}

  // For what it threw; the library has a share of its own.
  std::shared_ptr<detail::called> controller_;
  std::unique_ptr<khz_run, detail::free_run> run_;
};

// A robot file, and what a program adds to it.
class robot {
public:
  static robot load(const std::string &path) { return robot(khz_robot_load(path.c_str())); }
  static robot parse(const std::string &text, const std::string &name = "robot.toml") {
    return robot(khz_robot_parse(text.c_str(), name.c_str()));
  }
  static robot quadruped() { return robot(khz_robot_quadruped()); }

  khz_robot *c() const noexcept { return robot_.get(); }
  std::string name() const { return khz_robot_name(robot_.get()); }
  std::string warnings() const { return khz_robot_warnings(robot_.get()); }
  double rate_hz() const noexcept { return khz_robot_rate_hz(robot_.get()); }
  bool has_imu() const noexcept { return khz_robot_has_imu(robot_.get()); }
  std::size_t servos() const noexcept { return khz_robot_servo_count(robot_.get()); }
  std::string servo_name(std::size_t servo) const { return detail::check(khz_robot_servo_name(robot_.get(), servo)); }
  std::size_t servo(const std::string &name) const { return detail::check(khz_robot_servo(robot_.get(), name.c_str())); }
  std::pair<double, double> limits(std::size_t servo) const {
    std::pair<double, double> limits;
    detail::check(khz_robot_limits(robot_.get(), servo, &limits.first, &limits.second));
    return limits;
  }

  // A function of (const state &, command &), or an object with update(const state &, command &) and, if it likes, start(const
  // state &). It is copied or moved; a function that is to be looked at later is passed as std::ref. The runs of this robot share it:
  // run one after another. It is destroyed when robot and runs are gone and it has returned.
  template <typename F> robot &controller(F &&given) {
    auto made = std::make_shared<detail::controller<std::decay_t<F>>>(std::forward<F>(given));
    auto share = std::make_unique<detail::called::share>(made);
    detail::check(khz_robot_set_controller_owned(robot_.get(), &detail::called::start, &detail::called::update, share.get(),
                                                 &detail::called::release));
    static_cast<void>(share.release()); // the library's now
    controller_ = std::move(made);
    return *this;
  }

  robot &duration(double seconds) {
    detail::check(khz_robot_set_duration(robot_.get(), seconds));
    return *this;
  }
  template <typename Rep, typename Period> robot &duration(std::chrono::duration<Rep, Period> time) {
    return duration(std::chrono::duration<double>(time).count());
  }
  robot &virtual_time(bool on = true) {
    detail::check(khz_robot_set_virtual_time(robot_.get(), on));
    return *this;
  }
  robot &log(const std::string &path) {
    detail::check(khz_robot_set_log(robot_.get(), path.c_str()));
    return *this;
  }
  robot &no_log() {
    detail::check(khz_robot_set_log(robot_.get(), nullptr));
    return *this;
  }
  robot &seed(std::uint64_t seed) {
    detail::check(khz_robot_set_seed(robot_.get(), seed));
    return *this;
  }

  // The controller decides so many times a second, on a thread of its own.
  robot &decisions(double rate_hz, std::uint32_t delay_ticks = 0, std::uint32_t max_late = 2) {
    detail::check(khz_robot_set_decisions(robot_.get(), rate_hz, delay_ticks, max_late));
    return *this;
  }

  // Declares a parameter.
  parameter_id parameter(const std::string &name, double value, double min, double max, const std::string &unit = {},
                         const std::string &text = {}) {
    return declare(name, KHZ_FLOAT, value, min, max, unit, text);
  }
  parameter_id whole_parameter(const std::string &name, std::int64_t value, std::int64_t min, std::int64_t max,
                               const std::string &unit = {}, const std::string &text = {}) {
    return declare(name, KHZ_INTEGER, static_cast<double>(value), static_cast<double>(min), static_cast<double>(max), unit, text);
  }
  parameter_id switch_parameter(const std::string &name, bool value, const std::string &text = {}) {
    return declare(name, KHZ_BOOLEAN, value ? 1.0 : 0.0, 0.0, 1.0, {}, text);
  }
  // One that was declared, here or in the robot file.
  parameter_id parameter(const std::string &name) const {
    return static_cast<parameter_id>(detail::check(khz_robot_parameter(robot_.get(), name.c_str())));
  }

  // Declares a record of the log: names and units of its fields.
  record_id record(const std::string &name, const std::vector<std::pair<std::string, std::string>> &fields) {
    std::vector<khz_field> c_fields;
    for (const auto &[field, unit] : fields) c_fields.push_back({field.c_str(), unit.empty() ? nullptr : unit.c_str()});
    return static_cast<record_id>(
        detail::check(khz_robot_add_record(robot_.get(), name.c_str(), c_fields.data(), c_fields.size())));
  }

  // Starts the robot and returns.
  kilohertz::run start() const {
    forget();
    return {detail::check(khz_robot_start(robot_.get())), controller_};
  }

  // Runs it to its end, which Ctrl-C brings about, too. Throws what the controller threw, or why the run did not end as planned.
  kilohertz::run run() const {
    forget();
    kilohertz::run done(detail::check(khz_robot_run(robot_.get())), controller_);
    done.wait();
    return done;
  }

private:
  explicit robot(khz_robot *c) : robot_(detail::check(c)) {}

  // What was thrown in a run before.
  void forget() const noexcept {
    if (controller_) controller_->forget();
  }

  parameter_id declare(const std::string &name, khz_kind kind, double value, double min, double max, const std::string &unit,
                       const std::string &text) {
    return static_cast<parameter_id>(detail::check(khz_robot_add_parameter(robot_.get(), name.c_str(), kind, value, min, max,
                                                                           unit.c_str(), text.c_str())));
  }

  std::shared_ptr<detail::called> controller_;
  std::unique_ptr<khz_robot, detail::free_robot> robot_;
};

// Servos by hand, without a loop and without a supervisor.
class desk {
public:
  explicit desk(const robot &robot) : desk_(detail::check(khz_desk_open(robot.c()))) {}

  khz_desk *c() const noexcept { return desk_.get(); }
  // The ids up to `last` that answer on a bus.
  std::vector<std::uint8_t> scan(std::size_t bus, std::uint8_t last, double timeout = 0.05) {
    std::vector<std::uint8_t> ids(256);
    const std::size_t found = detail::check(khz_desk_scan(desk_.get(), bus, last, timeout, ids.data(), ids.size()));
    ids.resize(found < ids.size() ? found : ids.size());
    return ids;
  }
  khz_reply query(std::size_t servo, double timeout = 0.02) {
    khz_reply reply;
    detail::check(khz_desk_query(desk_.get(), servo, timeout, &reply));
    return reply;
  }
  khz_reply stop(std::size_t servo, double timeout = 0.02) {
    khz_reply reply;
    detail::check(khz_desk_stop(desk_.get(), servo, timeout, &reply));
    return reply;
  }
  khz_reply position(std::size_t servo, const khz_target &target, double watchdog, double timeout = 0.02) {
    khz_reply reply;
    detail::check(khz_desk_position(desk_.get(), servo, &target, watchdog, timeout, &reply));
    return reply;
  }

private:
  std::unique_ptr<khz_desk, detail::free_desk> desk_;
};

} // namespace kilohertz

#endif
