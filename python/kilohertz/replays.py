"""A controller on the states of a recorded run."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    from .controller import AnyController


def replay(
    log: str | os.PathLike[str],
    controller: AnyController,
    *,
    robot: str | os.PathLike[str] | None = None,
    tolerance: float = 1e-5,
) -> dict[str, Any]:
    """Calls a controller with the recorded states, tick by tick, and compares its commands with the recorded ones.

    The limits of the supervisor are applied to the commands as in the run. `robot` names a robot file that replaces that in the
    log. Differences up to `tolerance` do not count; of numbers above 1, this share of them.

    Returns what `khz replay --json` prints: `same`, `ticks`, and for each of the `joints` its `name`, the number of `ticks` that differ,
    the `first` difference and the `largest`.

    >>> outcome = kilohertz.replay("run.tlog", controller)                     # doctest: +SKIP
    >>> outcome["same"], outcome["joints"][0]["first"]                         # doctest: +SKIP
    (False, {'tick': 812, 'time_s': 0.812, 'what': 'position', 'recorded': 0.25, 'replayed': 0.3})

    Raises what the controller raised, ValueError for a tolerance that is none, LogError if the log has no run, ConfigError if the robot file is wrong.
    """
    if not 0 <= tolerance < math.inf:
        raise ValueError(f"tolerance is {tolerance:g}; it is a number from 0 up")
    if isinstance(controller, Mapping):
        controller = dict(controller)
    path = None if robot is None else os.fspath(robot)
    outcome: dict[str, Any] = json.loads(_native.replay(os.fspath(log), controller, path, tolerance))
    return outcome
