#include "sim/study/mpi_farm.h"

#ifdef EPSIM_MPI
#include <mpi.h>
#endif

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "sim/core/error.h"

namespace epsim {

#ifdef EPSIM_MPI

namespace {

constexpr int kAsk = 1, kAnswer = 2, kBye = 3, kBegin = 4;
constexpr std::chrono::milliseconds kPoll{1};
constexpr std::chrono::microseconds kAnswerPoll{100};
constexpr std::chrono::seconds kPatience{10};        // for an answer, and at the end for ranks that may have died
constexpr std::chrono::seconds kBeginPatience{120};  // for rank 0, which may have a large study to open

using Question = std::array<std::uint64_t, 2>;  // list, count

// A number from rank 0; nothing where none comes.
std::optional<std::uint64_t> number_from_first(MPI_Request request, const std::uint64_t& number,
                                               std::chrono::seconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) {
      return number;
    }
    if (std::chrono::steady_clock::now() > until) {
      MPI_Cancel(&request);
      MPI_Request_free(&request);
      return std::nullopt;
    }
    std::this_thread::sleep_for(kAnswerPoll);
  }
}

}  // namespace

struct MpiFarm::Parts {
  int rank = 0, size = 1;
  std::mutex turn;
  std::map<std::uint64_t, std::uint64_t> next;  // of each list
  std::atomic<bool> stop{false}, alone{false};
  std::thread dealer;  // of rank 0: the only thread there that calls MPI

  std::uint64_t take(const Question& question) {
    const std::lock_guard lock(turn);
    std::uint64_t& at = next[question[0]];
    return at < question[1] ? at++ : question[1];
  }

  void serve() {
    int gone = 0;
    std::chrono::steady_clock::time_point until{};
    while (gone < size - 1) {
      int there = 0;
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status);
      if (there != 0) {
        Question question{};
        MPI_Recv(question.data(), 2, MPI_UINT64_T, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        if (status.MPI_TAG == kAsk) {
          const std::uint64_t unit = take(question);
          MPI_Send(&unit, 1, MPI_UINT64_T, status.MPI_SOURCE, kAnswer, MPI_COMM_WORLD);
        } else {
          ++gone;
        }
        continue;
      }
      if (stop && until == std::chrono::steady_clock::time_point{}) {
        until = std::chrono::steady_clock::now() + kPatience;
      } else if (stop && std::chrono::steady_clock::now() > until) {
        return;
      }
      std::this_thread::sleep_for(kPoll);
    }
  }

  // `count` where no answer comes.
  std::uint64_t ask(const Question& question) {
    const std::lock_guard lock(turn);
    if (alone) {
      return question[1];
    }
    std::uint64_t unit = question[1];
    MPI_Request answer;
    MPI_Irecv(&unit, 1, MPI_UINT64_T, 0, kAnswer, MPI_COMM_WORLD, &answer);
    MPI_Send(question.data(), 2, MPI_UINT64_T, 0, kAsk, MPI_COMM_WORLD);
    const std::optional<std::uint64_t> given = number_from_first(answer, unit, kPatience);
    alone = !given;
    return given.value_or(question[1]);
  }
};

std::unique_ptr<MpiFarm> MpiFarm::join() {
#ifdef OPEN_MPI
  const char* const size = std::getenv("OMPI_COMM_WORLD_SIZE");
#else
  const char* const size = std::getenv("PMI_SIZE");  // MPICH, Intel MPI
#endif
  return size != nullptr && std::atoi(size) > 1 ? std::unique_ptr<MpiFarm>(new MpiFarm()) : nullptr;
}

MpiFarm::MpiFarm() : parts_(std::make_unique<Parts>()) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (provided < MPI_THREAD_SERIALIZED) {
    throw RunFailed(
        "this MPI lets only one thread call it; give the processes one folder with -o and no mpirun instead.");
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &parts_->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &parts_->size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

// No collective call: one would wait for dead ranks forever.
void MpiFarm::begin() {
  if (parts_->rank > 0) {
    std::uint64_t number = 0;
    MPI_Request word;
    MPI_Irecv(&number, 1, MPI_UINT64_T, 0, kBegin, MPI_COMM_WORLD, &word);
    parts_->alone = !number_from_first(word, number, kBeginPatience);
    return;
  }
  static const std::uint64_t kNothing = 0;
  for (int rank = 1; rank < parts_->size; ++rank) {
    MPI_Request word;
    MPI_Isend(&kNothing, 1, MPI_UINT64_T, rank, kBegin, MPI_COMM_WORLD, &word);
    MPI_Request_free(&word);
  }
  parts_->dealer = std::thread([this] { parts_->serve(); });
}

MpiFarm::~MpiFarm() {
  if (parts_->dealer.joinable()) {
    parts_->stop = true;
    parts_->dealer.join();
  } else if (parts_->rank > 0) {
    const Question bye{};
    MPI_Send(bye.data(), 2, MPI_UINT64_T, 0, kBye, MPI_COMM_WORLD);
  }
  MPI_Finalize();
}

int MpiFarm::rank() const { return parts_->rank; }

std::size_t MpiFarm::deal(std::uint64_t list, std::size_t count) {
  const Question question{list, count};
  return parts_->rank == 0 ? parts_->take(question) : parts_->ask(question);
}

#else

struct MpiFarm::Parts {};

std::unique_ptr<MpiFarm> MpiFarm::join() { return nullptr; }
MpiFarm::~MpiFarm() = default;
int MpiFarm::rank() const { return 0; }
void MpiFarm::begin() {}
std::size_t MpiFarm::deal(std::uint64_t, std::size_t count) { return count; }

#endif

}  // namespace epsim
