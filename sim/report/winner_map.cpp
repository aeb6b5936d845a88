#include "sim/report/winner_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/core/text.h"

namespace epsim {
namespace {

// Okabe and Ito's colours, told apart with any kind of colour vision; grey for the first policy.
constexpr const char* kColours[] = {"#d9d9d9", "#56b4e9", "#0072b2", "#009e73", "#e69f00",
                                    "#f0e442", "#cc79a7", "#d55e00", "#999999"};
constexpr int kCellWidth = 116, kCellHeight = 34, kLineHeight = 16, kLetter = 7;

std::string escaped(const std::string& text) {
  return replaced(replaced(replaced(text, "&", "&amp;"), "<", "&lt;"), ">", "&gt;");
}

std::string text_at(int x, int y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(text));
}

std::string joined(const std::vector<Cell>& row, std::size_t from, std::size_t to) {
  std::string out;
  for (std::size_t i = from; i < to; ++i) {
    out += (out.empty() ? "" : ", ") + text_of(row[i]);
  }
  return out;
}

std::size_t place_in(std::vector<std::string>& all, const std::string& name) {
  const auto at = std::find(all.begin(), all.end(), name);
  const auto index = static_cast<std::size_t>(at - all.begin());
  if (at == all.end()) {
    all.push_back(name);
  }
  return index;
}

class MapDrawing {
 public:
  MapDrawing(const WinnerMap& map, const ResultTable& winners) : winners_(winners), axes_(map.axes.size()) {
    for (const WinnerCell& cell : map.cells) {  // not all of them fit every cell
      for (const RateChoice& choice : cell.choices) {
        place_in(policies_, choice.name);
      }
    }
    for (const std::vector<Cell>& row : winners.rows) {
      place_in(down_names_, joined(row, 0, axes_ - 1));
      place_in(across_names_, joined(row, axes_ - 1, axes_));
    }
    for (const std::string& name : down_names_) {
      left_ = std::max(left_, kLetter * static_cast<int>(name.size()) + 16);
    }
  }

  std::string draw() {
    const int width = left_ + kCellWidth * static_cast<int>(across_names_.size()) + 8;
    const int height = top() + kCellHeight * static_cast<int>(down_names_.size()) + 8;
    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
        width, height);
    out += legend() + headings();
    for (const std::vector<Cell>& row : winners_.rows) {
      out += cell(row);
    }
    return out + "</svg>\n";
  }

 private:
  static int top() { return 3 * kLineHeight + 8; }

  std::string colour(const std::string& policy) const {
    const auto at = static_cast<std::size_t>(std::find(policies_.begin(), policies_.end(), policy) - policies_.begin());
    return policy.empty() ? "white" : kColours[std::min(at, std::size(kColours) - 1)];
  }

  std::string legend() const {
    std::string out;
    int x = 8;
    for (const std::string& policy : policies_) {
      out += fmt::format("<rect x=\"{}\" y=\"6\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", x, colour(policy));
      out += text_at(x + 16, 16, "start", policy);
      x += 32 + kLetter * static_cast<int>(policy.size());
    }
    const bool failures =
        std::ranges::any_of(winners_.rows, [](const auto& row) { return !text_of(row.back()).empty(); });
    return out + (failures ? text_at(x, 16, "start", "* not all policies ran") : "");
  }

  std::string headings() const {
    std::string out;
    for (std::size_t c = 0; c < across_names_.size(); ++c) {
      out += text_at(left_ + kCellWidth * static_cast<int>(c) + kCellWidth / 2, top() - 6, "middle", across_names_[c]);
    }
    for (std::size_t r = 0; r < down_names_.size(); ++r) {
      out += text_at(left_ - 8, top() + kCellHeight * static_cast<int>(r) + kCellHeight / 2 + 4, "end", down_names_[r]);
    }
    return out;
  }

  std::string cell(const std::vector<Cell>& row) {
    const int x = left_ + kCellWidth * static_cast<int>(place_in(across_names_, joined(row, axes_ - 1, axes_)));
    const int y = top() + kCellHeight * static_cast<int>(place_in(down_names_, joined(row, 0, axes_ - 1)));
    const std::string winner = text_of(row[axes_]);
    const double gain = number_of(row[axes_ + 1]);
    std::string out = fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"white\"/>\n",
                                  x, y, kCellWidth, kCellHeight, colour(winner));
    std::string words = winner.empty() ? "none"
                        : winner == text_of(row[axes_ + 4]) || !std::isfinite(gain)
                            ? winner
                            : fmt::format("{} {:+.0f} %", winner, 100 * gain);
    words += text_of(row.back()).empty() ? "" : " *";
    return out + text_at(x + kCellWidth / 2, y + kCellHeight / 2 + 4, "middle", words);
  }

  const ResultTable& winners_;
  std::size_t axes_;
  std::vector<std::string> policies_, down_names_, across_names_;
  int left_ = 8;
};

// Winner, gain with its interval, and over what: of a cell's choices, of which there is one or more.
std::vector<Cell> winner_cells(const std::vector<RateChoice>& all, RateQuestion question) {
  const bool one_seed = all.front().by_seed.size() == 1;
  const double least_gain = one_seed ? std::max(kLeastGain, kOneSeed * question.tolerance) : kLeastGain;
  // What gains too little is left out before the verdict, which may prefer it for its KV room.
  std::vector<RateChoice> choices{all.front()};
  std::copy_if(all.begin() + 1, all.end(), std::back_inserter(choices), [&](const RateChoice& choice) {
    return !(ratio_of(choice, all.front(), question).mean <= 1 + least_gain);
  });
  const std::size_t chosen = verdict_against_first(choices, question).chosen;
  question.tolerance *= chosen == 0 ? 0 : 1;  // a rate over itself is 1, whatever its bracket
  const Estimate over = ratio_of(choices[chosen], choices.front(), question);
  return {choices[chosen].name, over.mean - 1, over.low() - 1, over.high() - 1, choices.front().name};
}

}  // namespace

ResultTable winner_table(const WinnerMap& map) {
  ResultTable out{"winners", {}, {}};
  out.add_words(map.axes);
  out.add_words({"winner"});
  out.add_numbers({"gain_mean", "gain_interval95_low", "gain_interval95_high"});
  out.add_words({"over", "not_compared"});
  for (const WinnerCell& cell : map.cells) {
    std::vector<Cell> row(cell.place.begin(), cell.place.end());
    const std::vector<Cell> won = cell.choices.empty() ? std::vector<Cell>{"", kUndefined, kUndefined, kUndefined, ""}
                                                       : winner_cells(cell.choices, map.question);
    row.insert(row.end(), won.begin(), won.end());
    row.emplace_back(fmt::format("{}", fmt::join(cell.failed, ", ")));
    out.rows.push_back(std::move(row));
  }
  return out;
}

std::string winner_svg(const WinnerMap& map, const ResultTable& winners) { return MapDrawing(map, winners).draw(); }

}  // namespace epsim
