// Sums of plaintexts times rotations of ciphertexts, modulo QP and times P: one ModUp, and no ModDown. For a block of
// one limb, all rotations first, and then every sum of them.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "cpu/handlers.h"
#include "cpu/linear.h"

namespace fhejax {
namespace {

constexpr uint64_t kIdentity = 1;  // the galois element of no rotation

// An operand of residues, and its entry for each entry of the batch.
struct Residues {
  const uint64_t* data;
  std::vector<int64_t> entry;

  Residues(const Argument<const uint64_t>& given, Shape batch) : data(given.data), entry(EntriesOf(batch, given)) {}
};

// A rotation of one of the ciphertexts; without a key, the ciphertext itself.
struct Baby {
  int64_t input;
  const Switch* rotation;
};

// A sum: for each of its terms a baby and the plaintext that multiplies it.
struct Sum {
  std::vector<int64_t> babies, plains;
  uint64_t* out;
};

struct Job {
  Plan plan;
  std::vector<Residues> ciphertexts;
  Residues plains;
  int64_t width;  // of a plaintext's row: each value stands for n / width in a row
  std::vector<std::unique_ptr<Switch>> switches;
  std::vector<Baby> babies;
  std::vector<Sum> sums;
  int64_t terms;

  explicit Job(const handlers::HoistedSums& in)
      : plan(in), plains(in.plains, in.out[0].batch()), width(in.width), terms(in.term_count) {
    for (const auto& each : in.ciphertexts) ciphertexts.emplace_back(each, in.out[0].batch());
    MakeBabies(in);
    MakeSums(in);
  }

 private:
  // One key for each element that is not the identity, in the order of first use.
  void MakeBabies(const handlers::HoistedSums& in) {
    std::vector<uint64_t> made;
    for (int64_t b = 0; b < in.babies; ++b) {
      const uint64_t element = in.elements[b];
      const auto found = std::find(made.begin(), made.end(), element) - made.begin();
      if (element != kIdentity && found == static_cast<int64_t>(made.size())) {
        made.push_back(element);
        switches.push_back(std::make_unique<Switch>(Key(in.keys[found], in.out[0].batch()), plan.n,
                                                    static_cast<int64_t>(element)));
      }
      babies.push_back({static_cast<int64_t>(in.sources[b]), element == kIdentity ? nullptr : switches[found].get()});
    }
  }

  void MakeSums(const handlers::HoistedSums& in) {
    int64_t next = 0;
    for (int64_t s = 0; s < in.sum_count; ++s) {
      PrepareResult(in.out[s]);
      sums.push_back({{}, {}, in.out[s].data});
      for (uint64_t t = 0; t < in.sizes[s]; ++t, ++next) {
        sums.back().babies.push_back(static_cast<int64_t>(in.terms[next]));
        sums.back().plains.push_back(next);
      }
    }
  }
};

// The sums of one entry of the batch.
class SumEntry {
 public:
  SumEntry(const Job& job, int64_t entry)
      : job_(job),
        plan_(job.plan),
        entry_(entry),
        block_(std::min(plan_.n, kWide)),
        babies_(static_cast<int64_t>(job.babies.size())),
        digits_at_(job.ciphertexts.size(), -1),
        memory_(DigitsOfAll()) {}

  void Run(ffi::ThreadPool& pool) const {
    for (size_t i = 0; i < digits_at_.size(); ++i)
      if (digits_at_[i] >= 0) RaiseAll(pool, plan_, DigitsOf(i), [&](int64_t limb) { return Row(i, 1, limb); });
    const int64_t blocks = plan_.n / block_;
    ParallelFor(pool, plan_.extended_limbs() * blocks, [&](int64_t task) { Sum(task / blocks, task % blocks); });
  }

