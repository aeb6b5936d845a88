// What a launch costs: empty kernels queued one by one as the host can, and as one graph.
#include "calibration/cuda/workload.cuh"

namespace epsim::measure {
namespace {

// Timed from an idle stream, without the spinning kernel, because the host's work is what is measured.
class Launches : public Workload {
 public:
  Launches(CudaContext& context, int launches, bool as_graph) : context_(context), launches_(launches) {
    if (as_graph) {
      record();
    }
  }
  ~Launches() override {
    if (graph_ != nullptr) {
      cudaGraphExecDestroy(graph_);
    }
  }
  std::vector<std::string> kernels() const override { return {graph_ != nullptr ? "graph" : "stream"}; }
  Seconds time(std::size_t, int executions) override {
    cuda_check(cudaEventRecord(context_.start, context_.stream), "cudaEventRecord");
    for (int i = 0; i < executions; ++i) {
      execute();
    }
    cuda_check(cudaEventRecord(context_.stop, context_.stream), "cudaEventRecord");
    cuda_check(cudaEventSynchronize(context_.stop), "execution");
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, context_.start, context_.stop), "cudaEventElapsedTime");
    return Seconds(milliseconds * 1e-3);
  }
  // Empty kernels have no outputs; that they run without error is all there is to see.
  CheckReport check(std::size_t) override {
    execute();
    cuda_check(cudaStreamSynchronize(context_.stream), "execution");
    return {0, 0, ""};
  }

 private:
  void record() {
    cudaGraph_t graph = nullptr;
    cuda_check(cudaStreamBeginCapture(context_.stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    queue();
    cuda_check(cudaStreamEndCapture(context_.stream, &graph), "cudaStreamEndCapture");
    const cudaError_t status = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    cuda_check(status, "cudaGraphInstantiate");
  }
  void queue() {
    for (int i = 0; i < launches_; ++i) {
      empty_kernel(context_.stream);
    }
  }
  void execute() {
    graph_ != nullptr ? cuda_check(cudaGraphLaunch(graph_, context_.stream), "cudaGraphLaunch") : queue();
  }

  CudaContext& context_;
  int launches_;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

std::unique_ptr<Workload> make_launch_workload(CudaContext& context, const PlannedPoint& point) {
  return std::make_unique<Launches>(context, static_cast<int>(point.value("launches")),
                                    point.op->name == "graph_launch");
}

}  // namespace epsim::measure
