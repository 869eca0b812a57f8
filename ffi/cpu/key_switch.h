// Hybrid key switching in pieces: what the handlers of key_switch.cc, multiply_ciphertexts.cc and rotations.cc share.
//
// With digits d_i of a polynomial and a key (b_i, a_i): INTT of all limbs, then group by group of extended limbs the
// digits modulo that limb (ModUp), their NTT and sum d_i (b_i, a_i), and last ModDown. Several entries of a batch go
// through together, so that a limb's twiddles and its part of the key are read once for all of them.
#pragma once

#include <algorithm>
#include <vector>

#include "cpu/basis.h"

namespace fhejax {

// What a key switch of a polynomial with moduli q_0..q_l needs to know. Extended limbs are q_0..q_l, p_0..p_(k-1).
struct Plan {
  int64_t n, limbs, special, digit_size, digits, key_digits, key_limbs;
  std::vector<uint64_t> moduli, special_moduli, extended;
  std::vector<const BasisTable*> mod_up;  // one a digit, to all extended limbs

  int64_t extended_limbs() const { return limbs + special; }
  int64_t key_limb(int64_t limb) const { return limb < limbs ? limb : key_limbs - special + limb - limbs; }
  bool own(int64_t digit, int64_t limb) const { return limb < limbs && limb / digit_size == digit; }
  int64_t key_words() const { return key_digits * 2 * key_limbs * n; }
};

// For a polynomial [*batch, limbs, N] and a key [*batch, digits, 2, limbs(QP), N], by their shapes.
ffi::Error MakePlan(const Dimensions& x, const Dimensions& key, Moduli moduli, Moduli special, int64_t digit_size,
                    Plan& plan);

// How many entries of a batch go through a key switch together.
inline int64_t EntriesTogether(int64_t n) { return std::clamp<int64_t>((int64_t{1} << 16) / n, 1, 8); }

// Calls each(first, entries) for the entries of a batch, so many at a time.
template <typename Each>
void ForEntries(int64_t batch, int64_t n, const Each& each) {
  const int64_t together = EntriesTogether(n);
  for (int64_t first = 0; first < batch; first += together) each(first, std::min(together, batch - first));
}

// The digits of some polynomials: y[entry][limb] in coefficient form, and room for them modulo `group` extended limbs.
struct Digits {
  int64_t entries, group;
  uint64_t *y, *raised;

  static int64_t RaisedRows(const Plan& plan, int64_t entries, int64_t group) { return entries * plan.digits * group; }
  uint64_t* Row(const Plan& plan, int64_t entry, int64_t digit, int64_t limb) const {
    return raised + ((entry * plan.digits + digit) * group + limb % group) * plan.n;
  }
};

// y from the limbs of the polynomials: from(limb, entry) points at a row in NTT form.
template <typename From>
void Decompose(ffi::ThreadPool& pool, const Plan& plan, const Digits& digits, const From& from) {
  const auto source = [&](int64_t limb) -> const SourceLimb& {
    return plan.mod_up[limb / plan.digit_size]->source[limb % plan.digit_size];
  };
  ToCoefficients(pool, plan.n, plan.limbs, digits.entries, source, from, [&](int64_t limb, int64_t entry) {
    return digits.y + (entry * plan.limbs + limb) * plan.n;
  });
}

// ModUp to the extended limbs first .. last - 1, in coefficient form; not to a digit's own limbs.
inline void Raise(ffi::ThreadPool& pool, const Plan& plan, const Digits& digits, int64_t first, int64_t last) {
  std::vector<Conversion> conversions;
  for (int64_t entry = 0; entry < digits.entries; ++entry)
    for (int64_t d = 0; d < plan.digits; ++d)
      conversions.push_back({plan.mod_up[d], digits.y + (entry * plan.limbs + d * plan.digit_size) * plan.n});
  ConvertBlocks(pool, plan.n, conversions, plan.extended, first, last, [&](int64_t index, int64_t limb) {
    const int64_t entry = index / plan.digits, digit = index % plan.digits;
    return plan.own(digit, limb) ? nullptr : digits.Row(plan, entry, digit, limb);
  });
}

// The raised digits modulo one extended limb, to NTT form.
inline void TransformLimb(const Plan& plan, const Digits& digits, int64_t limb) {
  std::vector<uint64_t*> rows;
  for (int64_t entry = 0; entry < digits.entries; ++entry)
    for (int64_t d = 0; d < plan.digits; ++d)
      if (!plan.own(d, limb)) rows.push_back(digits.Row(plan, entry, d, limb));
  ActiveKernels().forward_ntt(rows.data(), rows.data(), static_cast<int64_t>(rows.size()),
                              NttTableFor(plan.n, plan.extended[limb]));
}

// Pairs of blocks whose products are summed, for both halves of a key.
struct Terms {
  std::vector<const uint64_t*> a[2], b[2];

  void Add(int64_t half, const uint64_t* x, const uint64_t* y) {
    a[half].push_back(x);
    b[half].push_back(y);
  }
};

// product(entry, half)[limb] = sum over digits of digit * key, for one extended limb. own(entry, limb, offset, count)
// points at a block of the polynomial itself, in NTT form; extra(entry, limb, offset, count, terms) may add terms.
template <typename Key, typename Own, typename Extra, typename Product>
void MultiplyLimb(const Plan& plan, const Digits& digits, int64_t limb, const Key& key, const Own& own,
                  const Extra& extra, const Product& product) {
  const Modulus& q = ModulusFor(plan.extended[limb]);
  const int64_t block = std::min(plan.n, 2 * kBlock);
  for (int64_t offset = 0; offset < plan.n; offset += block)
    for (int64_t entry = 0; entry < digits.entries; ++entry) {
      Terms terms;
      for (int64_t d = 0; d < plan.digits; ++d) {
        const uint64_t* const x = plan.own(d, limb) ? own(entry, limb, offset, block)
                                                    : digits.Row(plan, entry, d, limb) + offset;
        for (int64_t half = 0; half < 2; ++half)
          terms.Add(half, x, key(entry) + ((2 * d + half) * plan.key_limbs + plan.key_limb(limb)) * plan.n + offset);
      }
      extra(entry, limb, offset, block, terms);
      for (int64_t half = 0; half < 2; ++half)
        ActiveKernels().inner_product(terms.a[half].data(), terms.b[half].data(),
                                      static_cast<int64_t>(terms.a[half].size()),
                                      product(entry, half) + limb * plan.n + offset, block, q);
    }
}

// All extended limbs of the product, group by group.
template <typename Key, typename Own, typename Extra, typename Product>
void MultiplyByKey(ffi::ThreadPool& pool, const Plan& plan, const Digits& digits, const Key& key, const Own& own,
                   const Extra& extra, const Product& product) {
  for (int64_t first = 0; first < plan.extended_limbs(); first += digits.group) {
    const int64_t last = std::min(plan.extended_limbs(), first + digits.group);
    Raise(pool, plan, digits, first, last);
    ParallelFor(pool, last - first, [&](int64_t task) {
      TransformLimb(plan, digits, first + task);
      MultiplyLimb(plan, digits, first + task, key, own, extra, product);
    });
  }
}

// How many extended limbs a group takes.
inline int64_t DigitGroup(ffi::ThreadPool& pool, const Plan& plan, int64_t entries) {
  return GroupSize(pool, plan.extended_limbs(), entries * plan.digits, plan.n);
}

}  // namespace fhejax
