// Written by ffi/generate.py from fhejax/primitives/handlers.py.
#pragma once

#include "common/statement.h"

// What every handler takes: degrees of rings, moduli, numbers of an attribute.
namespace fhejax {

constexpr int64_t kMostDegree = 1048576, kMostNumbers = 4096;
constexpr uint64_t kLeastPrime = 5, kPastPrimes = 2305843009213693952;

}  // namespace fhejax

// Every handler: the name of its struct, and the name under which XLA knows it.
#define FHEJAX_HANDLERS(X) \
  X(Add, "fhejax_add_v1") \
  X(Subtract, "fhejax_subtract_v1") \
  X(Multiply, "fhejax_multiply_v1") \
  X(MultiplyAdd, "fhejax_multiply_add_v1") \
  X(MultiplyScalar, "fhejax_multiply_scalar_v1") \
  X(WeightedSums, "fhejax_weighted_sums_v1") \
  X(Combination, "fhejax_combination_v1") \
  X(Ntt, "fhejax_ntt_v1") \
  X(InverseNtt, "fhejax_inverse_ntt_v1") \
  X(Automorphism, "fhejax_automorphism_v1") \
  X(SlotsToCoefficients, "fhejax_slots_to_coefficients_v1") \
  X(CoefficientsToSlots, "fhejax_coefficients_to_slots_v1") \
  X(RoundToResidues, "fhejax_round_to_residues_v1") \
  X(EncodeCoefficients, "fhejax_encode_coefficients_v1") \
  X(ResiduesToFloat, "fhejax_residues_to_float_v1") \
  X(DecodeCoefficients, "fhejax_decode_coefficients_v1") \
  X(ConvertBasis, "fhejax_convert_basis_v1") \
  X(ModRaise, "fhejax_mod_raise_v1") \
  X(ModDown, "fhejax_mod_down_v1") \
  X(InnerProduct, "fhejax_inner_product_v1") \
  X(GadgetProduct, "fhejax_gadget_product_v1") \
  X(KeySwitch, "fhejax_key_switch_v1") \
  X(MultiplyCiphertexts, "fhejax_multiply_ciphertexts_v1") \
  X(RelinearizeRescale, "fhejax_relinearize_rescale_v1") \
  X(HoistedRotations, "fhejax_hoisted_rotations_v1") \
  X(HoistedSums, "fhejax_hoisted_sums_v1") \
  X(AddRotation, "fhejax_add_rotation_v1") \
  X(Chacha20, "fhejax_chacha20_v1") \
  X(SampleUniform, "fhejax_sample_uniform_v1") \
  X(SampleTernary, "fhejax_sample_ternary_v1") \
  X(SampleGaussian, "fhejax_sample_gaussian_v1") \
  X(SampleSparseTernary, "fhejax_sample_sparse_ternary_v1") \
  X(EncryptPublic, "fhejax_encrypt_public_v1") \
  X(DecryptCoefficients, "fhejax_decrypt_coefficients_v1") \
  X(SwitchingKey, "fhejax_switching_key_v1")

// What each handler is given. Take() takes it from a call, whose last result may be CUDA's workspace.
namespace fhejax::handlers {

struct Add {
  static constexpr const char* kName = "fhejax_add_v1";
  Moduli moduli{};
  Argument<const uint64_t> a;  // limbs values
  Argument<const uint64_t> b;  // limbs values
  Argument<uint64_t> out;  // limbs values
  int64_t batch = 0, limbs = 0, values = 0;

  bool Take(Given& given, bool with_workspace);
};

struct Subtract {
  static constexpr const char* kName = "fhejax_subtract_v1";
  Moduli moduli{};
  Argument<const uint64_t> a;  // limbs values
  Argument<const uint64_t> b;  // limbs values
  Argument<uint64_t> out;  // limbs values
  int64_t batch = 0, limbs = 0, values = 0;

  bool Take(Given& given, bool with_workspace);
};

struct Multiply {
  static constexpr const char* kName = "fhejax_multiply_v1";
  Moduli moduli{};
  Argument<const uint64_t> a;  // limbs values
  Argument<const uint64_t> b;  // limbs values
  Argument<uint64_t> out;  // limbs values
  int64_t batch = 0, limbs = 0, values = 0;

