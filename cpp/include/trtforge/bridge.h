// The free functions of the cxx bridge: they pick the SDK, the rest is its.
#pragma once

#include "trtforge/sdk.h"

namespace trtforge {

std::int32_t header_version(SdkId sdk);
std::unique_ptr<Builder> make_builder(SdkId sdk, Factories const& factories, rust::Box<LogSink> sink);
std::unique_ptr<Runtime> make_runtime(SdkId sdk, Factories const& factories, rust::Box<LogSink> sink);

} // namespace trtforge
