// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a profile by two other processes: `pmctl record`, and `pmctl export`, which reads the recording from a pipe.
//!
//! Separate processes can be killed at any time, when their request ends, and the memory that they use is free then.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Bytes;
use nix::libc;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use perfmon::Pmu;
use perfmon::spec;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

use super::request::{ProfileRequest, Refusal};
use crate::events::cpus::Cpus;
use crate::events::linux_pmu::{self, PmuEvent};
use crate::events::software;
use crate::system::child::own_program;
use crate::system::exit;
use crate::system::machine::Machine;
use crate::system::text::error_text;

/// The largest size of the records, as a value of `record --max-size`.
const MAX_RECORDING_SIZE: &str = "32M";
/// The largest size of a profile in bytes.
const MAX_PROFILE_BYTES: u64 = 64 << 20;

/// The largest number of bytes of a command's messages that are kept.
const MAX_ERROR_BYTES: u64 = 64 << 10;
/// The longest time that looking up functions may take after the recording.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(60);

/// A profile that was made.
pub(super) struct ServedProfile {
    pub(super) bytes: Bytes,
    /// The recorder's message about missing samples, if some are missing.
    pub(super) incomplete_message: Option<String>,
}

/// Refuses an event that can't be sampled, or that has a period or frequency of its own. `machine` is the machine whose
/// Linux PMUs `pmctl record` would find.
pub(super) fn check_event(text: &str, machine: &Machine, pmu: &Pmu) -> Result<(), Refusal> {
    let bad_request = |reason: String| Refusal::new(StatusCode::BAD_REQUEST, reason);
    let (texts, linux_events) = linux_pmu::split_sampled(&[text.to_owned()], machine, pmu)
        .map_err(|error| bad_request(error_text(&error)))?;
    let (texts, software) = software::split(&texts);
    let software = software.into_iter().map(PmuEvent::of_software);
    let linux_events = linux_events.into_iter().chain(software);
    let mut rates: Vec<_> = linux_events.map(|event| event.rate).collect();
    for text in &texts {
        let events = spec::parse_without_groups(text, pmu);
        let events = events.map_err(|error| bad_request(error.to_string()))?;
        rates.extend(events.iter().map(|event| event.rate));
    }
    match rates[..] {
        [None] => Ok(()),
        [Some(_)] => Err(bad_request(format!(
            "{text}: leave out the period or frequency of the event, and give the samples per second with hz=."
        ))),
        _ => Err(bad_request(format!(
            "{text}: a profile has one event. Make a profile for each event."
        ))),
    }
}

/// Records and exports the profile that a request asks for.
pub(super) async fn make_profile(
    request: &ProfileRequest,
    cpus: Option<&Cpus>,
) -> Result<ServedProfile, Refusal> {
    let io_refusal = |error: io::Error| {
        let reason = format!(
            "can't run `pmctl record` and `pmctl export` for the profile: {}",
            error_text(&error)
        );
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, reason)
    };
    let limit = Duration::from_secs(request.seconds.into()) + LOOKUP_TIMEOUT;
    let (mut recorder, mut exporter) = start(request, cpus).map_err(io_refusal)?;
    // The messages are read at the same time as the profile, so that no command waits because its pipe is full.
    let [recorder_errors, exporter_errors] = [recorder.stderr.take(), exporter.stderr.take()]
        .map(|stream| tokio::spawn(read_errors(stream)));
    let output = exporter.stdout.take();
    let work = async {
        let bytes = read_up_to(output, MAX_PROFILE_BYTES + 1).await?;
        let (recorder_errors, exporter_errors) = (recorder_errors.await??, exporter_errors.await??);
        io::Result::Ok((
            bytes,
            (recorder_errors, exporter_errors),
            recorder.wait().await?,
            exporter.wait().await?,
        ))
    };
    let result = timeout(limit, work).await.map_err(|_| {
        let reason = format!(
            "the profile was stopped, since it took more than {} s. Ask for fewer seconds, or a lower hz.",
            limit.as_secs()
        );
        Refusal::new(StatusCode::GATEWAY_TIMEOUT, reason)
    })?;
    let (bytes, (recorder_errors, exporter_errors), recorder_status, exporter_status) =
        result.map_err(io_refusal)?;
    assess_result(
        (bytes, recorder_status, exporter_status),
        &message_text(&recorder_errors),
        &message_text(&exporter_errors),
    )
}

/// Starts the recorder and the exporter, which reads from the recorder.
fn start(request: &ProfileRequest, cpus: Option<&Cpus>) -> io::Result<(Child, Child)> {
    let mut recorder = pmctl();
    recorder
        .args([
            "record",
            "-q",
            "-g",
            "-o",
            "-",
            "--max-size",
            MAX_RECORDING_SIZE,
        ])
        .arg(format!("--event={}", request.event))
        .arg(format!("--freq={}", request.hz))
        .arg(format!("--duration={}", request.seconds));
    match cpus {
        Some(cpus) => recorder.arg(format!("--cpu={cpus}")),
        None => recorder.arg("--all-cpus"),
    };
    let mut recorder = recorder.stdin(Stdio::null()).spawn()?;
    let recording = recorder.stdout.take().map(TryInto::<Stdio>::try_into);
    let mut exporter = pmctl();
    exporter.args(["export", "--to", "pprof", "-i", "-", "-o", "-"]);
    if !request.has_lines {
        // Inlined functions and lines are read from debug information, which can be large.
        exporter.arg("--no-inline");
    }
    // SAFETY: `pre_exec` requires a closure that is safe between fork and exec, where only
    // async-signal-safe code may run: this closure makes one system call, without pointers, and
    // neither allocates memory nor takes locks.
    unsafe {
        exporter.pre_exec(|| {
            // A low priority, since this may be much work. With 19, the lowest, it would not end in time on a busy machine.
            libc::setpriority(libc::PRIO_PROCESS, 0, 5);
            Ok(())
        });
    }
    let exporter = exporter
        .stdin(recording.transpose()?.unwrap_or_else(Stdio::null))
        .spawn()?;
    Ok((recorder, exporter))
}

