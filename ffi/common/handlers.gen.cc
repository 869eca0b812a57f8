// Written by ffi/generate.py from fhejax/primitives/handlers.py.
#include "common/handlers.gen.h"

#include <algorithm>

namespace fhejax::handlers {

bool Add::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(1) && given.Attribute("moduli", 1, moduli)))
    return false;
  limbs = SizeOf(moduli);
  if (!(given.Operand("a", "limbs values", 2, a) && given.Axis(0, limbs) && given.AxisNamed(1, 1, values) &&
        given.Operand("b", "limbs values", 2, b) && given.Axis(0, limbs) && given.Axis(1, values) &&
        given.Result("out", "limbs values", 2, out) && given.Axis(0, limbs) && given.Axis(1, values)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && given.Primes("moduli", moduli, 1, 0)))
    return false;
  return true;
}

bool Subtract::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(1) && given.Attribute("moduli", 1, moduli)))
    return false;
  limbs = SizeOf(moduli);
  if (!(given.Operand("a", "limbs values", 2, a) && given.Axis(0, limbs) && given.AxisNamed(1, 1, values) &&
        given.Operand("b", "limbs values", 2, b) && given.Axis(0, limbs) && given.Axis(1, values) &&
        given.Result("out", "limbs values", 2, out) && given.Axis(0, limbs) && given.Axis(1, values)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && given.Primes("moduli", moduli, 1, 0)))
    return false;
  return true;
}

bool Multiply::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(1) && given.Attribute("moduli", 1, moduli)))
    return false;
  limbs = SizeOf(moduli);
  if (!(given.Operand("a", "limbs values", 2, a) && given.Axis(0, limbs) && given.AxisNamed(1, 1, values) &&
        given.Operand("b", "limbs values", 2, b) && given.Axis(0, limbs) && given.Axis(1, values) &&
        given.Result("out", "limbs values", 2, out) && given.Axis(0, limbs) && given.Axis(1, values)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && given.Primes("moduli", moduli, 1, 0)))
    return false;
  return true;
}

bool MultiplyAdd::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(1) && given.Attribute("moduli", 1, moduli)))
    return false;
  limbs = SizeOf(moduli);
  if (!(given.Operand("a", "limbs values", 2, a) && given.Axis(0, limbs) && given.AxisNamed(1, 1, values) &&
        given.Operand("b", "limbs values", 2, b) && given.Axis(0, limbs) && given.Axis(1, values) &&
        given.Operand("c", "limbs values", 2, c) && given.Axis(0, limbs) && given.Axis(1, values) &&
        given.Result("out", "limbs values", 2, out) && given.Axis(0, limbs) && given.Axis(1, values)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && given.Primes("moduli", moduli, 1, 0)))
    return false;
  return true;
}

bool MultiplyScalar::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(1) && given.Attribute("moduli", 1, moduli)))
    return false;
  limbs = SizeOf(moduli);
  if (!(given.Operand("a", "limbs values", 2, a) && given.Axis(0, limbs) && given.AxisNamed(1, 1, values) &&
        given.Operand("scalar", "limbs", 1, scalar) && given.Axis(0, limbs) &&
        given.Result("out", "limbs values", 2, out) && given.Axis(0, limbs) && given.Axis(1, values)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && given.Primes("moduli", moduli, 1, 0)))
    return false;
  return true;
}

bool WeightedSums::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(1) && given.Attribute("moduli", 1, moduli)))
    return false;
  limbs = SizeOf(moduli);
  if (!(given.Operand("x", "terms components limbs values", 4, x) && given.AxisNamed(0, 1, terms) &&
        given.AxisNamed(1, 1, components) && given.Axis(2, limbs) && given.AxisNamed(3, 1, values) &&
        given.Operand("weights", "sums limbs terms", 3, weights) && given.AxisNamed(0, 1, sums) &&
        given.Axis(1, limbs) && given.Axis(2, terms) && given.Result("out", "sums components limbs values", 4, out) &&
        given.Axis(0, sums) && given.Axis(1, components) && given.Axis(2, limbs) && given.Axis(3, values)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && given.Primes("moduli", moduli, 1, 0)))
    return false;
  return true;
}

