// SPDX-License-Identifier: Apache-2.0
#include "app/chat/chat_line.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <cwctype>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "app/chat/chat_complete.h"
#include "app/chat/line_layout.h"
#include "app/chat/line_signals.h"
#include "io/user_folders.h"
#include "session/terminal.h"

namespace ashlar {
namespace {

constexpr int kHistoryLines = 1000;

// "a \" + "b" as one text with a newline between.
bool continues(std::string& text) {
  if (text.empty() || text.back() != '\\') return false;
  text.back() = '\n';
  return true;
}

class PlainReader final : public LineReader {
 public:
  Line read(const std::string&) override {
    Line line;
    do {
      std::string part;
      if (!std::getline(std::cin, part)) {
        if (line.text.empty()) line.end = End::kEof;
        return line;
      }
      if (!part.empty() && part.back() == '\r') part.pop_back();
      line.text += part;
    } while (continues(line.text));
    return line;
  }
};

// The locale's characters as bytes; what it cannot write is '?'.
std::string narrow(std::wstring_view text) {
  std::string out;
  std::mbstate_t state{};
  for (const wchar_t c : text) {
    char bytes[MB_LEN_MAX];
    const size_t count = std::wcrtomb(bytes, c, &state);
    if (count == static_cast<size_t>(-1)) state = {};
    out += count == static_cast<size_t>(-1) ? "?" : std::string(bytes, count);
  }
  return out;
}

class EditReader final : public LineReader {
 public:
  explicit EditReader(std::filesystem::path file)
      : file_(std::move(file)), history_(history_init()), editor_(el_init("ashlar", stdin, stdout, stderr)) {
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryLines);
    history(history_, &event, H_SETUNIQUE, 1);
    if (!file_.empty()) history(history_, &event, H_LOAD, file_.c_str());
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(editor_, EL_PROMPT_ESC, prompt_of, '\1');
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_SIGNAL, 0);
    el_set(editor_, EL_HIST, history, history_);
    // Terminals that know bracketed paste put these around what is pasted: its lines are one text then.
    el_set(editor_, EL_ADDFN, "ashlar-paste", "Insert pasted lines", paste);
    el_set(editor_, EL_BIND, "\\e[200~", "ashlar-paste", nullptr);
    el_set(editor_, EL_ADDFN, "ashlar-complete", "Complete a command", complete);
    el_set(editor_, EL_BIND, "^I", "ashlar-complete", nullptr);
    el_wset(editor_, EL_GETCFN, read_key);
    el_source(editor_, nullptr);
  }

  ~EditReader() override {
    save_history();
    el_end(editor_);
    history_end(history_);
  }

  Line read(const std::string& prompt) override {
    const LineSignals signals;
    signals_ = &signals;
    prompt_ = prompt;
    el_resize(editor_);  // the window may have changed since the line before
    Line line;
    bracket_paste(true);
    do {
      int count = 0;
      const char* text = el_gets(editor_, &count);
      if (LineSignals::interrupted()) {
        line.end = End::kInterrupted;
        std::fputs("\n", stdout);
        el_reset(editor_);
        break;
      }
      if (text == nullptr || count <= 0) {
        line.end = End::kEof;
        std::fputs("\n", stdout);
        break;
      }
      line.text.append(text, static_cast<size_t>(count));
      while (!line.text.empty() && (line.text.back() == '\n' || line.text.back() == '\r')) line.text.pop_back();
      prompt_ = "... ";
    } while (continues(line.text));
    signals_ = nullptr;
    bracket_paste(false);
    remember(line);
    return line;
  }

 private:
  static void bracket_paste(bool on) {
    if (!is_terminal(STDOUT_FILENO)) return;
    std::fputs(on ? "\033[?2004h" : "\033[?2004l", stdout);
    std::fflush(stdout);
  }

  static unsigned char paste(EditLine* editor, int) {
    constexpr std::wstring_view kEnd = L"\033[201~";
    std::wstring text;
    for (wchar_t c = 0; !text.ends_with(kEnd);) {
      if (el_wgetc(editor, &c) != 1) return CC_REFRESH;
      text += c == L'\r' ? L'\n' : c;
    }
    text.resize(text.size() - kEnd.size());
    while (!text.empty() && text.back() == L'\n') text.pop_back();
    if (!text.empty()) el_winsertstr(editor, text.c_str());
    return CC_REFRESH;
  }

  // A key, or -1 after Ctrl-C and where nothing more will come.
  static int read_key(EditLine* editor, wchar_t* key) {
    EditReader* self = self_of(editor);
    std::mbstate_t state{};
    for (;;) {
      switch (self->signals_->wait(STDIN_FILENO)) {
        case LineSignals::Event::kInterrupt:
          errno = EINTR;
          return -1;
        case LineSignals::Event::kResize:
          self->lay_out_anew();
          continue;
        case LineSignals::Event::kInput:
          break;
      }
      char byte = 0;
      const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
      if (count < 0 && errno == EINTR) continue;
      if (count != 1) return static_cast<int>(count);
      const size_t used = std::mbrtowc(key, &byte, 1, &state);
      if (used == static_cast<size_t>(-1)) state = {};  // no character of this locale
      if (used <= 1) return 1;
    }
  }

