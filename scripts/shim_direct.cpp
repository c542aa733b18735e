// What trtforge's shim is compared with by `scripts/bench --shim`: the same build, written against the same headers with nothing between.
//
// shim_direct SDK-FOLDER MODEL.onnx PLAN INPUTS PROFILES; PROFILES is a list "b,l:b,l:b,l" (min:opt:max), each for every input
// of INPUTS (comma-separated names).
#include <NvInfer.h>
#include <NvOnnxParser.h>

#include <chrono>
#include <cstdio>
#include <dlfcn.h>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

class Logger final : public nvinfer1::ILogger {
    void log(Severity, char const*) noexcept override {}
} logger;

using Clock = std::chrono::steady_clock;

double ms(Clock::time_point since) { return std::chrono::duration<double, std::milli>(Clock::now() - since).count(); }

std::vector<std::string> split(std::string const& text, char separator) {
    std::vector<std::string> parts;
    std::stringstream stream(text);
    for (std::string part; std::getline(stream, part, separator);) {
        parts.push_back(part);
    }
    return parts;
}

nvinfer1::Dims dims(std::string const& text) {
    nvinfer1::Dims out{};
    for (auto const& part : split(text, ',')) {
        out.d[out.nbDims++] = std::stoll(part);
    }
    return out;
}

long peak_kib() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("VmHWM:", 0) == 0) {
            return std::stol(line.substr(6));
        }
    }
    return 0;
}

int fail(char const* what) {
    std::fprintf(stderr, "%s\n", what);
    return 1;
}

} // namespace

int main(int argc, char** argv) {
    if (argc < 6) {
        return fail("usage: shim_direct SDK-FOLDER MODEL.onnx PLAN INPUTS PROFILE...");
    }
    std::string const folder = argv[1];
    void* infer = dlopen((folder + "/libtensorrt_rtx.so.1").c_str(), RTLD_NOW);
    void* onnx = infer == nullptr ? nullptr : dlopen((folder + "/libtensorrt_onnxparser_rtx.so.1").c_str(), RTLD_NOW);
    if (onnx == nullptr) {
        return fail(dlerror());
    }
    auto* make_builder = reinterpret_cast<void* (*)(void*, int32_t)>(dlsym(infer, "createInferBuilder_INTERNAL"));
    auto* make_parser = reinterpret_cast<void* (*)(void*, void*, int)>(dlsym(onnx, "createNvOnnxParser_INTERNAL"));
    auto const start = Clock::now();
    std::unique_ptr<nvinfer1::IBuilder> builder(
        static_cast<nvinfer1::IBuilder*>(make_builder(&logger, NV_TENSORRT_VERSION)));
    std::unique_ptr<nvinfer1::INetworkDefinition> network(builder->createNetworkV2(0));
    std::unique_ptr<nvinfer1::IBuilderConfig> config(builder->createBuilderConfig());
    std::unique_ptr<nvonnxparser::IParser> parser(
        static_cast<nvonnxparser::IParser*>(make_parser(network.get(), &logger, NV_ONNX_PARSER_VERSION)));
    auto const parsing = Clock::now();
    if (!parser->parseFromFile(argv[2], 2)) {
        return fail("cannot parse");
    }
    double const parse_ms = ms(parsing);
    for (int i = 5; i < argc; ++i) {
        auto const shapes = split(argv[i], ':');
        auto* profile = builder->createOptimizationProfile();
        for (auto const& input : split(argv[4], ',')) {
            profile->setDimensions(input.c_str(), nvinfer1::OptProfileSelector::kMIN, dims(shapes.at(0)));
            profile->setDimensions(input.c_str(), nvinfer1::OptProfileSelector::kOPT, dims(shapes.at(1)));
            profile->setDimensions(input.c_str(), nvinfer1::OptProfileSelector::kMAX, dims(shapes.at(2)));
        }
        config->addOptimizationProfile(profile);
    }
    config->setProfilingVerbosity(nvinfer1::ProfilingVerbosity::kDETAILED);
    auto const building = Clock::now();
    std::unique_ptr<nvinfer1::IHostMemory> plan(builder->buildSerializedNetwork(*network, *config));
    if (plan == nullptr) {
        return fail("cannot build");
    }
    std::ofstream(argv[3], std::ios::binary).write(static_cast<char const*>(plan->data()), static_cast<std::streamsize>(plan->size()));
    double const build_ms = ms(building);
    std::printf("{\"parse_ms\":%.1f,\"build_ms\":%.1f,\"total_ms\":%.1f,\"bytes\":%zu,\"peak_kib\":%ld}\n", parse_ms, build_ms,
                ms(start), plan->size(), peak_kib());
    return 0;
}
