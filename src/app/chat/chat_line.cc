#include "app/chat/chat_line.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>

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

volatile std::sig_atomic_t line_interrupted = 0;

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
    el_source(editor_, nullptr);
  }

  ~EditReader() override {
    save_history();
    el_end(editor_);
    history_end(history_);
  }

  Line read(const std::string& prompt) override {
    // Without SA_RESTART, so that Ctrl-C ends the wait for a key.
    struct sigaction action {
    }, previous;
    action.sa_handler = [](int) { line_interrupted = 1; };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &previous);
    line_interrupted = 0;
    prompt_ = prompt;
    Line line;
    bracket_paste(true);
    do {
      int count = 0;
      const char* text = el_gets(editor_, &count);
      if (line_interrupted != 0) {
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
    bracket_paste(false);
    sigaction(SIGINT, &previous, nullptr);
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

  static char* prompt_of(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return static_cast<EditReader*>(self)->prompt_.data();
  }

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
};

}  // namespace

std::unique_ptr<LineReader> make_line_reader(const std::filesystem::path& history) {
  if (!is_terminal(STDIN_FILENO)) return std::make_unique<PlainReader>();
  // libedit reads multi-byte characters by the locale; numbers keep the C locale's point.
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
  return std::make_unique<EditReader>(history);
}

std::filesystem::path default_history_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state != '\0') return std::filesystem::path(state) / "ashlar" / "chat_history";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return {};
  return std::filesystem::path(home) / ".local" / "state" / "ashlar" / "chat_history";
}

}  // namespace ashlar
