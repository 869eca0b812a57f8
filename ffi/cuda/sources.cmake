set(FHEJAX_CUDA_SOURCES
  ffi/cuda/automorphism.cu
  ffi/cuda/device_tables.cu
  ffi/cuda/elementwise.cu
  ffi/cuda/limbs.cu
  ffi/cuda/ntt.cu)
# -fmad=false: doubles are fused where the source says so, and nowhere else.
set(FHEJAX_CUDA_OPTIONS -fmad=false -Werror=all-warnings -Xcompiler=-Wall,-Wextra)
