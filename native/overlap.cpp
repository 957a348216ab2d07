// One neuron on the sphere: for normal inputs its overlap with the direction that it learns, as a
// Markov chain; for signs all its weights.
//
// Compiled once, for no particular instruction set and without contracting products and sums, so
// that a run is the same bit for bit whichever kernel draws its random words.
#include <bit>

#include "host.hpp"

namespace elegans {
namespace {

constexpr std::size_t layers = 256;
constexpr double layer_tail = 3.6541528853610088;  // where the lowest layer's tail begins
constexpr double layer_area = 0.00492867323399;    // of each layer, under exp(-x^2/2)
constexpr std::size_t words_per_step = 4, block_steps = 256;
constexpr std::size_t most_degree = 8;

// Layers of equal area under exp(-x^2/2) (Marsaglia and Tsang, "The ziggurat method for generating
// random variables", 2000): the right ends of the layers, and the density there.
struct Ziggurat {
  Ziggurat() {
    right[0] = layer_area / std::exp(-0.5 * layer_tail * layer_tail);
    right[1] = layer_tail;
    for (std::size_t i = 2; i < layers; i++) {
      right[i] = std::sqrt(
          -2 * std::log(layer_area / right[i - 1] + std::exp(-0.5 * right[i - 1] * right[i - 1])));
    }
    right[layers] = 0;
    for (std::size_t i = 0; i <= layers; i++) height[i] = std::exp(-0.5 * right[i] * right[i]);
  }
  double right[layers + 1], height[layers + 1];
};
const Ziggurat ziggurat;

// The random words of one step: the first come drawn, further ones are drawn as they are asked for.
class StepWords {
 public:
  StepWords(const Kernel& kernel, Key key, std::uint32_t step, const std::uint64_t* drawn,
            std::size_t lane = 0)
      : kernel_(kernel), key_(key), step_(step), drawn_(drawn), lane_(lane) {}
  std::uint64_t next() {
    if (lane_ < words_per_step) return drawn_[lane_++];
    std::uint32_t low = 0, high = 0;
    const auto lane = static_cast<std::uint32_t>(lane_++);
    kernel_.words(key_, &step_, &lane, 1, &high, &low);
    return static_cast<std::uint64_t>(high) << 32 | low;
  }
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }
  double normal() {
    while (true) {
      const std::uint64_t word = next();
      const auto i = static_cast<std::size_t>(word & (layers - 1));
      const double sign = (word & layers) ? -1.0 : 1.0;
      const double x = static_cast<double>(word >> 11) * 0x1p-53 * ziggurat.right[i];
      if (x < ziggurat.right[i + 1]) return sign * x;
      if (i == 0) return sign * tail();
      const double height =
          ziggurat.height[i] + uniform() * (ziggurat.height[i + 1] - ziggurat.height[i]);
      if (height < std::exp(-0.5 * x * x)) return sign * x;
    }
  }
  // Twice a gamma variable (Marsaglia and Tsang, "A simple method for generating gamma variables",
  // 2000), of a shape of at least 1.
  double chi_square(double freedom) {
    const double d = freedom / 2 - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    while (true) {
      const double x = normal(), root = 1 + c * x;
      const double u = uniform();
      if (root <= 0) continue;
      const double v = root * root * root, square = x * x;
      if (u < 1 - 0.0331 * square * square ||
          std::log(u) < 0.5 * square + d * (1 - v + std::log(v))) {
        return 2 * d * v;
      }
    }
  }

 private:
  double tail() {
    while (true) {
      const double x = -std::log(uniform()) / layer_tail, y = -std::log(uniform());
      if (2 * y > x * x) return layer_tail + x;
    }
  }
  const Kernel& kernel_;
  Key key_;
  std::uint32_t step_;
  const std::uint64_t* drawn_;
  std::size_t lane_;
};

// A function of one number: a polynomial, z^2 exp(-z^2), or relu(z + bias).
struct LinkFunction {
  enum class Kind { polynomial, bump, relu } kind;
  std::vector<double> coefficients, slopes;  // of the polynomial and its derivative, highest first
  double bias;

