/* Kilohertz runs a robot's full control cycle a thousand times a second on ordinary Linux.
 *
 * This is its C interface, C11 and C++17; kilohertz.hpp is C++ on top of it. SI units: rad, rad/s, N·m, V, °C, s.
 *
 * Errors: a function that fails returns a khz_status other than KHZ_OK, NULL, or a negative index, as its type is; what failed
 * and what to do is khz_last_error(). NULL and values out of range are errors, too. No panic of the library leaves it.
 *
 * Ownership: what a function called khz_…_load, _parse, _quadruped, _start, _run or _open returns is the caller's, who frees it with
 * the khz_…_free of its type, once. Texts that are returned as const char * are the library's and live as long as the object they
 * were asked of, unless another time is given.
 *
 * Threads: an object of type khz_robot or khz_desk is for one thread at a time; the functions of a khz_run may be called from
 * any thread, until khz_run_free. The controller runs on a thread of the library. From within it only these may be called, which
 * neither allocate nor block: khz_state_fault_text, khz_state_record, khz_run_stop, khz_run_is_over, khz_version,
 * khz_last_error, khz_last_status. Any other function fails there with KHZ_IN_CONTROLLER and does nothing.
 *
 * Everything else allocates and may block as long as its comment says. Do not fork a process in which a robot runs.
 */
#ifndef KILOHERTZ_H
#define KILOHERTZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a call went. */
typedef enum khz_status {
  KHZ_OK = 0,
  KHZ_ERROR = 1,         /* what has no number of its own: a file, a bug in Kilohertz */
  KHZ_INVALID = 2,       /* an argument: NULL, out of range, unknown name */
  KHZ_CONFIG = 3,        /* the robot file, with line and remedy */
  KHZ_START = 4,         /* the robot could not be started */
  KHZ_BROUGHT_DOWN = 5,  /* the run did not end as planned */
  KHZ_NOT_NOW = 6,       /* not at this time, such as a summary of a run that was not waited for */
  KHZ_IN_CONTROLLER = 7, /* not from within the controller */
  KHZ_BUS = 8            /* a bus or servo: no reply, cannot be sent */
} khz_status;

/* Version of the library, such as "0.1.0". Any thread; lives for ever. */
const char *khz_version(void);

/* Why the last call on this thread failed; "" if none has. Lives until the next call on this thread fails. */
const char *khz_last_error(void);

/* The status of the last call on this thread that failed; KHZ_OK if none has. */
khz_status khz_last_status(void);

/* Frees a text that was returned as char *. NULL is fine. */
void khz_string_free(char *text);

/* ---- What a controller sees and sets ------------------------------------------------------------------------------------ */

/* What a servo is doing. */
enum khz_doing {
  KHZ_OFF = 0,
  KHZ_STARTING = 1,
  KHZ_FOLLOWING = 2,
  KHZ_DAMPING = 3,
  KHZ_TIMED_OUT = 4, /* its watchdog acts */
  KHZ_FAULTED = 5,
  KHZ_OTHER = 6
};

/* What a servo is to do. */
enum khz_mode {
  KHZ_STOP = 0,     /* output off; clears a fault */
  KHZ_DAMP = 1,     /* damping, no position held */
  KHZ_POSITION = 2, /* follows position and velocity and adds the torque */
  KHZ_VELOCITY = 3  /* velocity and torque alone: position and kp_scale are ignored */
};

/* The IMU, as of its newest reading; NaN before the first. */
typedef struct khz_imu {
  double attitude[4];     /* quaternion w, x, y, z: body to world */
  double rate[3];         /* rad/s, body */
  double acceleration[3]; /* m/s², body, without gravity */
  double age;             /* s; infinite before the first reading */
  bool fresh;             /* read in this tick */
} khz_imu;

/* What a person steering the robot asks for: zero everywhere but in its age once the newest input is older than 0.3 s. */
typedef struct khz_teleop {
  double forward; /* m/s */
  double left;    /* m/s */
  double turn;    /* rad/s, positive to the left */
  double height;  /* m above the usual one */
  double roll;    /* rad */
  double pitch;   /* rad */
  double age;     /* s; infinite before the first input */
} khz_teleop;

