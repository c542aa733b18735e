#include "state.h"

#include "device.h"
#include "json.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>
#include <vector>

namespace trtdouble {
namespace {

struct Life {
    std::string kind;
    void const* owner;
};

struct State {
    std::mutex mutex;
    std::map<std::string, std::uint64_t> calls;
    // How often each call was used when it is to fail.
    std::map<std::string, std::vector<std::uint64_t>> failures;
    std::map<void const*, Life> lives;
    std::vector<std::string> destroyed;
    std::vector<std::string> misuses;
    std::map<std::string, std::string> options;
    std::string recording;
};

void read_environment(State& state) {
    if (char const* path = std::getenv("TRTFORGE_DOUBLE_RECORDING")) {
        state.recording = path;
    }
    // "call:n,call:n"
    if (char const* failures = std::getenv("TRTFORGE_DOUBLE_FAIL")) {
        std::stringstream list(failures);
        for (std::string entry; std::getline(list, entry, ',');) {
            auto const colon = entry.rfind(':');
            auto const nth = colon == std::string::npos ? "1" : entry.substr(colon + 1);
            state.failures[entry.substr(0, colon)].push_back(std::strtoull(nth.c_str(), nullptr, 10));
        }
    }
}

std::string account(State& state);

void write_account();

// Never destroyed: objects of the library may end after any static.
State& state() {
    static State* const made = [] {
        auto* fresh = new State;
        read_environment(*fresh);
        if (std::getenv("TRTFORGE_DOUBLE_ACCOUNT") != nullptr) {
            std::atexit(write_account);
        }
        return fresh;
    }();
    return *made;
}

void write_account() {
    std::lock_guard<std::mutex> lock(state().mutex);
    std::ofstream(std::getenv("TRTFORGE_DOUBLE_ACCOUNT")) << account(state());
}

Json list(std::vector<std::string> const& texts) {
    Json out = Json::array();
    for (auto const& text : texts) {
        out.push(Json(text));
    }
    return out;
}

std::string account(State& state) {
    std::map<std::string, std::int64_t> live;
    for (auto const& [object, life] : state.lives) {
        ++live[life.kind];
    }
    Json lives = Json::object();
    for (auto const& [kind, count] : live) {
        lives.set(kind, Json(count));
    }
    Json calls = Json::object();
    for (auto const& [call, count] : state.calls) {
        calls.set(call, Json(static_cast<std::int64_t>(count)));
    }
    Json options = Json::object();
    for (auto const& [name, value] : state.options) {
        options.set(name, Json(value));
    }
    Json out = Json::object();
    out.set("live", lives);
    out.set("destroyed", list(state.destroyed));
    out.set("misuses", list(state.misuses));
    out.set("calls", calls);
    out.set("options", options);
    return out.dump();
}

} // namespace

bool fails(char const* call) {
    auto& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    auto const use = ++s.calls[call];
    auto const found = s.failures.find(call);
    return found != s.failures.end() &&
           std::find(found->second.begin(), found->second.end(), use) != found->second.end();
}

void not_there(char const* what) {
    std::fprintf(stderr, "the test double has no %s\n", what);
    std::abort();
}

void born(char const* kind, void const* object, void const* owner) {
    auto& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    s.lives[object] = {kind, owner};
}

void died(char const* kind, void const* object) {
    auto& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    if (s.lives.erase(object) == 0) {
        s.misuses.push_back(std::string(kind) + " ended twice, or never lived");
        return;
    }
    s.destroyed.emplace_back(kind);
    for (auto const& [other, life] : s.lives) {
        if (life.owner == object) {
            s.misuses.push_back(std::string(kind) + " ended before its " + life.kind);
        }
    }
}

bool lives(void const* object) {
    auto& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    return s.lives.count(object) != 0;
}

void misuse(std::string const& what) {
    auto& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    s.misuses.push_back(what);
}

void option(std::string const& name, std::string const& value) {
    auto& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    s.options[name] = value;
}

std::string recording() {
    auto& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    return s.recording;
}

std::string open_plugin(char const* path) {
    return dlopen(path, RTLD_NOW | RTLD_LOCAL) == nullptr ? dlerror() : std::string();
}

std::int64_t number_from(char const* variable, std::int64_t otherwise) {
    char const* text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

} // namespace trtdouble

using trtdouble::state;

void trtforge_double_fail_at(char const* call, std::uint64_t nth) {
    auto& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    s.failures[call].push_back(s.calls[call] + nth);
}

void trtforge_double_reset() {
    trtdouble::forgive();
    auto& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    s.calls.clear();
    s.failures.clear();
    s.lives.clear();
    s.destroyed.clear();
    s.misuses.clear();
    s.options.clear();
    s.recording.clear();
}

void trtforge_double_record_from(char const* path) {
    auto& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    s.recording = path;
}

std::uint64_t trtforge_double_account(char* out, std::uint64_t capacity) {
    auto& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    auto const text = trtdouble::account(s);
    std::memcpy(out, text.data(), std::min<std::uint64_t>(capacity, text.size()));
    return text.size();
}
