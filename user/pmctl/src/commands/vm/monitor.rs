// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's monitor (QMP), whose commands and answers are lines of JSON.

use std::fmt::{self, Display, Formatter};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::system::signals::{BlockedSignals, Event};

/// Error of a connection that QEMU has closed.
const QEMU_ENDED: &str = "QEMU has ended";

/// Error of a wait for the monitor, if this signal has ended the wait. The signal asks pmctl to
/// end.
#[derive(Debug)]
pub(super) struct EndedBySignal(pub(super) Signal);

impl Display for EndedBySignal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} has ended the wait for QEMU", self.0)
    }
}

impl std::error::Error for EndedBySignal {}

/// A connection to a monitor. QEMU may take any time to answer, so the functions of this type return the error
/// [`EndedBySignal`] if one of the signals comes meanwhile.
pub(super) struct Monitor<'a> {
    socket: BufReader<UnixStream>,
    signals: &'a BlockedSignals,
}

impl<'a> Monitor<'a> {
    /// Reads the monitor's greeting, and enables commands.
    pub(super) fn new(socket: UnixStream, signals: &'a BlockedSignals) -> Result<Self> {
        let mut monitor = Self {
            socket: BufReader::new(socket),
            signals,
        };
        monitor.read_line()?;
        monitor.execute("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// Executes a command, and returns its result.
    fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        let request = json!({ "execute": command, "arguments": arguments });
        let send_result = writeln!(self.socket.get_mut(), "{request}");
        send_result.context(QEMU_ENDED)?;
        loop {
            let mut answer = self.read_line()?;
            if let Some(error) = answer.get("error") {
                bail!("QEMU refuses the command {command}: {}", error["desc"]);
            }
            // Lines without error and result are events.
            if let Some(result) = answer.get_mut("return") {
                return Ok(result.take());
            }
        }
    }

    /// Waits for a line of JSON, and returns its value.
    fn read_line(&mut self) -> Result<Value> {
        if self.socket.buffer().is_empty() {
            self.wait()?;
        }
        let mut line = String::new();
        // QEMU writes whole lines.
        let length = self
            .socket
            .read_line(&mut line)
            .context("can't read from QEMU's monitor")?;
        if length == 0 {
            bail!(QEMU_ENDED);
        }
        serde_json::from_str(&line)
            .context("QEMU's monitor has answered with a line that is not JSON")
    }

    /// Waits until QEMU has written something.
    fn wait(&self) -> Result<()> {
        let socket = self.socket.get_ref().as_fd();
        loop {
            match self.signals.wait(None, Some(socket))? {
                Event::End { signal, .. } => return Err(EndedBySignal(signal).into()),
                Event::Other => return Ok(()),
                _ => {}
            }
        }
    }

    /// Stops the machine, and saves its state to a file. The machine's memory is in another file already.
    pub(super) fn save(&mut self, uri: &str) -> Result<()> {
        self.exclude_memory()?;
        self.execute("stop", &json!({}))?;
        self.execute("migrate", &json!({ "uri": uri }))?;
        self.wait_for_migration()
    }

    /// Loads a saved state into a machine that was started to wait for it.
    pub(super) fn restore(&mut self, uri: &str) -> Result<()> {
        self.exclude_memory()?;
        self.execute("migrate-incoming", &json!({ "uri": uri }))?;
        self.wait_for_migration()
    }

    /// Waits until the state is written or read.
    fn wait_for_migration(&mut self) -> Result<()> {
        loop {
            let state = self.execute("query-migrate", &json!({}))?;
            match state["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => bail!(
                    "QEMU can't save or restore the machine's state: {}",
                    state["error-desc"]
                ),
                _ => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Excludes the machine's memory from the state that is saved or restored.
    fn exclude_memory(&mut self) -> Result<()> {
        let capability = json!({ "capability": "x-ignore-shared", "state": true });
        self.execute(
            "migrate-set-capabilities",
            &json!({ "capabilities": [capability] }),
        )
        .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::raise;

    use super::*;

    #[test]
    fn a_signal_ends_the_wait_for_a_silent_monitor() {
        let signals = BlockedSignals::hold().expect("they can be held");
        let (socket, mut qemu) = UnixStream::pair().expect("it can be made");
        let greeting = r#"{"QMP": {}}"#;
        writeln!(qemu, "{greeting}").expect("it has room");
        raise(Signal::SIGTERM).expect("it is this thread's");
        let error = Monitor::new(socket, &signals).err().expect("it ends");
        let signal = error.downcast_ref::<EndedBySignal>().map(|ended| ended.0);
        assert_eq!(signal, Some(Signal::SIGTERM));
    }
}
