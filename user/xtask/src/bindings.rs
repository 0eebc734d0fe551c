// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates Rust bindings from C headers, or checks that the committed files are up to date.
//!
//! A check compares bytes, so the output must not depend on the machine. So only one version of
//! bindgen is allowed, and headers come only from the listed folders (`-nostdinc`).

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// A header, and the Rust file that is made from it.
struct Bindings {
    header: &'static str,
    output: &'static str,
    /// The license of the output.
    license: &'static str,
    /// The folders of the headers that the header includes.
    includes: &'static [&'static str],
    options: &'static [&'static str],
}

/// All bindings.
const BINDINGS: [Bindings; 2] = [ABI, SHIM];

/// The ABI of `/dev/perfmon`.
///
/// The reasons for some options:
/// - `zerocopy_derive::` instead of `zerocopy::`: the kernel builds zerocopy without its feature `derive`;
/// - no `Debug`: the module would contain the code of every implementation.
const ABI: Bindings = Bindings {
    header: "include/uapi/linux/perfmon.h",
    output: "rust/perfmon/abi/perfmon.rs",
    license: "GPL-2.0-only OR MIT",
    // The kernel's UAPI headers, general and of the architecture (package linux-libc-dev).
    includes: &["/usr/include", "/usr/include/x86_64-linux-gnu"],
    options: &[
        "--ctypes-prefix=::core::ffi",
        "--allowlist-file=(.*/)?uapi/linux/perfmon\\.h",
        "--default-enum-style=consts",
        "--no-prepend-enum-name",
        "--generate-cstr",
        "--no-debug=.*",
        "--with-derive-custom-struct=.*=zerocopy_derive::FromBytes,zerocopy_derive::IntoBytes,\
         zerocopy_derive::Immutable,zerocopy_derive::KnownLayout",
    ],
};

/// The module's functions in C.
///
/// The kernel's structures come from its own bindings, where some of them are empty (`improper_ctypes`). bindgen makes
/// functions `pub`, whatever the visibility of their module (`unreachable_pub`).
const SHIM: Bindings = Bindings {
    header: "rust/perfmon/sys/perfmon_shim.h",
    output: "rust/perfmon/sys/ffi.rs",
    license: "GPL-2.0-only",
    includes: &["user/xtask/include"],
    options: &[
        "--ctypes-prefix=::kernel::ffi",
        "--allowlist-file=(.*/)?perfmon_shim\\.h",
        "--blocklist-type=cred|file|linux_binprm|mm_struct|poll_table_struct|pt_regs|task_struct|user_struct|vm_area_struct",
        "--merge-extern-blocks",
        "--no-copy=.*",
        "--no-debug=.*",
        "--raw-line=//! The functions of perfmon_shim.h.",
        "--raw-line=#![allow(improper_ctypes, non_camel_case_types, unreachable_pub, clippy::all)]",
        "--raw-line=use kernel::bindings::{\
         cred, file, linux_binprm, mm_struct, poll_table_struct, pt_regs, task_struct, user_struct, vm_area_struct,\
         };",
    ],
};

/// The version of bindgen in Debian 13, which is also the oldest that the kernel's Rust supports.
const BINDGEN_VERSION: &str = "0.71";

/// The options of all bindings.
///
/// bindgen's own formatting is off: it calls rustfmt without an edition, and `c""` needs edition
/// 2021.
const BINDGEN_OPTIONS: &[&str] = &[
    "--use-core",
    "--rust-target=1.85",
    "--rust-edition=2021",
    "--formatter=none",
    "--disable-header-comment",
];

/// The macro `__BINDGEN__` hides code that bindgen can't express, as in the kernel's own headers.
const CLANG_OPTIONS: &[&str] = &["-D__BINDGEN__", "-nostdinc", "-fparse-all-comments"];

