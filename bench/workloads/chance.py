"""Chance from a seed, the same in every process, on every machine and in every Python.

Python promises the same sequence only of `random()` itself; all else is made of that here.
"""

import math
import random
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

_T = TypeVar("_T")


class Chance:
    """A source of its own for each name: one more draw from one never moves another.

    Args:
        seed: of the whole workload or run.
        name: of what is drawn here, such as `arrivals`.
    """

    def __init__(self, seed: int, name: str) -> None:
        self._seed = seed
        self._name = name
        self.random = random.Random(f"{seed}/{name}").random

    def child(self, name: str | int) -> "Chance":
        """A source beside this one, which depends on its name alone."""
        return Chance(self._seed, f"{self._name}/{name}")

    def below(self, bound: int) -> int:
        """A whole number from 0 up to, but without, the bound."""
        return int(self.random() * bound)

    def between(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + self.below(high - low + 1)

    def pick(self, among: Sequence[_T]) -> _T:
        """One of them."""
        return among[self.below(len(among))]

    def shuffle(self, items: list[_T]) -> None:
        """Put them into an order of chance, in place."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]

    def sample(self, among: Sequence[_T], count: int) -> list[_T]:
        """So many of them, each once, in an order of chance."""
        items = list(among)
        self.shuffle(items)
        return items[:count]

    def exponential(self) -> float:
        """A gap of a Poisson process of rate 1."""
        return -math.log(1.0 - self.random())

    def gamma(self, shape: float) -> float:
        """A gamma variate of mean 1; `shape` 1 is the exponential, below it comes in bursts."""
        if shape < 1:
            boost = (1.0 - self.random()) ** (1 / shape)
            return self._gamma(shape + 1) * float(boost) / shape
        return self._gamma(shape) / shape

    def _gamma(self, shape: float) -> float:
        """Source: Marsaglia and Tsang, A Simple Method for Generating Gamma Variables (2000)."""
        d = shape - 1 / 3
        c = 1 / math.sqrt(9 * d)
        while True:
            x = self._normal()
            v = (1 + c * x) ** 3
            if v > 0 and math.log(1.0 - self.random()) < 0.5 * x * x + d - d * v + d * math.log(v):
                return d * v

    def _normal(self) -> float:
        radius = math.sqrt(-2 * math.log(1.0 - self.random()))
        return radius * math.cos(2 * math.pi * self.random())


class Popularity:
    """Which of `count` things is asked for: rank k with weight k to the power of minus `skew`."""

    def __init__(self, count: int, skew: float) -> None:
        self._sums = list(accumulate(rank**-skew for rank in range(1, count + 1)))

    def pick(self, chance: Chance) -> int:
        """The index of one, 0 the most popular."""
        return min(bisect(self._sums, chance.random() * self._sums[-1]), len(self._sums) - 1)
