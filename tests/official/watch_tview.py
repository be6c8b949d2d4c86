"""Runs the official tview without a screen until it shows everything about a servo; prints what it shows.

Arguments are tview's own. Exits with 1 if that takes longer than 30 s.
"""

import json
import os
import sys
import time

os.environ["QT_QPA_PLATFORM"] = "offscreen"

from moteus_gui import tview  # noqa: E402
from qtpy import QtCore, QtWidgets  # noqa: E402

EXPECTED = {"config": 10, "telemetry": 7}


def children(item: "QtWidgets.QTreeWidgetItem") -> list[str]:
    """The names of what is below an item."""
    return [item.child(index).text(0) for index in range(item.childCount())]


class Watched(tview.TviewMainWindow):  # type: ignore[misc]
    """tview's window, looked at several times a second."""

    def __init__(self, options: object) -> None:
        super().__init__(options)
        self.deadline = time.monotonic() + 60.0
        self.timer = QtCore.QTimer()
        self.timer.timeout.connect(self.look)
        self.timer.start(100)

    def look(self) -> None:
        trees = {"config": self.ui.configTreeWidget, "telemetry": self.ui.telemetryTreeWidget}
        roots = {name: tree.topLevelItem(0) for name, tree in trees.items()}
        shown = {name: children(root) if root else [] for name, root in roots.items()}
        complete = all(len(shown[name]) >= count for name, count in EXPECTED.items())
        if complete:
            stats = next(
                root.child(i)
                for root in [roots["telemetry"]]
                for i in range(root.childCount())
                if root.child(i).text(0) == "servo_stats"
            )
            stats.setExpanded(True)
            values = {stats.child(i).text(0): stats.child(i).text(1) for i in range(stats.childCount())}
            if not values.get("bus_V"):
                complete = False
            shown["bus_V"] = values.get("bus_V", "")
        if complete or time.monotonic() > self.deadline:
            print(json.dumps(shown), flush=True)
            os._exit(0 if complete else 1)


tview.TviewMainWindow = Watched
tview.main()
sys.exit(1)
