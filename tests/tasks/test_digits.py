"""Strips of digits: labels, held-out images, where images come from, and what is refused."""

import jax
import numpy as np
import pytest
from mnist_file import FILE, needs_mnist
from scipy import stats

import elegans as el
from elegans.tasks import images
from elegans.tasks.images import Images, load_images, strip

INDEX = np.arange(2000, dtype=np.uint32)
KEY = el.random.stream(0, "sample")


def random_images(count, held_out=5, shape=(2, 3), seed=0):
    """Return the four arrays of a file; all its images differ."""
    draws = np.random.default_rng(seed)
    pixels = draws.integers(0, 256, (count + held_out, *shape), dtype=np.uint8)
    digits = draws.integers(0, 10, count + held_out)
    return pixels[:count], digits[:count], pixels[count:], digits[count:]


def write(path, arrays):
    np.savez(path, **dict(zip(images.ARRAYS, arrays, strict=True)))
    return str(path)


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "own.npz", random_images(40))


def places_of(x, pixels, largest):
    """Return which image each part of each strip is."""
    parts = np.rint(x.reshape(len(x), -1, pixels.shape[1]) * largest)
    same = (parts[:, :, None, :] == pixels[None, None]).all(axis=-1)
    assert (same.sum(axis=2) == 1).all()
    return same.argmax(axis=2)


def test_labels_are_the_parity_of_the_sum_of_the_images_digits(file):
    task = el.DigitParity(k=3, images=file)
    data = load_images(file)
    x, y = task.examples(None, KEY, INDEX)
    assert (x.shape, x.dtype, task.input_size) == ((2000, 18), np.float32, 18)
    assert x.min() >= 0 and x.max() == 1
    chosen = places_of(x, data.pixels, data.largest)
    assert np.array_equal(y, (-1.0) ** data.digits[chosen].sum(axis=1))


def test_every_image_is_equally_likely_in_every_place(file):
    """Chi-square over 3 x 40 places in 2000 strips; would fail for one seed in 10^4."""
    data = load_images(file)
    x, _ = el.DigitParity(k=3, images=file).examples(None, KEY, INDEX)
    chosen = places_of(x, data.pixels, data.largest)
    counts = [np.bincount(chosen[:, place], minlength=40) for place in range(3)]
    assert stats.chisquare(np.concatenate(counts)).pvalue > 1e-4


def test_held_out_strips_are_made_of_held_out_images_alone(file):
    task = el.DigitParity(k=2, images=file)
    data = load_images(file)
    x, y = task.examples(task.held_out(task.draw(KEY)), KEY, INDEX)
    chosen = places_of(x, data.held_out_pixels, data.largest)
    assert np.array_equal(y, (-1.0) ** data.held_out_digits[chosen].sum(axis=1))


@pytest.mark.parametrize("held_out", [False, True])
def test_compiled_programs_draw_the_same_examples(file, held_out):
    task = el.DigitParity(k=3, images=file)
    hidden = task.held_out(None) if held_out else None
    here = task.examples(hidden, KEY, INDEX[:20])
    there = jax.jit(lambda index: task.examples(hidden, KEY, index))(INDEX[:20])
    for ours, theirs in zip(here, there, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-7)


def test_the_bundled_images_are_split_into_1437_and_360():
    data = load_images("digits")
    assert data.pixels.shape == (1437, 64) and data.held_out_pixels.shape == (360, 64)
    assert (data.shape, data.largest) == ((8, 8), 16)
    assert set(np.unique(data.held_out_digits)) == set(range(10))


def test_a_strip_is_a_picture_of_its_images_side_by_side(file):
    data = load_images(file)
    picture = strip(np.concatenate([data.pixels[4], data.pixels[7]]), data.shape)
    assert picture.shape == (2, 6)
    assert np.array_equal(picture[:, 3:], data.pixels[7].reshape(2, 3))


