// SPDX-License-Identifier: Apache-2.0
// Builds Json from parser events. The library's own builder looks every key up in the object so far and walks the
// object again after each nested one: quadratic in the members, seconds for the header of a large checkpoint.

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "io/json.h"
#include "io/mapped_file.h"

namespace ashlar {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxFile = size_t{64} << 20;

class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, const std::string& name, RepeatedKeys repeated)
      : text_(text), name_(name), repeated_(repeated) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }  // not of text JSON

  bool key(std::string& name) override {
    open_.back()->get_ref<Json::object_t&>().emplace_back(std::move(name), nullptr);
    return true;
  }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override {
    check_keys(open_.back()->get_ref<Json::object_t&>());
    open_.pop_back();
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }

  bool parse_error(size_t position, const std::string&, const Json::exception& error) override {
    if (dynamic_cast<const Json::parse_error*>(&error) == nullptr) {
      const std::string_view what = error.what();  // "[json.exception...] number overflow ..."
      fail("not valid JSON: " + for_message(what.substr(what.find("] ") == what.npos ? 0 : what.find("] ") + 2)));
    }
    if (text_.empty()) fail("not valid JSON: it is empty");
    // The library counts the end as one more byte.
    const std::string at = std::to_string(std::min(position, text_.size())) + " of " + std::to_string(text_.size());
    fail("not valid JSON at byte " + at + (position > text_.size() ? ": it ends too early" : ""));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error("json", name_ + ": " + what); }

  // The place of the next value: an open array grows by it; an open object has its key already.
  Json& place() {
    if (open_.empty()) return root_;
    Json& parent = *open_.back();
    if (parent.is_object()) return parent.get_ref<Json::object_t&>().back().second;
    return parent.get_ref<Json::array_t&>().emplace_back();
  }

  template <class T>
  bool add(T&& value) {
    place() = std::forward<T>(value);
    return true;
  }

  bool open(Json&& container) {
    if (open_.size() == kMaxDepth) fail("is nested deeper than " + std::to_string(kMaxDepth) + " levels");
    Json& value = place();
    value = std::move(container);
    open_.push_back(&value);  // stays put: the parent grows only after this one is closed
    return true;
  }

  using Member = Json::object_t::value_type;

  void check_keys(Json::object_t& object) const {
    std::vector<Member*> members;
    members.reserve(object.size());
    for (Member& member : object) members.push_back(&member);
    const auto less = [](const Member* a, const Member* b) { return a->first < b->first; };
    std::stable_sort(members.begin(), members.end(), less);
    const auto equal = [](const Member* a, const Member* b) { return a->first == b->first; };
    const auto twice = std::adjacent_find(members.begin(), members.end(), equal);
    if (twice == members.end()) return;
    if (repeated_ == RepeatedKeys::kRefuse) fail("repeats the key \"" + for_message((*twice)->first) + "\"");
    keep_last(members, object);
  }

  // A key stays where it was first, with its last value. `members` are those of `object`, sorted by key, then by place.
  static void keep_last(const std::vector<Member*>& members, Json::object_t& object) {
    std::vector<Member*> firsts;
    for (Member* member : members) {
      if (firsts.empty() || firsts.back()->first != member->first) {
        firsts.push_back(member);
      } else {
        firsts.back()->second = std::move(member->second);
      }
    }
    std::sort(firsts.begin(), firsts.end());
    Json::object_t kept;
    kept.reserve(firsts.size());
    for (Member* member : firsts) kept.emplace_back(member->first, std::move(member->second));
    object = std::move(kept);
  }

  std::string_view text_;
  const std::string& name_;
  RepeatedKeys repeated_;
  Json root_;
  std::vector<Json*> open_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& name, RepeatedKeys repeated) {
  // The library takes a zero byte for the end of the text and would not see what follows it.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw Error("json", name + ": not valid JSON at byte " + std::to_string(zero + 1) + " of " +
                            std::to_string(text.size()) + " (a zero byte)");
  }
  Builder builder(text, name, repeated);
  Json::sax_parse(text, &builder);
  return builder.take();
}

Json read_json_file(const std::filesystem::path& path, RepeatedKeys repeated) {
  return parse_json(read_text_file(path, kMaxFile), path.string(), repeated);
}

}  // namespace ashlar
