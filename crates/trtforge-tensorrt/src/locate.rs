//! Where TensorRT's libraries may lie.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::TensorRtError;
use crate::sdk::Sdk;

/// The variable that names the only folders to search, separated by colons: who names a place wants no other library.
pub const PATH_VARIABLE: &str = "TRTFORGE_TENSORRT_PATH";

/// The folder that scripts/setup fills, beside the sources.
const SETUP_FOLDERS: [&str; 2] = [".trtforge/lib/rtx", ".trtforge/lib/lean"];

const SYSTEM_FOLDERS: [&str; 8] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/tensorrt/lib",
    "/opt/tensorrt/lib",
    "/usr/local/cuda/lib64",
];

/// A folder to look in, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) why: &'static str,
}

impl Place {
    fn of(why: &'static str) -> impl Fn(PathBuf) -> Place {
        move |folder| Place { folder, why }
    }
}

/// What a search starts from; a value, so that tests need not change the process.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) variable: fn(&str) -> Option<OsString>,
    pub(crate) executable: Option<PathBuf>,
    pub(crate) working_folder: Option<PathBuf>,
}

impl Surroundings {
    pub(crate) fn here() -> Surroundings {
        Surroundings {
            variable: |name| env::var_os(name).filter(|value| !value.is_empty()),
            executable: env::current_exe().ok(),
            working_folder: env::current_dir().ok(),
        }
    }

    fn folders_in(&self, variable: &str) -> Vec<PathBuf> {
        let value = (self.variable)(variable);
        let folders = value.iter().flat_map(env::split_paths);
        folders.filter(|folder| !folder.as_os_str().is_empty()).collect()
    }

    /// The folders to look in for libraries of `sdk`, in order, each once. With `explicit`, only there.
    pub(crate) fn folders(
        &self,
        sdk: Sdk,
        explicit: Option<&Path>,
    ) -> Result<Vec<PathBuf>, TensorRtError> {
        Ok(self.places(sdk, explicit)?.into_iter().map(|place| place.folder).collect())
    }

    /// The same, with why each is looked in.
    pub(crate) fn places(
        &self,
        sdk: Sdk,
        explicit: Option<&Path>,
    ) -> Result<Vec<Place>, TensorRtError> {
        let places = match explicit {
            Some(path) => {
                let folders = named_folders("the given path", &[path.to_owned()])?;
                folders.into_iter().map(Place::of("the given path")).collect()
            }
            None => self.usual_places(sdk)?,
        };
        let mut seen = BTreeSet::new();
        Ok(places.into_iter().filter(|place| seen.insert(place.folder.clone())).collect())
    }

    fn usual_places(&self, sdk: Sdk) -> Result<Vec<Place>, TensorRtError> {
        let named = self.folders_in(PATH_VARIABLE);
        if !named.is_empty() {
            let folders = named_folders(PATH_VARIABLE, &named)?;
            return Ok(folders.into_iter().map(Place::of(PATH_VARIABLE)).collect());
        }
        let mut places = Vec::new();
        let mut add = |why, folders: Vec<PathBuf>| {
            places.extend(folders.into_iter().map(Place::of(why)));
        };
        let beside = self.executable.as_deref().and_then(Path::parent);
        let around = beside.iter().flat_map(|folder| [folder.to_path_buf(), folder.join("../lib")]);
        add("beside the program", around.collect());
        for start in [beside, self.working_folder.as_deref()].into_iter().flatten() {
            let root = start.ancestors().find(|folder| folder.join(".trtforge").is_dir());
            let root = root.iter().flat_map(|root| SETUP_FOLDERS.map(|folder| root.join(folder)));
            add("brought by scripts/setup", root.collect());
        }
        for packages in self.site_packages() {
            let folders = sdk.python_folders().iter().map(|folder| packages.join(folder));
            add("a Python package", folders.collect());
        }
        add("LD_LIBRARY_PATH", self.folders_in("LD_LIBRARY_PATH"));
        add("the system's folders", SYSTEM_FOLDERS.map(PathBuf::from).to_vec());
        Ok(places)
    }

