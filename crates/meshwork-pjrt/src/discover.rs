//! Finding plugins: by path, or by name among those that pip has installed.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use meshwork_mesh::sort_by;

use crate::plugin::PjrtError;

/// An installed plugin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installed {
    /// What it is called: the name of its package without its prefixes, `cpu` or `cuda13` for instance.
    pub name: String,
    /// The library.
    pub path: PathBuf,
}

/// The plugins in the Python environments of this machine: that of `VIRTUAL_ENV` or Conda first, then that of the `python3`
/// that the shell would run, the user's, and the system's.
pub fn installed() -> Vec<Installed> {
    let mut found: Vec<Installed> = vec![];
    for folder in site_packages() {
        for family in ["jax_plugins", "xla_plugins"] {
            for package in subfolders(&folder.join(family)) {
                found.extend(plugin_in(&package));
            }
        }
        let tpu = folder.join("libtpu").join("libtpu.so");
        if tpu.is_file() {
            found.push(Installed { name: "tpu".into(), path: tpu });
        }
    }
    found
}

/// The library that `plugin` means: a path, or the name of an installed plugin or of its family (`cuda` for `cuda13`).
pub(crate) fn find(plugin: &str) -> Result<PathBuf, PjrtError> {
    let path = Path::new(plugin);
    if plugin.contains('/') || path.extension().is_some_and(|e| e == "so") {
        return Ok(path.to_path_buf());
    }
    let all = installed();
    let named = all.iter().find(|p| p.name == plugin);
    let family = || all.iter().find(|p| p.name.trim_end_matches(|c: char| c.is_ascii_digit()) == plugin);
    named.or_else(family).map(|p| p.path.clone()).ok_or_else(|| PjrtError::NotFound {
        name: plugin.into(),
        looked_for: match all.len() {
            0 => "jax_plugins, xla_plugins and libtpu in the site-packages of Python".into(),
            _ => format!("one of {}", all.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ")),
        },
    })
}

/// The plugin of a package, such as `jax_plugins/xla_cuda13`.
fn plugin_in(package: &Path) -> Option<Installed> {
    let name = package.file_name()?.to_str()?;
    let libraries = std::fs::read_dir(package).ok()?.filter_map(|e| Some(e.ok()?.path()));
    let mut libraries: Vec<PathBuf> = libraries.filter(|p| p.extension().is_some_and(|e| e == "so")).collect();
    libraries.sort();
    let is_called = |p: &Path, word: &str| p.file_stem().is_some_and(|s| s.to_string_lossy().contains(word));
    let path = ["pjrt", "plugin"].iter().find_map(|word| libraries.iter().find(|p| is_called(p, word)));
    let name = name.trim_start_matches("xla_").trim_start_matches("jax_").trim_end_matches("_pjrt");
    Some(Installed { name: name.trim_end_matches("_plugin").into(), path: path?.clone() })
}

fn site_packages() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let mut prefixes: Vec<PathBuf> = vec![];
    prefixes.extend(variable("VIRTUAL_ENV"));
    prefixes.extend(variable("CONDA_PREFIX"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let python = std::env::split_paths(&path).find(|folder| folder.join("python3").exists());
    prefixes.extend(python.and_then(|folder| Some(folder.parent()?.to_path_buf())));
    prefixes.extend(variable("HOME").map(|home| home.join(".local")));
    prefixes.extend(["/usr/local", "/usr"].map(PathBuf::from));
    let mut folders = vec![];
    for prefix in prefixes {
        let lib = prefix.join("lib");
        for python in subfolders(&lib) {
            if python.file_name().is_some_and(|n| n.to_string_lossy().starts_with("python")) {
                folders.extend(["site-packages", "dist-packages"].map(|name| python.join(name)));
            }
        }
    }
    let mut seen = HashSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    folders
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(|e| Some(e.ok()?.path()));
    let mut folders: Vec<PathBuf> = entries.filter(|p| p.is_dir()).collect();
    // Newer versions first.
    sort_by(&mut folders, |a, b| b.cmp(a));
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_packages_without_prefixes() {
        let folder = std::env::temp_dir().join(format!("meshwork-plugins-{}", std::process::id()));
        for (package, library, name) in [
            ("xla_cuda13", "xla_cuda_plugin.so", "cuda13"),
            ("xla_cpu_pjrt", "xla_cpu_pjrt.so", "cpu"),
            ("jax_meshwork", "libmeshwork_plugin.so", "meshwork"),
        ] {
            let package = folder.join(package);
            std::fs::create_dir_all(&package).unwrap();
            for file in [library, "helper.so", "__init__.py"] {
                std::fs::write(package.join(file), "").unwrap();
            }
            let path = package.join(library);
            assert_eq!(plugin_in(&package), Some(Installed { name: name.into(), path }));
        }
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(plugin_in(&folder).is_none());
    }

    #[test]
    fn paths_are_taken_as_they_are() {
        assert_eq!(find("some/plugin.so").unwrap(), PathBuf::from("some/plugin.so"));
        let error = find("no-such-plugin").unwrap_err().to_string();
        assert!(error.contains("no PJRT plugin \"no-such-plugin\" is installed"), "{error}");
    }
}
