// The inner product of raised digits with a key, alone.

#include "cuda/inner_product.h"

#include "cuda/handlers.h"

namespace fhejax {
namespace {

void LaunchInnerProduct(Call& call, const handlers::InnerProduct& in) {
  const Shape of_digits = in.digits.batch(), of_key = in.key.batch();
  const auto batch = BatchOf<kSwitchOperands>(call, in.out.batch(), {of_digits, of_key, of_key, of_digits});
  const auto limbs = static_cast<uint32_t>(in.limbs), n = static_cast<uint32_t>(in.values);
  const auto terms = static_cast<uint32_t>(in.terms);
  const uint64_t half = uint64_t{limbs} * n;
  const uint64_t* const first = in.key.data;
  LaunchMultiplyByKey(call, batch, DigitRows{in.digits.data, terms, 1, 0, limbs, n},
                      KeyRows{first, first + half, 2 * terms * half, 2 * half, 2 * terms * half, 2 * half, 0, 0},
                      NothingOwn{}, PairRows{in.out.data, limbs, n}, LimbsOf(call, in.moduli));
}

}  // namespace

FHEJAX_CUDA_HANDLER(InnerProduct, LaunchInnerProduct);

}  // namespace fhejax
