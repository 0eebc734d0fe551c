// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the Rust form of the ABI header, or checks that the committed one is up to date.
//!
//! The output must not depend on the machine it is made on, so that a check can compare bytes:
//! one version of bindgen, and no header outside the kernel's own (`-nostdinc`).

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};

const HEADER: &str = "include/uapi/linux/perfmon.h";
const OUTPUT: &str = "rust/perfmon/abi/perfmon.rs";

/// Debian 13's, which is also the floor of Rust in the kernel.
const BINDGEN_VERSION: &str = "0.71";

/// The kernel's UAPI headers, and those that differ by architecture (package linux-libc-dev).
const KERNEL_HEADERS: [&str; 2] = ["/usr/include", "/usr/include/x86_64-linux-gnu"];

/// Why each option is there, where its name doesn't say it:
/// - `zerocopy_derive::` and not `zerocopy::`: the kernel builds zerocopy without its feature `derive`;
/// - no `Debug`: the module would carry the code of every implementation;
/// - no formatter: bindgen calls rustfmt without the edition, and `c""` needs 2021.
const BINDGEN_OPTIONS: &[&str] = &[
    "--use-core",
    "--ctypes-prefix=::core::ffi",
    "--rust-target=1.85",
    "--rust-edition=2021",
    "--allowlist-file=(.*/)?uapi/linux/perfmon\\.h",
    "--default-enum-style=consts",
    "--no-prepend-enum-name",
    "--generate-cstr",
    "--no-debug=.*",
    "--with-derive-custom-struct=.*=zerocopy_derive::FromBytes,zerocopy_derive::IntoBytes,\
     zerocopy_derive::Immutable,zerocopy_derive::KnownLayout",
    "--formatter=none",
    "--disable-header-comment",
    // REUSE-IgnoreStart
    "--raw-line=// SPDX-License-Identifier: GPL-2.0-only OR MIT",
    // REUSE-IgnoreEnd
    "--raw-line=// Made from include/uapi/linux/perfmon.h by `cargo xtask bindings`: not to be edited.",
];

/// `__BINDGEN__` hides from bindgen what it can't express, as in the kernel's own headers.
const CLANG_OPTIONS: &[&str] = &["-D__BINDGEN__", "-nostdinc", "-fparse-all-comments"];

/// Writes the bindings.
pub(crate) fn write(top: &Path) -> Result<()> {
    let made = make(top)?;
    let path = top.join(OUTPUT);
    fs::write(&path, made).with_context(|| format!("can't write {}", path.display()))
}

/// Fails unless the committed bindings are what the header gives.
pub(crate) fn check(top: &Path) -> Result<()> {
    let made = make(top)?;
    let path = top.join(OUTPUT);
    let committed =
        fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    match first_difference(&committed, &made) {
        None => Ok(()),
        Some(difference) => bail!(
            "{OUTPUT} is not what {HEADER} gives.\n{difference}\nRun `cargo xtask bindings` in user/."
        ),
    }
}

/// Describes where two texts begin to differ; `None` if they are the same.
fn first_difference(committed: &str, made: &str) -> Option<String> {
    if committed == made {
        return None;
    }
    let mut old = committed.lines();
    let mut new = made.lines();
    let mut number = 1;
    loop {
        let (was, is) = (old.next(), new.next());
        if was != is || was.is_none() {
            let show = |line: Option<&str>| line.unwrap_or("(end of the file)").to_owned();
            return Some(format!(
                "First difference, line {number}:\n  committed: {}\n  header:    {}",
                show(was),
                show(is)
            ));
        }
        number += 1;
    }
}

/// The text of the bindings.
fn make(top: &Path) -> Result<String> {
    require_bindgen()?;
    let mut bindgen = Command::new("bindgen");
    bindgen.current_dir(top).arg(HEADER).args(BINDGEN_OPTIONS);
    bindgen.arg("--").args(CLANG_OPTIONS);
    for folder in KERNEL_HEADERS {
        bindgen.arg("-isystem").arg(folder);
    }
    let raw = succeed(bindgen.output().context("can't run bindgen")?, "bindgen")?;
    format(&raw)
}

/// Fails with what to install unless the right bindgen is on the path.
fn require_bindgen() -> Result<()> {
    let install = format!(
        "Install version {BINDGEN_VERSION}: on Debian 13 `apt install bindgen linux-libc-dev`, \
         elsewhere `cargo install bindgen-cli --version '~{BINDGEN_VERSION}'`."
    );
    let output = match Command::new("bindgen").arg("--version").output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("bindgen is not on the path. {install}")
        }
        Err(error) => return Err(error).context("can't run bindgen"),
    };
    let text = succeed(output, "bindgen --version")?;
    let found = text.trim().trim_start_matches("bindgen ");
    ensure!(
        is_version(found, BINDGEN_VERSION),
        "bindgen is version {found}, and another version writes another text. {install}"
    );
    Ok(())
}

/// Returns whether `found` (1.2.3) is a release of the series `wanted` (1.2).
fn is_version(found: &str, wanted: &str) -> bool {
    found
        .strip_prefix(wanted)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// `source`, formatted by rustfmt's own rules, whatever rustfmt.toml may be near.
fn format(source: &str) -> Result<String> {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition=2021", "--config-path=/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("can't run rustfmt (on Debian: `apt install rustfmt`)")?;
    // rustfmt reads all of its input before it writes: one after the other can't block.
    rustfmt
        .stdin
        .take()
        .context("rustfmt has no input")?
        .write_all(source.as_bytes())
        .context("can't write to rustfmt")?;
    succeed(
        rustfmt.wait_with_output().context("rustfmt was lost")?,
        "rustfmt",
    )
}

/// Returns what a program wrote, or its messages as the error if it failed.
fn succeed(output: Output, program: &str) -> Result<String> {
    ensure!(
        output.status.success(),
        "{program} failed ({}):\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    String::from_utf8(output.stdout).with_context(|| format!("{program} wrote no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_no_difference() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    }

    #[test]
    fn the_first_difference_is_shown_with_its_line() {
        let text = first_difference("a\nb\nc\n", "a\nx\ny\n").expect("they differ");
        assert!(text.contains("line 2"), "{text}");
        assert!(text.contains("committed: b"), "{text}");
        assert!(text.contains("header:    x"), "{text}");
    }

    #[test]
    fn a_missing_end_is_a_difference() {
        let text = first_difference("a\n", "a\nb\n").expect("they differ");
        assert!(text.contains("committed: (end of the file)"), "{text}");
        let text = first_difference("a", "a\n").expect("a missing newline is a difference too");
        assert!(text.contains("line 2"), "{text}");
    }

    #[test]
    fn only_the_series_counts() {
        assert!(is_version("0.71.1", "0.71"));
        assert!(is_version("0.71", "0.71"));
        assert!(!is_version("0.710.1", "0.71"));
        assert!(!is_version("0.72.1", "0.71"));
    }
}