def changed(place, change):
    arrays = list(random_images(40))
    arrays[place] = change(arrays[place])
    return arrays


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (changed(2, lambda x: x[:, :, :2]), r"images of one shape: .* has uint8 of shapes \(5, 2, 2\) and \(5, 2, 3\)"),
        (changed(0, lambda x: x / 255), "must be uint8 images of one shape: .* has float64"),
        (changed(0, lambda x: x.reshape(40, 6)), "must be uint8 images of one shape"),
        (changed(0, lambda x: np.array([*x[:39], x[0, :1]], object)), "must be uint8 images of one shape in a .npz"),
        (changed(1, lambda y: y[:-1]), r"every image must have one digit: .* has 40 images, digits \(39,\)"),
        (changed(3, lambda y: y + 10), r"digits must lie in 0..9: .* has \[1"),
    ],
)
def test_files_that_hold_no_images_of_digits_are_refused_when_the_task_is_made(arrays, message, tmp_path):
    path = write(tmp_path / "wrong.npz", arrays)
    with pytest.raises(el.errors.TrialError, match=message):
        el.DigitParity(k=1, images=path)


def test_files_that_are_no_archives_are_refused_and_missing_ones_when_they_are_needed(tmp_path):
    (tmp_path / "text.npz").write_text("no archive")
    np.save(tmp_path / "one.npy", np.zeros(3))
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    for name, message in [("text.npz", "in a .npz file"), ("one.npy", "in a .npz file"), ("other.npz", "the arrays")]:
        with pytest.raises(el.errors.TrialError, match=message):
            el.DigitParity(k=1, images=str(tmp_path / name))
    absent = el.DigitParity(k=1, images=str(tmp_path / "absent.npz"))
    with pytest.raises(el.errors.TrialError, match="No such file"):
        _ = absent.input_size
    with pytest.raises(el.errors.TrialError, match="k must be greater than or equal to 1: k=0"):
        el.DigitParity(k=0)


def test_mnist_comes_from_the_file_that_the_environment_names(file, monkeypatch):
    monkeypatch.setenv("ELEGANS_MNIST", file)
    assert el.DigitParity(k=2, images="mnist").input_size == 12
    assert load_images("mnist") is load_images(file)


def test_without_a_file_mnist_comes_from_openml_and_is_split_as_published(monkeypatch):
    from sklearn import datasets
    from sklearn.utils import Bunch

    asked = []

    def fetch(name, **fields):
        asked.append((name, fields))
        pixels = np.zeros((60_007, 784), np.uint8)
        pixels[60_000:] = 200
        return Bunch(data=pixels, target=np.array(["3"] * 60_000 + ["8"] * 7, object))

    def refuse(*_, **__):
        raise OSError("no network")

    monkeypatch.delenv("ELEGANS_MNIST", raising=False)
    monkeypatch.setattr(datasets, "fetch_openml", refuse)
    images._openml.cache_clear()
    with pytest.raises(
        el.errors.TrialError, match="mnist must be in a file named by ELEGANS_MNIST, or come from OpenML: no"
    ):
        load_images("mnist")
    monkeypatch.setattr(datasets, "fetch_openml", fetch)
    found = load_images("mnist")
    images._openml.cache_clear()
    assert asked == [("mnist_784", {"version": 1, "as_frame": False})]
    assert isinstance(found, Images) and found.shape == (28, 28)
    assert (len(found.digits), set(found.held_out_digits), set(found.digits)) == (60_000, {8}, {3})


@needs_mnist
def test_real_mnist_has_its_images():
    data = load_images(str(FILE))
    assert data.pixels.shape == (60_000, 784) and data.held_out_pixels.shape == (10_000, 784)
    assert np.bincount(data.digits).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert (data.shape, data.largest) == ((28, 28), 255)


@pytest.mark.slow
def test_a_predictor_on_features_learns_the_parity_of_single_digits():
    """2000 strips of one digit, 250 steps. Seeds 0 to 20 ended with errors of 0.08 to 0.14."""
    trial = el.Trial(
        task=el.DigitParity(k=1),
        regime=el.Sample(2000),
        model=el.models.RandomReLU(width=128),
        training=el.Adam(learning_rate=0.01, steps=250, stopping=el.StoppingRule(error=0.25, examples=2000, every=250)),
    )
    outcome = el.train(trial)
    assert outcome.solved and outcome.test_error < 0.25


def test_single_digits_are_those_of_strips_of_one(file):
    task, strips = el.tasks.Digits(images=file), el.DigitParity(k=1, images=file)
    for hidden in (None, task.held_out(None)):
        (x, digit), (theirs, parity) = (each.examples(hidden, KEY, INDEX) for each in (task, strips))
        assert np.array_equal(x, theirs)
        assert digit.dtype == np.int32 and np.array_equal(parity, (-1.0) ** digit)
    assert (task.classes, task.input_size) == (10, 6)