  bool Take(Given& given, bool with_workspace);
};

struct MultiplyAdd {
  static constexpr const char* kName = "fhejax_multiply_add_v1";
  Moduli moduli{};
  Argument<const uint64_t> a;  // limbs values
  Argument<const uint64_t> b;  // limbs values
  Argument<const uint64_t> c;  // limbs values
  Argument<uint64_t> out;  // limbs values
  int64_t batch = 0, limbs = 0, values = 0;

  bool Take(Given& given, bool with_workspace);
};

struct MultiplyScalar {
  static constexpr const char* kName = "fhejax_multiply_scalar_v1";
  Moduli moduli{};
  Argument<const uint64_t> a;  // limbs values
  Argument<const uint64_t> scalar;  // limbs
  Argument<uint64_t> out;  // limbs values
  int64_t batch = 0, limbs = 0, values = 0;

  bool Take(Given& given, bool with_workspace);
};

struct WeightedSums {
  static constexpr const char* kName = "fhejax_weighted_sums_v1";
  Moduli moduli{};
  Argument<const uint64_t> x;  // terms components limbs values
  Argument<const uint64_t> weights;  // sums limbs terms
  Argument<uint64_t> out;  // sums components limbs values
  int64_t batch = 0, limbs = 0, terms = 0, components = 0, values = 0, sums = 0;

  bool Take(Given& given, bool with_workspace);
};

struct Combination {
  static constexpr const char* kName = "fhejax_combination_v1";
  Moduli moduli{};
  int64_t products{};
  std::vector<Argument<const uint64_t>> xs;  // 2 limbs_of_x>=limbs values
  std::vector<Argument<const uint64_t>> ys;  // 2 limbs_of_y>=limbs values
  std::vector<Argument<const uint64_t>> terms;  // components limbs_of_term>=limbs values
  Argument<const uint64_t> weights;  // numbers limbs
  Argument<uint64_t> out;  // max(components,3*(products>0)) limbs values
  int64_t batch = 0, limbs = 0, term_count = 0, values = 0, components = 0, numbers = 0;

  bool Take(Given& given, bool with_workspace);
};

struct Ntt {
  static constexpr const char* kName = "fhejax_ntt_v1";
  Moduli moduli{};
  Argument<const uint64_t> x;  // limbs N
  Argument<uint64_t> out;  // limbs N
  int64_t batch = 0, limbs = 0, n = 0;

  bool Take(Given& given, bool with_workspace);
};

struct InverseNtt {
  static constexpr const char* kName = "fhejax_inverse_ntt_v1";
  Moduli moduli{};
  Argument<const uint64_t> x;  // limbs N
  Argument<uint64_t> out;  // limbs N
  int64_t batch = 0, limbs = 0, n = 0;

  bool Take(Given& given, bool with_workspace);
};

struct Automorphism {
  static constexpr const char* kName = "fhejax_automorphism_v1";
  int64_t element{};
  Argument<const uint64_t> x;  // limbs N
  Argument<uint64_t> out;  // limbs N
  int64_t batch = 0, limbs = 0, n = 0;

  bool Take(Given& given, bool with_workspace);
};

struct SlotsToCoefficients {
  static constexpr const char* kName = "fhejax_slots_to_coefficients_v1";
  Argument<const std::complex<double>> z;  // slots
  Argument<double> out;  // N
  int64_t batch = 0, slots = 0, n = 0;
  struct {
    uint64_t *transformed = nullptr;
  } workspace;  // CUDA's

  bool Take(Given& given, bool with_workspace);
};

struct CoefficientsToSlots {
  static constexpr const char* kName = "fhejax_coefficients_to_slots_v1";
  Argument<const double> a;  // N
  Argument<std::complex<double>> out;  // slots
  int64_t batch = 0, n = 0, slots = 0;

  bool Take(Given& given, bool with_workspace);
};

struct RoundToResidues {
  static constexpr const char* kName = "fhejax_round_to_residues_v1";
  Moduli moduli{};
  double scale{};
  Argument<const double> a;  // values
  Argument<uint64_t> out;  // limbs values
  int64_t batch = 0, limbs = 0, values = 0;

