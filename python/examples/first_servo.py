"""First servo: find it, ask it, move it, stop it. Needs no hardware; with a robot file, give its path.

python first_servo.py [ROBOT.toml]
"""

import sys
import time

import kilohertz


def main() -> None:
    robot = kilohertz.Robot(sys.argv[1]) if len(sys.argv) > 1 else kilohertz.Robot.emulated()
    with robot.connect() as connection:
        for found in connection.scan():
            print(f"bus {found.bus}: id {found.id}, {found.uuid}")
        servo = connection.servo(robot.servos[0])
        start = servo.query().position or 0.0
        print(f"{servo.name} is at {start:.3f} rad")
        target = start + 0.5
        # A servo stops by itself 0.1 s after the last command, so commands go on until it is there.
        for _ in range(200):
            reply = servo.position(target)
            if abs((reply.position or 0.0) - target) < 0.02:
                break
            time.sleep(0.01)
        print(f"{servo.name} is at {reply.position:.3f} rad")


if __name__ == "__main__":
    main()
