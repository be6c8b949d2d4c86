// Runs the control code of mjbots/moteus on a PC against the motor model of its own tests. Reads runs from standard
// input and prints one JSON object per sample; runs.py writes the one and reads the other.
//
//   begin                  a new servo at its factory settings, calibrated, position bounds open
//   set NAME VALUE         a setting (servo.…, servopos.…) or the surroundings (inertia, viscous, supply)
//   command MS NAME=VALUE… at so many milliseconds
//   sample MS
//   run

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "fw/bldc_servo_control.h"
#include "fw/test/spmsm_motor_simulator.h"

namespace moteus {
volatile uint8_t g_measured_hw_family = 0;
volatile uint8_t g_measured_hw_rev = 8;
}  // namespace moteus

namespace mjlib::base {
void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, expression);
  std::abort();
}
}  // namespace mjlib::base

using namespace moteus;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kTau = 2.0 * M_PI;
constexpr int kPoles = 14;
constexpr float kInductance = 28e-6f;
// The sample time of hardware revision 8 at its default gain.
constexpr float kSampleTime = 1.5e-6f;
constexpr int kLeastPwmHz = 15000;
// Before the first command the servo is shorted (mode 15) for so long.
constexpr int kLeadMs = 20;

// What bldc_servo.cc is to the control code, without hardware: an exact encoder and ideal transistors.
struct Servo : BldcServoControl<Servo> {
  BldcServoStatus status_;
  BldcServoControl_Control control_;
  BldcServoConfig config_;
  BldcServoPositionConfig position_config_;
  MotorPosition::Status position_;
  MotorPosition::Config encoder_;
  BldcServoMotor motor_;
  RateConfig rate_config_;
  SimplePI pid_d_{&pid_d_config_, &status_.pid_d};
  SimplePI pid_q_{&pid_q_config_, &status_.pid_q};
  PID pid_position_{&config_.pid_position, &status_.pid_position};
  ExponentialFilter velocity_filter_;
  Vec3 pwm_{0.0f, 0.0f, 0.0f};
  bool off_ = true;

  void DoPwmControl(const Vec3& pwm) {
    // The timer counts in whole numbers, and the board's processor converts NaN to 0.
    const auto counted = [](float duty) { return std::isnan(duty) ? 0.0f : duty; };
    pwm_ = Vec3{counted(pwm.a), counted(pwm.b), counted(pwm.c)};
    off_ = false;
  }
  void DoBrake() { DoPwmControl(Vec3{0.0f, 0.0f, 0.0f}); }
  void DoHardStop() { off_ = true; }
  void DoHiz() { off_ = true; }
  void DoCalibrating() {}
  void StartCalibrating() { status_.mode = kCalibrationComplete; }
  bool motor_driver_fault() const { return false; }
  int64_t absolute_relative_delta() const { return 0; }
  const MotorPosition::Config* motor_position_config() const { return &encoder_; }
  SinCos cordic(int32_t q31) const {
    const double angle = q31 * (M_PI / 2147483648.0);
    SinCos result;
    result.s = std::sin(angle);
    result.c = std::cos(angle);
    return result;
  }

  Servo() {
    motor_.poles = kPoles;
    motor_.resistance_ohm = 0.047f;
    motor_.inductance_d_H = motor_.inductance_q_H = kInductance;
    motor_.Kv = 16.4f;
    // No saturation.
    motor_.rotation_current_cutoff_A = 10000.0f;
    // A fast current loop, so that the runs show the position loop and the limits.
    config_.pid_dq_hz = 1000.0f;
    config_.max_current_desired_rate = 0.0f;
    position_config_.position_min = position_config_.position_max = kNaN;
  }

  // What UpdateConfig of bldc_servo.cc derives from the settings.
  void Start(float supply) {
    rate_config_ = RateConfig(config_.pwm_rate_hz, kLeastPwmHz, kSampleTime);
    torque_constant_ = 1.5f / std::sqrt(3.0f) * 60.0f / static_cast<float>(kTau) / motor_.Kv;
    flux_brake_min_voltage_ = config_.max_voltage - config_.flux_brake_margin_voltage;
    derate_temperature_ = config_.fault_temperature - config_.temperature_margin;
    motor_derate_temperature_ = config_.motor_fault_temperature - config_.motor_temperature_margin;
    velocity_filter_ = ExponentialFilter(rate_config_.pwm_rate_hz, 100.0f);
    InitControlFilters(rate_config_.pwm_rate_hz);
    UpdateDerivedMotorConstants();
    UpdateFieldWeakeningIdChar();

    status_.bus_V = status_.filt_bus_V = status_.filt_1ms_bus_V = supply;
    status_.filt_fet_temp_C = 25.0f;
    status_.filt_motor_temp_C = 0.0f;
    // NaN: these filters have settled.
    status_.motor_base_velocity = status_.motor_max_velocity = kNaN;
    position_.position_relative_valid = position_.theta_valid = true;
  }