    /// The `site-packages` of every Python in sight.
    fn site_packages(&self) -> Vec<PathBuf> {
        let mut prefixes = self.folders_in("VIRTUAL_ENV");
        prefixes.extend(self.folders_in("CONDA_PREFIX"));
        let commands = self.folders_in("PATH");
        let pythons = commands.iter().filter(|folder| folder.join("python3").exists());
        prefixes.extend(pythons.filter_map(|folder| folder.parent()).map(Path::to_path_buf));
        prefixes.extend(self.folders_in("HOME").iter().map(|home| home.join(".local")));
        prefixes.extend(["/usr/local", "/usr"].map(PathBuf::from));
        let mut packages = self.folders_in("PYTHONPATH");
        for prefix in prefixes {
            packages.extend(packages_under(&prefix.join("lib")));
        }
        packages
    }
}

/// Folders that someone named must exist; a file stands for its folder.
fn named_folders(
    source_name: &'static str,
    paths: &[PathBuf],
) -> Result<Vec<PathBuf>, TensorRtError> {
    let mut folders = Vec::new();
    for path in paths {
        if path.is_file() {
            folders.extend(path.parent().map(Path::to_path_buf));
        } else if path.is_dir() {
            folders.extend([path.clone(), path.join("lib")]);
        } else {
            return Err(TensorRtError::SearchPathMissing { source_name, folder: path.clone() });
        }
    }
    Ok(folders)
}

fn packages_under(lib: &Path) -> Vec<PathBuf> {
    let Ok(entries) = lib.read_dir() else { return Vec::new() };
    let mut versions: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"))
        })
        .collect();
    versions.sort();
    let both = |version: PathBuf| ["site-packages", "dist-packages"].map(|name| version.join(name));
    versions.into_iter().flat_map(both).filter(|folder| folder.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere() -> Surroundings {
        Surroundings { variable: |_| None, executable: None, working_folder: None }
    }

    fn touch(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    #[test]
    fn an_explicit_path_is_the_only_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("libtensorrt_rtx.so.1");
        touch(&file);
        let found = nowhere().folders(Sdk::TensorRtRtx, Some(&file)).unwrap();
        assert_eq!(found, [folder.path()]);
        let found = nowhere().folders(Sdk::TensorRtRtx, Some(folder.path())).unwrap();
        assert_eq!(found, [folder.path().to_owned(), folder.path().join("lib")]);
    }

    #[test]
    fn an_explicit_path_must_exist() {
        let error = nowhere().folders(Sdk::TensorRt, Some(Path::new("/no/such"))).unwrap_err();
        assert_eq!(error.to_string(), "the given path names `/no/such`, which does not exist");
    }

    #[test]
    fn the_setup_folder_is_found_from_below_the_sources() {
        let root = tempfile::tempdir().unwrap();
        let crate_folder = root.path().join("crates/x");
        std::fs::create_dir_all(&crate_folder).unwrap();
        std::fs::create_dir_all(root.path().join(".trtforge")).unwrap();
        let from = Surroundings { working_folder: Some(crate_folder), ..nowhere() };
        let folders = from.folders(Sdk::TensorRtRtx, None).unwrap();
        assert_eq!(folders[0], root.path().join(".trtforge/lib/rtx"));
    }

    #[test]
    fn siblings_of_the_executable_come_before_system_folders_and_no_folder_twice() {
        let from = Surroundings { executable: Some("/app/bin/trtforge".into()), ..nowhere() };
        let folders = from.folders(Sdk::TensorRtRtx, None).unwrap();
        assert_eq!(folders[..2], [PathBuf::from("/app/bin"), PathBuf::from("/app/bin/../lib")]);
        assert_eq!(folders.last().unwrap(), Path::new("/usr/local/cuda/lib64"));
        let unique: BTreeSet<&PathBuf> = folders.iter().collect();
        assert_eq!(unique.len(), folders.len());
    }

    #[test]
    fn python_packages_are_found_under_any_version() {
        let prefix = tempfile::tempdir().unwrap();
        touch(&prefix.path().join("lib/python3.12/site-packages/tensorrt_rtx_libs/x"));
        touch(&prefix.path().join("lib/python3.9/dist-packages/x"));
        touch(&prefix.path().join("lib/ruby/site-packages/x"));
        let found = packages_under(&prefix.path().join("lib"));
        let expected = ["lib/python3.12/site-packages", "lib/python3.9/dist-packages"];
        assert_eq!(found, expected.map(|folder| prefix.path().join(folder)));
    }
}
