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
  Builder(std::string_view text, const std::string& name) : text_(text), name_(name) {}

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
    check_keys(open_.back()->get_ref<const Json::object_t&>());
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

  void check_keys(const Json::object_t& object) const {
    std::vector<const std::string*> keys;
    keys.reserve(object.size());
    for (const auto& [key, value] : object) keys.push_back(&key);
    const auto less = [](const std::string* a, const std::string* b) { return *a < *b; };
    std::sort(keys.begin(), keys.end(), less);
    const auto equal = [](const std::string* a, const std::string* b) { return *a == *b; };
    const auto twice = std::adjacent_find(keys.begin(), keys.end(), equal);
    if (twice != keys.end()) fail("repeats the key \"" + for_message(**twice) + "\"");
  }

  std::string_view text_;
  const std::string& name_;
  Json root_;
  std::vector<Json*> open_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& name) {
  // The library takes a zero byte for the end of the text and would not see what follows it.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw Error("json", name + ": not valid JSON at byte " + std::to_string(zero + 1) + " of " +
                            std::to_string(text.size()) + " (a zero byte)");
  }
  Builder builder(text, name);
  Json::sax_parse(text, &builder);
  return builder.take();
}

Json read_json_file(const std::filesystem::path& path) {
  return parse_json(read_text_file(path, kMaxFile), path.string());
}

}  // namespace ashlar
