//! One trace event, with only what a diagnosis needs of it.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// On the device.
    Device(DeviceKind),
    /// On a host thread.
    Host(HostCategory),
    /// Neither: flow arrows, overhead, GPU annotations, synchronization spans drawn on the device.
    Other,
}

/// What keeps a device busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// A kernel.
    Kernel,
    /// A copy.
    Copy,
    /// A memset.
    Memset,
}

/// Where a host span comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostCategory {
    /// An operator such as `aten::mm`.
    Operator,
    /// A Python function.
    Python,
    /// `record_function`, profiler steps.
    Annotation,
    /// A call of the CUDA runtime or driver.
    Runtime,
}

impl HostCategory {
    /// How many there are.
    pub const COUNT: usize = 4;
}

impl Category {
    /// Kineto's names, and those of its releases before 1.11.
    fn parse(text: &str) -> Self {
        match text {
            "kernel" | "Kernel" | "concurrent_kernel" => Self::Device(DeviceKind::Kernel),
            "gpu_memcpy" | "Memcpy" => Self::Device(DeviceKind::Copy),
            "gpu_memset" | "Memset" => Self::Device(DeviceKind::Memset),
            "cpu_op" | "Operator" => Self::Host(HostCategory::Operator),
            "python_function" | "Python function" => Self::Host(HostCategory::Python),
            "user_annotation" => Self::Host(HostCategory::Annotation),
            "cuda_runtime" | "cuda_driver" | "Runtime" => Self::Host(HostCategory::Runtime),
            _ => Self::Other,
        }
    }

    /// Whether the arguments of such an event are needed.
    fn has_arguments(self) -> bool {
        matches!(self, Self::Device(_) | Self::Host(HostCategory::Runtime))
    }
}

/// A string, borrowed unless it has escapes.
#[derive(Debug, Default)]
pub struct Text<'de>(pub Cow<'de, str>);

/// A number, or a string that may hold one, as written.
#[derive(Debug, Default, Clone, Copy)]
pub struct Raw<'de>(pub &'de str);

impl Raw<'_> {
    /// Microseconds as nanoseconds.
    pub fn nanoseconds(self) -> Option<i64> {
        nanoseconds(self.0)
    }
}

/// One element of `traceEvents`.
#[derive(Debug)]
pub struct Event<'de> {
    /// `ph` is `X`: a span.
    pub complete: bool,
    pub category: Category,
    pub name: Text<'de>,
    pub start: Option<Raw<'de>>,
    pub duration: Option<Raw<'de>>,
    pub process: Raw<'de>,
    pub thread: Raw<'de>,
    pub arguments: Arguments<'de>,
}

/// The part of `args` that matters.
#[derive(Debug, Default)]
pub struct Arguments<'de> {
    pub device: Option<Raw<'de>>,
    pub stream: Option<Raw<'de>>,
    pub correlation: Option<Raw<'de>>,
    pub bytes: Option<Raw<'de>>,
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

impl<'de> Deserialize<'de> for Raw<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&'de RawValue>::deserialize(deserializer)?.get();
        Ok(Self(text.trim_matches('"')))
    }
}

impl<'de> Deserialize<'de> for Arguments<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ArgumentsVisitor)
    }
}

struct ArgumentsVisitor;

impl<'de> Visitor<'de> for ArgumentsVisitor {
    type Value = Arguments<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of arguments")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Arguments::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut arguments = Arguments::default();
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key.0 {
                "device" => arguments.device = Some(map.next_value()?),
                "stream" => arguments.stream = Some(map.next_value()?),
                "correlation" => arguments.correlation = Some(map.next_value()?),
                "bytes" => arguments.bytes = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(arguments)
    }
}

impl<'de> Deserialize<'de> for Event<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EventVisitor)
    }
}

struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = Event<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trace event (an object)")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut event = Event {
            complete: false,
            category: Category::Other,
            name: Text::default(),
            start: None,
            duration: None,
            process: Raw::default(),
            thread: Raw::default(),
            arguments: Arguments::default(),
        };
        // Before `cat` is known, arguments are read to be safe.
        let mut arguments = true;
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key.0 {
                "ph" => {
                    event.complete = &*map.next_value::<Text<'de>>()?.0 == "X";
                    arguments &= event.complete;
                }
                "cat" => {
                    event.category = Category::parse(&map.next_value::<Text<'de>>()?.0);
                    arguments &= event.category.has_arguments();
                }
                "name" => event.name = map.next_value()?,
                "ts" => event.start = Some(map.next_value()?),
                "dur" => event.duration = Some(map.next_value()?),
                "pid" => event.process = map.next_value()?,
                "tid" => event.thread = map.next_value()?,
                "args" if arguments => event.arguments = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(event)
    }
}

/// Decimal microseconds as nanoseconds, exact; digits beyond the nanosecond are dropped.
///
/// A double cannot hold them: at today's microseconds since 1970 its steps are a quarter of a microsecond.
fn nanoseconds(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    if digits.contains(['e', 'E']) {
        let value = text.parse::<f64>().ok()? * 1000.0;
        return (value.abs() < 9.0e18).then_some(value.round() as i64);
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole: i64 = whole.bytes().all(|b| b.is_ascii_digit()).then(|| whole.parse().ok())??;
    let fraction = fraction
        .bytes()
        .chain(std::iter::repeat(b'0'))
        .take(3)
        .fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
    let value = whole.checked_mul(1000)?.checked_add(fraction)?;
    // Room for sums of two.
    (value < i64::MAX / 4).then_some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_exact_to_the_nanosecond() {
        let cases = [
            ("0", Some(0)),
            ("12", Some(12_000)),
            ("12.5", Some(12_500)),
            ("1695835542514261.123", Some(1_695_835_542_514_261_123)),
            ("1212075548353.3049", Some(1_212_075_548_353_304)),
            ("-0.001", Some(-1)),
            ("-2.25", Some(-2_250)),
            ("1.5e3", Some(1_500_000)),
            ("9300000000000000000", None),
            ("1e300", None),
            ("", None),
            ("null", None),
            ("1.2.3", None),
            ("+1", None),
        ];
        for (text, expected) in cases {
            assert_eq!(nanoseconds(text), expected, "{text}");
        }
    }

    #[test]
    fn an_event_is_read_whatever_the_order_of_its_keys() {
        let texts = [
            r#"{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":2.5,"pid":0,"tid":7,"args":{"device":3,"stream":9,"correlation":5,"bytes":10,"grid":[1,1,1]}}"#,
            r#"{"args":{"bytes":10,"correlation":5,"stream":9,"device":3},"tid":7,"pid":0,"dur":2.5,"ts":1,"name":"k","cat":"kernel","ph":"X","id":4}"#,
            r#"{"args":{"bytes":"10","correlation":"5","stream":"9","device":"3"},"tid":"7","pid":"0","dur":"2.5","ts":"1","name":"\u006b","cat":"kernel","ph":"X"}"#,
        ];
        for text in texts {
            let event: Event<'_> = serde_json::from_str(text).unwrap();
            assert!(event.complete);
            assert_eq!(event.category, Category::Device(DeviceKind::Kernel));
            assert_eq!(event.name.0, "k");
            assert_eq!(event.start.unwrap().nanoseconds(), Some(1000));
            assert_eq!(event.duration.unwrap().nanoseconds(), Some(2500));
            let arguments = event.arguments;
            let values =
                [arguments.device, arguments.stream, arguments.correlation, arguments.bytes];
            assert_eq!(values.map(|value| value.unwrap().0), ["3", "9", "5", "10"]);
        }
    }

    #[test]
    fn an_element_that_is_no_object_is_refused() {
        for text in ["1", "null", "[]", r#"{"ph":1}"#, r#"{"args":3,"ph":"X"}"#] {
            assert!(serde_json::from_str::<Event<'_>>(text).is_err(), "{text}");
        }
    }
}
