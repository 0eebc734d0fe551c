// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts mangled names of C++ and Rust to readable ones. Names of C++'s modules and thunks are included.

use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, ParseOptions};

use super::length::{MAX_NAME_LENGTH, truncate_name};
use super::modules;

/// The largest depth to which parts of a C++ name may be nested. The parser tries all readings of a part: with its own limit
/// of 96, a name of 40 bytes can take seconds. Two of 14,000 names of LLVM are nested deeper.
const MAX_NESTING: u32 = 64;

/// Demangles a name of C++ or Rust, and truncates a name that is too long.
///
/// Names of C must not be demangled: the demanglers also accept a mangled type alone, and would take a function `i` for
/// `int`.
///
/// A mangled name can refer back to parts of itself, so 200 bytes can become any length. A name that gets too long stays
/// mangled.
pub(super) fn demangle(name: &str) -> String {
    let is_mangled = name.starts_with("_Z") || name.starts_with("_R");
    let readable = (is_mangled && name.len() <= MAX_NAME_LENGTH).then(|| try_demangle(name));
    readable
        .flatten()
        .unwrap_or_else(|| truncate_name(name).to_owned())
}

/// Demangles a name; `None` if it is not mangled, or if the result is too long.
fn try_demangle(name: &str) -> Option<String> {
    let mut text = LimitedText(String::new());
    if let Some((kind, target)) = split_thunk(name) {
        // cpp_demangle words this in another way than other tools do.
        let write_result = write!(text, "{kind} thunk to {}", try_demangle(&target)?);
        return write_result.ok().map(|()| text.0);
    }
    if let Some(module) = modules::initialized_module(name) {
        return Some(format!("initializer for module {module}"));
    }
    if let Some(plain) = modules::without_modules(name) {
        return Some(plain.restore(&try_demangle(&plain.mangled)?));
    }
    let write_result = if let Ok(symbol) = rustc_demangle::try_demangle(name) {
        // `#` leaves out the hash at the end.
        write!(text, "{symbol:#}")
    } else {
        let options = ParseOptions::default().recursion_limit(MAX_NESTING);
        let symbol = cpp_demangle::Symbol::new_with_options(name, &options).ok()?;
        symbol.structured_demangle(&mut text, &DemangleOptions::new())
    };
    write_result.ok().map(|()| text.0)
}

/// Splits the name of a thunk, such as `_ZThn16_N1B1fEv`, into the kind of thunk and the mangled name of its target. A
/// thunk adjusts `this` before an override is called (Itanium C++ ABI, "Virtual Tables and RTTI", `<call-offset>`).
fn split_thunk(name: &str) -> Option<(&'static str, String)> {
    let rest = name.strip_prefix("_ZT")?;
    let (kind, rest) = if let Some(rest) = rest.strip_prefix('c') {
        (
            "covariant return",
            skip_call_offset(skip_call_offset(rest)?)?,
        )
    } else if rest.starts_with('v') {
        ("virtual", skip_call_offset(rest)?)
    } else {
        ("non-virtual", skip_call_offset(rest)?)
    };
    Some((kind, format!("_Z{rest}")))
}

/// Returns the text after a call offset, which is `h` with one number, or `v` with two. An underscore follows each
/// number.
fn skip_call_offset(text: &str) -> Option<&str> {
    let numbers = match text.as_bytes().first()? {
        b'h' => 1,
        b'v' => 2,
        _ => return None,
    };
    (0..numbers).try_fold(&text[1..], |rest, _| {
        let (number, rest) = rest.split_once('_')?;
        let digits = number.strip_prefix('n').unwrap_or(number);
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then_some(rest)
    })
}

/// A text of at most [`MAX_NAME_LENGTH`] bytes. Writing more is an error, at which the demanglers
/// stop.
struct LimitedText(String);

impl fmt::Write for LimitedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > MAX_NAME_LENGTH {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn only_mangled_names_are_demangled() {
        for name in [
            "i",
            "f",
            "z",
            "Pv",
            "St",
            "main",
            "R",
            "_Z",
            "_R",
            "_Zx y",
            "ptmalloc_init.part.0",
        ] {
            assert_eq!(demangle(name), name);
        }
        for (mangled, name) in [
            ("_ZN5space3fooEibc", "space::foo(int, bool, char)"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvCs15kBYyAo9fc_7mycrate7example", "mycrate::example"),
        ] {
            assert_eq!(demangle(mangled), name);
        }
    }

    #[test]
    fn thunks_are_named_like_other_tools_do() {
        for (mangled, name) in [
            ("_ZThn16_N1B1fEv", "non-virtual thunk to B::f()"),
            ("_ZTv0_n24_N1B1fEv", "virtual thunk to B::f()"),
            ("_ZTchn16_h16_N1B1fEv", "covariant return thunk to B::f()"),
            ("_ZThx_N1B1fEv", "_ZThx_N1B1fEv"),
        ] {
            assert_eq!(demangle(mangled), name);
        }
    }

    #[test]
    fn a_name_that_refers_to_itself_stays_mangled() {
        // Each level is a template with two arguments of the level before.
        let level = |level: char| format!("S_IS{level}_S{level}_E");
        let long_name = ('0'..='9').chain('A'..='C').map(level);
        let long_name = format!("_Z1f1AIiiE{}", long_name.collect::<String>());
        assert_eq!(demangle(&long_name[..10]), "f(A<int, int>)");
        assert_eq!(demangle(&long_name), long_name, "it would have 200 KB");
        // A Rust name with a tuple of numbers.
        let tuple = |length: usize| format!("_RINvC1a1fT{}EE", "a".repeat(length));
        assert_eq!(demangle(&tuple(2)), "a::f::<(i8, i8)>");
        assert_eq!(demangle(&tuple(2000)), tuple(2000), "it would have 8 KB");
    }

    #[test]
    fn a_name_with_many_readings_stays_mangled() {
        let begin = Instant::now();
        for count in 1..40 {
            let name = format!("_Z1fsp{}{}", "LA".repeat(count), "E".repeat(count));
            assert_eq!(demangle(&name), name);
        }
        assert!(begin.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let name = "é".repeat(MAX_NAME_LENGTH);
        assert_eq!(demangle(&name), name[..MAX_NAME_LENGTH]);
        let name = format!("_Z{name}");
        assert_eq!(demangle(&name), name[..MAX_NAME_LENGTH]);
        let name = format!("x{name}");
        assert_eq!(demangle(&name), name[..MAX_NAME_LENGTH - 1]);
        assert_eq!(truncate_name("f"), "f");
    }
}
