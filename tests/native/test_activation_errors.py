"""The errors of native activations, in units of the last place of a float32, against double precision.

The tests take one float in 9,973 from 2^-30 to 128 and their negatives; ``ELEGANS_FLOAT_STRIDE=1`` takes all of them.
"""

import os

import numpy as np
import pytest
from native_reference import SMOOTH, activate

STRIDE = int(os.environ.get("ELEGANS_FLOAT_STRIDE", "9973"))
BLOCK = 2**22
VALUE, DERIVATIVE = 4, 4
"""Largest errors: of values in units of their last place, of derivatives in those of 1 (2^-23)."""
FREE = {"leaky-relu": (0.1,), "elu": (0.7,), "sine": (1.0, 3.0)}
CASES = [(name, scale) for name in SMOOTH for scale in FREE.get(name, (1.0,))]
# Below these arguments values are compared in larger units, which libraries do not reach there by far.
TAILS = {"gelu": (-1.0, 8.0), "gelu-tanh": (-1.0, np.inf)}
SMALLEST = 1e-35  # of values that are compared in their own units: smaller ones count as zero somewhere


def blocks():
    first, last = (int(np.float32(z).view(np.uint32)) for z in (2.0**-30, 128.0))
    for start in range(first, last, BLOCK * STRIDE):
        z = np.arange(start, min(start + BLOCK * STRIDE, last), STRIDE, dtype=np.uint32).view(np.float32)
        yield z
        yield -z


@pytest.mark.parametrize(("name", "scale"), CASES)
def test_values_and_derivatives_are_exact_to_a_few_units(native, name, scale):
    scale = float(np.float32(scale))
    border, beyond = TAILS.get(name, (-np.inf, VALUE))
    for z in blocks():
        got = native.activate(z, activation=name, scale=scale)
        # The frequency's product is rounded, as in every library.
        exact = (np.float32(scale) * z).astype(np.float64) / scale if name == "sine" else z.astype(np.float64)
        with np.errstate(under="ignore"):
            value, derivative = activate(name, exact, 1, scale)
        unit = np.spacing(np.maximum(abs(value), SMALLEST).astype(np.float32)).astype(np.float64)
        error = abs(got[0] - value)
        own = np.where(abs(value) > SMALLEST, error / unit / np.where(z >= border, VALUE, beyond), 0.0)
        assert own.max() <= 1, (z[own.argmax()], own.max())
        assert error.max() <= VALUE * 2.0**-23 * max(1.0, abs(value).max())
        assert abs(got[1] - derivative).max() <= DERIVATIVE * 2.0**-23 * max(1.0, scale)
