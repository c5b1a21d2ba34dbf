// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "hub/cache.h"
#include "hub/remote.h"

namespace ashlar::hub {

struct DownloadContext {
  const Settings* settings = nullptr;
  RetryPolicy retry;
  std::function<bool()> stopped;
  /// How many bytes of the file are there; falls if it has to begin anew.
  std::function<void(int64_t have)> progress;
};

/// Bytes of the blob that need not be fetched any more: all of it, or what lies in its .incomplete file.
int64_t bytes_there(const RepoCache& cache, const RemoteFile& file);

/// Fetches the file's content into the cache unless it is there, going on where an earlier attempt ended. Returns the
/// bytes that came over the network. Throws Error("hub", ...) if length or hash stay wrong, the server refuses or the
/// disk does; Stopped if `stopped` said so.
int64_t download(Transfer& transfer, const RepoCache& cache, const RemoteFile& file, const DownloadContext& context);

}  // namespace ashlar::hub
