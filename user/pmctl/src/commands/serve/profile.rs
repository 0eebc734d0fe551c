// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile: `pmctl record` beside the server, and `pmctl export`, which reads what it writes.
//!
//! As processes of their own they end with the request, whatever they do, and their memory with them.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Bytes;
use nix::libc;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use perfmon::Pmu;
use perfmon::spec::{self, EventSpec};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::request::{ProfileRequest, Refusal};
use crate::events::cpus::Cpus;
use crate::system::child::own_program;
use crate::system::exit;

/// The most that is recorded, as `record --max-size` takes it.
const MAX_RECORDING_SIZE: &str = "32M";
/// The most bytes of a profile.
const MAX_PROFILE_BYTES: u64 = 64 << 20;
/// Limit of the time to find the functions, after the recording.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(60);

/// A profile that was made.
pub(super) struct ServedProfile {
    pub(super) bytes: Bytes,
    /// What the recorder says is missing, if something is.
    pub(super) incomplete: Option<String>,
}

/// Refuses an event that can't be sampled, or that has a rate of its own.
pub(super) fn check(text: &str, pmu: &Pmu) -> Result<(), Refusal> {
    let bad = |reason: String| Refusal::new(StatusCode::BAD_REQUEST, reason);
    let events = spec::parse_without_groups(text, pmu).map_err(|error| bad(error.to_string()))?;
    match &events[..] {
        [EventSpec { rate: None, .. }] => Ok(()),
        [_] => Err(bad(format!(
            "{text}: the event has a period or frequency of its own. Leave it out, and give samples per second with hz=."
        ))),
        _ => Err(bad(format!("{text}: a profile is of one event."))),
    }
}

/// Makes a profile.
pub(super) async fn make(
    wanted: &ProfileRequest,
    cpus: Option<&Cpus>,
) -> Result<ServedProfile, Refusal> {
    let failed = |error: io::Error| {
        let reason = format!("can't start pmctl as the recorder: {error}");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, reason)
    };
    let limit = Duration::from_secs(wanted.seconds.into()) + LOOKUP_TIMEOUT;
    let (mut recorder, mut exporter) = start(wanted, cpus).map_err(failed)?;
    let (words, more_words) = (recorder.stderr.take(), exporter.stderr.take());
    let output = exporter.stdout.take();
    let work = async {
        // Both write few words, so that neither waits for the other to be read.
        let bytes = read(output, MAX_PROFILE_BYTES + 1).await?;
        let words = (
            read(words, 1 << 16).await?,
            read(more_words, 1 << 16).await?,
        );
        io::Result::Ok((bytes, words, recorder.wait().await?, exporter.wait().await?))
    };
    let ended = timeout(limit, work).await.map_err(|_| {
        let reason = format!(
            "the profile took more than {} s, so it was stopped.",
            limit.as_secs()
        );
        Refusal::new(StatusCode::GATEWAY_TIMEOUT, reason)
    })?;
    let (bytes, (words, more_words), recorded, exported) = ended.map_err(failed)?;
    conclude(
        (bytes, recorded, exported),
        &error_text(&words),
        &error_text(&more_words),
    )
}

/// Starts the recorder and the exporter.
fn start(wanted: &ProfileRequest, cpus: Option<&Cpus>) -> io::Result<(Child, Child)> {
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
        .arg(format!("--event={}", wanted.event))
        .arg(format!("--freq={}", wanted.hz))
        .arg(format!("--duration={}", wanted.seconds));
    match cpus {
        Some(cpus) => recorder.arg(format!("--cpu={cpus}")),
        None => recorder.arg("--all-cpus"),
    };
    let mut recorder = recorder.stdin(Stdio::null()).spawn()?;
    let recording = recorder.stdout.take().map(TryInto::<Stdio>::try_into);
    let mut exporter = pmctl();
    exporter.args(["export", "--to", "pprof", "-i", "-", "-o", "-"]);
    if !wanted.has_lines {
        // They are read from debug information, which can be much.
        exporter.arg("--no-inline");
    }
    // SAFETY: Between fork and exec there is but one system call, which takes no pointer.
    unsafe {
        exporter.pre_exec(|| {
            // It may be much work. On a busy machine 19 would be next to nothing, and the time over before the end.
            libc::setpriority(libc::PRIO_PROCESS, 0, 5);
            Ok(())
        });
    }
    let exporter = exporter
        .stdin(recording.transpose()?.unwrap_or_else(Stdio::null))
        .spawn()?;
    Ok((recorder, exporter))
}

/// Returns a command of this program, which ends with the request and with the server.
fn pmctl() -> Command {
    let mut command = Command::new(own_program());
    command
        .kill_on_drop(true)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: Between fork and exec there is but one system call.
    unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
    command
}

/// Reads to the end, or so many bytes.
async fn read(from: Option<impl AsyncRead + Unpin>, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(limit).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// Returns what a command has said, without its name.
fn error_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim().trim_start_matches("pmctl: ").to_owned()
}

/// Returns the profile, or why there is none.
fn conclude(
    (bytes, recorded, exported): (Vec<u8>, ExitStatus, ExitStatus),
    words: &str,
    more_words: &str,
) -> Result<ServedProfile, Refusal> {
    if bytes.len() as u64 > MAX_PROFILE_BYTES {
        let reason = format!(
            "the profile is larger than {} MiB.",
            MAX_PROFILE_BYTES >> 20
        );
        return Err(Refusal::new(StatusCode::INSUFFICIENT_STORAGE, reason));
    }
    // Records beyond that are not lost, but never made: the recorder succeeds.
    let is_cut = words.contains("--max-size");
    if exported.success() && !bytes.is_empty() {
        return Ok(ServedProfile {
            bytes: bytes.into(),
            incomplete: (!recorded.success() || is_cut).then(|| words.to_owned()),
        });
    }
    let status = match recorded.code().map(u8::try_from) {
        Some(Ok(exit::USAGE)) => StatusCode::BAD_REQUEST,
        // The counters are in use, or it is forbidden.
        Some(Ok(exit::NO_COUNT)) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let words = if recorded.success() {
        more_words
    } else {
        words
    };
    Err(Refusal::new(status, words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::pmu::testing;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn an_event_has_no_rate_of_its_own() {
        let check = |text| check(text, &testing::intel()).map_err(|refusal| refusal.status);
        for good in ["cycles", "instructions:u", "cpu/event=0xc0/"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "cpu/event=0xc0,period=1/",
            "cpu/event=0xc0,freq=99999/",
            "cycles,instructions",
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
            let ended = (bytes.to_vec(), code(recorded), code(exported));
            match conclude(ended, "recorder", "exporter") {
                Ok(profile) => Ok(profile.incomplete),
                Err(refusal) => Err((refusal.status.as_u16(), refusal.reason)),
            }
        };
        assert_eq!(status(b"x", 0, 0), Ok(None));
        assert_eq!(status(b"x", 125, 0), Ok(Some("recorder".to_owned())));
        let cut = conclude((b"x".to_vec(), code(0), code(0)), "--max-size: the end", "");
        assert!(cut.is_ok_and(|profile| profile.incomplete.is_some()));
        assert_eq!(status(b"", 2, 1), Err((400, "recorder".to_owned())));
        assert_eq!(status(b"", 125, 1), Err((503, "recorder".to_owned())));
        assert_eq!(status(b"", 0, 1), Err((500, "exporter".to_owned())));
    }
}