typedef struct khz_tick khz_tick; /* the library's own */

/* The robot as of its newest replies. Everything belongs to the library, is made once before the run, and is rewritten in place
 * before every call of the controller: read it there only, and copy what is to stay. The arrays have one value per servo, in the order
 * of the robot file. */
typedef struct khz_state {
  uint64_t tick;   /* number of this tick, from 0 */
  double time;     /* s since the first tick, by the plan */
  double dt;       /* the period, s */
  double elapsed;  /* from the real start of the previous tick to that of this one, s */
  int64_t now_ns;  /* when this state was complete: CLOCK_MONOTONIC, or virtual time */
  size_t servos;
  const double *position;      /* rad; NaN before the first reply */
  const double *velocity;      /* rad/s */
  const double *torque;        /* N·m */
  const double *voltage;       /* V */
  const double *temperature;   /* °C */
  const double *age;           /* s; infinite before the first reply */
  const uint32_t *fault;       /* the fault code of the servo's family; 0: none */
  const uint8_t *doing;        /* enum khz_doing */
  const uint8_t *fresh;        /* 1: the reply answers this tick's query */
  const khz_imu *imu;          /* NULL: the robot has none */
  const khz_teleop *teleop;
  size_t parameter_count;
  const double *parameters;    /* values in force, by the index that khz_robot_add_parameter or khz_robot_parameter returned */
  khz_tick *library;
} khz_state;

/* What each servo is to do next. The arrays are the library's, have one value per servo, and keep what is written to them from tick
 * to tick. What is written just before or after one of them ends the run, and the commands of that tick are not sent. When the robot comes
 * under control they hold every joint where it is. */
typedef struct khz_command {
  size_t servos;
  uint8_t *mode;      /* enum khz_mode */
  double *position;   /* rad */
  double *velocity;   /* rad/s */
  double *torque;     /* feed-forward, N·m */
  double *kp_scale;   /* share of the servo's position gain, 0 to 1 */
  double *kd_scale;   /* share of the servo's velocity gain, 0 to 1 */
  double *max_torque; /* N·m; NaN: the servo's own limit */
  bool finish;        /* set it to end the run as planned ("finished"): the robot comes down gently */
} khz_command;

/* The controller: called in every tick, on the loop's thread (or, with loop.mode = "pipelined", on its own). Returns NULL to go on, or
 * why it cannot: then the supervisor damps the robot and the text, copied before the next call, ends the run. It must not
 * allocate, lock, print or wait, throw a C++ exception, or leave by longjmp. */
typedef const char *(*khz_update)(const khz_state *state, khz_command *command, void *user);

/* Called before the first update, and again after every re-arming, with measured positions. Same thread, same rules. */
typedef const char *(*khz_start)(const khz_state *state, void *user);

/* The fault of a servo in the words of its manual, cut off to size - 1 bytes and always ended by 0; "none" without one. Returns the
 * length of the whole text, 0 if servo is out of range. Controller only; neither allocates nor blocks. */
size_t khz_state_fault_text(const khz_state *state, size_t servo, char *text, size_t size);

/* Records one sample: a value for each field of the record. False: not recorded, because there is no log, it is behind (then the
 * sample is counted as dropped), or record and count do not fit. Controller only; neither allocates nor blocks, except in virtual time,
 * which waits for the disk. */
bool khz_state_record(const khz_state *state, ptrdiff_t record, const double *values, size_t count);

/* ---- A robot ------------------------------------------------------------------------------------------------------------ */

/* A robot file, and what a program adds to it. One may be started several times, one run after another. */
typedef struct khz_robot khz_robot;

/* The robot of a file. NULL: it cannot be read (KHZ_ERROR), or something in it is wrong (KHZ_CONFIG). Reads the disk. */
khz_robot *khz_robot_load(const char *path);

/* The robot of a text; name is what messages call it. */
khz_robot *khz_robot_parse(const char *text, const char *name);

