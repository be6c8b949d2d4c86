"""The model of the tests: half a kilogram, 0.15 m from a joint without friction in the middle."""

MODEL = """
<mujoco model="pendulum">
  <compiler angle="radian"/>
  <option timestep="0.00025"/>
  <worldbody>
    <body name="arm">
      <joint name="joint" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.01" mass="0.5" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <keyframe><key name="raised" qpos="0.3"/></keyframe>
</mujoco>
"""
"""As MJCF; its keyframe `raised` is 0.3 rad from hanging."""
