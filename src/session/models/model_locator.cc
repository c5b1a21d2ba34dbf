// SPDX-License-Identifier: Apache-2.0
#include "session/models/model_locator.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "base/error.h"
#include "base/similar_word.h"
#include "decode/drafters.h"
#include "hub/names.h"
#include "io/weights/gguf.h"
#include "model/drafters/mtp.h"
#include "model/gguf/gguf_config.h"
#include "session/models/known_drafters.h"
#include "session/models/local_models.h"
#include "session/models/source_tree.h"
#include "session/terminal.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBundledModel = "pebble-11m";
constexpr size_t kGgufSuffix = 5;  // ".gguf"

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_folder_or_gguf(const fs::path& path) { return is_folder(path) || (is_gguf(path) && file_exists(path)); }

// A path as it was typed, or else a name under one of the roots, or else a model of the hub that was pulled.
std::optional<fs::path> find_by_name(const std::string& name, const std::vector<fs::path>& roots, hub::Role role) {
  if (is_folder_or_gguf(name)) return fs::path(name);
  for (const fs::path& root : roots) {
    if (is_folder_or_gguf(root / name)) return root / name;
  }
  if (is_gguf(name)) return std::nullopt;
  const auto ref = hub::parse_repo_ref(name);
  if (!ref) return std::nullopt;
  const hub::CachedSnapshot found = find_pulled(*ref, role);
  if (!found.whole()) return std::nullopt;
  return found.folder;
}

// "ORG/MODEL" of ".../models--ORG--MODEL/snapshots/COMMIT"; empty for any other folder.
std::string name_of_snapshot(const fs::path& folder) {
  if (folder.parent_path().filename() != "snapshots") return {};
  return hub::repo_of_folder_name(folder.parent_path().parent_path().filename().string());
}

std::string list_of(const std::vector<fs::path>& roots) {
  std::string text;
  for (const fs::path& root : roots) text += (text.empty() ? "" : ", ") + root.string();
  return text;
}

// What to do about a name that was not found and may be one of the hub's.
void offer_pull(const char* tag, const std::string& name, hub::Role role, const std::string& more = "") {
  const auto ref = hub_name(name);
  if (!ref) return;
  const hub::Settings settings = hub::settings_from_environment();
  const hub::CachedSnapshot found = find_pulled(*ref, role);
  if (!found.folder.empty()) {
    throw Error(tag, found.warning(*ref, settings) + "; to fetch what is missing: ashlar pull " + name);
  }
  throw Error(tag, name + " is not a folder, and not among the models pulled to " + settings.cache.string() +
                       "; to fetch it: ashlar pull " + name + more);
}

// The model that is here and that a mistyped name may have meant; also MODEL for ORG/MODEL.
std::string similar_model(const std::string& name, const std::vector<fs::path>& roots) {
  std::vector<std::string> names;
  for (const LocalModel& model : local_models(roots, hub::settings_from_environment().cache)) {
    if (model.drafter) continue;
    const size_t slash = model.name.find('/');
    if (slash != std::string::npos && model.name.substr(slash + 1) == name) return model.name;
    names.push_back(model.name);
  }
  return nearest(name, names);
}

// What is wrong with a file is for its loader to say.
bool is_drafter(const fs::path& path) {
  try {
    return is_drafter_folder(path);
  } catch (const Error&) {
    return false;
  }
}

// What is wrong with a model is for its loader to say.
bool drafts_itself(const fs::path& model) {
  try {
    return has_mtp(model);
  } catch (const Error&) {
    return false;
  }
}

// What is wrong with a file is for its loader to say.
std::string layers_alone(const fs::path& path) {
  try {
    return is_gguf(path) ? gguf_layers_alone(path) : "";
  } catch (const Error&) {
    return "";
  }
}

// A GGUF file that lies in a folder which is no model itself.
std::string gguf_in(const fs::path& folder) {
  if (!is_folder(folder) || file_exists(folder / "config.json")) return {};
  std::string found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (is_gguf(entry.path()) && (found.empty() || file < found)) found = file;
  }
  return found;
}

// The models that lie in a folder which is none itself, as "a, b"; empty if there are none.
std::string models_in(const fs::path& folder) {
  std::string text;
  if (!is_folder(folder) || file_exists(folder / "config.json")) return text;
  for (const LocalModel& model : local_models({folder}, {})) {
    if (!model.drafter) text += (text.empty() ? "" : ", ") + model.name;
  }
  return text;
}

// A folder or file that was named as a drafter and is something else. What is wrong with a drafter is for its loader to
// say.
void refuse_what_drafts_nothing(const fs::path& path) {
  if (is_drafter(path) || drafts_itself(path)) return;
  if (const std::string alone = layers_alone(path); !alone.empty()) throw Error("drafter", alone);
  if (const std::string instead = what_it_is_instead(path); !instead.empty()) throw Error("drafter", instead);
  try {
    read_model_config(path);
  } catch (const Error&) {
    return;
  }
  throw Error("drafter", path.string() +
                             " is a model of its own; a small model does not draft for a larger one here: expected a "
                             "drafter that was trained for the model (DFlash, EAGLE-3), mtp, ngram or none");
}