/* The emulated quadruped of `khz run`: 12 servos on 4 buses, and an IMU. */
khz_robot *khz_robot_quadruped(void);

/* Frees it; runs of it go on. NULL is fine. */
void khz_robot_free(khz_robot *robot);

/* Its name. */
const char *khz_robot_name(const khz_robot *robot);

/* Ticks per second; NaN on error. */
double khz_robot_rate_hz(const khz_robot *robot);

/* Whether it has an IMU. */
bool khz_robot_has_imu(const khz_robot *robot);

/* What is suspicious in the file but no error, in lines; "" if nothing is. */
const char *khz_robot_warnings(const khz_robot *robot);

/* How many servos it has; 0 on error. */
size_t khz_robot_servo_count(const khz_robot *robot);

/* The name of a servo. */
const char *khz_robot_servo_name(const khz_robot *robot, size_t servo);

/* The index of a servo in all arrays, by its name; -1 on error. */
ptrdiff_t khz_robot_servo(const khz_robot *robot, const char *name);

/* The position limits of a servo, rad; infinite where it has none. */
khz_status khz_robot_limits(const khz_robot *robot, size_t servo, double *min, double *max);

/* Replaces the controller that the file names. start may be NULL. user is passed on and stays the caller's; it must live, as the code of
 * the functions, until every run of this robot is freed. With loop.mode = "pipelined" that is not enough: a controller that does not
 * return within 0.1 s of the end of its run is left behind on its thread, and khz_run_wait and khz_run_free do not wait for it. Then use
 * khz_robot_set_controller_owned, which reports when user is free, and start the robot again only when the controller has returned. */
khz_status khz_robot_set_controller(khz_robot *robot, khz_start start, khz_update update, void *user);

/* Called once with user, when the controller is not running and will not be called again: after the robot was freed or got another controller,
 * all its runs were freed, and the controller has returned. Called on the thread that did the last of these: one of
 * the caller's, or the controller's own if it returned late. It must not use that robot or its runs. */
typedef void (*khz_release)(void *user);

/* As khz_robot_set_controller, and user is the library's until it calls release (NULL: no call). On error user stays the
 * caller's. */
khz_status khz_robot_set_controller_owned(khz_robot *robot, khz_start start, khz_update update, void *user, khz_release release);

/* Brings the robot down after this time, s; without it, it runs until it is stopped. */
khz_status khz_robot_set_duration(khz_robot *robot, double seconds);

/* Runs in virtual time, as fast as the CPU computes it: for emulated robots. The run repeats exactly. */
khz_status khz_robot_set_virtual_time(khz_robot *robot, bool on);

/* Writes the log there instead of to the file's log.path; NULL: no log. A log that is there is kept, and a number added; a folder or a device
 * is refused when the robot is started. */
khz_status khz_robot_set_log(khz_robot *robot, const char *path);

/* The seed of the emulated devices. */
khz_status khz_robot_set_seed(khz_robot *robot, uint64_t seed);

/* The controller decides rate_hz times a second, which divides the loop's rate, on a thread of its own: khz_update may take until its
 * commands are followed, delay_ticks after the tick whose state it sees (0: the whole time to the next decision). Until the first are
 * there, however long that takes, the joints are held. Later ones that are late change nothing until they come, and max_late in a row
 * bring the robot down. */
khz_status khz_robot_set_decisions(khz_robot *robot, double rate_hz, uint32_t delay_ticks, uint32_t max_late);

/* What values a parameter takes. */
typedef enum khz_kind { KHZ_FLOAT = 0, KHZ_INTEGER = 1, KHZ_BOOLEAN = 2 } khz_kind;

/* Declares a number of the controller that a person may change while it runs: [A-Za-z_][A-Za-z0-9_.]*. unit and text may be NULL; min
 * and max of a boolean are ignored. A robot with a parameter of this name in its file takes value and range from there. Returns its index
 * in state->parameters, which stays when more are declared; -1 on error. khz_robot_start refuses parameters without a controller. */