  static double horner(const std::vector<double>& coefficients, double z) {
    double sum = 0;
    for (const double coefficient : coefficients) sum = sum * z + coefficient;
    return sum;
  }
  double value(double z) const {
    switch (kind) {
      case Kind::polynomial:
        return horner(coefficients, z);
      case Kind::bump:
        return z * z * std::exp(-z * z);
      default:
        return z + bias > 0 ? z + bias : 0;
    }
  }
  double slope(double z) const {
    switch (kind) {
      case Kind::polynomial:
        return horner(slopes, z);
      case Kind::bump:
        return 2 * z * (1 - z * z) * std::exp(-z * z);
      default:
        return z + bias > 0 ? 1 : 0;
    }
  }
};

LinkFunction link_of(const char* what, const std::string& name,
                     const std::vector<double>& coefficients, double bias) {
  const auto kind = named<LinkFunction::Kind>(what, name,
                                              {{"polynomial", LinkFunction::Kind::polynomial},
                                               {"bump", LinkFunction::Kind::bump},
                                               {"relu", LinkFunction::Kind::relu}});
  require(coefficients.size() <= most_degree + 1, what, " must have a degree of at most ",
          most_degree, ": got ", coefficients.size(), " coefficients");
  require_finite(what, coefficients);
  require(std::isfinite(bias), "bias must be finite: bias=", bias);
  LinkFunction link{kind, {coefficients.rbegin(), coefficients.rend()}, {}, bias};
  for (std::size_t degree = coefficients.size(); degree-- > 1;) {
    link.slopes.push_back(static_cast<double>(degree) * coefficients[degree]);
  }
  return link;
}

// A neuron, its loss, and its steps.
struct Neuron {
  LinkFunction link;
  double output;  // 1 or -1, the factor of the link
  bool square;
  double rate, reuse;

  // How far a step goes along the example, over the rate.
  double factor(double label, double z) const {
    return output * (square ? label - output * link.value(z) : label) * link.slope(z);
  }
};

Neuron neuron_of(const std::string& name, const std::vector<double>& coefficients, double bias,
                 int output, bool square, double rate, double reuse) {
  require(std::isfinite(rate) && rate >= 0, "rate must be at least 0: rate=", rate);
  require(std::isfinite(reuse) && reuse >= 0, "reuse must be at least 0: reuse=", reuse);
  require(output == 1 || output == -1, "output must be -1 or 1: output=", output);
  return {link_of("neuron", name, coefficients, bias), static_cast<double>(output), square, rate,
          reuse};
}

void require_steps(std::int64_t first, Size steps, double reach) {
  require_between("first", first, 0, 0xFFFFFFFFll);
  require_between("steps", steps, 0, 0xFFFFFFFFll - first);
  require_positive("reach", reach);
}

struct Chain {
  LinkFunction target;
  Neuron neuron;
  double dimension;