bool Combination::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(2) && given.Attribute("moduli", 1, moduli) &&
        given.Attribute("products", 0, int64_t{4096}, products)))
    return false;
  limbs = SizeOf(moduli);
  const int64_t operands = given.operands();
  term_count = operands - 2 * products - 1;
  if (!given.Follow("xs", products)) return false;
  xs.resize(products);
  for (auto& each : xs) {
    if (!(given.Operand("xs", "2 limbs_of_x>=limbs values", 3, each) && given.Axis(0, 2) &&
          given.AxisAtLeast(1, limbs) && (values ? given.Axis(2, values) : given.AxisNamed(2, 1, values))))
      return false;
  }
  if (!given.Follow("ys", products)) return false;
  ys.resize(products);
  for (auto& each : ys) {
    if (!(given.Operand("ys", "2 limbs_of_y>=limbs values", 3, each) && given.Axis(0, 2) &&
          given.AxisAtLeast(1, limbs) && (values ? given.Axis(2, values) : given.AxisNamed(2, 1, values))))
      return false;
  }
  if (!given.Follow("terms", operands - 2 * products - 1)) return false;
  terms.resize(operands - 2 * products - 1);
  for (auto& each : terms) {
    if (!(given.Operand("terms", "components limbs_of_term>=limbs values", 3, each) &&
          (components ? given.Axis(0, components) : given.AxisNamed(0, 1, components)) &&
          given.AxisAtLeast(1, limbs) && (values ? given.Axis(2, values) : given.AxisNamed(2, 1, values))))
      return false;
  }
  if (!(given.Operand("weights", "numbers limbs", 2, weights) && given.AxisNamed(0, 0, numbers) &&
        given.Axis(1, limbs) && given.Result("out", "max(components,3*(products>0)) limbs values", 3, out) &&
        given.Axis(0, std::max<int64_t>(components, 3 * (products > 0))) && given.Axis(1, limbs) &&
        (values ? given.Axis(2, values) : given.AxisNamed(2, 1, values))))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) &&
        ((products > 0 || term_count > 0) || given.Refuse("needs products > 0 or term_count > 0")) &&
        ((term_count == 0 || components == 2 || components == 3) || given.Refuse("needs term_count == 0 or components == 2 or components == 3")) &&
        ((numbers == term_count || numbers == term_count + 1) || given.Refuse("needs numbers == term_count or numbers == term_count + 1")) &&
        given.Primes("moduli", moduli, 1, 0)))
    return false;
  return true;
}

bool Ntt::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(1) && given.Attribute("moduli", 1, moduli)))
    return false;
  limbs = SizeOf(moduli);
  if (!(given.Operand("x", "limbs N", 2, x) && given.Axis(0, limbs) && given.AxisNamed(1, 2, n) &&
        given.PowerOfTwo("N", 2, n) && given.Result("out", "limbs N", 2, out) && given.Axis(0, limbs) &&
        given.Axis(1, n)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && given.Primes("moduli", moduli, 2 * n, 0)))
    return false;
  return true;
}

bool InverseNtt::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(1) && given.Attribute("moduli", 1, moduli)))
    return false;
  limbs = SizeOf(moduli);
  if (!(given.Operand("x", "limbs N", 2, x) && given.Axis(0, limbs) && given.AxisNamed(1, 2, n) &&
        given.PowerOfTwo("N", 2, n) && given.Result("out", "limbs N", 2, out) && given.Axis(0, limbs) &&
        given.Axis(1, n)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && given.Primes("moduli", moduli, 2 * n, 0)))
    return false;
  return true;
}

bool Automorphism::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(1) && given.Attribute("element", 1, int64_t{2097152}, element) &&
        given.Operand("x", "limbs N", 2, x) && given.AxisNamed(0, 1, limbs) && given.AxisNamed(1, 2, n) &&
        given.PowerOfTwo("N", 2, n) && given.Result("out", "limbs N", 2, out) && given.Axis(0, limbs) &&
        given.Axis(1, n)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) &&
        ((element % 2 == 1 && element < 2 * n) || given.Refuse("element is not odd and below 2N"))))
    return false;
  return true;
}

bool SlotsToCoefficients::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(0) && given.Operand("z", "slots", 1, z) && given.AxisNamed(0, 1, slots) &&
        given.PowerOfTwo("slots", 1, slots) && given.Result("out", "N", 1, out) && given.AxisNamed(0, 2, n) &&
        given.PowerOfTwo("N", 2, n)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(with_workspace) && ((2 * slots <= n) || given.Refuse("needs 2 * slots <= N"))))
    return false;
  if (!with_workspace) return true;
  const int64_t z_entries = z.entries;
  Layout<1> layout;
  layout.Add(0, (slots > 2048) * 2 * z_entries * slots);
  if (!given.Workspace(layout.words, layout.base)) return false;
  workspace = {layout.At(0)};
  return true;
}

bool CoefficientsToSlots::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(0) && given.Operand("a", "N", 1, a) && given.AxisNamed(0, 2, n) &&
        given.PowerOfTwo("N", 2, n) && given.Result("out", "slots", 1, out) && given.AxisNamed(0, 1, slots) &&
        given.PowerOfTwo("slots", 1, slots)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && ((2 * slots <= n) || given.Refuse("needs 2 * slots <= N"))))
    return false;
  return true;
}