  // The power limit of bldc_servo.cc for this board.
  void LimitPower() {
    const float at_bus = Interpolate(status_.filt_bus_V, 30.0f, 38.0f, 900.0f, 400.0f);
    const float board = Limit(at_bus, 400.0f, 900.0f) * config_.pwm_rate_hz / 30000.0f;
    const bool configured = std::isfinite(config_.max_power_W);
    status_.max_power_W = !configured                        ? board
                          : config_.override_board_max_power ? config_.max_power_W
                                                             : std::min(config_.max_power_W, board);
  }

  void Command(BldcServoCommandData data) {
    const errc error = PrepareCommand(&data);
    if (error != errc::kSuccess) {
      status_.fault = error;
      status_.mode = kFault;
    }
    command_ = data;
    status_.timeout_s = data.timeout_s;
  }

  // One control period. As on the board, the voltages of the period before act meanwhile.
  void Step(test::SpmsmMotorSimulator* motor) {
    const double turns = motor->state().theta_mechanical / kTau;
    position_.position = position_.position_relative = turns;
    position_.position_raw = position_.position_relative_raw =
        static_cast<int64_t>(turns * static_cast<double>(1ll << 48));
    position_.velocity = motor->state().omega_mechanical / kTau;
    const double electrical = turns * kPoles / 2;
    position_.electrical_theta = (electrical - std::floor(electrical)) * kTau;
    velocity_filter_(position_.velocity, &status_.velocity_filt);
    status_.position = position_.position;
    status_.velocity = position_.velocity;

    const bool was_off = off_;
    const Vec3 pwm = pwm_;
    const auto current = motor->phase_currents();
    const bool synthetic = command_.synthetic_theta && status_.control_position_raw;
    const SinCos angle = ISR_CalculateDerivedQuantities(current.a, current.b, current.c, synthetic);
    LimitPower();
    ISR_DoControl(angle, &command_);

    const float dt = rate_config_.period_s;
    if (was_off) {
      motor->StepHiz(dt);
    } else {
      const float middle = (pwm.a + pwm.b + pwm.c) / 3.0f;
      const float bus = status_.bus_V;
      motor->Step(dt, (pwm.a - middle) * bus, (pwm.b - middle) * bus, (pwm.c - middle) * bus);
    }
  }

  void Print(int at_ms) const {
    const auto print = [](const char* name, double value, int digits) {
      std::printf(std::isnan(value) ? ", \"%s\": \"nan\"" : ", \"%s\": %.*f", name, digits, value);
    };
    std::printf("{\"at_ms\": %d, \"mode\": %d, \"fault\": %d", at_ms, static_cast<int>(status_.mode),
                static_cast<int>(status_.fault));
    print("position", status_.position, 6);
    print("velocity", status_.velocity, 6);
    print("torque", status_.torque_Nm, 6);
    print("control_position", status_.control_position, 6);
    print("control_velocity", status_.control_velocity.value_or(kNaN), 6);
    print("control_torque", control_.torque_Nm, 6);
    print("torque_error", status_.torque_error_Nm, 6);
    print("d_current", status_.d_A, 4);
    print("q_current", status_.q_A, 4);
    print("power", status_.power_W, 4);
    std::printf(", \"done\": %d}\n", status_.trajectory_done);
  }

 private:
  BldcServoCommandData command_;
};

using Setters = std::map<std::string, std::function<void(float)>>;

template <typename T>
std::function<void(float)> To(T* target) {
  return [target](float value) { *target = static_cast<T>(value); };
}

Setters SettingsOf(Servo* servo, std::map<std::string, float>* around) {
  auto* c = &servo->config_;
  auto* bounds = &servo->position_config_;
  return {
      {"servo.pid_position.kp", To(&c->pid_position.kp)},
      {"servo.pid_position.kd", To(&c->pid_position.kd)},
      {"servo.default_accel_limit", To(&c->default_accel_limit)},
      {"servo.fault_velocity_error", To(&c->fault_velocity_error)},
      {"servo.max_current_A", To(&c->max_current_A)},
      {"servo.max_current_desired_rate", To(&c->max_current_desired_rate)},
      {"servo.max_position_slip", To(&c->max_position_slip)},
      {"servo.max_power_W", To(&c->max_power_W)},
      {"servo.max_velocity", To(&c->max_velocity)},
      {"servo.max_velocity_derate", To(&c->max_velocity_derate)},
      {"servo.max_velocity_slip", To(&c->max_velocity_slip)},
      {"servo.override_board_max_power", To(&c->override_board_max_power)},
      {"servo.pwm_rate_hz", To(&c->pwm_rate_hz)},
      {"servo.timeout_mode", To(&c->timeout_mode)},
      {"servopos.position_min", To(&bounds->position_min)},
      {"servopos.position_max", To(&bounds->position_max)},
      {"inertia", To(&(*around)["inertia"])},
      {"viscous", To(&(*around)["viscous"])},
      {"supply", To(&(*around)["supply"])},
  };
}