  // The overlap after a step: z and across are the example's coordinates along the neuron and along
  // the rest of the target's direction, rest the squared length of all others.
  double step(double overlap, double z, double across, double rest) const {
    const double side = std::sqrt(std::max(0.0, 1 - overlap * overlap));
    const double along = overlap * z + side * across;
    const double label = target.value(along);
    double c = neuron.factor(label, z);
    const double outside = across * across + rest;
    if (neuron.reuse != 0) {
      c = neuron.factor(label, z + neuron.reuse / dimension * c * (z * z + outside));
    }
    const double move = neuron.rate * c;
    return (overlap + move * (along - overlap * z)) / std::sqrt(1 + move * move * outside);
  }
};

std::tuple<double, std::int64_t> advance(const KeyPair& key, std::uint64_t first, Size steps,
                                         double overlap, const Chain& chain, double reach) {
  const Kernel& kernel = kernel_in_use();
  std::vector<std::uint32_t> index(block_steps * words_per_step), lane(index), high(index),
      low(index);
  std::vector<std::uint64_t> words(index.size());
  for (std::size_t i = 0; i < lane.size(); i++) {
    lane[i] = static_cast<std::uint32_t>(i % words_per_step);
  }
  std::int64_t reached = -1;
  Work work;
  for (Size done = 0; done < steps && reached < 0;) {
    const Size count = std::min(steps - done, static_cast<Size>(block_steps));
    const auto size = static_cast<std::size_t>(count) * words_per_step;
    for (std::size_t i = 0; i < size; i++) {
      index[i] =
          static_cast<std::uint32_t>(first + static_cast<std::uint64_t>(done) + i / words_per_step);
    }
    kernel.words(key_of(key), index.data(), lane.data(), static_cast<Size>(size), high.data(),
                 low.data());
    for (std::size_t i = 0; i < size; i++) {
      words[i] = static_cast<std::uint64_t>(high[i]) << 32 | low[i];
    }
    for (Size i = 0; i < count && reached < 0; i++) {
      const auto place = static_cast<std::size_t>(i) * words_per_step;
      StepWords draws(kernel, key_of(key), index[place], words.data() + place);
      const double z = draws.normal(), across = draws.normal();
      const double rest = draws.chi_square(chain.dimension - 2);
      overlap = chain.step(overlap, z, across, rest);
      if (!(std::abs(overlap) < reach)) {
        reached = static_cast<std::int64_t>(first) + done + i + 1;
      }
    }
    done += count;
    work.beat();
  }
  return {overlap, reached};
}

std::tuple<double, std::int64_t> overlap_steps(
    const KeyPair& key, std::int64_t first, Size steps, double overlap, double reach,
    const std::string& target, const std::vector<double>& target_coefficients,
    const std::string& neuron, const std::vector<double>& neuron_coefficients, double bias,
    int output, bool square, double rate, double dimension, double reuse) {
  require_steps(first, steps, reach);
  require(std::abs(overlap) <= 1, "overlap must be in -1 ... 1: overlap=", overlap);
  require(std::isfinite(dimension) && dimension >= 4,
          "dimension must be at least 4: dimension=", dimension);
  const Chain chain{link_of("target", target, target_coefficients, 0),
                    neuron_of(neuron, neuron_coefficients, bias, output, square, rate, reuse),
                    dimension};
  return advance(key, static_cast<std::uint64_t>(first), steps, overlap, chain, reach);
}

constexpr Size four = 4, words_of_four = 32 / four;
using Four = float __attribute__((vector_size(16)));
using FourWords = std::uint32_t __attribute__((vector_size(16)));
constexpr Size most_places = 12;  // of a table of labels

// The weights of a neuron whose inputs are signs, 32 in a word: a bit is set where its input is -1.
class SignWeights {
 public:
  SignWeights(const Vector& weights) : size_(rows_of(weights)), words_((size_ + 31) / 32) {
    values_ = memory_.allocate<Four>(words_ * words_of_four);
    std::copy_n(weights.data(), size_, entries());
    for (Size part = 0; part < words_of_four; part++) {
      for (Size i = 0; i < four; i++) bit_[part][i] = 1u << (part * four + i);
    }
  }
  float* entries() { return reinterpret_cast<float*>(values_); }
  Size size() const { return size_; }
  Size words() const { return words_; }

  // The sum of inputs times weights, in an order that does not depend on the machine.
  double input(const std::uint32_t* signs) const {
    Four sums[4] = {};
    for (Size word = 0; word < words_; word++) {
      for (Size part = 0; part < words_of_four; part++) {
        const Four weight = values_[word * words_of_four + part];
        sums[part % 4] += signed_by(weight, signs[word], part);
      }
    }
    const Four sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    return static_cast<double>((sum[0] + sum[1]) + (sum[2] + sum[3]));
  }

