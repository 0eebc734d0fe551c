// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that the parts of the kernel module use only the parts that they may, and that no files of the module or of a
//! crate of the workspace use each other in a circle.
//!
//! A part is a file or a folder directly in `rust/perfmon/`. [`PARTS`] lists them from the top to the bottom; a part
//! uses only parts below it, so there is no circle. [`EVENT_FILES`] lists the files of the largest part in the same way.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::files::Uses;

/// The sources of the module.
pub(crate) const MODULE: &str = "rust/perfmon";

/// The parts that every part may use.
const COMMON_PARTS: [&str; 2] = ["logic", "abi"];

/// Items that the `module!` macro puts at the top of the crate.
const ROOT_ITEMS: [&str; 3] = ["LocalModule", "THIS_MODULE", "module_parameters"];

/// Each part with the parts that it may use besides [`COMMON_PARTS`].
const PARTS: [(&str, &[&str]); 17] = [
    (
        "perfmon_main",
        &[
            "device",
            "cpus",
            "session",
            "event",
            "ownership",
            "overflow",
            "percpu",
            "cpu",
            "sys",
        ],
    ),
    ("device", &["ioctl", "session", "sys"]),
    (
        "ioctl",
        &["session", "counting", "trace", "event", "ownership", "sys"],
    ),
    ("session", &["counting", "trace", "ownership"]),
    (
        "cpus",
        &["trace", "event", "ownership", "pmu", "percpu", "cpu"],
    ),
    ("counting", &["ownership", "pmu", "percpu", "cpu", "sys"]),
    ("trace", &["ownership", "pmu", "percpu", "cpu", "sys"]),
    (
        "event",
        &["ownership", "pmu", "percpu", "ring", "cpu", "sys"],
    ),
    ("ownership", &["pmu", "percpu", "cpu", "sys"]),
    ("overflow", &["pmu", "percpu", "ring", "cpu", "sys"]),
    ("pmu", &["percpu", "ring", "cpu", "sys"]),
    ("percpu", &["ring", "cpu"]),
    ("ring", &["sys"]),
    ("cpu", &["sys"]),
    ("sys", &[]),
    ("logic", &[]),
    ("abi", &[]),
];

/// The part whose files [`EVENT_FILES`] lists.
const EVENT_FOLDER: &str = "event/";

/// The files of `event/` from the top to the bottom: each uses only files below it.
const EVENT_FILES: [&str; 43] = [
    // The calls of programs.
    "mod",
    "open",
    "descriptor",
    "resources",
    "reassign",
    "mmap",
    "output",
    // Tasks that begin, execute a program, and end.
    "hooks",
    "mapping_records",
    "new_cgroups",
    "task_lifecycle",
    "end_counts",
    // The tasks and CPUs that events count, and the context switch.
    "attach",
    "switch",
    "record",
    "cgroup",
    "slow_switch_users",
    "table",
    "counted_cgroup",
    "context",
    // The slots of a context.
    "slot/mod",
    "slot/windows",
    "slot/sampling",
    "slot/user_pages",
    "slot/call_stack",
    "slot/readings",
    "slot/turns",
    "slot/list",
    "slot/slot_memory",
    "slot/slot",
    "slot/turn_order",
    "slot/saved_calls",
    "slot/phase",
    // Groups of events, and the memory that programs map.
    "group",
    "event",
    "members",
    "memory/mod",
    "memory/mapped",
    "memory/ring",
    "memory/page",
    "target",
    "entry",
    "rcu",
];

/// The sources of pmctl.
const PMCTL: &str = "user/pmctl/src";

/// The folders of [`PMCTL`] from the top to the bottom: a file uses only files of its own folder
/// and of the folders below it. The files directly in [`PMCTL`] are above all folders.
const PMCTL_FOLDERS: [&str; 5] = ["commands/", "args/", "recording/", "events/", "system/"];

/// The workspace, with a folder for each crate.
const WORKSPACE: &str = "user";

/// Files of tests, which may use anything.
const TEST_FILES: [&str; 2] = ["tests.rs", "testing.rs"];

/// The page with a picture of [`PARTS`], followed by a picture of [`EVENT_FILES`].
const PICTURES: &str = "Documentation/design.rst";

/// Fails with a list of the uses that the tables do not allow, of the circles of files, or of the
/// names that the pictures lack.
pub(crate) fn check(top: &Path) -> Result<()> {
    let module = top.join(MODULE);
    check_pictures(&fs::read_to_string(top.join(PICTURES))?)?;
    check_parts(&module, &rust_files(&module)?)?;
    let mut circles = Vec::new();
    for folder in circle_free_folders(top)? {
        let uses = uses_in(&top.join(&folder))?;
        match folder.as_str() {
            MODULE => check_event(&uses)?,
            PMCTL => check_pmctl(&uses)?,
            _ => {}
        }
        let folder_circles = uses.circles().into_iter();
        circles.extend(folder_circles.map(|circle| format!("  {folder}: {}", circle.join(", "))));
    }
    if circles.is_empty() {
        return Ok(());
    }
    bail!(
        "Each of these sets of files is a circle of uses:\n{}",
        circles.join("\n")
    )
}

