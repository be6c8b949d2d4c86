//! `[controller]` with `name = "policy"`.

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
        /// What the policy said in the decision before, as it said it; 0 at the start.
        LastAction = "last_action",
        /// Sine and cosine of a clock that goes round once in `period_s`; a pair for each of `offsets`, sines first. It begins at 0 when
        /// the policy does, and `advance` says when it goes on.
        Phase = "phase",
        /// The numbers of `values`.
        Constant = "constant",
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
        /// Of `joint_pos`: less the default posture.
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

section! {
    /// `[controller.action]`: from what a policy says to targets of joints: clipped, times `scale`, plus `offset`. The servos' limits
    /// hold beyond that.
    ActionConfig {
        /// Least and greatest value, before it is scaled: one pair for all joints, or one each.
        clip: Vec<[f64; 2]> = vec![[-100.0, 100.0]], "", -1e30 => 1e30;
        /// What it is multiplied by: one number for all joints, or one each.
        scale: Vec<f64> = vec![1.0], "rad", -1e6 => 1e6;
        /// What is added; without it, the default posture.
        offset: Vec<f64> = Vec::new(), "rad", -1000.0 => 1000.0;
        /// What a joint does between two decisions.
        between: Between = Between::Hold, "";
        /// Share of the servos' position gain: one number for all joints, or one each. Set the servos' gains to those of the training.
        kp_scale: Vec<f64> = vec![1.0], "", 0.0 => 1.0;
        /// Share of the servos' velocity gain, the same way.
        kd_scale: Vec<f64> = vec![1.0], "", 0.0 => 1.0;
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
        /// How often it decides; the loop's rate is a multiple.
        rate_hz: f64 = 50.0, "Hz", 0.1 => 10_000.0;
        /// From the tick whose state it sees to the tick that follows its decision.
        delay_ticks: u32 = 1, "ticks", 1 => 100_000;
        /// So many decisions in a row that take longer are an error, and the robot is damped; before that, the decision of before stays.
        max_late: u32 = 2, "decisions", 1 => 1000;
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
        /// From what it says to targets of joints.
        action: ActionConfig = ActionConfig::default(), "";
    }
}
