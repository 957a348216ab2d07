"""Cyclic groups, powers of Z_2 and dihedral groups, with their irreps in closed form.

Source: Serre, "Linear Representations of Finite Groups" (1977), sections 5.1 and 5.3.
"""

from functools import partial
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float64, Int32, Num
from pydantic import Field

from elegans.groups.base import Group
from elegans.groups.irreps import Irrep, whole
from elegans.groups.multiplication import LARGEST_ORDER


class Cyclic(Group):
    """The cyclic group Z_n: addition modulo n. Its irreps a -> exp(2 pi i k a / n) are called ``frequency k``.

    Only the irreps of frequency 0 (``trivial``) and, for even n, n / 2 (``sign``) are real.

    Args:
        n: the order, from 1 to 5040.
    """

    n: Annotated[int, Field(ge=1, le=LARGEST_ORDER)]

    @property
    def name(self) -> str:
        return f"Z{self.n}"

    @property
    def order(self) -> int:
        return self.n

    def make_table(self) -> Int32[np.ndarray, "n n"]:
        numbers = np.arange(self.n, dtype=np.int32)
        return np.add.outer(numbers, numbers) % np.int32(self.n)

    def make_irreps(self) -> tuple[Irrep, ...]:
        return tuple(self._irrep(frequency) for frequency in range(self.n))

    def _irrep(self, frequency: int) -> Irrep:
        turns = np.arange(self.n) * frequency % self.n
        if 2 * frequency % self.n == 0:
            name = "sign" if frequency else "trivial"
            return one_dimensional(name, 1.0 - 2.0 * (turns > 0))
        return one_dimensional(f"frequency {frequency}", whole(np.exp(2j * np.pi * turns / self.n)), indicator=0)


class ElementaryAbelian(Group):
    """The group Z_2^k: strings of k bits, added bit by bit; bit j of an element's number is its coordinate j.

    Its irreps are the parities of the coordinates in a set, called ``parity {0,2}``.

    Args:
        k: the number of bits, from 1 to 12.
    """

    k: Annotated[int, Field(ge=1, le=12)]

    @property
    def name(self) -> str:
        return f"Z2^{self.k}"

    @property
    def order(self) -> int:
        return 1 << self.k

    def make_elements(self) -> tuple[str, ...]:
        return tuple(f"{element:0{self.k}b}"[::-1] for element in range(self.order))

    def make_table(self) -> Int32[np.ndarray, "order order"]:
        numbers = np.arange(self.order, dtype=np.int32)
        return np.bitwise_xor.outer(numbers, numbers)

    def make_irreps(self) -> tuple[Irrep, ...]:
        numbers = np.arange(self.order)
        sets = [tuple(j for j in range(self.k) if number >> j & 1) for number in numbers]
        irreps = []
        for members in sorted(sets, key=lambda members: (len(members), members)):
            name = f"parity {{{','.join(map(str, members))}}}" if members else "trivial"
            ones = np.bitwise_count(numbers & sum(1 << j for j in members))
            irreps.append(one_dimensional(name, 1.0 - 2.0 * (ones % 2)))
        return tuple(irreps)


class Dihedral(Group):
    """The dihedral group D_n of order 2n, the symmetries of a polygon: rotations r^k, then reflections r^k s.

    Its irreps have the names used in chemistry: ``trivial`` and ``sign`` (A1 and A2: r is 1, s is 1 or -1), for
    even n ``B1`` and ``B2`` (r is -1), and ``E1``, ``E2``, …, of dimension 2, in which r turns by 2 pi k / n.

    Args:
        n: the number of rotations, from 1 to 2520; D_1 is Z_2, D_2 is Z_2^2.
    """

    n: Annotated[int, Field(ge=1, le=LARGEST_ORDER // 2)]

    @property
    def name(self) -> str:
        return f"D{self.n}"

    @property
    def order(self) -> int:
        return 2 * self.n

    def make_elements(self) -> tuple[str, ...]:
        powers = ["e", "r", *(f"r^{k}" for k in range(2, self.n))][: self.n]
        return (*powers, "s", *(f"{power} s" for power in powers[1:]))

    def make_table(self) -> Int32[np.ndarray, "order order"]:
        turn, flip = self._turns_and_flips()
        turns = (turn[:, None] + (1 - 2 * flip[:, None]) * turn) % self.n
        return np.asarray(turns + self.n * (flip[:, None] ^ flip), dtype=np.int32)

    def make_irreps(self) -> tuple[Irrep, ...]:
        turn, flip = self._turns_and_flips()
        first = [min(members) for members in self.classes]
        lines = {"trivial": 0 * turn, "sign": flip}
        if self.n % 2 == 0:
            lines |= {"B1": turn, "B2": turn + flip}
        irreps = [one_dimensional(name, 1.0 - 2.0 * (power % 2), first) for name, power in lines.items()]
        for frequency in range(1, (self.n + 1) // 2):
            angles = 2 * np.pi * (turn * frequency % self.n) / self.n
            values = whole(np.where(flip == 1, 0, 2 * np.cos(angles))[first])
            irreps.append(Irrep(f"E{frequency}", 2, values, 1, partial(_rotations, angles, flip)))
        return tuple(irreps)

    def _turns_and_flips(self) -> tuple[Any, Any]:
        element = np.arange(self.order)
        return element % self.n, element // self.n


def one_dimensional(
    name: str, values: Num[np.ndarray, " order"], first: Any = slice(None), indicator: int = 1
) -> Irrep:
    """Return an irrep of dimension 1."""
    return Irrep(name, 1, values[first], indicator, lambda: values[:, None, None].copy())


def _rotations(angles: Float64[np.ndarray, " order"], flip: Any) -> Float64[np.ndarray, "order 2 2"]:
    cosine, sine, sign = np.cos(angles), np.sin(angles), 1 - 2 * flip
    return np.stack([np.stack([cosine, -sign * sine], -1), np.stack([sine, sign * cosine], -1)], axis=-2)
