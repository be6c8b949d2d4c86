"""What a campaign cannot go on with, and packages that are not there."""

from __future__ import annotations

import importlib
from typing import Any

from .._native import KilohertzError


class CampaignError(KilohertzError):
    """A campaign cannot begin or go on: the message has the file or the seeds, and what to do."""


def needed(name: str) -> Any:
    """A package that only campaigns need. Raises ImportError with what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        text = f"a campaign needs the package {name.split('.')[0]} ({missing}): pip install 'kilohertz[campaign]'"
        raise ImportError(text, name=missing.name) from missing
