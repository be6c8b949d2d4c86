"""The unmodified Python `moteus.Controller` against a servo that moves a pendulum in MuJoCo."""

import asyncio
import math
import pathlib
from collections.abc import Callable

import moteus
import mujoco
import pytest
from conftest import Served

R = moteus.Register
# Half a kilogram, 0.15 m from the joint in the middle.
PENDULUM = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.00025"/>
  <worldbody>
    <body>
      <joint name="main_1" axis="0 1 0" damping="0.02"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.01" mass="0.5" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
</mujoco>
"""


def test_a_servo_holds_the_weight_of_a_pendulum(
    serve: Callable[..., Served], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KHZ_MUJOCO", str(pathlib.Path(mujoco.__file__).parent))
    (tmp_path / "pendulum.xml").write_text(PENDULUM)
    served = serve({"main": [1]}, '[body]\nkind = "mujoco"\nmodel = "pendulum.xml"\n')

    async def main() -> None:
        servo = moteus.Controller(id=1, transport=served.transport())
        await servo.set_stop()
        await servo.set_position_wait_complete(
            position=0.1, velocity_limit=0.5, accel_limit=1.0, period_s=0.01, watchdog_timeout=math.nan
        )
        await asyncio.sleep(1.0)
        values = (await servo.query()).values
        angle = 2 * math.pi * values[R.POSITION]
        assert angle == pytest.approx(2 * math.pi * 0.1, abs=0.1)
        assert abs(values[R.TORQUE]) == pytest.approx(0.5 * 9.81 * 0.15 * math.sin(angle), abs=0.03)
        await servo.set_stop()

    asyncio.run(main())
