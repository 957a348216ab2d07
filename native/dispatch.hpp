// The kernels that were compiled in, and which of them is in use.
#pragma once

#include <string>
#include <vector>

#include "types.hpp"

namespace elegans {

// Names of the instruction sets that are compiled in and that this machine has, best last.
std::vector<std::string> instruction_sets();

// The one that new networks take: the best, unless the environment variable ELEGANS_INSTRUCTION_SET
// or a call of use_instruction_set says otherwise.
const Kernel& kernel_in_use();

// Throws std::invalid_argument if the name is not one of instruction_sets().
void use_instruction_set(const std::string& name);

}  // namespace elegans
