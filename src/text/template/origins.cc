// SPDX-License-Identifier: Apache-2.0
#include "text/template/origins.h"

#include <algorithm>

namespace ashlar {

std::size_t Origins::run_at(std::size_t byte) const {
  const auto found =
      std::upper_bound(runs_.begin(), runs_.end(), byte, [](std::size_t at, const Run& run) { return at < run.end; });
  return static_cast<std::size_t>(found - runs_.begin());
}

Origin Origins::greatest(std::size_t from, std::size_t to) const {
  if (!mixed()) return all_;
  Origin out = Origin::kTemplate;
  for (std::size_t i = run_at(from); i < runs_.size(); ++i) {
    out = std::max(out, runs_[i].origin);
    if (runs_[i].end >= to) break;
  }
  return out;
}

Origins Origins::slice(std::size_t from, std::size_t to) const {
  if (!mixed()) return all_;
  if (from >= to) return Origin::kTemplate;
  Origins out(Origin::kTemplate);
  std::size_t i = run_at(from);
  if (runs_[i].end >= to) return runs_[i].origin;
  for (; i < runs_.size(); ++i) {
    out.add(std::min(runs_[i].end, to) - from, runs_[i].origin);
    if (runs_[i].end >= to) break;
  }
  return out;
}

void Origins::add(std::size_t end, Origin origin) {
  all_ = std::max(all_, origin);
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = end;
  } else {
    runs_.push_back({end, origin});
  }
}

void Origins::append(std::size_t size, const Origins& more, std::size_t more_size) {
  if (more_size == 0) return;
  if (size == 0) {
    *this = more;
    return;
  }
  if (!mixed() && !more.mixed() && all_ == more.all_) return;
  if (!mixed()) runs_.push_back({size, all_});
  if (!more.mixed()) return add(size + more_size, more.all_);
  for (const Run& run : more.runs_) add(size + run.end, run.origin);
}

Origins SourcedText::origins_of(std::string_view part) const {
  if (!origins.mixed() || part.empty()) return origins.greatest();
  const auto from = static_cast<std::size_t>(part.data() - bytes.data());
  return origins.slice(from, from + part.size());
}

void SourcedText::append(std::string_view more, const Origins& from) {
  origins.append(bytes.size(), from, more.size());
  bytes += more;
}

}  // namespace ashlar
