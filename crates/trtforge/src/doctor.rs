//! `trtforge doctor` in words.

use std::fmt::Write;

use trtforge_tensorrt::{DoctorReport, LibraryReport, LibraryState};

/// What was found on this machine, for a person.
pub fn text(report: &DoctorReport) -> String {
    let mut text = String::new();
    // Writing into a string has no way to fail.
    let _ = write_report(&mut text, report);
    text
}

fn write_report(text: &mut String, report: &DoctorReport) -> std::fmt::Result {
    writeln!(text, "Libraries")?;
    for library in &report.libraries {
        write_library(text, library)?;
    }
    writeln!(text, "\nGPU")?;
    match &report.cuda_version {
        Some(version) => writeln!(text, "  driver for CUDA {version}")?,
        None => {
            writeln!(text, "  none: {}", report.driver_problem.as_deref().unwrap_or("no driver"))?;
        }
    }
    for gpu in &report.gpus {
        let gib = gpu.memory_bytes as f64 / f64::from(1 << 30);
        writeln!(
            text,
            "  {} ({gib:.0} GiB, compute capability {})",
            gpu.name, gpu.compute_capability
        )?;
    }
    writeln!(text, "\nBackends")?;
    for backend in &report.backends {
        let yes = |can: bool| if can { "yes" } else { "no" };
        let name = backend.backend.to_string();
        writeln!(
            text,
            "  {name:<13} builds: {:<4} runs: {}",
            yes(backend.builds),
            yes(backend.runs)
        )?;
        for missing in &backend.missing {
            writeln!(text, "                missing: {missing}")?;
        }
    }
    Ok(())
}

fn write_library(text: &mut String, library: &LibraryReport) -> std::fmt::Result {
    let state = match library.state {
        LibraryState::Usable => "usable",
        LibraryState::Unusable => "unusable",
        LibraryState::Missing => "missing",
    };
    let name = format!("{} {}", library.sdk, library.part);
    let version = library.version.map_or_else(String::new, |version| format!(" {version}"));
    writeln!(text, "  {name:<26} {state}{version} (this build speaks {})", library.header_version)?;
    writeln!(text, "    for {}", library.makes_possible)?;
    if let Some(path) = &library.path {
        writeln!(text, "    at {path}")?;
    }
    for line in [&library.problem, &library.install].into_iter().flatten() {
        writeln!(text, "    {line}")?;
    }
    Ok(())
}
