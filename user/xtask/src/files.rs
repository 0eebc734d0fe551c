// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds out which files of a crate use which other files.
//!
//! A file uses another if a path in it leads to an item that is defined there. A name that a `mod.rs` or a `lib.rs`
//! exports again with `pub use` is followed to the file that defines it. Methods and tests are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// A module's path: `["event", "slot"]`. The root of the crate has an empty path.
type Module = Vec<String>;

/// The files of the root of a crate.
const ROOT_FILES: [&str; 2] = ["lib.rs", "main.rs"];

/// The source of a module, without comments, strings and tests.
struct Source {
    /// The path of the file, relative to the root folder.
    name: String,
    code: String,
    imports: Vec<Import>,
}

/// A name that a `use` declaration brings into a module.
struct Import {
    name: String,
    /// The path from the root of the crate.
    path: Vec<String>,
    is_public: bool,
}

/// The files below a root folder, each with the files that it uses.
pub(crate) struct Uses(BTreeMap<String, BTreeSet<String>>);

impl Uses {
    /// Reads the files; `names` are their paths, relative to the root folder.
    pub(crate) fn read(root: &Path, names: &[String]) -> Result<Self> {
        let mut texts = Vec::new();
        for name in names {
            let path = root.join(name);
            let text = fs::read_to_string(&path);
            let text = text.with_context(|| format!("can't read {}", path.display()))?;
            texts.push((name.clone(), text));
        }
        Ok(Self::of(&texts))
    }

    /// Returns the uses of files with these names and texts.
    fn of(texts: &[(String, String)]) -> Self {
        let modules: BTreeSet<Module> = texts.iter().map(|(name, _)| module_of(name)).collect();
        let sources: BTreeMap<Module, Source> = texts
            .iter()
            .map(|(name, text)| {
                let module = module_of(name);
                let code = code_of(text);
                let (imports, code) = imports_of(&code, &module, &modules);
                let name = name.clone();
                let source = Source {
                    name,
                    code,
                    imports,
                };
                (module, source)
            })
            .collect();
        let uses = sources.iter().map(|(module, source)| {
            let files = paths_in(module, source, &modules)
                .iter()
                .filter_map(|path| file_of(path, &sources))
                .filter(|file| **file != source.name)
                .cloned()
                .collect();
            (source.name.clone(), files)
        });
        Self(uses.collect())
    }

    /// Returns the files, each with the files that it uses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &BTreeSet<String>)> {
        self.0.iter()
    }

    /// Returns the circles: the largest sets of files in which each file leads to all others.
    pub(crate) fn circles(&self) -> Vec<Vec<&str>> {
        let reachable: BTreeMap<&str, BTreeSet<&str>> = self
            .0
            .keys()
            .map(|file| (file.as_str(), self.files_reached_from(file)))
            .collect();
        let mut circles: Vec<Vec<&str>> = Vec::new();
        for (file, reachable_files) in &reachable {
            if !reachable_files.contains(file) || circles.iter().any(|circle| circle.contains(file))
            {
                continue;
            }
            let leads_back = |other: &&&str| reachable[**other].contains(file);
            circles.push(reachable_files.iter().filter(leads_back).copied().collect());
        }
        circles
    }

    /// Returns all files that a file leads to.
    fn files_reached_from(&self, file: &str) -> BTreeSet<&str> {
        let mut reached_files = BTreeSet::new();
        let mut next: Vec<&str> = self.0[file].iter().map(String::as_str).collect();
        while let Some(file) = next.pop() {
            if reached_files.insert(file) {
                next.extend(self.0[file].iter().map(String::as_str));
            }
        }
        reached_files
    }
}

/// Returns the module of a file with this name.
fn module_of(name: &str) -> Module {
    if ROOT_FILES.contains(&name) {
        return Module::new();
    }
    let name = name.trim_end_matches(".rs");
    let name = name.strip_suffix("/mod").unwrap_or(name);
    name.split('/').map(str::to_owned).collect()
}

/// The first lines of modules with tests.
const TEST_MODULES: [&str; 2] = ["\nmod tests {", "\nmod suite {"];

/// Returns the code of a text up to its tests, without comments and strings.
fn code_of(text: &str) -> String {
    // The tests are the last item of a file.
    let text = TEST_MODULES
        .iter()
        .fold(text, |text, begin| text.split(begin).next().unwrap_or(text));
    let mut code = String::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or(line);
        for (n, part) in line.split('"').enumerate() {
            if n % 2 == 0 {
                code.push_str(part);
            }
        }
        code.push('\n');
    }
    code
}