  // A terminal whose width changes lays its wrapped rows out anew, and libedit does not know where its line then
  // begins: the cursor goes there, what follows is cleared, and the line is drawn once more.
  void lay_out_anew() {
    const LineInfoW* line = el_wline(editor_);
    const int columns = terminal_width(STDOUT_FILENO);
    const std::vector<ScreenRow> rows = rows_of(shown_prompt() + std::wstring(line->buffer, line->cursor), columns);
    if (is_dumb()) return draw_below("\n");
    draw_below(moved(static_cast<int>(rows.size()) - 1, 0) + "\033[J");
    const std::wstring whole = shown_prompt() + std::wstring(line->buffer, line->lastchar);
    const std::string joined = join_rows(rows_of(whole, columns), static_cast<int>(rows.size()) - 1);
    std::fputs(
        (joined + "\r" + (rows.back().cells > 0 ? "\033[" + std::to_string(rows.back().cells) + "C" : "")).c_str(),
        stdout);
    std::fflush(stdout);
  }

  // From the start of row `from` to that of row `to`.
  static std::string moved(int from, int to) {
    if (from == to) return "\r";
    return "\r\033[" + std::to_string(std::abs(from - to)) + (from > to ? "A" : "B");
  }

  // libedit ends a row whose last cell is blank by a newline. To the terminal the next row is another line then, and no
  // continuation that it would lay out anew with it. So that it is one, both cells at the border are written in one go.
  static std::string join_rows(const std::vector<ScreenRow>& rows, int cursor) {
    std::string out;
    int at = cursor;
    for (int row = 0; row + 1 < static_cast<int>(rows.size()); ++row) {
      const ScreenRow& here = rows[row];
      const std::wstring& next = rows[row + 1].text;
      if (!here.is_full || here.text.back() != L' ' || next.empty() || std::iswcntrl(next[0])) continue;
      if (next.size() > 1 && wcwidth(next[1]) == 0) continue;  // a mark on it would be lost
      out += moved(at, row) + "\033[" + std::to_string(here.cells - 1) + "C " + narrow(next.substr(0, 1));
      at = row + 1;
    }
    return out + moved(at, cursor);
  }

  // Writes `text`, which leaves the cursor at a row's start, and the line being typed after it.
  void draw_below(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
    el_resize(editor_);
    el_set(editor_, EL_REFRESH, nullptr);
  }

  // The prompt as a screen has it: without what stands between pairs of \1.
  std::wstring shown_prompt() const {
    std::wstring shown;
    bool hidden = false;
    for (const char c : prompt_) {
      if (c == '\1') hidden = !hidden;
      if (c != '\1' && !hidden) shown += static_cast<wchar_t>(c);  // prompts are ASCII
    }
    return shown;
  }

  static bool is_dumb() {
    const char* term = std::getenv("TERM");
    return term == nullptr || *term == '\0' || std::string_view(term) == "dumb";
  }

  // Puts in what is certain, or shows the choices.
  static unsigned char complete(EditLine* editor, int) {
    const LineInfoW* line = el_wline(editor);
    const std::string before = narrow({line->buffer, static_cast<size_t>(line->cursor - line->buffer)});
    const ChatCompletion found = complete_chat(before);
    if (found.choices.empty()) return CC_ERROR;
    std::string more = common_start(found.choices).substr(before.size() - found.from);
    if (found.choices.size() == 1 && !found.choices[0].ends_with('/')) more += ' ';
    if (!more.empty()) return el_insertstr(editor, more.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
    const auto width = static_cast<size_t>(terminal_width(STDOUT_FILENO));
    self_of(editor)->draw_below("\n" + in_columns(found.choices, width));
    return CC_NORM;
  }

  static EditReader* self_of(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return static_cast<EditReader*>(self);
  }

  static char* prompt_of(EditLine* editor) { return self_of(editor)->prompt_.data(); }

  void remember(const Line& line) {
    if (line.end != End::kNone || line.text.find_first_not_of(" \t\n") == std::string::npos) return;
    HistEvent event;
    history(history_, &event, H_ENTER, line.text.c_str());
  }

  void save_history() {
    if (file_.empty()) return;
    std::error_code failed;
    std::filesystem::create_directories(file_.parent_path(), failed);
    if (failed) return;  // a history that cannot be kept is no reason to bother anyone
    HistEvent event;
    history(history_, &event, H_SAVE, file_.c_str());
  }

  std::filesystem::path file_;
  History* history_;
  EditLine* editor_;
  std::string prompt_;
  const LineSignals* signals_ = nullptr;  // while a line is read
};

}  // namespace

std::unique_ptr<LineReader> make_line_reader(const std::filesystem::path& history) {
  if (!is_terminal(STDIN_FILENO)) return std::make_unique<PlainReader>();
  // libedit reads multi-byte characters by the locale; numbers keep the C locale's point.
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
  return std::make_unique<EditReader>(history);
}

std::filesystem::path default_history_file() {
  const std::filesystem::path folder = user_folder(UserFolder::kState);
  return folder.empty() ? folder : folder / "chat_history";
}

}  // namespace ashlar
