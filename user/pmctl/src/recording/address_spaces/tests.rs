// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the names and mappings of tasks.

use super::file_names::VDSO32;
use super::*;
use crate::recording::perfdata::{KERNEL, VDSO};

fn map(pid: u32, start: u64, length: u64, file: &str) -> Record {
    let map = Map {
        task: Task::leader(pid),
        is_kernel: is_kernel_address(start),
        start,
        length,
        offset: 0x1000,
        file: file.into(),
        ..Map::default()
    };
    record(Body::Map(map))
}

fn record(body: Body) -> Record {
    Record {
        stamp: crate::recording::perfdata::Stamp::default(),
        body,
    }
}

fn place(spaces: &AddressSpaces, pid: u32, address: u64) -> Option<(&str, u64)> {
    let place = spaces.find(pid, address)?;
    let file = spaces.path(place.file);
    Some((file.to_str().expect("it is text"), place.offset))
}

/// Returns the address spaces that the records of `spaces` make.
fn rebuilt(spaces: &AddressSpaces) -> AddressSpaces {
    let mut copy = AddressSpaces::default();
    for record in spaces.records() {
        copy.apply(&record);
    }
    copy
}

#[test]
fn an_empty_mapping_is_left_out() {
    const KERNEL: u64 = 0xffff_ffff_8000_0000;
    let mut spaces = AddressSpaces::default();
    spaces.apply(&map(0, KERNEL, 0x3000, "[kernel]"));
    spaces.apply(&map(0, KERNEL + 0x1000, 0, "[empty]"));
    assert_eq!(
        place(&spaces, 0, KERNEL + 0x1000),
        Some(("[kernel]", KERNEL + 0x1000))
    );
}

#[test]
fn a_new_mapping_replaces_older_ones() {
    let mut spaces = AddressSpaces::default();
    spaces.apply(&map(1, 0x1000, 0x3000, "old"));
    spaces.apply(&map(1, 0x2000, 0x1000, "new"));
    assert_eq!(place(&spaces, 1, 0x0fff), None);
    assert_eq!(place(&spaces, 1, 0x1fff), Some(("old", 0x1fff)));
    assert_eq!(place(&spaces, 1, 0x2000), Some(("new", 0x1000)));
    assert_eq!(place(&spaces, 1, 0x3000), Some(("old", 0x3000)));
    assert_eq!(place(&spaces, 1, 0x4000), None);
    assert_eq!(place(&spaces, 2, 0x2000), None);
}

#[test]
fn anonymous_memory_is_jit_code_of_its_process() {
    let mut spaces = AddressSpaces::default();
    spaces.apply(&map(1, 0x1000, 0x1000, "//anon"));
    spaces.apply(&map(2, 0x9000, 0x1000, "/bin/true"));
    spaces.apply(&map(2, 0x1000, 0x1000, "/memfd:code (deleted)"));
    assert_eq!(place(&spaces, 1, 0x1008), Some(("/tmp/perf-1.map", 0x1008)));
    assert_eq!(place(&spaces, 2, 0x1008), Some(("/tmp/perf-2.map", 0x1008)));
    let (child, parent) = (Task::leader(3), Task::leader(1));
    spaces.apply(&record(Body::Fork { child, parent }));
    assert_eq!(place(&spaces, 3, 0x1008), Some(("/tmp/perf-1.map", 0x1008)));
}

#[test]
fn a_child_shares_mappings_until_it_has_its_own() {
    let mut spaces = AddressSpaces::default();
    spaces.apply(&map(1, 0x1000, 0x1000, "/bin/a"));
    let (child, parent) = (Task::leader(2), Task::leader(1));
    spaces.apply(&record(Body::Fork { child, parent }));
    assert!(Arc::ptr_eq(&spaces.processes[&1], &spaces.processes[&2]));
    spaces.apply(&map(2, 0x1000, 0x1000, "/bin/b"));
    assert_eq!(place(&spaces, 1, 0x1000), Some(("/bin/a", 0x1000)));
    assert_eq!(place(&spaces, 2, 0x1000), Some(("/bin/b", 0x1000)));
}

