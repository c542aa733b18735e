//! The engine as every other executor.

use miette::Diagnostic;
use trtforge_exec::{EvaluatedOn, ExecError, Executor, NamedValue, Port};

use super::{DeviceExecutor, RunHow, convert, is_float};
use crate::error::{ErrorKind, TensorRtError};

impl Executor for DeviceExecutor {
    fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    fn evaluated_on(&self) -> EvaluatedOn {
        EvaluatedOn::Device
    }

    fn run_tapped(
        &self,
        inputs: &[NamedValue],
        taps: &[String],
        visit: &mut dyn FnMut(&str, &[f32]),
    ) -> Result<Vec<NamedValue>, ExecError> {
        let tapped = taps.iter().map(|tap| self.tap(tap)).collect::<Result<Vec<_>, _>>()?;
        let mut staged = self.stage(inputs).map_err(told)?;
        let how = RunHow { graph: self.options.cuda_graphs, ..RunHow::default() };
        staged.run(how).map_err(told)?;
        let mut floats = Vec::new();
        for port in tapped {
            let (_, bytes) = staged.output(&port.name).map_err(told)?;
            convert::widen(port.element_type, bytes, &mut floats);
            visit(&port.name, &floats);
        }
        staged.outputs().map_err(told)
    }

    fn can_tap(&self, name: &str) -> bool {
        self.tap(name).is_ok()
    }
}

impl DeviceExecutor {
    /// What an engine computes inside it shows to nobody: only its outputs can be tapped.
    fn tap(&self, name: &str) -> Result<&Port, ExecError> {
        let port = self.outputs.iter().chain(&self.hidden).find(|port| port.name == name);
        let port = port.ok_or_else(|| ExecError::UnknownTap { tensor: name.to_owned() })?;
        if is_float(port.element_type) {
            Ok(port)
        } else {
            Err(ExecError::NotFloat { tensor: name.to_owned() })
        }
    }
}

/// The error as every executor tells it.
fn told(error: TensorRtError) -> ExecError {
    let error = match error {
        TensorRtError::Inputs(error) => return *error,
        error => error,
    };
    let message = error.to_string();
    let help = error.help().map(|help| help.to_string()).unwrap_or_default();
    match error.kind() {
        ErrorKind::BadInput => ExecError::NoProfile { message, help },
        _ => ExecError::Device { message, help },
    }
}
