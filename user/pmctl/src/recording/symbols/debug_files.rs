// SPDX-License-Identifier: MIT OR Apache-2.0
//! Separate debug files, in which distributions put the names of functions and the source lines of programs.

use std::env;
use std::fmt::Write as _;
use std::iter;
use std::path::{Path, PathBuf};

use super::Elf;

/// The folders in which debug files are looked for.
#[derive(Clone, Debug)]
pub(crate) struct DebugFiles {
    /// The folder into which the system's packages install debug files.
    pub(super) system_folder: PathBuf,
    /// The folders in which `debuginfod-find` keeps what it has fetched.
    pub(super) debuginfod_caches: Vec<PathBuf>,
    /// The folder in which `perf buildid-cache` and `perf record` keep copies.
    pub(super) perf_cache: Option<PathBuf>,
}

impl DebugFiles {
    /// Returns the folders of this user.
    pub(crate) fn of_user() -> Self {
        let folder = |name| env::var_os(name).map(PathBuf::from);
        let home = folder("HOME");
        let cache = folder("XDG_CACHE_HOME").or_else(|| Some(home.as_ref()?.join(".cache")));
        // The order in which debuginfod's client looks for its cache.
        let debuginfod = folder("DEBUGINFOD_CACHE_PATH")
            .into_iter()
            .chain(
                home.as_ref()
                    .map(|home| home.join(".debuginfod_client_cache")),
            )
            .chain(cache.map(|cache| cache.join("debuginfod_client")));
        Self {
            system_folder: "/usr/lib/debug".into(),
            debuginfod_caches: debuginfod.collect(),
            perf_cache: home.map(|home| home.join(".debug")),
        }
    }

    /// Returns the debug file of a program or library, which must have the same build-id.
    pub(crate) fn find(&self, path: &Path, elf: &Elf) -> Option<PathBuf> {
        let id = elf.build_id.as_deref()?;
        let paths_by_debug_link = self.paths_by_debug_link(path, elf);
        let candidates = self
            .debug_paths_by_build_id(id)
            .into_iter()
            .chain(paths_by_debug_link);
        first_with_build_id(candidates, id)
    }

    /// Returns a path that blazesym would open beside a file with debug information, and that is not a regular file.
    /// Opening a pipe would wait for its writer.
    pub(super) fn irregular_companion(&self, path: &Path) -> Option<PathBuf> {
        let mut package = path.as_os_str().to_owned();
        package.push(".dwp");
        let elf = Elf::read(path).unwrap_or_default();
        let mut candidates = iter::once(package.into()).chain(self.paths_by_debug_link(path, &elf));
        candidates.find(|path: &PathBuf| path.metadata().is_ok_and(|facts| !facts.is_file()))
    }

    /// Returns the paths at which copies of the program or library with this build-id may be.
    pub(crate) fn program_paths(&self, id: &[u8]) -> Vec<PathBuf> {
        let id = hexadecimal(id);
        let Some((folder, name)) = id.split_at_checked(2) else {
            return Vec::new();
        };
        let perf = self.perf_cache.iter().flat_map(|perf| {
            let copy = perf.join(".build-id").join(folder).join(name);
            // perf before Linux 4.9 stored the copy under this name itself.
            [copy.join("elf"), copy.join("vdso"), copy]
        });
        let debuginfod = self.debuginfod_caches.iter();
        let debuginfod = debuginfod.map(|cache| cache.join(&id).join("executable"));
        // Fedora's packages install links to programs in `.build-id`.
        let system = self.system_folder.join(".build-id").join(folder).join(name);
        perf.chain(debuginfod).chain([system]).collect()
    }

    /// Returns the paths at which the debug file with this build-id may be.
    fn debug_paths_by_build_id(&self, id: &[u8]) -> Vec<PathBuf> {
        let id = hexadecimal(id);
        let Some((folder, name)) = id.split_at_checked(2) else {
            return Vec::new();
        };
        let system = self.system_folder.join(".build-id").join(folder);
        let debuginfod = self
            .debuginfod_caches
            .iter()
            .map(|cache| cache.join(&id).join("debuginfo"));
        let perf = self.perf_cache.iter().flat_map(|perf| {
            let copy = perf.join(".build-id").join(folder).join(name);
            [copy.join("debug"), copy.join("elf")]
        });
        iter::once(system.join(format!("{name}.debug")))
            .chain(debuginfod)
            .chain(perf)
            .collect()
    }

    /// Returns the paths at which the debug file named by the program's `.gnu_debuglink` may be.
    fn paths_by_debug_link(&self, path: &Path, elf: &Elf) -> Vec<PathBuf> {
        let path = path.canonicalize();
        let folder = path.as_deref().ok().and_then(Path::parent);
        let (Some(name), Some(folder)) = (&elf.debug_link, folder) else {
            return Vec::new();
        };
        let relative_folder = folder.strip_prefix("/").unwrap_or(folder);
        let folders = [
            folder.to_owned(),
            folder.join(".debug"),
            self.system_folder.join(relative_folder),
        ];
        folders.map(|folder| folder.join(name)).into()
    }
}

/// Returns the first of these files that has this build-id and a symbol table.
fn first_with_build_id(mut paths: impl Iterator<Item = PathBuf>, id: &[u8]) -> Option<PathBuf> {
    paths.find(|path| Elf::read_version(path, id).is_some_and(|version| version.has_table))
}

/// Returns a build-id as hexadecimal text.
pub(crate) fn hexadecimal(id: &[u8]) -> String {
    id.iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