/// Fails with each name of [`PARTS`] and of [`EVENT_FILES`] that its picture in the text of [`PICTURES`] lacks.
fn check_pictures(page: &str) -> Result<()> {
    let mut pictures = page.split("\n.. code-block:: text\n").skip(1).map(|rest| {
        let lines = rest
            .lines()
            .take_while(|line| line.is_empty() || line.starts_with(' '));
        lines.flat_map(words_of_picture).collect::<Vec<_>>()
    });
    let tables = [PARTS.map(|(name, _)| name).to_vec(), EVENT_FILES.to_vec()];
    let mut missing = Vec::new();
    for table in tables {
        let drawn_names = pictures.next().unwrap_or_default();
        missing.extend(table.into_iter().filter(|name| !drawn_names.contains(name)));
    }
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "The pictures in {PICTURES} lack these names, which the tables in user/xtask/src/arrows.rs have: {}",
        missing.join(", ")
    )
}

/// Returns the words of a line of a picture. A word may contain a slash.
fn words_of_picture(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '/')
        .filter(|word| !word.is_empty())
}

/// Fails with each use of a folder of pmctl that [`PMCTL_FOLDERS`] does not allow.
fn check_pmctl(uses: &Uses) -> Result<()> {
    let level = |file: &str| {
        PMCTL_FOLDERS
            .iter()
            .position(|folder| file.starts_with(folder))
    };
    let mut violations = Vec::new();
    for (file, used) in uses.iter() {
        let Some(own_level) = level(file) else {
            continue;
        };
        let above = used
            .iter()
            .filter(|used| level(used).is_none_or(|level| level < own_level));
        violations.extend(above.map(|used| format!("  {file} -> {used}")));
    }
    if violations.is_empty() {
        return Ok(());
    }
    bail!(
        "These files in {PMCTL} may not use each other:\n{}\n\
         A folder uses itself and those below it; the table is in user/xtask/src/arrows.rs.",
        violations.join("\n")
    )
}

/// Returns the folders whose files must not use each other in a circle: the module, and the sources of each crate.
fn circle_free_folders(top: &Path) -> Result<Vec<String>> {
    let mut folders = vec![MODULE.to_owned()];
    let workspace = top.join(WORKSPACE);
    let entries =
        fs::read_dir(&workspace).with_context(|| format!("can't read {}", workspace.display()))?;
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_str().context("a name is not UTF-8")?;
        let folder = format!("{WORKSPACE}/{name}/src");
        if top.join(&folder).is_dir() {
            folders.push(folder);
        }
    }
    folders.sort();
    Ok(folders)
}

/// Returns, for each file below a folder, the other files there that it uses. Files of tests are
/// left out.
fn uses_in(folder: &Path) -> Result<Uses> {
    let mut names = Vec::new();
    for path in rust_files(folder)? {
        let name = path.strip_prefix(folder)?;
        let name = name.to_str().context("a name is not UTF-8")?;
        if !TEST_FILES.iter().any(|tests| name.ends_with(tests)) {
            names.push(name.to_owned());
        }
    }
    Uses::read(folder, &names)
}

/// Fails with each use of a file in [`EVENT_FOLDER`] that [`EVENT_FILES`] does not allow.
fn check_event(uses: &Uses) -> Result<()> {
    let name_in_event_folder = |file: &str| {
        let name = file.strip_prefix(EVENT_FOLDER)?.strip_suffix(".rs")?;
        Some(name.to_owned())
    };
    let level = |name: &str| EVENT_FILES.iter().position(|&file| file == name);
    let mut violations = Vec::new();
    for (file, used) in uses.iter() {
        let Some(file) = name_in_event_folder(file) else {
            continue;
        };
        let Some(own_level) = level(&file) else {
            violations.push(format!("  {file} is not in the table"));
            continue;
        };
        for used in used.iter().filter_map(|used| name_in_event_folder(used)) {
            if level(&used).is_some_and(|level| level <= own_level) {
                violations.push(format!("  {file} -> {used}"));
            }
        }
    }
    for name in EVENT_FILES {
        if !uses
            .iter()
            .any(|(file, _)| name_in_event_folder(file).as_deref() == Some(name))
        {
            violations.push(format!(
                "  {name} is in the table, but there is no such file"
            ));
        }
    }
    if violations.is_empty() {
        return Ok(());
    }
    bail!(
        "These files in {MODULE}/{EVENT_FOLDER} may not use each other, or do not match the table:\n{}\n\
         A file uses only those below it; the table is in user/xtask/src/arrows.rs.",
        violations.join("\n")
    )
}