bool RoundToResidues::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(2) && given.Attribute("moduli", 1, moduli) && given.Attribute("scale", scale)))
    return false;
  limbs = SizeOf(moduli);
  if (!(given.Operand("a", "values", 1, a) && given.AxisNamed(0, 1, values) &&
        given.Result("out", "limbs values", 2, out) && given.Axis(0, limbs) && given.Axis(1, values)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && given.Primes("moduli", moduli, 1, 0)))
    return false;
  return true;
}

bool EncodeCoefficients::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(2) && given.Attribute("moduli", 1, moduli) && given.Attribute("scale", scale)))
    return false;
  limbs = SizeOf(moduli);
  if (!(given.Operand("a", "N", 1, a) && given.AxisNamed(0, 2, n) && given.PowerOfTwo("N", 2, n) &&
        given.Result("out", "limbs N", 2, out) && given.Axis(0, limbs) && given.Axis(1, n)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && given.Primes("moduli", moduli, 2 * n, 0)))
    return false;
  return true;
}

bool ResiduesToFloat::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(2) && given.Attribute("moduli", 1, moduli) && given.Attribute("places", places)))
    return false;
  limbs = SizeOf(moduli);
  if (!((places.size() == moduli.size() || given.Refuse("needs a place for each modulus")) &&
        given.Operand("x", "limbs values", 2, x) && given.Axis(0, limbs) && given.AxisNamed(1, 1, values) &&
        given.Result("out", "values", 1, out) && given.Axis(0, values)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && given.Primes("moduli", moduli, 1, 0) && given.Distinct({moduli})))
    return false;
  return true;
}

bool DecodeCoefficients::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(2) && given.Attribute("moduli", 1, moduli) && given.Attribute("places", places)))
    return false;
  limbs = SizeOf(moduli);
  if (!((places.size() == moduli.size() || given.Refuse("needs a place for each modulus")) &&
        given.Operand("x", "limbs N", 2, x) && given.Axis(0, limbs) && given.AxisNamed(1, 2, n) &&
        given.PowerOfTwo("N", 2, n) && given.Result("out", "N", 1, out) && given.Axis(0, n)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(with_workspace) && given.Primes("moduli", moduli, 2 * n, 0) && given.Distinct({moduli})))
    return false;
  if (!with_workspace) return true;
  const int64_t x_entries = x.entries;
  Layout<1> layout;
  layout.Add(0, x_entries * limbs * n);
  if (!given.Workspace(layout.words, layout.base)) return false;
  workspace = {layout.At(0)};
  return true;
}

bool ConvertBasis::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(2) && given.Attribute("source", 1, source) && given.Attribute("target", 1, target)))
    return false;
  sources = SizeOf(source);
  targets = SizeOf(target);
  if (!(given.Operand("x", "sources values", 2, x) && given.Axis(0, sources) && given.AxisNamed(1, 1, values) &&
        given.Result("out", "targets values", 2, out) && given.Axis(0, targets) && given.Axis(1, values)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && given.Primes("source", source, 1, 0) && given.Primes("target", target, 1, 0) &&
        given.Distinct({source})))
    return false;
  return true;
}

bool ModRaise::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(2) && given.Attribute("source", 1, source) && given.Attribute("more", 1, more)))
    return false;
  sources = SizeOf(source);
  added = SizeOf(more);
  if (!(given.Operand("x", "sources N", 2, x) && given.Axis(0, sources) && given.AxisNamed(1, 2, n) &&
        given.PowerOfTwo("N", 2, n) && given.Result("out", "sources+added N", 2, out) &&
        given.Axis(0, sources + added) && given.Axis(1, n)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(with_workspace) && given.Primes("source", source, 2 * n, 0) &&
        given.Primes("more", more, 2 * n, 0) && given.Distinct({source})))
    return false;
  if (!with_workspace) return true;
  const int64_t x_entries = x.entries;
  Layout<1> layout;
  layout.Add(0, x_entries * sources * n);
  if (!given.Workspace(layout.words, layout.base)) return false;
  workspace = {layout.At(0)};
  return true;
}

bool ModDown::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(2) && given.Attribute("keep", 1, keep) && given.Attribute("drop", 1, drop)))
    return false;
  kept = SizeOf(keep);
  dropped = SizeOf(drop);
  if (!(given.Operand("x", "kept+dropped N", 2, x) && given.Axis(0, kept + dropped) && given.AxisNamed(1, 2, n) &&
        given.PowerOfTwo("N", 2, n) && given.Result("out", "kept N", 2, out) && given.Axis(0, kept) &&
        given.Axis(1, n)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(with_workspace) && given.Primes("keep", keep, 2 * n, 0) &&
        given.Primes("drop", drop, 2 * n, 0) && given.Distinct({keep, drop})))
    return false;
  if (!with_workspace) return true;
  const int64_t x_entries = x.entries;
  Layout<2> layout;
  layout.Add(0, x_entries * kept * n);
  layout.Add(1, x_entries * dropped * n);
  if (!given.Workspace(layout.words, layout.base)) return false;
  workspace = {layout.At(0), layout.At(1)};
  return true;
}

