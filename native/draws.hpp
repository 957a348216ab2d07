// The draws of a trial: the examples of a minibatch, their inputs and their labels. Everything is a
// function of counters, so that a sample of any size needs no memory.
#pragma once

#include "threefry.hpp"
#include "types.hpp"
#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {

// Gives a fraction `mix` of the examples one common sign on all of the support: bit 0 of the first
// word of the lane after their signs, if the second word as a uniform number is below mix.
static void align(const State& state, Key key, Words index, std::uint32_t* bits, Size capacity) {
  const Pair pair =
      random_words(key, index, spread(static_cast<std::uint32_t>(state.sign_words / 2)));
  const Words chosen = (Words)(to_floats(pair.w1 >> 8) * 0x1p-24f < state.mix);
  const Words common = -(pair.w0 & 1u);
  for (Size word = 0; word < state.sign_words; word++) {
    std::uint32_t* place = bits + word * capacity;
    const Words replaced = chosen & state.support[word];
    store_words(place, (load_words(place) & ~replaced) | (common & replaced));
  }
}

// The control input of each example, from the first word of the lane after its bits, and the parity
// of the bits that belong to it.
static Words draw_controls(const State& state, Key key, Words index, const Examples& examples,
                           Size q) {
  const Words lane = spread(static_cast<std::uint32_t>(state.sign_words / 2));
  const Floats uniform = to_floats(random_words(key, index, lane).w0 >> 8) * 0x1p-24f;
  Words parity{};
  for (Size i = 0; i < lanes; i++) {
    Size control = 0;  // the first one whose cumulative probability is above the uniform number
    for (Size left = state.controls; left > 1;) {
      const Size half = left / 2;
      control += state.cumulative[control + half - 1] <= uniform[i] ? half : 0;
      left -= half;
    }
    examples.control[q + i] = static_cast<std::uint32_t>(control);
    const std::uint32_t* support = state.supports + control * state.support_size;
    std::uint32_t bits = 0;
    for (Size s = 0; s < state.support_size; s++) {
      bits ^= examples.bits[support[s] / 32 * examples.capacity + q + i] >> (support[s] % 32);
    }
    parity[i] = bits & 1u;
  }
  return parity;
}

// The labels of a table: bit i of an example's place in it is the sign of the support's ith input.
static void look_up(const State& state, const Examples& examples, Size q) {
  Words found{};
  for (Size i = 0; i < state.places; i++) {
    const std::uint32_t input = state.place[i];
    const Words bits = load_words(examples.bits + input / 32 * examples.capacity + q);
    found |= ((bits >> (input % 32)) & 1u) << static_cast<std::uint32_t>(i);
  }
  for (Size i = 0; i < lanes; i++) examples.label[q + i] = state.values[found[i]];
}

// Inputs and labels of the examples examples.index[0 ... count-1]. Whole vectors are drawn, so that
// up to lanes-1 entries beyond count are defined too, for indices that were not requested.
static void draw_bits(const State& state, Key key, bool noisy, Examples& examples, Size count) {
  const bool flip = noisy && state.noise > 0.0f;
  for (Size q = 0; q < count; q += lanes) {
    const Words index = load_words(examples.index + q);
    std::uint32_t* bits = examples.bits + q;
    for (Size word = 0; word < state.sign_words; word += 2) {
      const Pair pair = random_words(key, index, spread(static_cast<std::uint32_t>(word / 2)));
      store_words(bits + word * examples.capacity, pair.w0);
      store_words(bits + (word + 1) * examples.capacity, pair.w1);
    }
    if (state.mix > 0.0f) align(state, key, index, bits, examples.capacity);
    if (state.values) {
      look_up(state, examples, q);
      continue;
    }
    Words parity{};
    for (Size word = 0; word < state.sign_words; word++) {
      parity ^= load_words(bits + word * examples.capacity) & state.support[word];
    }
    for (int shift = 16; shift > 0; shift /= 2) parity ^= parity >> shift;
    if (state.controls) parity ^= draw_controls(state, key, index, examples, q);
    parity ^= state.label_flip;
    if (flip) {
      const Pair pair = random_words(state.noise_key, index, Words{});
      const Floats uniform = to_floats(pair.w0 >> 8) * 0x1p-24f;
      parity ^= (Words)(uniform < state.noise) & 1u;
    }
    const Words label = (parity << 31) | 0x3F800000u;  // the bits of +1.0f or -1.0f
    store_words(reinterpret_cast<std::uint32_t*>(examples.label + q), label);
  }
}

// The inputs in the form for the forward pass: offsets into tables, or floats for small blocks.
static void prepare_tables(const State& state, Examples& examples, Size count) {
  constexpr int entry = sizeof(Floats);  // a power of two
  constexpr int entry_shift = __builtin_ctz(entry);
  for (Size group = 0; group < state.groups; group++) {
    const std::uint32_t* bits = examples.bits + group / 8 * examples.capacity;
    std::uint16_t* offset = examples.offset + group * examples.capacity;
    const int shift = static_cast<int>(group % 8) * 4;
    for (Size q = 0; q < count; q += lanes) {
      const Words pattern = (load_words(bits + q) >> shift) & 15u;
      const Halves packed = __builtin_convertvector(pattern << entry_shift, Halves);
      __builtin_memcpy(offset + q, &packed, sizeof packed);
    }
  }
}

