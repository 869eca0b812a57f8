// Hybrid key switching in pieces: what the handlers of key_switch.cc, multiply_ciphertexts.cc and rotations.cc share.
//
// With digits d_i of a polynomial and a key (b_i, a_i): INTT of all limbs; then, for the limbs that will be divided by,
// the digits modulo that limb (ModUp), their NTT and sum d_i (b_i, a_i); then for each other limb the same and its
// division (ModDown) at once, so that the product is never written out and the limb's twiddles are read once for both.
// Limbs go group by group. Several entries of a batch go through together and share twiddles and key.
#pragma once

#include <algorithm>
#include <vector>

#include "cpu/basis.h"
#include "cpu/sampling.h"

namespace fhejax {

// What a key switch of a polynomial with moduli q_0..q_l needs to know. Extended limbs are q_0..q_l, p_0..p_(k-1).
struct Plan {
  int64_t n, limbs, special, digit_size, digits;
  std::vector<uint64_t> extended;
  std::vector<const Modulus*> modulus;    // of each extended limb
  std::vector<const BasisTable*> mod_up;  // one a digit, to all extended limbs

  Plan(int64_t n, Moduli moduli, Moduli special, int64_t digit_size);
  template <typename Stated>
  explicit Plan(const Stated& in) : Plan(in.n, in.moduli, in.special, in.digit_size) {}

  int64_t extended_limbs() const { return limbs + special; }
  // Masks are drawn modulo the special primes first: see key_masks in fhejax/primitives/key_switch.py.
  int64_t mask_limb(int64_t limb) const { return limb < limbs ? special + limb : limb - limbs; }
  bool own(int64_t digit, int64_t limb) const { return limb < limbs && limb / digit_size == digit; }
};

// A key for the entries of a batch.
struct Key {
  const uint64_t* data;
  const uint32_t* seeds;  // of a seeded key
  int64_t digits, limbs;
  std::vector<int64_t> entry, seed_entry;  // for each entry of the batch

  Key(const KeyArgument& given, Shape batch)
      : data(given.residues.data),
        seeds(given.seeds.data),
        digits(given.digits()),
        limbs(given.limbs()),
        entry(EntriesOf(batch, given.residues)),
        seed_entry(given.seeded() ? EntriesOf(batch, given.seeds) : std::vector<int64_t>()) {}

  bool seeded() const { return seeds != nullptr; }
  const uint32_t* Seed(int64_t index) const { return seeds + 8 * seed_entry[index]; }
  const uint64_t* Row(const Plan& plan, int64_t index, int64_t digit, int64_t half, int64_t limb) const {
    const int64_t row = (entry[index] * digits + digit) * (seeded() ? 1 : 2) + half;
    return data + (row * limbs + (limb < plan.limbs ? limb : limbs - plan.extended_limbs() + limb)) * plan.n;
  }
};

// Calls each(first, entries) for the entries of a batch, as many at a time as share the cache.
template <typename Each>
void ForEntries(int64_t batch, int64_t n, const Each& each) {
  const int64_t together = std::clamp<int64_t>((int64_t{1} << 15) / n, 1, 8);
  for (int64_t first = 0; first < batch; first += together) each(first, std::min(together, batch - first));
}

// The digits of some polynomials: y[entry][limb] in coefficient form, and room for them modulo `group` extended limbs.
struct Digits {
  int64_t entries, group;
  uint64_t *y, *raised;

  static int64_t RaisedWords(const Plan& plan, int64_t entries, int64_t group) {
    return entries * plan.digits * group * plan.n;
  }
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
  ConvertBlocks(pool, plan.n, conversions, first, last, [&](int64_t index, int64_t limb) {
    const int64_t entry = index / plan.digits, digit = index % plan.digits;
    return plan.own(digit, limb) ? nullptr : digits.Row(plan, entry, digit, limb);
  });
}

// The rows of one extended limb that a product with a key reads besides the key and what is transformed:
// operands(entry, limb, rows) adds those of an entry, and digits that were raised before are among them.
template <typename Operands>
std::vector<const uint64_t*> OperandRows(const Plan& plan, const Digits& digits, bool raise, int64_t limb,
                                         const Operands& operands) {
  std::vector<const uint64_t*> rows;
  for (int64_t entry = 0; entry < digits.entries; ++entry) {
    if (limb < plan.limbs) operands(entry, limb, rows);
    for (int64_t d = 0; !raise && d < plan.digits; ++d)
      if (!plan.own(d, limb)) rows.push_back(digits.Row(plan, entry, d, limb));
  }
  return rows;
}

// The rows that Raise makes for one extended limb.
inline std::vector<uint64_t*> RaisedRows(const Plan& plan, const Digits& digits, int64_t limb) {
  std::vector<uint64_t*> rows;
  for (int64_t entry = 0; entry < digits.entries; ++entry)
    for (int64_t d = 0; d < plan.digits; ++d)
      if (!plan.own(d, limb)) rows.push_back(digits.Row(plan, entry, d, limb));
  return rows;
}

// Pairs of blocks whose products are summed, for both halves of a key.
struct Terms {
  std::vector<const uint64_t*> a[2], b[2];

