//! `[controller]` with `name = "policy"`.

use khz_onnxruntime::Engine;
use khz_settings::{section, words};

words! {
    /// What a policy sees.
    Term {
        /// The body's rate of turning, rad/s: x forward, y left, z up. 3 numbers.
        BaseAngVel = "base_ang_vel",
        /// Which way is down, in the body's frame, of length 1: (0, 0, -1) when level. 3 numbers.
        ProjectedGravity = "projected_gravity",
        /// The body's acceleration without gravity, m/s². 3 numbers.
        BaseAcceleration = "base_acceleration",
        /// The body's attitude as a quaternion w, x, y, z, from the body to the world. 4 numbers.
        Attitude = "attitude",
        /// What is asked for (`[teleop]`): m/s forward, m/s to the left, rad/s to the left. 3 numbers.
        Command = "command",
        /// Positions of the joints in the policy's order, rad; less `default` where `relative` is true.
        JointPos = "joint_pos",
        /// Velocities of the joints, rad/s.
        JointVel = "joint_vel",
        /// Torques of the joints, N·m.
        JointTorque = "joint_torque",
        /// The action of the decision before, as the model output it; 0 at the start.
        LastAction = "last_action",
        /// Where the decision before wants the joints, rad, before the servos' limits; less `default` where `relative` is true. The default
        /// posture at the start.
        Target = "target",
        /// Sine and cosine of a clock that goes round once in `period_s`; a pair for each of `offsets`, sines first. It begins at 0 when
        /// the policy does, and `advance` says when it goes on.
        Phase = "phase",
        /// The numbers of `values`.
        Constant = "constant",
        /// Numbers that a program outside the run sets: the live parameters of `signals`.
        Signal = "signal",
        /// The same as contacts: 1 for one that is greater than `threshold`, else 0.
        Contact = "contact",
    }
}

impl Term {
    /// The IMU measures it.
    pub fn is_of_imu(self) -> bool {
        matches!(self, Self::BaseAngVel | Self::ProjectedGravity | Self::BaseAcceleration | Self::Attitude)
    }
}

words! {
    /// When the clock of a phase goes on.
    Advance {
        /// Before it is looked at.
        Before = "before",
        /// After it was looked at.
        After = "after",
    }
}

section! {
    /// `[[controller.observe]]`: one term of the observation, in the policy's order.
    ObserveConfig {
        /// What it is.
        term: Term, "";
        /// Least and greatest value before it is scaled: one pair for all of its numbers, or one each.
        clip: Vec<[f64; 2]> = Vec::new(), "", -1e30 => 1e30;
        /// What it is multiplied by: one number for all of its numbers, or one each.
        scale: Vec<f64> = vec![1.0], "", -1e6 => 1e6;
        /// So many of its newest values, this one included.
        history: u32 = 1, "decisions", 1 => 1000;
        /// Of `joint_pos` and `target`: less the default posture.
        relative: bool = true, "";
        /// Of `last_action`: so many decisions older.
        age: u32 = 0, "decisions", 0 => 100;
        /// Of `phase`: the time of one turn.
        period_s: f64 = 1.0, "s", 0.01 => 1000.0;
        /// Of `phase`: the angle of each pair at the start.
        offsets: Vec<f64> = vec![0.0], "rad", -10.0 => 10.0;
        /// Of `phase`: when the clock goes on.
        advance: Advance = Advance::Before, "";
        /// Of `constant`: its numbers.
        values: Vec<f64> = Vec::new(), "", -1e30 => 1e30;
        /// Of `signal` and `contact`: the live parameters that a program sets again and again.
        signals: Vec<String> = Vec::new(), "";
        /// Of the same: one that was not set for longer is an error, and the robot is damped.
        max_age_s: f64 = 0.1, "s", 0.001 => 1000.0;
        /// Of `contact`: from where on there is one.
        threshold: f64 = 0.5, "", -1e30 => 1e30;
    }
}

words! {
    /// Which of the values of a term comes first.
    Order {
        /// The oldest.
        OldestFirst = "oldest_first",
        /// The newest.
        NewestFirst = "newest_first",
    }
}

words! {
    /// How terms with a history are put together.
    Layout {
        /// All values of a term, then those of the next.
        Term = "term",
        /// All terms of one decision, then those of the next; all have the same `history`.
        Time = "time",
    }
}

words! {
    /// What the history has at the start.
    Fill {
        /// The first value, everywhere.
        First = "first",
        /// 0.
        Zero = "zero",
    }
}

section! {
    /// `[controller.history]`: how the values of several decisions stand in an observation.
    HistoryConfig {
        /// Which value of a term comes first.
        order: Order = Order::OldestFirst, "";
        /// How terms are put together.
        layout: Layout = Layout::Term, "";
        /// What it has at the start.
        fill: Fill = Fill::First, "";
    }
}

