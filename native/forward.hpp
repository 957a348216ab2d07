// The forward pass of one vector of neurons over a block of examples.
//
// Inputs are signs, so this is the method of four Russians: for each group of four inputs all 16
// signed sums of their weights are tabulated, and an example then costs one load and one addition
// per group instead of four multiply-adds. Bits (0 or 1) have tables of the sums over subsets, and
// the one control input that is set with them adds its weights to the bias. Real inputs and very
// small blocks take a direct path.
//
// A ReLU is applied while the sums are still in registers. Other activations are applied to a block
// of examples whose sums have been stored, so that all share one copy of these loops.
#pragma once

#include <type_traits>

#include "activations.hpp"
#include "types.hpp"
#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {

constexpr Size table_entry_bytes = sizeof(Floats);
constexpr Size table_groups = table_bytes / (16 * table_entry_bytes);  // groups whose tables fit

// Entry p of the table is the sum of the four vectors, with vector i negated if bit i of p is set.
ELEGANS_INLINE void signed_sums(Floats a0, Floats a1, Floats a2, Floats a3, Floats* table) {
  const Floats s = a0 + a1;
  const Floats d = a0 - a1;
  const Floats high_s = a2 + a3;
  const Floats high_d = a2 - a3;
  const Floats half[8] = {high_s + s, high_s - d,    high_s + d, high_s - s,
                          s - high_d, -(d + high_d), d - high_d, -(s + high_d)};
#pragma GCC unroll 8
  for (int p = 0; p < 8; p++) {
    table[p] = half[p];
    table[15 - p] = negated(half[p]);
  }
}

// Entry p of the table is the sum of the vectors i for which bit i of p is set.
ELEGANS_INLINE void subset_sums(Floats a0, Floats a1, Floats a2, Floats a3, Floats* table) {
  const Floats low[4] = {Floats{}, a0, a1, a0 + a1};
  const Floats high[4] = {Floats{}, a2, a3, a2 + a3};
#pragma GCC unroll 16
  for (int p = 0; p < 16; p++) table[p] = low[p % 4] + high[p / 4];
}

// What tables are built of, if they are: sums of signs, or of bits.
enum class Build { none, signs, bits };

template <bool signs>
ELEGANS_INLINE void tabulate(Floats a0, Floats a1, Floats a2, Floats a3, Floats* table) {
  if constexpr (signs) {
    signed_sums(a0, a1, a2, a3, table);
  } else {
    subset_sums(a0, a1, a2, a3, table);
  }
}

// sum[i] += the table's entry at offset[i] (in bytes), for i < count. Four offsets are loaded at
// once: the load units are what these loops wait for.
template <int count>
ELEGANS_INLINE void add_entries(const Floats* table, const std::uint16_t* offset, Floats* sum) {
  const char* bytes = reinterpret_cast<const char*>(table);
  if constexpr (count % 4 != 0) {
    for (int i = 0; i < count; i++) {
      sum[i] += *reinterpret_cast<const Floats*>(bytes + offset[i]);
    }
  } else {
#pragma GCC unroll 4
    for (int i = 0; i < count; i += 4) {
      std::uint64_t four;  // the first in the low bits: every target is little-endian
      __builtin_memcpy(&four, offset + i, sizeof four);
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        sum[i + k] += *reinterpret_cast<const Floats*>(bytes + ((four >> (16 * k)) & 0xFFFFu));
      }
    }
  }
}

// One neuron vector's weights, and the destination of its hidden values.
struct Neurons {
  const Floats* weight;    // [rows]
  const Floats* controls;  // [controls], or null
  Floats bias;
  Floats output;
};

template <int count>
ELEGANS_INLINE void start(const Neurons& neurons, const std::uint32_t* control,
                          const Floats* hidden, bool first, Floats* sum) {
  if (first && neurons.controls) {
#pragma GCC unroll 16
    for (int i = 0; i < count; i++) sum[i] = neurons.bias + neurons.controls[control[i]];
    return;
  }
#pragma GCC unroll 16
  for (int i = 0; i < count; i++) sum[i] = first ? neurons.bias : hidden[i];
}

// The destination of the preactivations of one vector of neurons.
struct Sink {
  Floats* partial;         // [examples]: ReLUs add to the outputs here
  Words* mask;             // [examples / 32]: which ReLUs fired, unless null
  Floats* preactivations;  // [examples]: for other activations
};

