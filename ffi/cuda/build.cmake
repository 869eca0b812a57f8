# fhejax/_cuda: kernels for each architecture, and PTX of the last for later ones. The runtime is linked statically.
enable_language(CUDA)
list(TRANSFORM FHEJAX_CUDA_ARCHITECTURES APPEND -real OUTPUT_VARIABLE architectures)
list(GET FHEJAX_CUDA_ARCHITECTURES -1 last)

add_library(cuda_kernels OBJECT ${FHEJAX_CUDA_SOURCES} ffi/common/embedding_table.cc ffi/common/handlers.gen.cc
  ffi/common/roots.cc ffi/common/statement.cc)
set_target_properties(cuda_kernels PROPERTIES
  CUDA_ARCHITECTURES "${architectures};${last}-virtual" CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON
  POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
target_include_directories(cuda_kernels PRIVATE ffi)
target_include_directories(cuda_kernels SYSTEM PRIVATE ${XLA_FFI_INCLUDE_DIR})
target_compile_options(cuda_kernels PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${FHEJAX_CUDA_OPTIONS}>")

nanobind_add_module(_cuda STABLE_ABI NB_STATIC ffi/cuda/module.cc)
list(JOIN FHEJAX_CUDA_ARCHITECTURES ", " names)
target_compile_definitions(_cuda PRIVATE FHEJAX_CUDA_ARCHITECTURES="${names}")
target_include_directories(_cuda PRIVATE ffi)
target_include_directories(_cuda SYSTEM PRIVATE ${XLA_FFI_INCLUDE_DIR})
find_package(CUDAToolkit REQUIRED)
target_link_libraries(_cuda PRIVATE cuda_kernels CUDA::cudart_static)
install(TARGETS _cuda LIBRARY DESTINATION fhejax)
