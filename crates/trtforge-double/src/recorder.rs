//! Recordings made by listening to another executor.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use trtforge_exec::{EvaluatedOn, ExecError, Executor, NamedValue, Port, Value, binding};
use trtforge_onnx::{Dim, ElementType};

use crate::recording::{Batch, Recording, Row, Tensor, TensorType, Values};

/// An executor that runs another and remembers: as the bytes that an engine would be given, and those it would give back.
pub struct Recorder<E> {
    inner: E,
    /// Recorded as further outputs.
    taps: Vec<Tensor>,
    recording: Mutex<Recording>,
}

impl<E: Executor> Recorder<E> {
    /// Listens to `inner`. `taps` become outputs of the engine: FP32 tensors that `inner` shows, and their dimensions
    /// (numbers, or the names that an input has too).
    pub fn new(inner: E, taps: &[(&str, &[&str])]) -> Recorder<E> {
        let tap = |(name, dims): &(&str, &[&str])| Tensor::new(name, TensorType::Float32, dims);
        let taps: Vec<Tensor> = taps.iter().map(tap).collect();
        let outputs = inner.outputs().iter().map(tensor).chain(taps.clone()).collect();
        let inputs = inner.inputs().iter().map(tensor).collect();
        let recording = Mutex::new(Recording { inputs, outputs, ..Recording::default() });
        Recorder { inner, taps, recording }
    }

    /// Records the rows of a text model one by one, unpadded, so that any batch of them can be played back.
    ///
    /// - `mask`: the input that is 1 where a row has a token;
    /// - `keys`: the inputs that tell rows apart;
    /// - `rows`: the inputs of each, of shape `[1, tokens]` and without padding.
    pub fn record_rows(
        self,
        mask: &str,
        keys: &[&str],
        rows: impl IntoIterator<Item = Vec<NamedValue>>,
    ) -> Recording {
        let mut recorded = Vec::new();
        for inputs in rows {
            let outputs = self.inner.run(&inputs).unwrap_or_else(|error| panic!("{error}"));
            let key = keys.iter().map(|key| integers(find(&inputs, key))).collect();
            let outputs = self.inner.outputs().iter().zip(outputs).map(|(port, (name, value))| {
                let mut values = values_of(port, &value);
                // Without the batch axis.
                values.dims.remove(0);
                (name, values)
            });
            recorded.push(Row { key, outputs: outputs.collect() });
        }
        let mut recording = self.into_recording();
        recording.mask = Some(mask.to_owned());
        recording.keys = keys.iter().map(|&key| key.to_owned()).collect();
        recording.rows = recorded;
        recording
    }

    /// What was recorded.
    pub fn into_recording(self) -> Recording {
        self.recording.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, inputs: &[NamedValue], outputs: &[NamedValue], tapped: Vec<Vec<f32>>) {
        let ports = self.inner.inputs();
        // The other executor has accepted them.
        let bound = binding::bind(ports, inputs).unwrap_or_else(|error| panic!("{error}"));
        let given = ports.iter().zip(bound);
        let given = given.map(|(port, value)| (port.name.clone(), values_of(port, value)));
        let ports = self.inner.outputs();
        let found = ports.iter().zip(outputs);
        let found = found.map(|(port, (name, value))| (name.clone(), values_of(port, value)));
        let taps = self.taps.iter().zip(tapped).map(|(tap, values)| {
            let known: i64 = tap.dims.iter().filter(|&&dim| dim >= 0).product();
            let length = i64::try_from(values.len()).expect("a tensor fits into memory");
            let size = |&dim: &i64| if dim >= 0 { dim } else { length / known };
            let dims: Vec<i64> = tap.dims.iter().map(size).collect();
            (tap.name.clone(), Values::f32(&dims, &values))
        });
        let batch = Batch { inputs: given.collect(), outputs: found.chain(taps).collect() };
        let mut recording = self.recording.lock().unwrap_or_else(PoisonError::into_inner);
        if !recording.batches.contains(&batch) {
            recording.batches.push(batch);
        }
    }
}