/// Fails with each use of a part that [`PARTS`] does not allow.
fn check_parts(module: &Path, paths: &[PathBuf]) -> Result<()> {
    let mut violations = Vec::new();
    for path in paths {
        let name = path.strip_prefix(module)?;
        let part = part_of(name).with_context(|| format!("{} has no name", name.display()))?;
        let text =
            fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
        for used in used_parts(&text) {
            if !may_use(&part, &used) {
                violations.push(format!("  {MODULE}/{}: {part} -> {used}", name.display()));
            }
        }
    }
    if violations.is_empty() {
        return Ok(());
    }
    bail!(
        "These parts of the module may not use each other:\n{}\n\
         A part uses only those below it; the table is in user/xtask/src/arrows.rs, the reasons in \
         Documentation/design.rst.",
        violations.join("\n")
    )
}

/// Returns whether a part may use another.
fn may_use(part: &str, used: &str) -> bool {
    let is_allowed = |&(name, parts): &(&str, &[&str])| name == part && parts.contains(&used);
    part == used
        || COMMON_PARTS.contains(&used)
        || ROOT_ITEMS.contains(&used)
        || PARTS.iter().any(is_allowed)
}

/// Returns the Rust files below a folder.
fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries =
        fs::read_dir(folder).with_context(|| format!("can't read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the part that a file belongs to: its first folder, or its own name.
fn part_of(file: &Path) -> Option<String> {
    let first = Path::new(file.components().next()?.as_os_str());
    Some(first.file_stem()?.to_str()?.to_owned())
}

/// Returns the names that follow `crate::` outside of comments, each once.
fn used_parts(text: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n");
    let mut names: Vec<String> = code
        .split("crate::")
        .skip(1)
        .flat_map(|rest| match rest.strip_prefix('{') {
            Some(group) => group_names(group),
            None => vec![identifier(rest).to_owned()],
        })
        .filter(|name| !name.is_empty())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the first name of each item of a group, whose text begins after the opening brace.
fn group_names(group: &str) -> Vec<String> {
    let (mut depth, mut at_item, mut names) = (0, true, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_item = true,
            _ if at_item && !c.is_whitespace() => {
                names.push(identifier(&group[at..]).to_owned());
                at_item = false;
            }
            _ => {}
        }
    }
    names
}

/// Returns the identifier that a text begins with.
fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_uses_only_parts_below_it() {
        for (at, (part, used)) in PARTS.iter().enumerate() {
            for name in *used {
                let below = PARTS[at + 1..].iter().any(|(other, _)| other == name);
                assert!(below, "{part} uses {name}");
            }
        }
    }

    #[test]
    fn a_name_that_a_picture_lacks_is_found() {
        let parts = PARTS.map(|(name, _)| name).join("\n      |\n    ");
        let event = EVENT_FILES.join("  ");
        let page = |event: &str| {
            format!(
                "\n.. code-block:: text\n\n    {parts}\n\n.. code-block:: text\n\n    {event}\n\nText\n"
            )
        };
        assert!(check_pictures(&page(&event)).is_ok());
        let error = check_pictures(&page(&event.replace("slot/phase", "phase"))).unwrap_err();
        assert!(error.to_string().ends_with("have: slot/phase"), "{error}");
    }

    #[test]
    fn names_are_found_in_each_form() {
        let text = "use crate::{\n    cpu::{self, msr},\n    logic::regs,\n    pmu,\n};\n\
                    use crate::sys::ffi;\nfn f() { crate::trace::x() } // crate::comment\n";
        assert_eq!(used_parts(text), ["cpu", "logic", "pmu", "sys", "trace"]);
    }

    #[test]
    fn a_file_belongs_to_its_first_folder() {
        assert_eq!(
            part_of(Path::new("pmu/lbr/legacy.rs")).as_deref(),
            Some("pmu")
        );
        assert_eq!(part_of(Path::new("device.rs")).as_deref(), Some("device"));
    }

    #[test]
    fn the_module_and_all_crates_are_free_of_circles() {
        let folders = circle_free_folders(&crate::top()).expect("the folders can be read");
        for folder in [MODULE, PMCTL, "user/perfmon/src", "user/xtask/src"] {
            assert!(folders.iter().any(|known| known == folder), "{folder}");
        }
    }

    #[test]
    fn arrows_point_down() {
        assert!(may_use("overflow", "pmu"));
        assert!(may_use("cpu", "logic"));
        assert!(may_use("sys", "THIS_MODULE"));
        assert!(!may_use("pmu", "overflow"));
        assert!(!may_use("cpu", "percpu"));
        assert!(!may_use("logic", "pmu"));
    }
}
