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
    if let Some(version) = &report.cuda_version {
        let driver = report.driver_version.as_deref().unwrap_or("of unknown version");
        writeln!(text, "  driver {driver}, for CUDA up to {version}")?;
    } else {
        writeln!(text, "  none: {}", report.driver_problem.as_deref().unwrap_or("no driver"))?;
        if let Some(driver) = &report.driver_version {
            writeln!(text, "    the kernel has driver {driver}")?;
        }
    }
    if let Some(path) = &report.driver_path {
        writeln!(text, "    at {path}")?;
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
        for without in &backend.without {
            writeln!(text, "                has no {without}")?;
        }
        for note in &backend.notes {
            writeln!(text, "                note: {note}")?;
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
        let why = library.found_in.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
        writeln!(text, "    at {path}{why}")?;
    }
    for other in &library.others {
        let version = other.version.map_or_else(String::new, |version| format!(" {version}"));
        let state = other.problem.as_deref().unwrap_or("comes later in the search");
        writeln!(text, "    not used:{version} at {} ({}): {state}", other.path, other.found_in)?;
    }
    for line in [&library.problem, &library.install].into_iter().flatten() {
        writeln!(text, "    {line}")?;
    }
    Ok(())
}
