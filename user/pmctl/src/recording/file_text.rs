// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts paths to text and back. A path may have any bytes, and the JSON in a recording has text only.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Returns a path as text: bytes that are not UTF-8 become `\xff`. If the path itself contains the characters of such
/// an escape, their backslash becomes `\x5c`.
pub(crate) fn text_of_path(path: &Path) -> Cow<'_, str> {
    if let Some(text) = path.to_str().filter(|text| !text.contains(r"\x")) {
        return Cow::Borrowed(text);
    }
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.find('\\') {
            text.push_str(&rest[..at]);
            let is_escape = escaped_byte(&rest.as_bytes()[at..]).is_some();
            text.push_str(if is_escape { r"\x5c" } else { r"\" });
            rest = &rest[at + 1..];
        }
        text.push_str(rest);
        for byte in chunk.invalid() {
            // Writing to a `String` can't fail.
            let _ = write!(text, r"\x{byte:02x}");
        }
    }
    Cow::Owned(text)
}

/// Returns the path that [`text_of_path`] has converted to this text.
pub(crate) fn path_of_text(text: &str) -> Cow<'_, Path> {
    if !text.contains(r"\x") {
        return Cow::Borrowed(Path::new(text));
    }
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        if let Some(byte) = escaped_byte(rest) {
            bytes.push(byte);
            rest = &rest[4..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    Cow::Owned(OsString::from_vec(bytes).into())
}

/// Returns the path in the name of a file. If an earlier file had the same path, the name has more
/// words, which are left out: `/bin/a` for `/bin/a (inode 12 of 8:1)`.
pub(crate) fn path_of_name(name: &Path) -> &Path {
    const MARKS: [&[u8]; 2] = [b" (inode ", b" (build-id "];
    let bytes = name.as_os_str().as_bytes();
    let begins_words = |at: &usize| MARKS.iter().any(|mark| bytes[*at..].starts_with(mark));
    match (0..bytes.len()).rev().find(begins_words) {
        Some(at) if bytes.ends_with(b")") => Path::new(OsStr::from_bytes(&bytes[..at])),
        _ => name,
    }
}

/// Returns the byte of the escape, such as `\xff`, that a text begins with.
fn escaped_byte(text: &[u8]) -> Option<u8> {
    let [b'\\', b'x', high, low, ..] = text else {
        return None;
    };
    let digit = |digit: &u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    Some(digit(high)? << 4 | digit(low)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(bytes: &[u8]) -> &Path {
        Path::new(OsStr::from_bytes(bytes))
    }

    #[test]
    fn paths_that_differ_have_texts_that_differ() {
        for (bytes, text) in [
            (&b"/bin/a\xff"[..], r"/bin/a\xff"),
            (b"/bin/a\xfe", r"/bin/a\xfe"),
            (br"/bin/a\xff", r"/bin/a\x5cxff"),
            (br"/bin/a\xyz\n", r"/bin/a\xyz\n"),
            ("/bin/ä".as_bytes(), "/bin/ä"),
        ] {
            assert_eq!(text_of_path(path(bytes)), text);
            assert_eq!(path_of_text(text), path(bytes));
        }
    }

    #[test]
    fn a_later_file_has_the_path_of_the_first_one() {
        for (name, expected) in [
            ("/bin/a", "/bin/a"),
            ("/bin/a (inode 12 of 8:1)", "/bin/a"),
            ("/bin/a (build-id 2e07)", "/bin/a"),
            ("/bin/a (inode 1 of 8:1)/b", "/bin/a (inode 1 of 8:1)/b"),
        ] {
            assert_eq!(path_of_name(Path::new(name)), Path::new(expected));
        }
    }

    proptest! {
        #[test]
        fn any_path_is_read_again(
            parts in prop::collection::vec(prop::sample::select(vec![&b"\\x"[..], b"ff", b"\\", b"\xff", b"x", "ä".as_bytes()]), 0..9)
        ) {
            let bytes = parts.concat();
            let text = text_of_path(path(&bytes));
            prop_assert_eq!(path_of_text(&text), path(&bytes));
        }
    }
}
