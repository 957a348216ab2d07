// One transformer that is read at a class token in training.
#include "bits_types.hpp"

#include <algorithm>

#include "host.hpp"

namespace elegans {
namespace {

using Bits = Array<std::uint8_t, 2>;

constexpr Size largest_bits = 1 << 16, largest_size = 1 << 12;
constexpr Size block_bytes = 1 << 18;  // the size of a block's tokens: a part of the cache

class BitsNetwork : public RowHost<BitsState> {
 public:
  BitsNetwork(const Vector& parameters, const Vector& learning_rates, const Vector& decays, Size n,
              Size width, Size heads, Size head_size, Size hidden, const std::string& encoding,
              std::uint32_t drop, const KeyPair& dropout_key, const NamedLoss& loss,
              Size batch_size, const std::string& optimiser, bool decay_in_gradient, double clip,
              double beta1, double beta2, double epsilon)
      : RowHost(batch_size, optimiser, decay_in_gradient, beta1, beta2, epsilon) {
    require_between("n", n, 1, largest_bits);
    require_between("width", width, 1, largest_size);
    require_between("heads", heads, 1, largest_size);
    require_between("head_size", head_size, 1, largest_size);
    require_between("hidden", hidden, 1, largest_bits);
    require(drop < 1 << 16, "drop must be below 2^16: drop=", drop);
    require(clip > 0, "clip must be positive: clip=", clip);
    BitsState& s = state_;
    s.n = n;
    s.width = width;
    s.heads = heads;
    s.head_size = head_size;
    s.hidden = hidden;
    s.tokens = n + 1;
    s.padded_width = round_up(width, s.lanes);
    s.padded_heads = round_up(heads, s.lanes);
    s.padded_features = round_up(heads * head_size, s.lanes);
    s.padded_hidden = round_up(hidden, s.lanes);
    s.encoding = named<BitsEncoding>("encoding", encoding,
                                     {{"trained", BitsEncoding::trained},
                                      {"fixed", BitsEncoding::fixed},
                                      {"bag", BitsEncoding::bag}});
    s.score_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_size)));
    s.drop = drop;
    s.kept = 65536.0f / (65536.0f - static_cast<float>(drop));
    s.dropout_key = key_of(dropout_key);
    s.loss = loss_of(loss);
    s.clip = clip;
    lay_out_parameters();
    take_row(parameters, learning_rates, decays);
    s.gradient = reserve(s.size);
    lay_out_examples();
    lay_out_block();
    lay_out_tables();
  }

  Size advance(const Bits& bits, const Vector& labels, const Array<std::uint32_t, 2>& index,
               const Vector& factors) {
    const Size steps = rows_of(factors);
    require(rows_of(index) == steps && static_cast<Size>(index.shape(1)) == state_.batch,
            "index must have shape (steps=", steps, ", batch_size=", state_.batch, "): got (",
            index.shape(0), ", ", index.shape(1), ")");
    require(labels.shape(0) == bits.shape(0), "bits and labels must have one length: got ",
            bits.shape(0), " and ", labels.shape(0));
    check_bits(bits);
    const std::uint32_t* last = std::max_element(index.data(), index.data() + index.size());
    require(index.size() == 0 || *last < bits.shape(0),
            "index must be below the number of examples ", bits.shape(0));
    return take(steps, 1, [&](Size done, Size) -> Size {
      return kernel_.bits->step(state_, bits.data(), labels.data(),
                                index.data() + done * state_.batch, factors(done));
    });
  }

  auto outputs(const Bits& bits) {
    check_bits(bits);
    Result<float> result(bits.shape(0));
    each_block(rows_of(bits), state_.block, [&](Size first, Size count) {
      if (first == 0) kernel_.bits->prepare(state_);
      kernel_.bits->outputs(state_, bits.data() + first * state_.n, count, result.get() + first);
    });
    return result.array();
  }

 private:
  BitsMatrix matrix(Size rows, Size columns) {
    const Size stride = round_up(columns, state_.lanes);
    return {rows, columns, stride, reserve(rows * stride), reserve(rows * stride)};
  }

  BitsFolded folded(const BitsMatrix& like, bool transposed) {
    BitsFolded found{};
    found.matrix = matrix(like.rows, like.columns);
    found.bias = reserve(like.rows);
    found.bias_grad = reserve(like.rows);
    if (transposed) found.transposed = reserve(like.columns * round_up(like.rows, state_.lanes));
    return found;
  }

  void lay_out_parameters() {
    BitsState& s = state_;
    const Size features = s.heads * s.head_size, width = s.width;
    const bool trained = s.encoding == BitsEncoding::trained;
    BitsMatrix* array = s.array;
    array[bits_token] = matrix(s.encoding == BitsEncoding::bag ? 0 : 2, width);
    array[bits_position] = matrix(s.n + (trained ? 1 : 0), width);
    for (int name : {bits_query, bits_key, bits_value, bits_out_proj}) {
      array[name] = matrix(features, width);
    }
    for (int name : {bits_query_bias, bits_key_bias, bits_value_bias}) {
      array[name] = matrix(1, features);
    }
    for (int name : {bits_class, bits_out_proj_bias, bits_scale1, bits_shift1, bits_scale2,
                     bits_shift2, bits_scale3, bits_shift3, bits_residual_bias}) {
      array[name] = matrix(1, width);
    }
    array[bits_hidden] = matrix(s.hidden, width);
    array[bits_hidden_bias] = matrix(1, s.hidden);
    array[bits_residual] = matrix(width, s.hidden);
    array[bits_output] = matrix(2, width);
    for (const BitsMatrix& own : s.array) s.size += own.rows * own.columns;

    s.difference = matrix(1, width);
    s.no_bias = matrix(1, 1);
    s.query = folded(array[bits_query], true);
    s.key = folded(array[bits_key], false);
    s.value = folded(array[bits_value], true);
    s.hidden_map = folded(array[bits_hidden], true);
    s.output = folded(s.difference, false);
    s.out_proj_transposed = reserve(width * s.padded_features);
    s.residual_transposed = reserve(s.hidden * s.padded_width);
    s.real = reserve(s.padded_width);
    std::fill_n(s.real, width, 1.0f);
    s.table = reserve((2 * s.n + 1) * s.padded_width);
    s.table_grad = reserve((2 * s.n + 1) * s.padded_width);
  }

  void lay_out_examples() {
    BitsState& s = state_;
    const Size slack = 8 * s.lanes;  // half words are drawn and read in whole vectors
    s.drawn_size = s.drop ? round_up(s.tokens * s.width + slack, 32) : 32;
    const Size numbers =
        s.tokens * (s.padded_width + 2 * s.padded_heads) + 4 * s.heads * s.padded_width;
    const Size bytes = 4 * numbers + 2 * s.drawn_size;
    s.block = std::clamp(block_bytes / bytes, Size{1}, std::min(largest_bits_block, s.batch));
    const Size places = s.block * s.tokens, heads = s.block * s.heads * s.padded_width;
    s.token = {reserve(places * s.padded_width), reserve(places)};
    s.drawn = memory_.allocate<std::uint16_t>(s.block * s.drawn_size);
    for (float** array : {&s.weights, &s.dropped}) *array = reserve(places * s.padded_heads);
    for (float** array : {&s.asked, &s.grad_asked, &s.mixed, &s.grad_mixed})
      *array = reserve(heads);
    s.draws = memory_.allocate<std::uint16_t>(std::max(s.padded_heads * s.tokens, s.width) + slack);
    s.heads_transposed = reserve(s.padded_width * s.padded_heads);
    s.scores = reserve(s.tokens * s.padded_heads);
    s.grad_place = reserve(s.lanes * s.padded_width);
  }

  void lay_out_block() {
    BitsState& s = state_;
    const auto rows = [&](Size size, auto... arrays) {
      for (float** array : {arrays...}) *array = reserve(s.block * size);
    };
    rows(s.padded_width, &s.own, &s.grad_own, &s.out_proj_kept, &s.mlp_kept, &s.stream, &s.grad_out,
         &s.norm2.centred, &s.norm3.centred);
    rows(s.padded_features, &s.asking, &s.grad_asking, &s.found, &s.grad_found);
    rows(s.padded_heads, &s.total, &s.grad_total);
    rows(s.padded_hidden, &s.preactivations, &s.gelu, &s.gelu_derivative, &s.grad_hidden);
    rows(1, &s.norm2.inverse, &s.norm3.inverse, &s.output_row, &s.label_row, &s.grad_row);
  }

  void lay_out_tables() {
    BitsState& s = state_;
    const Size count = 2 * s.n + 1;
    for (float** array : {&s.table_score, &s.table_weight, &s.table_value, &s.table_part}) {
      *array = reserve(count * s.padded_features);
    }
    s.table_score_by_head = reserve(count * s.padded_heads);
    s.table_normed = {reserve(count * s.padded_width), reserve(count)};
  }

  void check_bits(const Bits& bits) const {
    require(bits.shape(1) == static_cast<std::size_t>(state_.n), "bits must have n=", state_.n,
            " columns: got ", bits.shape(1));
    std::uint8_t all = 0;
    for (std::size_t i = 0; i < bits.size(); i++) all |= bits.data()[i];
    require(all <= 1, "bits must be 0 or 1: got other values");
  }
};

}  // namespace

