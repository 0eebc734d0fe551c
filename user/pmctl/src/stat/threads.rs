// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads that are counted.

use std::fs;

use crate::exit::Usage;

/// A thread that is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) tid: u32,
    /// Its name and number, as perf shows it.
    pub(crate) name: String,
}

impl Thread {
    fn new(tid: u32) -> Self {
        let comm = fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
        let name = format!("{}-{tid}", crate::text::printable(comm.trim_end()));
        Self { tid, name }
    }
}

/// Returns the threads of these processes, and these threads.
pub(crate) fn threads(pids: &[u32], tids: &[u32]) -> Result<Vec<Thread>, Usage> {
    let mut found = Vec::new();
    for pid in pids {
        let folder = fs::read_dir(format!("/proc/{pid}/task"));
        let folder = folder.map_err(|_| absent('p', "process", *pid))?;
        let names = folder.flatten().map(|entry| entry.file_name());
        found.extend(names.filter_map(|name| name.to_str()?.parse::<u32>().ok()));
    }
    for tid in tids {
        if fs::metadata(format!("/proc/{tid}/comm")).is_err() {
            return Err(absent('t', "thread", *tid));
        }
        found.push(*tid);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found.into_iter().map(Thread::new).collect())
}

fn absent(option: char, what: &str, number: u32) -> Usage {
    Usage(format!(
        "-{option}: there is no {what} {number}; `ps -eL` lists them."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threads_of_a_process_are_found_once() {
        let pid = std::process::id();
        let found = threads(&[pid], &[pid]).expect("it runs");
        assert_eq!(found.iter().filter(|thread| thread.tid == pid).count(), 1);
        assert!(found[0].name.ends_with(&format!("-{}", found[0].tid)));
        assert!(threads(&[0], &[]).is_err());
        assert!(threads(&[], &[0]).is_err());
    }
}