Setters FieldsOf(BldcServoCommandData* d) {
  return {
      {"mode", To(&d->mode)},
      {"pwm_a", To(&d->pwm.a)},
      {"pwm_b", To(&d->pwm.b)},
      {"pwm_c", To(&d->pwm.c)},
      {"phase_a", To(&d->phase_v.a)},
      {"phase_b", To(&d->phase_v.b)},
      {"phase_c", To(&d->phase_v.c)},
      {"theta", To(&d->theta)},
      {"theta_rate", To(&d->theta_rate)},
      {"voltage", To(&d->voltage)},
      {"d_V", To(&d->d_V)},
      {"q_V", To(&d->q_V)},
      {"i_d_A", To(&d->i_d_A)},
      {"i_q_A", To(&d->i_q_A)},
      {"position", To(&d->position)},
      {"velocity", To(&d->velocity)},
      {"feedforward", To(&d->feedforward_Nm)},
      {"kp_scale", To(&d->kp_scale)},
      {"kd_scale", To(&d->kd_scale)},
      {"max_torque", To(&d->max_torque_Nm)},
      {"stop_position", To(&d->stop_position)},
      {"timeout", To(&d->timeout_s)},
      {"velocity_limit", To(&d->velocity_limit)},
      {"accel_limit", To(&d->accel_limit)},
      {"fixed_voltage", To(&d->fixed_voltage_override)},
      {"fixed_current", To(&d->fixed_current_override)},
      {"ignore_bounds", To(&d->ignore_position_bounds)},
      {"lower", To(&d->bounds_min)},
      {"upper", To(&d->bounds_max)},
  };
}

void Set(const Setters& setters, const std::string& name, const std::string& value) {
  const auto found = setters.find(name);
  if (found == setters.end()) { throw std::runtime_error("nothing is called " + name); }
  found->second(std::stof(value));
}

struct Event {
  int at_ms;
  bool is_sample;
  BldcServoCommandData command;
};

Event CommandAt(std::istream* line) {
  Event event{0, false, {}};
  event.command.timeout_s = 0.0f;
  *line >> event.at_ms;
  const Setters fields = FieldsOf(&event.command);
  for (std::string field; *line >> field;) {
    const auto equals = field.find('=');
    Set(fields, field.substr(0, equals), field.substr(equals + 1));
  }
  return event;
}

void Run(Servo* servo, const std::map<std::string, float>& around, const std::vector<Event>& events) {
  servo->Start(around.at("supply"));
  test::SpmsmMotorSimulator::Params params;
  params.pole_pairs = kPoles / 2;
  params.Kt = servo->torque_constant_;
  params.lambda_m = params.Kt / (1.5f * params.pole_pairs);
  params.R = servo->motor_.resistance_ohm;
  params.L = kInductance;
  params.J = around.at("inertia");
  params.B = around.at("viscous");
  params.rotation_current_cutoff = servo->motor_.rotation_current_cutoff_A;
  test::SpmsmMotorSimulator motor(params);

  BldcServoCommandData brake;
  brake.mode = kBrake;
  brake.timeout_s = kNaN;
  servo->Command(brake);
  const int steps_per_ms = std::lround(0.001 / servo->rate_config_.period_s);
  int step = -kLeadMs * steps_per_ms;
  for (const Event& event : events) {
    for (; step < event.at_ms * steps_per_ms; step++) { servo->Step(&motor); }
    if (event.is_sample) {
      servo->Print(event.at_ms);
    } else {
      servo->Command(event.command);
    }
  }
}

int main() {
  std::unique_ptr<Servo> servo;
  std::map<std::string, float> around;
  std::vector<Event> events;
  for (std::string text; std::getline(std::cin, text);) {
    std::istringstream line(text);
    std::string word, name, value;
    line >> word;
    if (word == "begin") {
      servo = std::make_unique<Servo>();
      events.clear();
    } else if (word == "set") {
      line >> name >> value;
      Set(SettingsOf(servo.get(), &around), name, value);
    } else if (word == "command") {
      events.push_back(CommandAt(&line));
    } else if (word == "sample") {
      line >> value;
      events.push_back({std::stoi(value), true, {}});
    } else if (word == "run") {
      Run(servo.get(), around, events);
    }
  }
}
