#include "json.h"

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace trtdouble {

class Reader {
  public:
    explicit Reader(std::string const& text) : text_(text) {}

    Json document() {
        Json value = read();
        space();
        if (at_ != text_.size()) {
            throw std::runtime_error("more after the end of the JSON");
        }
        return value;
    }

  private:
    [[noreturn]] void bad() const { throw std::runtime_error("no JSON at byte " + std::to_string(at_)); }
    void space() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
            ++at_;
        }
    }
    char peek() {
        space();
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    void expect(char wanted) {
        if (peek() != wanted) {
            bad();
        }
        ++at_;
    }
    bool word(char const* wanted) {
        std::string const w(wanted);
        if (text_.compare(at_, w.size(), w) != 0) {
            return false;
        }
        at_ += w.size();
        return true;
    }

    Json read() {
        switch (peek()) {
        case '{': return object();
        case '[': return array();
        case '"': return Json(string());
        case 't':
            if (word("true")) {
                return Json(true);
            }
            bad();
        case 'f':
            if (word("false")) {
                return Json(false);
            }
            bad();
        case 'n':
            if (word("null")) {
                return Json();
            }
            bad();
        default: return number();
        }
    }

    Json number() {
        char* end = nullptr;
        double const value = std::strtod(text_.c_str() + at_, &end);
        auto const length = static_cast<std::size_t>(end - (text_.c_str() + at_));
        if (length == 0) {
            bad();
        }
        at_ += length;
        Json json(static_cast<std::int64_t>(0));
        json.number_ = value;
        return json;
    }

    Json array() {
        Json out = Json::array();
        expect('[');
        while (peek() != ']') {
            out.push(read());
            if (peek() != ']') {
                expect(',');
            }
        }
        ++at_;
        return out;
    }

    Json object() {
        Json out = Json::object();
        expect('{');
        while (peek() != '}') {
            std::string name = string();
            expect(':');
            out.fields_.emplace_back(std::move(name), read());
            if (peek() != '}') {
                expect(',');
            }
        }
        ++at_;
        return out;
    }

    std::string string() {
        expect('"');
        std::string out;
        while (at_ < text_.size() && text_[at_] != '"') {
            char const c = text_[at_++];
            if (c != '\\') {
                out += c;
            } else {
                escape(out);
            }
        }
        expect('"');
        return out;
    }

    void escape(std::string& out) {
        if (at_ >= text_.size()) {
            bad();
        }
        char const c = text_[at_++];
        switch (c) {
        case 'n': out += '\n'; break;
        case 't': out += '\t'; break;
        case 'r': out += '\r'; break;
        case 'b': out += '\b'; break;
        case 'f': out += '\f'; break;
        case 'u': {
            if (at_ + 4 > text_.size()) {
                bad();
            }
            // serde_json escapes control characters only; what is beyond ASCII comes as UTF-8.
            out += static_cast<char>(std::strtol(text_.substr(at_, 4).c_str(), nullptr, 16));
            at_ += 4;
            break;
        }
        default: out += c;
        }
    }

    std::string const& text_;
    std::size_t at_ = 0;
};

namespace {

void quote(std::string& out, std::string const& text) {
    out += '"';
    for (char const c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
            out += escaped;
        } else {
            out += c;
        }
    }
    out += '"';
}

} // namespace

Json Json::array() {
    Json out;
    out.kind_ = Kind::kArray;
    return out;
}

Json Json::object() {
    Json out;
    out.kind_ = Kind::kObject;
    return out;
}

Json Json::parse(std::string const& text) { return Reader(text).document(); }

std::string const& Json::text() const {
    if (kind_ != Kind::kText) {
        throw std::runtime_error("text expected in the JSON");
    }
    return text_;
}

double Json::number() const {
    if (kind_ != Kind::kNumber) {
        throw std::runtime_error("number expected in the JSON");
    }
    return number_;
}

std::int64_t Json::integer() const { return static_cast<std::int64_t>(number()); }

std::vector<Json> const& Json::items() const { return items_; }
std::vector<std::pair<std::string, Json>> const& Json::fields() const { return fields_; }

Json const& Json::at(std::string const& name) const {
    static Json const null;
    for (auto const& [field, value] : fields_) {
        if (field == name) {
            return value;
        }
    }
    return null;
}

std::vector<std::int64_t> Json::integers() const {
    std::vector<std::int64_t> out;
    for (auto const& item : items_) {
        out.push_back(item.integer());
    }
    return out;
}

void Json::set(std::string const& name, Json value) {
    for (auto& [field, old] : fields_) {
        if (field == name) {
            old = std::move(value);
            return;
        }
    }
    fields_.emplace_back(name, std::move(value));
}

std::string Json::dump() const {
    std::string out;
    char number[32];
    switch (kind_) {
    case Kind::kNull: return "null";
    case Kind::kBool: return number_ != 0 ? "true" : "false";
    case Kind::kNumber:
        std::snprintf(number, sizeof number, std::floor(number_) == number_ ? "%.0f" : "%.17g", number_);
        return number;
    case Kind::kText: quote(out, text_); return out;
    case Kind::kArray:
        for (auto const& item : items_) {
            out += (out.empty() ? "" : ",") + item.dump();
        }
        return "[" + out + "]";
    case Kind::kObject:
        for (auto const& [field, value] : fields_) {
            out += out.empty() ? "" : ",";
            quote(out, field);
            out += ":" + value.dump();
        }
        return "{" + out + "}";
    }
    return out;
}

} // namespace trtdouble