static void prepare_signs(const State& state, Examples& examples, Size count) {
  const Words lane = lane_numbers();
  for (Size q = 0; q < count; q++) {
    for (Size j = 0; j < state.sign_words * 32; j += lanes) {
      const Words bits = spread(examples.bits[j / 32 * examples.capacity + q]);
      const Words bit = (bits >> (lane + static_cast<std::uint32_t>(j % 32))) & 1u;
      store_words(reinterpret_cast<std::uint32_t*>(examples.sign + q * state.sign_words * 32 + j),
                  (bit << 31) | 0x3F800000u);
    }
  }
}

static void draw(const State& state, Key key, bool noisy, Examples& examples, Size count) {
  draw_bits(state, key, noisy, examples, count);
  if (examples.sign) {
    prepare_signs(state, examples, count);
  } else {
    prepare_tables(state, examples, count);
  }
}

// The permutation of 0 ... m-1 that is the order of an epoch: a Feistel network of eight rounds on
// the smallest power of two (at least 4) that is at least m, applied again to values that are not
// below m. Pending positions are kept dense, since at worst every second one repeats.
static void permute(State& state, Size count) {
  const std::uint32_t m = static_cast<std::uint32_t>(state.sample_size);
  const int bits = m - 1 < 4 ? 2 : 32 - __builtin_clz(m - 1);
  const int low_bits = bits / 2;
  const int high_bits = bits - low_bits;
  const std::uint32_t low_mask = (1u << low_bits) - 1u;
  const std::uint32_t high_mask = (1u << high_bits) - 1u;
  std::uint32_t* index = state.epoch_index;
  std::uint32_t* value = state.epoch_value;
  std::uint32_t* slot = state.epoch_slot;
  std::uint32_t* k0 = state.epoch_k0;
  std::uint32_t* k1 = state.epoch_k1;
  while (count > 0) {
    for (Size i = 0; i < count; i += lanes) {
      const Words x = load_words(value + i);
      const Words key0 = load_words(k0 + i);
      const Words key1 = load_words(k1 + i);
      Words low = x & low_mask;
      Words high = x >> low_bits;
      for (std::uint32_t round = 0; round < 8; round += 2) {
        low ^= random_words(key0, key1, spread(round), high).w0 & low_mask;
        high ^= random_words(key0, key1, spread(round + 1), low).w0 & high_mask;
      }
      store_words(value + i, (high << low_bits) | low);
    }
    Size pending = 0;
    for (Size i = 0; i < count; i++) {
      if (value[i] < m) {
        index[slot[i]] = value[i];
      } else {
        value[pending] = value[i];
        slot[pending] = slot[i];
        k0[pending] = k0[i];
        k1[pending] = k1[i];
        pending++;
      }
    }
    count = pending;
  }
}

// Fills state.epoch_index with the positions first ... first+capacity-1 of the endless sequence of
// epochs.
static void fill_epochs(State& state, std::uint64_t first) {
  const std::uint64_t m = state.sample_size;
  std::uint64_t epoch = first / m;
  std::uint64_t place = first % m;
  std::uint32_t k0 = 0;
  std::uint32_t k1 = 0;
  bool known = false;
  for (Size i = 0; i < state.epoch_capacity; i++) {
    if (!known) {
      k0 = static_cast<std::uint32_t>(epoch);
      k1 = 0xFFFFFFFFu;
      threefry(state.batches_key.k0, state.batches_key.k1, k0, k1);
      known = true;
    }
    state.epoch_value[i] = static_cast<std::uint32_t>(place);
    state.epoch_slot[i] = static_cast<std::uint32_t>(i);
    state.epoch_k0[i] = k0;
    state.epoch_k1[i] = k1;
    if (++place == m) {
      place = 0;
      epoch++;
      known = false;
    }
  }
  if (m == 1) {
    for (Size i = 0; i < state.epoch_capacity; i++) state.epoch_index[i] = 0;
  } else {
    permute(state, state.epoch_capacity);
  }
  state.epoch_first = first;
  state.epoch_count = state.epoch_capacity;
}

// Indices of the minibatch of a step. At least `batch` entries of index are set, whole vectors of
// them when they are random words.
static void minibatch(State& state, std::uint64_t step, std::uint32_t* index) {
  const Words lane = lane_numbers();
  switch (state.order) {
    case Order::online: {
      const std::uint32_t first =
          static_cast<std::uint32_t>(step * static_cast<std::uint64_t>(state.batch));
      for (Size q = 0; q < state.batch; q += lanes) {
        store_words(index + q, lane + (first + static_cast<std::uint32_t>(q)));
      }
      break;
    }
    case Order::replacement: {
      const Words c0 = spread(static_cast<std::uint32_t>(step));
      for (Size q = 0; q < state.batch; q += lanes) {
        const Pair pair = random_words(state.batches_key, c0, lane + static_cast<std::uint32_t>(q));
        for (Size i = 0; i < lanes; i++) {
          const std::uint64_t high = pair.w0[i] * state.sample_size;
          const std::uint64_t low = (pair.w1[i] * state.sample_size) >> 32;
          index[q + i] = static_cast<std::uint32_t>((high + low) >> 32);
        }
      }
      break;
    }
    case Order::epochs: {
      const std::uint64_t first = step * static_cast<std::uint64_t>(state.batch);
      const std::uint64_t end = first + static_cast<std::uint64_t>(state.batch);
      if (first < state.epoch_first ||
          end > state.epoch_first + static_cast<std::uint64_t>(state.epoch_count)) {
        fill_epochs(state, first);
      }
      const std::uint32_t* ready = state.epoch_index + (first - state.epoch_first);
      __builtin_memcpy(index, ready, static_cast<std::size_t>(state.batch) * sizeof *index);
      break;
    }
  }
}

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
