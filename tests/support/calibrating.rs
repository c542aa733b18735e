//! Tables made in a workspace.

use std::fs;

use super::Workspace;

/// A path in the workspace's folder.
pub fn at(workspace: &Workspace, name: &str) -> String {
    workspace.folder.path().join(name).display().to_string()
}

/// The bytes of a file that must be there.
pub fn read(path: &str) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The table of one machine.
pub fn alone(workspace: &Workspace) -> Vec<u8> {
    let path = at(workspace, "alone.json");
    workspace.run("calibrate", &["-q", "-o", &path]).expect(0);
    read(&path)
}
