//! Floating-point fields that survive JSON whatever their value.
//!
//! JSON has no NaN and no infinity, and `null` would turn "the model gave NaN" into "nothing was measured". So a finite
//! number is written as a number and the three others as the strings `"NaN"`, `"Infinity"` and `"-Infinity"`; reading takes
//! both back to the same bits (any NaN becomes the one quiet NaN).
//!
//! Used as `#[serde(with = "number")]` on `f32`, `f64`, an `Option` of either, and an interval `[f64; 2]`.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::ser::SerializeTuple;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes `value` so that [`deserialize`] gives it back.
pub fn serialize<T: Number, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.write(serializer)
}

/// Reads what [`serialize`] wrote.
pub fn deserialize<'de, T: Number, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::read(deserializer)
}

/// A value made of floating-point numbers.
pub trait Number: Sized {
    /// See [`serialize`].
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
    /// See [`deserialize`].
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

impl Number for f64 {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match name_of(*self) {
            Some(name) => serializer.serialize_str(name),
            None => serializer.serialize_f64(*self),
        }
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

impl Number for f32 {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match name_of(f64::from(*self)) {
            Some(name) => serializer.serialize_str(name),
            None => serializer.serialize_f32(*self),
        }
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::read(deserializer).map(|value| value as f32)
    }
}

impl<T: Number> Number for Option<T> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => serializer.serialize_some(&Written(value)),
            None => serializer.serialize_none(),
        }
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<Read<T>>::deserialize(deserializer).map(|value| value.map(|read| read.0))
    }
}

impl Number for [f64; 2] {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(2)?;
        for value in self {
            tuple.serialize_element(&Written(value))?;
        }
        tuple.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <[Read<f64>; 2]>::deserialize(deserializer).map(|pair| pair.map(|read| read.0))
    }
}

/// The JSON string of a value JSON has no number for.
fn name_of(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        None
    }
}

struct Written<'a, T>(&'a T);

impl<T: Number> Serialize for Written<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer)
    }
}

struct Read<T>(T);

impl<'de, T: Number> Deserialize<'de> for Read<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::read(deserializer).map(Read)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = f64;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number, \"NaN\", \"Infinity\" or \"-Infinity\"")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<f64, E> {
        match value {
            "NaN" => Ok(f64::NAN),
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(value), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct Fields {
        #[serde(with = "super")]
        single: f32,
        #[serde(with = "super")]
        double: f64,
        #[serde(default, with = "super")]
        maybe: Option<f64>,
        #[serde(with = "super")]
        pair: [f64; 2],
    }

    fn bits(fields: &Fields) -> (u32, u64, Option<u64>, [u64; 2]) {
        (
            fields.single.to_bits(),
            fields.double.to_bits(),
            fields.maybe.map(f64::to_bits),
            fields.pair.map(f64::to_bits),
        )
    }

    #[test]
    fn values_json_has_no_number_for_are_strings() {
        let fields = Fields {
            single: f32::NAN,
            double: f64::INFINITY,
            maybe: None,
            pair: [f64::NEG_INFINITY, 0.1],
        };
        let json = serde_json::to_string(&fields).unwrap();
        assert_eq!(
            json,
            r#"{"single":"NaN","double":"Infinity","maybe":null,"pair":["-Infinity",0.1]}"#
        );
        assert_eq!(bits(&serde_json::from_str(&json).unwrap()), bits(&fields));
    }

    #[test]
    fn integers_are_numbers_and_other_strings_are_not() {
        let read = |single: &str| {
            serde_json::from_str::<Fields>(&format!(
                r#"{{"single":{single},"double":-3,"pair":[1,2]}}"#
            ))
        };
        let fields = read("7").unwrap();
        assert_eq!(
            (fields.single, fields.double, fields.maybe, fields.pair),
            (7.0, -3.0, None, [1.0, 2.0])
        );
        for wrong in [r#""nan""#, r#""0.5""#, "true", "null", "[1]"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_bits_round_trip(single: u32, double: u64, maybe: Option<u64>, low: u64, high: u64) {
            let quiet32 = |value: f32| if value.is_nan() { f32::NAN } else { value };
            let quiet = |value: f64| if value.is_nan() { f64::NAN } else { value };
            let fields = Fields {
                single: quiet32(f32::from_bits(single)),
                double: quiet(f64::from_bits(double)),
                maybe: maybe.map(|value| quiet(f64::from_bits(value))),
                pair: [low, high].map(|value| quiet(f64::from_bits(value))),
            };
            let json = serde_json::to_string(&fields).unwrap();
            prop_assert_eq!(bits(&serde_json::from_str(&json).unwrap()), bits(&fields));
        }
    }
}
