// The inner product of raised digits with a key, alone.

#include "cuda/inner_product.h"

#include "cuda/handlers.h"

namespace fhejax {
namespace {

// digits: u64[*batch, digits, limbs, N], key: u64[*batch, digits, 2, limbs, N] -> u64[*batch, 2, limbs, N].
ffi::Error InnerProductHandler(Call& call, Input digits, Input key, Output out, Moduli moduli) {
  const Dimensions shape = ShapeOf(digits), key_shape = ShapeOf(key), result = ShapeOf(*out);
  const auto size = static_cast<int64_t>(moduli.size());
  if (shape.size() < 3 || key_shape.size() < 4 || result.size() < 3 || shape[shape.size() - 2] != size ||
      key_shape[key_shape.size() - 2] != size || key_shape[key_shape.size() - 4] != shape[shape.size() - 3] ||
      key_shape.back() != shape.back() || shape.back() > INT32_MAX)
    return ffi::Error::InvalidArgument("fhejax_inner_product: operand shapes do not fit");
  const OperandShape of_digits{shape, 3}, of_key{key_shape, 4};
  const auto batch = BroadcastOf<kSwitchOperands>({result, 3}, {of_digits, of_key, of_key, of_digits});
  if (!batch) return ffi::Error::InvalidArgument("fhejax_inner_product: batch axes do not broadcast");
  const auto limbs = static_cast<uint32_t>(size), n = static_cast<uint32_t>(shape.back());
  const auto terms = static_cast<uint32_t>(shape[shape.size() - 3]);
  const uint64_t half = uint64_t{limbs} * n;
  const uint64_t* const first = key.typed_data();
  LaunchMultiplyByKey(call, *batch, DigitRows{digits.typed_data(), terms, 1, 0, limbs, n},
                      KeyRows{first, first + half, 2 * terms * half, 2 * half, 2 * terms * half, 2 * half, 0, 0},
                      NothingOwn{}, PairRows{out->typed_data(), limbs, n}, LimbsOf(call, moduli));
  return call.Result();
}

}  // namespace

FHEJAX_CUDA_HANDLER(FhejaxInnerProduct, InnerProductHandler,
                    .Arg<Input>().Arg<Input>().Ret<ffi::Buffer<ffi::U64>>().Attr<Moduli>("moduli"));

}  // namespace fhejax
