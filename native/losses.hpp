// Losses of a minibatch, and their derivatives by the outputs.
#pragma once

#include "elementary.hpp"
#include "types.hpp"
#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {

struct Term {
  Floats loss, grad;
};

ELEGANS_INLINE Term hinge(Floats margin, Floats label) {
  const Floats gap = 1.0f - margin;
  const Ints on = (Ints)(gap > 0.0f);
  return {where(on, gap), where(on, negated(label))};
}

ELEGANS_INLINE Term square(Floats output, Floats label) {
  const Floats difference = output - label;
  return {0.5f * difference * difference, difference};
}

ELEGANS_INLINE Term logistic(Floats margin, Floats label) {
  const Ints negative = (Ints)(margin < 0.0f);
  const Floats size = choose(negative, negated(margin), margin);
  const Floats e = exp_negative(negated(size));
  // The probability given to the wrong label: 1 / (1 + exp(margin)).
  const Floats wrong = choose(negative, spread(1.0f), e) / (e + 1.0f);
  return {log_one_plus(e) + where(negative, size), negated(label) * wrong};
}

ELEGANS_INLINE Term correlation(Floats margin, Floats label) {
  return {negated(margin), negated(label)};
}

ELEGANS_INLINE Term loss_term(LossKind loss, Floats output, Floats label) {
  switch (loss) {
    case LossKind::hinge:
      return hinge(output * label, label);
    case LossKind::square:
      return square(output, label);
    case LossKind::correlation:
      return correlation(output * label, label);
    case LossKind::logistic:
      break;
  }
  return logistic(output * label, label);
}

struct Totals {
  bool finite;
  bool flat;  // no example has a gradient
  float loss, wrong, grad;
};

// Loss, mistakes, and the derivative of the mean loss by each output of the minibatch. Fills
// grad_output,
// active and label_bits; entries beyond the batch are zero.
[[maybe_unused]] static Totals losses(const State& state, const Examples& examples) {
  const Floats* output = reinterpret_cast<const Floats*>(examples.output);
  const Floats* label = reinterpret_cast<const Floats*>(examples.label);
  Floats* grad_output = reinterpret_cast<Floats*>(state.grad_output);
  const float mean = 1.0f / static_cast<float>(state.batch);
  const float share = state.loss.scale * mean;
  const Ints batch = (Ints)spread(static_cast<std::uint32_t>(state.batch));
  const Ints lane = (Ints)lane_numbers();
  Floats loss{};
  Floats wrong{};
  Floats grads{};
  Ints infinite{};
  Words any{};
  for (Size word = 0; word < state.mask_words; word++) {
    std::uint32_t active = 0;
    std::uint32_t negative = 0;
    for (Size part = 0; part < 32 / lanes; part++) {
      const Size i = word * (32 / lanes) + part;
      const Ints real = (Ints)(lane + static_cast<std::int32_t>(i * lanes) < batch);
      const Floats f = output[i];
      const Floats y = label[i];
      infinite |= real & (Ints)(f - f != 0.0f);
      const Term term = loss_term(state.loss.kind, f, y);
      loss += where(real, term.loss);
      const Floats apart = f - y;
      const Ints missed = state.values ? (Ints)(apart * apart > 0.25f) : (Ints)(f * y <= 0.0f);
      wrong += where(real & missed, spread(1.0f));
      grad_output[i] = where(real, term.grad * share);
      grads += grad_output[i];
      const Words on = (Words)(grad_output[i] != 0.0f);
      any |= on;
      active |= sign_bits(on) << (part * lanes);
      negative |= sign_bits((Words)y) << (part * lanes);
    }
    state.active[word] = active;
    state.label_bits[word] = negative;
  }
  return {sign_bits((Words)infinite) == 0, sign_bits(any) == 0, lane_sum(loss) * share,
          lane_sum(wrong) * mean, lane_sum(grads)};
}

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