impl<E: Executor> Executor for Recorder<E> {
    fn inputs(&self) -> &[Port] {
        self.inner.inputs()
    }

    fn outputs(&self) -> &[Port] {
        self.inner.outputs()
    }

    fn evaluated_on(&self) -> EvaluatedOn {
        self.inner.evaluated_on()
    }

    fn run_tapped(
        &self,
        inputs: &[NamedValue],
        taps: &[String],
        visit: &mut dyn FnMut(&str, &[f32]),
    ) -> Result<Vec<NamedValue>, ExecError> {
        let wanted: Vec<String> = self.taps.iter().map(|tap| tap.name.clone()).collect();
        let mut seen = BTreeMap::new();
        self.inner.run_tapped(inputs, &wanted, &mut |name, values| {
            seen.insert(name.to_owned(), values.to_vec());
        })?;
        let outputs = self.inner.run_tapped(inputs, taps, visit)?;
        let tapped = wanted.iter().map(|name| seen.remove(name).unwrap_or_default()).collect();
        self.remember(inputs, &outputs, tapped);
        Ok(outputs)
    }

    fn can_tap(&self, name: &str) -> bool {
        self.inner.can_tap(name)
    }
}

fn tensor(port: &Port) -> Tensor {
    let dims = port.shape.iter().flatten().map(|dim| match dim {
        Dim::Fixed(size) => size.to_string(),
        Dim::Named(name) => name.clone(),
        Dim::Unknown => "?".to_owned(),
    });
    let dims: Vec<String> = dims.collect();
    let dims: Vec<&str> = dims.iter().map(String::as_str).collect();
    Tensor::new(&port.name, type_of(port.element_type), &dims)
}

fn type_of(element_type: ElementType) -> TensorType {
    match element_type {
        ElementType::F32 => TensorType::Float32,
        ElementType::F16 => TensorType::Float16,
        ElementType::I64 => TensorType::Int64,
        ElementType::I32 => TensorType::Int32,
        ElementType::U8 => TensorType::Uint8,
        ElementType::I8 => TensorType::Int8,
        ElementType::Bool => TensorType::Bool,
        other => panic!("recordings hold no {other:?}"),
    }
}

/// A value as the bytes of the declared type.
fn values_of(port: &Port, value: &Value) -> Values {
    let dims: Vec<i64> =
        value.shape().iter().map(|&dim| i64::try_from(dim).expect("a shape fits")).collect();
    if let Some(floats) = value.as_f32() {
        assert_eq!(port.element_type, ElementType::F32, "recordings of floats are FP32");
        return Values::f32(&dims, &floats.iter().copied().collect::<Vec<_>>());
    }
    let width = match port.element_type {
        ElementType::I64 => 8,
        ElementType::I32 => 4,
        _ => 1,
    };
    // Two's complement: the low bytes are the narrower number.
    let bytes = integers(value).into_iter().flat_map(|x| x.to_le_bytes()[..width].to_vec());
    Values::new(&dims, &bytes.collect::<Vec<_>>())
}

fn find<'v>(values: &'v [NamedValue], name: &str) -> &'v Value {
    let found = values.iter().find(|(known, _)| known == name);
    &found.unwrap_or_else(|| panic!("no input `{name}`")).1
}

fn integers(value: &Value) -> Vec<i64> {
    match value {
        Value::I64(array) => array.iter().copied().collect(),
        Value::I32(array) => array.iter().map(|&x| i64::from(x)).collect(),
        Value::U8(array) => array.iter().map(|&x| i64::from(x)).collect(),
        Value::I8(array) => array.iter().map(|&x| i64::from(x)).collect(),
        Value::Bool(array) => array.iter().map(|&x| i64::from(x)).collect(),
        Value::F32(_) => panic!("floats are no integers"),
    }
}