ptrdiff_t khz_robot_add_parameter(khz_robot *robot, const char *name, khz_kind kind, double value, double min, double max,
                                  const char *unit, const char *text);

/* The index in state->parameters of one that was added or that the robot file declares; -1 on error. */
ptrdiff_t khz_robot_parameter(const khz_robot *robot, const char *name);

/* One number of a record: its name and unit, such as "rad" (NULL: none). */
typedef struct khz_field {
  const char *name;
  const char *unit;
} khz_field;

/* Declares a record of the log, whose samples are numbers (float64). Names must not be empty, have control characters or be there already,
 * in the log (tick, servo, …) or in the record. Returns what khz_state_record wants; -1 on error. khz_robot_start refuses records without
 * a controller. */
ptrdiff_t khz_robot_add_record(khz_robot *robot, const char *name, const khz_field *fields, size_t count);

/* ---- A run -------------------------------------------------------------------------------------------------------------- */

/* A robot that runs, or has run. */
typedef struct khz_run khz_run;

/* Starts the robot and returns. Signals are left to the program: one that ends it at once (Ctrl-C) leaves the servos to their
 * watchdogs. NULL: it could not be started. Blocks until all devices are open. */
khz_run *khz_robot_start(const khz_robot *robot);

/* Runs the robot until its duration is over, the controller finishes it, or a signal comes (Ctrl-C, SIGTERM), which brings it down
 * gently; shows a live line on a terminal, and writes the report beside the log. For a program's main thread. The program's own
 * signal handlers are replaced during the run and restored afterwards. Once a signal has come in one run, this function starts no other
 * (KHZ_START). The run it returns is over: khz_run_wait returns how it ended. NULL: it could not be started. Blocks for the whole run. */
khz_run *khz_robot_run(const khz_robot *robot);

/* Brings the robot down gently; returns at once. A second time changes nothing. Neither allocates nor blocks. */
khz_status khz_run_stop(khz_run *run);

/* The robot is down, and khz_run_wait will not block for long. Neither allocates nor blocks for long. */
bool khz_run_is_over(const khz_run *run);

/* Arms the robot, with supervisor.arming = "operator". */
khz_status khz_run_arm(khz_run *run);

/* Blocks until the robot is down and the log is written. KHZ_BROUGHT_DOWN: the run did not end as planned, khz_last_error has the reason.
 * It may be called again and returns the same; while another thread waits, KHZ_NOT_NOW. */
khz_status khz_run_wait(khz_run *run);

/* The figures of a run that was waited for as JSON, as `khz run --json` prints them. */
const char *khz_run_summary(const khz_run *run);

/* The verdict and what it is of, in at most six lines, as `khz run` prints it. */
const char *khz_run_table(const khz_run *run);

/* Why the run ended, in words: "finished", or what brought the robot down. */
const char *khz_run_end(const khz_run *run);

/* Writes the report of a run that was waited for, a page of HTML. A file that is there is kept, and a number added; a folder or a device is
 * refused. */
khz_status khz_run_report(khz_run *run, const char *path);

/* The parameters as JSON: name, type, unit, min, max, default, text, value in force. The caller frees it: khz_string_free. */
char *khz_run_parameters(const khz_run *run);

/* The value of a parameter that is in force; 0 or 1 of a boolean. */
khz_status khz_run_get_parameter(const khz_run *run, const char *name, double *value);

/* Changes a parameter, and blocks until a tick has taken the change, 2 s at most, and 10 s before the first tick. */
khz_status khz_run_set_parameter(khz_run *run, const char *name, double value);

/* Frees a run. One that was not waited for is brought down first; that blocks until the log is written. NULL is fine. Within a controller
 * it is refused: the run goes on and stays the caller's. */
void khz_run_free(khz_run *run);

/* ---- Targets of a slow program ------------------------------------------------------------------------------------------ */

/* A program that sends targets to a robot with the controller `targets`: where its joints should be, and when. The loop makes a smooth
 * motion of them, within the limits of the robot file. Several threads may use several; one, one at a time. They wait for others who
 * send, never for the loop. */
typedef struct khz_targets khz_targets;

