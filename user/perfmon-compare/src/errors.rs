// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts of errors, for users.

use std::fmt::Display;

/// Returns the text of an error in its alternate form (`{:#}`), which may include its causes, without the numbers of
/// [`without_error_numbers`].
#[must_use]
pub fn error_text(error: &(impl Display + ?Sized)) -> String {
    without_error_numbers(&format!("{error:#}"))
}

/// Returns a message without ` (os error N)`, which Rust adds to the system's errors.
#[must_use]
pub fn without_error_numbers(message: &str) -> String {
    let mut parts = message.split(" (os error ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.parse::<u32>().is_ok() => {
                text.push_str(rest);
            }
            _ => {
                text.push_str(" (os error ");
                text.push_str(part);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_message_has_no_numbers_of_errors() {
        let error = io::Error::from_raw_os_error(2);
        assert_eq!(error_text(&error), "No such file or directory");
        let message = format!("can't read a: {error}\nb (os error x)");
        assert_eq!(
            without_error_numbers(&message),
            "can't read a: No such file or directory\nb (os error x)"
        );
    }
}