  bool Take(Given& given, bool with_workspace);
};

struct EncodeCoefficients {
  static constexpr const char* kName = "fhejax_encode_coefficients_v1";
  Moduli moduli{};
  double scale{};
  Argument<const double> a;  // N
  Argument<uint64_t> out;  // limbs N
  int64_t batch = 0, limbs = 0, n = 0;

  bool Take(Given& given, bool with_workspace);
};

struct ResiduesToFloat {
  static constexpr const char* kName = "fhejax_residues_to_float_v1";
  Moduli moduli{};
  Places places{};
  Argument<const uint64_t> x;  // limbs values
  Argument<double> out;  // values
  int64_t batch = 0, limbs = 0, values = 0;

  bool Take(Given& given, bool with_workspace);
};

struct DecodeCoefficients {
  static constexpr const char* kName = "fhejax_decode_coefficients_v1";
  Moduli moduli{};
  Places places{};
  Argument<const uint64_t> x;  // limbs N
  Argument<double> out;  // N
  int64_t batch = 0, limbs = 0, n = 0;
  struct {
    uint64_t *coefficients = nullptr;
  } workspace;  // CUDA's

  bool Take(Given& given, bool with_workspace);
};

struct ConvertBasis {
  static constexpr const char* kName = "fhejax_convert_basis_v1";
  Moduli source{};
  Moduli target{};
  Argument<const uint64_t> x;  // sources values
  Argument<uint64_t> out;  // targets values
  int64_t batch = 0, sources = 0, targets = 0, values = 0;

  bool Take(Given& given, bool with_workspace);
};

struct ModRaise {
  static constexpr const char* kName = "fhejax_mod_raise_v1";
  Moduli source{};
  Moduli more{};
  Argument<const uint64_t> x;  // sources N
  Argument<uint64_t> out;  // sources+added N
  int64_t batch = 0, sources = 0, added = 0, n = 0;
  struct {
    uint64_t *coefficients = nullptr;
  } workspace;  // CUDA's

  bool Take(Given& given, bool with_workspace);
};

struct ModDown {
  static constexpr const char* kName = "fhejax_mod_down_v1";
  Moduli keep{};
  Moduli drop{};
  Argument<const uint64_t> x;  // kept+dropped N
  Argument<uint64_t> out;  // kept N
  int64_t batch = 0, kept = 0, dropped = 0, n = 0;
  struct {
    uint64_t *lifts = nullptr, *dropped_rows = nullptr;
  } workspace;  // CUDA's

  bool Take(Given& given, bool with_workspace);
};

struct InnerProduct {
  static constexpr const char* kName = "fhejax_inner_product_v1";
  Moduli moduli{};
  Argument<const uint64_t> digits;  // terms limbs values
  Argument<const uint64_t> key;  // terms 2 limbs values
  Argument<uint64_t> out;  // 2 limbs values
  int64_t batch = 0, limbs = 0, terms = 0, values = 0;

  bool Take(Given& given, bool with_workspace);
};

struct GadgetProduct {
  static constexpr const char* kName = "fhejax_gadget_product_v1";
  Moduli moduli{};
  Moduli special{};
  int64_t digit_size{};
  Argument<const uint64_t> x;  // limbs N
  KeyArgument key;
  Argument<uint64_t> out;  // 2 limbs+specials N
  int64_t batch = 0, limbs = 0, specials = 0, digits = 0, n = 0, seeds = 0;
  struct {
    uint64_t *coefficients = nullptr, *raised = nullptr, *masks = nullptr;
  } workspace;  // CUDA's

  bool Take(Given& given, bool with_workspace);
};

struct KeySwitch {
  static constexpr const char* kName = "fhejax_key_switch_v1";
  Moduli moduli{};
  Moduli special{};
  int64_t digit_size{};
  Argument<const uint64_t> x;  // limbs N
  KeyArgument key;
  Argument<uint64_t> out;  // 2 limbs N
  int64_t batch = 0, limbs = 0, specials = 0, digits = 0, n = 0, seeds = 0;
  struct {
    uint64_t *coefficients = nullptr, *raised = nullptr, *lifts = nullptr, *masks = nullptr, *product = nullptr;
  } workspace;  // CUDA's