/* Where all joints are to be at a time. The arrays have a number for each servo, in the order of the robot file. */
typedef struct khz_point {
  int64_t at_ns;          /* by the robot's clock, CLOCK_MONOTONIC: khz_targets_now_ns */
  const double *position; /* rad */
  const double *velocity; /* rad/s; NULL: that of a smooth curve through the points */
  const double *torque;   /* N·m; NULL: as before */
} khz_point;

/* Sends under this name, with a priority of 0 to 9; 5 is usual, and a higher one takes the robot from a lower one. NULL: the robot follows
 * no targets, or was run by khz_robot_run. It may be used, and must be freed, after the run, too. */
khz_targets *khz_run_targets(khz_run *run, const char *name, int priority);

/* The robot's time now, ns; 0 on error. */
int64_t khz_targets_now_ns(const khz_targets *targets);

/* How many numbers the arrays of a point have; 0 on error. */
size_t khz_targets_servo_count(const khz_targets *targets);

/* Sends a target, or a chunk of up to 256 with rising times, which replaces what was to come after its first point. KHZ_NOT_NOW: it is not
 * taken, and khz_last_error begins with the reason: late, held, duplicate, out_of_order, future, flood, not_active. KHZ_INVALID: it is
 * no message. */
khz_status khz_targets_send(khz_targets *targets, const khz_point *points, size_t count);

/* Nothing will come for so long, s, and that is no silence. */
khz_status khz_targets_hold(khz_targets *targets, double seconds);

/* This program is done: the robot stands, others may have it, and nothing more is expected. */
khz_status khz_targets_release(khz_targets *targets);

/* The robot's state and what became of the targets of all programs, as JSON. The caller frees it: khz_string_free. */
char *khz_targets_status(const khz_targets *targets);

/* NULL is fine. */
void khz_targets_free(khz_targets *targets);

/* ---- Servos by hand, without a loop ------------------------------------------------------------------------------------- */

/* The buses of a robot, open. No supervisor watches: what you command is sent as it is. */
typedef struct khz_desk khz_desk;

/* What a servo reports. What the reply did not contain is NaN. */
typedef struct khz_reply {
  double position;    /* rad */
  double velocity;    /* rad/s */
  double torque;      /* N·m */
  double voltage;     /* V */
  double temperature; /* °C */
  uint32_t fault;     /* code of its family; 0: none */
  char fault_text[60];
} khz_reply;

/* A position to follow. */
typedef struct khz_target {
  double position;   /* rad; NaN, with kp_scale 0: wherever the joint is */
  double velocity;   /* rad/s */
  double torque;     /* N·m */
  double kp_scale;   /* 0 to 1 */
  double kd_scale;   /* 0 to 1 */
  double max_torque; /* N·m; NaN: the servo's own limit */
} khz_target;

/* Opens the buses of a robot. */
khz_desk *khz_desk_open(const khz_robot *robot);

/* Closes them. NULL is fine. */
void khz_desk_free(khz_desk *desk);

/* Asks for the ids up to last on a bus, counted from 0, and writes those that answer to ids, as far as there is room. Returns how many
 * answered; -1 on error. Blocks for timeout, s, for every 16 ids. */
ptrdiff_t khz_desk_scan(khz_desk *desk, size_t bus, uint8_t last, double timeout, uint8_t *ids, size_t room);

/* Asks a servo, by its index, for its state. These block until it answers, timeout (s) at most; reply may be NULL. */
khz_status khz_desk_query(khz_desk *desk, size_t servo, double timeout, khz_reply *reply);

/* Switches its output off; clears a fault. */
khz_status khz_desk_stop(khz_desk *desk, size_t servo, double timeout, khz_reply *reply);

/* Has it follow a position, also one outside the limits of the robot file: those count in a run only. It stops by itself when it gets no
 * command for watchdog, s (finite and above 0); NaN: never. */
khz_status khz_desk_position(khz_desk *desk, size_t servo, const khz_target *target, double watchdog, double timeout,
                             khz_reply *reply);

#ifdef __cplusplus
}
#endif

#endif
