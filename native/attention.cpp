// One transformer of causal attention in training.
#include "attention_types.hpp"

#include <algorithm>

#include "host.hpp"

namespace elegans {
namespace {

using Sequences = Array<std::int32_t, 2>;
using Batches = Array<std::int32_t, 3>;

class AttentionNetwork : public RowHost<AttentionState> {
 public:
  AttentionNetwork(const Vector& parameters, const Vector& learning_rates, const Vector& decays,
                   Size symbols, Size width, Size length, const std::vector<Size>& heads,
                   bool normed, bool absolute, Size mlp_width, Size batch_size,
                   const std::string& optimiser, bool decay_in_gradient, double beta1, double beta2,
                   double epsilon)
      : RowHost(batch_size, optimiser, decay_in_gradient, beta1, beta2, epsilon) {
    require_between("symbols", symbols, 1, 1 << 12);
    require_between("width", width, 1, 1 << 12);
    require_between("length", length, 1, 1 << 16);
    require_between("mlp_width", mlp_width, 0, 1 << 14);
    require(!heads.empty(), "heads must have at least one layer: got none");
    for (const Size each : heads) {
      require(each >= 1 && width % each == 0, "heads must divide the width: heads=", each,
              ", width=", width);
    }
    AttentionState& s = state_;
    s.symbols = symbols;
    s.width = width;
    s.length = length;
    s.layers = static_cast<Size>(heads.size());
    s.mlp_width = mlp_width;
    s.rows = round_up(length, attention_rows);
    s.stride = s.rows + attention_rows - 1;  // each row ends in this many zeros
    const Size norm = normed ? 2 * width : 0;
    const Size mlp = mlp_width ? norm + mlp_width * (2 * width + 1) + width : 0;
    const Size layer = norm + 3 * width * width + (normed ? width * width : 0) + mlp;
    s.size =
        2 * symbols * width + norm + s.layers * layer + (absolute ? 1 : s.layers) * length * width;
    take_row(parameters, learning_rates, decays);
    s.grad = by_lane(round_up(s.size, s.lanes));
    lay_out(heads, normed, absolute);
  }

  Size advance(const Batches& tokens, const Batches& labels, const Vector& factors) {
    const Size steps = rows_of(factors);
    for (const Batches* given : {&tokens, &labels}) {
      require(rows_of(*given) == steps && static_cast<Size>(given->shape(1)) == state_.batch,
              "tokens and labels must have shape (steps=", steps, ", batch_size=", state_.batch,
              ", ...): got (", given->shape(0), ", ", given->shape(1), ", ...)");
      check_symbols(given->data(), given->size(), given->shape(2));
    }
    return take(steps, 1, [&](Size done, Size) -> Size {
      const Size place = done * state_.batch * state_.length;
      return kernel_.attention->step(state_, tokens.data() + place, labels.data() + place,
                                     factors(done));
    });
  }

  auto outputs(const Sequences& tokens) {
    check_symbols(tokens.data(), tokens.size(), tokens.shape(1));
    const Size numbers = state_.length * state_.symbols;
    Result<float> result(tokens.shape(0), state_.length, state_.symbols);
    each_block(rows_of(tokens), state_.lanes, [&](Size first, Size count) {
      kernel_.attention->outputs(state_, tokens.data() + first * state_.length, count);
      for (Size lane = 0; lane < count; lane++) {
        float* row = result.get() + (first + lane) * numbers;
        for (Size p = 0; p < numbers; p++) row[p] = state_.logits[p * state_.lanes + lane];
      }
    });
    return result.array();
  }

  auto wrong(const Sequences& tokens, const Sequences& labels) {
    require(tokens.shape(0) == labels.shape(0), "tokens and labels must have one length: got ",
            tokens.shape(0), " and ", labels.shape(0));
    for (const Sequences* given : {&tokens, &labels}) {
      check_symbols(given->data(), given->size(), given->shape(1));
    }
    Result<bool> result(tokens.shape(0));
    each_block(rows_of(tokens), state_.lanes, [&](Size first, Size count) {
      const Size place = first * state_.length;
      kernel_.attention->wrong(state_, tokens.data() + place, labels.data() + place, count);
      for (Size lane = 0; lane < count; lane++) {
        result.get()[first + lane] = state_.last_wrong[lane] > 0;
      }
    });
    return result.array();
  }

 private:
  float* by_lane(Size count) { return memory_.allocate<float>(count * state_.lanes); }

