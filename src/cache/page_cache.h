// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who holds which page of the KV cache, and which pages can be found again by the tokens they hold.

#include <cstdint>
#include <span>
#include <vector>

#include "cache/page_list.h"
#include "cache/prefix_index.h"
#include "cache/snapshots.h"
#include "device/rows.h"

namespace ashlar {

/// Bookkeeping of `pages` page ids; the memory they name is KvMemory's. A page is in one of three states:
///   free    without a reference, and nothing finds it
///   held    it has references; published or private
///   cached  published, without a reference
/// Not thread safe: it belongs to the engine's thread. Broken use (releasing a page one does not hold) aborts.
class PageCache {
 public:
  /// `block`: K and V of a position depend on the tokens up to the end of its block of `block` (1: on none after it).
  explicit PageCache(int32_t pages, PrefixIndex::Hash hash = PrefixIndex::mix, int32_t block = 1,
                     int32_t snapshots = 0);

  /// Longest published prefix of `tokens` in whole pages and whole blocks, covering at most `max_tokens` tokens.
  /// Appends the page ids to `pages`, each with a reference for the caller; returns tokens covered. `salt` separates
  /// tenants: equal tokens under different salts never match. `cursor`: out, how far the index goes.
  int32_t match(std::span<const int32_t> tokens, int32_t max_tokens, std::vector<int32_t>& pages, uint64_t salt,
                PrefixCursor& cursor);
  int32_t match(std::span<const int32_t> tokens, int32_t max_tokens, std::vector<int32_t>& pages, uint64_t salt = 0) {
    PrefixCursor cursor;
    return match(tokens, max_tokens, pages, salt, cursor);
  }
  /// What match_state() found.
  struct StateMatch {
    int32_t tokens = 0;                   ///< covered by the pages: up to the snapshot
    int32_t snapshot = Snapshots::kNone;  ///< of the states after them, held for the caller; none if tokens is 0
    int32_t published = 0;                ///< tokens that match() would have covered
  };
  /// A match for models with recurrent layers, which can begin only where a snapshot was taken.
  StateMatch match_state(std::span<const int32_t> tokens, int32_t max_tokens, std::vector<int32_t>& pages,
                         uint64_t salt, PrefixCursor& cursor);

  /// Whether a match of the same tokens may find more than the one that left `cursor` did. Looks one page up.
  bool may_match_more(std::span<const int32_t> tokens, int32_t max_tokens, uint64_t salt,
                      const PrefixCursor& cursor) const;

  /// Appends `count` fresh pages (reference 1 each) or none at all. Evicts cached pages that were least recently held,
  /// children before parents. False if available() < count; nothing is evicted then.
  bool allocate(int32_t count, std::vector<int32_t>& pages);

  /// Drops one reference of each page. A published page without references stays cached until evicted; an unpublished
  /// one is free at once.
  void release(std::span<const int32_t> pages);

  /// Publishes every full page of `tokens` whose block is complete: pages[i] holds tokens [16 i, 16 i + 16), and the
  /// caller holds a reference to it. Where an equal page is published already under another id, that one stays, the
  /// caller's page stays private, and the caller's later pages hang under the existing one. Idempotent. `cursor`
  /// belongs to these tokens: what it stands for is not looked up again, and it is moved to the last published page.
  /// Without one, or where its node was evicted, the walk begins at the caller's last page that is published itself.
  void publish(std::span<const int32_t> tokens, std::span<const int32_t> pages, uint64_t salt, PrefixCursor& cursor);
  void publish(std::span<const int32_t> tokens, std::span<const int32_t> pages, uint64_t salt = 0) {
    PrefixCursor cursor;
    publish(tokens, pages, salt, cursor);
  }

  /// The snapshot that was taken holds the states after the first `n_pages` pages of the tokens that `cursor` stands
  /// for. Given back where these are not published.
  void attach_snapshot(int32_t snapshot, const PrefixCursor& cursor, int32_t n_pages) noexcept;
  Snapshots& snapshots() { return snapshots_; }
  const Snapshots& snapshots() const { return snapshots_; }

  /// Forgets every page that allocate could evict.
  void drop_published();

  int32_t available() const { return free_pages() + idle_.size(); }  ///< the largest count that allocate can serve now
  int32_t total() const { return static_cast<int32_t>(pages_.size()); }
  int32_t free_pages() const { return static_cast<int32_t>(free_.size()); }
  int32_t held_pages() const { return held_; }
  int32_t cached_pages() const { return total() - free_pages() - held_; }

  struct Counters {
    uint64_t matched_tokens = 0;  ///< found by match
    uint64_t missed_tokens = 0;   ///< asked of match, within max_tokens, and not found
    uint64_t evictions = 0;       ///< pages that allocate took from the cache
    uint64_t published = 0;       ///< pages that became findable
    uint64_t matches = 0;         ///< calls of match
    uint64_t lookups = 0;         ///< pages that publish looked up in the index
  };
  const Counters& counters() const { return counters_; }

  /// Aborts unless free + held + cached == total with no page in two places, the trie is sound, pins are right, and
  /// idle_ holds exactly the published pages without pins, children before parents. False if it was interrupted.
  bool check_integrity(Interruption& interruption) const;
  void check_integrity() const {
    Interruption endless;
    check_integrity(endless);
  }

 private:
  struct Page {
    int32_t references = 0;
    // Reasons why a published page must stay: 1 if it has references, and 1 for each child that has pins. A child may
    // be held while its parent is not: its holder uses a private duplicate of the parent.
    int32_t pins = 0;
  };
  int32_t key_end(int32_t index) const;
  PageTokens key_of(std::span<const int32_t> tokens, int32_t index) const;
  /// Whether page `index` lies in the first `asked` tokens, and its block in all of them.
  bool is_asked(std::span<const int32_t> tokens, int32_t max_tokens, int32_t index) const;
  /// Appends the published pages of whole blocks, not held yet, and returns how many.
  int32_t find(std::span<const int32_t> tokens, int32_t asked, std::vector<int32_t>& pages, uint64_t salt,
               PrefixCursor& cursor) const;
  /// Takes the pages from `first` on, which cover `covered` of the tokens asked for.
  void take_found(const std::vector<int32_t>& pages, size_t first, int32_t asked, int32_t covered);
  void hold(int32_t page);
  void pin(int32_t page);
  void unpin(int32_t page);
  void evict_oldest();
  bool check_pins(Interruption& interruption) const;
  bool check_states(Interruption& interruption) const;
  bool check_idle(Interruption& interruption) const;

  const int32_t block_;
  std::vector<Page> pages_;
  std::vector<int32_t> free_;
  PrefixIndex index_;
  Snapshots snapshots_;
  // Published pages without pins, by the time the last pin went. A parent's last pin goes after its children's, so
  // children come first and the front is always a leaf: evicting from the front is least recently used over leaves.
  PageList idle_;
  int32_t held_ = 0;
  Counters counters_;
};

}  // namespace ashlar
