// The compiled kernels, and the one in use.
#pragma once

#include <string>
#include <vector>

#include "types.hpp"

namespace elegans {

// Names of the compiled instruction sets that this machine supports, best last.
std::vector<std::string> instruction_sets();

// The one that new networks use: the best, unless set by the environment variable
// ELEGANS_INSTRUCTION_SET or a call of use_instruction_set.
const Kernel& kernel_in_use();

// Throws std::invalid_argument if the name is not one of instruction_sets().
void use_instruction_set(const std::string& name);

}  // namespace elegans
