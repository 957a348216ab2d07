// One transformer on pairs in training.
#include "pair_transformer_types.hpp"

#include "pair_host.hpp"

namespace elegans {
namespace {

constexpr Size largest_width = 1 << 14;
constexpr Size largest_memory = 1 << 26;  // numbers in the largest array

class PairTransformer final : public PairHost<RowHost<PairTransformerState>> {
 public:
  PairTransformer(const Vector& parameters, const Vector& learning_rates, const Vector& decays,
                  const Table& table, Size width, Size heads, Size head_size, Size mlp_width,
                  const std::string& activation, int degree, bool population, Size batch_size,
                  const NamedLoss& loss, const KeyPair& sample_key, const std::string& optimiser,
                  bool decay_in_gradient, double beta1, double beta2, double epsilon)
      : PairHost(batch_size, optimiser, decay_in_gradient, beta1, beta2, epsilon) {
    take_task(table, population, batch_size, loss, sample_key);
    require_between("width", width, 1, largest_width);
    require_between("mlp_width", mlp_width, 1, largest_width);
    require_between("heads", heads, 1, largest_width);
    require_between("head_size", head_size, 1, largest_width);
    require_between("degree", degree, 1, largest_degree);
    PairTransformerState& s = state_;
    s.width = width;
    s.heads = heads;
    s.head_size = head_size;
    s.mlp_width = mlp_width;
    s.tokens = 2 * s.order + 1;
    s.stride = round_up(width, pair_unit);
    s.head_stride = round_up(head_size, pair_unit);
    s.hidden_stride = round_up(mlp_width, pair_unit);
    require(s.tokens * heads * s.stride <= largest_memory &&
                heads * s.head_stride * std::max(s.stride, s.tokens) <= largest_memory &&
                s.stride * s.hidden_stride <= largest_memory,
            "tokens x heads x width, heads x head_size x width and width x mlp_width must be at "
            "most 2^26: order=",
            s.order, ", width=", width, ", heads=", heads, ", head_size=", head_size,
            ", mlp_width=", mlp_width);
    s.activation = named<Activation>("activation", activation,
                                     {{"relu", Activation::relu}, {"power", Activation::power}});
    s.degree = degree;
    lay_out();
    take_row(parameters, learning_rates, decays);
    reserve_arrays();
  }

  Size advance(const Vector& factors, const GivenPairs& pairs) {
    const PairTransformerState& s = state_;
    const double products = static_cast<double>(s.width) * static_cast<double>(s.mlp_width);
    return take_pairs(*kernel_.pair_transformers, factors, pairs,
                      static_cast<double>(s.batch) * products);
  }

 private:
  void evaluate(Size count) override { kernel_.pair_transformers->outputs(state_, count); }

  // Where each array begins in the row.
  void lay_out() {
    PairTransformerState& s = state_;
    const auto next = [&s](Size count) {
      const Size first = s.size;
      s.size += count;
      return first;
    };
    const auto matrix = [&](PairMatrix& w, Size rows, Size columns) {
      w.rows = rows;
      w.columns = columns;
      w.stride = round_up(columns, pair_unit);
      w.first = next(rows * columns);
    };
    const Size projection = s.heads * s.width * s.head_size;
    s.size = 0;
    s.number = next(s.order * s.width);
    s.equals = next(s.width);
    s.position = next(3 * s.width);
    s.query = next(projection);
    s.key = next(projection);
    s.value = next(projection);
    s.merge = next(projection);
    matrix(s.hidden, s.mlp_width, s.width);
    s.hidden_bias = next(s.mlp_width);
    matrix(s.residual, s.width, s.mlp_width);
    s.residual_bias = next(s.width);
    matrix(s.unembed, s.order, s.width);
  }

