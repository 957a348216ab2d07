// What bindings share: arrays for Python, and signs of life during long work.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <utility>
#include <vector>

namespace elegans {

// A new array for Python, not initialised.
template <class T>
struct Result {
  explicit Result(std::vector<std::size_t> sizes) : shape(std::move(sizes)) {
    std::size_t size = 1;
    for (std::size_t extent : shape) size *= extent;
    data = std::make_unique_for_overwrite<T[]>(size);
  }
  nanobind::ndarray<nanobind::numpy, T> array() {
    T* memory = data.release();
    nanobind::capsule owner(memory, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nanobind::ndarray<nanobind::numpy, T>(memory, shape.size(), shape.data(), owner);
  }
  std::vector<std::size_t> shape;
  std::unique_ptr<T[]> data;
};

// Lets a Ctrl-C in the main thread end long work.
inline void pulse() {
  const nanobind::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

}  // namespace elegans
