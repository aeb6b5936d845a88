// The assignment problem: who takes what so that the total is largest.
#pragma once

#include <vector>

namespace epsim {

// gain[row][column], square. Returns the column of each row, all different, with the largest sum of gains. Integer
// arithmetic and a fixed order make the result reproducible. O(n^3) (Kuhn 1955 in the shortest-path form of Jonker and
// Volgenant 1987).
std::vector<int> best_assignment(const std::vector<std::vector<int>>& gain);

}  // namespace epsim