bool InnerProduct::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(1) && given.Attribute("moduli", 1, moduli)))
    return false;
  limbs = SizeOf(moduli);
  if (!(given.Operand("digits", "terms limbs values", 3, digits) && given.AxisNamed(0, 1, terms) &&
        given.Axis(1, limbs) && given.AxisNamed(2, 1, values) &&
        given.Operand("key", "terms 2 limbs values", 4, key) && given.Axis(0, terms) && given.Axis(1, 2) &&
        given.Axis(2, limbs) && given.Axis(3, values) && given.Result("out", "2 limbs values", 3, out) &&
        given.Axis(0, 2) && given.Axis(1, limbs) && given.Axis(2, values)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && given.Primes("moduli", moduli, 1, 0)))
    return false;
  return true;
}

bool GadgetProduct::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(3) && given.Attribute("moduli", 1, moduli) && given.Attribute("special", 0, special) &&
        given.Attribute("digit_size", 1, int64_t{4096}, digit_size)))
    return false;
  limbs = SizeOf(moduli);
  specials = SizeOf(special);
  digits = Ceiling(limbs, digit_size);
  if (!(given.Operand("x", "limbs N", 2, x) && given.Axis(0, limbs) && given.AxisNamed(1, 2, n) &&
        given.PowerOfTwo("N", 2, n) && given.Key("key", digits, limbs + specials, n, key, seeds) &&
        given.Result("out", "2 limbs+specials N", 3, out) && given.Axis(0, 2) && given.Axis(1, limbs + specials) &&
        given.Axis(2, n)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(with_workspace) && given.Primes("moduli", moduli, 2 * n, 0) &&
        given.Primes("special", special, 2 * n, 0) && given.Distinct({moduli, special})))
    return false;
  if (!with_workspace) return true;
  const int64_t x_entries = x.entries;
  Layout<3> layout;
  layout.Add(0, x_entries * limbs * n);
  layout.Add(1, x_entries * digits * (limbs + specials) * n);
  layout.Add(2, seeds * digits * (limbs + specials) * n);
  if (!given.Workspace(layout.words, layout.base)) return false;
  workspace = {layout.At(0), layout.At(1), layout.At(2)};
  return true;
}

bool KeySwitch::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(3) && given.Attribute("moduli", 1, moduli) && given.Attribute("special", 1, special) &&
        given.Attribute("digit_size", 1, int64_t{4096}, digit_size)))
    return false;
  limbs = SizeOf(moduli);
  specials = SizeOf(special);
  digits = Ceiling(limbs, digit_size);
  if (!(given.Operand("x", "limbs N", 2, x) && given.Axis(0, limbs) && given.AxisNamed(1, 2, n) &&
        given.PowerOfTwo("N", 2, n) && given.Key("key", digits, limbs + specials, n, key, seeds) &&
        given.Result("out", "2 limbs N", 3, out) && given.Axis(0, 2) && given.Axis(1, limbs) && given.Axis(2, n)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(with_workspace) && given.Primes("moduli", moduli, 2 * n, 0) &&
        given.Primes("special", special, 2 * n, 0) && given.Distinct({moduli, special})))
    return false;
  if (!with_workspace) return true;
  const int64_t x_entries = x.entries;
  Layout<5> layout;
  layout.Add(0, x_entries * limbs * n);
  layout.Add(1, x_entries * digits * (limbs + specials) * n);
  layout.Add(2, 2 * batch * (limbs) * n, 0);
  layout.Add(3, seeds * digits * (limbs + specials) * n);
  layout.Add(4, 2 * batch * (limbs + specials) * n);
  if (!given.Workspace(layout.words, layout.base)) return false;
  workspace = {layout.At(0), layout.At(1), layout.At(2), layout.At(3), layout.At(4)};
  return true;
}