  void Add(int64_t half, const uint64_t* x, const uint64_t* y) {
    a[half].push_back(x);
    b[half].push_back(y);
  }
  void Clear() {
    for (int64_t half = 0; half < 2; ++half) {
      a[half].clear();
      b[half].clear();
    }
  }
};

// A block of one limb of one entry, and memory of the task's own: kRoom blocks.
struct Block {
  int64_t entry, limb, offset, count;
  uint64_t* room;

  static constexpr int64_t kRoom = 3;
};

// What a task reads of the keys of a batch from entry `first` on. The second halves of seeded keys are drawn a block at
// a time, for all digits, and stay in the cache; entries with one key have them drawn once.
class KeyBlocks {
 public:
  KeyBlocks(const Plan& plan, const Key& key, int64_t first) : plan_(plan), key_(key), first_(first) {}

  const uint64_t* At(const Block& at, int64_t digit, int64_t half) {
    if (half == 0 || !key_.seeded()) return key_.Row(plan_, first_ + at.entry, digit, half, at.limb) + at.offset;
    const uint32_t* const seed = key_.Seed(first_ + at.entry);
    if (seed != seed_ || at.limb != limb_ || at.offset != offset_) Draw(at, seed);
    return masks_ + digit * at.count;
  }

  // The rows that lie in memory, of the first entry's key.
  std::vector<const uint64_t*> Stored(int64_t limb, int64_t offset) const {
    std::vector<const uint64_t*> rows;
    for (int64_t d = 0; d < plan_.digits; ++d)
      for (int64_t half = 0; half < (key_.seeded() ? 1 : 2); ++half)
        rows.push_back(key_.Row(plan_, first_, d, half, limb) + offset);
    return rows;
  }

 private:
  void Draw(const Block& at, const uint32_t* seed) {
    static_assert(2 * kBlock <= kPiece);
    seed_ = seed, limb_ = at.limb, offset_ = at.offset;
    masks_ = TaskScratch<1>(plan_.digits * at.count);
    const CodingModulus& q = CodingModulusFor(plan_.extended[at.limb]);
    const auto limb = static_cast<uint32_t>(plan_.mask_limb(at.limb));
    for (int64_t d = 0; d < plan_.digits; ++d)
      DrawUniform({seed, {kUniform, static_cast<uint32_t>(d), limb}}, at.offset, at.count, q, masks_ + d * at.count);
  }

