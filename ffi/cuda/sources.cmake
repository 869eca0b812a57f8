file(GLOB FHEJAX_CUDA_SOURCES RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS ffi/cuda/*.cu)
set(FHEJAX_CUDA_ARCHITECTURES 80 90 100)
# -fmad=false: doubles are fused where the source says so, and nowhere else.
set(FHEJAX_CUDA_OPTIONS -fmad=false -Werror=all-warnings -Xcompiler=-Wall,-Wextra)