  // Shrinks the weights and adds an input times a number.
  void move(const std::uint32_t* signs, float keep, float share) {
    const Four shares = {share, share, share, share};
    for (Size word = 0; word < words_; word++) {
      for (Size part = 0; part < words_of_four; part++) {
        Four& weight = values_[word * words_of_four + part];
        weight = keep * weight + signed_by(shares, signs[word], part);
      }
    }
    std::fill(entries() + size_, entries() + 32 * words_, 0.0f);
  }

  // Rounding errors of the length add up otherwise.
  void normalise() {
    double square = 0;
    for (Size j = 0; j < size_; j++) square += static_cast<double>(entries()[j]) * entries()[j];
    const double length = std::sqrt(square);
    for (Size j = 0; j < size_; j++) {
      entries()[j] = static_cast<float>(static_cast<double>(entries()[j]) / length);
    }
  }

 private:
  Four signed_by(Four values, std::uint32_t signs, Size part) const {
    const FourWords all = {signs, signs, signs, signs};
    const FourWords negative = (FourWords)((all & bit_[part]) != 0);
    return (Four)((FourWords)values ^ (negative & 0x80000000u));
  }
  Memory memory_;
  Size size_, words_;
  Four* values_;
  FourWords bit_[words_of_four];
};

// A target on signs by its labels, and how much of a neuron's weights is on its support.
struct SignTarget {
  std::vector<Size> support;
  Vector values;

  double label(const std::uint32_t* signs) const {
    std::size_t place = 0;
    for (std::size_t i = 0; i < support.size(); i++) {
      place |= ((signs[support[i] / 32] >> (support[i] % 32)) & std::size_t{1}) << i;
    }
    return static_cast<double>(values.data()[place]);
  }
  double square(const float* weights) const {
    double sum = 0;
    for (const Size j : support) sum += static_cast<double>(weights[j]) * weights[j];
    return sum;
  }
};

// One step; returns whether the weights moved.
bool step_on_signs(SignWeights& weights, const Neuron& neuron, double label,
                   const std::uint32_t* signs) {
  const double z = weights.input(signs);
  double c = neuron.factor(label, z);
  // The first step moves the input by reuse / n along the example, whose square is n.
  if (neuron.reuse != 0) c = neuron.factor(label, z + neuron.reuse * c);
  if (c == 0) return false;
  const double move = neuron.rate * c;
  const double outside = static_cast<double>(weights.size()) - z * z;
  const double length = std::sqrt(1 + move * move * std::max(0.0, outside));
  weights.move(signs, static_cast<float>((1 - move * z) / length),
               static_cast<float>(move / length));
  return true;
}

auto sphere_steps(const KeyPair& key, std::int64_t first, Size steps, const Vector& weights,
                  double reach, const std::vector<Size>& support, const Vector& values,
                  const std::string& neuron, const std::vector<double>& neuron_coefficients,
                  double bias, int output, bool square, double rate, double reuse) {
  require_steps(first, steps, reach);
  const Size n = rows_of(weights), places = static_cast<Size>(support.size());
  require_between("n", n, 1, 65536);
  require_between("places of values", places, 1, most_places);
  require_length("values", values.shape(0), "2^places", Size{1} << places);
  for (const Size j : support) {
    require(j >= 0 && j < n, "support must be in 0 ... n-1: ", j, " with n=", n);
  }
  const Neuron one = neuron_of(neuron, neuron_coefficients, bias, output, square, rate, reuse);
  const SignTarget target{support, values};
  SignWeights here(weights);
  std::int64_t reached = -1;
  {
    const Kernel& kernel = kernel_in_use();
    const Size blocks = (here.words() + 1) / 2;
    const Size batch = std::max(Size{1}, static_cast<Size>(block_steps * words_per_step) / blocks);
    const auto size = static_cast<std::size_t>(batch * blocks);
    std::vector<std::uint32_t> index(size), lane(size), low(size), high(size), signs(2 * size);
    Work work;
    for (Size done = 0; done < steps && reached < 0;) {
      const Size count = std::min(batch, steps - done);
      for (Size i = 0; i < count * blocks; i++) {
        const auto at = static_cast<std::size_t>(i);
        index[at] = static_cast<std::uint32_t>(first + done + i / blocks);
        lane[at] = static_cast<std::uint32_t>(i % blocks);
      }
      kernel.words(key_of(key), index.data(), lane.data(), count * blocks, low.data(), high.data());
      for (std::size_t i = 0; i < size; i++) {
        signs[2 * i] = low[i];
        signs[2 * i + 1] = high[i];
      }
      for (Size i = 0; i < count && reached < 0; i++) {
        const std::uint32_t* example = signs.data() + 2 * i * blocks;
        const bool moved = step_on_signs(here, one, target.label(example), example);
        if ((first + done + i + 1) % 256 == 0) here.normalise();
        if (moved && !(target.square(here.entries()) < reach * reach)) {
          reached = first + done + i + 1;
        }
      }
      done += count;
      work.beat();
    }
  }
  Result<float> result(n);
  std::copy_n(here.entries(), n, result.get());
  return std::make_tuple(result.array(), reached);
}

// The overlap of a uniform point of the sphere with a direction.
double overlap_start(const KeyPair& key, double dimension) {
  require(std::isfinite(dimension) && dimension >= 4,
          "dimension must be at least 4: dimension=", dimension);
  StepWords draws(kernel_in_use(), key_of(key), 0, nullptr, words_per_step);
  const double along = draws.normal();
  return along / std::sqrt(along * along + draws.chi_square(dimension - 1));
}

}  // namespace