  const Plan& plan_;
  const Key& key_;
  int64_t first_, limb_ = -1, offset_ = -1;
  const uint32_t* seed_ = nullptr;
  uint64_t* masks_ = nullptr;
};

// out[half] = sum over digits of digit * key, for a block of one extended limb. own(block) points at the polynomial
// itself, in NTT form; extra(block, terms) may add terms. Both may use the block's room.
template <typename Own, typename Extra>
void MultiplyBlock(const Plan& plan, const Digits& digits, const Block& at, KeyBlocks& key, const Own& own,
                   const Extra& extra, uint64_t* const* out) {
  thread_local Terms terms;  // its memory is kept from block to block
  terms.Clear();
  for (int64_t d = 0; d < plan.digits; ++d) {
    const uint64_t* const x = plan.own(d, at.limb) ? own(at) : digits.Row(plan, at.entry, d, at.limb) + at.offset;
    for (int64_t half = 0; half < 2; ++half) terms.Add(half, x, key.At(at, d, half));
  }
  extra(at, terms);
  for (int64_t half = 0; half < 2; ++half)
    ActiveKernels().inner_product(terms.a[half].data(), terms.b[half].data(),
                                  static_cast<int64_t>(terms.a[half].size()), out[half], at.count,
                                  *plan.modulus[at.limb]);
}

inline int64_t RoomWords(const Plan& plan) { return Block::kRoom * std::min(plan.n, 2 * kBlock); }

// Ends the transform of `rows`, those of one limb, part by part, and calls each(block) for the blocks of a part, entry
// by entry, so that a block of the key is read once for all. The parts of the key's rows and of `operands`, others that
// the blocks read, are fetched while the part of `rows` is transformed.
template <typename Each>
void TransformByParts(const Plan& plan, int64_t entries, int64_t limb, const std::vector<uint64_t*>& rows,
                      const std::vector<const uint64_t*>& operands, uint64_t* room, const KeyBlocks& key,
                      const Each& each) {
  const NttTable& table = NttTableFor(plan.n, plan.extended[limb]);
  const auto count = static_cast<int64_t>(rows.size());
  if (count) ActiveKernels().forward_head(rows.data(), count, table);
  const int64_t size = PartOf(plan.n), block = std::min(size, 2 * kBlock);
  for (int64_t part = 0; part < plan.n / size; ++part) {
    auto ahead = key.Stored(limb, part * size);
    for (const uint64_t* const row : operands) ahead.push_back(row + part * size);
    if (count)
      ActiveKernels().forward_tail(rows.data(), count, part, table,
                                   {ahead.data(), static_cast<int64_t>(ahead.size()), size});
    for (int64_t offset = part * size; offset < (part + 1) * size; offset += block)
      for (int64_t entry = 0; entry < entries; ++entry) each(Block{entry, limb, offset, block, room});
  }
}

// product(entry, half, limb) is a row for the product, for each of the extended limbs first .. last - 1; `raise` says
// that the digits are still to be raised to them.
template <typename Operands, typename Own, typename Extra, typename Product>
void MultiplyByKey(ffi::ThreadPool& pool, const Plan& plan, const Digits& digits, bool raise, int64_t first,
                   int64_t last, const KeyBlocks& keys, const Operands& operands, const Own& own, const Extra& extra,
                   const Product& product) {
  for (int64_t begin = first; begin < last; begin += digits.group) {
    const int64_t end = std::min(last, begin + digits.group);
    if (raise) Raise(pool, plan, digits, begin, end);
    ParallelFor(pool, end - begin, [&](int64_t task) {
      const int64_t limb = begin + task;
      const auto rows = raise ? RaisedRows(plan, digits, limb) : std::vector<uint64_t*>();
      KeyBlocks key = keys;
      const auto others = OperandRows(plan, digits, raise, limb, operands);
      uint64_t* const room = TaskScratch(RoomWords(plan));
      TransformByParts(plan, digits.entries, limb, rows, others, room, key, [&](const Block& at) {
        uint64_t* const out[] = {product(at.entry, 0, limb) + at.offset, product(at.entry, 1, limb) + at.offset};
        MultiplyBlock(plan, digits, at, key, own, extra, out);
      });
    });
  }
}

// Memory of a key switch that ends with a division: dropped limbs of the product, and what kept ones are lessened by.
struct Division {
  int64_t kept, group;
  uint64_t *dropped, *lifts;