// `sum` has the hidden values of `count` examples starting at q.
template <bool relu, int count>
ELEGANS_INLINE void finish(const Neurons& neurons, const Floats* sum, const Sink& sink, Size q) {
  if constexpr (relu) {
    Words fired = sink.mask && q % 32 != 0 ? sink.mask[q / 32] : Words{};
    const std::uint32_t bit = 1u << (q % 32);
#pragma GCC unroll 16
    for (int i = 0; i < count; i++) {
      fire(sum[i], neurons.output, sink.partial[q + i], fired, bit << i);
    }
    if (sink.mask) sink.mask[q / 32] = fired;
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < count; i++) sink.preactivations[q + i] = sum[i];
  }
}

// Sends `count` examples starting at q through the tables of the groups first ... last-1, which are
// built on the way as `build` says.
template <int count, Build build>
ELEGANS_INLINE void look_up(const Neurons& neurons, const Examples& examples, Size first, Size last,
                            Size q, Floats* table, Floats* sum) {
  const std::uint16_t* offset = examples.offset + first * examples.capacity + q;
  for (Size group = first; group < last; group++) {
    if constexpr (build != Build::none) {
      const Floats* w = neurons.weight + 4 * group;
      tabulate<build == Build::signs>(w[0], w[1], w[2], w[3], table);
    }
    add_entries<count>(table, offset, sum);
    table += 16;
    offset += examples.capacity;
  }
}

// The blocks of examples and of inputs of one vector of neurons.
struct Span {
  Size first_group, last_group;
  bool first, last;  // of the blocks of inputs
};

template <bool relu, int count, Build build>
ELEGANS_INLINE void forward_chunk(const Neurons& neurons, const Examples& examples, Span span,
                                  Size q, Floats* table, Floats* hidden, const Sink& sink) {
  Floats sum[count];
  start<count>(neurons, examples.control + q, hidden, span.first, sum);
  look_up<count, build>(neurons, examples, span.first_group, span.last_group, q, table, sum);
  if (span.last) {
    finish<relu, count>(neurons, sum, sink, q);
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < count; i++) hidden[i] = sum[i];
  }
}

// Sends examples from ... to-1 (a multiple of four) through one block of inputs; the first chunk
// builds the tables, unless they are still there from the previous block of examples.
template <bool relu>
static void forward_block(const Neurons& neurons, const Examples& examples, Span span, Size from,
                          Size to, bool build, Floats* table, Floats* hidden, const Sink& sink) {
  Size q = from;
  const auto first = [&](auto size) {
    constexpr int count = decltype(size)::value;
    if (neurons.controls) {
      forward_chunk<relu, count, Build::bits>(neurons, examples, span, q, table, hidden, sink);
    } else {
      forward_chunk<relu, count, Build::signs>(neurons, examples, span, q, table, hidden, sink);
    }
    q += count;
  };
  if (build && to - q >= chunk) {
    first(std::integral_constant<int, chunk>{});
  } else if (build) {
    first(std::integral_constant<int, 4>{});
  }
  for (; to - q >= chunk; q += chunk) {
    forward_chunk<relu, chunk, Build::none>(neurons, examples, span, q, table, hidden + (q - from),
                                            sink);
  }
  for (; q < to; q += 4) {
    forward_chunk<relu, 4, Build::none>(neurons, examples, span, q, table, hidden + (q - from),
                                        sink);
  }
}

template <bool relu>
static void forward_tables(const State& state, const Neurons& neurons, const Examples& examples,
                           Size count, const Sink& sink) {
  Floats* table = reinterpret_cast<Floats*>(state.table);
  Floats* hidden = reinterpret_cast<Floats*>(state.hidden);
  const Size end = (count + 3) / 4 * 4;
  const Size blocks = (state.groups + table_groups - 1) / table_groups;
  for (Size from = 0; from < end; from += example_block) {
    const Size to = end - from < example_block ? end : from + example_block;
    for (Size block = 0; block < blocks; block++) {
      const Span span{state.groups * block / blocks, state.groups * (block + 1) / blocks,
                      block == 0, block + 1 == blocks};
      const bool build = blocks > 1 || from == 0;
      forward_block<relu>(neurons, examples, span, from, to, build, table, hidden, sink);
    }
  }
}

