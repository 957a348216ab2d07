// Attention-only transformers in training, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace elegans {

void bind_attention(nanobind::module_& m);

}  // namespace elegans
