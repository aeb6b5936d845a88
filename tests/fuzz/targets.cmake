# Lists of readers (targets.h): a fuzz program for each reader (CMakeLists.txt), and a test that cuts off and damages every
# corpus file at every place.
function(epsim_fuzz_list list)
  cmake_parse_arguments(ARG "" "" "READERS;LINKS" ${ARGN})
  set(target_fuzzer_sources ${list}_targets.cpp)
  foreach(reader ${ARG_READERS})
    epsim_fuzz(${reader} SOURCE target_fuzzer LIST ${list} FORMAT ${reader} LINKS ${ARG_LINKS})
  endforeach()
  if(NOT EPSIM_FUZZ)
    epsim_tests(fuzz_${list} SOURCES corpus_test.cpp LINKS ${ARG_LINKS})
    target_sources(fuzz_${list}_tests PRIVATE ${list}_targets.cpp)
  endif()
endfunction()

epsim_fuzz_list(requests LINKS epsim_traces READERS azure_csv burstgpt_csv mooncake_jsonl benchmark_jsonl request_csv
  servegen_archive servegen_trace servegen_dataset)
epsim_fuzz_list(documents LINKS epsim_app READERS plan_request hf_config topology fitted_profile routing_model
  served_points results plugin_answer)