void bind_bits(nb::module_& m) {
  bind_network<BitsNetwork>(
      m, "BitsNetwork",
      "A prenorm transformer of one layer on bits that is read at a class token, trained with\n"
      "dropout.")
      .def(
          nb::init<const Vector&, const Vector&, const Vector&, Size, Size, Size, Size, Size,
                   const std::string&, std::uint32_t, const KeyPair&, const NamedLoss&, Size,
                   const std::string&, bool, double, double, double, double>(),
          "parameters"_a, "learning_rates"_a, "decays"_a, nb::kw_only(), "n"_a, "width"_a,
          "heads"_a, "head_size"_a, "hidden"_a, "encoding"_a = "trained", "drop"_a = 0,
          "dropout_key"_a = KeyPair{0, 0}, "loss"_a, "batch_size"_a, "optimiser"_a,
          "decay_in_gradient"_a = true, "clip"_a = std::numeric_limits<double>::infinity(),
          "beta1"_a = 0.9, "beta2"_a = 0.999, "epsilon"_a = 1e-8,
          "Take copies of all parameters in one row, of their learning rates and of their "
          "weight decays.\n\n"
          "The row consists of tokens (2, width; none in a bag), positions (n + 1, width; n where\n"
          "they are not trained), class (width,); query, key, value and output projection (heads\n"
          "head_size, width), the biases of the first three (heads head_size,) and of the last\n"
          "(width,); scale and shift (width,) of three norms; hidden weights (hidden, width) and\n"
          "biases, residual weights (width, hidden) and biases, and output (2, width). `encoding`\n"
          "is trained, fixed or bag. `loss` is a name and a factor, `optimiser` sgd, "
          "momentum, nesterov or adam, `beta1` the momentum. "
          "Weight\n"
          "decays are as in `Network`; Adam's are outside of its running means. An entry is "
          "dropped in\n"
          "training where its half word is below `drop` (0: no dropout), the half words of a step\n"
          "being those of `dropout_key` folded by the step and the site. A gradient that is "
          "longer\n"
          "than `clip` is scaled down to it.\n\n"
          "Raises ValueError, with the rule and the value, for a bad argument.")
      .def("advance", &BitsNetwork::advance, "bits"_a, "labels"_a, "index"_a, "factors"_a,
           "Take one step per schedule factor; return the steps done, fewer if it diverged.\n\n"
           "Bits are (N, n), labels (N,), and `index` (steps, batch_size) says which of them are "
           "in\n"
           "each minibatch.")
      .def("outputs", &BitsNetwork::outputs, "bits"_a,
           "Outputs (N,) on bits (N, n), without dropout.");
}

}  // namespace elegans