  bool Take(Given& given, bool with_workspace);
};

struct MultiplyCiphertexts {
  static constexpr const char* kName = "fhejax_multiply_ciphertexts_v1";
  Moduli moduli{};
  Moduli special{};
  int64_t digit_size{};
  Argument<const uint64_t> x;  // 2 limbs_of_x>=limbs N
  Argument<const uint64_t> y;  // 2 limbs_of_y>=limbs N
  KeyArgument key;
  Argument<uint64_t> out;  // 2 limbs-1 N
  int64_t batch = 0, limbs = 0, specials = 0, digits = 0, limbs_of_x = 0, n = 0, limbs_of_y = 0, seeds = 0;
  struct {
    uint64_t *coefficients = nullptr, *raised = nullptr, *lifts = nullptr, *masks = nullptr, *product = nullptr;
  } workspace;  // CUDA's

  bool Take(Given& given, bool with_workspace);
};

struct RelinearizeRescale {
  static constexpr const char* kName = "fhejax_relinearize_rescale_v1";
  Moduli moduli{};
  Moduli special{};
  int64_t digit_size{};
  Argument<const uint64_t> d;  // 3 limbs N
  KeyArgument key;
  Argument<uint64_t> out;  // 2 limbs-1 N
  int64_t batch = 0, limbs = 0, specials = 0, digits = 0, n = 0, seeds = 0;
  struct {
    uint64_t *coefficients = nullptr, *raised = nullptr, *lifts = nullptr, *masks = nullptr, *product = nullptr;
  } workspace;  // CUDA's

  bool Take(Given& given, bool with_workspace);
};

struct HoistedRotations {
  static constexpr const char* kName = "fhejax_hoisted_rotations_v1";
  Moduli moduli{};
  Moduli special{};
  int64_t digit_size{};
  Moduli elements{};
  Argument<const uint64_t> ciphertext;  // 2 limbs N
  std::vector<KeyArgument> keys;
  std::vector<Argument<uint64_t>> out;  // 2 limbs N
  int64_t batch = 0, limbs = 0, specials = 0, rotations = 0, switched = 0, digits = 0, n = 0, seeds = 0;
  struct {
    uint64_t *coefficients = nullptr, *raised = nullptr, *lifts = nullptr, *masks = nullptr, *product = nullptr;
  } workspace;  // CUDA's

  bool Take(Given& given, bool with_workspace);
};

struct HoistedSums {
  static constexpr const char* kName = "fhejax_hoisted_sums_v1";
  Moduli moduli{};
  Moduli special{};
  int64_t digit_size{};
  int64_t inputs{};
  Moduli sources{};
  Moduli elements{};
  Moduli sizes{};
  Moduli terms{};
  std::vector<Argument<const uint64_t>> ciphertexts;  // 2 limbs N
  Argument<const uint64_t> plains;  // term_count limbs+specials width
  std::vector<KeyArgument> keys;
  std::vector<Argument<uint64_t>> out;  // 2 limbs+specials N
  int64_t batch = 0, limbs = 0, specials = 0, babies = 0, switched = 0, sum_count = 0, term_count = 0, digits = 0, n = 0, width = 0, seeds = 0;
  struct {
    uint64_t *coefficients = nullptr, *raised = nullptr, *masks = nullptr, *rotated = nullptr;
  } workspace;  // CUDA's

  bool Take(Given& given, bool with_workspace);
};

struct AddRotation {
  static constexpr const char* kName = "fhejax_add_rotation_v1";
  Moduli moduli{};
  Moduli special{};
  int64_t digit_size{};
  int64_t element{};
  Argument<const uint64_t> total;  // 2 limbs+specials N
  Argument<const uint64_t> pair;  // 2 limbs+specials N
  KeyArgument key;
  Argument<uint64_t> out;  // 2 limbs+specials N
  int64_t batch = 0, limbs = 0, specials = 0, digits = 0, n = 0, seeds = 0;
  struct {
    uint64_t *coefficients = nullptr, *raised = nullptr, *masks = nullptr, *divided = nullptr;
  } workspace;  // CUDA's

