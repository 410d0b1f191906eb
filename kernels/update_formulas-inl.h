// The formulas of the update rules, once for all that computes them. Included inside a namespace
// that has, for a tag D of as many floats as are computed at once, Lanes<D> and the operations Add,
// Sub, Mul, Div, Sqrt, Set, LoadU, StoreU and mul_add, each rounded once as IEEE 754 says; they are
// called as Highway calls them. Hence no includes, no namespace and no #pragma once.

/// Element i on of state array `block`.
template <class D, class V = Lanes<D>>
PASSEL_UPDATE_INLINE V load_state(D d, const UpdateArrays& a, std::size_t block, std::size_t i) {
  return LoadU(d, a.state[block] + i);
}

template <class D, class V = Lanes<D>>
PASSEL_UPDATE_INLINE V store_state(D d, const UpdateArrays& a, std::size_t block, std::size_t i,
                                   V next) {
  StoreU(next, d, a.new_state[block] + i);
  return next;
}

/// buffer = momentum * buffer + g
template <class D, class V = Lanes<D>>
PASSEL_UPDATE_INLINE V momentum_of(D d, const UpdateFactors& f, V g, const UpdateArrays& a,
                                   std::size_t block, std::size_t i) {
  const V old = load_state(d, a, block, i);
  return store_state(d, a, block, i, mul_add(d, Set(d, f.momentum), old, g));
}

/// average = decay * average + gain * g^2
template <class D, class V = Lanes<D>>
PASSEL_UPDATE_INLINE V square_average(D d, float decay, float gain, V g, const UpdateArrays& a,
                                      std::size_t block, std::size_t i) {
  const V old = Mul(Set(d, decay), load_state(d, a, block, i));
  return store_state(d, a, block, i, mul_add(d, Mul(Set(d, gain), g), g, old));
}

/// What the rule makes of the gradient g. `momentum` says that it keeps a momentum buffer.
template <UpdateRule kRule, class D, class V = Lanes<D>>
PASSEL_UPDATE_INLINE V direction_of(D d, const UpdateFactors& f, bool momentum, V g,
                                    const UpdateArrays& a, std::size_t i) {
  const V eps = Set(d, f.eps);
  if constexpr (kRule == UpdateRule::kSgd) {
    if (!momentum) return g;
    const V velocity = momentum_of(d, f, g, a, 0, i);
    return f.nesterov ? mul_add(d, Set(d, f.momentum), velocity, g) : velocity;
  } else if constexpr (kRule == UpdateRule::kRmsprop) {
    const V average = square_average(d, f.alpha, f.one_minus_alpha, g, a, 0, i);
    const V scaled = Div(g, Add(Sqrt(average), eps));
    return momentum ? momentum_of(d, f, scaled, a, 1, i) : scaled;
  } else if constexpr (kRule == UpdateRule::kAdagrad) {
    const V sum = square_average(d, 1.0F, 1.0F, g, a, 0, i);
    return Div(g, Add(Sqrt(sum), eps));
  } else {
    const V old = load_state(d, a, 0, i);
    const V mean = store_state(d, a, 0, i, mul_add(d, Sub(g, old), Set(d, f.one_minus_beta1), old));
    const V square = square_average(d, f.beta2, f.one_minus_beta2, g, a, 1, i);
    return Div(mean, mul_add(d, Sqrt(square), Set(d, f.correction), eps));
  }
}

/// Direction of the update of the parameters `old`, to be multiplied by -step_size. Updates the
/// state.
template <UpdateRule kRule, class D, class V = Lanes<D>>
PASSEL_UPDATE_INLINE V direction(D d, const UpdateFactors& f, bool momentum, const UpdateArrays& a,
                                 const float* gradient, V old, std::size_t i) {
  const V scaled = Mul(LoadU(d, gradient + i), Set(d, f.grad_scale));
  const V g = mul_add(d, old, Set(d, f.weight_decay), scaled);
  return direction_of<kRule>(d, f, momentum, g, a, i);
}

template <UpdateRule kRule, class D>
PASSEL_UPDATE_INLINE void update_lanes(D d, const UpdateFactors& f, bool momentum,
                                       const UpdateArrays& a, const float* gradient,
                                       std::size_t i) {
  const auto old = LoadU(d, a.parameters + i);
  const auto way = direction<kRule>(d, f, momentum, a, gradient, old, i);
  const auto kept = Mul(old, Set(d, f.shrink));
  StoreU(mul_add(d, way, Set(d, -f.step_size), kept), d, a.new_parameters + i);
}
