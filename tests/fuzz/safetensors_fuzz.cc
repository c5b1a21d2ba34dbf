// Any bytes as a safetensors file: a file whose tensors lie within it, or Error.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "io/safetensors.h"

namespace {

/// A file that lives in memory only; the reader needs a path.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("fuzz", 0)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    if (fd_ < 0) std::abort();
  }
  void fill(const uint8_t* data, size_t size) const {
    if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  }
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryFile file;
  file.fill(data, size);
  try {
    const ashlar::SafetensorsFile opened(file.path());
    unsigned sum = 0;
    for (const auto& [name, tensor] : opened.tensors()) {
      for (size_t i = 0; i < tensor.bytes; ++i) sum += static_cast<unsigned>(tensor.data[i]);
    }
    volatile unsigned keep = sum;
    (void)keep;
  } catch (const ashlar::Error&) {
  }
  return 0;
}