  uint64_t* Dropped(const Plan& plan, int64_t i, int64_t limb) const {
    return dropped + (i * (plan.extended_limbs() - kept) + limb - kept) * plan.n;
  }
  uint64_t* Lift(const Plan& plan, int64_t i, int64_t limb) const {
    return lifts + (i * group + limb % group) * plan.n;
  }
};

// The key switch with its division by the product of the extended limbs kept, kept + 1, ..: their part of the product
// first, then each kept limb from ModUp to the end, while it is in the cache. finish(block, u, lift, w) gets both
// halves of a block of the product and of what is subtracted from it before w divides; with kWholeRows a block is a
// row.
template <bool kWholeRows, typename Operands, typename Own, typename Extra, typename Finish>
void SwitchAndDivide(ffi::ThreadPool& pool, const Plan& plan, const Digits& digits, bool raise,
                     const Division& division, const KeyBlocks& keys, const Operands& operands, const Own& own,
                     const Extra& extra, const Finish& finish) {
  const int64_t n = plan.n, kept = division.kept, extended = plan.extended_limbs(), polys = 2 * digits.entries;
  const auto middle = plan.extended.begin() + kept;
  const BasisTable& table = BasisTableFor({middle, plan.extended.end()}, {plan.extended.begin(), middle});
  MultiplyByKey(pool, plan, digits, raise, kept, extended, keys, operands, own, extra,
                [&](int64_t entry, int64_t half, int64_t limb) {
                  return division.Dropped(plan, 2 * entry + half, limb);
                });
  const auto row = [&](int64_t limb, int64_t i) { return division.Dropped(plan, i, kept + limb); };
  ToCoefficients(
      pool, n, extended - kept, polys, [&](int64_t limb) -> const SourceLimb& { return table.source[limb]; }, row, row);
  std::vector<Conversion> conversions(polys);
  for (int64_t i = 0; i < polys; ++i) conversions[i] = {&table, division.Dropped(plan, i, kept)};

  const int64_t group = std::min(digits.group, division.group);
  for (int64_t begin = 0; begin < kept; begin += group) {
    const int64_t end = std::min(kept, begin + group);
    if (raise) Raise(pool, plan, digits, begin, end);
    ConvertBlocks(pool, n, conversions, begin, end,
                  [&](int64_t i, int64_t limb) { return division.Lift(plan, i, limb); });
    ParallelFor(pool, end - begin, [&](int64_t task) {
      const int64_t limb = begin + task, block = kWholeRows ? n : std::min(n, 2 * kBlock);
      auto rows = raise ? RaisedRows(plan, digits, limb) : std::vector<uint64_t*>();
      for (int64_t i = 0; i < polys; ++i) rows.push_back(division.Lift(plan, i, limb));
      uint64_t* const room = TaskScratch(RoomWords(plan) + 2 * digits.entries * block);
      uint64_t* const u = room + RoomWords(plan);
      const auto finish_block = [&](Block at) {
        uint64_t* const product[] = {u + 2 * at.entry * block, u + (2 * at.entry + 1) * block};
        uint64_t* const lift[] = {division.Lift(plan, 2 * at.entry, limb) + at.offset,
                                  division.Lift(plan, 2 * at.entry + 1, limb) + at.offset};
        finish(at, product, lift, table.inverse_product[limb]);
      };
      KeyBlocks key = keys;
      const auto others = OperandRows(plan, digits, raise, limb, operands);
      TransformByParts(plan, digits.entries, limb, rows, others, room, key, [&](const Block& at) {
        uint64_t* const first = u + 2 * at.entry * block + (kWholeRows ? at.offset : 0);
        uint64_t* const out[] = {first, first + block};
        MultiplyBlock(plan, digits, at, key, own, extra, out);
        if (!kWholeRows) finish_block(at);
      });
      for (int64_t entry = 0; kWholeRows && entry < digits.entries; ++entry) finish_block({entry, limb, 0, n, room});
    });
  }
}

// For SwitchAndDivide: writes both halves, divided, into u64[entries, 2, kept, N].
inline auto QuotientInto(const Plan& plan, int64_t kept, uint64_t* out) {
  return [&plan, kept, out](const Block& at, uint64_t* const* u, uint64_t* const* lift, Factor w) {
    for (int64_t half = 0; half < 2; ++half)
      ActiveKernels().subtract_multiply(u[half], lift[half], w,
                                        out + ((2 * at.entry + half) * kept + at.limb) * plan.n + at.offset, at.count,
                                        *plan.modulus[at.limb]);
  };
}

// How many extended limbs a group takes.
inline int64_t DigitGroup(ffi::ThreadPool& pool, const Plan& plan, int64_t entries) {
  return GroupSize(pool, plan.extended_limbs(), entries * plan.digits, plan.n);
}

// What SwitchAndDivide works in. With `all`, the raised digits of all extended limbs are kept, for several keys.
struct SwitchMemory {
  const int64_t group, lift_group, y_words, raised_words, dropped_words;
  const Scratch scratch;
  const Digits digits;
  const Division division;

  SwitchMemory(ffi::ThreadPool& pool, const Plan& plan, int64_t entries, int64_t kept, bool all)
      : group(all ? plan.extended_limbs() : DigitGroup(pool, plan, entries)),
        lift_group(std::min(kept, DigitGroup(pool, plan, entries))),
        y_words(entries * plan.limbs * plan.n),
        raised_words(Digits::RaisedWords(plan, entries, group)),
        dropped_words(2 * entries * (plan.extended_limbs() - kept) * plan.n),
        scratch(y_words + raised_words + dropped_words + 2 * entries * lift_group * plan.n),
        digits{entries, group, scratch.get(), scratch.get() + y_words},
        division{kept, lift_group, digits.raised + raised_words, digits.raised + raised_words + dropped_words} {}
};

}  // namespace fhejax
