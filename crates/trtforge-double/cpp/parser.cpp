// The double of the ONNX parser: it does not read the model but the recording that belongs to it.

#include "network.h"

#include <NvOnnxParser.h>

namespace {

using namespace trtdouble;

class ParserError final : public nvonnxparser::IParserError {
  public:
    ParserError(nvonnxparser::ErrorCode code, std::string text, int node)
        : code_(code), text_(std::move(text)), node_(node) {}
    nvonnxparser::ErrorCode code() const override { return code_; }
    char const* desc() const override { return text_.c_str(); }
    char const* file() const override { return "test double"; }
    int line() const override { return 0; }
    char const* func() const override { return "parse"; }
    int node() const override { return node_; }
    char const* nodeName() const override { return ""; }
    char const* nodeOperator() const override { return ""; }
    char const* const* localFunctionStack() const override { return nullptr; }
    std::int32_t localFunctionStackSize() const override { return 0; }

  private:
    nvonnxparser::ErrorCode code_;
    std::string text_;
    int node_;
};

// `<folder>/model.int8.onnx` is recorded in `<recordings>/model.int8.json`, or in the one file that is named.
std::string recording_of(std::string const& model) {
    auto const named = recording();
    if (named.empty()) {
        throw std::runtime_error("the test double reads no models: name its recording in TRTFORGE_DOUBLE_RECORDING");
    }
    auto const slash = model.rfind('/');
    auto const file = slash == std::string::npos ? model : model.substr(slash + 1);
    auto const in_folder = named + "/" + file.substr(0, file.rfind('.')) + ".json";
    try {
        return read_file(in_folder);
    } catch (std::exception const&) {
        return read_file(named);
    }
}

class Parser final : public nvonnxparser::IParser {
  public:
    Parser(Network* network, ILogger* logger) : voice_(logger, nullptr), network_(network) {
        born("IParser", this, nullptr);
    }
    ~Parser() noexcept override { died("IParser", this); }

    bool parseFromFile(char const* file, int) noexcept override {
        if (fails("parseFromFile")) {
            return fault(nvonnxparser::ErrorCode::kUNSUPPORTED_NODE, "parseFromFile: told to fail", 0);
        }
        if (fails("parseFromFile/silent")) {
            return false;
        }
        try {
            network_->take(Json::parse(recording_of(file)));
            return true;
        } catch (std::exception const& error) {
            return fault(nvonnxparser::ErrorCode::kMODEL_DESERIALIZE_FAILED, error.what(), -1);
        }
    }
    int getNbErrors() const noexcept override { return static_cast<int>(errors_.size()); }
    nvonnxparser::IParserError const* getError(int index) const noexcept override {
        return errors_.at(static_cast<std::size_t>(index)).get();
    }
    void clearErrors() noexcept override { errors_.clear(); }
    char const* const* getUsedVCPluginLibraries(std::int64_t& count) const noexcept override {
        count = 0;
        return nullptr;
    }
    void setFlags(nvonnxparser::OnnxParserFlags flags) noexcept override { flags_ = flags; }
    nvonnxparser::OnnxParserFlags getFlags() const noexcept override { return flags_; }
    void setFlag(nvonnxparser::OnnxParserFlag flag) noexcept override {
        flags_ |= 1U << static_cast<std::uint32_t>(flag);
    }
    void clearFlag(nvonnxparser::OnnxParserFlag flag) noexcept override {
        flags_ &= ~(1U << static_cast<std::uint32_t>(flag));
    }
    bool getFlag(nvonnxparser::OnnxParserFlag flag) const noexcept override {
        return (flags_ >> static_cast<std::uint32_t>(flag) & 1U) != 0;
    }

    bool parse(void const*, std::size_t, char const*) noexcept override { not_there("IParser::parse"); }
    bool supportsOperator(char const*) const noexcept override { not_there("IParser::supportsOperator"); }
    nvinfer1::ITensor const* getLayerOutputTensor(char const*, std::int64_t) noexcept override {
        not_there("IParser::getLayerOutputTensor");
    }
    bool supportsModelV2(void const*, std::size_t, char const*) noexcept override {
        not_there("IParser::supportsModelV2");
    }
    std::int64_t getNbSubgraphs() noexcept override { not_there("IParser::getNbSubgraphs"); }
    bool isSubgraphSupported(std::int64_t) noexcept override { not_there("IParser::isSubgraphSupported"); }
    std::int64_t* getSubgraphNodes(std::int64_t, std::int64_t&) noexcept override {
        not_there("IParser::getSubgraphNodes");
    }
    bool loadModelProto(void const*, std::size_t, char const*) noexcept override {
        not_there("IParser::loadModelProto");
    }
    bool loadInitializer(char const*, void const*, std::size_t) noexcept override {
        not_there("IParser::loadInitializer");
    }
    bool parseModelProto() noexcept override { not_there("IParser::parseModelProto"); }
    bool setBuilderConfig(nvinfer1::IBuilderConfig const*) noexcept override {
        not_there("IParser::setBuilderConfig");
    }
    void setRefitObserver(nvonnxparser::IRefitterObserver*) noexcept override {
        not_there("IParser::setRefitObserver");
    }

  private:
    bool fault(nvonnxparser::ErrorCode code, std::string const& text, int node) {
        errors_.push_back(std::make_unique<ParserError>(code, text, node));
        voice_.error(ErrorCode::kINVALID_ARGUMENT, text);
        return false;
    }

    Voice voice_;
    Network* network_;
    nvonnxparser::OnnxParserFlags flags_ = 0;
    std::vector<std::unique_ptr<ParserError>> errors_;
};

} // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int getNvOnnxParserVersion() noexcept { return NV_ONNX_PARSER_VERSION; }

EXPORTED void* createNvOnnxParser_INTERNAL(void* network, void* logger, int) noexcept {
    auto* const known = static_cast<ILogger*>(logger);
    if (refused(Voice(known, nullptr), "createNvOnnxParser")) {
        return nullptr;
    }
    auto* const mine = static_cast<Network*>(static_cast<nvinfer1::INetworkDefinition*>(network));
    return static_cast<nvonnxparser::IParser*>(new Parser(mine, known));
}
