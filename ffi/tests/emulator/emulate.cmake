# The CUDA kernels as C++ with the emulator, and kernels with planted defects. A library without Python.
add_library(emulated MODULE
  ${FHEJAX_CUDA_SOURCES}
  ffi/tests/emulator/planted.cu
  ffi/tests/emulator/shapes.cu
  ffi/tests/emulator/library.cc
  ffi/tests/emulator/emulator.cc
  ffi/tests/emulator/hooks.cc
  ffi/tests/emulator/memory.cc
  ffi/common/embedding_table.cc ffi/common/handlers.gen.cc
  ffi/common/roots.cc ffi/common/statement.cc)
target_include_directories(emulated PRIVATE ffi ffi/tests)
target_include_directories(emulated SYSTEM PRIVATE ${XLA_FFI_INCLUDE_DIR})
target_compile_definitions(emulated PRIVATE FHEJAX_EMULATE)
target_compile_options(emulated PRIVATE -O2 -g1 -Wall -Wextra -Werror -ffp-contract=off)
target_link_libraries(emulated PRIVATE ${CMAKE_DL_LIBS})

# Memory accesses of kernels are announced to the emulator, which has what the compiler calls: the library of the
# sanitizer is not linked.
set(kernels ${FHEJAX_CUDA_SOURCES} ffi/tests/emulator/planted.cu ffi/tests/emulator/shapes.cu)
set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX
  COMPILE_OPTIONS "-xc++;-fsanitize=thread;--param;tsan-instrument-func-entry-exit=0;-Wno-unknown-pragmas")
