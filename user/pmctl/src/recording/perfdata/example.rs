// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small recording, for tests and as a seed of the fuzzer.

use perfmon::Modes;
use perfmon_core::logic::perf_event::PERF_CONTEXT_USER;

use super::{
    Attr, Body, Branch, BuildId, DataSource, Event, EventKind, Host, Map, MemoryAccess, Notes,
    Record, Recording, Records, Sample, SampleParts, Stamp, Task, UserStack, Weight,
};

/// Returns a record of each kind, one nanosecond apart. Samples have all optional parts if `has_all_parts`
/// is true, and otherwise none.
pub(super) fn records(has_all_parts: bool) -> Vec<Record> {
    let (leader, task) = (Task::leader(7), Task { pid: 7, tid: 8 });
    let branch = Branch {
        from: 0x40_1000,
        to: 0x40_2000,
        mispredicted: Some(true),
        cycles: 9,
    };
    let access = MemoryAccess {
        address: 0x60_1008,
        weight: Weight {
            latency: 30,
            others: [40, 5],
        },
        // A load that hits L1.
        source: DataSource(0x6810_0142),
    };
    let sample = |event, ip| {
        Body::Sample(Sample {
            event,
            ip,
            period: 1000,
            chain: if has_all_parts {
                vec![PERF_CONTEXT_USER, ip, 7]
            } else {
                vec![]
            },
            branches: if has_all_parts {
                vec![branch; 3]
            } else {
                vec![]
            },
            user_stack: (has_all_parts && event == 0).then(user_stack),
            access: if has_all_parts {
                access
            } else {
                MemoryAccess::default()
            },
            cgroup: if has_all_parts { 77 } else { 0 },
            guest_mode: None,
        })
    };
    let map = Map {
        task: leader,
        start: 0x40_0000,
        length: 0x1_0000,
        offset: 0x1000,
        device: (8, 1),
        inode: 99,
        build_id: Vec::new(),
        protection: 5,
        flags: 2,
        is_kernel: false,
        is_data: false,
        file: "/bin/true".into(),
    };
    let bodies = [
        Body::Map(map),
        Body::Comm {
            task: leader,
            name: "true".to_owned(),
            exec: true,
        },
        Body::Fork {
            child: task,
            parent: leader,
        },
        Body::Code {
            address: u64::MAX - 0xffff,
            length: 64,
            kind: 1,
            flags: 0,
            name: "bpf_prog_1".to_owned(),
        },
        Body::Cgroup {
            id: 77,
            path: "/system.slice/ssh.service".to_owned(),
        },
        sample(0, 0x40_1234),
        sample(1, u64::MAX - 0xff),
        Body::Switch {
            out: true,
            other: Task::default(),
        },
        Body::Lost(3),
        Body::Exit {
            task,
            parent: leader,
        },
    ];
    let record = |(time, body)| Record {
        stamp: Stamp { time, task, cpu: 1 },
        body,
    };
    (1..).zip(bodies).map(record).collect()
}

/// Returns a stack that is shorter than the size that was asked for.
fn user_stack() -> Box<UserStack> {
    Box::new(UserStack {
        is_64_bit: true,
        registers: std::array::from_fn(|number| 0x7000 + number as u64),
        stack: (0..24).collect(),
        requested_bytes: 32,
    })
}

/// Returns the attribute of a register's value, such as `temperature`.
#[cfg(test)]
pub(crate) fn value_attr(name: &str) -> Attr {
    let (_, values) = crate::events::values::split(&[name.to_owned()]);
    let kind = EventKind::Value(u64::from(values[0].event as u32));
    Attr::sampled(kind, 0, Modes::Both, SampleParts::default())
}

/// Returns a recording with a value in each field. Samples have all optional parts if `has_all_parts`
/// is true, and otherwise none.
pub(crate) fn example(has_all_parts: bool) -> Recording {
    let parts = SampleParts {
        has_data_address: has_all_parts,
        has_chain: has_all_parts,
        has_branches: has_all_parts,
        has_user_stack: has_all_parts,
        has_weight: has_all_parts,
        has_data_source: has_all_parts,
        has_cgroup: has_all_parts,
    };
    let event = |name: &str, kind, period, modes| Event {
        name: name.to_owned(),
        attr: Attr::sampled(kind, period, modes, parts),
    };
    Recording {
        events: vec![
            event("cycles:u", EventKind::Hardware(0), 1000, Modes::User),
            event("r1c0", EventKind::Raw(0x1c0), 0, Modes::Both),
        ],
        records: Records::from(&records(has_all_parts)[..]),
        host: Host {
            name: "here".to_owned(),
            release: "7.3.0".to_owned(),
            architecture: "x86_64".to_owned(),
            cpus_possible: 4,
            cpus_online: 2,
            processor: "Intel(R) Core(TM) i7-6700K CPU @ 4.00GHz".to_owned(),
            cpuid: "GenuineIntel,6,94,3".to_owned(),
            memory: 1_013_024,
            command_line: vec!["pmctl".to_owned(), "record".to_owned()],
        },
        build_ids: vec![BuildId {
            file: "/bin/true".into(),
            is_kernel: false,
            id: (0..20).collect(),
        }],
        is_unfinished: false,
        is_from_perf: false,
        end: None,
        notes: Notes {
            version: Notes::VERSION,
            totals: vec![1234, 5678],
            ..Notes::default()
        },
    }
}