words! {
    /// What a joint does between two decisions.
    Between {
        /// It is held where the last one wants it.
        Hold = "hold",
        /// It moves evenly, so that it is there when the next one is followed.
        Linear = "linear",
    }
}

words! {
    /// What a policy's action is, of a joint.
    Kind {
        /// Where it is to be, rad.
        Position = "position",
        /// How fast it is to turn, rad/s: without position gain.
        Velocity = "velocity",
        /// What it is to apply, N·m: without gains.
        Torque = "torque",
    }
}

words! {
    /// What a decision does that is late.
    Late {
        /// The targets of before stay, until `max_late` in a row are late.
        Hold = "hold",
        /// The robot is damped at once.
        Damp = "damp",
    }
}

section! {
    /// `[controller.action]`: from a policy's action to targets of joints: clipped, times `scale`, plus `offset`. The servos' limits
    /// hold beyond that.
    ActionConfig {
        /// What the action of each joint is: one for all joints, or one each.
        kinds: Vec<Kind> = vec![Kind::Position], "";
        /// Least and greatest value, before it is scaled: one pair for all joints, or one each.
        clip: Vec<[f64; 2]> = vec![[-100.0, 100.0]], "", -1e30 => 1e30;
        /// What it is multiplied by: one number for all joints, or one each.
        scale: Vec<f64> = vec![1.0], "rad", -1e6 => 1e6;
        /// What is added: one number for all joints, or one each. Without it the default posture, and 0 to velocities and torques.
        offset: Vec<f64> = Vec::new(), "rad", -1000.0 => 1000.0;
        /// A first-order low pass of what is wanted, tick by tick; 0: none.
        filter_hz: f64 = 0.0, "Hz", 0.0 => 10_000.0;
        /// What a joint does between two decisions.
        between: Between = Between::Hold, "";
        /// Share of the servos' position gain: one number for all joints, or one each. Set the servos' gains to those of the training.
        kp_scale: Vec<f64> = vec![1.0], "", 0.0 => 1.0;
        /// Share of the servos' velocity gain, the same way.
        kd_scale: Vec<f64> = vec![1.0], "", 0.0 => 1.0;
        /// The training's position gains, in place of `kp_scale`, for servos whose gains the robot file has: one number for all joints, or one
        /// each, up to the servos'.
        kp: Vec<f64> = Vec::new(), "N·m/rad", 0.0 => 1e6;
        /// Its velocity gains, in place of `kd_scale`.
        kd: Vec<f64> = Vec::new(), "N·m·s/rad", 0.0 => 1e6;
    }
}

section! {
    /// `[controller]` with `name = "policy"`: a trained policy, an ONNX model, decides where joints go. Every list of joints is in the
    /// policy's order.
    PolicyConfig {
        /// The model; from the folder of the robot file, unless it begins with `/`.
        model: String, "";
        /// Its SHA-256 in hexadecimal digits; another file is refused.
        sha256: Option<String> = None, "";
        /// What `khz new --policy` could not find out and guessed, an entry each: nothing runs before each is corrected or confirmed in the
        /// file, and deleted here.
        not_known: Vec<String> = Vec::new(), "";
        /// What evaluates it.
        engine: Engine = Engine::Auto, "";
        /// How often it decides; the loop's rate is a multiple.
        rate_hz: f64 = 50.0, "Hz", 0.1 => 10_000.0;
        /// From the tick whose state it sees to the tick that follows its decision.
        delay_ticks: u32 = 1, "ticks", 1 => 100_000;
        /// What a decision does that takes longer.
        late: Late = Late::Hold, "";
        /// So many decisions in a row that take longer are an error, and the robot is damped; before that, the decision of before stays.
        max_late: u32 = 2, "decisions", 1 => 1000;
        /// So many decisions in a row with an action beyond `action.clip` are an error, and the robot is damped; without it, none are.
        max_clipped: Option<u32> = None, "decisions", 1 => 100_000;
        /// Pairs of the trainer, that the model is tried with: a text file with a line for each, the numbers of an observation and then those
        /// of its action, apart by commas or spaces; from the folder of the robot file. Those of a recurrent model follow each other.
        test: Option<String> = None, "";
        /// The servos' names in the policy's order; every servo once.
        joints: Vec<String>, "";
        /// The default posture: what positions and actions are relative to, and where the policy begins.
        default: Vec<f64>, "rad", -1000.0 => 1000.0;
        /// Time in which joints move to the default posture before the first decision.
        start_s: f64 = 2.0, "s", 0.0 => 1000.0;
        /// What it sees, term by term.
        observe: Vec<ObserveConfig>, "";
        /// How the values of several decisions stand in an observation.
        history: HistoryConfig = HistoryConfig::default(), "";
        /// From its action to targets of joints.
        action: ActionConfig = ActionConfig::default(), "";
    }
}

impl PolicyConfig {
    /// So many late decisions in a row are an error.
    pub(super) fn most_late(&self) -> u32 {
        if self.late == Late::Damp { 1 } else { self.max_late }
    }
}
