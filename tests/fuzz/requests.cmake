# The readers of request traces: a fuzz program each (see CMakeLists.txt), and a test that cuts off and damages every
# corpus file at every place.
foreach(reader azure_csv burstgpt_csv mooncake_jsonl benchmark_jsonl request_csv servegen_archive servegen_trace
        servegen_dataset)
  epsim_fuzz(${reader} SOURCE requests_fuzzer FORMAT ${reader})
endforeach()
if(NOT EPSIM_FUZZ)
  epsim_tests(fuzz SOURCES requests_corpus_test.cpp LINKS epsim_traces epsim_core)
  target_sources(fuzz_tests PRIVATE requests_targets.cpp)
endif()