bool MultiplyCiphertexts::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(3) && given.Attribute("moduli", 2, moduli) && given.Attribute("special", 0, special) &&
        given.Attribute("digit_size", 1, int64_t{4096}, digit_size)))
    return false;
  limbs = SizeOf(moduli);
  specials = SizeOf(special);
  digits = Ceiling(limbs, digit_size);
  if (!(given.Operand("x", "2 limbs_of_x>=limbs N", 3, x) && given.Axis(0, 2) &&
        given.AxisNamed(1, limbs, limbs_of_x) && given.AxisNamed(2, 2, n) && given.PowerOfTwo("N", 2, n) &&
        given.Operand("y", "2 limbs_of_y>=limbs N", 3, y) && given.Axis(0, 2) &&
        given.AxisNamed(1, limbs, limbs_of_y) && given.Axis(2, n) &&
        given.Key("key", digits, limbs + specials, n, key, seeds) && given.Result("out", "2 limbs-1 N", 3, out) &&
        given.Axis(0, 2) && given.Axis(1, limbs - 1) && given.Axis(2, n)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(with_workspace) && given.Primes("moduli", moduli, 2 * n, 0) &&
        given.Primes("special", special, 2 * n, 0) && given.Distinct({moduli, special})))
    return false;
  if (!with_workspace) return true;
  Layout<5> layout;
  layout.Add(0, batch * limbs * n);
  layout.Add(1, batch * digits * (limbs + specials) * n);
  layout.Add(2, 2 * batch * (limbs - 1) * n, 0);
  layout.Add(3, seeds * digits * (limbs + specials) * n);
  layout.Add(4, 2 * batch * (limbs + specials) * n);
  if (!given.Workspace(layout.words, layout.base)) return false;
  workspace = {layout.At(0), layout.At(1), layout.At(2), layout.At(3), layout.At(4)};
  return true;
}

bool RelinearizeRescale::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(3) && given.Attribute("moduli", 2, moduli) && given.Attribute("special", 0, special) &&
        given.Attribute("digit_size", 1, int64_t{4096}, digit_size)))
    return false;
  limbs = SizeOf(moduli);
  specials = SizeOf(special);
  digits = Ceiling(limbs, digit_size);
  if (!(given.Operand("d", "3 limbs N", 3, d) && given.Axis(0, 3) && given.Axis(1, limbs) &&
        given.AxisNamed(2, 2, n) && given.PowerOfTwo("N", 2, n) &&
        given.Key("key", digits, limbs + specials, n, key, seeds) && given.Result("out", "2 limbs-1 N", 3, out) &&
        given.Axis(0, 2) && given.Axis(1, limbs - 1) && given.Axis(2, n)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(with_workspace) && given.Primes("moduli", moduli, 2 * n, 0) &&
        given.Primes("special", special, 2 * n, 0) && given.Distinct({moduli, special})))
    return false;
  if (!with_workspace) return true;
  const int64_t d_entries = d.entries;
  Layout<5> layout;
  layout.Add(0, d_entries * limbs * n);
  layout.Add(1, d_entries * digits * (limbs + specials) * n);
  layout.Add(2, 2 * batch * (limbs - 1) * n, 0);
  layout.Add(3, seeds * digits * (limbs + specials) * n);
  layout.Add(4, 2 * batch * (limbs + specials) * n);
  if (!given.Workspace(layout.words, layout.base)) return false;
  workspace = {layout.At(0), layout.At(1), layout.At(2), layout.At(3), layout.At(4)};
  return true;
}

bool HoistedRotations::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(4) && given.Attribute("moduli", 1, moduli) && given.Attribute("special", 1, special) &&
        given.Attribute("digit_size", 1, int64_t{4096}, digit_size) && given.Attribute("elements", 1, elements)))
    return false;
  limbs = SizeOf(moduli);
  specials = SizeOf(special);
  rotations = SizeOf(elements);
  switched = CountSwitched(elements);
  digits = Ceiling(limbs, digit_size);
  if (!(given.Operand("ciphertext", "2 limbs N", 3, ciphertext) && given.Axis(0, 2) && given.Axis(1, limbs) &&
        given.AxisNamed(2, 2, n) && given.PowerOfTwo("N", 2, n) && given.Follow("keys", rotations)))
    return false;
  keys.resize(rotations);
  for (auto& each : keys) {
    if (!given.Key("keys", digits, limbs + specials, n, each, seeds)) return false;
  }
  if (!given.Follow("out", rotations)) return false;
  out.resize(rotations);
  for (auto& each : out) {
    if (!(given.Result("out", "2 limbs N", 3, each) && given.Axis(0, 2) && given.Axis(1, limbs) && given.Axis(2, n)))
      return false;
  }
  batch = out[0].entries;
  if (!(given.AllTaken(with_workspace) && given.Primes("moduli", moduli, 2 * n, 0) &&
        given.Primes("special", special, 2 * n, 0) && given.Elements("elements", elements, n) &&
        given.Distinct({moduli, special})))
    return false;
  if (!with_workspace) return true;
  const int64_t ciphertext_entries = ciphertext.entries;
  Layout<5> layout;
  layout.Add(0, ciphertext_entries * limbs * n);
  layout.Add(1, ciphertext_entries * digits * (limbs + specials) * n);
  layout.Add(2, 2 * batch * (limbs) * n, rotations == 1 ? 0 : -1);
  layout.Add(3, seeds * digits * (limbs + specials) * n);
  layout.Add(4, 2 * batch * (limbs + specials) * n);
  if (!given.Workspace(layout.words, layout.base)) return false;
  workspace = {layout.At(0), layout.At(1), layout.At(2), layout.At(3), layout.At(4)};
  return true;
}

