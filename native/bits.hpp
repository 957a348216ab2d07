// Transformers that are read at a class token in training, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace elegans {

void bind_bits(nanobind::module_& m);

}  // namespace elegans
