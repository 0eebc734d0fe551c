// SPDX-License-Identifier: MIT OR Apache-2.0
//! perf's JSON files of events.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

/// A kind of core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The only kind of a processor that is not hybrid.
    Only,
    Core,
    Atom,
    LowPower,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Only => "only",
            Self::Core => "core",
            Self::Atom => "atom",
            Self::LowPower => "lowpower",
        }
    }

    /// Returns the kind of core that `Unit` names; `None` if the unit is outside of cores.
    fn of(unit: Option<&str>) -> Option<Self> {
        match unit {
            None | Some("core") => Some(Self::Only),
            Some("cpu_core") => Some(Self::Core),
            Some("cpu_atom") => Some(Self::Atom),
            Some("cpu_lowpower") => Some(Self::LowPower),
            Some(_) => None,
        }
    }
}

/// The facts of an event. `Display` writes it as a line of a table.
#[derive(Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a field of the event select"
)]
pub(super) struct Event {
    pub(super) name: String,
    number: u64,
    unit_mask: u64,
    counter_mask: u64,
    invert: bool,
    edge: bool,
    any_thread: bool,
    /// The general counters that can count the event: bit n for counter n. 0: all.
    counters: u64,
    fixed: Option<u32>,
    /// The extra register that the event needs, and its value.
    extra: Option<(u64, u64)>,
    period: u64,
    deprecated: bool,
}

/// The events of a kind of core.
#[derive(Default)]
pub(super) struct Events {
    /// The events, sorted by name.
    pub(super) list: Vec<Event>,
    /// The number of general counters that the events use; 0 if the list does not say.
    pub(super) general: u32,
    /// The number of fixed counters that the events use.
    pub(super) fixed: u32,
}

/// The events of a folder.
pub(super) struct FolderEvents {
    /// The events of each kind of core.
    pub(super) events: BTreeMap<Kind, Events>,
    /// The number of events outside of cores.
    pub(super) uncore: usize,
}

/// Reads all files of a folder.
pub(super) fn read(folder: &Path) -> Result<FolderEvents> {
    let mut folder_events = FolderEvents {
        events: BTreeMap::new(),
        uncore: 0,
    };
    for entry in fs::read_dir(folder).with_context(|| format!("can't read {}", folder.display()))? {
        let path = entry?.path();
        let text =
            fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
        let Value::Array(items) = serde_json::from_str(&text)
            .with_context(|| format!("{} is not JSON", path.display()))?
        else {
            // Skips a file with an object instead of an array: it has the names of groups of
            // metrics.
            continue;
        };
        for item in &items {
            // Items without this field are metrics, or numbers of counters.
            let Some(name) = text_of(item, "EventName") else {
                continue;
            };
            let Some(kind) = Kind::of(text_of(item, "Unit")) else {
                folder_events.uncore += 1;
                continue;
            };
            let fields = item.as_object().context("an event is no object")?;
            let event =
                parse_event(fields).with_context(|| format!("{}: {name}", path.display()))?;
            folder_events
                .events
                .entry(kind)
                .or_default()
                .list
                .push(event);
        }
    }
    for events in folder_events.events.values_mut() {
        (events.general, events.fixed) = normalize(&mut events.list)?;
    }
    Ok(folder_events)
}

/// Sorts the events, and sets `counters` to 0 where all counters can count the event. Gives events of fixed counters
/// Linux's encoding: event 0, and the number of the counter + 1 as unit mask. Returns how many general and fixed counters
/// the events use.
fn normalize(events: &mut [Event]) -> Result<(u32, u32)> {
    // Some lists number fixed counters from 1, others from 0. The counter of instructions always
    // has the lowest number.
    let first = events
        .iter()
        .find(|event| event.name == "INST_RETIRED.ANY")
        .and_then(|event| event.fixed);
    let first = first.unwrap_or(0);
    for event in events.iter_mut() {
        let Some(listed) = event.fixed else { continue };
        let fixed = match event.unit_mask {
            0 => listed.checked_sub(first),
            mask => u32::try_from(mask - 1).ok(),
        };
        let fixed = fixed.with_context(|| format!("{}: unknown fixed counter", event.name))?;
        event.fixed = Some(fixed);
        (event.number, event.unit_mask) = (0, u64::from(fixed) + 1);
    }
    events.sort_by_key(|event| event.name.to_ascii_lowercase());
    if let Some(pair) = events
        .windows(2)
        .find(|pair| pair[0].name.eq_ignore_ascii_case(&pair[1].name))
    {
        bail!("there are two events {}", pair[0].name);
    }
    let all_counters = events.iter().fold(0, |mask, event| mask | event.counters);
    for event in events
        .iter_mut()
        .filter(|event| event.counters == all_counters)
    {
        event.counters = 0;
    }
    let highest_fixed = events.iter().filter_map(|event| event.fixed).max();
    Ok((
        u64::BITS - all_counters.leading_zeros(),
        highest_fixed.map_or(0, |highest| highest + 1),
    ))
}

fn text_of<'a>(item: &'a Value, key: &str) -> Option<&'a str> {
    item.get(key).and_then(Value::as_str)
}

