// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of a trace.

use perfmon::trace::{Chunk, Decoder, merge};

/// Decodes records up to their end, or up to one error. Encoding the decoded records gives the same
/// bytes again.
///
/// # Panics
/// If one of these properties does not hold.
pub fn decode(bytes: &[u8]) {
    let mut decoder = Decoder::new(bytes);
    let mut offset = 0;
    let mut reencoded_bytes = Vec::new();
    while let Some(Ok(record)) = decoder.next() {
        record.encode(&mut reencoded_bytes);
        assert!(decoder.offset() > offset);
        offset = decoder.offset();
    }
    assert_eq!(bytes[..offset], reencoded_bytes);
    assert!(decoder.next().is_none());

    let chunks = [Chunk::new(0, bytes.to_vec()), Chunk::new(1, bytes.to_vec())];
    // Each of the two chunks has at most one record for every 4 bytes, the size of the shortest record, and one error.
    assert!(merge(&chunks).count() <= 2 * (bytes.len() / 4 + 1));
}
