# SPDX-License-Identifier: Apache-2.0
# The device for NVIDIA GPUs. AUTO: where nvcc is found, but not in builds for sanitizers, fuzzers and wheels.
set(ASHLAR_CUDA AUTO CACHE STRING "Build the device for NVIDIA GPUs: ON, OFF, or AUTO (where nvcc is found)")
set_property(CACHE ASHLAR_CUDA PROPERTY STRINGS AUTO ON OFF)

set(ASHLAR_HAS_CUDA OFF)
if(ASHLAR_CUDA STREQUAL ON OR (ASHLAR_CUDA STREQUAL AUTO AND NOT ASHLAR_SANITIZE AND NOT ASHLAR_FUZZ AND NOT SKBUILD))
  if(NOT CMAKE_CUDA_COMPILER)
    find_program(ASHLAR_NVCC nvcc HINTS $ENV{CUDACXX} $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
    if(ASHLAR_NVCC)
      set(CMAKE_CUDA_COMPILER ${ASHLAR_NVCC})
    endif()
  endif()
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES OFF) # src/device/cuda names them
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit 12.5 REQUIRED)
    set(ASHLAR_HAS_CUDA ON)
  elseif(ASHLAR_CUDA STREQUAL ON)
    message(FATAL_ERROR "ASHLAR_CUDA=ON needs nvcc of the CUDA toolkit, 12.5 or newer: put it on the PATH, or set "
      "CMAKE_CUDA_COMPILER to it")
  endif()
endif()
message(STATUS "CUDA device: ${ASHLAR_HAS_CUDA}")