  bool Take(Given& given, bool with_workspace);
};

struct Chacha20 {
  static constexpr const char* kName = "fhejax_chacha20_v1";
  Argument<const uint32_t> key;  // 8
  Argument<const uint32_t> place;  // count 4
  Argument<uint32_t> out;  // count 16
  int64_t batch = 0, count = 0;

  bool Take(Given& given, bool with_workspace);
};

struct SampleUniform {
  static constexpr const char* kName = "fhejax_sample_uniform_v1";
  Moduli moduli{};
  Argument<const uint32_t> seeds;  // 8
  Argument<uint64_t> out;  // count limbs values
  int64_t batch = 0, limbs = 0, count = 0, values = 0;

  bool Take(Given& given, bool with_workspace);
};

struct SampleTernary {
  static constexpr const char* kName = "fhejax_sample_ternary_v1";
  Moduli moduli{};
  Argument<const uint32_t> seeds;  // 8
  Argument<uint64_t> out;  // count limbs values
  int64_t batch = 0, limbs = 0, count = 0, values = 0;

  bool Take(Given& given, bool with_workspace);
};

struct SampleGaussian {
  static constexpr const char* kName = "fhejax_sample_gaussian_v1";
  Moduli moduli{};
  Moduli thresholds{};
  Argument<const uint32_t> seeds;  // 8
  Argument<uint64_t> out;  // count limbs values
  int64_t batch = 0, limbs = 0, count = 0, values = 0;

  bool Take(Given& given, bool with_workspace);
};

struct SampleSparseTernary {
  static constexpr const char* kName = "fhejax_sample_sparse_ternary_v1";
  Moduli moduli{};
  int64_t weight{};
  Argument<const uint32_t> seeds;  // 8
  Argument<uint64_t> out;  // count limbs values
  int64_t batch = 0, limbs = 0, count = 0, values = 0;
  struct {
    uint64_t *steps = nullptr, *positions = nullptr, *signs = nullptr;
  } workspace;  // CUDA's

  bool Take(Given& given, bool with_workspace);
};

struct EncryptPublic {
  static constexpr const char* kName = "fhejax_encrypt_public_v1";
  Moduli moduli{};
  Moduli special{};
  Moduli thresholds{};
  Argument<const uint32_t> seeds;  // 8
  Argument<const uint64_t> key;  // key_count 2 limbs_of_key>=limbs+1 N
  Argument<const uint64_t> message;  // message_count limbs N
  Argument<uint64_t> out;  // count=broadcast(key_count,message_count) 2 limbs N
  int64_t batch = 0, limbs = 0, key_count = 0, limbs_of_key = 0, n = 0, message_count = 0, count = 0;
  struct {
    uint64_t *v = nullptr, *products = nullptr, *small_v = nullptr, *errors = nullptr;
  } workspace;  // CUDA's

  bool Take(Given& given, bool with_workspace);
};

struct DecryptCoefficients {
  static constexpr const char* kName = "fhejax_decrypt_coefficients_v1";
  Moduli moduli{};
  Places places{};
  Argument<const uint64_t> data;  // components limbs N
  Argument<const uint64_t> secret;  // limbs_of_secret>=limbs N
  Argument<double> out;  // N
  int64_t batch = 0, limbs = 0, components = 0, n = 0, limbs_of_secret = 0;
  struct {
    uint64_t *coefficients = nullptr;
  } workspace;  // CUDA's

  bool Take(Given& given, bool with_workspace);
};

struct SwitchingKey {
  static constexpr const char* kName = "fhejax_switching_key_v1";
  Moduli moduli{};
  Moduli special{};
  int64_t digit_size{};
  int64_t seeded{};
  Moduli thresholds{};
  Argument<const uint32_t> mask_seeds;  // 8
  Argument<const uint32_t> error_seeds;  // 8
  Argument<const uint64_t> source;  // limbs_of_source>=limbs+specials N
  Argument<const uint64_t> target;  // limbs_of_target>=limbs+specials N
  Argument<uint64_t> out;  // digits 2|seeded limbs+specials N
  int64_t batch = 0, limbs = 0, specials = 0, digits = 0, limbs_of_source = 0, n = 0, limbs_of_target = 0;

  bool Take(Given& given, bool with_workspace);
};

}  // namespace fhejax::handlers
