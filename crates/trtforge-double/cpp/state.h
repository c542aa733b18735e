// What the double's libraries share: which call is to fail next, and an account of what lives.
//
// It is a library of its own (libtrtforge_double.so), so that the CUDA driver's double and TensorRT's know the same.
#pragma once

#include <cstdint>
#include <string>

namespace trtdouble {

// Counts one use of `call`; true when this use is one that a test told to fail.
bool fails(char const* call);

// Ends the process: the double lacks what was asked of it, and must not seem to have done it.
[[noreturn]] void not_there(char const* what);

// An object begins to live, inside the life of `owner` (null: of nobody), which must outlive it.
void born(char const* kind, void const* object, void const* owner = nullptr);
// It ends. Ending before what it owns, twice, or unknown is a misuse.
void died(char const* kind, void const* object);
bool lives(void const* object);

// A rule of the real library that the caller broke; tests assert that there is none.
void misuse(std::string const& what);

// A builder option that was set, for tests to assert.
void option(std::string const& name, std::string const& value);

// The recording that the double of the ONNX parser reads: a file, or a folder with one `<model>.json` each.
std::string recording();

// Opens a plugin library for good; says what the dynamic linker said where it cannot.
std::string open_plugin(char const* path);

// A number from the environment, for the binary's end-to-end tests.
std::int64_t number_from(char const* variable, std::int64_t otherwise);

} // namespace trtdouble

// For the Rust side.
extern "C" {
void trtforge_double_fail_at(char const* call, std::uint64_t nth);
void trtforge_double_reset();
void trtforge_double_record_from(char const* path);
// Writes the account as JSON, as far as it fits; returns its whole length.
std::uint64_t trtforge_double_account(char* out, std::uint64_t capacity);
}
