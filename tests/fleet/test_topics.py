"""What other programs see of a robot: ROS 2's layout, decoded by rosbags, and our own keys with their schemas."""

import math
import struct
import sys

import zenoh
from conftest import ROOT, Samples, Robot, Tokens, World, ask, number, wait_for
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

ROS = get_typestore(Stores.ROS2_JAZZY)
JOINTS = ["hip", "thigh", "knee"]


def in_order(samples: list[zenoh.Sample]) -> bool:
    """A computer that is too busy loses samples, and their numbers show it; none comes twice or late."""
    numbers = [number(sample) for sample in samples]
    return numbers == sorted(set(numbers))


def test_ros_sees_joint_states_imu_and_diagnostics(world: World) -> None:
    world.router()
    judge = world.judge()
    tokens = Tokens(judge, "@ros2_lv/0/**")
    joints = Samples(judge, "0/*/joint_states/**")
    imu = Samples(judge, "0/*/imu/**")
    diagnostics = Samples(judge, "0/diagnostics/**")
    robot = world.robot("quad-1", "quadruped")
    samples = joints.wait(50, "joint states")

    kind = "sensor_msgs/msg/JointState"
    hashed = ROS.hash_rihs01(kind)
    key = f"0/quad_1/joint_states/sensor_msgs::msg::dds_::JointState_/{hashed}"
    assert {str(sample.key_expr) for sample in samples} == {key}
    message = ROS.deserialize_cdr(bytes(samples[0].payload), kind)
    assert len(message.name) == 12 and message.name[0] == "front_left_hip"
    assert len(message.position) == len(message.velocity) == len(message.effort) == 12
    assert ROS.serialize_cdr(message, kind) == bytes(samples[0].payload)

    # The attachment of rmw_zenoh since 0.2.4: number, source time, and a gid of 16 bytes that stays.
    attachments = [bytes(sample.attachment) for sample in samples if sample.attachment]
    assert {len(one) for one in attachments} == {33} and {one[16] for one in attachments} == {16}
    assert len({one[17:] for one in attachments}) == 1
    stamp = message.header.stamp
    assert abs(struct.unpack_from("<q", attachments[0], 8)[0] - (stamp.sec * 10**9 + stamp.nanosec)) < 1000
    assert in_order(samples)

    for received, kind in ((imu, "sensor_msgs/msg/Imu"), (diagnostics, "diagnostic_msgs/msg/DiagnosticArray")):
        # The first diagnostics come with the first tick, before anything is known of the servos.
        sample = received.wait(2, kind)[-1]
        assert str(sample.key_expr).endswith("/" + ROS.hash_rihs01(kind))
        ROS.deserialize_cdr(bytes(sample.payload), kind)
    message = ROS.deserialize_cdr(bytes(imu.all()[-1].payload), "sensor_msgs/msg/Imu")
    turn = message.orientation
    assert math.isclose(math.hypot(turn.x, turn.y, turn.z, turn.w), 1.0, abs_tol=1e-3)
    message = ROS.deserialize_cdr(bytes(diagnostics.all()[-1].payload), "diagnostic_msgs/msg/DiagnosticArray")
    assert {"quad-1: loop", "quad-1: front_left_hip"} <= {status.name for status in message.status}

    # The graph: a node and three publishers, which go when the robot goes.
    wait_for(lambda: len(tokens.now) == 4, "a node and three publishers")
    parts = [token.split("/") for token in tokens.now]
    assert {part[5] for part in parts} == {"NN", "MP"} and len({part[2] for part in parts}) == 1
    (own,) = [part for part in parts if len(part) > 9 and part[9] == "%quad_1%joint_states"]
    assert own[6:9] == ["%", "%quad_1", "khz"]
    assert own[10:] == ["sensor_msgs::msg::dds_::JointState_", hashed, "::,10:,:,:,,"]
    robot.process.kill()
    wait_for(lambda: not tokens.now, "nothing is left in ROS 2's graph")