#[test]
fn a_program_without_a_name_in_the_file_system_is_a_file() {
    let name = "/memfd:program (deleted)";
    let mut spaces = AddressSpaces::default();
    spaces.apply(&map(1, 0x8000, 0x1000, "/bin/sh"));
    let (task, exec) = (Task::leader(1), true);
    let comm = "program".to_owned();
    spaces.apply(&record(Body::Comm {
        task,
        name: comm,
        exec,
    }));
    spaces.apply(&map(1, 0x5000, 0x1000, name));
    spaces.apply(&map(1, 0x7000, 0x1000, "/lib/ld.so"));
    spaces.apply(&map(1, 0x6000, 0x1000, name));
    spaces.apply(&map(1, 0x1000, 0x1000, "/memfd:code (deleted)"));
    for spaces in [&spaces, &rebuilt(&spaces)] {
        assert_eq!(place(spaces, 1, 0x5000), Some((name, 0x1000)));
        assert_eq!(place(spaces, 1, 0x6000), Some((name, 0x1000)));
        assert_eq!(place(spaces, 1, 0x1000), Some(("/tmp/perf-1.map", 0x1000)));
    }
}

/// Returns the record of a mapping that can't be executed.
fn data_map(pid: u32, start: u64, length: u64, file: &str) -> Record {
    let mut record = map(pid, start, length, file);
    if let Body::Map(map) = &mut record.body {
        map.is_data = true;
    }
    record
}

#[test]
fn data_is_no_jit_code() {
    let code = "/memfd:code (deleted)";
    let program = "/memfd:program (deleted)";
    let mut spaces = AddressSpaces::default();
    spaces.apply(&data_map(1, 0x9000, 0x1000, "[stack]"));
    spaces.apply(&data_map(1, 0x4000, 0x1000, program));
    spaces.apply(&map(1, 0x5000, 0x1000, program));
    spaces.apply(&data_map(1, 0x8000, 0x1000, "//anon"));
    // JIT code may be written through a mapping of its own.
    spaces.apply(&data_map(1, 0x1000, 0x1000, code));
    spaces.apply(&map(1, 0x2000, 0x1000, code));
    for spaces in [&spaces, &rebuilt(&spaces)] {
        assert_eq!(place(spaces, 1, 0x9000), Some(("[stack]", 0x1000)));
        assert_eq!(place(spaces, 1, 0x4000), Some((program, 0x1000)));
        assert_eq!(place(spaces, 1, 0x5000), Some((program, 0x1000)));
        assert_eq!(place(spaces, 1, 0x8000), Some(("//anon", 0x1000)));
        assert_eq!(place(spaces, 1, 0x1000), Some((code, 0x1000)));
        assert_eq!(place(spaces, 1, 0x2000), Some(("/tmp/perf-1.map", 0x2000)));
    }
}

#[test]
fn files_of_one_path_are_told_apart() {
    let of_inode = |pid, start, inode| {
        let mut record = map(pid, start, 0x1000, "/lib/a.so");
        if let Body::Map(map) = &mut record.body {
            (map.device, map.inode) = ((0, 27), inode);
        }
        record
    };
    let mut spaces = AddressSpaces::default();
    for (pid, start, inode) in [
        (1, 0x5000, 10),
        (2, 0x5000, 11),
        (1, 0x7000, 0),
        (3, 0x5000, 10),
    ] {
        spaces.apply(&of_inode(pid, start, inode));
    }
    for spaces in [&spaces, &rebuilt(&spaces)] {
        let name = |pid, address| place(spaces, pid, address).map(|(name, _)| name);
        assert_eq!(name(1, 0x5000), Some("/lib/a.so"));
        assert_eq!(name(2, 0x5000), Some("/lib/a.so (inode 11 of 0:27)"));
        assert_eq!(name(1, 0x7000), Some("/lib/a.so"), "no inode is known");
        assert_eq!(name(3, 0x5000), Some("/lib/a.so"));
        let file = spaces.find(2, 0x5000).expect("it is mapped").file;
        assert_eq!(spaces.path_in_file_system(file), Path::new("/lib/a.so"));
        assert_eq!(spaces.later_file_count(), 1);
    }
}