fs::path find_model(const std::string& name, const std::vector<fs::path>& roots) {
  const std::string wanted = name.empty() ? kBundledModel : name;
  const auto folder = find_by_name(wanted, roots, hub::Role::kModel);
  if (!folder && name.empty()) {
    throw Error("model", std::string("the bundled model ") + kBundledModel + " is not in " + list_of(roots) +
                             "; name a model folder, or set ASHLAR_MODELS to the folder that holds the bundled models");
  }
  if (!folder && wanted.find(' ') != std::string::npos) {
    throw Error("model",
                "\"" + wanted + "\" is not a folder; to ask the model something use --prompt \"" + wanted + "\"");
  }
  if (const std::string instead = what_it_is_instead(folder.value_or(wanted)); !instead.empty())
    throw Error("model", instead);
  if (const std::string repo = folder ? std::string() : hub::repo_of_address(wanted); !repo.empty()) {
    throw Error("model",
                wanted + " is an address; to fetch that model: ashlar pull " + repo + ", which is then its name");
  }
  if (!folder && is_gguf(wanted)) {
    throw Error("model",
                wanted + " is not a file, nor one in " + list_of(roots) + "; expected the path of a GGUF file");
  }
  if (!folder) {
    const std::string near = similar_model(wanted, roots);
    const std::string maybe = near.empty() ? "" : "; did you mean " + near + "?";
    if (near.empty() || wanted.find('/') != std::string::npos) offer_pull("model", wanted, hub::Role::kModel, maybe);
    const std::string expected =
        about_tag(wanted) +
        "; expected a Hugging Face model folder, a .gguf file, ORG/MODEL of the hub, or nothing for the bundled model";
    throw Error("model",
                wanted + " is not a folder, nor a model in " + list_of(roots) + (near.empty() ? expected : maybe));
  }
  if (const std::string file = gguf_in(*folder); !file.empty()) {
    throw Error("model", folder->string() + " has no config.json, but " + file + "; name that file");
  }
  if (const std::string models = models_in(*folder); !models.empty()) {
    throw Error("model", folder->string() +
                             " has no config.json, but models in folders of their own; name one of them: " + models);
  }
  return *folder;
}

// Shells complete the names of folders with a slash, after which no part is left.
fs::path without_last_slash(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

fs::path last_part(const fs::path& path) { return without_last_slash(path).filename(); }

// The model that a drafter was trained for, since vLLM serves one by its drafter's name: the configuration of the
// drafter names it, or the table of published ones.
fs::path find_verifier(const fs::path& drafter, const std::vector<fs::path>& roots) {
  const std::string name = verifier_of(drafter);
  const char* const kind = is_gguf(drafter) ? "file" : "folder";
  if (name.empty()) {
    throw Error("model", drafter.string() + " is a drafter; name the model that it was trained for, and pass this " +
                             kind + " with --drafter");
  }
  auto found = find_by_name(name, roots, hub::Role::kModel);
  const std::string last = last_part(name).string();  // as a folder of its own, here or next to the drafter
  const bool is_name = !last.empty() && last != "." && last != "..";
  if (!found && is_name) found = find_by_name(last, roots, hub::Role::kModel);
  const fs::path sibling = without_last_slash(drafter).parent_path() / last;
  if (!found && is_name && is_folder_or_gguf(sibling)) found = sibling;
  const auto is_model = [](const fs::path& path) {
    return (is_gguf(path) || file_exists(path / "config.json")) && !is_drafter(path);
  };
  if (found && is_model(*found)) return *found;
  const std::string way = hub_name(name)
                              ? "; to fetch that: ashlar pull " + name
                              : std::string("; name the model itself, and pass this ") + kind + " with --drafter";
  throw Error("model", drafter.string() + " is a drafter for " + for_message(name) + ", which is not here" + way);
}

// The published drafter of a model that was pulled, if that was pulled as well.
std::optional<fs::path> find_published_drafter(const fs::path& model) {
  const std::string repo = name_of_snapshot(model);
  if (repo.empty()) return std::nullopt;
  std::optional<hub::RepoRef> drafter;
  try {
    drafter = drafter_for(repo, drafter_table(own_drafter_table()));
  } catch (const Error& error) {  // none was asked for
    print_warning(error.what());
  }
  if (!drafter) return std::nullopt;
  const hub::CachedSnapshot found = find_pulled(*drafter, hub::Role::kDrafter);
  if (!found.whole()) return std::nullopt;
  return found.folder;
}

// The folder or file next to the model that is named as it is.
std::optional<fs::path> find_sibling(const fs::path& model) {
  const fs::path stem = without_last_slash(model);
  std::string name = stem.string();
  if (is_gguf(stem)) name.resize(name.size() - kGgufSuffix);
  for (const std::string_view suffix : kDrafterSuffixes) {
    const std::string folder = name + std::string(suffix);
    for (const std::string& drafter : {folder, folder + ".gguf"}) {
      if (is_folder_or_gguf(drafter)) return drafter;
    }
  }
  return std::nullopt;
}

// The library that this is in, which may be loaded by another program.
fs::path own_library() {
  Dl_info own{};
  const auto* const here = reinterpret_cast<const void*>(&own_library);
  return ::dladdr(here, &own) != 0 && own.dli_fname != nullptr ? own.dli_fname : "";
}

}  // namespace

