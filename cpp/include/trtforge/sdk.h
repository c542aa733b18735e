// The one interface through which trtforge talks to a TensorRT SDK.
//
// No TensorRT type appears here: the same interface is implemented once per SDK (src/sdk.cpp, compiled against each
// SDK's own headers), and its numbers (flags, severities, data types) are those of that SDK's headers, which bindgen
// gives to Rust. No policy lives here either: what to set, and what to refuse, is decided in Rust.
//
// Every function that is not noexcept may throw; the cxx bridge turns what it throws into an error. Nothing else crosses: callbacks from
// TensorRT are noexcept and only store or ask.
#pragma once

#include "rust/cxx.h"

#include <cstdint>
#include <memory>

namespace trtforge {

// Defined by the bridge (crates/trtforge-tensorrt-sys/src/bridge.rs).
enum class CacheFit : std::uint8_t;
enum class Flag : std::uint8_t;
enum class PreviewFeature : std::uint8_t;
enum class SdkId : std::uint8_t;
enum class Setting : std::uint8_t;
enum class TacticSource : std::uint8_t;
struct Factories;
struct ParserFault;
struct RecordedError;
struct ShapeRange;
struct TensorInfo;
struct LogSink; // Rust: where log lines go
struct Monitor; // Rust: hears of progress, may cancel
struct OutputMemory; // Rust: memory of an output whose size is known only once it ran
struct PlanSink; // Rust: takes a plan piece by piece

// Bytes that the SDK owns (a timing cache), readable without a copy for as long as this lives.
class HostBytes {
  public:
    virtual ~HostBytes() = default;
    virtual rust::Slice<std::uint8_t const> bytes() const noexcept = 0;
};

// One network on its way to one plan: parse, then settings and profiles, then build.
class Builder {
  public:
    virtual ~Builder() = default;

    // Parses the model (and its external data, relative to it). No faults means success.
    virtual rust::Vec<ParserFault> parse_file(rust::Slice<std::uint8_t const> path) = 0;
    virtual rust::Vec<TensorInfo> inputs() const = 0;
    virtual rust::Vec<TensorInfo> outputs() const = 0;
    virtual std::int32_t layer_count() const = 0;

    // Each setting is read back; one that the SDK did not take, or that its version has not, throws.
    virtual void set(Setting setting, std::int64_t value) = 0;
    virtual void set_flag(Flag flag, bool on) = 0;
    virtual void set_tactic_sources(rust::Slice<TacticSource const> sources) = 0;
    virtual void set_memory_limit(std::int32_t memory_pool, std::uint64_t bytes) = 0;
    virtual void set_preview_feature(PreviewFeature feature) = 0;
    virtual void set_compute_capabilities(rust::Slice<std::int32_t const> capabilities) = 0;
    virtual void set_build_route(rust::Str route) = 0;
    // What `set_build_route` may be given, as the library's own JSON; empty where it has no routes.
    virtual rust::String build_routes() const = 0;
    // Before parsing: their operators then have an implementation. `serialize` puts the libraries into the plan.
    virtual void load_plugins(rust::Slice<rust::String const> paths, bool serialize) = 0;
    // After parsing. False: no such weights, or they cannot be refitted.
    virtual bool mark_refittable(rust::Str weights) = 0;

    virtual void add_profile(rust::Slice<ShapeRange const> ranges) = 0;

    // Gives the builder a timing cache; empty bytes start a new one.
    virtual CacheFit set_timing_cache(rust::Slice<std::uint8_t const> cache) = 0;
    virtual std::unique_ptr<HostBytes> timing_cache() const = 0;

    // Gives the plan to `sink`. False when the library failed, the sink refused or the monitor cancelled; `errors` and
    // the log say why.
    virtual bool build(Monitor const& monitor, PlanSink const& sink) = 0;
    virtual rust::Vec<RecordedError> errors() const = 0;
};

// One execution of an engine at a time: its shapes, its addresses, its stream.
//
// Streams and addresses are those of the CUDA driver, as numbers. Nothing here allocates device memory: what the
// addresses point to must live until the context is gone or another address is set.
class Context {
  public:
    virtual ~Context() = default;
    // The order is that of TensorRT: profile, then shapes, then the questions about them, then addresses.
    virtual void set_profile(std::int32_t index, std::size_t stream) = 0;
    virtual void set_input_shape(rust::Str input, rust::Slice<std::int64_t const> dims) = 0;
    // −1 where only a run tells.
    virtual rust::Vec<std::int64_t> shape(rust::Str tensor) const = 0;
    // Names of inputs that still lack a shape; empty when a run can begin.
    virtual rust::Vec<rust::String> unready() = 0;
    // An upper bound, for outputs whose shape only a run tells.
    virtual std::int64_t max_output_bytes(rust::Str output) const = 0;
    // Scratch memory that the shapes need.
    virtual std::size_t memory_bytes() = 0;
    virtual void set_memory(std::size_t address, std::size_t bytes) = 0;
    virtual void set_address(rust::Str tensor, std::size_t address) = 0;
    // Memory of this output comes from `memory` at each run, which also hears its shape.
    virtual void set_output_memory(rust::Str output, rust::Box<OutputMemory> memory) = 0;
    // False: the library refused; `take_errors` and the log say why.
    virtual bool enqueue(std::size_t stream) noexcept = 0;
    // What was recorded since the last time, and forgets it.
    virtual rust::Vec<RecordedError> take_errors() = 0;
};

// A plan brought to life.
class Engine {
  public:
    virtual ~Engine() = default;
    virtual rust::Vec<TensorInfo> tensors() const = 0;
    virtual std::int32_t profile_count() const = 0;
    virtual rust::Vec<ShapeRange> profile(std::int32_t index) const = 0;
    // What the inspector knows of the whole engine, in the given LayerInformationFormat.
    virtual rust::String inspect(std::int32_t format) const = 0;
    // Weights that may stay on the host; 0 where the plan was not built to stream them.
    virtual std::int64_t streamable_weights_bytes() const = 0;
    // Lets the library choose how many of them the GPU holds, by the memory that is free; only before any context.
    virtual std::int64_t stream_weights() = 0;
    // Null when the library failed; `errors` and the log say why.
    virtual std::unique_ptr<Context> make_context() const = 0;
    virtual rust::Vec<RecordedError> take_errors() const = 0;
};

// Only to be made where a CUDA driver has initialised: without one the factory returns garbage, not null.
class Runtime {
  public:
    virtual ~Runtime() = default;
    // Null when the library refused the plan; `errors` and the log say why.
    virtual std::unique_ptr<Engine> deserialize(rust::Slice<std::uint8_t const> plan) = 0;
    virtual rust::Vec<RecordedError> errors() const = 0;
};

// One SDK, as its headers describe it.
class Sdk {
  public:
    virtual ~Sdk() = default;
    virtual std::int32_t header_version() const = 0;
    virtual std::unique_ptr<Builder> make_builder(Factories const& factories, rust::Box<LogSink> sink) const = 0;
    virtual std::unique_ptr<Runtime> make_runtime(Factories const& factories, rust::Box<LogSink> sink) const = 0;
};

// Each is defined by one compilation of src/sdk.cpp.
Sdk const& rtx_sdk();
Sdk const& tensorrt11_sdk();
#ifdef TRTFORGE_WITH_TENSORRT10
Sdk const& tensorrt10_sdk();
#endif

} // namespace trtforge