 private:
  // A block of one limb of every sum.
  void Sum(int64_t limb, int64_t number) const {
    const int64_t run = plan_.n / job_.width, sums = static_cast<int64_t>(job_.sums.size());
    // Sums of rows times numbers take every rotation for every sum.
    const bool by_runs = run >= kLeastRun && run <= block_ && 2 * job_.terms >= sums * babies_;
    const int64_t factors = by_runs ? block_ / run * sums * babies_ : 0;
    uint64_t* const rotated = TaskScratch<2>((2 * babies_ + 1) * block_ + factors);
    Rotate(limb, number, rotated);
    if (by_runs)
      SumRuns(limb, number, rotated, run);
    else
      SumRows(limb, number, rotated, run);
  }

  // Every rotation: (P c0 + u0, u1), permuted.
  void Rotate(int64_t limb, int64_t number, uint64_t* rotated) const {
    const bool special = limb >= plan_.limbs;
    const Modulus& q = *plan_.modulus[limb];
    const uint64_t factor = special ? 0 : ProductModulo(plan_.extended, plan_.limbs, q);
    for (int64_t b = 0; b < babies_; ++b) {
      const Baby& baby = job_.babies[b];
      uint64_t* const out[] = {rotated + 2 * b * block_, rotated + (2 * b + 1) * block_};
      if (b + 1 < babies_ && job_.babies[b + 1].rotation) {
        const Switch& next = *job_.babies[b + 1].rotation;
        FetchAhead(next, KeyBlocks(plan_, next.key, entry_), limb, number);
      }
      if (baby.rotation) {
        KeyBlocks key(plan_, baby.rotation->key, entry_);
        RotateBlock(plan_, *baby.rotation, DigitsOf(baby.input), key, limb, number,
                    special ? nullptr : Row(baby.input, 1, limb), special ? nullptr : Row(baby.input, 0, limb), factor,
                    out);
        continue;
      }
      for (int64_t half = 0; half < 2; ++half) {
        if (special)
          std::fill_n(out[half], block_, 0);
        else
          ActiveKernels().multiply_factor(Row(baby.input, half, limb) + number * block_, MakeFactor(factor, q.value),
                                          out[half], block_, q);
      }
    }
  }

  // With a plaintext's value for each position, or for a few.
  void SumRows(int64_t limb, int64_t number, const uint64_t* rotated, int64_t run) const {
    const int64_t offset = number * block_;
    std::vector<const uint64_t*> a, b;
    for (const auto& sum : job_.sums) {
      const auto terms = static_cast<int64_t>(sum.babies.size());
      uint64_t* const room = run > 1 ? TaskScratch<4>(terms * block_) : nullptr;
      const int64_t step = std::min(run, block_);
      b.clear();
      for (int64_t t = 0; t < terms; ++t) {
        const uint64_t* const plain = Plain(sum.plains[t], limb);
        for (int64_t i = 0; run > 1 && i < block_; i += step)
          std::fill_n(room + t * block_ + i, step, plain[(offset + i) / run]);
        b.push_back(run > 1 ? room + t * block_ : plain + offset);
      }
      for (int64_t half = 0; half < 2; ++half) {
        a.clear();
        for (const int64_t baby : sum.babies) a.push_back(rotated + (2 * baby + half) * block_);
        ActiveKernels().inner_product(a.data(), b.data(), terms, Out(sum, half, limb) + offset, block_,
                                      *plan_.modulus[limb]);
      }
    }
  }