  void reserve_arrays() {
    PairTransformerState& s = state_;
    const auto both = [&](float*& value, float*& grad, Size count) {
      value = memory_.allocate<float>(count);
      grad = memory_.allocate<float>(count);
    };
    for (PairMatrix* w : {&s.hidden, &s.residual, &s.unembed}) {
      both(w->forward, w->backward, w->rows * w->columns);
      w->gradient = memory_.allocate<float>(w->rows * w->stride);
    }
    s.fresh_parameters = true;
    s.grad = reserve(s.size);
    both(s.token, s.grad_token, s.tokens * s.stride);
    both(s.mixed, s.grad_mixed, s.tokens * s.heads * s.head_stride);
    both(s.added, s.grad_added, s.tokens * s.heads * s.stride);
    both(s.score, s.grad_score, s.tokens * s.heads);
    both(s.asked, s.grad_asked, s.heads * s.head_size);
    both(s.direction, s.grad_direction, s.heads * s.stride);
    both(s.value_rows, s.merge_columns, s.width * s.heads * s.head_stride);
    both(s.value_columns, s.merge_rows, s.heads * s.head_stride * s.stride);
    s.attention = memory_.allocate<float>(s.heads * 3 * pair_tile);
    both(s.stream, s.grad_stream, s.stride * pair_tile);
    both(s.last, s.grad_last, s.stride * pair_tile);
    both(s.active, s.slope, s.hidden_stride * pair_tile);
    s.stream_by_pair = memory_.allocate<float>(pair_tile * s.stride);
    s.grad_stream_by_pair = memory_.allocate<float>(pair_tile * s.stride);
    s.last_by_pair = memory_.allocate<float>(pair_tile * s.stride);
    s.active_by_pair = memory_.allocate<float>(pair_tile * s.hidden_stride);
  }
};

}  // namespace

void bind_pair_transformers(nb::module_& m) {
  bind_network<PairTransformer>(
      m, "PairTransformer",
      "One block of causal attention and an MLP on the tokens a, b and \"=\", read out at the\n"
      "last, trained as `PairNetwork`.")
      .def(
          nb::init<const Vector&, const Vector&, const Vector&, const Table&, Size, Size, Size,
                   Size, const std::string&, int, bool, Size, const NamedLoss&, const KeyPair&,
                   const std::string&, bool, double, double, double>(),
          "parameters"_a, "learning_rates"_a, "decays"_a, "table"_a, nb::kw_only(), "width"_a,
          "heads"_a, "head_size"_a, "mlp_width"_a, "activation"_a = "relu", "degree"_a = 1,
          "population"_a, "batch_size"_a, "loss"_a = NamedLoss{"cross-entropy", 1.0},
          "sample_key"_a, "optimiser"_a = "sgd", "decay_in_gradient"_a = true, "beta1"_a = 0.9,
          "beta2"_a = 0.999, "epsilon"_a = 1e-8,
          "Take copies of all parameters in one row, of their learning rates and of their decays,\n"
          "and of the table (order, order).\n\n"
          "The row consists of the embeddings of the numbers (order, width), of \"=\" (width,) "
          "and of\n"
          "positions (3, width); query, key and value (heads, width, head_size) and the heads'\n"
          "output (heads, head_size, width); hidden weights (mlp_width, width) and biases\n"
          "(mlp_width,), residual weights (width, mlp_width) and biases (width,); output\n"
          "(order, width). Pairs and losses are as in `PairNetwork`, decays as in `Network`.\n\n"
          "Raises ValueError, with the rule and the value, for a bad argument.")
      .def("advance", &PairTransformer::advance, "factors"_a, "pairs"_a = nb::none(),
           "Take one step per schedule factor, on the pairs (steps, batch_size) where they are "
           "given;\n"
           "return the steps done, fewer if it diverged.")
      .def("outputs", &PairTransformer::outputs, "pairs"_a,
           "Outputs (N, order) on pairs by their numbers a * order + b.")
      .def("wrong", &PairTransformer::wrong, "pairs"_a,
           "Whether the right output of each pair is not above all others.");
}

}  // namespace elegans