#[test]
fn files_of_one_path_are_told_apart_by_build_id() {
    let with_id = |pid, id: &[u8]| {
        let mut record = map(pid, 0x5000, 0x1000, "/lib/a.so");
        if let Body::Map(map) = &mut record.body {
            map.build_id = id.to_vec();
        }
        record
    };
    let mut spaces = AddressSpaces::default();
    for (pid, id) in [
        (1, &[0x1f; 20][..]),
        (2, &[0x2e, 0x07]),
        (3, &[0x1f; 20]),
        (4, &[]),
    ] {
        spaces.apply(&with_id(pid, id));
    }
    for spaces in [&spaces, &rebuilt(&spaces)] {
        let name = |pid| place(spaces, pid, 0x5000).map(|(name, _)| name);
        assert_eq!(name(1), Some("/lib/a.so"));
        assert_eq!(name(2), Some("/lib/a.so (build-id 2e07)"));
        assert_eq!(name(3), Some("/lib/a.so"));
        assert_eq!(name(4), Some("/lib/a.so"), "no build-id is known");
        let file = spaces.find(2, 0x5000).expect("it is mapped").file;
        assert_eq!(spaces.path_in_file_system(file), Path::new("/lib/a.so"));
        assert_eq!(spaces.build_id(file), Some(&[0x2e, 0x07][..]));
    }
}

#[test]
fn programs_of_32_bits_have_another_vdso() {
    let mut spaces = AddressSpaces::default();
    spaces.apply(&map(1, 0xf7f0_0000, 0x1000, VDSO));
    spaces.apply(&map(2, 0x7fff_0000_0000, 0x1000, VDSO));
    let name = |pid, address| place(&spaces, pid, address).map(|(name, _)| name);
    assert_eq!(name(1, 0xf7f0_0000), Some(VDSO32));
    assert_eq!(name(2, 0x7fff_0000_0000), Some(VDSO));
}

#[test]
fn mappings_end_with_the_last_thread() {
    let mut spaces = AddressSpaces::default();
    let (leader, thread) = (Task::leader(1), Task { pid: 1, tid: 2 });
    spaces.apply(&map(1, 0x1000, 0x1000, "x"));
    for task in [leader, thread] {
        let name = "x".to_owned();
        spaces.apply(&record(Body::Comm {
            task,
            name,
            exec: false,
        }));
    }
    spaces.remove_task(leader);
    assert!(place(&spaces, 1, 0x1000).is_some());
    spaces.remove_task(thread);
    assert!(place(&spaces, 1, 0x1000).is_none());
}

#[test]
fn copies_of_mappings_are_limited() {
    let begin_child = |copied_mappings| {
        let mut spaces = AddressSpaces::default();
        spaces.apply(&map(1, 0x1000, 0x1000, "a"));
        spaces.apply(&map(1, 0x3000, 0x1000, "b"));
        spaces.copied_mappings = copied_mappings;
        let (parent, child) = (Task::leader(1), Task::leader(2));
        spaces.apply(&record(Body::Fork { child, parent }));
        spaces.apply(&map(2, 0x5000, 0x1000, "c"));
        let is_mapped = |address| spaces.find(2, address).is_some();
        let mapped = [0x1000, 0x3000, 0x5000].map(is_mapped);
        spaces.remove_task(child);
        (mapped, spaces.copied_mappings)
    };
    let all = [true; 3];
    assert_eq!(begin_child(0), (all, 0));
    let last = MAX_COPIED_MAPPINGS - 2;
    assert_eq!(begin_child(last), (all, last - 1), "`c` was no copy");
    let (mapped, _) = begin_child(last + 1);
    assert_eq!(mapped, [false, false, true]);
}