/// Returns the imports of a module's `use` declarations, and the code without these and without `mod` declarations.
fn imports_of(code: &str, module: &Module, modules: &BTreeSet<Module>) -> (Vec<Import>, String) {
    let (mut imports, mut rest) = (Vec::new(), String::new());
    let mut statement: Option<(String, bool)> = None;
    for line in code.lines() {
        let trimmed_line = line.trim_start();
        let (is_public, after) = match trimmed_line.strip_prefix("pub") {
            Some(after) if after.starts_with('(') => {
                (true, after.split_once(") ").map_or("", |(_, after)| after))
            }
            Some(after) => (true, after.trim_start()),
            None => (false, trimmed_line),
        };
        if statement.is_none() {
            if let Some(tree) = after.strip_prefix("use ") {
                statement = Some((tree.to_owned(), is_public));
            } else {
                // Removes `mod name;`, because the name of a child is not a use of an item with the
                // same name.
                let is_child = after.starts_with("mod ") && after.trim_end().ends_with(';');
                if !is_child {
                    rest.push_str(line);
                    rest.push('\n');
                }
                continue;
            }
        } else if let Some((tree, _)) = &mut statement {
            tree.push_str(line);
        }
        if let Some((tree, is_public)) = statement.take_if(|(tree, _)| tree.contains(';')) {
            let tree = tree.split(';').next().unwrap_or("").to_owned();
            let mut paths = Vec::new();
            expand(&tree, &[], &mut paths);
            for (path, name) in paths {
                if let Some(path) = absolute_path(&path, module, modules) {
                    imports.push(Import {
                        name,
                        path,
                        is_public,
                    });
                }
            }
        }
    }
    (imports, rest)
}

/// Expands a tree of names, such as `a::{b, c as d}`, to paths and the names that they get.
fn expand(tree: &str, before: &[String], paths: &mut Vec<(Vec<String>, String)>) {
    let tree = tree.trim();
    if let Some((head, group)) = tree.split_once('{') {
        let group = group.rsplit_once('}').map_or(group, |(group, _)| group);
        let mut path = before.to_vec();
        path.extend(segments(head));
        for item in split_group(group) {
            expand(item, &path, paths);
        }
        return;
    }
    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim().to_owned())),
        None => (tree, None),
    };
    let mut full_path = before.to_vec();
    full_path.extend(segments(path));
    if !before.is_empty() && full_path.last().is_some_and(|last| last == "self") {
        full_path.pop();
    }
    if let Some(last) = full_path.last().cloned() {
        if last != "*" {
            paths.push((full_path, alias.unwrap_or(last)));
        }
    }
}

/// Splits the items of a group at the commas that are not in a group themselves.
fn split_group(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut items) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&group[start..]);
    items.retain(|item| !item.trim().is_empty());
    items
}

fn segments(path: &str) -> Vec<String> {
    let segments = path.split("::").map(|segment| segment.trim().to_owned());
    segments.filter(|segment| !segment.is_empty()).collect()
}

/// Returns a path from the root of the crate. `None` if it leads to another crate.
fn absolute_path(
    path: &[String],
    module: &Module,
    modules: &BTreeSet<Module>,
) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    let mut path_from_root = match first.as_str() {
        "crate" => Vec::new(),
        "self" => module.clone(),
        "super" => module[..module.len().saturating_sub(1)].to_vec(),
        child => {
            let child = [module.as_slice(), &[child.to_owned()]].concat();
            if !modules.contains(&child) {
                return None;
            }
            child
        }
    };
    for segment in rest {
        match segment.as_str() {
            "super" => {
                path_from_root.pop();
            }
            _ => path_from_root.push(segment.clone()),
        }
    }
    Some(path_from_root)
}