bool HoistedSums::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(8) && given.Attribute("moduli", 1, moduli) && given.Attribute("special", 0, special) &&
        given.Attribute("digit_size", 1, int64_t{4096}, digit_size) &&
        given.Attribute("inputs", 1, int64_t{4096}, inputs) && given.Attribute("sources", 1, sources) &&
        given.Attribute("elements", 1, elements) && given.Attribute("sizes", 1, sizes) &&
        given.Attribute("terms", 1, terms)))
    return false;
  limbs = SizeOf(moduli);
  specials = SizeOf(special);
  babies = SizeOf(sources);
  if (!(babies == SizeOf(elements) || given.Refuse("needs babies = SizeOf(elements)"))) return false;
  switched = CountSwitched(elements);
  sum_count = SizeOf(sizes);
  term_count = SizeOf(terms);
  digits = Ceiling(limbs, digit_size);
  if (!given.Follow("ciphertexts", inputs)) return false;
  ciphertexts.resize(inputs);
  for (auto& each : ciphertexts) {
    if (!(given.Operand("ciphertexts", "2 limbs N", 3, each) && given.Axis(0, 2) && given.Axis(1, limbs) &&
          (n ? given.Axis(2, n) : given.AxisNamed(2, 2, n)) && given.PowerOfTwo("N", 2, n)))
      return false;
  }
  if (!(given.Operand("plains", "term_count limbs+specials width", 3, plains) && given.Axis(0, term_count) &&
        given.Axis(1, limbs + specials) && given.AxisNamed(2, 1, width) && given.Follow("keys", switched)))
    return false;
  keys.resize(switched);
  for (auto& each : keys) {
    if (!given.Key("keys", digits, limbs + specials, n, each, seeds)) return false;
  }
  if (!given.Follow("out", sum_count)) return false;
  out.resize(sum_count);
  for (auto& each : out) {
    if (!(given.Result("out", "2 limbs+specials N", 3, each) && given.Axis(0, 2) && given.Axis(1, limbs + specials) &&
          (n ? given.Axis(2, n) : given.AxisNamed(2, 2, n)) && given.PowerOfTwo("N", 2, n)))
      return false;
  }
  batch = out[0].entries;
  if (!(given.AllTaken(with_workspace) && ((n % width == 0) || given.Refuse("needs N % width == 0")) &&
        given.Primes("moduli", moduli, 2 * n, 0) && given.Primes("special", special, 2 * n, 0) &&
        given.Below("sources", sources, 0, static_cast<uint64_t>(inputs)) &&
        given.Elements("elements", elements, n) && given.Below("sizes", sizes, 1, UINT32_MAX)))
    return false;
  int64_t total = 0;
  for (const uint64_t each : sizes) total += static_cast<int64_t>(each);
  if (!((term_count == total || given.Refuse("needs term_count = total")) &&
        given.Below("terms", terms, 0, static_cast<uint64_t>(babies)) && given.Distinct({moduli, special})))
    return false;
  if (!with_workspace) return true;
  int64_t ciphertexts_entries = 0;
  for (const auto& each : ciphertexts) ciphertexts_entries += each.entries;
  int64_t ciphertexts_most = 0;
  for (const auto& each : ciphertexts) ciphertexts_most = std::max(ciphertexts_most, each.entries);
  Layout<4> layout;
  layout.Add(0, ciphertexts_most * limbs * n);
  layout.Add(1, ciphertexts_entries * digits * (limbs + specials) * n);
  layout.Add(2, seeds * digits * (limbs + specials) * n);
  layout.Add(3, 2 * babies * batch * (limbs + specials) * n);
  if (!given.Workspace(layout.words, layout.base)) return false;
  workspace = {layout.At(0), layout.At(1), layout.At(2), layout.At(3)};
  return true;
}

bool AddRotation::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(4) && given.Attribute("moduli", 1, moduli) && given.Attribute("special", 1, special) &&
        given.Attribute("digit_size", 1, int64_t{4096}, digit_size) &&
        given.Attribute("element", 1, int64_t{2097152}, element)))
    return false;
  limbs = SizeOf(moduli);
  specials = SizeOf(special);
  digits = Ceiling(limbs, digit_size);
  if (!(given.Operand("total", "2 limbs+specials N", 3, total) && given.Axis(0, 2) &&
        given.Axis(1, limbs + specials) && given.AxisNamed(2, 2, n) && given.PowerOfTwo("N", 2, n) &&
        given.Operand("pair", "2 limbs+specials N", 3, pair) && given.Axis(0, 2) && given.Axis(1, limbs + specials) &&
        given.Axis(2, n) && given.Key("key", digits, limbs + specials, n, key, seeds) &&
        given.Result("out", "2 limbs+specials N", 3, out) && given.Axis(0, 2) && given.Axis(1, limbs + specials) &&
        given.Axis(2, n)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(with_workspace) && given.Primes("moduli", moduli, 2 * n, 0) &&
        given.Primes("special", special, 2 * n, 0) &&
        ((element % 2 == 1 && element < 2 * n) || given.Refuse("element is not odd and below 2N")) &&
        given.Distinct({moduli, special})))
    return false;
  if (!with_workspace) return true;
  const int64_t pair_entries = pair.entries;
  Layout<4> layout;
  layout.Add(0, pair_entries * limbs * n);
  layout.Add(1, pair_entries * digits * (limbs + specials) * n);
  layout.Add(2, seeds * digits * (limbs + specials) * n);
  layout.Add(3, pair_entries * limbs * n);
  if (!given.Workspace(layout.words, layout.base)) return false;
  workspace = {layout.At(0), layout.At(1), layout.At(2), layout.At(3)};
  return true;
}

