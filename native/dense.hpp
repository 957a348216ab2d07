// Networks for tables in training, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace elegans {

void bind_dense(nanobind::module_& m);

}  // namespace elegans
