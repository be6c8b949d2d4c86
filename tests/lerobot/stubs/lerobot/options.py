"""Stands for the command line's registry of options."""

from collections.abc import Callable
from typing import ClassVar, TypeVar

T = TypeVar("T", bound=type)


class Registry:
    kinds: ClassVar[dict[str, type]]

    @classmethod
    def register_subclass(cls, name: str) -> Callable[[T], T]:
        def register(kind: T) -> T:
            cls.kinds[name] = kind
            return kind

        return register

    @property
    def type(self) -> str:
        return next(name for name, kind in self.kinds.items() if kind is type(self))
