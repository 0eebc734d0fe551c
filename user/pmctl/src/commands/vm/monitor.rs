// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's monitor (QMP), whose commands and answers are lines of JSON.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// Error of a connection that QEMU has closed.
const QEMU_ENDED: &str = "QEMU has ended";

/// A connection to a monitor.
pub(super) struct Monitor {
    socket: BufReader<UnixStream>,
}

impl Monitor {
    /// Reads the monitor's greeting, and enables commands.
    pub(super) fn new(socket: UnixStream) -> Result<Self> {
        let mut monitor = Self {
            socket: BufReader::new(socket),
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

    /// Reads a line.
    fn read_line(&mut self) -> Result<Value> {
        let mut line = String::new();
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

    /// Saves the machine's state to a file, without its memory, which is in a file already.
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

    /// Excludes the memory from the states that are saved and restored.
    fn exclude_memory(&mut self) -> Result<()> {
        let capability = json!({ "capability": "x-ignore-shared", "state": true });
        self.execute(
            "migrate-set-capabilities",
            &json!({ "capabilities": [capability] }),
        )
        .map(drop)
    }
}