def test_every_record_has_a_key_with_its_schema(world: World) -> None:
    world.router()
    judge = world.judge()
    robot = world.robot("leg")
    newest, least, greatest = (Samples(judge, robot.key(f"servo{end}")) for end in ("", "/@least", "/@greatest"))
    events = Samples(judge, robot.key("event"))
    sample = newest.wait(60, "samples of servo")[-1]
    assert str(sample.encoding) == "application/cdr;khz_msgs/msg/Servo"
    assert in_order(newest.all())

    store = get_typestore(Stores.EMPTY)
    for record in ("servo", "tick", "event"):
        fine, text = ask(judge, robot.key(f"schema/{record}"))
        assert fine
        store.register(get_types_from_msg(text.decode(), f"khz_msgs/msg/{record.capitalize()}"))
    servo = store.deserialize_cdr(bytes(sample.payload), "khz_msgs/msg/Servo")
    assert all(hasattr(servo, joint) for joint in JOINTS)

    # No spike is lost: the least and the greatest of the samples between two that are passed on.
    def by_number(received: Samples) -> dict[int, object]:
        return {
            number(sample): store.deserialize_cdr(bytes(sample.payload), "khz_msgs/msg/Servo")
            for sample in received.all()
        }

    wait_for(lambda: len(greatest.all()) >= 60, "ranges")
    values, low, high = by_number(newest), by_number(least), by_number(greatest)
    common = values.keys() & low.keys() & high.keys()
    assert len(common) >= 50
    for at in common:
        for joint in JOINTS:
            own, from_, to = (getattr(all_[at], joint).velocity for all_ in (values, low, high))
            assert from_ <= own <= to
    assert any(
        getattr(low[at], joint).velocity < getattr(high[at], joint).velocity for at in common for joint in JOINTS
    )

    causes = [store.deserialize_cdr(bytes(event.payload), "khz_msgs/msg/Event").cause for event in events.all()]
    fine, newest_event = ask(judge, robot.key("newest/event"))
    # A bridge that came after the robot's first event has none yet.
    assert fine or b"no sample" in newest_event, newest_event
    assert not fine or store.deserialize_cdr(newest_event, "khz_msgs/msg/Event").cause
    assert not causes or causes[-1]
    fine, refused = ask(judge, robot.key("newest/nothing"))
    assert not fine and b"no record `nothing`" in refused


def test_the_rules_of_a_file_decide_what_is_passed_on(world: World) -> None:
    world.router()
    judge = world.judge()
    robot: Robot = world.robot("leg", rate=500)
    robot.bridge.kill()
    robot.bridge.wait()
    file = world.folder / "bridge.toml"
    file.write_text('ranges = []\n[records]\nservo = { rate_hz = 10.0 }\nservoo = "off"\ncommand = "off"\ntick = "every"\n[ros]\nenabled = false\n')
    everything = Samples(judge, "**")
    robot.bridge = robot.start_bridge("--config", str(file))
    wait_for(lambda: sum(str(s.key_expr) == robot.key("servo") for s in everything.all()) >= 20, "servo at 10 Hz")
    counts: dict[str, int] = {}
    for sample in everything.all():
        counts[str(sample.key_expr)] = counts.get(str(sample.key_expr), 0) + 1
    assert robot.key("command") not in counts and not any(key.startswith("0/") for key in counts)
    assert not any("@least" in key for key in counts)
    # 500 ticks for 10 samples of servo; on a busy computer fewer of both.
    assert counts[robot.key("tick")] > 2 * counts[robot.key("servo")]

    wait_for(lambda: "records: `servoo`: the robot has no such record; it has" in world.output("bridge-leg"), "the slip is told")

    file.write_text("[records]\nservo = { rate_hz = -1.0 }\n")
    done = world.run("bridge", "--config", str(file), code=2)
    assert "records.servo" in done.stderr and str(file) in done.stderr


def test_the_example_of_the_documentation_reads_samples(world: World) -> None:
    page = (ROOT / "docs/fleet.md").read_text()
    text = page.split('title="watch.py"\n')[1].split("```")[0]
    (world.folder / "watch.py").write_text(text)
    world.router()
    robot = world.robot("leg")
    judge = world.judge()
    Samples(judge, robot.key("tick")).wait(1, "a tick")
    world.start(sys.executable, "watch.py", "leg", world.endpoint, name="watch")
    wait_for(lambda: len(world.output("watch").split()) > 3, "ticks")
    latencies = [float(word) for word in world.output("watch").split()]
    assert any(latencies), "ns, from the robot's loop"