void bind_overlap(nb::module_& m) {
  m.def("overlap_steps", overlap_steps, "key"_a, nb::kw_only(), "first"_a, "steps"_a, "overlap"_a,
        "reach"_a, "target"_a, "target_coefficients"_a, "neuron"_a, "neuron_coefficients"_a,
        "bias"_a, "output"_a, "square"_a, "rate"_a, "dimension"_a, "reuse"_a,
        "Steps of one neuron on the sphere that learns a function of one direction of normal "
        "inputs.\n\n"
        "Returns the overlap, and the number of the first step after which its size was at least\n"
        "`reach` and at which the chain ends, or -1. `first` is the number of steps taken "
        "before.\n"
        "Links are polynomial (with coefficients, lowest first), bump (z^2 exp(-z^2)) or relu "
        "(with\n"
        "the bias); `output` is 1 or -1, the neuron's output weight. `square` chooses the square "
        "loss\n"
        "over the correlation loss, and `reuse` above 0 takes the gradient after a first step of "
        "rate\n"
        "reuse / dimension along the example's own.\n\n"
        "Raises ValueError, with the rule, for numbers out of range.");
  m.def("sphere_steps", sphere_steps, "key"_a, nb::kw_only(), "first"_a, "steps"_a, "weights"_a,
        "reach"_a, "support"_a, "values"_a, "neuron"_a, "neuron_coefficients"_a, "bias"_a,
        "output"_a, "square"_a, "rate"_a, "reuse"_a,
        "Steps of one neuron on the sphere, weights (n,), whose inputs are uniform signs.\n\n"
        "The label is the entry of `values` (2^k,) at the place whose bit i is set where input\n"
        "support[i] is -1. Returns the weights, and the number of the first step after which those "
        "of\n"
        "the support had at least the length `reach` and at which the steps end, or -1. The other\n"
        "arguments are those of `overlap_steps`.\n\n"
        "Raises ValueError, with the rule, for numbers out of range.");
  m.def("overlap_start", overlap_start, "key"_a, "dimension"_a,
        "The overlap of a uniform point of the sphere in `dimension` dimensions with a direction.");
}

}  // namespace elegans
