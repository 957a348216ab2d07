// What networks do before they begin: they check what they are given, and take their memory.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "types.hpp"

namespace elegans {

inline Size round_up(Size x, Size unit) { return (x + unit - 1) / unit * unit; }

template <class... Parts>
void require(bool holds, const Parts&... parts) {
  if (holds) return;
  std::ostringstream message;
  (message << ... << parts);
  throw std::invalid_argument(message.str());
}

template <class T>
using Names = std::initializer_list<std::pair<const char*, T>>;

template <class T>
T named(const char* what, const std::string& name, Names<T> known) {
  std::string list;
  for (const auto& [text, value] : known) {
    if (name == text) return value;
    list += (list.empty() ? "" : ", ") + std::string(text);
  }
  require(false, what, " must be one of ", list, ": got '", name, "'");
  return {};
}

// Arrays that live as long as their owner: zero, and aligned for the widest vectors.
class Memory {
 public:
  template <class T>
  T* allocate(Size count) {
    constexpr Size alignment = 64;
    const auto bytes = static_cast<std::size_t>(
        round_up(std::max(count, Size{1}) * static_cast<Size>(sizeof(T)), alignment));
    void* memory = std::aligned_alloc(alignment, bytes);
    if (!memory) throw std::bad_alloc();
    blocks_.emplace_back(memory, std::free);
    std::memset(memory, 0, bytes);
    return static_cast<T*>(memory);
  }

 private:
  std::vector<std::unique_ptr<void, void (*)(void*)>> blocks_;
};

}  // namespace elegans