// `count` examples starting at q whose inputs are floats, input[i * stride + j]. Fewer than eight
// examples have several sums each, so that eight multiply-adds are always under way.
template <bool relu, int count>
ELEGANS_INLINE void direct_chunk(const State& state, const Neurons& neurons, const float* input,
                                 Size stride, const Sink& sink, Size q) {
  constexpr int ways = count >= 8 ? 1 : 8 / count;
  input += q * stride;
  Floats sum[count][ways] = {};
  Size j = 0;
  for (; j + ways <= state.columns; j += ways) {
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++) {
      const Floats w = neurons.weight[j + way];
#pragma GCC unroll 8
      for (int i = 0; i < count; i++) sum[i][way] += w * input[i * stride + j + way];
    }
  }
  for (; j < state.columns; j++) {
#pragma GCC unroll 8
    for (int i = 0; i < count; i++) sum[i][0] += neurons.weight[j] * input[i * stride + j];
  }
  Floats total[count];
#pragma GCC unroll 8
  for (int i = 0; i < count; i++) {
    total[i] = neurons.bias;
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++) total[i] += sum[i][way];
  }
  finish<relu, count>(neurons, total, sink, q);
}

template <bool relu>
static void forward_direct(const State& state, const Neurons& neurons, const float* input,
                           Size stride, Size count, const Sink& sink) {
  Size q = 0;
  for (; q + 8 <= count; q += 8) direct_chunk<relu, 8>(state, neurons, input, stride, sink, q);
  for (; q + 4 <= count; q += 4) direct_chunk<relu, 4>(state, neurons, input, stride, sink, q);
  for (; q + 2 <= count; q += 2) direct_chunk<relu, 2>(state, neurons, input, stride, sink, q);
  for (; q < count; q++) direct_chunk<relu, 1>(state, neurons, input, stride, sink, q);
}

ELEGANS_INLINE Neurons neurons_of(const State& state, Size vector) {
  const Floats* weight = reinterpret_cast<const Floats*>(state.weight) + vector * state.rows;
  return {weight, state.controls ? weight + 4 * state.groups : nullptr,
          reinterpret_cast<const Floats*>(state.bias)[vector],
          reinterpret_cast<const Floats*>(state.output)[vector]};
}

// Sends `count` examples through one vector of neurons, to `sink`; the inputs are those of
// `examples`, or floats input[example * stride + j].
template <bool relu>
ELEGANS_INLINE void send(const State& state, const Neurons& neurons, const Examples& examples,
                         const float* input, Size stride, Size count, const Sink& sink) {
  if (input) {
    forward_direct<relu>(state, neurons, input, stride, count, sink);
  } else {
    forward_tables<relu>(state, neurons, examples, count, sink);
  }
}

// Adds one vector of neurons to the outputs of the first `count` examples (or multiplies them by
// its sums). `kept`: the backward pass will need more than the outputs. Not inlined: whether a step
// is the last of a call must not change how its sums are compiled.
[[gnu::noinline]] static void forward(const State& state, Size vector, Examples& examples,
                                      const float* input, Size stride, Size count, bool kept) {
  const Neurons neurons = neurons_of(state, vector);
  Floats* partial = reinterpret_cast<Floats*>(examples.partial);
  if (state.activation == Activation::relu) {
    Words* mask = reinterpret_cast<Words*>(state.mask) + vector * state.mask_words;
    const Sink sink{partial, kept ? mask : nullptr, nullptr};
    send<true>(state, neurons, examples, input, stride, count, sink);
  } else {
    Floats* preactivations =
        kept ? kept_of(state, vector) : reinterpret_cast<Floats*>(state.hidden);
    Floats* values = kept ? preactivations + 32 * state.mask_words : nullptr;
    send<false>(state, neurons, examples, input, stride, count, {partial, nullptr, preactivations});
    activate(state, real_lanes(state, vector), neurons.output, preactivations, values, count,
             partial);
  }
}

// Initialises the first `count` outputs, for sums or products.
static void clear_partial(const State& state, Examples& examples, Size count) {
  Floats* partial = reinterpret_cast<Floats*>(examples.partial);
  const Floats start = spread(state.activation == Activation::product ? 1.0f : 0.0f);
  const Size end = (count + lanes - 1) / lanes * lanes;
  for (Size q = 0; q < end; q++) partial[q] = start;
}

// Turns the sums or products over all vectors of neurons into the first `count` outputs.
template <bool product>
ELEGANS_INLINE void reduce(const State& state, Examples& examples, Size count) {
  const Floats* partial = reinterpret_cast<const Floats*>(examples.partial);
  Floats* output = reinterpret_cast<Floats*>(examples.output);
  for (Size q = 0; q < count; q += lanes) {
    output[q / lanes] = over_lanes<product, lanes>(partial + q) + state.output_bias;
  }
}

static void outputs(const State& state, Examples& examples, Size count) {
  if (state.activation == Activation::product) {
    reduce<true>(state, examples, count);
  } else {
    reduce<false>(state, examples, count);
  }
}

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
