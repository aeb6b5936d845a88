# Helpers used by every folder's CMakeLists.txt: one library per folder, sources written out, links stated.

# Compile options that every target of the project shares.
add_library(epsim_options INTERFACE)
target_include_directories(epsim_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(epsim_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
# No fused multiply-add: results stay bit-identical across compilers and machines that have or lack FMA.
target_compile_options(epsim_options INTERFACE -ffp-contract=off)
if(CMAKE_UNITY_BUILD)
  # g++ takes each included .cpp of a unity build for a header.
  target_compile_options(epsim_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
if(EPSIM_WERROR)
  target_compile_options(epsim_options INTERFACE -Werror)
endif()

# Parses, prints and writes: it runs once a command, so what counts is how long it takes to compile.
add_library(epsim_cold INTERFACE)
target_compile_options(epsim_cold INTERFACE $<$<CONFIG:Release>:-O1>)

# epsim_library(NAME SOURCES a.cpp ... LINKS lib ... [ALONE b.cpp ...] [COLD]): the library `epsim_NAME` of the current
# folder. ALONE: sources that a unity build compiles by themselves, since names of their own stand in another source too.
# COLD: none of it is in a run's loops.
function(epsim_library name)
  cmake_parse_arguments(ARG "COLD" "" "SOURCES;LINKS;PRIVATE_LINKS;ALONE" ${ARGN})
  add_library(epsim_${name} STATIC ${ARG_SOURCES} ${ARG_ALONE})
  set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(epsim_${name} PUBLIC epsim_options ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
  if(ARG_COLD)
    target_link_libraries(epsim_${name} PRIVATE epsim_cold)
  endif()
endfunction()

# epsim_tests(FOLDER SOURCES a_test.cpp ... [SHARED b_test.cpp ...] LINKS lib ...)
# One binary per folder, one ctest entry per source file. Files under SHARED need ../shared: they are labelled `shared`
# and ctest reports them as skipped, with a message, where that folder is absent.
function(epsim_tests folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;SHARED;LINKS" ${ARGN})
  if(NOT TARGET epsim_test_main)
    add_library(epsim_test_options INTERFACE)
    target_link_libraries(epsim_test_options INTERFACE epsim_options doctest::doctest)
    # In batches, as CI compiles them, a third less time without optimisation; what they test keeps its own.
    target_compile_options(epsim_test_options INTERFACE $<$<CONFIG:Release>:$<IF:$<BOOL:${CMAKE_UNITY_BUILD}>,-O0,-O1>>)
    add_library(epsim_test_main OBJECT ${CMAKE_SOURCE_DIR}/tests/support/main.cpp)
    target_link_libraries(epsim_test_main PRIVATE epsim_test_options)
    target_compile_definitions(epsim_test_main PRIVATE
      EPSIM_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data" EPSIM_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
      EPSIM_SHARED_DEFAULT="${CMAKE_SOURCE_DIR}/../shared")
  endif()
  add_executable(${folder}_tests $<TARGET_OBJECTS:epsim_test_main> ${ARG_SOURCES} ${ARG_SHARED})
  target_link_libraries(${folder}_tests PRIVATE epsim_test_options ${ARG_LINKS})
  foreach(source IN LISTS ARG_SOURCES ARG_SHARED)
    get_filename_component(stem ${source} NAME_WE)
    set(extra "")
    if(source IN_LIST ARG_SHARED)
      set(extra --needs-shared)
    endif()
    add_test(NAME ${folder}.${stem} COMMAND ${folder}_tests --only-file=${stem}.cpp ${extra})
    set_tests_properties(${folder}.${stem} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
    if(extra)
      set_tests_properties(${folder}.${stem} PROPERTIES LABELS shared)
    endif()
  endforeach()
endfunction()

# epsim_benchmark(NAME LINKS lib ...): tests/bench/NAME.cpp as the executable `bench_NAME`.
function(epsim_benchmark name)
  cmake_parse_arguments(ARG "" "" "LINKS" ${ARGN})
  add_executable(bench_${name} ${name}.cpp)
  target_link_libraries(bench_${name} PRIVATE epsim_options benchmark::benchmark_main ${ARG_LINKS})
endfunction()
