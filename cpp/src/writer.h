// Where a plan goes: out of the library as it is serialized, where the library can, else in one piece. Private to sdk.cpp.
#pragma once

#include "settings.h"

namespace trtforge::TRTFORGE_SDK {
namespace {

inline rust::Slice<std::uint8_t const> bytes_of(void const* data, std::size_t size) noexcept {
    return {static_cast<std::uint8_t const*>(data), size};
}

// The build script defines it where the headers have `buildSerializedNetworkToStream`.
#ifdef TRTFORGE_HAS_STREAM_WRITER

class StreamWriter final : public nvinfer1::IStreamWriter {
  public:
    explicit StreamWriter(PlanSink const& sink) : sink_(sink) {}
    // Rust catches what goes wrong in it and says false; the library then gives up.
    std::int64_t write(void const* data, std::int64_t size) noexcept override {
        if (size < 0 || !sink_.write(bytes_of(data, static_cast<std::size_t>(size)))) {
            return -1;
        }
        return size;
    }

  private:
    PlanSink const& sink_;
};

inline bool build_into(IBuilder& builder, INetworkDefinition& network, IBuilderConfig& config, PlanSink const& sink) {
    StreamWriter writer(sink);
    return builder.buildSerializedNetworkToStream(network, config, writer);
}

#else

inline bool build_into(IBuilder& builder, INetworkDefinition& network, IBuilderConfig& config, PlanSink const& sink) {
    std::unique_ptr<IHostMemory> const plan(builder.buildSerializedNetwork(network, config));
    return plan != nullptr && sink.write(bytes_of(plan->data(), plan->size()));
}

#endif

} // namespace
} // namespace trtforge::TRTFORGE_SDK