  // With one value for many positions in a row: sums of rows times numbers, of several sums at once.
  void SumRuns(int64_t limb, int64_t number, uint64_t* rotated, int64_t run) const {
    const int64_t offset = number * block_, runs = block_ / run;
    const auto sums = static_cast<int64_t>(job_.sums.size()), row = sums * babies_;
    const Modulus& q = *plan_.modulus[limb];
    uint64_t* const zeros = rotated + 2 * babies_ * block_;
    uint64_t* const factors = zeros + block_;  // zero where a sum has no such term
    std::fill_n(zeros, block_ + runs * row, 0);
    for (int64_t s = 0; s < sums; ++s)
      for (size_t t = 0; t < job_.sums[s].babies.size(); ++t) {
        const uint64_t* const plain = Plain(job_.sums[s].plains[t], limb) + offset / run;
        // They lie far apart, where no stream of the processor finds them.
        const int64_t ahead = std::min(job_.sums[s].plains[t] + kPlainsAhead, job_.terms - 1);
        for (int64_t r = 0; r < runs; r += kLine) __builtin_prefetch(Plain(ahead, limb) + offset / run + r);
        for (int64_t r = 0; r < runs; ++r) factors[r * row + s * babies_ + job_.sums[s].babies[t]] = plain[r];
      }
    // Values of one run side by side: rows of rotations lie a power of two apart, and would all fall into the same few
    // lines of the cache.
    const int64_t pitch = run + kLine;
    uint64_t* const packed = TaskScratch<4>(babies_ * pitch);
    std::vector<const uint64_t*> y(babies_);
    for (int64_t b = 0; b < babies_; ++b) y[b] = packed + b * pitch;
    // The rotations that any of a few sums takes, from the first one to before the last.
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (int64_t s = 0; s < sums; ++s) {
      const auto [least, most] = std::minmax_element(job_.sums[s].babies.begin(), job_.sums[s].babies.end());
      if (s % kTogether == 0) taken.emplace_back(*least, *most + 1);
      taken.back() = {std::min(taken.back().first, *least), std::max(taken.back().second, *most + 1)};
    }
    std::vector<ConversionTarget> targets(kTogether);
    for (int64_t half = 0; half < 2; ++half)
      for (int64_t r = 0; r < runs; ++r) {
        for (int64_t b = 0; b < babies_; ++b)
          std::copy_n(rotated + (2 * b + half) * block_ + r * run, run, packed + b * pitch);
        for (int64_t s = 0; s < sums; s += kTogether) {
          const int64_t count = std::min(kTogether, sums - s);
          const auto [first, last] = taken[s / kTogether];
          for (int64_t i = 0; i < count; ++i)
            targets[i] = {factors + r * row + (s + i) * babies_ + first, 0, &q,
                          Out(job_.sums[s + i], half, limb) + offset + r * run};
          ActiveKernels().combine(y.data() + first, zeros, last - first, targets.data(), count, run,
                                  q.value < uint64_t{1} << 50);
        }
      }
  }

  const uint64_t* Row(size_t input, int64_t half, int64_t limb) const {
    const Residues& c = job_.ciphertexts[input];
    return c.data + ((2 * c.entry[entry_] + half) * plan_.limbs + limb) * plan_.n;
  }

  const uint64_t* Plain(int64_t term, int64_t limb) const {
    const int64_t row = job_.plains.entry[entry_] * job_.terms + term;
    return job_.plains.data + (row * plan_.extended_limbs() + limb) * job_.width;
  }

  template <typename OneSum>
  uint64_t* Out(const OneSum& sum, int64_t half, int64_t limb) const {
    return sum.out + ((2 * entry_ + half) * plan_.extended_limbs() + limb) * plan_.n;
  }

  Digits DigitsOf(size_t input) const { return DigitsAt(plan_, memory_.get() + digits_at_[input]); }

  // Places them, those of the ciphertexts that are rotated; returns how many words they take.
  int64_t DigitsOfAll() {
    int64_t words = 0;
    for (const Baby& baby : job_.babies)
      if (baby.rotation && digits_at_[baby.input] < 0) {
        digits_at_[baby.input] = words;
        words += DigitWords(plan_);
      }
    return words;
  }

  static constexpr int64_t kLeastRun = 16;
  static constexpr int64_t kLine = 8;  // words
  static constexpr int64_t kPlainsAhead = 64;
  static constexpr int64_t kTogether = 4;  // sums that a kernel makes of one reading

  const Job& job_;
  const Plan& plan_;
  const int64_t entry_, block_, babies_;
  std::vector<int64_t> digits_at_;
  const Scratch memory_;
};

void HoistedSums(ffi::ThreadPool& pool, const handlers::HoistedSums& in) {
  const Job job(in);
  for (int64_t entry = 0; entry < in.batch; ++entry) SumEntry(job, entry).Run(pool);
}

}  // namespace

FHEJAX_CPU_HANDLER(HoistedSums, HoistedSums);

}  // namespace fhejax