std::optional<hub::RepoRef> hub_name(const std::string& name) {
  if (is_gguf(name)) return std::nullopt;
  const auto ref = hub::parse_repo_ref(name);
  return ref && is_folder(ref->repo.substr(0, ref->repo.find('/'))) ? std::nullopt : ref;
}

hub::Role role_of(const hub::RepoRef& ref, hub::Role wanted) {
  const fs::path folder = hub::look_up(ref, hub::settings_from_environment(), wanted).folder;
  try {
    return !folder.empty() && is_drafter_folder(folder) ? hub::Role::kDrafter : wanted;
  } catch (const Error&) {  // no JSON: the loader says so, and a pull may mend it
    return wanted;
  }
}

hub::CachedSnapshot find_pulled(const hub::RepoRef& ref, hub::Role role) {
  return hub::look_up(ref, hub::settings_from_environment(), role_of(ref, role));
}

std::string verifier_of(const fs::path& drafter) {
  const std::string name = named_verifier(drafter), repo = name_of_snapshot(drafter);
  if (!name.empty() || repo.empty()) return name;
  return model_for(repo, drafter_table(own_drafter_table())).value_or("");
}

std::vector<fs::path> model_roots() {
  std::vector<fs::path> roots;
  const auto add = [&roots](const fs::path& root) {  // once: a wheel's variable names the folder next to its program
    if (std::find(roots.begin(), roots.end(), root) == roots.end()) roots.push_back(root);
  };
  if (const char* named = std::getenv("ASHLAR_MODELS"); named != nullptr && *named != '\0') add(named);
  std::error_code failed;
  fs::path executable = fs::read_symlink("/proc/self/exe", failed);
  if (failed) {  // in a chroot without /proc: as it was started
    const auto* const started = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
    if (started != nullptr) executable = fs::absolute(started, failed);
  }
  if (!failed) {
    const fs::path prefix = executable.parent_path().parent_path();
    add(prefix / "models");
    add(prefix / "share" / "ashlar" / "models");
  }
  for (const fs::path& file : {executable, own_library()}) {
    const auto sources = source_tree_of(file);
    if (!sources) continue;
    add(*sources / "models");
    break;
  }
  return roots;
}

std::string folder_name(const fs::path& folder) {
  fs::path normal = folder.lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  if (is_gguf(normal)) return normal.stem().string();
  if (const std::string repo = name_of_snapshot(normal); !repo.empty()) return repo;
  const std::string last = normal.filename().string();
  if (!last.empty() && last != "." && last != "..") return last;
  std::error_code failed;
  const fs::path whole = fs::weakly_canonical(normal, failed);
  const fs::path tail = whole.has_filename() ? whole.filename() : whole.parent_path().filename();
  return failed || tail.empty() ? folder.string() : tail.string();
}

ModelChoice locate_models(const std::string& model, const std::string& drafter, const std::vector<fs::path>& roots) {
  ModelChoice choice;
  choice.model = find_model(model, roots);
  if (is_drafter(choice.model)) {
    const fs::path named = choice.model;
    choice.model = find_verifier(named, roots);
    if (drafter.empty()) {
      choice.drafter = named;
      return choice;
    }
  }
  choice.wants_ngrams = drafter == kNgrams;
  if (drafter == "none" || drafter == kNgrams) return choice;
  if (drafter == kMtp) {
    mtp_stack(read_model_config(choice.model));  // says why where there can be none
    choice.drafter = choice.model;
    choice.drafts_itself = true;
    return choice;
  }
  if (!drafter.empty()) {
    choice.drafter = find_by_name(drafter, roots, hub::Role::kDrafter);
    if (!choice.drafter) {
      offer_pull("drafter", drafter, hub::Role::kDrafter);
      throw Error("drafter", drafter + " is not a folder or .gguf file, nor a drafter in " + list_of(roots) +
                                 "; expected a DFlash or EAGLE-3 drafter, mtp for a model that drafts itself, ngram "
                                 "for drafts without a drafter, or none for plain decoding");
    }
    refuse_what_drafts_nothing(*choice.drafter);
    return choice;
  }
  choice.drafter = find_sibling(choice.model);
  if (!choice.drafter) choice.drafter = find_published_drafter(choice.model);
  choice.drafter_was_found = choice.drafter && !model.empty();
  if (!choice.drafter && drafts_itself(choice.model)) {
    choice.drafter = choice.model;
    choice.drafts_itself = true;
  }
  choice.wants_ngrams = !choice.drafter;
  return choice;
}

}  // namespace ashlar