#[test]
fn the_kernel_is_found_in_each_process_by_address() {
    let mut spaces = AddressSpaces::default();
    let text = 0xffff_ffff_8100_0000;
    spaces.apply(&map(u32::MAX, text, 0x1000, "[kernel.kallsyms]_text"));
    assert_eq!(place(&spaces, 1, text + 8), Some((KERNEL, text + 8)));
    assert_eq!(place(&spaces, 1, text + 0x1000), None);
}

#[test]
fn a_module_ends_where_another_begins() {
    let module = |start, length, name: &str| map(u32::MAX, start, length, name);
    let start = 0xffff_ffff_c000_0000;
    // The modules are mapped in both orders.
    let first = module(start, 0x8000, "[first]");
    let second = module(start + 0x2000, 0x4000, "[second]");
    for order in [[&first, &second], [&second, &first]] {
        let mut spaces = AddressSpaces::default();
        order.into_iter().for_each(|map| spaces.apply(map));
        let name = |offset| place(&spaces, 1, start + offset).map(|(name, _)| name);
        assert_eq!(name(0x1fff), Some("[first]"));
        assert_eq!(name(0x2000), Some("[second]"));
        assert_eq!(name(0x5fff), Some("[second]"));
    }
}

#[test]
fn a_process_inherits_nothing_from_an_earlier_one_of_its_number() {
    let mut spaces = AddressSpaces::default();
    let (unknown, child) = (Task::leader(1), Task::leader(2));
    let comm = Body::Comm {
        task: child,
        name: "old".to_owned(),
        exec: true,
    };
    spaces.apply(&record(comm));
    spaces.apply(&map(2, 0x1000, 0x1000, "/bin/old"));
    assert_eq!(spaces.pid_reuse_count(2), 0);
    let parent = unknown;
    spaces.apply(&record(Body::Fork { child, parent }));
    assert_eq!(place(&spaces, 2, 0x1000), None);
    assert_eq!(spaces.comm(child), UNKNOWN);
    assert_eq!(spaces.pid_reuse_count(2), 1);
    // The new thread belongs to the same process.
    let (child, parent) = (Task { pid: 2, tid: 3 }, child);
    spaces.apply(&map(2, 0x1000, 0x1000, "/bin/new"));
    spaces.apply(&record(Body::Fork { child, parent }));
    assert_eq!(place(&spaces, 2, 0x1000), Some(("/bin/new", 0x1000)));
    assert_eq!(spaces.pid_reuse_count(2), 1);
}

#[test]
fn a_child_has_its_parents_memory_until_it_executes_something() {
    let mut spaces = AddressSpaces::default();
    let (parent, child) = (Task::leader(1), Task::leader(2));
    spaces.apply(&record(Body::Comm {
        task: parent,
        name: "sh".to_owned(),
        exec: true,
    }));
    spaces.apply(&map(1, 0x1000, 0x1000, "/bin/sh"));
    assert_eq!(spaces.only_owner(0x1000), Some(1));
    spaces.apply(&record(Body::Fork { child, parent }));
    assert_eq!(spaces.comm(child), "sh");
    assert_eq!(place(&spaces, 2, 0x1000), Some(("/bin/sh", 0x1000)));
    assert_eq!(spaces.only_owner(0x1000), None, "both have it");
    spaces.apply(&record(Body::Comm {
        task: child,
        name: "ls".to_owned(),
        exec: true,
    }));
    assert_eq!(place(&spaces, 2, 0x1000), None);
    assert_eq!(spaces.comm(Task { pid: 2, tid: 9 }), "ls");
    assert_eq!(spaces.comm(Task::leader(9)), UNKNOWN);
}