bool Chacha20::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(0) && given.Operand("key", "8", 1, key) && given.Axis(0, 8) &&
        given.Operand("place", "count 4", 2, place) && given.AxisNamed(0, 0, count) && given.Axis(1, 4) &&
        given.Result("out", "count 16", 2, out) && given.Axis(0, count) && given.Axis(1, 16)))
    return false;
  batch = out.entries;
  if (!given.AllTaken(false)) return false;
  return true;
}

bool SampleUniform::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(1) && given.Attribute("moduli", 1, moduli)))
    return false;
  limbs = SizeOf(moduli);
  if (!(given.Operand("seeds", "8", 1, seeds) && given.Axis(0, 8) &&
        given.Result("out", "count limbs values", 3, out) && given.AxisNamed(0, 0, count) && given.Axis(1, limbs) &&
        given.AxisNamed(2, 1, values)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && given.Primes("moduli", moduli, 1, 0)))
    return false;
  return true;
}

bool SampleTernary::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(1) && given.Attribute("moduli", 1, moduli)))
    return false;
  limbs = SizeOf(moduli);
  if (!(given.Operand("seeds", "8", 1, seeds) && given.Axis(0, 8) &&
        given.Result("out", "count limbs values", 3, out) && given.AxisNamed(0, 0, count) && given.Axis(1, limbs) &&
        given.AxisNamed(2, 1, values)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && given.Primes("moduli", moduli, 1, 0)))
    return false;
  return true;
}

bool SampleGaussian::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(2) && given.Attribute("moduli", 1, moduli) && given.Attribute("thresholds", 2, thresholds)))
    return false;
  limbs = SizeOf(moduli);
  if (!(given.Operand("seeds", "8", 1, seeds) && given.Axis(0, 8) &&
        given.Result("out", "count limbs values", 3, out) && given.AxisNamed(0, 0, count) && given.Axis(1, limbs) &&
        given.AxisNamed(2, 1, values)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && (thresholds.size() % 2 == 0 || given.Refuse("needs thresholds of two words")) &&
        given.Primes("moduli", moduli, 1, SizeOf(thresholds) / 2)))
    return false;
  return true;
}

bool SampleSparseTernary::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(2) && given.Attribute("moduli", 1, moduli) &&
        given.Attribute("weight", 0, int64_t{2147483648}, weight)))
    return false;
  limbs = SizeOf(moduli);
  if (!(given.Operand("seeds", "8", 1, seeds) && given.Axis(0, 8) &&
        given.Result("out", "count limbs values", 3, out) && given.AxisNamed(0, 0, count) && given.Axis(1, limbs) &&
        given.AxisNamed(2, 1, values)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(with_workspace) && ((weight <= values) || given.Refuse("needs weight <= values")) &&
        given.Primes("moduli", moduli, 1, 0)))
    return false;
  if (!with_workspace) return true;
  const int64_t seeds_entries = seeds.entries;
  Layout<3> layout;
  layout.Add(0, seeds_entries * count * weight);
  layout.Add(1, seeds_entries * count * Ceiling(values, 2));
  layout.Add(2, seeds_entries * count * Ceiling(values, 4));
  if (!given.Workspace(layout.words, layout.base)) return false;
  workspace = {layout.At(0), layout.At(1), layout.At(2)};
  return true;
}