/// Returns the facts of an event.
fn parse_event(fields: &Map<String, Value>) -> Result<Event> {
    let number = |key: &str| number(fields, key);
    let is_set = |key: &str| number(key).map(|value| value.unwrap_or(0) != 0);
    let counter = fields.get("Counter").and_then(Value::as_str);
    let (counters, fixed) = parse_counters(counter)?;
    let name = fields
        .get("EventName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if name.is_empty()
        || !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
    {
        bail!("the name has an unexpected character");
    }
    let event_number = number("EventCode")?;
    if event_number.is_none() && fixed.is_none() {
        bail!("it has no event number");
    }
    Ok(Event {
        name: name.to_owned(),
        number: event_number.unwrap_or(0),
        unit_mask: number("UMask")?.unwrap_or(0),
        counter_mask: number("CounterMask")?.unwrap_or(0),
        invert: is_set("Invert")?,
        edge: is_set("EdgeDetect")?,
        any_thread: is_set("AnyThread")?,
        counters,
        fixed,
        extra: match number("MSRIndex")? {
            None | Some(0) => None,
            Some(index) => Some((index, number("MSRValue")?.unwrap_or(0))),
        },
        period: number("SampleAfterValue")?.unwrap_or(0),
        deprecated: is_set("Deprecated")?,
    })
}

/// Returns the number in a field, or the first number if there are several.
fn number(fields: &Map<String, Value>, key: &str) -> Result<Option<u64>> {
    let text = match fields.get(key) {
        None => return Ok(None),
        Some(Value::Number(number)) => return Ok(number.as_u64()),
        Some(Value::String(text)) => text,
        Some(_) => bail!("{key} is not a number"),
    };
    let first = text.split(',').next().unwrap_or_default().trim();
    let digits = first
        .strip_prefix("0x")
        .or_else(|| first.strip_prefix("0X"));
    let number = match digits {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => first.parse(),
    };
    number
        .map(Some)
        .with_context(|| format!("{key} is not a number: {text}"))
}

/// Returns the general counters and the fixed counter in the text of `Counter`, such as `0,1,2,3`
/// or `Fixed counter 0`.
fn parse_counters(text: Option<&str>) -> Result<(u64, Option<u32>)> {
    let Some(text) = text else {
        return Ok((0, None));
    };
    if let Some(rest) = text.strip_prefix("Fixed") {
        // If the text has no number, the number is taken as 0: the unit mask tells which counter is
        // meant.
        let number = rest.strip_prefix(" counter ").map_or(Ok(0), str::parse);
        return Ok((
            0,
            Some(number.with_context(|| format!("unknown fixed counter: {text}"))?),
        ));
    }
    let mut mask = 0;
    for number in text.split(',') {
        let number: u32 = number
            .trim()
            .parse()
            .with_context(|| format!("unknown counters: {text}"))?;
        mask |= 1_u64
            .checked_shl(number)
            .context("the number of a counter is too large")?;
    }
    Ok((mask, None))
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:x} {:x}", self.name, self.number, self.unit_mask)?;
        let flags = [
            (self.invert, "inv"),
            (self.edge, "edge"),
            (self.any_thread, "any"),
            (self.deprecated, "deprecated"),
        ];
        for (_, flag) in flags.into_iter().filter(|(is_set, _)| *is_set) {
            write!(f, " {flag}")?;
        }
        let fields = [
            ("cmask", self.counter_mask),
            ("counters", self.counters),
            ("period", self.period),
        ];
        for (key, value) in fields.into_iter().filter(|(_, value)| *value != 0) {
            write!(f, " {key}={value:x}")?;
        }
        if let Some(number) = self.fixed {
            write!(f, " fixed={number:x}")?;
        }
        if let Some((register, value)) = self.extra {
            write!(f, " msr={register:x}:{value:x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(json: &str) -> String {
        let value: Value = serde_json::from_str(json).expect("it is JSON");
        parse_event(value.as_object().expect("it is an object"))
            .map_or_else(|error| error.to_string(), |e| e.to_string())
    }

    #[test]
    fn facts_become_a_line() {
        assert_eq!(
            line(r#"{"EventName": "A.B", "EventCode": "0xC0", "UMask": "0x1"}"#),
            "A.B c0 1"
        );
        assert_eq!(
            line(
                r#"{"EventName": "A", "EventCode": "0xB7, 0xBB", "UMask": "0x1", "MSRIndex": "0x1a6,0x1a7",
                    "MSRValue": "0x3F80", "Counter": "0,2", "Invert": "1", "CounterMask": "2", "SampleAfterValue": "16"}"#
            ),
            "A b7 1 inv cmask=2 counters=5 period=10 msr=1a6:3f80"
        );
        assert_eq!(
            line(r#"{"EventName": "A", "UMask": "0x3", "Counter": "Fixed"}"#),
            "A 0 3 fixed=0"
        );
        assert_eq!(
            line(r#"{"EventName": "A", "UMask": "0x3"}"#),
            "it has no event number"
        );
    }

    #[test]
    fn an_event_of_all_counters_has_no_limit() {
        let event_on = |name: &str, counters| Event {
            name: name.to_owned(),
            counters,
            ..Event::default()
        };
        let mut events = [event_on("b", 0xf), event_on("A", 0x4)];
        normalize(&mut events).expect("each is there once");
        assert_eq!(events, [event_on("A", 0x4), event_on("b", 0)]);
        assert!(normalize(&mut [event_on("a", 1), event_on("A", 1)]).is_err());
    }

    #[test]
    fn fixed_counters_have_linuxs_numbers() {
        let event_on = |name: &str, unit_mask, fixed| Event {
            name: name.to_owned(),
            number: 0xa,
            unit_mask,
            fixed: Some(fixed),
            ..Event::default()
        };
        let mut events = [
            event_on("INST_RETIRED.ANY", 0, 1),
            event_on("B", 0, 3),
            event_on("C", 2, 2),
        ];
        normalize(&mut events).expect("each is there once");
        let lines = events.map(|event| event.to_string());
        assert_eq!(
            lines,
            [
                "B 0 3 fixed=2",
                "C 0 2 fixed=1",
                "INST_RETIRED.ANY 0 1 fixed=0"
            ]
        );
        assert!(normalize(&mut [event_on("INST_RETIRED.ANY", 0, 1), event_on("B", 0, 0)]).is_err());
    }
}
