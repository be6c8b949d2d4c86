"""Of LeRobot 0.4.4 only the names that the plug-in uses, so that it is tried in seconds. `cargo xtask nightly lerobot` has LeRobot itself, and
runs the same tests with it."""