/// Writes all bindings.
pub(crate) fn write(top: &Path) -> Result<()> {
    require_bindgen()?;
    for bindings in &BINDINGS {
        let text = bindings.generate(top)?;
        let path = top.join(bindings.output);
        fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}

/// Fails unless all committed bindings equal the output of bindgen for their headers.
pub(crate) fn check(top: &Path) -> Result<()> {
    require_bindgen()?;
    let mut differences = Vec::new();
    for bindings in &BINDINGS {
        differences.extend(bindings.describe_difference(top)?);
    }
    ensure!(
        differences.is_empty(),
        "{}\nRun `cargo xtask bindings` in user/.",
        differences.join("\n")
    );
    Ok(())
}

impl Bindings {
    /// Describes how the committed file differs from the generated one; `None` if it does not.
    fn describe_difference(&self, top: &Path) -> Result<Option<String>> {
        let generated = self.generate(top)?;
        let path = top.join(self.output);
        let committed =
            fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
        Ok(first_difference(&committed, &generated).map(|difference| {
            format!(
                "{} is not up to date with {}.\n{difference}",
                self.output, self.header
            )
        }))
    }

    /// Returns the text of the bindings.
    fn generate(&self, top: &Path) -> Result<String> {
        let mut bindgen = Command::new("bindgen");
        bindgen.current_dir(top).arg(self.header);
        // REUSE-IgnoreStart
        bindgen.arg(format!(
            "--raw-line=// SPDX-License-Identifier: {}",
            self.license
        ));
        // REUSE-IgnoreEnd
        bindgen.arg(format!(
            "--raw-line=// Made from {} by `cargo xtask bindings`: not to be edited.",
            self.header
        ));
        bindgen.args(BINDGEN_OPTIONS).args(self.options);
        bindgen.arg("--").args(CLANG_OPTIONS);
        for folder in self.includes {
            bindgen.arg("-isystem").arg(folder);
        }
        let unformatted =
            require_success(bindgen.output().context("can't run bindgen")?, "bindgen")?;
        format(&unformatted)
    }
}

/// Describes where two texts begin to differ; `None` if they are the same.
fn first_difference(committed: &str, generated: &str) -> Option<String> {
    if committed == generated {
        return None;
    }
    let mut old_lines = committed.lines();
    let mut new_lines = generated.lines();
    let mut number = 1;
    loop {
        let (old_line, new_line) = (old_lines.next(), new_lines.next());
        if old_line != new_line || old_line.is_none() {
            let show = |line: Option<&str>| line.unwrap_or("(end of the file)").to_owned();
            return Some(format!(
                "First difference, line {number}:\n  committed: {}\n  header:    {}",
                show(old_line),
                show(new_line)
            ));
        }
        number += 1;
    }
}

/// Fails, with the command that installs the right bindgen, unless it is on the path.
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
    let text = require_success(output, "bindgen --version")?;
    let version = text.trim().trim_start_matches("bindgen ");
    ensure!(
        is_release_of(version, BINDGEN_VERSION),
        "bindgen is version {version}, whose output may differ. {install}"
    );
    Ok(())
}

/// Returns whether `version` (1.2.3) is a release of the series `series` (1.2).
fn is_release_of(version: &str, series: &str) -> bool {
    version
        .strip_prefix(series)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns `source`, formatted by rustfmt's defaults. Any rustfmt.toml is ignored.
fn format(source: &str) -> Result<String> {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition=2021", "--config-path=/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("can't run rustfmt (on Debian: `apt install rustfmt`)")?;
    // rustfmt reads all of its input before it writes, so writing first and reading afterwards can't block.
    rustfmt
        .stdin
        .take()
        .context("rustfmt has no input")?
        .write_all(source.as_bytes())
        .context("can't write to rustfmt")?;
    require_success(
        rustfmt
            .wait_with_output()
            .context("can't wait for rustfmt")?,
        "rustfmt",
    )
}

/// Returns the output of a program. Fails with its messages if the program has failed.
fn require_success(output: Output, program: &str) -> Result<String> {
    ensure!(
        output.status.success(),
        "{program} failed ({}):\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    String::from_utf8(output.stdout)
        .with_context(|| format!("the output of {program} is not UTF-8"))
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
    fn a_release_belongs_to_its_series() {
        assert!(is_release_of("0.71.1", "0.71"));
        assert!(is_release_of("0.71", "0.71"));
        assert!(!is_release_of("0.710.1", "0.71"));
        assert!(!is_release_of("0.72.1", "0.71"));
    }
}
