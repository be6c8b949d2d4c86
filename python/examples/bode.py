"""Sine sweep and Bode plot: how well a joint follows, up to 20 Hz. The controller runs in the 1 kHz loop.

python bode.py [OUT.png]          with matplotlib installed a plot, else a table
"""

import sys

import numpy as np
import numpy.typing as npt

import kilohertz

FREQUENCIES_HZ = np.geomspace(0.5, 20.0, 8)
PERIODS = 4
AMPLITUDE = 0.05


class Sweep:
    """Swings a joint at one frequency after the other, and keeps what was commanded and measured."""

    def __init__(self) -> None:
        lengths = PERIODS / FREQUENCIES_HZ
        self.ends = np.cumsum(lengths)
        self.starts = self.ends - lengths
        # Made before the run: the loop must not wait for memory.
        self.samples = np.full((int(self.ends[-1] * 1000) + 2000, 3), np.nan)
        self.count = 0
        self.began = 0.0
        self.middle = 0.0

    def start(self, state: kilohertz.State) -> None:
        self.began, self.middle = state.time, float(state.position[0])

    def update(self, state: kilohertz.State, command: kilohertz.Command) -> None:
        time = state.time - self.began
        step = min(int(np.searchsorted(self.ends, time)), len(FREQUENCIES_HZ) - 1)
        swing = AMPLITUDE * np.sin(2 * np.pi * FREQUENCIES_HZ[step] * (time - self.starts[step]))
        # The reply shows what the command of the tick before did.
        self.samples[self.count] = time, command.position[0] - self.middle, state.position[0] - self.middle
        self.count = min(self.count + 1, len(self.samples) - 1)
        command.position[0] = self.middle + swing

    def response(self) -> npt.NDArray[np.complex128]:
        """Measured over commanded at each frequency, after the first period settled."""
        time, commanded, measured = self.samples[: self.count].T
        result = []
        for frequency, start, end in zip(FREQUENCIES_HZ, self.starts, self.ends, strict=True):
            part = (time >= start + 1 / frequency) & (time < end)
            wave = np.exp(-2j * np.pi * frequency * time[part])
            result.append((measured[part] @ wave) / (commanded[part] @ wave))
        return np.array(result)


def plot(path: str, response: npt.NDArray[np.complex128]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (gain, phase) = plt.subplots(2, sharex=True)
    gain.semilogx(FREQUENCIES_HZ, 20 * np.log10(abs(response)), "o-")
    gain.set_ylabel("gain / dB")
    phase.semilogx(FREQUENCIES_HZ, np.degrees(np.unwrap(np.angle(response))), "o-")
    phase.set_ylabel("phase / °")
    phase.set_xlabel("frequency / Hz")
    figure.savefig(path)


def main() -> None:
    sweep = Sweep()
    robot = kilohertz.Robot.emulated()
    robot.run(sweep, duration=float(sweep.ends[-1]) + 0.1, record=False)
    response = sweep.response()
    print("   Hz     dB   degrees")
    for frequency, value in zip(FREQUENCIES_HZ, response, strict=True):
        print(f"{frequency:5.1f} {20 * np.log10(abs(value)):6.2f} {np.degrees(np.angle(value)):8.1f}")
    if len(sys.argv) > 1:
        plot(sys.argv[1], response)
        print(f"plot: {sys.argv[1]}")


if __name__ == "__main__":
    main()