/// Returns the paths that a module uses, from the root of the crate.
fn paths_in(module: &Module, source: &Source, modules: &BTreeSet<Module>) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    let words: BTreeSet<&str> = source.code.split(|c| !is_word(c)).collect();
    for import in &source.imports {
        // A name that this module only exports again is not a use.
        if !import.is_public || words.contains(import.name.as_str()) {
            paths.push(import.path.clone());
        }
    }
    for path in source
        .code
        .split(|c| !is_word(c) && c != ':')
        .filter(|path| path.contains("::"))
    {
        let path = segments(path);
        let Some((first, rest)) = path.split_first() else {
            continue;
        };
        let import = source.imports.iter().find(|import| import.name == *first);
        if let Some(import) = import {
            paths.push([import.path.as_slice(), rest].concat());
        } else if let Some(path) = absolute_path(&path, module, modules) {
            paths.push(path);
        }
    }
    paths
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the file that defines the item of a path. `None` if the path names a module itself, or an item that a macro
/// puts at the root.
fn file_of<'a>(path: &[String], sources: &'a BTreeMap<Module, Source>) -> Option<&'a String> {
    let length = (0..=path.len())
        .rev()
        .find(|&length| sources.contains_key(&path[..length]))?;
    let source = &sources[&path[..length]];
    let item = path.get(length)?;
    let is_exported = |import: &&Import| import.is_public && import.name == *item;
    match source.imports.iter().find(is_exported) {
        Some(import) => file_of(
            &[import.path.as_slice(), &path[length + 1..]].concat(),
            sources,
        ),
        None => Some(&source.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the uses of files with these names and texts.
    fn uses(texts: &[(&str, &str)]) -> Uses {
        let owned = |&(name, text): &(&str, &str)| (name.to_owned(), text.to_owned());
        Uses::of(&texts.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn names_are_followed_to_their_files() {
        let uses = uses(&[
            (
                "a/mod.rs",
                "mod b;\npub(crate) use self::b::{X, Y as Z};\npub(crate) fn f() {}\n",
            ),
            ("a/b.rs", "struct X;\n"),
            ("c.rs", "use crate::{\n    a::{self, Z},\n};\n"),
            ("d.rs", "use crate::a;\nfn g() { a::f() }\n"),
            ("e.rs", "// crate::a::f\nfn g() { super::a::X::new() }\n"),
        ]);
        let used_files = |file: &str| uses.0[file].iter().cloned().collect::<Vec<_>>();
        assert_eq!(used_files("a/mod.rs"), [""; 0]);
        assert_eq!(used_files("c.rs"), ["a/b.rs"]);
        assert_eq!(used_files("d.rs"), ["a/mod.rs"]);
        assert_eq!(used_files("e.rs"), ["a/b.rs"]);
    }

    #[test]
    fn a_child_is_followed_without_self() {
        let uses = uses(&[
            ("a/mod.rs", "mod b;\npub(crate) use b::X;\n"),
            ("a/b.rs", "use super::c::Y;\nstruct X;\n"),
            ("a/c.rs", "use super::X;\nstruct Y;\n"),
            ("d.rs", "use std::fmt;\nuse a::X;\n"),
        ]);
        assert_eq!(uses.circles(), [["a/b.rs", "a/c.rs"]]);
        assert!(uses.0["d.rs"].is_empty());
    }

    #[test]
    fn names_of_the_root_are_followed() {
        let uses = uses(&[
            ("lib.rs", "mod a;\nmod b;\npub use a::X;\npub struct Y;\n"),
            ("a.rs", "use crate::b::Z;\npub struct X;\n"),
            ("b.rs", "use crate::{X, Y};\npub struct Z;\n"),
        ]);
        assert_eq!(uses.circles(), [["a.rs", "b.rs"]]);
        assert!(uses.0["b.rs"].contains("lib.rs"));
    }

    #[test]
    fn circles_are_found() {
        let uses = uses(&[
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "use crate::c::C;\n"),
            (
                "c.rs",
                "fn g() {}\n#[cfg(any(test, X))]\nfn f() -> crate::b::B {}\n#[cfg(test)]\nmod tests {\nuse crate::a::A;\n}\n",
            ),
            ("d.rs", "use crate::a::A;\n"),
        ]);
        assert_eq!(uses.circles(), [["b.rs", "c.rs"]]);
    }

    #[test]
    fn uses_of_the_mod_rs_of_the_own_folder_are_found() {
        let uses = uses(&[
            ("a/mod.rs", "mod b;\nuse self::b::B;\npub struct A;\n"),
            ("a/b.rs", "use super::A;\npub struct B;\n"),
            (
                "c/mod.rs",
                "mod c;\nmod d;\npub use self::c::C;\nuse self::d::D;\n",
            ),
            ("c/c.rs", "pub struct C;\n"),
            ("c/d.rs", "use super::C;\npub struct D;\n"),
        ]);
        assert_eq!(uses.circles(), [["a/b.rs", "a/mod.rs"]]);
    }

    #[test]
    fn a_declared_child_is_no_use_of_an_item_of_its_name() {
        let uses = uses(&[
            ("a/mod.rs", "mod b;\npub use self::b::b;\npub struct A;\n"),
            ("a/b.rs", "use super::A;\npub fn b() {}\n"),
            (
                "c/mod.rs",
                "pub mod d;\npub use self::d::d;\npub struct C;\nfn f() { d() }\n",
            ),
            ("c/d.rs", "use super::C;\npub fn d() {}\n"),
        ]);
        assert_eq!(uses.circles(), [["c/d.rs", "c/mod.rs"]]);
    }
}