  // Assigns the parameters in order, and the memory in which steps are computed.
  void lay_out(const std::vector<Size>& heads, bool normed, bool absolute) {
    AttentionState& s = state_;
    const Size width = s.width, activations = s.rows * width;
    Size used = 0;
    const auto next = [&](Size count) {
      const AttentionWeight weight{s.parameter + used, s.grad + used * s.lanes};
      used += count;
      return weight;
    };
    const auto norm = [&](float* input) {
      AttentionNorm found{};
      found.normed = input;
      if (!normed) return found;
      found.scale = next(width);
      found.shift = next(width);
      found.centred = by_lane(activations);
      found.inverse = by_lane(s.rows);
      found.normed = by_lane(activations);
      return found;
    };
    s.embedding = next(s.symbols * width);
    if (absolute) s.position = next(s.length * width);
    s.layer = memory_.allocate<AttentionLayer>(s.layers);
    for (Size l = 0; l < s.layers; l++) {
      AttentionLayer& layer = s.layer[l];
      layer.heads = heads[static_cast<std::size_t>(l)];
      layer.head_size = width / layer.heads;
      layer.input = by_lane(activations);
      layer.norm = norm(layer.input);
      layer.matrix = next(3 * width * width);
      if (!absolute) layer.relative = next(s.length * width);
      if (normed) layer.out_proj = next(width * width);
      layer.qkv = by_lane(3 * activations);
      layer.weights = by_lane(layer.heads * s.rows * s.stride + attention_rows);
      layer.attended = by_lane(activations);
      layer.distance = memory_.allocate<float>((attention_rows - 1 + s.rows) * width);
      if (!s.mlp_width) continue;
      AttentionMLP& mlp = layer.mlp;
      mlp.input = by_lane(activations);
      mlp.norm = norm(mlp.input);
      mlp.hidden = next(width * s.mlp_width);
      mlp.hidden_bias = next(s.mlp_width);
      mlp.residual = next(s.mlp_width * width);
      mlp.residual_bias = next(width);
      mlp.preactivations = by_lane(s.rows * s.mlp_width);
      mlp.active = by_lane(s.rows * s.mlp_width);
    }
    s.stream = by_lane(activations);
    s.norm = norm(s.stream);
    s.output = next(width * s.symbols);
    s.token = memory_.allocate<std::int32_t>(s.rows * s.lanes);
    s.label = memory_.allocate<std::int32_t>(s.rows * s.lanes);
    s.chosen = by_lane(s.rows * s.symbols);
    s.logits = by_lane(s.rows * s.symbols);
    s.last_wrong = by_lane(1);
    s.grad_out = by_lane(activations);
    s.grad_normed = by_lane(activations);
    s.grad_attended = by_lane(activations);
    s.grad_qkv = by_lane(3 * activations);
    s.grad_active = by_lane(s.rows * s.mlp_width);
  }

  void check_symbols(const std::int32_t* number, std::size_t count, std::size_t length) const {
    require(length == static_cast<std::size_t>(state_.length), "sequences must have length ",
            state_.length, ": got ", length);
    const auto symbols = static_cast<std::uint32_t>(state_.symbols);
    std::uint32_t beyond = 0;
    for (std::size_t i = 0; i < count; i++) {
      beyond |= static_cast<std::uint32_t>(static_cast<std::uint32_t>(number[i]) >= symbols);
    }
    require(beyond == 0, "tokens and labels must be in 0 ... symbols-1 with symbols=", symbols);
  }
};

}  // namespace

void bind_attention(nb::module_& m) {
  bind_network<AttentionNetwork>(
      m, "AttentionNetwork",
      "A transformer of causal attention, trained on the mean cross-entropy over all positions.")
      .def(
          nb::init<const Vector&, const Vector&, const Vector&, Size, Size, Size,
                   const std::vector<Size>&, bool, bool, Size, Size, const std::string&, bool,
                   double, double, double>(),
          "parameters"_a, "learning_rates"_a, "decays"_a, nb::kw_only(), "symbols"_a, "width"_a,
          "length"_a, "heads"_a, "normed"_a, "absolute"_a, "mlp_width"_a, "batch_size"_a,
          "optimiser"_a, "decay_in_gradient"_a = true, "beta1"_a = 0.9, "beta2"_a = 0.999,
          "epsilon"_a = 1e-8,
          "Take copies of all parameters in one row, of their learning rates and of their "
          "decays.\n\n"
          "The row consists of embeddings (symbols, width), and with `absolute` positions "
          "(length,\n"
          "width); for each layer, scale and shift (width,), query, key and value side by side\n"
          "(width, 3 width), without `absolute` one vector per distance (length, width), and the\n"
          "output projection of the heads (width, width), then, unless `mlp_width` is 0, scale "
          "and\n"
          "shift (width,), hidden weights (width, mlp_width) and biases (mlp_width,), residual\n"
          "weights (mlp_width, width) and biases (width,) of the MLP; scale and shift (width,), "
          "and\n"
          "output (width, symbols). Scales, shifts and projections are there with `normed` only.\n"
          "`heads` is one number per layer. Decays are as in `Network`; Adam's are outside of its\n"
          "running means. `optimiser` is sgd, momentum, nesterov or adam, `beta1` the momentum.\n\n"
          "Raises ValueError, with the rule and the value, for a bad argument.")
      .def("advance", &AttentionNetwork::advance, "tokens"_a, "labels"_a, "factors"_a,
           "Take one step per schedule factor; return the steps done, fewer if it diverged.\n\n"
           "Tokens and labels are (steps, batch_size, length).")
      .def("outputs", &AttentionNetwork::outputs, "tokens"_a,
           "Logits (N, length, symbols) of the next tokens of sequences (N, length).")
      .def("wrong", &AttentionNetwork::wrong, "tokens"_a, "labels"_a,
           "Whether the label's logit at the last position of each sequence (N, length) is not\n"
           "above all others.");
}

}  // namespace elegans
