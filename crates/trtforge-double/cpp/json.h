// The little JSON that recordings and accounts need.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trtdouble {

class Json {
  public:
    enum class Kind { kNull, kBool, kNumber, kText, kArray, kObject };

    Json() = default;
    explicit Json(bool value) : kind_(Kind::kBool), number_(value ? 1 : 0) {}
    explicit Json(std::int64_t value) : kind_(Kind::kNumber), number_(static_cast<double>(value)) {}
    explicit Json(std::string value) : kind_(Kind::kText), text_(std::move(value)) {}
    static Json array();
    static Json object();
    // Throws std::runtime_error on what is no JSON.
    static Json parse(std::string const& text);

    Kind kind() const { return kind_; }
    std::string const& text() const;
    std::int64_t integer() const;
    double number() const;
    std::vector<Json> const& items() const;
    std::vector<std::pair<std::string, Json>> const& fields() const;
    // The field of that name; null where there is none.
    Json const& at(std::string const& name) const;
    std::vector<std::int64_t> integers() const;

    void push(Json value) { items_.push_back(std::move(value)); }
    void set(std::string const& name, Json value);
    std::string dump() const;

  private:
    friend class Reader;
    Kind kind_ = Kind::kNull;
    double number_ = 0;
    std::string text_;
    std::vector<Json> items_;
    std::vector<std::pair<std::string, Json>> fields_;
};

} // namespace trtdouble
