// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encodes and decodes numbers and texts.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// A reader of bytes from front to back. The methods return `None` if the bytes end too early.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// Takes the next bytes.
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Takes `N` 8-byte words. One check of the length for all of them is faster than one for each.
    #[inline]
    pub(super) fn word_array<const N: usize>(&mut self) -> Option<[u64; N]> {
        let bytes = self.take(N * 8)?;
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        Some(words)
    }

    /// Takes a count, and as many 8-byte words.
    pub(super) fn words(&mut self) -> Option<Vec<u64>> {
        let mut words = Vec::new();
        self.append_words(&mut words)?;
        Some(words)
    }

    /// Takes a count, and as many 8-byte words, which are appended to `words`.
    pub(super) fn append_words(&mut self, words: &mut Vec<u64>) -> Option<()> {
        for _ in 0..self.u64()? {
            words.push(self.u64()?);
        }
        Some(())
    }

    /// Returns everything up to a NUL or the end, as the name of a file.
    pub(super) fn name(self) -> OsString {
        let length = self.0.iter().position(|byte| *byte == 0);
        OsString::from_vec(self.0[..length.unwrap_or(self.0.len())].to_vec())
    }

    /// Returns everything up to a NUL or the end, as text.
    pub(super) fn text(self) -> String {
        self.name().to_string_lossy().into_owned()
    }
}

/// Appends numbers and texts to bytes.
pub(super) trait Put {
    fn u16(&mut self, number: u16);
    fn u32(&mut self, number: u32);
    fn u64(&mut self, number: u64);
    /// Appends a text and at least one NUL, so that a multiple of `align` bytes is appended.
    fn padded(&mut self, text: &[u8], align: usize);
}

impl Put for Vec<u8> {
    fn u16(&mut self, number: u16) {
        self.extend(number.to_le_bytes());
    }

    fn u32(&mut self, number: u32) {
        self.extend(number.to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.extend(number.to_le_bytes());
    }

    fn padded(&mut self, text: &[u8], align: usize) {
        self.extend(text);
        let end = self.len() + (text.len() / align + 1) * align - text.len();
        self.resize(end, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_past_the_end_is_none() {
        let mut reader = Reader(&[1, 0, 2]);
        assert_eq!(reader.u16(), Some(1));
        assert_eq!(reader.u32(), None);
        assert_eq!(reader.take(1), Some(&[2][..]));
        let bytes: Vec<u8> = (0..17).collect();
        let mut reader = Reader(&bytes);
        assert_eq!(reader.word_array::<3>(), None);
        assert_eq!(
            reader.word_array(),
            Some([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908])
        );
        assert_eq!(reader.take(2), None);
        assert_eq!(reader.take(1), Some(&[16][..]));
    }

    #[test]
    fn a_text_ends_with_a_nul_and_on_a_boundary() {
        for (text, size) in [("", 8), ("1234567", 8), ("12345678", 16)] {
            let mut bytes = Vec::new();
            bytes.padded(text.as_bytes(), 8);
            assert_eq!(bytes.len(), size, "{text}");
            assert_eq!(Reader(&bytes).text(), text);
        }
    }
}