/// Returns a command that runs this program. Its process is killed when the request or the server ends.
fn pmctl() -> Command {
    let mut command = Command::new(own_program());
    command
        .kill_on_drop(true)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: `pre_exec` requires a closure that is safe between fork and exec, where only async-signal-safe code may run:
    // this closure makes one system call, and neither allocates memory nor takes locks.
    unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
    command
}

/// Reads a stream to its end, but at most `limit` bytes.
async fn read_up_to(stream: Option<impl AsyncRead + Unpin>, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(limit).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// Reads all that a command writes to standard error, and returns the beginning.
async fn read_errors(stream: Option<ChildStderr>) -> io::Result<Vec<u8>> {
    let Some(mut stream) = stream else {
        return Ok(Vec::new());
    };
    let bytes = read_up_to(Some(&mut stream), MAX_ERROR_BYTES).await?;
    // Reads the rest, too: a command whose pipe is full would wait.
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(bytes)
}

/// Returns the text that a command has written to standard error, without the name `pmctl` in front.
fn message_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim().trim_start_matches("pmctl: ").to_owned()
}

/// Returns the profile, or the answer about its failure.
fn assess_result(
    (bytes, recorder_status, exporter_status): (Vec<u8>, ExitStatus, ExitStatus),
    recorder_errors: &str,
    exporter_errors: &str,
) -> Result<ServedProfile, Refusal> {
    if bytes.len() as u64 > MAX_PROFILE_BYTES {
        let reason = format!(
            "the profile is larger than {} MiB. Ask for fewer seconds, or a lower hz.",
            MAX_PROFILE_BYTES >> 20
        );
        return Err(Refusal::new(StatusCode::INSUFFICIENT_STORAGE, reason));
    }
    // At the size limit the recorder stops and succeeds, with a message.
    let is_cut = recorder_errors.contains("--max-size");
    if exporter_status.success() && !bytes.is_empty() {
        return Ok(ServedProfile {
            bytes: bytes.into(),
            incomplete_message: (!recorder_status.success() || is_cut)
                .then(|| recorder_errors.to_owned()),
        });
    }
    let status = match recorder_status.code().map(u8::try_from) {
        Some(Ok(exit::USAGE)) => StatusCode::BAD_REQUEST,
        // The counters are in use, or this user may not sample.
        Some(Ok(exit::NO_COUNT)) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let reason = if recorder_status.success() {
        exporter_errors
    } else {
        recorder_errors
    };
    Err(Refusal::new(status, reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::pmu::testing;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn an_event_may_have_no_period_or_frequency() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trees/uncore-amd");
        let machine = Machine::recorded(folder.as_ref()).expect("it is there");
        let check =
            |text| check_event(text, &machine, &testing::intel()).map_err(|refusal| refusal.status);
        for good in [
            "cycles",
            "instructions:u",
            "cpu/event=0xc0/",
            "page-faults",
            "ibs_op//",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "cpu/event=0xc0,period=1/",
            "cpu/event=0xc0,freq=99999/",
            "cycles,instructions",
            "cycles,page-faults",
            "ibs_op/period=4096/",
            "{cycles}",
            "no-such",
            "-o",
            "",
        ] {
            assert_eq!(check(bad), Err(StatusCode::BAD_REQUEST), "{bad}");
        }
    }

    #[test]
    fn the_answer_is_that_of_the_command_that_failed() {
        let code = |code: i32| ExitStatus::from_raw(code << 8);
        let status = |bytes: &[u8], recorded, exported| {
            let outcome = (bytes.to_vec(), code(recorded), code(exported));
            match assess_result(outcome, "recorder", "exporter") {
                Ok(profile) => Ok(profile.incomplete_message),
                Err(refusal) => Err((refusal.status.as_u16(), refusal.reason)),
            }
        };
        assert_eq!(status(b"x", 0, 0), Ok(None));
        assert_eq!(status(b"x", 125, 0), Ok(Some("recorder".to_owned())));
        let refusal = assess_result((b"x".to_vec(), code(0), code(0)), "--max-size: the end", "");
        assert!(refusal.is_ok_and(|profile| profile.incomplete_message.is_some()));
        assert_eq!(status(b"", 2, 1), Err((400, "recorder".to_owned())));
        assert_eq!(status(b"", 125, 1), Err((503, "recorder".to_owned())));
        assert_eq!(status(b"", 0, 1), Err((500, "exporter".to_owned())));
    }
}