bool EncryptPublic::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(3) && given.Attribute("moduli", 1, moduli) && given.Attribute("special", 1, special) &&
        given.Attribute("thresholds", 2, thresholds)))
    return false;
  limbs = SizeOf(moduli);
  if (!((1 == SizeOf(special) || given.Refuse("needs 1 = SizeOf(special)")) &&
        given.Operand("seeds", "8", 1, seeds) && given.Axis(0, 8) &&
        given.Operand("key", "key_count 2 limbs_of_key>=limbs+1 N", 4, key) && given.AxisNamed(0, 0, key_count) &&
        given.Axis(1, 2) && given.AxisNamed(2, limbs + 1, limbs_of_key) && given.AxisNamed(3, 2, n) &&
        given.PowerOfTwo("N", 2, n) && given.Operand("message", "message_count limbs N", 3, message) &&
        given.AxisNamed(0, 0, message_count) && given.Axis(1, limbs) && given.Axis(2, n) &&
        given.Result("out", "count=broadcast(key_count,message_count) 2 limbs N", 4, out) &&
        given.Axis(0, Broadcast(key_count, message_count))))
    return false;
  count = Broadcast(key_count, message_count);
  if (!(given.Axis(1, 2) && given.Axis(2, limbs) && given.Axis(3, n)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(with_workspace) &&
        ((key_count == 1 || key_count == count) || given.Refuse("needs key_count == 1 or key_count == count")) &&
        ((message_count == 1 || message_count == count) || given.Refuse("needs message_count == 1 or message_count == count")) &&
        (thresholds.size() % 2 == 0 || given.Refuse("needs thresholds of two words")) &&
        given.Primes("moduli", moduli, 2 * n, SizeOf(thresholds) / 2) &&
        given.Primes("special", special, 2 * n, SizeOf(thresholds) / 2) && given.Distinct({moduli, special})))
    return false;
  if (!with_workspace) return true;
  Layout<4> layout;
  layout.Add(0, batch * count * limbs * n);
  layout.Add(1, 2 * batch * count * n);
  layout.Add(2, Ceiling(batch * count * n, 4));
  layout.Add(3, Ceiling(batch * count * n, 2));
  if (!given.Workspace(layout.words, layout.base)) return false;
  workspace = {layout.At(0), layout.At(1), layout.At(2), layout.At(3)};
  return true;
}

bool DecryptCoefficients::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(2) && given.Attribute("moduli", 1, moduli) && given.Attribute("places", places)))
    return false;
  limbs = SizeOf(moduli);
  if (!((places.size() == moduli.size() || given.Refuse("needs a place for each modulus")) &&
        given.Operand("data", "components limbs N", 3, data) && given.AxisNamed(0, 1, components) &&
        given.Axis(1, limbs) && given.AxisNamed(2, 2, n) && given.PowerOfTwo("N", 2, n) &&
        given.Operand("secret", "limbs_of_secret>=limbs N", 2, secret) &&
        given.AxisNamed(0, limbs, limbs_of_secret) && given.Axis(1, n) && given.Result("out", "N", 1, out) &&
        given.Axis(0, n)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(with_workspace) && given.Primes("moduli", moduli, 2 * n, 0) && given.Distinct({moduli})))
    return false;
  if (!with_workspace) return true;
  Layout<1> layout;
  layout.Add(0, batch * limbs * n);
  if (!given.Workspace(layout.words, layout.base)) return false;
  workspace = {layout.At(0)};
  return true;
}

bool SwitchingKey::Take(Given& given, [[maybe_unused]] bool with_workspace) {
  if (!(given.Attributes(5) && given.Attribute("moduli", 1, moduli) && given.Attribute("special", 0, special) &&
        given.Attribute("digit_size", 1, int64_t{4096}, digit_size) &&
        given.Attribute("seeded", 0, int64_t{1}, seeded) && given.Attribute("thresholds", 2, thresholds)))
    return false;
  limbs = SizeOf(moduli);
  specials = SizeOf(special);
  digits = Ceiling(limbs, digit_size);
  if (!(given.Operand("mask_seeds", "8", 1, mask_seeds) && given.Axis(0, 8) &&
        given.Operand("error_seeds", "8", 1, error_seeds) && given.Axis(0, 8) &&
        given.Operand("source", "limbs_of_source>=limbs+specials N", 2, source) &&
        given.AxisNamed(0, limbs + specials, limbs_of_source) && given.AxisNamed(1, 2, n) &&
        given.PowerOfTwo("N", 2, n) && given.Operand("target", "limbs_of_target>=limbs+specials N", 2, target) &&
        given.AxisNamed(0, limbs + specials, limbs_of_target) && given.Axis(1, n) &&
        given.Result("out", "digits 2|seeded limbs+specials N", 4 - (seeded != 0), out) && given.Axis(0, digits) &&
        (seeded || given.Axis(1, 2)) && given.Axis(2 - (seeded != 0), limbs + specials) &&
        given.Axis(1 + 2 - (seeded != 0), n)))
    return false;
  batch = out.entries;
  if (!(given.AllTaken(false) && (thresholds.size() % 2 == 0 || given.Refuse("needs thresholds of two words")) &&
        given.Primes("moduli", moduli, 2 * n, SizeOf(thresholds) / 2) &&
        given.Primes("special", special, 2 * n, SizeOf(thresholds) / 2) && given.Distinct({moduli, special})))
    return false;
  return true;
}

}  // namespace fhejax::handlers
